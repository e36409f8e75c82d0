"""`stacktrace`: where the last error of a session came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from codriver.tools.answer_budget import budget, fit, head, json_bytes
from codriver.tools.base import ROWS, TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.session_choice import resolve

if TYPE_CHECKING:
    from codriver.repls.adapter_values import StackFrame, StackTrace

NEAREST = 5
"""Frames shown of a trace that never passes through the user's code."""


class StackArguments(Arguments):
    """Arguments of `stacktrace`."""

    repl_session_key: str | None = None
    whole: bool = Field(default=False, description="All frames.")


async def stacktrace(call: Call, arguments: StackArguments) -> Answer:
    """The last error of a session, with the frames that are the user's."""
    target = resolve(call.state, arguments.repl_session_key)
    trace = await call.services.repls.adapter(target.repl.id).last_stacktrace(target.session.name)
    if trace is None:
        fields: dict[str, object] = {"frames": [], "count": 0, "notes": ["no error has happened in this session"]}
        return Answer({**fields, "sessionKey": target.key})
    fields = trace_json(trace, whole=arguments.whole, max_bytes=budget(call))
    return Answer({**fields, "sessionKey": target.key})


def trace_json(trace: StackTrace, *, whole: bool, max_bytes: int) -> dict[str, object]:
    """A stack trace under the keys of an answer: the user's frames, or the innermost few when none is theirs."""
    frames, notes = trace.frames, []
    if not whole:
        frames = tuple(frame for frame in trace.frames if not frame.tooling)
        if not frames and trace.frames:
            frames = trace.frames[:NEAREST]
            notes.append("no frame is in the project's own code: these are the innermost ones")
    message, data = head(trace.message, max_bytes // 4), head(trace.data or "", max_bytes // 4)
    for name, cut in (("message", message), ("data", data)):
        if cut.omitted:
            notes.append(f"the last {cut.omitted} characters of {name} are left out")
    room = max_bytes - json_bytes(message.text) - json_bytes(data.text)
    shown, _, _ = fit([_frame_json(frame) for frame in frames], room)
    omitted = len(trace.frames) - len(shown)
    fields: dict[str, object] = {
        "class": trace.type,
        "message": message.text,
        "frames": shown,
        "count": len(shown),
    }
    if trace.data:
        fields["data"] = data.text
    if omitted:
        fields["omitted"] = omitted
    if notes:
        fields["notes"] = notes
    return fields


def _frame_json(frame: StackFrame) -> dict[str, object]:
    pairs = {"text": frame.text, "function": frame.function, "file": frame.file, "line": frame.line}
    return {key: value for key, value in pairs.items() if value is not None}


TOOLS = (
    Tool(
        name="stacktrace",
        title="Stack trace",
        description="The session's last error, with the project's frames, innermost first.",
        arguments=StackArguments,
        output=answer_schema(
            **{"class": "string"},
            message="string",
            data="string",
            frames=ROWS,
            count="integer",
            omitted="integer",
            sessionKey="string",
            notes=TEXTS,
        ),
        run=stacktrace,
        needs=("stacktrace",),
        read_only=True,
        idempotent=True,
        search_hint="traceback of the last exception",
    ),
)
