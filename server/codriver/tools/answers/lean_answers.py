"""Shorten the description of an evaluation to the parts that its reader does not know yet.

These fields are omitted:

- `status` if it is `done`, or if the reason says that the evaluation failed
- `evaluationId` if the reader passed it, or if the evaluation is done and no note needs it, except one about a
  repetition
- `sessionKey` if the reader passed it, or would get that session by default
- `who` if that is the reader
- `generation` and `ns` if they equal those in the reader's last answer about this session, or the namespace that it
  passed
- `notes` if there are none
- `elapsedMs` below 100, and that of an unfinished evaluation in later answers
- `outputLines`
- Python's `None` as `result` and among `values`, and the name that a load returns
- in an error: `form` if it is 1, frames outside the project, and the report of the error in `stderr`
- the hint of `evaluation-failed`, except for the second failure of the same code

With `detail: true`, and in answers to the command line, nothing is omitted.

A REPL describes a failure twice: in fields, and in the report that it prints. The answer contains one line for each of
the project's frames, the chain, and no report that repeats them. If the fields have no chain, the causes are parsed
from the report. A report that cannot be distinguished from the program's own output is not removed.
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
from codriver.repls.contract.stack_frames import FRAME_PATTERN
from codriver.repls.contract.stack_trace_values import NO_MESSAGE_TEXT, WRAPPER_RELATION
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.session_choice import session_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import ReportedStatus
    from codriver.tools.calls.call import Call

SECOND_FAILURE_PREFIX = "this is the second failure: "
"""Start of the hint about a second failure of the same code or test. This hint is never omitted."""
FRAMES_HINT = 'status with about: "error" numbers the frames, and evaluate_code with frame runs code in one'
"""Hint about failures in a REPL that retains frames."""
MIN_ELAPSED_MS = 100
"""Duration, in milliseconds, below which an answer omits `elapsedMs`."""


LOAD_VALUE_PATTERN: Final = re.compile(r"<module '[^\n]*>$|#'\S+$")
"""Matches the value of a load: the module, or the var that the last form defined."""


class Evaluating(Arguments):
    """Base class of argument models for tools whose answers describe an evaluation."""

    detail: bool | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """Whether to return every field. The default depends on the client.

    Only `evaluate_code` lists this argument, but all of these tools accept it.
    """
    requests_status: ClassVar[bool] = False
    """Whether the caller requests the state of an evaluation, in which case the answer always has `status`."""


@dataclass(frozen=True, slots=True)
class AnswerReader:
    """Describes what the receiver of an answer already knows, from its request and its last answer."""

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
    """Whether the request was to load a file rather than to compute a value."""

    @property
    def namespace_seen(self) -> str | None:
        """Return the session's namespace in the reader's last answer, or None."""
        return self.seen.namespace if self.seen else None


def wants_detail(call: Call, arguments: Evaluating) -> bool:
    """Return whether the answer should include every field."""
    return find_traits(call.client_name).wants_detail if arguments.detail is None else arguments.detail


def make_reader(
    call: Call,
    arguments: Evaluating,
    who: str,
    evaluation: Evaluation,
    session: str,
    default_session: str | None = None,
) -> AnswerReader:
    """Collect what a caller already knows about an evaluation.

    `default_session` is the key of the session that the caller gets by default, if known.
    """
    state = call.services.core.state
    repl, knowledge = state.repls.get(evaluation.repl), reported_evaluations.caller_knowledge(state, call.client, who)
    given = arguments.__dict__
    expected_session: str | None = given.get("repl_session_key")
    if expected_session is None and not (repl is not None and repl.origin.is_discovered_only):
        # An answer names a person's kernel unless the call did.
        expected_session = default_session or _default_session(call, who)
    return AnswerReader(
        who=who,
        session_key=expected_session,
        namespace=given.get("namespace"),
        evaluation=given.get("evaluation_id"),
        seen=knowledge.seen.get(session) if knowledge else None,
        requests_status=arguments.requests_status,
        workspace=str(call.services.workspace),
        reads_python=repl is not None and repl.dialect == "python",
        loads=evaluation.kind == "load-file",
    )


def _default_session(call: Call, who: str) -> str | None:
    """Return the key of the session that a caller gets by default, or None if the caller has to name one."""
    try:
        return session_in_use(call, None, who).key
    except RefusedError:
        return None


def omit_known_fields(
    fields: Mapping[str, object], reader: AnswerReader, *, is_named: bool = True
) -> dict[str, object]:
    """Remove the fields that the reader already knows from the full description of an evaluation.

    With `is_named`, a note about the evaluation may refer to its id, which is then kept.
    """
    if "error" in fields:
        fields = _with_short_error(fields, reader.workspace)
    is_known = _known_fields(fields, reader, is_named=is_named)
    unknown_fields = {key: value for key, value in fields.items() if key not in is_known or not is_known[key]}
    if reader.reads_python:
        _remove_none(unknown_fields)
    if reader.loads and LOAD_VALUE_PATTERN.match(str(unknown_fields.get("result"))):
        del unknown_fields["result"]
    return unknown_fields


def _with_short_error(fields: Mapping[str, object], workspace: str) -> Mapping[str, object]:
    """Shorten the error among the fields, and remove the report of the same error from the end of stderr."""
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


def _known_fields(fields: Mapping[str, object], reader: AnswerReader, *, is_named: bool) -> Mapping[str, bool]:
    """Return for each field whether the reader knows its value. Fields without an entry are unknown."""
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


def _remove_none(fields: dict[str, object]) -> None:
    """Remove `None` from the values of Python code, as Python's prompt does.

    The list of values is removed if it then contains only the result.
    """
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
"""First line of an exception group's traceback."""
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
"""Texts in the first line of Clojure's error report that identify an interrupted thread."""
_EXIT_MESSAGE_PATTERN: Final = re.compile(r"^code called exit\((?P<status>.*)\); the REPL keeps running$", re.DOTALL)
"""Matches Codriver's message for `SystemExit`. See `codriver.repls.worker.basics.error_report`."""
MAX_LINK_LINES = 5
"""Maximum number of lines about one kind of error in a chain."""
MAX_LINK_CHARACTERS = 200
"""Maximum number of characters in the message, and in the data, of an error in a chain."""
MAX_DATA_CHARACTERS = 500
"""Maximum number of characters in an error's data."""
_CALLED_FUNCTION_PATTERN: Final = re.compile(r"^(?!.*/eval-?\d+(?:/|$))")
"""Matches the names of functions that the sent code called, but not the names of the sent code itself."""
_SENT_CODE_PREFIXES: Final = ("<", "REPL", "NO_SOURCE")
"""Prefixes of the pseudo file names that sent code has."""
_INSTALLED_PATH_PARTS: Final = ("-packages", ".venv", "venv", "node_modules")
"""Parts of the paths to installed packages."""


def shorten_failure(error: Mapping[str, Any], workspace: str) -> dict[str, Any]:
    """Shorten the fields of a failure for an answer.

    Frames outside the project are removed. The innermost frames come first, as `FILE:LINE in FUNCTION` with paths
    relative to the workspace.
    """
    frames = [match for text in error.get("trace", ()) if (match := FRAME_PATTERN.match(text))]
    project_frames = [frame for frame in frames if _is_in_project(frame["file"], workspace)] or frames
    called = [frame for frame in project_frames if not _is_sent_code(frame)][:MAX_FRAMES]
    gone = {"trace", "chain"}
    short = {key: value for key, value in error.items() if key not in gone and (key, value) != ("form", 1)}
    if "data" in short:
        short["data"] = _to_one_line(short["data"], MAX_DATA_CHARACTERS)
    if "file" in short:
        short["file"] = _relative_path(short["file"], workspace)
    if short.get("phase") == "execution":
        # Frames of code that ran have the location; those of unreadable code do not.
        gone |= {"phase", "column"} | ({"file", "line"} if called else set())
        short = {key: value for key, value in short.items() if key not in gone}
        if "file" not in short and short.get("line") == 1:
            del short["line"]  # this is only the line of the first form
    if called:
        short["trace"] = [_describe_frame(frame, workspace) for frame in called]
    return short | describe_chain(error.get("chain", ()), workspace)


def innermost_location(error: Mapping[str, Any], workspace: str) -> tuple[str, int] | None:
    """Return the file and line of the innermost frame in the workspace, or None if there is none."""
    for text in error.get("trace", ()):
        frame = FRAME_PATTERN.match(text)
        if frame is not None and _is_in_project(frame["file"], workspace) and not _is_sent_code(frame):
            return frame["file"], int(frame["line"])
    return None


def describe_chain(chain: Sequence[Mapping[str, Any]], workspace: str) -> dict[str, list[str]]:
    """Describe the other errors in a chain in one line each.

    The lines are grouped into causes, wrapping errors, and members of an exception group.
    """
    lines: dict[str, list[str]] = {}
    for link in chain:
        relation = link["relation"]
        key = "members" if "member" in relation else "wrappedBy" if relation == WRAPPER_RELATION else "causes"
        nested = f"{relation}: " if " of " in relation else ""
        lines.setdefault(key, []).append(nested + _link_line(link, workspace))
    return {key: _limit_lines(lines_by_relation) for key, lines_by_relation in lines.items()}


def _limit_lines(lines: list[str]) -> list[str]:
    """Return the first lines. If several are omitted, a line with their number follows."""
    left = len(lines) - MAX_LINK_LINES
    return [*lines[:MAX_LINK_LINES], f"… {left} more: status with about: 'error' has them"] if left > 1 else lines


def _link_line(link: Mapping[str, Any], workspace: str) -> str:
    """Describe an error in a chain in one line: its class, message, data, notes and location."""
    if link["relation"] == "omitted":
        return f"… {link['message']}"
    message_text = ": ".join(
        part for part in (link["class"], _to_one_line(link["message"], MAX_LINK_CHARACTERS)) if part
    )
    data = [_to_one_line(link["data"], MAX_LINK_CHARACTERS)] if "data" in link else []
    notes = [_to_one_line(f"({note})", MAX_LINK_CHARACTERS) for note in link.get("notes", ())]
    frames = [match for text in link.get("trace", ()) if (match := FRAME_PATTERN.match(text))]
    frame = next(
        (candidate for candidate in frames if _is_in_project(candidate["file"], workspace)),
        frames[0] if frames else None,
    )
    where = _describe_location(frame, workspace) if frame else ""
    return " ".join([message_text, *data, *notes, *([f"({where})"] if where else [])])


def _describe_location(frame: re.Match[str], workspace: str) -> str:
    """Return the location of a frame as text.

    For code that a caller sent, this is only the name of the function, or an empty string outside functions.
    """
    if frame["file"].startswith(_SENT_CODE_PREFIXES[1:]):
        return f"in {frame['function']}" if _CALLED_FUNCTION_PATTERN.match(frame["function"]) else ""
    return _describe_frame(frame, workspace)


def _to_one_line(text: str, most: int) -> str:
    """Join a string into one line of at most `most` characters."""
    return truncate(" ".join(text.split("\n")), most)


def without_report(stderr: str, error: Mapping[str, Any], workspace: str) -> tuple[str, list[str]]:
    """Remove the report of a failure from the end of stderr.

    Returns the remaining text, and the causes that only the report describes.
    """
    message_text = f"{error.get('message', '')}".strip()
    if (found := _last_clojure_report(stderr)) is not None and stderr[found.end() :].strip() == (
        message_text or NO_MESSAGE_TEXT
    ):
        return stderr[: found.start()], []
    if (begin := _lisp_report_start(stderr, error)) is not None:
        return stderr[:begin], []
    if (begin := _bare_message_start(stderr, error)) is not None:
        return stderr[:begin], []
    if error.get("chain") or error.get("notes"):
        return stderr[: _report_start(stderr, error)], []
    name = _python_error_lines(error)
    start = _last_traceback_start(stderr, len(stderr))
    if start is None or not stderr.rstrip().endswith(name):
        return stderr, []
    causes: list[str] = []
    while (end := _previous_traceback_end(stderr, start)) is not None:
        before = _last_traceback_start(stderr, end)
        if before is None or (cause := _describe_cause(stderr[before:end], workspace)) is None:
            return stderr, []
        causes.append(cause)
        start = before
    return stderr[:start], causes


def without_interruption(output: str) -> str:
    """Remove Clojure's report of an interrupted thread from the end of the output."""
    found = _last_clojure_report(output)
    is_redundant = (
        found and any(name in found[0] for name in _INTERRUPTION_MARKERS) and output.count("\n", found.end()) <= 1
    )
    return output[: found.start()] if found and is_redundant else output


def without_codriver_traceback(output: str, message: str = "") -> str:
    """Remove a final traceback from the output if its frames are only those of Codriver's program.

    The message already describes such an error. If `message` ends with the error's text, only the innermost frame has
    to be one of Codriver's, because a server written in Python has frames of its own.
    """
    start = _last_traceback_start(output, len(output))
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
    """Return the position after which the text contains only the message of an error, or None.

    A REPL without stack traces reports nothing but this message.
    """
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


def _python_error_lines(error: Mapping[str, Any]) -> str:
    """Return the lines with which Python prints an error, with the class's name but without its module."""
    name, message = str(error.get("class", "")).rsplit(".", 1)[-1], str(error.get("message", ""))
    if name == "SystemExit" and (exited := _EXIT_MESSAGE_PATTERN.match(message)):
        message = exited["status"]
    message_text = "\n".join([message.strip(), *error.get("notes", ())])
    return f"{name}: {message_text}" if message.strip() else f"{name}{message_text}"


def _report_start(stderr: str, error: Mapping[str, Any]) -> int:
    """Return the position at which the report of a failure with a known chain starts.

    If the text does not end with such a report, this is the end of the text.
    """
    links = [error, *(link for link in error.get("chain", ()) if link["relation"] in ("cause", "context"))]
    start, end = len(stderr), len(stderr)
    for number, link in enumerate(links):
        is_group = any(other["relation"] == "member 1" for other in error.get("chain", ())) and not number
        found = _group_start(stderr, end, link) if is_group else _traceback_start(stderr, end, link)
        if found is None:
            return len(stderr)
        start, before = found, _previous_traceback_end(stderr, found)
        if before is None:
            break
        end = before
    return start


def _traceback_start(stderr: str, end: int, link: Mapping[str, Any]) -> int | None:
    """Return the start of the traceback of an error that ends at `end`.

    For an error that was never raised, this is the start of its message. Returns None if the text does not end with the
    error.
    """
    words = _python_error_lines(link)
    last = stderr[:end].rstrip("\n")
    if not last.endswith(words):
        return None
    line = last.rfind("\n", 0, len(last) - len(words)) + 1
    start = _last_traceback_start(stderr, line)
    frames = stderr[start + len(TRACEBACK_HEADER) : line].splitlines() if start is not None else [""]
    return start if all(text.startswith(" ") for text in frames) else line


def _group_start(stderr: str, end: int, link: Mapping[str, Any]) -> int | None:
    """Return the start of the traceback of an exception group that ends at `end`, or None.

    The lines of this traceback are indented with `|` or `+`.
    """
    start = stderr.rfind(GROUP_HEADER, 0, end)
    if start < 0 or (start and stderr[start - 1] != "\n"):
        return None
    lines = stderr[start:end].splitlines()
    is_its = any(line.endswith(_python_error_lines({**link, "notes": ()})) for line in lines)
    return start if is_its and all(line.lstrip(" ").startswith(("|", "+")) for line in lines) else None


def _lisp_report_start(stderr: str, error: Mapping[str, Any]) -> int | None:
    """Return the start of a failure report by the embedded Lisp, or None if the text does not end with one."""
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
    """Find the first line of Clojure's last report, or return None."""
    return next(reversed([*_CLOJURE_REPORT_PATTERN.finditer(stderr)]), None)


def _last_traceback_start(text: str, end: int) -> int | None:
    """Return the start of the last traceback before `end`, or None. A traceback starts at the beginning of a line."""
    start = text.rfind(TRACEBACK_HEADER, 0, end)
    return start if start == 0 or (start > 0 and text[start - 1] == "\n") else None


def _previous_traceback_end(text: str, start: int) -> int | None:
    """Return the end of the traceback before the one at `start`, or None.

    That traceback belongs to the cause or the context of the error.
    """
    return next((start - len(words) for words in TRACEBACK_SEPARATORS if text.endswith(words, 0, start)), None)


def _describe_cause(block: str, workspace: str) -> str | None:
    """Describe a cause in one line, or return None if its message has several lines.

    Such a message cannot be distinguished from other output that follows.
    """
    lines = block.removeprefix(TRACEBACK_HEADER).rstrip("\n").split("\n")
    words = [line for line in lines if line and not line.startswith(" ")]
    if len(words) != 1 or words[0] != lines[-1]:
        return None
    frames = [*_FRAME_LINE_PATTERN.finditer(block)]
    project_frames = [frame for frame in frames if _is_in_project(frame["file"], workspace)] or frames
    return f"{words[0]} ({_describe_frame(project_frames[-1], workspace)})" if project_frames else words[0]


def _describe_frame(frame: re.Match[str], workspace: str) -> str:
    """Describe a frame in one line: its location, its function, and how often it is repeated."""
    location = f"{_relative_path(frame['file'], workspace)}:{frame['line']}"
    line = f"{location} in {frame['function']}" if frame["function"] else location
    times = frame.groupdict().get("repeated")
    return f"{line} … {times}" if times else line


def _is_sent_code(frame: re.Match[str]) -> bool:
    """Return whether a frame is that of the sent code itself, and not of a function defined by earlier code.

    On the JVM, either both or neither have a file, so the name of the function decides.
    """
    if frame["file"].startswith("<"):
        return frame["function"].startswith(("<module>", "__lisp_expr"))
    return _CALLED_FUNCTION_PATTERN.match(frame["function"]) is None


def _is_in_project(file: str, workspace: str) -> bool:
    """Return whether a file belongs to the project, or is the pseudo file name of sent code."""
    if any(part in file for part in _INSTALLED_PATH_PARTS):
        return False
    path = PurePath(file)
    return not path.is_absolute() or path.is_relative_to(workspace)


def _relative_path(file: str, workspace: str) -> str:
    """Return a path relative to the workspace, or unchanged if it is outside."""
    path = PurePath(file)
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else file
