"""`watch_app`: the events of the application in a REPL, pushed into the log's source `$app` until somebody ends it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from codriver.core import app_streams
from codriver.core.actions import AppStreamBegan, AppStreamEnded
from codriver.core.state import AppStream
from codriver.log.app_log import near
from codriver.tools.calls.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.inspect_app import SEAM, app_repl, read_told, refused, with_news_of_app

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl

QUERY: Final = "[:find ?l ?t :in $ $app :where [$app ?e :output/line ?l] [$app ?e :output/text ?t]%s]"
"""The query by which `wait_for` waits for events; of a topic other than `trace`, for those of its op-type."""


class WatchArguments(Arguments):
    """Arguments of `watch_app`."""

    topic: Literal["trace", "epoch", "fx", "error", "calls"] | None = Field(None, description="None: list the streams.")
    filter: dict[str, Any] | None = Field(
        None, description="As in inspect_app; of calls also of (module:function or file:line), when (n > 3), hits."
    )
    stop: str | None = Field(None, description="A subId to end.")
    repl_session_key: str | None = None


async def watch_app(call: Call, arguments: WatchArguments) -> Answer:
    """Begin a stream, end one, or list those that there are."""
    if arguments.stop is not None:
        return await _stop(call, arguments.stop)
    repl = app_repl(call, arguments.repl_session_key)
    if arguments.topic is None:
        return await _list(call, repl)
    who, since = call.who(arguments.who), call.services.log.next_line - 1
    asked = {"topic": arguments.topic, "filter": arguments.filter or {}, "who": who}
    told = await _ask(call, repl.id, "subscribe", asked)
    if not told["ok"]:
        return refused(call, told)
    stream = AppStream(str(told["subId"]), repl.id, repl.generation, call.client, who, arguments.topic)
    call.dispatch(AppStreamBegan(stream))
    kind = app_streams.OPS.get(arguments.topic, arguments.topic)
    op = "" if arguments.topic == "trace" else f' [$app ?e :output/op "{kind}"]'
    captured = {"lines": [near(_captured(told["capture"]), call.services.workspace)]} if "capture" in told else {}
    begun = Answer({"subId": stream.id, "since": since, "query": QUERY % op, **captured})
    return with_news_of_app(call, repl, begun)


def _captured(told: Mapping[str, Any]) -> str:
    """A capture as it begins, in a line: the function with its place, how it is listened to, and what is not told."""
    untold = f"; not told: {told['untold']}" if told.get("untold") else ""
    return f"{told['of']} at {told['at']}, {told['how']}, until {told['hits']} hits{untold}"


async def _stop(call: Call, identity: str) -> Answer:
    """End a stream, whoever began it."""
    found = [stream for stream in app_streams.live(call.state) if stream.id == identity]
    existed = False
    for stream in found:
        told = await _ask(call, stream.repl, "unsubscribe", {"subId": stream.id})
        existed = existed or bool(told.get("existed"))
        call.dispatch(AppStreamEnded(stream))
    return Answer({"subId": identity, "existed": existed})


async def _list(call: Call, repl: Repl) -> Answer:
    """The streams of an application that this server has, in lines."""
    told = await _ask(call, repl.id, "subscriptions", {})
    if not told["ok"]:
        return refused(call, told)
    rows = {row["id"]: row for row in told["subs"]}
    own = [one for one in app_streams.live(call.state) if one.repl == repl.id and one.id in rows]
    return Answer({"lines": [_line(one, rows[one.id]) for one in own], "count": len(own)})


def _line(stream: AppStream, row: Mapping[str, Any]) -> str:
    asked = f" {json.dumps(row['filter'])}" if row.get("filter") else ""
    told = f"{stream.id} {stream.topic}{asked} by {stream.who}: {row['sent']} sent, {row['dropped']} dropped"
    capture = row.get("capture", {})
    failing = [one for one in (row, capture) if "failed" in one]
    told += "".join([f", {one['failed']} conditions failed: {one['why']}" for one in failing])
    return told + (f"; {capture['replaced']}" if "replaced" in capture else "")


async def _ask(call: Call, repl: str, accessor: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    return read_told(call, await call.services.repls.adapter(repl).ask_seam(accessor, json.dumps(asked)))


TOOLS = (
    Tool(
        name="watch_app",
        title="Watch the app",
        description="Have the app push its events into the log's $app till you leave. Then wait_for, as it says.",
        arguments=WatchArguments,
        output=answer_schema(subId="string", since="integer", query="string", existed="boolean", lines=TEXTS),
        run=watch_app,
        needs=(SEAM,),
        search_hint="stream events, wait for an error of the application",
    ),
)
