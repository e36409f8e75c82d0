"""Evaluations and runs of tests as the log tells them, put together again, and the definitions in their code.

Pure. A server that still knows an evaluation knows better how it ended; of those that it does not, the log alone tells:
an error without a result. Names are found, in evaluated code and in source files, by the shape of what defines them, at
the beginning of a line: nothing is parsed, as this serves an overview over hundreds of texts, some of them cut.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.values import CHECKPOINT, NO_KNOWN_TEST, NOT_LISP, checkpoint_name
from codriver.files import KIBIBYTE, MEBIBYTE, Links, Rules, read
from codriver.files.working_trees import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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
"""One of the files of a batch, behind which stands how many edits it got."""
LOADED: Final = re.compile(r"(?:load|(?:an edit|edit_files|run_tests) loads) (\S.*?)(?:, line [\d, ]+)?", re.DOTALL)
"""A description that a tool gave: by it a file was loaded, or the forms of one that were edited."""
TOOK_BACK: Final = re.compile(r"\S+ took back what failed tests \((\S+)\) in .+")
WRONG: Final = re.compile(r"(?i)error|exception|traceback|interrupt")


@dataclass(frozen=True, slots=True)
class Step:
    """One evaluation. `life` is the line where its REPL was connected, 0 if that is not known; `goal` why it was.

    `error` is the error in a line, blank if it went well; `meant` are the names in its definitions; `file` was
    loaded.
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
    """The names that it assigned at the top, where that defines nothing: in Python."""
    life: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The names that it defined."""
        return () if self.error else self.meant


@dataclass(frozen=True, slots=True)
class TestsRun:
    """A run of tests: `selection` in words, and the names of those that failed, which may be cut.

    Of one that was stopped, which `is_cut_short`, the test that it was in is red, too.
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
    """The log, put together: in line order, but for `checkpoints` and `edits`, which have the newest last."""

    steps: tuple[Step, ...] = ()
    runs: tuple[TestsRun, ...] = ()
    checkpoints: tuple[Entry, ...] = ()
    edits: tuple[tuple[str, str], ...] = ()
    """Who edited which file."""
    lives: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """By key of a REPL: the line where it was connected last, in this run."""
    first_line: int = 0
    last_line: int = 0


def read_story(entries: Iterable[Entry], known: Mapping[str, str | None]) -> Story:
    """Put the entities of the log together. `known`: by id of an evaluation that is over, its error if it has one."""
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
            runs = [run for run in runs if run.evaluation != took[1]]  # what it tested is not there any more
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
    """The run of tests in an entity; None for other entities, and for a run without a test."""
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
    """One evaluation from its entities; None of one whose code is not there, as of tests that ended early."""
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
    """The error of an evaluation in a line, as the log has the error; blank without one."""
    ends = [e.text for e in entries if e.line > code.line and e.text.startswith(f"evaluation {code.evaluation} of ")]
    if ends:
        return ends[-1].partition(": ")[2] or ends[-1]
    if any(entry.category == "evaluationResults" for entry in entries):
        return ""
    text = "".join(entry.text for entry in entries if entry.category == "evaluationErrorOutput").strip()
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
    """The names that code of Python assigns at the top, in its order, but for those of its own (`_x`)."""
    names = [name.strip() for found in ASSIGNED.findall(code) for name in found.split(",")]
    return tuple(dict.fromkeys(name for name in names if name.isidentifier() and not name.startswith("_")))


def names_in(code: str, *, is_lisp: bool) -> tuple[str, ...]:
    """The names that code defines, in its order: functions and classes of Python, `def…` forms of Lisp."""
    return tuple(dict.fromkeys((LISP_NAME if is_lisp else PYTHON_NAME).findall(code)))


def names_on_disk(workspace: Path, wanted: Iterable[str], suffixes: Sequence[str], search_s: float) -> frozenset[str]:
    """The names among `wanted` that a source file of the workspace defines, as far as time and size allow. Blocks.

    `suffixes`: the endings of source files. Where it is not allowed to look everywhere, all of them: nothing is said
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
