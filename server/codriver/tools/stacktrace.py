"""`stacktrace`: return the stack trace of the last error in a session."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from pydantic import Field

from codriver.errors import format_count
from codriver.files import last_write_ns
from codriver.repls.contract.queries import LastError
from codriver.repls.contract.stack_frames import fold_repeated_frames, parse_frame
from codriver.repls.contract.stack_trace_values import StackFrame, StackTrace
from codriver.tools.answers.answer_budget import cut_to_head, default_budget, fit_rows, json_bytes
from codriver.tools.answers.evaluation_answers import is_edited, raising_lines
from codriver.tools.calls.answer import ROWS_SCHEMA, STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments
from codriver.tools.calls.evaluation_waits import find_evaluation
from codriver.tools.calls.session_choice import find_target, session_field, session_in_use
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.failed_test_frames import last_failed_run, no_frames_reason
from codriver.tools.execution.failed_test_traces import first_failure_trace
from codriver.tools.execution.failure_frames import display_path
from codriver.tools.execution.failure_selection import can_evaluate_in_frames, has_test_frames, last_failed_evaluation
from codriver.tools.execution.test_runs import read_report

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.evaluations import Evaluation, Failure
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.tools.calls.arguments import Json
    from codriver.tools.calls.call import Call

NO_LOCALS_NOTE = "locals are missing, because this REPL reports none for these frames"
LIBRARY_LOCALS_NOTE = (
    "no function of the project has locals here. evaluate_code with frame: 0 evaluates in the innermost frame, "
    "also in that of a library"
)
MAX_LOCAL_CHARACTERS = 120
"""Maximum number of characters in a local variable's value in an answer."""
MAX_SENT_CHARACTERS = 2000
"""Maximum number of characters in a value that a REPL sends: more than is displayed, to recognize long secrets."""
_CLASS_NAME_PATTERN: Final = re.compile(r"[\w.$]+")
"""Matches the name of an exception class."""
MAX_NEAREST_FRAMES = 5
"""Maximum number of frames displayed for a trace that contains none of the user's code."""


class StackArguments(Arguments):
    """The arguments of the tool `stacktrace`."""

    repl_session_key: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    evaluation_id: str | None = Field(None, description="Default: the last error.")
    whole: bool = Field(default=False, description="Include the frames of libraries.")
    locals: bool = Field(default=False, description="Include the variables of each frame.")


async def stacktrace(call: Call, arguments: StackArguments) -> Answer:
    """Return the stack trace of a session's last error, or of an evaluation's error."""
    if (job := _failed_job(call, arguments)) is not None:
        return await _job_answer(call, job, arguments)
    if arguments.evaluation_id is not None:
        failed: Evaluation | None = find_evaluation(call.state, arguments.evaluation_id)
        target = find_target(call.state, find_evaluation(call.state, arguments.evaluation_id))
    else:
        target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
        failed = last_failed_evaluation(call.state, target)
    session = session_field(target, arguments.repl_session_key or arguments.evaluation_id)
    newest = last_failed_evaluation(call.state, target)
    has_live_frames = can_evaluate_in_frames(target) and (failed is None or failed == newest)
    if failed is not None and (
        failed.kind == "run-tests" or failed != last_failed_evaluation(call.state, target, "evaluate")
    ):
        trace = await _recorded_trace(call, failed)
        has_live_frames = has_live_frames and _has_test_frames(call, failed, trace)
    else:
        query = LastError(MAX_SENT_CHARACTERS if arguments.locals else 0, session=target.session.name)
        trace = await call.services.repls.adapter(target.repl.id).query(query)
    if trace is None:
        fields: dict[str, object] = {"frames": [], "count": 0, "notes": ["no error has happened in this session"]}
        return Answer({**fields, **session})
    trace = _number_frames(trace, has_live_frames=has_live_frames)
    if arguments.locals:
        trace = with_short_locals(trace, call.services.transcripts)
    missing = LIBRARY_LOCALS_NOTE if has_live_frames else NO_LOCALS_NOTE
    extra_notes = () if not arguments.locals or _has_locals(trace) else (missing,)
    source = {} if failed is None else await _source_field(call, failed, trace)
    fields = trace_fields(
        _with_short_paths(trace, call.services.workspace),
        whole=arguments.whole,
        max_bytes=default_budget(call),
        extra_notes=extra_notes,
    )
    return Answer({**fields, **source, **_failure_origin_fields(call, failed), **session})


def _failed_job(call: Call, arguments: StackArguments) -> Evaluation | None:
    """Return the test run with the given id, or the caller's last failure if that is a test run, or None."""
    if arguments.evaluation_id is not None:
        evaluation = find_evaluation(call.state, arguments.evaluation_id)
        return evaluation if evaluation.is_job else None
    return last_failed_run(call, call.who(arguments.who), arguments.repl_session_key)


async def _job_answer(call: Call, job: Evaluation, arguments: StackArguments) -> Answer:
    """Return the answer about the first failure of a test run.

    Frames and local variables are those at the time of the failure.
    """
    if not job.is_test_job:
        trace = _to_stack_trace(job.failure) if job.failure is not None else None
        fields = {"frames": [], "count": 0, "notes": ["the code has not failed"]}
        if trace is not None:
            trace = _with_short_paths(trace, call.services.workspace)
            fields = trace_fields(trace, whole=arguments.whole, max_bytes=default_budget(call))
        return Answer({**fields, **_failure_origin_fields(call, job)})
    trace = first_failure_trace(call, job.id)
    if trace is None:
        words = "no test has failed in this run" if job.is_finished else "this run has not finished"
        return Answer({"frames": [], "count": 0, "notes": [words], **_failure_origin_fields(call, job)})
    if arguments.locals:
        trace = with_short_locals(trace, call.services.transcripts)
    extra_notes = () if not arguments.locals or _has_locals(trace) else (NO_LOCALS_NOTE,)
    why = no_frames_reason(call, job.id)
    source = await _source_field(call, job, trace)
    fields = trace_fields(
        _with_short_paths(trace, call.services.workspace),
        whole=arguments.whole,
        max_bytes=default_budget(call),
        extra_notes=(*extra_notes, *([why] if why else [])),
    )
    return Answer({**fields, **source, **_failure_origin_fields(call, job)})


async def _source_field(call: Call, failed: Evaluation, trace: StackTrace) -> dict[str, object]:
    """Return a field of an answer with the source lines of the innermost frame in the project's Python code.

    It is left out if the file has changed since the error, or since the code was loaded.
    """
    frame = next((candidate for candidate in trace.frames if not candidate.tooling), None)
    if frame is None or not frame.line or not (frame.file or "").endswith(".py"):
        return {}
    path = call.services.workspace / str(frame.file)
    time_ms = (failed.started_at if failed.is_test_job else failed.finished_at) or 0
    if await call.services.work.files.run(call.client, partial(_is_changed_since, path, time_ms)):
        return {}
    if not failed.is_test_job and await is_edited(call, failed, path):
        return {}
    text = await raising_lines(call, path, frame.line)
    return {"source": text} if text else {}


def _is_changed_since(file: Path, timestamp_ms: int) -> bool:
    """Return whether a file was changed after a time, or cannot be read."""
    try:
        return last_write_ns(file.stat()) // 1_000_000 > timestamp_ms
    except OSError:
        return True


def _with_short_paths(trace: StackTrace, workspace: Path) -> StackTrace:
    """Make the paths of files in the workspace relative to it."""
    frames = [
        frame if frame.file is None else replace(frame, file=display_path(frame.file, workspace))
        for frame in trace.frames
    ]
    chain = [_with_short_paths(link, workspace) for link in trace.chain]
    return replace(trace, frames=tuple(frames), chain=tuple(chain))


def _has_test_frames(call: Call, failed: Evaluation, trace: StackTrace | None) -> bool:
    """Return whether the REPL still retains the frames of a failed test."""
    is_placed = trace is not None and trace.frames[0].text != f"{trace.frames[0].file}:{trace.frames[0].line}"
    return is_placed and has_test_frames(call.state, failed)


def _number_frames(trace: StackTrace, *, has_live_frames: bool) -> StackTrace:
    """Number the frames of a stack trace if code can be evaluated in them."""
    numbers = [at if has_live_frames and frame.function else None for at, frame in enumerate(trace.frames)]
    frames = [replace(frame, number=number) for frame, number in zip(trace.frames, numbers, strict=True)]
    return replace(trace, frames=tuple(frames))


async def _recorded_trace(call: Call, failed: Evaluation) -> StackTrace | None:
    """Return the recorded stack trace of an evaluation, or of the first failed test of a test run."""
    if failed.kind == "run-tests":
        report = await read_report(call, failed)
        wrong = [row for row in report["results"] if row["outcome"] != "pass"] if report else []
        if row := next((row for row in wrong if row.get("frames")), wrong[0] if wrong else None):
            kind, message = error_from_row(row)
            frames = tuple(_to_stack_frame(frame) for frame in row.get("frames", ()))
            location = StackFrame(f"{row.get('file')}:{row.get('line')}", row.get("file"), row.get("line"), row["test"])
            return StackTrace(kind, message, frames or (location,), f"test {row['ns']}/{row['test']}")
    if failed.failure is None:
        return None
    return _to_stack_trace(failed.failure)


def error_from_row(row: Json) -> tuple[str, str]:
    """Return the class and the message of a failed test's error.

    If no error was raised, these are the outcome and the values of the test.
    """
    actual = str(row.get("actual", ""))
    kind, _, message = actual.partition(": ")
    return (kind, message) if _CLASS_NAME_PATTERN.fullmatch(kind) else (str(row["outcome"]), actual)


def _to_stack_trace(failure: Failure) -> StackTrace:
    """Convert a failure and its chain to a stack trace."""
    frames = tuple(parse_frame(text, ()) for text in failure.trace)
    chain = tuple(map(_to_stack_trace, failure.chain))
    return StackTrace(failure.type, failure.message, frames, failure.data, failure.notes, failure.relation, chain)


def _to_stack_frame(frame: Json) -> StackFrame:
    """Convert a frame of a test report to a frame of a stack trace."""
    file, line, function = frame.get("file"), frame.get("line"), str(frame.get("function"))
    return StackFrame(f"{function} ({file}:{line})", file, line, function, bool(frame.get("tooling")))


def _failure_origin_fields(call: Call, failed: Evaluation | None) -> dict[str, object]:
    """Return the fields of an answer that describe whose code failed, and how long ago."""
    if failed is None:
        return {}
    ago = max(0, call.services.now() - (failed.finished_at or 0))
    return {"evaluationId": failed.id, "who": failed.who, "agoMs": ago}


def with_short_locals(trace: StackTrace, transcripts: Transcripts) -> StackTrace:
    """Shorten and redact the local variables of a stack trace.

    Secrets are recognized in the longer values that the REPL sent.
    """

    def short(frame: StackFrame) -> StackFrame:
        if not frame.locals:
            return frame
        displayed = {
            name: transcripts.redact_beginning(text, MAX_LOCAL_CHARACTERS, is_whole=len(text) < MAX_SENT_CHARACTERS)
            for name, text in frame.locals.items()
        }
        return replace(frame, locals=displayed)

    chain = tuple(with_short_locals(link, transcripts) for link in trace.chain)
    return replace(trace, frames=tuple(map(short, trace.frames)), chain=chain)


def _has_locals(trace: StackTrace) -> bool:
    """Return whether any frame of a stack trace or its chain has local variables."""
    return any(frame.locals for linked in (trace, *trace.chain) for frame in linked.frames)


def trace_fields(
    trace: StackTrace, *, whole: bool, max_bytes: int, extra_notes: tuple[str, ...] = ()
) -> dict[str, object]:
    """Return a stack trace as fields of an answer, with at most `max_bytes` bytes.

    The project's frames are included, or the innermost ones if there are none. With `whole`, all frames are. Each error
    in the chain has its own frames. Repeated frames appear once.
    """
    frames, count, notes = _frames_to_display(trace, whole=whole)
    notes += extra_notes
    message, data = cut_to_head(trace.message, max_bytes // 4), cut_to_head(trace.data or "", max_bytes // 4)
    for name, cut in (("message", message), ("data", data)):
        if cut.omitted:
            notes.append(f"the last {cut.omitted} characters of {name} are left out")
    available_bytes = max_bytes - json_bytes(message.text) - json_bytes(data.text)
    links, shortened, left_out = fit_rows(
        [_link_fields(link, whole=whole) for link in trace.chain], available_bytes // 2
    )
    notes += [shortened] if shortened else []
    if left_out:
        errors = format_count(left_out, "more error of the chain is", "more errors of the chain are")
        notes.append(f"{errors} left out")
    displayed, _, _ = fit_rows(frames, available_bytes - _json_bytes(links))
    fields: dict[str, object] = {
        "class": trace.type,
        "message": message.text,
        "frames": displayed,
        "count": len(displayed),
    }
    if trace.data:
        fields["data"] = data.text
    if links:
        fields["chain"] = links
    if count > len(displayed):
        fields["omitted"] = count - len(displayed)
    if trace.notes:
        fields["added"] = list(trace.notes)
    if notes:
        fields["notes"] = notes
    return fields


def _frames_to_display(trace: StackTrace, *, whole: bool) -> tuple[list[dict[str, object]], int, list[str]]:
    """Return the frames of a stack trace to display, the total number of frames, and notes."""
    every = fold_repeated_frames(trace.frames)
    if whole:
        return [_frame_fields(frame) for frame in every], len(every), []
    frames = fold_repeated_frames([frame for frame in trace.frames if not frame.tooling])
    if frames or not every:
        return [_frame_fields(frame) for frame in frames], max(len(every), len(frames)), []
    note = "no frame is in the project's code. These are the innermost frames"
    return [_frame_fields(frame) for frame in every[:MAX_NEAREST_FRAMES]], len(every), [note]


def _link_fields(link: StackTrace, *, whole: bool) -> dict[str, object]:
    """Convert an error in the chain to fields of an answer, including its relation to the previous error."""
    frames, count, _ = _frames_to_display(link, whole=whole)
    displayed = frames if whole else frames[:MAX_NEAREST_FRAMES]
    fields = {
        "relation": link.relation,
        "class": link.type,
        "message": link.message,
        "data": link.data,
        "added": list(link.notes),
        "frames": displayed,
        "omitted": count - len(displayed),
    }
    return {key: value for key, value in fields.items() if value}


def _json_bytes(value: object) -> int:
    """Return the size of a value in JSON, in bytes."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _frame_fields(frame: StackFrame) -> dict[str, object]:
    """Convert a frame to fields of an answer. A frame without a file and a function has only text."""
    pairs: dict[str, object] = {"function": frame.function, "file": frame.file, "line": frame.line}
    if not (frame.file or frame.function):
        pairs = {"text": frame.text}
    pairs["frame"] = frame.number
    pairs["repeated"] = frame.repeated or None
    pairs["locals"] = dict(frame.locals) or None
    return {key: value for key, value in pairs.items() if value is not None}


TOOL = Tool(
    name="stacktrace",
    title="Stack trace",
    description="The last exception or failed test: message, causes, and the project's frames with their numbers.",
    arguments=StackArguments,
    output=answer_schema(
        **{"class": "string"},
        message="string",
        data="string",
        frames=ROWS_SCHEMA,
        source="string",
        count="integer",
        omitted="integer",
        chain=ROWS_SCHEMA,
        added=STRINGS_SCHEMA,
        sessionKey="string",
        notes=STRINGS_SCHEMA,
    ),
    run=stacktrace,
    needs=("stacktrace",),
    read_only=True,
    idempotent=True,
    search_hint="traceback of the last exception",
)
