"""Shorten the description of an evaluation to what its reader does not know yet.

Omitted are `status` for `done`, or if the reason says that the evaluation failed; `evaluationId` if the reader passed
it, or if the evaluation is done and no note but a repetition needs it; `sessionKey` if the reader passed it, or would
get that session by default; `who` if that is the reader; `generation` and `ns` if they equal those of the reader's last
answer about this session, or the namespace that it passed; empty `notes`; `elapsedMs` below 100, and that of an
unfinished evaluation in later answers; `outputLines`; Python's `None` as `result` and among `values`, and the name that
a load returns; from an error `form` 1, frames outside the project, and its report in `stderr`; the hint of
`evaluation-failed`, except for the second failure of the same code. With `detail: true`, and in answers to the command
line, nothing is omitted.

A REPL describes a failure twice: by fields, and in the report that it prints. The answer has one line for each of the
project's frames, the chain, and no report that repeats them. If the fields have no chain, the causes are parsed from
the report. A report that cannot be distinguished from the program's own output is not removed.
"""

from __future__ import annotations

import itertools
import re
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field

from codriver.core import reported_evaluations
from codriver.core.evaluations import UNFINISHED_STATUSES
from codriver.core.records import dataclass
from codriver.errors import RefusedError, truncate
from codriver.repls.contract.reports import FRAME_PATTERN
from codriver.repls.contract.stack_trace_values import NO_MESSAGE_TEXT, WRAPPER_RELATION
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.session_choice import session_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import ReportedStatus
    from codriver.tools.calls.call import Call

SECOND_FAILURE_PREFIX = "it failed a second time: "
"""Start of the hint about a second failure of the same code or test, which is never omitted."""
FRAMES_HINT = 'status with about: "error" numbers the frames, and evaluate_code with frame evaluates in one'
"""Hint for a REPL that retains frames."""
MIN_ELAPSED_MS = 100
"""Duration below which an answer omits `elapsedMs`."""


LOAD_VALUE_PATTERN: Final = re.compile(r"<module '[^\n]*>$|#'\S+$")
"""Matches the value of a load: the module, or the var that the last form defined."""


class Evaluating(Arguments):
    """Arguments of all tools whose answers describe an evaluation."""

    detail: bool | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """Whether to return every field. None depends on the client. Listed with `evaluate_code`, but accepted by all."""
    requests_status: ClassVar[bool] = False
    """Whether the caller requests the state of an evaluation, so that the answer always has `status`."""


@dataclass(frozen=True, slots=True)
class Reader:
    """What the reader of an answer knows before reading it: its request, and its last answer."""

    who: str
    session_key: str | None = None
    """Key of the session that the reader passed, or gets by default."""
    namespace: str | None = None
    """Namespace that the reader passed."""
    evaluation: str | None = None
    """Id of the evaluation that the reader passed."""
    seen: ReportedStatus | None = None
    """State of this session in the reader's last answer."""
    requests_status: bool = False
    workspace: str = ""
    reads_python: bool = False
    loads: bool = False
    """Whether the request was to load a file, and not for a value."""

    @property
    def namespace_seen(self) -> str | None:
        """Return the namespace of the session in the reader's last answer."""
        return self.seen.namespace if self.seen else None


def wants_detail(call: Call, arguments: Evaluating) -> bool:
    """Return whether the caller requested every field."""
    return find_traits(call.client_name).wants_detail if arguments.detail is None else arguments.detail


def reader_for(
    call: Call,
    arguments: Evaluating,
    who: str,
    evaluation: Evaluation,
    session: str,
    default_session: str | None = None,
) -> Reader:
    """Return what the caller `who` with these arguments knows about this evaluation in this session.

    `default_session` is the key of the session that the caller gets by default, if known.
    """
    state = call.services.core.state
    repl, knowledge = state.repls.get(evaluation.repl), reported_evaluations.caller_knowledge(state, call.client, who)
    given = arguments.__dict__
    return Reader(
        who=who,
        session_key=given.get("repl_session_key") or default_session or _default_session(call, who),
        namespace=given.get("namespace"),
        evaluation=given.get("evaluation_id"),
        seen=knowledge.seen.get(session) if knowledge else None,
        requests_status=arguments.requests_status,
        workspace=str(call.services.workspace),
        reads_python=repl is not None and repl.dialect == "python",
        loads=evaluation.kind == "load-file",
    )


def _default_session(call: Call, who: str) -> str | None:
    """Return the key of the session that a caller gets by default, or None if it must name one."""
    try:
        return session_in_use(call, None, who).key
    except RefusedError:
        return None


def omit_known_fields(fields: Mapping[str, object], reader: Reader, *, is_named: bool = True) -> dict[str, object]:
    """Return the fields of a full description that this reader does not know.

    With `is_named`, a note about the evaluation may refer to its id.
    """
    if "error" in fields:
        fields = _with_short_error(fields, reader.workspace)
    is_known = _known(fields, reader, is_named=is_named)
    unknown_fields = {key: value for key, value in fields.items() if key not in is_known or not is_known[key]}
    if reader.reads_python:
        _leave_out_none(unknown_fields)
    if reader.loads and LOAD_VALUE_PATTERN.match(str(unknown_fields.get("result"))):
        del unknown_fields["result"]
    return unknown_fields


def _with_short_error(fields: Mapping[str, object], workspace: str) -> Mapping[str, object]:
    """Return the fields with a shortened error, and without its report at the end of the output."""
    error, stderr = fields.get("error"), fields.get("stderr")
    if not isinstance(error, dict):
        return fields
    short: dict[str, object] = shorten_failure(error, workspace)
    changed = {**fields, "error": short}
    if isinstance(stderr, str):
        rest, causes = without_report(stderr, error, workspace)
        changed["stderr"] = rest
        if causes:
            short["causes"] = causes
    return {key: value for key, value in changed.items() if key != "stderr" or value}


def _known(fields: Mapping[str, object], reader: Reader, *, is_named: bool) -> Mapping[str, bool]:
    """Return whether the reader knows a field, by name. Fields without an entry are unknown to it."""
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
        "elapsedMs": (type(elapsed) is int and elapsed < MIN_ELAPSED_MS)
        or (goes_on and get("status") in UNFINISHED_STATUSES),
        "outputLines": True,
        "hint": has_failed and not str(get("hint")).startswith(SECOND_FAILURE_PREFIX),
    }


def _leave_out_none(fields: dict[str, object]) -> None:
    """Remove `None` from the values, as Python's prompt does, and all values if the result is the only one."""
    result, values = fields.get("result"), fields.get("values")
    if result == "None":
        del fields["result"]
    if isinstance(values, list):
        displayed_values = [value for value in values if value != "None"]
        if displayed_values in ([], [result]):
            del fields["values"]
        else:
            fields["values"] = displayed_values


MAX_FRAMES = 5
"""Maximum number of frames in an error."""
TRACEBACK_HEADER: Final = "Traceback (most recent call last):\n"
"""First line of Python's traceback."""
TRACEBACK_SEPARATORS: Final = (
    "\nThe above exception was the direct cause of the following exception:\n\n",
    "\nDuring handling of the above exception, another exception occurred:\n\n",
)
"""Texts between the tracebacks of chained exceptions. Source: Python's `traceback`."""
GROUP_HEADER: Final = "  + Exception Group Traceback (most recent call last):\n"
"""First line of the traceback of an exception group."""
_FRAME_LINE_PATTERN: Final = re.compile(
    r'^ +File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$', re.MULTILINE
)
"""Matches the line about a frame in a printed traceback."""
_CLOJURE_REPORT_PATTERN: Final = re.compile(
    r"^(?:Syntax error|Unexpected error|Execution error|Error printing return value|Error reading eval result)\b.*"
    r"\(.*\)\.\n",
    re.MULTILINE,
)
"""Matches the first line of Clojure's error report. Source: `clojure.main/ex-str`, Clojure 1.10 and later."""
_INTERRUPTION_MARKERS: Final = ("(InterruptedException)", "(ThreadDeath)")
"""Texts in the first line of Clojure's report that identify an interrupted thread."""
_EXIT_MESSAGE_PATTERN: Final = re.compile(r"^code called exit\((?P<status>.*)\); the REPL goes on$", re.DOTALL)
"""Matches Codriver's message for `SystemExit`. See `codriver.repls.worker.basics.error_report`."""
MAX_LINK_LINES = 5
"""Maximum number of lines about one kind of errors in a chain."""
MAX_LINK_CHARACTERS = 200
"""Maximum characters of the message, and of the data, of an error in a chain."""
MAX_DATA_CHARACTERS = 500
"""Maximum characters of the data of an error."""
_CALLED_FUNCTION_PATTERN: Final = re.compile(r"^(?!.*/eval-?\d+(?:/|$))")
"""Matches names of functions that the sent code called, but not those of the sent code itself."""
_SENT_CODE_PREFIXES: Final = ("<", "REPL", "NO_SOURCE")
"""Prefixes of the pseudo file names of sent code."""
_INSTALLED_PATH_PARTS: Final = ("-packages", ".venv", "venv", "node_modules")
"""Parts of the paths of installed packages."""


def shorten_failure(error: Mapping[str, Any], workspace: str) -> dict[str, Any]:
    """Return a failure's fields with the project's innermost frames as `file:line in function`.

    Paths are relative to the workspace.
    """
    frames = [match for text in error.get("trace", ()) if (match := FRAME_PATTERN.match(text))]
    project_frames = [frame for frame in frames if _is_in_project(frame["file"], workspace)] or frames
    called = [frame for frame in project_frames if not _is_sent(frame)][:MAX_FRAMES]
    gone = {"trace", "chain"}
    short = {key: value for key, value in error.items() if key not in gone and (key, value) != ("form", 1)}
    if "data" in short:
        short["data"] = _cut(short["data"], MAX_DATA_CHARACTERS)
    if "file" in short:
        short["file"] = _relative(short["file"], workspace)
    if short.get("phase") == "execution":
        # Frames of code that ran have the location; those of unreadable code do not.
        gone |= {"phase", "column"} | ({"file", "line"} if called else set())
        short = {key: value for key, value in short.items() if key not in gone}
        if "file" not in short and short.get("line") == 1:
            del short["line"]  # this is only the line of the first form
    if called:
        short["trace"] = [_line(frame, workspace) for frame in called]
    return short | chain_lines(error.get("chain", ()), workspace)


def innermost_location(error: Mapping[str, Any], workspace: str) -> tuple[str, int] | None:
    """Return the file and line of the innermost frame in the workspace, or None."""
    for text in error.get("trace", ()):
        frame = FRAME_PATTERN.match(text)
        if frame is not None and _is_in_project(frame["file"], workspace) and not _is_sent(frame):
            return frame["file"], int(frame["line"])
    return None


def chain_lines(chain: Sequence[Mapping[str, Any]], workspace: str) -> dict[str, list[str]]:
    """Return the other errors of a chain, one line each: causes, wrapping errors, and members of a group."""
    lines: dict[str, list[str]] = {}
    for link in chain:
        relation = link["relation"]
        key = "members" if "member" in relation else "wrappedBy" if relation == WRAPPER_RELATION else "causes"
        nested = f"{relation}: " if " of " in relation else ""
        lines.setdefault(key, []).append(nested + _link_line(link, workspace))
    return {key: _few(lines_by_relation) for key, lines_by_relation in lines.items()}


def _few(lines: list[str]) -> list[str]:
    """Return the first lines, followed by a line with the number of the others if there are several."""
    left = len(lines) - MAX_LINK_LINES
    return [*lines[:MAX_LINK_LINES], f"… {left} more: status with about: 'error' has them"] if left > 1 else lines


def _link_line(link: Mapping[str, Any], workspace: str) -> str:
    """Return the line about an error of a chain: its class, message, data, notes and location."""
    if link["relation"] == "omitted":
        return f"… {link['message']}"
    message_text = ": ".join(part for part in (link["class"], _cut(link["message"], MAX_LINK_CHARACTERS)) if part)
    data = [_cut(link["data"], MAX_LINK_CHARACTERS)] if "data" in link else []
    notes = [_cut(f"({note})", MAX_LINK_CHARACTERS) for note in link.get("notes", ())]
    frames = [match for text in link.get("trace", ()) if (match := FRAME_PATTERN.match(text))]
    frame = next(
        (candidate for candidate in frames if _is_in_project(candidate["file"], workspace)),
        frames[0] if frames else None,
    )
    where = _where(frame, workspace) if frame else ""
    return " ".join([message_text, *data, *notes, *([f"({where})"] if where else [])])


def _where(frame: re.Match[str], workspace: str) -> str:
    """Return the location of a frame. For sent code that is only the function, unless it is the code itself."""
    if frame["file"].startswith(_SENT_CODE_PREFIXES[1:]):
        return f"in {frame['function']}" if _CALLED_FUNCTION_PATTERN.match(frame["function"]) else ""
    return _line(frame, workspace)


def _cut(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters."""
    return truncate(" ".join(text.split("\n")), most)


def without_report(stderr: str, error: Mapping[str, Any], workspace: str) -> tuple[str, list[str]]:
    """Return stderr without the report of this failure at its end, and the causes named by the report."""
    message_text = f"{error.get('message', '')}".strip()
    if (found := _last_clojure_report(stderr)) is not None and stderr[found.end() :].strip() == (
        message_text or NO_MESSAGE_TEXT
    ):
        return stderr[: found.start()], []
    if (begin := _lisp(stderr, error)) is not None:
        return stderr[:begin], []
    if (begin := _bare_message_start(stderr, error)) is not None:
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


def without_interruption(output: str) -> str:
    """Return output without Clojure's report of an interrupted thread at its end."""
    found = _last_clojure_report(output)
    is_redundant = (
        found and any(name in found[0] for name in _INTERRUPTION_MARKERS) and output.count("\n", found.end()) <= 1
    )
    return output[: found.start()] if found and is_redundant else output


def without_codriver_traceback(output: str, message: str = "") -> str:
    """Return output without a final traceback that has no file frames, or only those of Codriver's program.

    The message already describes such an error. If `message` ends with the error's text, callers of the program may
    have file frames as well, such as a server written in Python.
    """
    start = _block(output, len(output))
    if start is None:
        return output
    report = output[start + len(TRACEBACK_HEADER) :]
    frames = [*itertools.takewhile(lambda line: line.startswith(" "), report.splitlines(keepends=True))]
    files = [match["file"] for line in frames if (match := _FRAME_LINE_PATTERN.match(line.rstrip("\n")))]
    words = report[len("".join(frames)) :].strip()
    message_has_error = bool(words) and message.endswith(words)
    codriver_files = files[-1:] if message_has_error else files
    return output[:start] if codriver_files and all(file.startswith("<") for file in codriver_files) else output


def _bare_message_start(stderr: str, error: Mapping[str, Any]) -> int | None:
    """Return the start of the message at the end of a text, which is the whole report of a REPL without traces."""
    message_text = f"{error.get('message', '')}\n"
    begin = len(stderr) - len(message_text)
    if (
        not message_text.strip()
        or error.get("trace")
        or TRACEBACK_HEADER in stderr
        or not stderr.endswith(message_text)
    ):
        return None
    return begin if begin == 0 or stderr[begin - 1] == "\n" else None


def _words(error: Mapping[str, Any]) -> str:
    """Return the lines with which Python prints an error, without the module of its class."""
    name, message = str(error.get("class", "")).rsplit(".", 1)[-1], str(error.get("message", ""))
    if name == "SystemExit" and (exited := _EXIT_MESSAGE_PATTERN.match(message)):
        message = exited["status"]
    message_text = "\n".join([message.strip(), *error.get("notes", ())])
    return f"{name}: {message_text}" if message.strip() else f"{name}{message_text}"


def _start(stderr: str, error: Mapping[str, Any]) -> int:
    """Return the start of the report of a failure with a known chain, or the end of the text if there is no report."""
    links = [error, *(link for link in error.get("chain", ()) if link["relation"] in ("cause", "context"))]
    start, end = len(stderr), len(stderr)
    for number, link in enumerate(links):
        is_group = any(other["relation"] == "member 1" for other in error.get("chain", ())) and not number
        found = _group(stderr, end, link) if is_group else _traceback_start(stderr, end, link)
        if found is None:
            return len(stderr)
        start, before = found, _end_before(stderr, found)
        if before is None:
            break
        end = before
    return start


def _traceback_start(stderr: str, end: int, link: Mapping[str, Any]) -> int | None:
    """Return the start of an error's traceback that ends at `end`, or only of its message if it was never raised."""
    words = _words(link)
    last = stderr[:end].rstrip("\n")
    if not last.endswith(words):
        return None
    line = last.rfind("\n", 0, len(last) - len(words)) + 1
    start = _block(stderr, line)
    frames = stderr[start + len(TRACEBACK_HEADER) : line].splitlines() if start is not None else [""]
    return start if all(text.startswith(" ") for text in frames) else line


def _group(stderr: str, end: int, link: Mapping[str, Any]) -> int | None:
    """Return the start of an exception group's traceback that ends at `end`. Its lines have a margin."""
    start = stderr.rfind(GROUP_HEADER, 0, end)
    if start < 0 or (start and stderr[start - 1] != "\n"):
        return None
    lines = stderr[start:end].splitlines()
    is_its = any(line.endswith(_words({**link, "notes": ()})) for line in lines)
    return start if is_its and all(line.lstrip(" ").startswith(("|", "+")) for line in lines) else None


def _lisp(stderr: str, error: Mapping[str, Any]) -> int | None:
    """Return the start of the embedded Lisp's report of a failure, if the text ends with it."""
    if TRACEBACK_HEADER in stderr:
        return None
    lines = "".join(f"{link['relation']}: {link['class']}{_printed_error(link)}\n" for link in error.get("chain", ()))
    if not stderr.endswith(lines):
        return None
    end = len(stderr) - len(lines)
    while stderr.startswith("  at ", begin := stderr.rfind("\n", 0, max(0, end - 1)) + 1) and begin < end:
        end = begin
    message_text = f"{_printed_error(error)}\n"
    if not stderr.endswith(message_text, 0, end):
        return None
    begin = stderr.rfind("\n", 0, end - len(message_text)) + 1
    head, kind = stderr[begin : end - len(message_text)], str(error.get("class", ""))
    return begin if head == kind or (head.startswith(f"{kind} (") and head.endswith(")")) else None


def _printed_error(error: Mapping[str, Any]) -> str:
    """Return the message and data of an error as the embedded Lisp prints them."""
    data = f" {error['data']}" if "data" in error else ""
    return f": {error.get('message', '')}{data}"


def _last_clojure_report(stderr: str) -> re.Match[str] | None:
    """Return the match for the first line of Clojure's last report, or None."""
    return next(reversed([*_CLOJURE_REPORT_PATTERN.finditer(stderr)]), None)


def _block(text: str, end: int) -> int | None:
    """Return the start of the last traceback before `end`, if it is at the start of a line."""
    start = text.rfind(TRACEBACK_HEADER, 0, end)
    return start if start == 0 or (start > 0 and text[start - 1] == "\n") else None


def _end_before(text: str, start: int) -> int | None:
    """Return the end of the traceback before the one at `start`, which is its cause or context."""
    return next((start - len(words) for words in TRACEBACK_SEPARATORS if text.endswith(words, 0, start)), None)


def _cause(block: str, workspace: str) -> str | None:
    """Return a cause as one line, or None for one of several lines, which may be followed by other output."""
    lines = block.removeprefix(TRACEBACK_HEADER).rstrip("\n").split("\n")
    words = [line for line in lines if line and not line.startswith(" ")]
    if len(words) != 1 or words[0] != lines[-1]:
        return None
    frames = [*_FRAME_LINE_PATTERN.finditer(block)]
    project_frames = [frame for frame in frames if _is_in_project(frame["file"], workspace)] or frames
    return f"{words[0]} ({_line(project_frames[-1], workspace)})" if project_frames else words[0]


def _line(frame: re.Match[str], workspace: str) -> str:
    """Return a line about a frame: its location, its function, and how often it is repeated."""
    location = f"{_relative(frame['file'], workspace)}:{frame['line']}"
    line = f"{location} in {frame['function']}" if frame["function"] else location
    times = frame.groupdict().get("repeated")
    return f"{line} … {times}" if times else line


def _is_sent(frame: re.Match[str]) -> bool:
    """Return whether a frame is the sent code itself, and not a function defined by earlier code.

    On the JVM, evaluated functions have no file either, or both have one, so the function's name decides.
    """
    if frame["file"].startswith("<"):
        return frame["function"].startswith(("<module>", "__lisp_expr"))
    return _CALLED_FUNCTION_PATTERN.match(frame["function"]) is None


def _is_in_project(file: str, workspace: str) -> bool:
    """Return whether a file belongs to the project, or is the name of sent code."""
    if any(part in file for part in _INSTALLED_PATH_PARTS):
        return False
    path = PurePath(file)
    return not path.is_absolute() or path.is_relative_to(workspace)


def _relative(file: str, workspace: str) -> str:
    """Return the path of a file relative to the workspace, or unchanged if it is outside."""
    path = PurePath(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file
