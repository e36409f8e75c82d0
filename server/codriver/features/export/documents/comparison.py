"""Compare recorded values with those of a fresh REPL, allowing for parts that vary from run to run.

Recorded and fresh values are produced independently, so equal text means an equal value. If two texts differ only in
addresses, times and similar parts, a pattern that matches both is used. All other values count as not reproducible.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codriver.core.images import find_images, replace_image_data, replace_marks
from codriver_lisp.reader import read_forms

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from codriver.core.images import ImageFacts
    from codriver_lisp.reader import Form


HOME_MODULE_PATTERN: Final = r"\b(?:__main__|user\d*)\."
"""Matches the name of the session's module in the embedded Python REPL, which precedes the names of its classes."""

_VARYING_PATTERNS: Final = {
    "home": HOME_MODULE_PATTERN,
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "moment": r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?)?",
    "datetime": r"datetime\.(?:datetime|date|time)\([\d, ]+",
    "clock": r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?",
    "address": r"0x[0-9a-fA-F]{4,16}",
    "hash": r"@[0-9a-f]{5,8}\b",
    "path": r"(?:/private/(?:tmp|var)|/tmp|/var/folders)/[\w./+-]+",
    "evaluation": r"<eval \d+>",
    "gensym": r"\b[\w*+!?<>$.-]{0,60}?__\d+(?:__auto__)?#?",
    "eval": r"\$?\beval\d+",
    "duration": r"\b\d+(?:\.\d+)?(?:[eE]-?\d+)? ?(?:ns|µs|us|ms|msecs|secs|seconds|s)\b",
    "epoch": r"\b1[0-9]{9}(?:\.\d+|\d{3}|\d{6}|\d{9})?\b",
}
"""Patterns for parts of printed values that depend on the time or the process, by name. The first match wins."""

_ANY_VARYING_PART: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _VARYING_PATTERNS.items()))
"""Matches any of the varying parts. The name of the matching group is the name of the pattern."""
_DAY_DEPENDENT_NAMES: Final = frozenset({"moment", "datetime", "clock", "epoch"})
"""Names of the patterns for values that depend on the day.

Two such values may be equal on one day and different on the next.
"""
_MS_PER_DAY: Final = 86_400_000
_MAX_SEARCHED_CHARACTERS: Final = 20_000
"""Length above which a value is not searched for varying parts."""
_OMISSION_MARK: Final = re.compile(r"\.\.\.|…|<\w+ of \d+>|(?<=[\[({ ])#(?=[\])}, ])")
"""Matches the markers that printers use for parts omitted because of length or depth limits."""


@dataclass(frozen=True, slots=True)
class Match:
    """The result of comparing a fresh value with a recorded one that it matches."""

    pattern: str = ""
    """A regular expression that matches both values, or an empty string if they are equal."""
    is_cut: bool = False
    """Whether the recorded text is truncated."""
    note: str = ""
    """A description of images that are similar but not identical."""


def match_value(recorded: str, fresh: str, dialect: str, time_ms: int = 0) -> Match | None:
    """Compare a fresh value with one that was recorded at `time_ms`. Return None if they do not match.

    Images match if they have the same type and the same size in pixels. If their bytes differ, the result has a note.
    Text next to an image is compared like any other text, unless the recorded value is only an image.
    """
    recorded, fresh = replace_image_data(recorded), replace_image_data(fresh)
    before, now = find_images(recorded), find_images(fresh)
    if not (before or now):
        return _compare_strings(recorded, fresh, dialect, time_ms)
    note = compare_images(before, now)
    strings = [replace_marks(text, lambda _mark: "").strip() for text in (recorded, fresh)]
    match = Match() if not strings[0] else _compare_strings(strings[0], strings[1], dialect, time_ms)
    return None if note is None or match is None else replace(match, note=note)


def compare_images(recorded: Sequence[ImageFacts], fresh: Sequence[ImageFacts]) -> str | None:
    """Compare two sequences of images, and return a note on the differences.

    The note is empty if all images are identical. Return None if the images are not even similar.
    """
    if len(recorded) != len(fresh):
        return None
    notes = []
    for shape, other in zip(recorded, fresh, strict=True):
        if not shape.digest or shape.digest != other.digest:
            if (shape.kind, shape.size) != (other.kind, other.size):
                return None
            notes.append(f"the image differs ({shape.description}; in a fresh REPL: {other.description})")
    return "; ".join(notes)


def match_images(
    recorded: Sequence[ImageFacts], displayed: Sequence[Sequence[ImageFacts]], *, is_again: bool = False
) -> list[tuple[int | None, str]]:
    """Match recorded images with displayed ones.

    For each recorded image, return the index of the matching displayed image, or None if there is none, and a note.
    Identical images are preferred to similar ones, and later images to earlier ones. A displayed image matches only one
    recorded image. With `is_again`, it may match several recorded images if no other match is found.
    """
    found: dict[int, tuple[int | None, str]] = {}
    for is_free, is_same in ((True, True), (True, False), *([(False, False)] * is_again)):
        for index in reversed(range(len(recorded))):
            used = {at for at, _ in found.values()} if is_free else set()
            notes = (
                (at, note)
                for at in reversed(range(len(displayed)))
                if at not in used and (note := compare_images([recorded[index]], displayed[at])) is not None
            )
            like = None if index in found else next((shape for shape in notes if not (is_same and shape[1])), None)
            found |= {index: like} if like else {}
    missing = "recorded: {}; in a fresh REPL: no such image"
    return [found.get(index, (None, missing.format(shape.description))) for index, shape in enumerate(recorded)]


def _compare_strings(recorded: str, fresh: str, dialect: str, time_ms: int) -> Match | None:
    """Compare two printed values, without their images. Return None if they do not match."""
    if len(recorded) <= _MAX_SEARCHED_CHARACTERS and (varying := _common_pattern(recorded, fresh, time_ms)):
        return Match(varying)
    if recorded == fresh or are_equal(recorded, fresh, dialect):
        return Match()
    if (
        (cut := _OMISSION_MARK.search(recorded))
        and cut.start() > 0
        and fresh.startswith(recorded[: cut.start()].rstrip(", "))
    ):
        return Match(is_cut=True)
    return None


def pattern_for_text(text: str) -> str:
    """Return a regular expression that matches a string with any values for its varying parts, such as addresses."""
    return "".join(_VARYING_PATTERNS[name] if name else re.escape(part) for name, part in _split_varying_parts(text))


def _split_varying_parts(text: str) -> Iterator[tuple[str, str]]:
    """Split a string into fixed and varying parts.

    Each part comes with the name of the pattern that it matches, which is empty for a fixed part.
    """
    at = 0
    for found in _ANY_VARYING_PART.finditer(text):
        yield "", text[at : found.start()]
        yield str(found.lastgroup), found[0]
        at = found.end()
    yield "", text[at:]


def _common_pattern(recorded: str, fresh: str, time_ms: int) -> str:
    """Return a pattern that matches both texts.

    Return an empty string if the texts are equal, or if they also differ in parts that do not vary from run to run.
    """
    ones, others = list(_split_varying_parts(recorded)), list(_split_varying_parts(fresh))
    if len(ones) != len(others):
        return ""
    patterns, varies = [], False
    for (name, text), (other_name, other) in zip(ones, others, strict=True):
        if name != other_name or (not name and text != other):
            return ""
        is_open = bool(name) and (text != other or (name in _DAY_DEPENDENT_NAMES and _is_near_recording(text, time_ms)))
        varies |= is_open
        patterns.append(_VARYING_PATTERNS[name] if is_open else re.escape(text))
    return "".join(patterns) if varies else ""


def _is_near_recording(text: str, time_ms: int) -> bool:
    """Return whether a date or time in a value is within two days of the recording."""
    if not time_ms:
        return False
    if re.fullmatch(_VARYING_PATTERNS["epoch"], text):
        return abs(int(text[:10]) * 1000 - time_ms) < _MS_PER_DAY
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if len(numbers) < 3 or not 1 <= numbers[1] <= 12 or not 1 <= numbers[2] <= 31:  # months and days
        return False
    days = _days_since_epoch(numbers[0], numbers[1], numbers[2])
    return abs(days * _MS_PER_DAY - time_ms) < 2 * _MS_PER_DAY


def _days_since_epoch(year: int, month: int, day: int) -> int:
    """Return the number of days between 1970-01-01 and a date.

    Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
    """
    year -= month <= 2  # the algorithm's year starts in March
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1  # as above
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def are_equal(first: str, second: str, dialect: str) -> bool:
    """Return whether two printed values are equal, ignoring the order of sets and maps."""
    if dialect in {"python", "hy"}:
        values = python_literal(first), python_literal(second)
        return None not in values and repr(_sort_sets(values[0])) == repr(_sort_sets(values[1]))
    return _canonical_text(first) == _canonical_text(second)


def python_literal(text: str) -> tuple[object] | None:
    """Return the value of a Python literal in a 1-tuple, or None for other text and for NaN."""
    if text in {"True", "False", "None"}:
        return (text == "True" if text != "None" else None,)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    is_same = value == value  # noqa: PLR0124  # NaN is not equal to itself
    return (value,) if is_same else None


def _sort_sets(value: object) -> object:
    """Return the value with its sets sorted. The order of dicts is preserved, because it is reproducible."""
    if isinstance(value, set | frozenset):
        return ("set", sorted(repr(_sort_sets(item)) for item in value))
    if isinstance(value, dict):
        return [(_sort_sets(key), _sort_sets(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return (type(value).__name__, [_sort_sets(item) for item in value])
    return value


def _canonical_text(text: str) -> str:
    """Return a printed Lisp value with its sets and maps in sorted order."""
    return " ".join(_canonical_form(form, text) for form in read_forms(text).forms)


def _canonical_form(form: Form, text: str) -> str:
    children = form.children
    if not children:
        return text[form.start : form.end]
    shapes = [_canonical_form(child, text) for child in children]
    before = text[form.start : children[0].start]
    if form.kind == "set":
        shapes.sort()
    elif form.kind == "map" and len(shapes) % 2 == 0:
        shapes = [f"{key} {value}" for key, value in sorted(zip(shapes[::2], shapes[1::2], strict=True))]
    return before + " ".join(shapes) + text[children[-1].end : form.end]
