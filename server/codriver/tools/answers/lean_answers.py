"""Lean answers: of the full description of an evaluation, only the parts that its reader cannot know.

The rule is kept here alone. An answer leaves out `status` for `done`, or if the reason says that the evaluation failed;
`evaluationId` if the reader gave it, or if the evaluation is done and has no note but that it is the same again;
`sessionKey` if the reader named that session, or would get it without naming any; `who` if that is the reader;
`generation` and `ns` if they are those of the reader's last answer of this session, or the namespace it gave; empty
`notes`; `elapsedMs` under 100, and that of an unfinished evaluation in a later answer about it; `outputLines`; Python's
`None` as `result` and among `values`, and for a load the name that it gives; from an error `form` 1, frames outside the
project, and its report in `stderr`; the hint of `evaluation-failed`, except at the second failure of the same code.
With `detail: true` nothing is left out, nor in answers to the command line.

A REPL tells a failure twice: in parts, and as the report that it prints. The answer has the project's frames in one
line each, the chain, and no report that repeats them. If the parts have no chain, the causes are read from the report.
A report that cannot be told for sure from the program's own words is left.
"""

from __future__ import annotations

import itertools
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from codriver.core import reported_evaluations
from codriver.core.records import dataclass
from codriver.core.values import LIVE
from codriver.errors import RefusedError, cut
from codriver.repls.contract.adapter_values import AROUND, NO_MESSAGE
from codriver.repls.contract.reports import FRAME
from codriver.tools.calls.arguments import UNLISTED, Arguments, Json
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.session_choice import session_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Seen
    from codriver.core.values import Evaluation
    from codriver.tools.calls.call import Call

AGAIN = "it failed a second time: "
"""The beginning of the hint at the second failure of the same code or test, which is never left out."""
LOOK_IN_FRAMES = 'status with about: "error" numbers frames, evaluate_code with frame looks in one'
"""The hint for a REPL that has frames to look in."""
MOST_ACTUAL: Final = 500
"""Characters of a result's words: the words behind them explain their parts, and the stack trace has them."""
SHORT_ACTUAL: Final = 100
"""Characters of the first line of a result's words, of all results but the first."""
SAYS_NOTHING: Final = re.compile(r"\n *(?:Use -v to get more diff|self=<[^\n]* object at 0x[0-9a-f]+>,)?(?=\n|$)")
"""Lines of a failure in pytest, or in hypothesis, that tell nothing of the failure."""
AT_ONCE_MS = 100
"""A time under this is no time for an evaluation's reader."""


GIVEN_BY_LOADS: Final = re.compile(r"<module '[^\n]*>$|#'\S+$")
"""The value of a load, which no one asked for: the module, or the var that the last form defined."""


class Evaluating(Arguments):
    """The arguments that all tools share whose answers describe an evaluation."""

    detail: bool | None = Field(None, json_schema_extra={UNLISTED: True})
    """Whether every field is wanted; None leaves that to the caller's traits. Listed with `evaluate_code`, taken by
    all."""
    requests_status: ClassVar[bool] = False
    """Whether the question is an evaluation's standing, so that the answer always tells the status."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The knowledge of an answer's reader before reading: its question, and its last answer."""

    who: str
    session_key: str | None = None
    """The session that the reader named, or gets without naming any."""
    namespace: str | None = None
    """The namespace that the reader named."""
    evaluation: str | None = None
    """The evaluation that the reader named."""
    seen: Seen | None = None
    """The standing of this session in the reader's last answer."""
    requests_status: bool = False
    workspace: str = ""
    reads_python: bool = False
    loads: bool = False
    """Whether the reader asked for no value, but for the load of a file."""

    @property
    def namespace_seen(self) -> str | None:
        """Return the namespace of the session in the reader's last answer."""
        return self.seen.namespace if self.seen else None


def wants_detail(call: Call, arguments: Evaluating) -> bool:
    """Return whether nothing is to be left out."""
    return traits_of(call.client_name).wants_detail if arguments.detail is None else arguments.detail


def reader_of(
    call: Call, arguments: Evaluating, who: str, evaluation: Evaluation, session: str, own_session: str | None = None
) -> Reader:
    """The reader of an answer to these arguments, the caller `who`, about this evaluation in this session.

    `own_session`: the key of the session that the caller gets without naming any, if known.
    """
    state = call.services.core.state
    repl, told = state.repls.get(evaluation.repl), reported_evaluations.knowledge_of(state, call.client, who)
    given = arguments.__dict__
    return Reader(
        who=who,
        session_key=given.get("repl_session_key") or own_session or _only_session(call, who),
        namespace=given.get("namespace"),
        evaluation=given.get("evaluation_id"),
        seen=told.seen.get(session) if told else None,
        requests_status=arguments.requests_status,
        workspace=str(call.services.workspace),
        reads_python=repl is not None and repl.dialect == "python",
        loads=evaluation.kind == "load-file",
    )


def _only_session(call: Call, who: str) -> str | None:
    try:
        return session_in_use(call, None, who).key
    except RefusedError:
        return None


def lean(fields: Mapping[str, object], reader: Reader, *, is_named: bool = True) -> dict[str, object]:
    """Return the fields of a full description that this reader cannot know.

    `is_named`: a note on the evaluation may ask for its id.
    """
    if "error" in fields:
        fields = _with_short_error(fields, reader.workspace)
    is_known = _known(fields, reader, is_named=is_named)
    kept = {key: value for key, value in fields.items() if key not in is_known or not is_known[key]}
    if reader.reads_python:
        _leave_out_none(kept)
    if reader.loads and GIVEN_BY_LOADS.match(str(kept.get("result"))):
        del kept["result"]
    return kept


def _with_short_error(fields: Mapping[str, object], workspace: str) -> Mapping[str, object]:
    """Return the fields with the error in few words, and without its report at the end of the output."""
    error, stderr = fields.get("error"), fields.get("stderr")
    if not isinstance(error, dict):
        return fields
    short: dict[str, object] = shortened(error, workspace)
    changed = {**fields, "error": short}
    if isinstance(stderr, str):
        rest, causes = without_report(stderr, error, workspace)
        changed["stderr"] = rest
        if causes:
            short["causes"] = causes
    return {key: value for key, value in changed.items() if key != "stderr" or value}


def _known(fields: Mapping[str, object], reader: Reader, *, is_named: bool) -> Mapping[str, bool]:
    """Whether the reader knows a field, by its name; fields without an entry here are unknown to it."""
    get, seen = fields.get, reader.seen
    is_done, has_failed = get("status") == "done", get("reason") == "evaluation-failed"
    elapsed, namespace, notes = get("elapsedMs"), get("ns"), get("notes")
    goes_on = "from" in fields or "stderrFrom" in fields
    return {
        "status": (is_done or has_failed) and not reader.requests_status,
        "evaluationId": get("evaluationId") == reader.evaluation or (is_done and not (notes and is_named)),
        "sessionKey": get("sessionKey") == reader.session_key,
        "who": get("who") == reader.who,
        "generation": seen is not None and get("generation") == seen.generation,
        "ns": namespace == reader.namespace or (seen is not None and namespace == seen.namespace),
        "notes": not notes,
        "elapsedMs": (type(elapsed) is int and elapsed < AT_ONCE_MS) or (goes_on and get("status") in LIVE),
        "outputLines": True,
        "hint": has_failed and not str(get("hint")).startswith(AGAIN),
    }


def _leave_out_none(fields: dict[str, object]) -> None:
    """Take `None` out of the values, as Python's own prompt does, and the values if the result is the only one."""
    result, values = fields.get("result"), fields.get("values")
    if result == "None":
        del fields["result"]
    if isinstance(values, list):
        told = [value for value in values if value != "None"]
        if told in ([], [result]):
            del fields["values"]
        else:
            fields["values"] = told


MOST_FRAMES = 5
HEADER: Final = "Traceback (most recent call last):\n"
BETWEEN: Final = (
    "\nThe above exception was the direct cause of the following exception:\n\n",
    "\nDuring handling of the above exception, another exception occurred:\n\n",
)
"""Source: Python's `traceback`, chained exceptions."""
GROUP_HEADER: Final = "  + Exception Group Traceback (most recent call last):\n"
_PRINTED_FRAME: Final = re.compile(
    r'^ +File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$', re.MULTILINE
)
_CLOJURE: Final = re.compile(
    r"^(?:Syntax error|Unexpected error|Execution error|Error printing return value|Error reading eval result)\b.*"
    r"\(.*\)\.\n",
    re.MULTILINE,
)
"""The first line of a report. Source: `clojure.main/ex-str`, Clojure 1.10 and later."""
_INTERRUPTIONS: Final = ("(InterruptedException)", "(ThreadDeath)")
_EXITED: Final = re.compile(r"^code called exit\((?P<status>.*)\); the REPL goes on$", re.DOTALL)
"""Our words for `SystemExit`, whose message is the status. See `codriver.repls.worker.basics.error_report`."""
MOST_LINKS = 5
"""Lines on the errors of each kind in a chain."""
LINK_CHARACTERS = 200
"""The characters of such an error's message, and of its data."""
DATA_CHARACTERS = 500
_CALLED: Final = re.compile(r"^(?!.*/eval-?\d+(?:/|$))")
"""Functions that the sent code called; the sent code itself does not match."""
_EVALUATED: Final = ("<", "REPL", "NO_SOURCE")
"""The beginnings of file names that stand for sent code, and name no file."""
_INSTALLED: Final = ("-packages", ".venv", "venv", "node_modules")


def shortened(error: Mapping[str, Any], workspace: str) -> dict[str, Any]:
    """A failure's keys, its trace the project's innermost frames: `file:line in function`, below the workspace."""
    frames = [match for text in error.get("trace", ()) if (match := FRAME.match(text))]
    own = [frame for frame in frames if _is_own(frame["file"], workspace)] or frames
    called = [frame for frame in own if not _is_sent(frame)][:MOST_FRAMES]
    gone = {"trace", "chain"}
    short = {key: value for key, value in error.items() if key not in gone and (key, value) != ("form", 1)}
    if "data" in short:
        short["data"] = _cut(short["data"], DATA_CHARACTERS)
    if "file" in short:
        short["file"] = _relative(short["file"], workspace)
    if short.get("phase") == "execution":
        # The frames of code that ran tell the place; those of unreadable code do not.
        gone |= {"phase", "column"} | ({"file", "line"} if called else set())
        short = {key: value for key, value in short.items() if key not in gone}
        if "file" not in short and short.get("line") == 1:
            del short["line"]  # the sent code's line is that of its first form
    if called:
        short["trace"] = [_line(frame, workspace) for frame in called]
    return short | chain_lines(error.get("chain", ()), workspace)


def innermost_place(error: Mapping[str, Any], workspace: str) -> tuple[str, int] | None:
    """Return the file and line of the innermost frame in the workspace's own files; None for none."""
    for text in error.get("trace", ()):
        frame = FRAME.match(text)
        if frame is not None and _is_own(frame["file"], workspace) and not _is_sent(frame):
            return frame["file"], int(frame["line"])
    return None


def chain_lines(chain: Sequence[Mapping[str, Any]], workspace: str) -> dict[str, list[str]]:
    """The other errors of a chain in a line each: causes, wrapping errors, and the members of its group."""
    lines: dict[str, list[str]] = {}
    for link in chain:
        relation = link["relation"]
        key = "members" if "member" in relation else "wrappedBy" if relation == AROUND else "causes"
        nested = f"{relation}: " if " of " in relation else ""
        lines.setdefault(key, []).append(nested + _link_line(link, workspace))
    return {key: _few(told) for key, told in lines.items()}


def _few(lines: list[str]) -> list[str]:
    left = len(lines) - MOST_LINKS
    return [*lines[:MOST_LINKS], f"… {left} more: status with about: 'error' has them"] if left > 1 else lines


def _link_line(link: Mapping[str, Any], workspace: str) -> str:
    if link["relation"] == "omitted":
        return f"… {link['message']}"
    said = ": ".join(part for part in (link["class"], _cut(link["message"], LINK_CHARACTERS)) if part)
    data = [_cut(link["data"], LINK_CHARACTERS)] if "data" in link else []
    notes = [_cut(f"({note})", LINK_CHARACTERS) for note in link.get("notes", ())]
    frames = [match for text in link.get("trace", ()) if (match := FRAME.match(text))]
    frame = next((one for one in frames if _is_own(one["file"], workspace)), frames[0] if frames else None)
    where = _where(frame, workspace) if frame else ""
    return " ".join([said, *data, *notes, *([f"({where})"] if where else [])])


def _where(frame: re.Match[str], workspace: str) -> str:
    """Return the place of a frame; for sent code only the function, unless that is the code itself."""
    if frame["file"].startswith(_EVALUATED[1:]):
        return f"in {frame['function']}" if _CALLED.match(frame["function"]) else ""
    return _line(frame, workspace)


def _cut(text: str, most: int) -> str:
    """Return a text in one line of at most so many characters."""
    return cut(" ".join(text.split("\n")), most)


def without_report(stderr: str, error: Mapping[str, Any], workspace: str) -> tuple[str, list[str]]:
    """The error output without the report of this failure at its end, and the causes that the report named."""
    said = f"{error.get('message', '')}".strip()
    if (found := _last_clojure(stderr)) is not None and stderr[found.end() :].strip() == (said or NO_MESSAGE):
        return stderr[: found.start()], []
    if (begin := _lisp(stderr, error)) is not None:
        return stderr[:begin], []
    if (begin := _message_alone(stderr, error)) is not None:
        return stderr[:begin], []
    if error.get("chain") or error.get("notes"):
        return stderr[: _start(stderr, error)], []
    name = _words(error)
    start = _block(stderr, len(stderr))
    if start is None or not stderr.rstrip().endswith(name):
        return stderr, []
    causes: list[str] = []
    while (end := _end_before(stderr, start)) is not None:
        before = _block(stderr, end)
        if before is None or (cause := _cause(stderr[before:end], workspace)) is None:
            return stderr, []
        causes.append(cause)
        start = before
    return stderr[:start], causes


def without_interruption(said: str) -> str:
    """Output without Clojure's report of an interrupted thread at its end, which is no output of the program."""
    found = _last_clojure(said)
    is_told = found and any(name in found[0] for name in _INTERRUPTIONS) and said.count("\n", found.end()) <= 1
    return said[: found.start()] if found and is_told else said


def without_own_traceback(said: str, message: str = "") -> str:
    """Output without a Python traceback at its end that has frames of no file, or of our own program alone.

    The message tells such an error whole. If the `message` ends with the error's words, the callers of our program may
    have frames of files too, such as a server that is written in Python.
    """
    start = _block(said, len(said))
    if start is None:
        return said
    report = said[start + len(HEADER) :]
    frames = [*itertools.takewhile(lambda line: line.startswith(" "), report.splitlines(keepends=True))]
    files = [match["file"] for line in frames if (match := _PRINTED_FRAME.match(line.rstrip("\n")))]
    words = report[len("".join(frames)) :].strip()
    is_told = bool(words) and message.endswith(words)
    of_ours = files[-1:] if is_told else files
    return said[:start] if of_ours and all(file.startswith("<") for file in of_ours) else said


def _message_alone(stderr: str, error: Mapping[str, Any]) -> int | None:
    """The beginning of the message at the end of a text, which is the whole report of a REPL without traces."""
    said = f"{error.get('message', '')}\n"
    begin = len(stderr) - len(said)
    if not said.strip() or error.get("trace") or HEADER in stderr or not stderr.endswith(said):
        return None
    return begin if begin == 0 or stderr[begin - 1] == "\n" else None


def _words(error: Mapping[str, Any]) -> str:
    """Return the lines in which Python says an error, without the modules of its class."""
    name, message = str(error.get("class", "")).rsplit(".", 1)[-1], str(error.get("message", ""))
    if name == "SystemExit" and (exited := _EXITED.match(message)):
        message = exited["status"]
    said = "\n".join([message.strip(), *error.get("notes", ())])
    return f"{name}: {said}" if message.strip() else f"{name}{said}"


def _start(stderr: str, error: Mapping[str, Any]) -> int:
    """The beginning of the report of a failure whose chain is known; the end of the text for no such report."""
    links = [error, *(link for link in error.get("chain", ()) if link["relation"] in ("cause", "context"))]
    start, end = len(stderr), len(stderr)
    for number, link in enumerate(links):
        is_group = any(other["relation"] == "member 1" for other in error.get("chain", ())) and not number
        found = _group(stderr, end, link) if is_group else _told(stderr, end, link)
        if found is None:
            return len(stderr)
        start, before = found, _end_before(stderr, found)
        if before is None:
            break
        end = before
    return start


def _told(stderr: str, end: int, link: Mapping[str, Any]) -> int | None:
    """The beginning of an error's traceback that ends at `end`, or of its words alone if it was never raised."""
    words = _words(link)
    last = stderr[:end].rstrip("\n")
    if not last.endswith(words):
        return None
    line = last.rfind("\n", 0, len(last) - len(words)) + 1
    start = _block(stderr, line)
    frames = stderr[start + len(HEADER) : line].splitlines() if start is not None else [""]
    return start if all(text.startswith(" ") for text in frames) else line


def _group(stderr: str, end: int, link: Mapping[str, Any]) -> int | None:
    """Return the beginning of a group's traceback that ends at `end`: each of its lines has a margin."""
    start = stderr.rfind(GROUP_HEADER, 0, end)
    if start < 0 or (start and stderr[start - 1] != "\n"):
        return None
    lines = stderr[start:end].splitlines()
    is_its = any(line.endswith(_words({**link, "notes": ()})) for line in lines)
    return start if is_its and all(line.lstrip(" ").startswith(("|", "+")) for line in lines) else None


def _lisp(stderr: str, error: Mapping[str, Any]) -> int | None:
    """Return the beginning of the embedded Lisp's printed report of a failure, if the text ends with it."""
    if HEADER in stderr:
        return None
    lines = "".join(f"{link['relation']}: {link['class']}{_said(link)}\n" for link in error.get("chain", ()))
    if not stderr.endswith(lines):
        return None
    end = len(stderr) - len(lines)
    while stderr.startswith("  at ", begin := stderr.rfind("\n", 0, max(0, end - 1)) + 1) and begin < end:
        end = begin
    said = f"{_said(error)}\n"
    if not stderr.endswith(said, 0, end):
        return None
    begin = stderr.rfind("\n", 0, end - len(said)) + 1
    head, kind = stderr[begin : end - len(said)], str(error.get("class", ""))
    return begin if head == kind or (head.startswith(f"{kind} (") and head.endswith(")")) else None


def _said(error: Mapping[str, Any]) -> str:
    data = f" {error['data']}" if "data" in error else ""
    return f": {error.get('message', '')}{data}"


def _last_clojure(stderr: str) -> re.Match[str] | None:
    return next(reversed([*_CLOJURE.finditer(stderr)]), None)


def _block(text: str, end: int) -> int | None:
    """Return the beginning of the last traceback before `end`, if it begins a line."""
    start = text.rfind(HEADER, 0, end)
    return start if start == 0 or (start > 0 and text[start - 1] == "\n") else None


def _end_before(text: str, start: int) -> int | None:
    """Return the end of the traceback that precedes the one at `start`, as its cause or context."""
    return next((start - len(words) for words in BETWEEN if text.endswith(words, 0, start)), None)


def _cause(block: str, workspace: str) -> str | None:
    """A cause in one line; None for a cause of several lines, after which the program's own words may follow."""
    lines = block.removeprefix(HEADER).rstrip("\n").split("\n")
    words = [line for line in lines if line and not line.startswith(" ")]
    if len(words) != 1 or words[0] != lines[-1]:
        return None
    frames = [*_PRINTED_FRAME.finditer(block)]
    own = [frame for frame in frames if _is_own(frame["file"], workspace)] or frames
    return f"{words[0]} ({_line(own[-1], workspace)})" if own else words[0]


def _line(frame: re.Match[str], workspace: str) -> str:
    place = f"{_relative(frame['file'], workspace)}:{frame['line']}"
    line = f"{place} in {frame['function']}" if frame["function"] else place
    times = frame.groupdict().get("repeated")
    return f"{line} … {times}" if times else line


def _is_sent(frame: re.Match[str]) -> bool:
    """Return whether a frame is the sent code itself, and no function that earlier code defined.

    On the JVM evaluated functions have no file either, or both have one, so the function's name tells.
    """
    if frame["file"].startswith("<"):
        return frame["function"].startswith(("<module>", "__lisp_expr"))
    return _CALLED.match(frame["function"]) is None


def _is_own(file: str, workspace: str) -> bool:
    """Return whether a file is of the project, or stands for sent code."""
    if any(part in file for part in _INSTALLED):
        return False
    path = PurePath(file)
    return not path.is_absolute() or path.is_relative_to(workspace)


def _relative(file: str, workspace: str) -> str:
    path = PurePath(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file


def lean_run(fields: Mapping[str, object], workspace: Path, named: str = "") -> dict[str, object]:
    """The fields of a run without those that others imply, zero counts, and the namespace that was named.

    The rows of a run that tells its passes, too, are for readers that take each row by itself: they keep their
    namespace.
    """
    rows = fields.get("results")
    rows = _alike([_lean_row(row, workspace, named) for row in rows]) if isinstance(rows, list) else []
    rows = [*rows[:1], *map(_in_short, rows[1:])]
    known = {
        "failed": not fields.get("failed"),
        "errors": not fields.get("errors"),
        "results": not rows,
        "count": "omitted" not in fields,
    }
    kept = {name: value for name, value in fields.items() if not known.get(name)}
    return {name: rows if name == "results" else value for name, value in kept.items()}


def _in_short(row: dict[str, object]) -> dict[str, object]:
    """Return a failed test among others by its name, its place and its failure's first words."""
    kept = {name: value for name, value in row.items() if name != "frames"}
    return {**kept, "actual": cut(str(row["actual"]).partition("\n")[0], SHORT_ACTUAL)} if "actual" in row else kept


def _alike(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """The rows, tests that failed in the same words as one row: the first, with the names and lines of the others."""
    told: list[dict[str, object]] = []
    first: dict[tuple[object, ...], dict[str, object]] = {}
    for row in rows:
        known = tuple(row.get(name) for name in ("outcome", "ns", "file", "actual", "expected", "message"))
        if row.get("outcome") == "pass" or not row.get("actual") or known not in first:
            first.setdefault(known, row)
            told.append(row)
            continue
        others = first[known].setdefault("alike", [])
        if isinstance(others, list):
            others.append(f"{row['test']}:{row['line']}" if "line" in row else row["test"])
    return told


def _lean_row(row: Json, workspace: Path, named: str) -> dict[str, object]:
    """Return a result without the file that its namespace names, and without the frame at its own line."""
    kept = dict(row)
    if "file" in row:
        kept["file"] = file = str(row["file"]).removeprefix(f"{workspace}/")
        if file == row.get("ns"):
            del kept["file"]
        own = f"{file}:{row.get('line')} in "
        kept["frames"] = [frame for frame in row.get("frames", ()) if not frame.startswith(own)]
    if "actual" in row:
        kept["actual"] = cut(SAYS_NOTHING.sub("", str(row["actual"])), MOST_ACTUAL)
    known = {"frames": not kept.get("frames"), "ns": named == row.get("ns")}
    return {name: value for name, value in kept.items() if not known.get(name)}
