"""Verification: what a fresh REPL makes of recorded evaluations, step by step, and what of them it reproduces.

`verifying` asks for steps to be run and is sent what came of each; whoever drives it has the REPL. The recorded value
and the new one came about independently of one another. Where both say the same, the value is taken to be that; where
they differ in nothing but addresses, times and their like, a pattern stands for both; everything else does not
reproduce.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.pictures import marked, pictures_in, without_data
from codriver.documents.steps import Step, lisp_steps, namespace_of, python_steps
from codriver.lisp.reader import read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from codriver.core.pictures import Picture
    from codriver.documents.recordings import Recorded
    from codriver.lisp.reader import Form


Verdict = Literal["ran", "same", "varies", "raises", "differs", "absent"]
"""`ran`: there is no value to compare. `differs`: it ran, and what came of it is another. `absent`: it cannot run."""

HIDDEN: Final = re.compile(r"<<redacted:[^>]*>>|\.\.\. [\d,]+ of [\d,]+ characters are left out here \.\.\.")
"""The marks that the log holds in place of a secret, or of the middle of a text that was too long for it."""
SECRET_MARK: Final = re.compile(r"<<redacted:[^>]*>>")
"""The mark that the log holds in place of a secret. Beside a text with one, the other text is never shown."""

_TYPOS: Final = frozenset(
    {"NameError", "SyntaxError", "IndentationError", "TabError", "ModuleNotFoundError", "CompilerException"}
)
_TYPO_PHASES: Final = frozenset(
    {*("read", "read-source", "compile", "compilation"), *("compile-syntax-check", "macro-syntax-check")}
)
_TYPO_WORDS: Final = ("Unable to resolve symbol", "Could not resolve symbol", "No such var", "No such namespace")
_EDIT_LOADED: Final = re.compile(r"edit_files loads ")
"""How the log says that an edit loaded definitions of a file, which are in it."""
_NO_NAMESPACE: Final = re.compile(r"\A(?:no module '[^']*' is imported|there is no namespace )")
"""How a REPL says that it evaluated nothing."""
_ENTERS: Final = re.compile(r"\(in-ns '([^\s()]+)\)")
ENDLESS: Final = "Endless"
"""The class that stands for having been interrupted, as it took too long."""
_MOVES: Final = re.compile(r"\((?:ns\s+(?:\^\S+\s+)*|in-ns\s+')([^\s()]+)")
_FAR: Final = 400


@dataclass(frozen=True, slots=True)
class Question:
    """Code to run in the fresh REPL, as what it was run when it was recorded."""

    code: str
    namespace: str | None = None
    file: str | None = None
    is_short: bool = False
    """Whether to wait for it a moment only, as it did not end by itself."""
    is_told: bool = False
    """Whether its value is printed as agents are told it: objects without a `repr` of their own by their `str`."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An error: its class, qualified unless built in, its message, and the phase it came in."""

    type: str
    message: str = ""
    phase: str = ""

    @property
    def name(self) -> str:
        """The class without its package."""
        return self.type.rpartition(".")[2]

    def __str__(self) -> str:
        """The error as a REPL says it."""
        return f"{self.name}: {self.message}" if self.message else self.name


@dataclass(frozen=True, slots=True)
class Observed:
    """The outcome of a step in the fresh REPL. `told`: what it showed beside its value, in full, as `value` is."""

    value: str | None = None
    out: str = ""
    raised: Raised | None = None
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """One step, and how far it reproduces. `value` is that of the fresh REPL; `pattern` one of it and the recorded.

    `note` says of a step that does not, in one line, what was recorded and what came. `out` is what it printed.
    """

    step: Step
    of: Recorded
    verdict: Verdict
    value: str | None = None
    pattern: str = ""
    raised: Raised | None = None
    out: str = ""
    note: str = ""
    recorded: str | None = None
    """The recorded value, of a step whose value is another."""
    shown: tuple[str, ...] = ()
    """The pictures that it showed beside its value, with their data."""
    drawn: str = ""
    """The value with the data of the pictures in it; blank where there are none."""
    is_alike: bool = False
    """Whether a picture of it is like the recorded one, and not the same."""
    is_typo: bool = False
    is_hidden: bool = False
    """Whether the log holds less of its code than was evaluated."""
    is_patch: bool = False
    """Whether it redefines what another module or namespace has, which a file of tests cannot."""

    @property
    def reproduces(self) -> bool:
        """Whether nothing is to be said of it; of a typo, that it was one."""
        return self.verdict not in {"differs", "absent"} or self.is_typo

    def demoted(self, why: str) -> Checked:
        """The checked step without its assertion, which does not hold in a file of its own; `why` becomes its note."""
        return replace(self, verdict="differs", pattern="", out="", raised=None, note=why)


Verifying = Generator[Question, Observed, tuple[Checked, ...]]

DEFAULT_NAMESPACES: Final = frozenset({"", "user", "cljs.user", "__main__"})


def steps_of(code: str, dialect: str) -> tuple[Step, ...]:
    """The steps of code; one step for code that cannot be told apart, none for comments alone."""
    steps = python_steps(code) if dialect == "python" else lisp_steps(code) or None
    if steps is not None:
        return steps
    return (Step(code.strip(), "expression"),) if code.strip() else ()


def verifying(evaluations: Iterable[Recorded], dialect: str) -> Verifying:
    """Ask for every step of the evaluations in order, and give what each came to."""
    checked: list[Checked] = []
    own: set[tuple[str, str]] = set()
    for evaluation in evaluations:
        checked += yield from _verify(evaluation, dialect, own)
    return tuple(checked)


def _verify(
    evaluation: Recorded, dialect: str, own: set[tuple[str, str]]
) -> Generator[Question, Observed, list[Checked]]:
    """Verify one evaluation; the names that the session gave itself, each with its namespace, are added to `own`."""
    if hidden := HIDDEN.search(evaluation.code):
        why = f"the log holds {hidden[0]} in its place, so that it cannot be run again"
        return [
            Checked(step, evaluation, "absent", note=why, is_hidden=True) for step in steps_of(evaluation.code, dialect)
        ]
    if not evaluation.values and _NO_NAMESPACE.search(evaluation.err):
        why = f"nothing of it was evaluated: {_last_line(evaluation.err)}"
        steps = steps_of(evaluation.code, dialect)
        return [Checked(step, evaluation, "absent", note=why, is_typo=True) for step in steps]
    if evaluation.file or (_EDIT_LOADED.match(evaluation.description) and evaluation.values):
        return [(yield from _verify_load(evaluation))]
    is_at_home = evaluation.namespace in DEFAULT_NAMESPACES
    # Sessions may take turns in a recording, and what one has moved to is not where the other is.
    namespace = None if is_at_home and not (dialect == "clojure" and evaluation.namespace) else evaluation.namespace
    values, aside = list(evaluation.values), list[str]()
    checked: list[Checked] = []
    steps = steps_of(evaluation.code, dialect)
    is_told = _tells_values(evaluation, steps, dialect)
    for step in steps:
        if dialect != "python" and (entered := _ENTERS.match(step.text)):
            yield Question(f"(require '{entered[1]})")  # it may have been loaded before
        is_apart = evaluation.namespace not in DEFAULT_NAMESPACES
        is_patch = is_apart and (yield from _is_patch(step, namespace, dialect, own))
        own |= set() if is_patch else {(evaluation.namespace, name) for name in step.gives}
        observed = yield Question(step.text, namespace, is_short=bool(evaluation.ending))
        if observed.raised is not None:
            left = [value for value in values if not _pictures(value)]
            checked.append(_failed(step, evaluation, observed.raised, left))
            break
        observed = _own(observed, step, dialect) if is_told else replace(observed, value=None)
        came = _came(step, evaluation, observed, values, aside, dialect)
        if dialect == "python" and came.verdict == "differs" and came.value is not None:
            told = yield Question("_", namespace, is_told=True)
            came = _as_told(came, told.value, evaluation)
        checked.append(replace(came, is_patch=is_patch, shown=tuple(filter(_pictures, observed.told))))
        if dialect != "python" and (moved := _MOVES.match(step.text)):
            namespace = moved[1]
            evaluation = replace(evaluation, namespace=namespace)  # the rest of it is there
    else:
        checked = _with_told(checked, [*aside, *values])
    return _with_output(evaluation, checked, dialect)


def _is_patch(
    step: Step, namespace: str | None, dialect: str, own: set[tuple[str, str]]
) -> Generator[Question, Observed, bool]:
    """Whether the namespace has a name already that the step defines, and that is not the session's own."""
    for name in step.gives:
        if (namespace, name) in own:
            continue
        there = f"{name!r} in globals()" if dialect == "python" else f"(some? (resolve '{namespace}/{name}))"
        observed = yield Question(there, namespace)
        if observed.value in {"True", "true"}:
            return True
    return False


def _verify_load(evaluation: Recorded) -> Generator[Question, Observed, Checked]:
    """Load the file as it was then, or as it is where an edit loaded parts of it; documents name the file as it is."""
    step = Step(_loading(evaluation), "import")
    observed = yield Question(evaluation.code, file=evaluation.file) if evaluation.file else Question(step.text)
    if observed.raised is None:
        return Checked(step, evaluation, "ran")
    if str(observed.raised.message) in evaluation.err and evaluation.err:
        note = f"the file did not load: {_short(str(observed.raised))}"
        return Checked(step, evaluation, "absent", is_typo=True, note=note)
    # A message may hold what the log hides.
    why = observed.raised.name if SECRET_MARK.search(evaluation.err) else _short(str(observed.raised))
    return Checked(step, evaluation, "absent", note=f"the file does not load: {why}")


def _loading(evaluation: Recorded) -> str:
    """Code that loads the same file, if the name of a module or namespace leads to the file."""
    if evaluation.values and (module := re.match(r"<module '([^']+)'", evaluation.values[-1])):
        return f"import {module[1]}"
    namespace = namespace_of(evaluation.code) or ("" if evaluation.file else evaluation.namespace)
    return f"(require '{namespace})" if namespace else f'(load-file "{evaluation.file}")'


def _is_expression(step: Step, dialect: str) -> bool:
    """True of a step that has a value, as all of a Lisp do."""
    return dialect != "python" or step.role == "expression"


def _tells_values(evaluation: Recorded, steps: Sequence[Step], dialect: str) -> bool:
    """True where values were told of the steps: Python's REPL tells none of code that ends in a statement."""
    has_told = bool(evaluation.values or evaluation.err or evaluation.ending)
    return has_told or all(_is_expression(step, dialect) for step in steps[-1:])


def _own(observed: Observed, step: Step, dialect: str) -> Observed:
    """The observation of a step, in which a value that is not its own was shown: only expressions have one."""
    if _is_expression(step, dialect) or observed.value is None:
        return observed
    return replace(observed, value=None, told=(*observed.told, observed.value))


def _came(
    step: Step, evaluation: Recorded, observed: Observed, values: list[str], aside: list[str], dialect: str
) -> Checked:
    """The verdict on a step that did not fail; its recorded value leaves `values`, pictures before it go `aside`."""
    if observed.value is None:
        return Checked(step, evaluation, "ran", out=observed.out)
    fresh = without_data(observed.value)
    _put_aside(values, fresh, aside)
    if not values:
        failed = _last_line(evaluation.err) or "no value"
        return _differs(step, evaluation, failed, fresh, observed.out)
    recorded = without_data(values.pop(0))
    match = None if HIDDEN.search(recorded) else compare(recorded, fresh, dialect, evaluation.time)
    if match is None:
        return _differs(step, evaluation, recorded, fresh, observed.out)
    note = "cut when it was recorded: what is beyond came once" if match.is_cut else match.note
    verdict: Verdict = "varies" if match.pattern else "same"
    came = Checked(step, evaluation, verdict, fresh, match.pattern, out=observed.out, note=note)
    return replace(came, is_alike=bool(match.note), drawn=observed.value if pictures_in(fresh) else "")


def _as_told(came: Checked, told: str | None, evaluation: Recorded) -> Checked:
    """The verdict on a step whose value is another, and may be the same once printed as agents are told values.

    A document compares by `repr`, which says less of such a value, and another address each time.
    """
    if told is None or came.recorded is None or not came.value:
        return came
    match = compare(came.recorded, told, "python", evaluation.time)
    if match is None:
        return came
    return replace(came, verdict="varies", pattern=opened(came.value), note="")


def _put_aside(values: list[str], fresh: str, aside: list[str]) -> None:
    """Put the recorded pictures aside that were shown before the value which stands against the fresh one.

    Figures are shown when they were drawn on, so that any number of them may stand between the values of statements.
    """
    count = next((place for place, value in enumerate(values) if not _pictures(value)), len(values))
    if pictures := pictures_in(fresh):
        count = next((place for place in range(count) if _pictures(values[place]) == pictures), 0)
    aside += values[:count]
    del values[:count]


def _pictures(value: str) -> tuple[Picture, ...]:
    return pictures_in(without_data(value))


def _with_told(checked: list[Checked], recorded: Sequence[str]) -> list[Checked]:
    """The steps with what they showed as it was recorded; the last of them says which picture came otherwise.

    Run one after the other, statements show what they drew more often than in one evaluation: of what is shown, that
    alone is kept which is most like a recorded picture, the latest of those that are as like it.
    """
    shown = [(place, text) for place, one in enumerate(checked) for text in one.shown]
    kept, notes, is_alike = set[tuple[int, str]](), list[str](), True
    for picture in (one for value in recorded for one in _pictures(value)):
        alike = [
            (note, one)
            for one in reversed(shown)
            if (note := compare_pictures([picture], _pictures(one[1]))) is not None
        ]
        note, found = min(alike, key=lambda pair: bool(pair[0]), default=("", None))
        if found is not None:
            kept.add(found)
        else:
            is_alike, note = False, f"recorded: {picture.words}; in a fresh REPL: no such picture"
        notes += [note] * bool(note)
    checked = [
        replace(one, shown=tuple(text for text in one.shown if (place, text) in kept))
        for place, one in enumerate(checked)
    ]
    if not notes:
        return checked
    last = max((place for place, one in enumerate(checked) if one.shown), default=len(checked) - 1)
    told = replace(checked[last], note="; ".join(filter(None, (checked[last].note, *notes))), is_alike=is_alike)
    return [*checked[:last], told if is_alike else told.demoted(told.note), *checked[last + 1 :]]


def strictly(one: Checked) -> Checked:
    """The checked step, of which a picture that is alike and not the same does not reproduce."""
    return one.demoted(one.note) if one.is_alike else one


def _failed(step: Step, evaluation: Recorded, raised: Raised, values: Sequence[str]) -> Checked:
    """The verdict on a step that failed, which is the end of its evaluation."""
    if evaluation.ending and raised.type == ENDLESS:
        return Checked(step, evaluation, "absent", is_typo=True, note=_short(evaluation.ending))
    is_known = re.search(opened(raised.message or raised.name), evaluation.err) is not None
    if values or not is_known:
        recorded = values[0] if values else _last_line(evaluation.err) or "no failure"
        note = _difference(recorded, str(raised))
        return Checked(step, evaluation, "absent", note=note)
    if is_typo(raised):
        note = f"it failed then as now: {_short(str(raised))}"
        return Checked(step, evaluation, "absent", raised=raised, is_typo=True, note=note)
    return Checked(step, evaluation, "raises", raised=raised)


def is_typo(raised: Raised) -> bool:
    """Whether an error tells of code that was never meant, as of a name that is nowhere."""
    return (
        raised.name in _TYPOS or raised.phase in _TYPO_PHASES or raised.message.startswith(_TYPO_WORDS)
        or raised.type == "namespace-not-found"
    )  # fmt: skip


def _with_output(evaluation: Recorded, checked: list[Checked], dialect: str) -> list[Checked]:
    """The steps with their output, if the whole is what was recorded; else with a note."""
    printed = "".join(one.out for one in checked)
    is_secret = SECRET_MARK.search(evaluation.out) is not None
    if printed == evaluation.out and not is_secret:
        return checked
    is_comparable = printed and evaluation.out and not is_secret
    match = compare(evaluation.out, printed, dialect, evaluation.time) if is_comparable else None
    said = "" if match is not None else f"printed, {_difference(evaluation.out, printed)}"
    plain = [replace(one, out="") for one in checked]
    for place, one in enumerate(checked):
        if said and (one.out or place == len(checked) - 1) and one.verdict in {"ran", "same", "varies"}:
            plain[place] = replace(plain[place], verdict="differs", pattern="", note=said)
            break
    return plain


def _differs(step: Step, evaluation: Recorded, recorded: str, fresh: str, out: str) -> Checked:
    note = _difference(recorded, fresh)
    is_secret = SECRET_MARK.search(recorded) is not None
    kept = None if is_secret else recorded
    return Checked(step, evaluation, "differs", recorded if is_secret else fresh, out=out, note=note, recorded=kept)


def _difference(recorded: str, fresh: str) -> str:
    """Both texts; of what was recorded without its secrets, the fresh one, which may hold them, is left out."""
    if mark := SECRET_MARK.search(recorded):
        return f"the log holds {mark[0]} in the place of a secret, so that nothing is compared with it"
    return f"recorded: {_short(recorded)}; in a fresh REPL: {_short(fresh)}"


def _short(text: str) -> str:
    line = " ⏎ ".join(text.strip().splitlines()) or "nothing"
    return line if len(line) <= _FAR else f"{line[:_FAR]}… ({len(text)} characters)"


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


HOME: Final = r"\b(?:__main__|user\d*)\."
"""Where the embedded Python keeps the classes of a session, by which it is."""

_VARYING: Final = {
    "home": HOME,
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
"""By name: what of a printed value depends on the moment or the process, as a pattern. The first that fits counts."""

_ANY: Final = re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in _VARYING.items()))
_TODAY: Final = frozenset({"moment", "datetime", "clock", "epoch"})
"""Those that are of the day: two values of one day may say the same, and another day they will not."""
_DAY_MS: Final = 86_400_000
_LONGEST: Final = 20_000
"""Characters of a value in which it is looked for what varies."""
_CUT: Final = re.compile(r"\.\.\.|…|<\w+ of \d+>|(?<=[\[({ ])#(?=[\])}, ])")
"""The marks that printing puts in the place of what it leaves out, for length or for depth."""


@dataclass(frozen=True, slots=True)
class Match:
    """The match of a fresh value with a recorded one. `pattern`: a regular expression of both; blank where they agree.

    `is_cut`: what was recorded is the beginning of it alone. `note`: pictures in it that are alike and not the same.
    """

    pattern: str = ""
    is_cut: bool = False
    note: str = ""


def compare(recorded: str, fresh: str, dialect: str, time_ms: int = 0) -> Match | None:
    """The match of the fresh value with the recorded one, which is of `time_ms`; None where there is none.

    Pictures are compared by the facts of their headers: of the same digest they are the same, of one kind and as many
    pixels they are alike, and the text beside them is compared as any. A kernel tells a picture with no text beside it.
    """
    recorded, fresh = without_data(recorded), without_data(fresh)
    before, now = pictures_in(recorded), pictures_in(fresh)
    if not (before or now):
        return _compare_texts(recorded, fresh, dialect, time_ms)
    note = compare_pictures(before, now)
    texts = [marked(text, lambda _one: "").strip() for text in (recorded, fresh)]
    match = Match() if not texts[0] else _compare_texts(texts[0], texts[1], dialect, time_ms)
    return None if note is None or match is None else replace(match, note=note)


def compare_pictures(recorded: Sequence[Picture], fresh: Sequence[Picture]) -> str | None:
    """A note on the pictures that are alike and not the same, blank where all are; None where some are not alike."""
    if len(recorded) != len(fresh):
        return None
    notes = []
    for one, other in zip(recorded, fresh, strict=True):
        if not one.digest or one.digest != other.digest:
            if (one.kind, one.size) != (other.kind, other.size):
                return None
            notes.append(f"the picture differs ({one.words}; in a fresh REPL: {other.words})")
    return "; ".join(notes)


def _compare_texts(recorded: str, fresh: str, dialect: str, time_ms: int) -> Match | None:
    if len(recorded) <= _LONGEST and (varying := _pattern(recorded, fresh, time_ms)):
        return Match(varying)
    if recorded == fresh or are_equal(recorded, fresh, dialect):
        return Match()
    if (cut := _CUT.search(recorded)) and cut.start() > 0 and fresh.startswith(recorded[: cut.start()].rstrip(", ")):
        return Match(is_cut=True)
    return None


def opened(text: str) -> str:
    """A pattern of a text, open in all that may vary."""
    return "".join(_VARYING[name] if name else re.escape(part) for name, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """The text in parts: each with the name of what varies in it, blank where nothing does."""
    at = 0
    for found in _ANY.finditer(text):
        yield "", text[at : found.start()]
        yield str(found.lastgroup), found[0]
        at = found.end()
    yield "", text[at:]


def _pattern(recorded: str, fresh: str, time_ms: int) -> str:
    """A pattern of both, where they differ in what varies alone, or tell the time at which they were; else blank."""
    ones, others = list(_parts(recorded)), list(_parts(fresh))
    if len(ones) != len(others):
        return ""
    pieces, varies = [], False
    for (name, text), (other_name, other) in zip(ones, others, strict=True):
        if name != other_name or (not name and text != other):
            return ""
        is_open = bool(name) and (text != other or (name in _TODAY and _is_of(text, time_ms)))
        varies |= is_open
        pieces.append(_VARYING[name] if is_open else re.escape(text))
    return "".join(pieces) if varies else ""


def _is_of(text: str, time_ms: int) -> bool:
    """Whether a text that did not change tells the day it was recorded on."""
    if not time_ms:
        return False
    if re.fullmatch(_VARYING["epoch"], text):
        return abs(int(text[:10]) * 1000 - time_ms) < _DAY_MS
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    if len(numbers) < 3 or not 1 <= numbers[1] <= 12 or not 1 <= numbers[2] <= 31:  # month and day
        return False
    days = _days(numbers[0], numbers[1], numbers[2])
    return abs(days * _DAY_MS - time_ms) < 2 * _DAY_MS


def _days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01. Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil."""
    year -= month <= 2  # the year begins in March
    era = year // 400
    of_era = year - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1  # as above
    return era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468


def are_equal(one: str, other: str, dialect: str) -> bool:
    """Whether two printed values are one, in whatever order sets and maps are printed."""
    if dialect in {"python", "hy"}:
        values = python_literal(one), python_literal(other)
        return None not in values and repr(_ordered(values[0])) == repr(_ordered(values[1]))
    return _canonical(one) == _canonical(other)


def python_literal(text: str) -> tuple[object] | None:
    """The value of a literal, alone in a tuple; None for other text, and for a value that does not equal itself."""
    if text in {"True", "False", "None"}:
        return (text == "True" if text != "None" else None,)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return None
    is_same = value == value  # noqa: PLR0124  # not a number is not
    return (value,) if is_same else None


def _ordered(value: object) -> object:
    """A literal's value with its sets in an order; a dict keeps its own, which Python promises."""
    if isinstance(value, set | frozenset):
        return ("set", sorted(repr(_ordered(item)) for item in value))
    if isinstance(value, dict):
        return [(_ordered(key), _ordered(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return (type(value).__name__, [_ordered(item) for item in value])
    return value


def _canonical(text: str) -> str:
    """A printed Lisp value with its sets and maps in an order."""
    return " ".join(_shape(form, text) for form in read(text).forms)


def _shape(form: Form, text: str) -> str:
    """One form of it."""
    children = form.children
    if not children:
        return text[form.start : form.end]
    shapes = [_shape(child, text) for child in children]
    before = text[form.start : children[0].start]
    if form.kind == "set":
        shapes.sort()
    elif form.kind == "map" and len(shapes) % 2 == 0:
        shapes = [f"{key} {value}" for key, value in sorted(zip(shapes[::2], shapes[1::2], strict=True))]
    return before + " ".join(shapes) + text[children[-1].end : form.end]
