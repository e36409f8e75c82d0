"""Convert values for agents: select parts by path, compare values, and print them without sensitive parts.

The functions are pure and know nothing about the application. They read attributes by name and run no properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    Path = tuple[Any, ...]
    Difference = tuple[str, Path, Any, Any]

TEXT, ITEMS, DEPTH, MAX_CHARACTERS = 2048, 50, 8, 20_000
"""Limits for values in answers: length of a string, size of a collection, nesting, and total characters."""
LISTED_END_ITEMS = ITEMS // 2
"""Number of elements displayed at each end of a larger collection that was requested directly."""
MIN_SECRET_CHARACTERS = 8
"""Minimum length of a string that is redacted as a secret."""
MIN_CUT_SECRET_CHARACTERS = 4
"""Minimum length of a partial secret that is redacted at the end of a truncated text."""
REDACTED = "<redacted>"
"""The text that replaces a secret."""
LEAF_TYPES = frozenset({int, float, bool, type(None), bytes, str})
"""Types of values without parts."""
ANY_KEY = "*"
"""Matches any key in a sensitive path."""
BASILISP_BRACKETS = {"basilisp.lang.vector": "[{}]", "basilisp.lang.list": "({})", "basilisp.lang.set": "#{{{}}}"}
"""Basilisp's collections other than mappings, by module, with their brackets."""
IMMUTABLE_TYPES = (str, bytes, int, float, complex, type(None), frozenset, range)
"""Types of values that cannot be changed."""
ACCESSOR_FAILED_REASON = "accessor-failed"
"""The reason for a refusal if the application's code failed, such as a getter, setter or predicate."""


class Refusal(Exception):  # noqa: N818  # a refusal is no error of the application
    """Raised when a query or change is refused. `reason` is one of the codes defined by the contract."""

    def __init__(self, reason: str, hint: str, **more: Any) -> None:
        super().__init__(hint)
        self.answer: dict[str, Any] = {"ok": False, "reason": reason, "hint": hint, **more}


class ValueFormatter:
    """Formats values in Python's notation, hiding those at the `hidden` paths.

    Large parts are replaced by markers with their type, size and path, unless `is_whole` is set.
    """

    def __init__(self, hidden: Sequence[Path] = (), *, is_whole: bool = False) -> None:
        self._hidden, self._is_whole, self._left = hidden, is_whole, MAX_CHARACTERS
        self._requested: Path | None = None
        self.redacted = self.elided = 0

    def show_requested(self, value: Any, path: Path) -> str:
        """Format the value at a requested path.

        If the value is large, its first and last parts are included, because a marker alone would be useless.
        """
        self._requested = path
        return self.show(value, path)

    def show(self, value: Any, path: Path = ()) -> str:
        """Format a value. `path` is its position in the state."""
        if self._hidden and any(_overlaps_hidden(hidden, path) for hidden in self._hidden):
            self.redacted += 1
            return REDACTED
        parts = None if isinstance(value, IMMUTABLE_TYPES[:-2]) else value_parts(value)
        text = self._format_leaf(value, path) if parts is None else self._format_branch(value, parts, path)
        self._left -= len(text) if parts is None else 2
        return text

    def _format_leaf(self, value: Any, path: Path) -> str:
        """Format a value without parts. A large string is replaced by a marker."""
        is_text = type(value) is str
        size = len(value) if is_text else 0
        if size > TEXT and not self._is_whole:
            head = f"{safe_repr(value[:TEXT] + '…')} " if path == self._requested else ""
            return head + self._mark("str", size, path)
        text = safe_repr(value)
        if len(text) > 6 * TEXT and not self._is_whole:
            return self._mark(type(value).__name__, len(text), path)
        return text

    def _format_branch(self, value: Any, parts: list[tuple[Any, Any]], path: Path) -> str:
        """Format a value with parts. A value that is large or nested too deeply is replaced by a marker."""
        kind = type(value)
        level = len(path) - len(self._requested or ())
        if parts and not self._is_whole and (level >= DEPTH or self._left <= 0):
            return self._mark(kind.__name__, len(parts), path)
        if len(parts) > ITEMS and not self._is_whole:
            if path != self._requested:
                return self._mark(kind.__name__, len(parts), path)
            return self._ends(kind.__name__, parts, path)
        rendered = [(key, self.show(part, (*path, key))) for key, part in parts]
        if kind.__module__ in BASILISP_BRACKETS:
            return BASILISP_BRACKETS[kind.__module__].format(" ".join([text for _, text in rendered]))
        if isinstance(value, Mapping):
            return "{" + ", ".join([f"{safe_repr(key)}: {text}" for key, text in rendered]) + "}"
        elements = ", ".join([text for _, text in rendered])
        if kind is list:
            return f"[{elements}]"
        if kind is tuple:
            return f"({elements},)" if len(rendered) == 1 else f"({elements})"
        if kind in (set, frozenset):
            return f"{{{elements}}}" if rendered else "set()"
        return f"{kind.__name__}({', '.join([f'{key}={text}' for key, text in rendered])})"

    def _ends(self, kind: str, parts: list[tuple[Any, Any]], path: Path) -> str:
        """Format the first and last parts of a large value, each with the last step of its path."""
        first, last = (
            ", ".join([f"{safe_repr(key)}: {self.show(part, (*path, key))}" for key, part in some])
            for some in (parts[:LISTED_END_ITEMS], parts[-LISTED_END_ITEMS:])
        )
        self.elided += 1
        return f"{first}, <{len(parts) - 2 * LISTED_END_ITEMS} more of {kind} {len(parts)}>, {last}"

    def _mark(self, kind: str, count: int, path: Path) -> str:
        """Count and return a marker that replaces a large part."""
        self.elided += 1
        return f"<elided {kind} {count} {list(path)!r}>"


def _overlaps_hidden(hidden: Path, path: Path) -> bool:
    """Return whether a path is at or below a hidden path."""
    return len(path) >= len(hidden) and all(key in (ANY_KEY, step) for key, step in zip(hidden, path))


def value_parts(value: Any) -> list[tuple[Any, Any]] | None:
    """Return the parts of a collection or record, each with its key or index, or None for any other value."""
    kind = type(value)
    if isinstance(value, Mapping):
        return list(value.items())
    if kind in (list, tuple, set, frozenset) or kind.__module__ in BASILISP_BRACKETS:
        return list(enumerate(value))
    names = getattr(kind, "__dataclass_fields__", None) or getattr(kind, "_fields", None)
    if names and not isinstance(value, type):
        return [(name, getattr(value, name, None)) for name in names]
    return None


def get_part(value: Any, path: Path) -> Any:
    """Return the part of a value at a path.

    Raises:
        Refusal: the path does not exist.
    """
    for index, key in enumerate(path):
        parts = None if isinstance(value, AbstractSet) else value_parts(value)
        found = [part for step, part in parts or () if type(step) is type(key) and step == key]
        if not found:
            names = ", ".join(safe_repr(step) for step, _ in (parts or ())[:ITEMS])
            location = f"where the keys are {names}" if names else "where the value has no parts"
            raise Refusal("path-not-found", f"the path exists up to {list(path[:index])!r}, {location}")
        value = found[0]
    return value


def sensitive_strings(value: Any, path: Path) -> Iterator[str]:
    """Yield the strings at or below a sensitive path that are long enough to be redacted."""
    parts = [value]
    for step in path:
        parts = _parts_after_step(parts, step)
    for part in parts:
        if type(part) is not str:
            yield from _strings_below(part)
        elif len(part) >= MIN_SECRET_CHARACTERS:
            yield part


def _parts_after_step(values: list[Any], step: Any) -> list[Any]:
    """Return the parts of values at one step of a sensitive path. Exact dicts are read directly."""
    found: list[Any] = []
    for value in values:
        kind = type(value)
        if kind is dict:
            if step == ANY_KEY:
                found += value.values()
            elif step in value:
                found.append(value[step])
        elif kind not in LEAF_TYPES:
            found += [part for at, part in value_parts(value) or () if step in (ANY_KEY, at)]
    return found


def _strings_below(value: Any) -> Iterator[str]:
    """Yield all strings in a value that are long enough to be redacted."""
    if type(value) is str:
        if len(value) >= MIN_SECRET_CHARACTERS:
            yield value
    elif type(value) not in LEAF_TYPES:
        for _, part in value_parts(value) or ():
            yield from _strings_below(part)


def differences(old: Any, new: Any, path: Path = ()) -> Iterator[Difference]:
    """Yield what was added, removed or changed between two values, with the path of each difference."""
    if old is new:
        return
    before, after = value_parts(old), value_parts(new)
    if type(old) is not type(new) or before is None or after is None or isinstance(old, AbstractSet):
        if type(old) is not type(new) or not _is_equal(old, new):
            yield "changed", path, old, new
        return
    old_parts, new_parts = dict(before), dict(after)
    for key in [*old_parts, *(key for key in new_parts if key not in old_parts)]:
        if key not in new_parts:
            yield "removed", (*path, key), old_parts[key], None
        elif key not in old_parts:
            yield "added", (*path, key), None, new_parts[key]
        else:
            yield from differences(old_parts[key], new_parts[key], (*path, key))


def differences_below(found: Iterator[Difference], at: Path) -> Iterator[Difference]:
    """Yield the differences at or below a path.

    If a value above the path changed as a whole, its parts at the path are compared.
    """
    for op, path, old, new in found:
        if path[: len(at)] == at:
            yield op, path, old, new
        elif at[: len(path)] == path:
            rest = at[len(path) :]
            yield from _difference(_part_list(old, rest), _part_list(new, rest), at)


def _difference(old: list[Any], new: list[Any], at: Path) -> Iterator[Difference]:
    """Yield the difference between two optional values, given as lists with at most one item."""
    if old and new:
        yield from differences(old[0], new[0], at)
    elif old or new:
        yield ("added", at, None, new[0]) if new else ("removed", at, old[0], None)


def _part_list(value: Any, path: Path) -> list[Any]:
    """Return a list with the part of a value at a path, or [] if the path does not exist."""
    try:
        return [get_part(value, path)]
    except Refusal:
        return []


def _is_equal(old: Any, new: Any) -> bool:
    """Return whether two values are equal. Values that cannot be compared count as different."""
    try:
        return bool(old == new)
    except Exception:  # noqa: BLE001  # arrays have no truth value
        return False


def is_mutable(value: Any) -> bool:
    """Return whether values of this type may change in place."""
    if isinstance(value, IMMUTABLE_TYPES):
        return False
    if type(value) is tuple:
        return any(is_mutable(part) for part in value)
    params = getattr(type(value), "__dataclass_params__", None)
    return params is None or not params.frozen


def safe_repr(value: Any) -> str:
    """Return the `repr` of a value, or a description of the error if that fails."""
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001  # it is the application's
        return f"<{type(value).__name__} that cannot be printed: {type(error).__name__}>"


def safe_message(error: BaseException) -> str:
    """Return the message of an exception, or a description of the error if getting the message fails."""
    try:
        return truncate(str(error), TEXT)
    except Exception as failure:  # noqa: BLE001  # `__str__` may raise anything
        return f"the message cannot be displayed: {type(failure).__name__}"


def truncate(text: str, most: int) -> str:
    """Shorten a string to `most` characters, and append an ellipsis if anything was removed."""
    return text if len(text) <= most else text[:most] + "…"


def escape_invisible_characters(text: str) -> str:
    """Escape the non-printable characters in a string. The text may come from the application's users."""
    return text if text.isprintable() else "".join([_escape_invisible(char) for char in text])


def _escape_invisible(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]


def remove_secrets(value: Any, secrets: Sequence[str]) -> Any:
    """Return a copy of an answer with each secret removed from all strings, in plain, printed and escaped form.

    `secrets` must be sorted with the longest first.
    """
    if not secrets:
        return value
    if isinstance(value, str):
        for secret in secrets:
            for form in {secret, safe_repr(secret)[1:-1], escape_invisible_characters(secret)}:
                value = value.replace(form, REDACTED)
        return _remove_cut_secrets(value, secrets) if "…" in value else value
    if isinstance(value, dict):
        return {key: remove_secrets(part, secrets) for key, part in value.items()}
    return [remove_secrets(part, secrets) for part in value] if isinstance(value, (list, tuple)) else value


def _remove_cut_secrets(text: str, secrets: Sequence[str]) -> str:
    """Remove partial secrets at the end of each truncated part of a string."""
    sections = text.split("…")
    for index, section in enumerate(sections[:-1]):
        for secret in secrets:
            torn = next(
                (n for n in range(len(secret), MIN_CUT_SECRET_CHARACTERS - 1, -1) if section.endswith(secret[:n])), 0
            )
            if torn:
                sections[index] = section[:-torn] + REDACTED
                break
    return "…".join(sections)
