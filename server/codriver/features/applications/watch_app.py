"""The tool `watch_app`: stream the events of an application into the app log until the stream is stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from codriver.features.applications.app_log import shorten_paths
from codriver.features.applications.app_streams import OPS_BY_TOPIC, AppStream, AppStreams
from codriver.features.applications.seam import SEAM_CAPABILITY
from codriver.features.applications.seam_answers import app_repl, query_seam, refusal_answer, with_restart_note
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call

STREAM_EVENTS_QUERY: Final = "[:find ?l ?t :in $ $app :where [$app ?e :output/line ?l] [$app ?e :output/text ?t]%s]"
"""Query for `wait_for` that matches the events of a stream. `%s` is a clause for the op type, or empty."""


class WatchAppArguments(Arguments):
    """Arguments of the tool `watch_app`."""

    CHOOSES_SESSION: ClassVar[bool] = True

    topic: Literal["trace", "epoch", "fx", "error", "calls"] | None = Field(
        None, description="Omit to list the streams."
    )
    filter: dict[str, Any] | None = Field(
        None, description="As in inspect_app. For calls (Clojure): of (ns/fn), when (n > 3), hits."
    )
    stop: str | None = Field(None, description="subId of a stream to end.")
    repl_session_key: str | None = None


async def watch_app(call: Call, arguments: WatchAppArguments) -> Answer:
    """Start a stream of events, stop one, or list the streams."""
    if arguments.stop is not None:
        return await _stop_stream(call, arguments.stop)
    repl = app_repl(call, arguments.repl_session_key)
    if arguments.topic is None:
        return await _list_streams(call, repl)
    who, since = call.who(arguments.who), call.services.log.next_line - 1
    query = {"topic": arguments.topic, "filter": arguments.filter or {}, "who": who}
    answer = await query_seam(call, repl.id, "subscribe", query)
    if not answer["ok"]:
        return refusal_answer(call, answer)
    stream = AppStream(str(answer["subId"]), repl.id, repl.generation, call.client, who, arguments.topic)
    call.services.part(AppStreams).start(stream)
    op = OPS_BY_TOPIC.get(arguments.topic, arguments.topic)
    op_clause = "" if arguments.topic == "trace" else f' [$app ?e :output/op "{op}"]'
    capture_fields = (
        {"lines": [shorten_paths(_capture_line(answer["capture"]), call.services.workspace)]}
        if "capture" in answer
        else {}
    )
    started = Answer({"subId": stream.id, "since": since, "query": STREAM_EVENTS_QUERY % op_clause, **capture_fields})
    return with_restart_note(call, repl, started)


def _capture_line(capture: Mapping[str, Any]) -> str:
    """Format a new capture as one line with its function, location, mechanism and limit."""
    return f"{capture['of']} at {capture['at']}, {capture['how']}, until {capture['hits']} hits"


async def _stop_stream(call: Call, stream_id: str) -> Answer:
    """Stop a stream, even if another caller started it."""
    streams = call.services.part(AppStreams)
    has_existed = False
    for stream in [stream for stream in streams.active() if stream.id == stream_id]:
        answer = await query_seam(call, stream.repl, "unsubscribe", {"subId": stream.id})
        has_existed = has_existed or bool(answer.get("existed"))
        streams.remove(stream)
    return Answer({"subId": stream_id, "existed": has_existed})


async def _list_streams(call: Call, repl: Repl) -> Answer:
    """List the streams of the application in a REPL, one per line."""
    answer = await query_seam(call, repl.id, "subscriptions", {})
    if not answer["ok"]:
        return refusal_answer(call, answer)
    rows = {row["id"]: row for row in answer["subs"]}
    active = call.services.part(AppStreams).active()
    of_repl = [stream for stream in active if stream.repl == repl.id and stream.id in rows]
    return Answer({"lines": [_line(stream, rows[stream.id]) for stream in of_repl], "count": len(of_repl)})


def _line(stream: AppStream, row: Mapping[str, Any]) -> str:
    filter_text = f" {json.dumps(row['filter'])}" if row.get("filter") else ""
    line = f"{stream.id} {stream.topic}{filter_text} by {stream.who}: {row['sent']} sent, {row['dropped']} dropped"
    line += f", {row['failed']} conditions failed: {row['why']}" if "failed" in row else ""
    capture = row.get("capture", {})
    return line + (f", the condition failed: {capture['why']}" if "why" in capture else "")


TOOL = Tool(
    name="watch_app",
    title="Watch the app",
    description="Record the app's events in the log's $app until you leave. Then call wait_for.",
    arguments=WatchAppArguments,
    output=answer_schema(subId="string", since="integer", query="string", existed="boolean", lines=STRINGS_SCHEMA),
    run=watch_app,
    needs=(SEAM_CAPABILITY,),
    is_default=True,
    is_rare=True,
    search_hint="stream events, wait for an error of the application",
)
