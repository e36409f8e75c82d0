"""The handoff: the standing of the work in a workspace's REPLs, for an agent that takes over, or that has forgotten.

Pure: the entities of the log in, a text out, of 4,000 bytes at most, which are about 1,000 tokens. First evaluations
and runs of tests are put together again from their entities, as a `Story`. A server that still knows an evaluation
knows its outcome; for all others the log alone tells: an error without a result. Facts that no log tells come as a
`Present`. The text begins with the most urgent things; if not all fit, each kind keeps its newest.

Names are found, in evaluated code and in source files, by the shape of their definitions, at the beginning of a line:
nothing is parsed, as this serves an overview over hundreds of texts, some of them cut.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.values import CHECKPOINT, NO_KNOWN_TEST, NOT_LISP, checkpoint_name
from codriver.errors import cut
from codriver.files import KIBIBYTE, MEBIBYTE, Links, Rules, read
from codriver.files.working_trees import files_of
from codriver.log.control_characters import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.log.output_log import Entry


CONNECTED: Final = re.compile(r"REPL (\S+) connected: (\S+) at ")
RAN: Final = re.compile(
    r"\S+ ran (?P<what>.+?): (?P<tests>\d+) tests?, \d+ passed, (?P<failed>\d+) failed, (?P<errors>\d+) errors?"
    r"(?:: (?P<names>.*?))?(?:; stopped in (?P<stopped>.*))?",
    re.DOTALL,
)
EDITED: Final = re.compile(r"(\S+) edited (.+)")
COUNTED: Final = re.compile(r"(.+?) \(\d+\)(?:, |\Z)")
"""One of the files of a batch, followed by the number of its edits."""
LOADED: Final = re.compile(r"(?:load|(?:an edit|edit_files|run_tests) loads) (\S.*?)(?:, line [\d, ]+)?", re.DOTALL)
"""A description that a tool gave: a file was loaded, or its edited forms were."""
TOOK_BACK: Final = re.compile(r"\S+ took back what failed tests \((\S+)\) in .+")
WRONG: Final = re.compile(r"(?i)error|exception|traceback|interrupt")


@dataclass(frozen=True, slots=True)
class Step:
    """One evaluation. `life` is the line of its REPL's connection, 0 if unknown; `goal` its purpose.

    `error` is the error in a line, blank if it went well; `meant` are the names of its definitions; `file` was loaded.
    """

    id: str
    who: str
    key: str
    namespace: str
    line: int
    last_line: int
    timestamp: int
    code: str
    goal: str = ""
    file: str = ""
    error: str = ""
    meant: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    """The names that the code assigned at the top of a module, in Python alone: in Lisp these are definitions."""
    life: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the code defined."""
        return () if self.error else self.meant


@dataclass(frozen=True, slots=True)
class TestsRun:
    """A run of tests: `selection` in words, and the names of the failed tests, which may be cut.

    A stopped run `is_cut_short`: the test that ran at that moment is red, too.
    """

    who: str
    evaluation: str
    line: int
    timestamp: int
    selection: str
    is_green: bool
    red: tuple[str, ...] = ()
    is_cut_short: bool = False


@dataclass(frozen=True, slots=True)
class Story:
    """The log, put together: in line order, except `checkpoints` and `edits`, whose newest are last."""

    steps: tuple[Step, ...] = ()
    runs: tuple[TestsRun, ...] = ()
    checkpoints: tuple[Entry, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    """The callers that edited, each with the edited file."""
    lives: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By a REPL's key: the line of its last connection in this run."""
    first_line: int = 0
    last_line: int = 0


def read_story(entries: Iterable[Entry], known: Mapping[str, str | None]) -> Story:
    """Put the entities of the log together. `known`: by id of a finished evaluation, its error if it has one."""
    steps: dict[str, list[Entry]] = {}
    begun: dict[str, int] = {}
    lives: dict[str, tuple[int, str, str | None]] = {}
    runs: list[TestsRun] = []
    checkpoints: list[Entry] = []
    edits: dict[tuple[str, str], None] = {}
    ordered = sorted(entries, key=lambda entry: entry.line)
    dialects: dict[str, str] = {}
    for entry in ordered:
        if entry.category == CHECKPOINT:
            checkpoints.append(entry)
        elif connected := CONNECTED.match(entry.text) if entry.evaluation is None else None:
            lives[connected[1]] = entry.line, connected[2], entry.run
        elif ran := _run(entry):
            runs.append(ran)
        elif took := TOOK_BACK.fullmatch(entry.text) if entry.evaluation is None else None:
            runs = [run for run in runs if run.evaluation != took[1]]  # the tested code is not there any more
        elif entry.evaluation:
            key = _repl_of(entry)
            steps.setdefault(entry.evaluation, []).append(entry)
            begun.setdefault(entry.evaluation, lives.get(key, (0, "", None))[0])
            dialects.setdefault(entry.evaluation, lives.get(key, (0, "", None))[1])
        elif edited := EDITED.fullmatch(entry.text) if entry.category == "otherOutput" else None:
            for file in COUNTED.findall(edited[2]) or [edited[2]]:
                edits.pop((edited[1], file), None)
                edits[edited[1], file] = None
    found = (_step(one, of, known, begun[one], dialects[one]) for one, of in steps.items())
    lines = [entry.line for entry in ordered if entry.category != CHECKPOINT]
    return Story(
        tuple([step for step in found if step is not None]),
        tuple(runs),
        tuple(sorted(checkpoints, key=lambda entry: entry.timestamp)),
        tuple(edits),
        MappingProxyType({key: line for key, (line, _, run) in lives.items() if run is None}),
        min(lines, default=0),
        max(lines, default=0),
    )


def _repl_of(entry: Entry) -> str:
    return (entry.session_key or "").partition("/")[0]


def _run(entry: Entry) -> TestsRun | None:
    """The run of tests in an entity; None for other entities, and for a run without tests."""
    ran = RAN.fullmatch(entry.text.strip()) if entry.category.startswith("other") and entry.evaluation else None
    if ran is None:
        return None
    stopped, has_failed = ran["stopped"], not ran["failed"] == ran["errors"] == "0"
    if ran["tests"] == "0" and not has_failed and stopped is None:
        return None
    names = (ran["names"] or "").partition(" and ")[0].split(", ")
    return TestsRun(
        entry.who or "somebody",
        entry.evaluation or "",
        entry.line,
        entry.timestamp,
        ran["what"],
        is_green=not has_failed and stopped is None,
        red=tuple(filter(None, [*names, "" if stopped == NO_KNOWN_TEST else stopped])),
        is_cut_short=stopped is not None,
    )


def _step(identity: str, entries: list[Entry], known: Mapping[str, str | None], life: int, dialect: str) -> Step | None:
    """One evaluation from its entities; None for one without code, such as tests that ended early."""
    code = next((entry for entry in entries if entry.category == "evaluatedCode"), None)
    if code is None:
        return None
    said = next((e.text for e in entries if e.category == "otherOutput" and e.line < code.line), "")
    loaded = LOADED.fullmatch(said)
    error = known[identity] or "" if identity in known else _error_in(entries, code)
    is_lisp = dialect not in NOT_LISP if dialect else code.text.lstrip().startswith("(")
    return Step(
        identity,
        code.who or "somebody",
        code.session_key or "",
        next((entry.namespace for entry in entries if entry.namespace), ""),
        code.line,
        entries[-1].line,
        code.timestamp,
        code.text,
        goal="" if loaded or checkpoint_name(said) else " ".join(said.split()),
        file=loaded[1] if loaded else "",
        error=" ".join(error.split()),
        meant=names_in(code.text, is_lisp=is_lisp),
        data=() if is_lisp or error or loaded else _assigned(code.text),
        life=life,
    )


def _error_in(entries: list[Entry], code: Entry) -> str:
    """The error of an evaluation in a line, as the log has it; blank for none."""
    ends = [e.text for e in entries if e.line > code.line and e.text.startswith(f"evaluation {code.evaluation} of ")]
    if ends:
        return ends[-1].partition(": ")[2] or ends[-1]
    if any(entry.category == "evaluationResults" for entry in entries):
        return ""
    return error_line("".join(entry.text for entry in entries if entry.category == "evaluationErrorOutput"))


def error_line(text: str) -> str:
    """Return the line of error output that names the error; blank if there is none."""
    text = text.strip()
    if not WRONG.search(text):
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback " in text:
        return next((line for line in reversed(lines) if not line[0].isspace()), lines[-1])
    return " ".join(lines[:2])


SEARCH_BYTES: Final = 8 * MEBIBYTE
SEARCH_ENTRIES: Final = 20_000
RULES: Final = Rules(Links.WITHIN, 512 * KIBIBYTE)
LISP_NAME: Final = re.compile(r"^\s*\([^\s()]*def[^\s()]*\s+(?:\^\S+\s+)*([^\s()\[\]{}\"';,@^`~]+)", re.MULTILINE)
PYTHON_NAME: Final = re.compile(r"^(?:async\s+)?(?:def|class)\s+(\w+)", re.MULTILINE)


ASSIGNED: Final = re.compile(r"(?:^|;[ \t]*)(\w+(?:,[ \t]*\w+)*)[ \t]*(?::[^=\n]+)?=(?!=)", re.MULTILINE)


def _assigned(code: str) -> tuple[str, ...]:
    """The names that code of Python assigns at the top, in its order, without private ones (`_x`)."""
    names = [name.strip() for found in ASSIGNED.findall(code) for name in found.split(",")]
    return tuple(dict.fromkeys(name for name in names if name.isidentifier() and not name.startswith("_")))


def names_in(code: str, *, is_lisp: bool) -> tuple[str, ...]:
    """The names that code defines, in its order: functions and classes of Python, `def…` forms of Lisp."""
    return tuple(dict.fromkeys((LISP_NAME if is_lisp else PYTHON_NAME).findall(code)))


def names_on_disk(workspace: Path, wanted: Iterable[str], suffixes: Sequence[str], search_s: float) -> frozenset[str]:
    """The names among `wanted` that a source file of the workspace defines, as far as time and size allow. Blocks.

    `suffixes`: the endings of source files. If time or size forbid to look everywhere, all of `wanted`: nothing is said
    that may be wrong.
    """
    asked, found = frozenset(wanted), set[str]()
    ends_at, left = time.monotonic() + search_s, SEARCH_BYTES
    for path in files_of(workspace, tuple(suffixes), max_entries=SEARCH_ENTRIES) if asked else ():
        if time.monotonic() > ends_at or left <= 0:
            return asked
        try:
            text = read(path, RULES, root=workspace).decode("utf-8", "replace")
        except OSError:
            continue
        left -= len(text)
        found.update(names_in(text, is_lisp=path.suffix != ".py"))
        if asked <= found:
            break
    return asked & found


if TYPE_CHECKING:
    Failed = tuple[Step, bool, str]
    """A step, whether no later step makes up for it, and its end in words."""

MOST_BYTES: Final = 4000
PART_CHARACTERS: Final = 200
MOST_PARTS: Final = 12
"""The parts of each kind, before the excess is left out."""
AGAIN: Final = "what failed in a new process"
"""The words of a run that repeats another run's failures; the repetition tells of them."""
FRESH: Final = " in a new process"
"""The end of the words about a run in a process of its own."""
MOST_FAILURES: Final = 50
"""The newest failures, for each of which a later success is looked for."""
TYPO: Final = re.compile(
    r"(?:NameError|SyntaxError|IndentationError|TabError|AttributeError)\b|.*[Uu]nable to resolve symbol|Syntax error"
)
"""The beginnings of errors that a slip of the pen may have caused."""
MOST_TYPO_CHARACTERS: Final = 500
ALIKE: Final = 0.75
"""From this likeness on, of 1, a code counts as the correction of another."""
PART: Final = re.compile(r"[^\s./:]+")
"""A part of a test's name, or of a selection: a namespace's, a folder's, a file's, a test's."""


@dataclass(frozen=True, slots=True)
class Present:
    """The circumstances of this moment. `now`: epoch milliseconds. `on_disk`: the names that source files define."""

    now: int
    repls: tuple[str, ...] = ()
    """The REPLs, each in words."""
    running: tuple[str, ...] = ()
    """The evaluations that run or wait, each in words, the evaluation's id first."""
    others: tuple[str, ...] = ()
    """The other connected clients, by the names of their callers."""
    on_disk: frozenset[str] = frozenset()
    drift: tuple[str, ...] = ()
    """The differences of loaded code from the files, in lines."""


@dataclass(frozen=True, slots=True)
class Section:
    """A line of the text: things of one kind, the most important first."""

    title: str
    parts: tuple[str, ...]

    def text(self, count: int) -> str:
        """The line with so many of the section's parts."""
        left = len(self.parts) - count
        more = f"; {left} more" if left else ""
        return f"{self.title}: {'; '.join(self.parts[:count])}{more}"


def compose(story: Story, present: Present, reader: str, *, most_bytes: int = MOST_BYTES) -> str:
    """The handoff for `reader`, a caller's name; empty if there is nothing to tell.

    The acts of others are told since the reader's own last call, if it made one.
    """
    sections = [section for section in _sections(story, present, reader) if section.parts]
    if not sections:
        return ""
    lines = f", of the log's lines {story.first_line} to {story.last_line}" if story.last_line else ""
    return fitted(f"Codriver{f', for {reader}' if reader else ''}{lines}:", sections, most_bytes)


def fitted(head: str, sections: Sequence[Section], most_bytes: int) -> str:
    """The sections below the head, with so many of their parts that all of it has at most so many bytes of UTF-8.

    The longest section loses its last part first, and says how many it lost.
    """
    counts = [min(len(section.parts), MOST_PARTS) for section in sections]
    while True:
        shown = [section.text(count) for section, count in zip(sections, counts, strict=True)]
        text = "\n".join([head, *shown])
        if _bytes(text) <= most_bytes:
            return text
        longest = max(range(len(shown)), key=lambda place: (counts[place] > 1, _bytes(shown[place])))
        if counts[longest] <= 1:
            return text.encode("utf-8", "replace")[: most_bytes - 3].decode("utf-8", "ignore") + "…"
        counts[longest] -= 1


def _sections(story: Story, present: Present, reader: str) -> Iterator[Section]:
    unsaved = [(name, step) for name, step in _defined(story.steps) if name not in present.on_disk]
    living = tuple([_place(name, step) for name, step in unsaved if _lives(step, story)])
    former = tuple([_place(name, step) for name, step in unsaved if not _lives(step, story)])
    failed = list(_failures(story.steps))
    red, green = _tests(story.runs)
    yield Section("Look first", tuple(_first(present, failed, list(red), living, former)))
    yield Section("Goals", _goals(story.steps, reader))
    marks = reversed(story.checkpoints)
    yield Section("Checkpoints", tuple([_short(f"{one.text}, {_age(one.timestamp, present.now)}") for one in marks]))
    yield from _news(story.steps, present, reader)
    yield Section("Tests red", tuple([_short(f"{name} ({run.who} {run.evaluation})") for name, run in red.items()]))
    yield Section("Loaded, and not what the files say", tuple(map(_short, present.drift)))
    yield Section("Tests green", tuple(map(_short, green)))
    yield Section("Failed", tuple([_short(f"{_named(step)}: {step.error}; {end}") for step, _, end in failed]))
    yield Section("Defined and in no file", living)
    yield Section("Defined in no file before their REPL was reconnected", former)
    yield Section("Data", tuple(_data(story)))
    yield Section("Edited", tuple([_short(f"{path} ({who})") for who, path in reversed(story.edits)]))
    yield Section("Running", tuple(map(_short, present.running)))
    yield Section("REPLs", tuple(map(_short, present.repls)))
    yield Section("Also here", present.others)
    yield Section("Evaluated", _by_who(story.steps, present.now))


def _first(
    present: Present, failed: Sequence[Failed], red: Sequence[str], living: Sequence[str], former: Sequence[str]
) -> Iterator[str]:
    """The most urgent things, in this order, each with the call that does it."""
    if present.running:
        yield f"what runs: get_evaluation {present.running[0].partition(' ')[0]}"
    if red:
        yield _short(f"the red test {red[0]}: run_tests")
    if present.drift:
        yield "code that is not what the files say: what_changed"
    still = next((step for step, is_open, _ in failed if is_open), None)
    if still is not None:
        yield f"what failed and was not done again: {_named(still)}"
    if living:
        yield "definitions in no file, which go with their REPL: write them down"
    elif former:
        yield "definitions in no file, perhaps gone: repl_output_log has their code, $history too"


def _news(steps: Sequence[Step], present: Present, reader: str) -> Iterator[Section]:
    """The section on the evaluations of others since the reader's own last call, if any."""
    own = [step for step in steps if step.who == reader]
    if own:
        last = own[-1]
        later = [step for step in steps if step.line > last.last_line and step.who != reader]
        since = f"{last.id}, line {last.last_line}, {_age(last.timestamp, present.now)}"
        yield Section(f"Others since your last call ({since})", _by_who(later, present.now))


def _by_who(steps: Iterable[Step], now: int) -> tuple[str, ...]:
    """A line for each caller with its evaluations, in numbers and names; the latest caller comes first."""
    by_who: dict[str, list[Step]] = {}
    for step in steps:
        by_who[step.who] = [*by_who.pop(step.who, ()), step]
    return tuple([_short(_done_by(who, found, now)) for who, found in reversed(by_who.items())])


def _done_by(who: str, steps: Sequence[Step], now: int) -> str:
    failed = sum(bool(step.error) for step in steps)
    names = list(dict.fromkeys(name for step in reversed(steps) for name in step.names))
    words = [f"{who} {len(steps)}", *([f"{failed} failed"] if failed else [])]
    words += [f"defined {', '.join(names[:6])}{' and more' if len(names) > 6 else ''}"] if names else []
    return f"{', '.join(words)}, the last {_age(steps[-1].timestamp, now)}"


def _goals(steps: Sequence[Step], reader: str) -> tuple[str, ...]:
    """The descriptions, each once: the reader's first, else anybody's, which tells the purpose of all; then the newest.

    Later descriptions are mostly steps on the way.
    """
    goals = [(step.goal, step.who) for step in steps if step.goal]
    first = [one for one in goals if one[1] == reader][:1] or goals[:1]
    found = dict.fromkeys([*first, *reversed(goals)])
    return tuple([_short(f"{goal} ({who})") for goal, who in found])


def _defined(steps: Sequence[Step]) -> list[tuple[str, Step]]:
    """Each name with the step that defined it last, the newest first."""
    found: dict[tuple[str, str, str], Step] = {}
    for step in steps:
        for name in step.names:
            found.pop((step.key, step.namespace, name), None)
            found[step.key, step.namespace, name] = step
    return [(name, step) for (_, _, name), step in reversed(found.items())]


def _lives(step: Step, story: Story) -> bool:
    """Whether the step's REPL is still connected as then, as far as the log tells."""
    return bool(step.life) and story.lives.get(step.key.partition("/")[0]) == step.life


def _place(name: str, step: Step) -> str:
    return _short(f"{step.namespace}/{name} ({step.who} {step.id})" if step.namespace else f"{name} ({_named(step)})")


def _data(story: Story) -> Iterator[str]:
    """Names of data that living REPLs hold, each by the step that assigned the name last, the newest first."""
    told: set[tuple[str, str, str]] = set()
    for step in reversed(story.steps):
        names = [name for name in step.data if (step.key, step.namespace, name) not in told]
        if names and _lives(step, story):
            told.update((step.key, step.namespace, name) for name in names)
            home = f"{step.namespace}/" if step.namespace else ""
            yield _short(f"{home}{', '.join(names)} ({step.who} {step.id})")


def _named(step: Step) -> str:
    return f"{step.id} of {step.who} in {step.key}" if step.key else f"{step.id} of {step.who}"


def _failures(steps: Sequence[Step]) -> Iterator[Failed]:
    """The last failure of each code, with its end, and whether it is open; the open ones first."""
    found: dict[tuple[str, object], Failed] = {}
    for place in [place for place, step in enumerate(steps) if step.error][-MOST_FAILURES:]:
        step = steps[place]
        later = next((one for one in steps[place + 1 :] if not one.error and _is_same(step, one)), None)
        end = "not done again" if later is None else f"went well later ({later.id})"
        found.pop((step.key, step.code), None)
        found[step.key, step.code] = step, later is None, end
    newest_first = list(found.values())[::-1]
    yield from sorted(newest_first, key=lambda failed: not failed[1])


def _is_same(failed: Step, later: Step) -> bool:
    """Whether a step repeats a failed one: the same code or file in the same REPL, or a name from it."""
    if failed.key.partition("/")[0] != later.key.partition("/")[0]:
        return False
    is_same = later.code == failed.code or bool(failed.file and failed.file == later.file)
    return is_same or _is_corrected(failed, later) or bool(set(failed.meant) & set(later.names))


def _is_corrected(failed: Step, later: Step) -> bool:
    """True for the caller's own correction of a slip of the pen."""
    if later.who != failed.who or not TYPO.match(failed.error):
        return False
    import difflib  # noqa: PLC0415  # `codriver watch`, which draws steps alone, starts without it

    is_short = max(len(failed.code), len(later.code)) <= MOST_TYPO_CHARACTERS
    return is_short and difflib.SequenceMatcher(None, failed.code, later.code, autojunk=False).ratio() >= ALIKE


def _tests(runs: Sequence[TestsRun]) -> tuple[dict[str, TestsRun], tuple[str, ...]]:
    """The red tests, each with the run that says so, and the green selections; the newest first."""
    red: dict[str, TestsRun] = {}
    green: dict[str, None] = {}
    for run in runs:
        if run.selection.startswith(AGAIN):
            continue
        if not run.is_cut_short:  # else nobody knows how far the run came
            red = {name: of for name, of in red.items() if not _selects(run.selection, name)}
        green = {
            one: None for one in green if one != run.selection and not any(_selects(one, name) for name in run.red)
        }
        if run.is_green:
            green[run.selection] = None
        red |= dict.fromkeys(run.red or (() if run.is_green else (run.selection,)), run)
    return dict(reversed(red.items())), tuple(reversed(green))


def _selects(selection: str, name: str) -> bool:
    """Whether a run of this selection ran the test of this name: its namespace, its file, itself, or all."""
    if selection.startswith(("all tests", "what failed last")):
        return " matching " not in selection
    asked, parts = _parts(selection.removesuffix(FRESH)), _parts(name)
    return any(parts[start : start + len(asked)] == asked for start in range(len(parts)))


def _parts(name: str) -> list[str]:
    return [part for part in PART.findall(name) if part != "py"]


def _age(then: int, now: int) -> str:
    seconds = max(0, now - then) // 1000
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length} {unit} ago"
    return f"{seconds} s ago"


def _short(text: str) -> str:
    """The text on one line, of so many characters at most."""
    return cut(one_line(" ".join(text.split())), PART_CHARACTERS)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
