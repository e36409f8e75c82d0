"""`inspect_app`, `change_app` and `watch_app`: inspect and control the application in a REPL through its seam.

`inspect_app` reads the application's state, events and failures. `change_app` sends it an event or sets its state, as
an evaluation. `watch_app` streams its events into the log's source `$app` until the stream is stopped.
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
from codriver.tools.calls.answer import STRINGS, Answer, answer_schema
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

    SeamAnswer = Mapping[str, Any]


SEAM: Final = "seam"
NO_EVENTS: Final = "no event yet; watch_logging(), watch_threads() … note some"
"""Explains an empty list. Nothing may observe the application, if it got its seam while it was running."""
RESTARTED: Final = "the app was restarted, as session %s: its previous epochs, events and subscriptions are gone"


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
    """Return the seam's answer, formatted as lines."""
    shows_sensitive = arguments.include_sensitive
    if shows_sensitive and not call.services.live.settings.allow_sensitive_reads:
        raise switched_off_by("includeSensitive", "allow_sensitive_reads", call.services.live.settings)
    repl = app_repl(call, arguments.repl_session_key)
    most = budget(call)
    query = arguments.model_dump(by_alias=True, exclude_none=True, exclude={"what", "repl_session_key", "who"})
    text = await call.services.repls.adapter(repl.id).call_seam(arguments.what, json.dumps({**query, "maxChars": most}))
    seam_answer = parse_answer(call, text, shows_sensitive=shows_sensitive)
    seam_answer = _unanswered(arguments, seam_answer) or seam_answer
    given = (
        Answer(_answer_fields(call, arguments.what, seam_answer, most))
        if seam_answer["ok"]
        else refused(call, seam_answer)
    )
    return with_restart_note(call, repl, replace(given, shows_sensitive=shows_sensitive))


def with_restart_note(call: Call, repl: Repl, given: Answer) -> Answer:
    """Add a note to an answer if the client's last answer was about another process of the application."""
    now = call.state.repls.get(repl.id)
    seam = now.profile.seam if now is not None and now.profile is not None else None
    if not call.services.delivered.apps.is_another(call.client, repl.id, seam):
        return given
    before = given.fields.get("notes", ())
    notes = [*(before if isinstance(before, list | tuple) else ()), RESTARTED % seam]
    return replace(given, fields={**given.fields, "notes": notes})


def _unanswered(arguments: InspectArguments, answer: SeamAnswer) -> SeamAnswer | None:
    """Return a refusal if a seam ignored `path` and returned all epochs, as older seams do."""
    if arguments.what != "epochs" or not arguments.path or all("changes" in row for row in answer.get("epochs", [])):
        return None
    hint = "This seam cannot select epochs by path. List epochs without path, then request the diff of one by epochId."
    return {"ok": False, "reason": "band-missing", "hint": hint}


def app_repl(call: Call, key: str | None) -> Repl:
    """Return the REPL with the given key, otherwise the only one with a seam, otherwise the only one.

    Raises:
        RefusedError: no REPL matches, or several do.
    """
    if key is None:
        able = [repl for repl in call.state.repls.values() if repl.profile and repl.profile.seam]
        if len(able) == 1:
            return able[0]
    return resolve(call.state, key).repl


def parse_answer(call: Call, text: str, *, shows_sensitive: bool = False) -> SeamAnswer:
    """Parse the answer of a seam and redact its secrets, before truncation could make a secret unrecognisable.

    With `shows_sensitive`, text that the application marked as sensitive is not redacted.
    """
    answer = call.services.transcripts.cleared(json.loads(text), shows_sensitive=shows_sensitive)
    assert isinstance(answer, dict)  # noqa: S101  # the seam's contract
    return answer


def refused(call: Call, answer: SeamAnswer) -> Answer:
    """Return the answer about a refusal by the seam."""
    reason = answer.get("reason") if answer.get("reason") in SEAM_REASONS else "accessor-failed"
    at = {"at": near(answer["at"], call.services.workspace)} if "at" in answer else {}
    return Answer({**{key: value for key, value in answer.items() if key != "ok"}, "reason": reason, **at}, ok=False)


def _answer_fields(call: Call, what: str, answer: SeamAnswer, most: int) -> dict[str, object]:
    """Return the answer fields, with lines in place of rows."""
    hidden = ("ok", *_ABOUT) if what == "health" else ("ok", *_ROWS)
    fields = {key: value for key, value in answer.items() if key not in hidden and value not in (0, "", [])}
    if what == "state":
        if "total" in fields:
            after = answer["from"] + len(answer["value"])
            more = f"; from: {after} continues" if after < answer["total"] else ""
            fields["notes"] = [f"{len(answer['value'])} of {answer['total']} characters{more}"]
            del fields["total"]
        return fields
    if what not in _LINES:
        return fields
    key, line_of = _LINES[what]
    rows = answer[key].items() if isinstance(answer[key], dict) else answer[key]
    lines = [line_of(row) for row in rows]
    if what in _PLACED:
        lines = [near(line, call.services.workspace) for line in lines]
    fitted, note, omitted = fit(lines, most, newest=True)
    # Fields about all rows follow the lines.
    result_fields: dict[str, object] = {"lines": fitted, "count": len(fitted)}
    result_fields |= {name: value for name, value in fields.items() if name != "count"}
    if result_fields.get("total") == len(fitted):
        del result_fields["total"]
    if what in _OF_EVENTS and answer.get("lastId") == 0:
        result_fields["notes"] = [NO_EVENTS]
    if note or omitted:
        result_fields["notes"] = [note or f"{omitted} older lines are omitted: filter them, or pass a smaller limit"]
    return result_fields


def change_line(row: SeamAnswer) -> str:
    """Format a change of the state as one line."""
    before, after = row.get("before"), row.get("after")
    return f"{row['op']} {row['path']}: " + " -> ".join([text for text in (before, after) if text is not None])


def _epoch_line(row: SeamAnswer) -> str:
    by = "" if row["origin"] == "app" else f" by={row['origin']}"
    at = datetime.fromtimestamp(row["time"], UTC).strftime("%H:%M:%S")
    cause = f" d{row['dispatchId']}" if row.get("dispatchId") else ""
    duration = f" {row['ms']:.3g}ms" if row.get("ms") is not None else ""
    line = f"{row['epochId']} {row['eventId']} {row['outcome']}{cause}{duration} {at}{by}"
    changes = row.get("changes", [])
    return line + " ".join([f" {change_line(one)}" for one in changes[:1]]) + _and_more(len(changes) - 1)


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _handler_line(row: SeamAnswer) -> str:
    doc = f": {row['doc']}" if row.get("doc") else ""
    location = f" {row['file']}:{row['line']}" if row.get("file") else ""
    return f"{row['kind']} {row['id']}{location}{doc}"


def _machine_line(row: tuple[str, SeamAnswer]) -> str:
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
"""The field of the seam's answer that has the rows, and the function that formats a row, by kind of query."""
_ABOUT: Final = frozenset({"contract", "enabled", "installedMs", "language"})
"""Fields of `health` that agents do not need."""
_OF_EVENTS: Final = frozenset({"trace", "issues"})
_PLACED: Final = _OF_EVENTS | {"handlers"}
_ROWS: Final[Sequence[str]] = ("changes", "epochs", "lines", "handlers", "machines")


WORKER_PROVIDER: Final = "codriver"
"""Provider name of the seam in Codriver's worker."""
OUT: Final = frozenset({"result", "values"})
"""Fields of an evaluation that the seam's answer replaces."""


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
    """Evaluate the change in the application, wait for it, and return the seam's answer."""
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
    seam_answer = parse_answer(call, await _value(call, current, target.repl, arguments.what))
    about = {key: value for key, value in described.fields.items() if key not in OUT}
    if not seam_answer["ok"]:
        answer = refused(call, seam_answer)
        return with_restart_note(call, repl, replace(described, fields={**answer.fields, **about}, ok=False))
    return with_restart_note(
        call, repl, replace(described, fields={**_change_fields(seam_answer, budget(call)), **about})
    )


def _request(call: Call, target: Target, who: str, arguments: ChangeArguments) -> Request:
    identity = evaluation_queue.next_id(call.state)
    given = {"event", "sync", "epoch_id", "value", "frame"}
    query = arguments.model_dump(by_alias=True, exclude_defaults=True, include=given)
    origin = {"who": who, "evaluation": identity}
    provider, dialect = _provider(target.repl), target.repl.dialect
    code = seam_providers.form(provider, dialect, arguments.what, query, origin)
    what = arguments.event or arguments.epoch_id or ""
    summary = f"{arguments.what} {what}".strip()
    return Request(identity, code, target.session.name, description=summary, default_limits=NO_LIMITS)


def _provider(repl: Repl) -> Provider:
    """Return the provider of the seam in a REPL, which determines the language of its code."""
    support = repl.profile.capabilities.get(SEAM) if repl.profile else None
    return seam_providers.provider_of(support.op if support and support.adapted else WORKER_PROVIDER, repl.dialect)


async def _value(call: Call, evaluation: Evaluation, repl: Repl, accessor: str) -> str:
    """Return the seam's answer: the only value of the evaluation, a printed string."""
    transcript = call.services.transcripts.get(evaluation.id)
    assert transcript is not None  # noqa: S101  # it has just ended
    [location] = transcript.values()[-1:]
    printed = await read(lambda: transcript.result.read(location.start, location.stop).text, transcript)
    return seam_providers.answer(_provider(repl), accessor, seam_providers.unquoted(repl.dialect, printed))


def _change_fields(answer: Mapping[str, Any], most: int) -> dict[str, object]:
    """Return the seam's answer with changes formatted as lines."""
    fields = {key: value for key, value in answer.items() if key not in ("ok", "origin", "changes", "count", "eventId")}
    if "changes" in answer:
        lines, note, omitted = fit([change_line(row) for row in answer["changes"]], most)
        fields |= {"changes": lines, "count": len(answer["changes"])}
        if note or omitted:
            fields["omitted"] = omitted
    return fields


QUERY: Final = "[:find ?l ?t :in $ $app :where [$app ?e :output/line ?l] [$app ?e :output/text ?t]%s]"
"""Query with which `wait_for` waits for events, limited to one op-type unless the topic is `trace`."""


class WatchArguments(Arguments):
    """Arguments of `watch_app`."""

    topic: Literal["trace", "epoch", "fx", "error", "calls"] | None = Field(None, description="None: list the streams.")
    filter: dict[str, Any] | None = Field(
        None, description="As in inspect_app; of calls also of (module:function or file:line), when (n > 3), hits."
    )
    stop: str | None = Field(None, description="A subId to end.")
    repl_session_key: str | None = None


async def watch_app(call: Call, arguments: WatchArguments) -> Answer:
    """Start or stop a stream of events, or list the streams."""
    if arguments.stop is not None:
        return await _stop(call, arguments.stop)
    repl = app_repl(call, arguments.repl_session_key)
    if arguments.topic is None:
        return await _list(call, repl)
    who, since = call.who(arguments.who), call.services.log.next_line - 1
    query = {"topic": arguments.topic, "filter": arguments.filter or {}, "who": who}
    answer = await _query_seam(call, repl.id, "subscribe", query)
    if not answer["ok"]:
        return refused(call, answer)
    stream = AppStream(str(answer["subId"]), repl.id, repl.generation, call.client, who, arguments.topic)
    call.dispatch(AppStreamStarted(stream))
    kind = app_streams.OPS.get(arguments.topic, arguments.topic)
    op = "" if arguments.topic == "trace" else f' [$app ?e :output/op "{kind}"]'
    captured = {"lines": [near(_captured(answer["capture"]), call.services.workspace)]} if "capture" in answer else {}
    started = Answer({"subId": stream.id, "since": since, "query": QUERY % op, **captured})
    return with_restart_note(call, repl, started)


def _captured(answer: Mapping[str, Any]) -> str:
    """Format a new capture as one line: its function, location, mechanism, and the parts that it does not record."""
    untold = f"; not told: {answer['untold']}" if answer.get("untold") else ""
    return f"{answer['of']} at {answer['at']}, {answer['how']}, until {answer['hits']} hits{untold}"


async def _stop(call: Call, identity: str) -> Answer:
    """Stop a stream, whoever started it."""
    found = [stream for stream in app_streams.active_app_streams(call.state) if stream.id == identity]
    existed = False
    for stream in found:
        answer = await _query_seam(call, stream.repl, "unsubscribe", {"subId": stream.id})
        existed = existed or bool(answer.get("existed"))
        call.dispatch(AppStreamStopped(stream))
    return Answer({"subId": identity, "existed": existed})


async def _list(call: Call, repl: Repl) -> Answer:
    """Return the streams of an application as lines."""
    answer = await _query_seam(call, repl.id, "subscriptions", {})
    if not answer["ok"]:
        return refused(call, answer)
    rows = {row["id"]: row for row in answer["subs"]}
    of_repl = [one for one in app_streams.active_app_streams(call.state) if one.repl == repl.id and one.id in rows]
    return Answer({"lines": [_line(one, rows[one.id]) for one in of_repl], "count": len(of_repl)})


def _line(stream: AppStream, row: Mapping[str, Any]) -> str:
    query = f" {json.dumps(row['filter'])}" if row.get("filter") else ""
    answer = f"{stream.id} {stream.topic}{query} by {stream.who}: {row['sent']} sent, {row['dropped']} dropped"
    capture = row.get("capture", {})
    failing = [one for one in (row, capture) if "failed" in one]
    answer += "".join([f", {one['failed']} conditions failed: {one['why']}" for one in failing])
    return answer + (f"; {capture['replaced']}" if "replaced" in capture else "")


async def _query_seam(call: Call, repl: str, accessor: str, query: Mapping[str, Any]) -> Mapping[str, Any]:
    return parse_answer(call, await call.services.repls.adapter(repl).call_seam(accessor, json.dumps(query)))


TOOLS = (
    Tool(
        name="inspect_app",
        title="Inspect the app",
        description="The app's state, last changes, events, failures, handlers. First: health, issues.",
        arguments=InspectArguments,
        output=answer_schema(lines=STRINGS, value="string", count="integer", notes=STRINGS),
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
        output=answer_schema(changes=STRINGS, epochId="integer", undoneBy="integer", mode="string"),
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
        output=answer_schema(subId="string", since="integer", query="string", existed="boolean", lines=STRINGS),
        run=watch_app,
        needs=(SEAM,),
        search_hint="stream events, wait for an error of the application",
    ),
)
