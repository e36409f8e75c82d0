"""`inspect_app`, `change_app`, `watch_app`: the application in a REPL, as its seam tells.

`inspect_app` tells the application's state, acts and failures, and changes nothing; `change_app` gives it an event, an
earlier state or another one, as an evaluation; `watch_app` has its events pushed into the log's source `$app` until
somebody ends that.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from codriver.core import app_streams, evaluation_queue
from codriver.core.actions import AppStreamStarted, AppStreamStopped
from codriver.core.state import AppStream
from codriver.core.values import NO_LIMITS, Request
from codriver.log.logbook import near
from codriver.log.transcripts import read
from codriver.repls.dialects import seam_providers
from codriver.tools.acts.submission import begin
from codriver.tools.answers.answer_budget import budget, fit
from codriver.tools.answers.evaluation_answers import describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.answer import TEXTS, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.gate import SEAM_REASONS, switched_off_by
from codriver.tools.calls.session_choice import Target, check_tree, in_lane, resolve
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.repls.dialects.seam_providers import Provider
    from codriver.tools.calls.call import Call

    Told = Mapping[str, Any]


SEAM: Final = "seam"
NO_EVENTS: Final = "no event yet; watch_logging(), watch_threads() … note some"
"""An empty list may mean that nobody observes, as after giving a seam to a running application."""
ANEW: Final = "the app started anew, as session %s: its former epochs, events and subscriptions are gone"


class InspectArguments(Arguments):
    """Arguments of `inspect_app`."""

    what: Literal["health", "state", "diff", "epochs", "trace", "issues", "handlers", "machines"] = "health"
    frame: str | None = Field(None, description="If several.")
    path: str | None = Field(None, description="user.name or ['user', 0]. With epochs: who changed it.")
    epoch_id: int | None = Field(None, description="Of diff (newest).")
    id: str | None = Field(None, description="Of handlers, machines.")
    filter: dict[str, Any] | None = Field(
        None, description="Of events: opType operation frame eventId severity origin dispatchId since sinceMs between …"
    )
    limit: int = Field(50, ge=1, le=2000)
    include_large: bool = False
    include_sensitive: bool = False
    start: int | None = Field(None, alias="from", ge=0, description="Of a long state.")
    repl_session_key: str | None = None


async def inspect_app(call: Call, arguments: InspectArguments) -> Answer:
    """Return the seam's answer, in lines."""
    shows_told = arguments.include_sensitive
    if shows_told and not call.services.live.settings.allow_sensitive_reads:
        raise switched_off_by("includeSensitive", "allow_sensitive_reads", call.services.live.settings)
    repl = app_repl(call, arguments.repl_session_key)
    most = budget(call)
    asked = arguments.model_dump(by_alias=True, exclude_none=True, exclude={"what", "repl_session_key", "who"})
    answer = await call.services.repls.adapter(repl.id).ask_seam(
        arguments.what, json.dumps({**asked, "maxChars": most})
    )
    told = read_told(call, answer, shows_told=shows_told)
    told = _unanswered(arguments, told) or told
    given = Answer(_shown(call, arguments.what, told, most)) if told["ok"] else refused(call, told)
    return with_news_of_app(call, repl, replace(given, shows_told=shows_told))


def with_news_of_app(call: Call, repl: Repl, given: Answer) -> Answer:
    """An answer about an application, with a note if this client's last one was about another process."""
    now = call.state.repls.get(repl.id)
    seam = now.profile.seam if now is not None and now.profile is not None else None
    if not call.services.told.apps.is_another(call.client, repl.id, seam):
        return given
    before = given.fields.get("notes", ())
    notes = [*(before if isinstance(before, list | tuple) else ()), ANEW % seam]
    return replace(given, fields={**given.fields, "notes": notes})


def _unanswered(arguments: InspectArguments, told: Told) -> Told | None:
    """The refusal for a seam that told all epochs instead of those that changed a part, as it knows no better."""
    if arguments.what != "epochs" or not arguments.path or all("changes" in row for row in told.get("epochs", [])):
        return None
    hint = "this seam does not tell which epochs changed a part: ask for epochs, then for the diff of one by epochId"
    return {"ok": False, "reason": "band-missing", "hint": hint}


def app_repl(call: Call, key: str | None) -> Repl:
    """The named REPL; without a name the only one with an application that shows itself, else the only one.

    Raises:
        RefusedError: as `resolve` says.
    """
    if key is None:
        able = [repl for repl in call.state.repls.values() if repl.profile and repl.profile.seam]
        if len(able) == 1:
            return able[0]
    return resolve(call.state, key).repl


def read_told(call: Call, text: str, *, shows_told: bool = False) -> Told:
    """The answer of a seam, without secrets: a part of it may be cut, and half of a secret would not be recognised.

    With `shows_sensitive`, texts that the application calls sensitive stay.
    """
    told = call.services.transcripts.cleared(json.loads(text), shows_sensitive=shows_told)
    assert isinstance(told, dict)  # noqa: S101  # the seam's contract
    return told


def refused(call: Call, told: Told) -> Answer:
    """Return the answer for a seam's refusal."""
    reason = told.get("reason") if told.get("reason") in SEAM_REASONS else "accessor-failed"
    at = {"at": near(told["at"], call.services.workspace)} if "at" in told else {}
    return Answer({**{key: value for key, value in told.items() if key != "ok"}, "reason": reason, **at}, ok=False)


def _shown(call: Call, what: str, told: Told, most: int) -> dict[str, object]:
    """Return the answer's fields: lines for many rows of a kind."""
    hidden = ("ok", *_ABOUT) if what == "health" else ("ok", *_ROWS)
    fields = {key: value for key, value in told.items() if key not in hidden and value not in (0, "", [])}
    if what == "state":
        if "total" in fields:
            after = told["from"] + len(told["value"])
            more = f"; from {after} tells more" if after < told["total"] else ""
            fields["notes"] = [f"{len(told['value'])} of {told['total']} characters{more}"]
            del fields["total"]
        return fields
    if what not in _LINES:
        return fields
    key, line_of = _LINES[what]
    rows = told[key].items() if isinstance(told[key], dict) else told[key]
    lines = [line_of(row) for row in rows]
    if what in _PLACED:
        lines = [near(line, call.services.workspace) for line in lines]
    kept, note, omitted = fit(lines, most, newest=True)
    # Facts on all of them stand behind the lines.
    shown: dict[str, object] = {"lines": kept, "count": len(kept)}
    shown |= {name: value for name, value in fields.items() if name != "count"}
    if shown.get("total") == len(kept):
        del shown["total"]
    if what in _OF_EVENTS and told.get("lastId") == 0:
        shown["notes"] = [NO_EVENTS]
    if note or omitted:
        shown["notes"] = [note or f"{omitted} older lines are left out: filter, or ask for fewer"]
    return shown


def change_line(row: Told) -> str:
    """Return a change of the state in one line."""
    before, after = row.get("before"), row.get("after")
    return f"{row['op']} {row['path']}: " + " -> ".join([text for text in (before, after) if text is not None])


def _epoch_line(row: Told) -> str:
    by = "" if row["origin"] == "app" else f" by={row['origin']}"
    at = datetime.fromtimestamp(row["time"], UTC).strftime("%H:%M:%S")
    cause = f" d{row['dispatchId']}" if row.get("dispatchId") else ""
    took = f" {row['ms']:.3g}ms" if row.get("ms") is not None else ""
    line = f"{row['epochId']} {row['eventId']} {row['outcome']}{cause}{took} {at}{by}"
    changes = row.get("changes", [])
    return line + " ".join([f" {change_line(one)}" for one in changes[:1]]) + _and_more(len(changes) - 1)


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _handler_line(row: Told) -> str:
    doc = f": {row['doc']}" if row.get("doc") else ""
    place = f" {row['file']}:{row['line']}" if row.get("file") else ""
    return f"{row['kind']} {row['id']}{place}{doc}"


def _machine_line(row: tuple[str, Told]) -> str:
    return f"{row[0]}: {row[1]['state']}"


def _same(row: str) -> str:
    return row


_LINES: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "diff": ("changes", change_line),
    "epochs": ("epochs", _epoch_line),
    "trace": ("lines", _same),
    "issues": ("lines", _same),
    "handlers": ("handlers", _handler_line),
    "machines": ("machines", _machine_line),
}
"""By the kind of question: the place of the rows in the seam's answer, and the function for a row's line."""
_ABOUT: Final = frozenset({"contract", "enabled", "installedMs", "language"})
"""The fields of health for programs: equal in every answer to an agent, or of no use to it."""
_OF_EVENTS: Final = frozenset({"trace", "issues"})
_PLACED: Final = _OF_EVENTS | {"handlers"}
_ROWS: Final[Sequence[str]] = ("changes", "epochs", "lines", "handlers", "machines")


OURS: Final = "codriver"
"""The provider of the seam that Codriver's worker has."""
OUT: Final = frozenset({"result", "values"})
"""The fields of an evaluation that those of the seam's answer replace."""


class ChangeArguments(Evaluating):
    """Arguments of `change_app`."""

    what: Literal["dispatch", "restore", "reset"]
    event: str | None = Field(None, description="Of dispatch: ['order/add', 3].")
    sync: bool = Field(default=False, description="Handle it at once, tell the changes.")
    epoch_id: int | None = Field(None, description="Of restore.")
    value: str | None = Field(None, description="Of reset: the new state, a literal.")
    frame: str | None = None
    timeout_ms: int | None = Field(None, ge=100, le=600_000)
    repl_session_key: str | None = None


async def change_app(call: Call, arguments: ChangeArguments) -> Answer:
    """Ask the seam for the change, wait, and tell the outcome."""
    who, key = call.who(arguments.who), arguments.repl_session_key
    repl = app_repl(call, key)
    if lacking := seam_providers.refusal(_provider(repl), arguments.what):
        return refused(call, lacking)
    target = resolve(call.state, key or repl.key)
    check_tree(call, target, who, key)
    if key is None:
        target = in_lane(call, target, who)
    request = _request(call, target, who, arguments)
    begin(call, target, who, request)
    timeout_ms = call.wait_ms(arguments.timeout_ms)
    current = await wait(call, request.id, timeout_ms / 1000, may_last=True)
    described = await describe(call, current, arguments)
    if current.status != "done":
        return described
    told = read_told(call, await _value(call, current, target.repl, arguments.what))
    about = {key: value for key, value in described.fields.items() if key not in OUT}
    if not told["ok"]:
        answer = refused(call, told)
        return with_news_of_app(call, repl, replace(described, fields={**answer.fields, **about}, ok=False))
    return with_news_of_app(call, repl, replace(described, fields={**_shown_of_change(told, budget(call)), **about}))


def _request(call: Call, target: Target, who: str, arguments: ChangeArguments) -> Request:
    identity = evaluation_queue.next_id(call.state)
    given = {"event", "sync", "epoch_id", "value", "frame"}
    asked = arguments.model_dump(by_alias=True, exclude_defaults=True, include=given)
    origin = {"who": who, "evaluation": identity}
    provider, dialect = _provider(target.repl), target.repl.dialect
    code = seam_providers.form(provider, dialect, arguments.what, asked, origin)
    what = arguments.event or arguments.epoch_id or ""
    said = f"{arguments.what} {what}".strip()
    return Request(identity, code, target.session.name, description=said, default_limits=NO_LIMITS)


def _provider(repl: Repl) -> Provider:
    """Return the seam's provider in a REPL, in whose language its code is written."""
    support = repl.profile.capabilities.get(SEAM) if repl.profile else None
    return seam_providers.provider_of(support.op if support and support.adapted else OURS, repl.dialect)


async def _value(call: Call, evaluation: Evaluation, repl: Repl, accessor: str) -> str:
    """Return the text that the seam answered: the only value of the evaluation, printed as a string."""
    transcript = call.services.transcripts.get(evaluation.id)
    assert transcript is not None  # noqa: S101  # it has just ended
    [place] = transcript.values()[-1:]
    printed = await read(lambda: transcript.result.read(place.start, place.stop).text, transcript)
    return seam_providers.answer(_provider(repl), accessor, seam_providers.unquoted(repl.dialect, printed))


def _shown_of_change(told: Mapping[str, Any], most: int) -> dict[str, object]:
    """Return the seam's answer with the changes in lines."""
    fields = {key: value for key, value in told.items() if key not in ("ok", "origin", "changes", "count", "eventId")}
    if "changes" in told:
        lines, note, omitted = fit([change_line(row) for row in told["changes"]], most)
        fields |= {"changes": lines, "count": len(told["changes"])}
        if note or omitted:
            fields["omitted"] = omitted
    return fields


QUERY: Final = "[:find ?l ?t :in $ $app :where [$app ?e :output/line ?l] [$app ?e :output/text ?t]%s]"
"""The query by which `wait_for` waits for events; for a topic other than `trace`, for those of its op-type."""


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
    call.dispatch(AppStreamStarted(stream))
    kind = app_streams.OPS.get(arguments.topic, arguments.topic)
    op = "" if arguments.topic == "trace" else f' [$app ?e :output/op "{kind}"]'
    captured = {"lines": [near(_captured(told["capture"]), call.services.workspace)]} if "capture" in told else {}
    begun = Answer({"subId": stream.id, "since": since, "query": QUERY % op, **captured})
    return with_news_of_app(call, repl, begun)


def _captured(told: Mapping[str, Any]) -> str:
    """A capture at its begin, in a line: the function with its place, the way of listening, and the parts not told."""
    untold = f"; not told: {told['untold']}" if told.get("untold") else ""
    return f"{told['of']} at {told['at']}, {told['how']}, until {told['hits']} hits{untold}"


async def _stop(call: Call, identity: str) -> Answer:
    """End a stream, whoever started it."""
    found = [stream for stream in app_streams.active_app_streams(call.state) if stream.id == identity]
    existed = False
    for stream in found:
        told = await _ask(call, stream.repl, "unsubscribe", {"subId": stream.id})
        existed = existed or bool(told.get("existed"))
        call.dispatch(AppStreamStopped(stream))
    return Answer({"subId": identity, "existed": existed})


async def _list(call: Call, repl: Repl) -> Answer:
    """Return the streams of an application that this server has, in lines."""
    told = await _ask(call, repl.id, "subscriptions", {})
    if not told["ok"]:
        return refused(call, told)
    rows = {row["id"]: row for row in told["subs"]}
    own = [one for one in app_streams.active_app_streams(call.state) if one.repl == repl.id and one.id in rows]
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
        name="inspect_app",
        title="Inspect the app",
        description="The app's state, last changes, events, failures, handlers. First: health, issues.",
        arguments=InspectArguments,
        output=answer_schema(lines=TEXTS, value="string", count="integer", notes=TEXTS),
        run=inspect_app,
        needs=(SEAM,),
        read_only=True,
        idempotent=True,
        search_hint="application state, trace of events, time travel",
    ),
    Tool(
        name="change_app",
        title="Change the app",
        description="Send the app an event, restore an epoch's state, or reset it. Refused: nothing changed.",
        arguments=ChangeArguments,
        output=answer_schema(changes=TEXTS, epochId="integer", undoneBy="integer", mode="string"),
        run=change_app,
        needs=(SEAM,),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        search_hint="dispatch an event, restore or reset state",
    ),
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
