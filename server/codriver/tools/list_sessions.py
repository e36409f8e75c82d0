"""`list_sessions`, `server_health`, `restart_repl`: the REPLs, the server's health, and a REPL started anew."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import anyio
from pydantic import Field

from codriver.core import app_streams
from codriver.core.actions import RestartRepl
from codriver.core.records import replace
from codriver.core.state import awaits_acceptance, cautions, stray
from codriver.core.values import HELD, MAIN_SESSION
from codriver.errors import CodriverError
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.adapter_values import CAPABILITIES
from codriver.repls.dialects.seam_providers import CONTRACT
from codriver.tools.calls.base import (
    ROWS,
    TEXTS,
    UNLISTED,
    Answer,
    Arguments,
    Call,
    Tool,
    answer_schema,
    client_slug,
    traits_of,
)
from codriver.tools.calls.evaluation_waits import queue_notes
from codriver.tools.calls.session_choice import repl_stopped, resolve
from codriver.tools.inspect_app import SEAM, read_told

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl, Session, State
    from codriver.core.values import Evaluation, Profile
    from codriver.log.logbook import AppLog


LOOK_S: Final = 1.0
"""The wait for a REPL that is asked for an application."""


class NoArguments(Arguments):
    """The arguments of a tool that takes none."""


async def list_sessions(call: Call, arguments: NoArguments) -> Answer:
    """Every REPL session, with the abilities of its REPL."""
    who = call.who(arguments.who)
    seams = await _seams(call)
    state, rows = call.state, []
    is_lean = not traits_of(call.client_name).wants_detail
    for repl in state.repls.values():
        own = (call.client, who)
        for session in repl.sessions.values():
            if session.lane is None:
                lanes = _lanes(state, repl, own) if session.name == MAIN_SESSION else []
                row = session_row(state, repl, session) | ({"lanes": lanes} if lanes else {})
                row = _lean(state, repl, row, who) if is_lean else row
                is_of_app = session.name == MAIN_SESSION and repl.id in seams
                rows.append(row | ({"seam": seams[repl.id]} if is_of_app else {}))
    return Answer({"sessions": rows, "count": len(rows)})


def _lean(state: State, repl: Repl, row: dict[str, object], who: str) -> dict[str, object]:
    """A row for a model: the capabilities without their means; a refusal gives the reason why another is missing.

    For a REPL that Codriver started in this workspace the place and the capabilities are left out, as the tools are
    listed, and so are those of the only REPL.
    """
    known = {"missing", "lastActivity", "isolation"}
    if len(state.repls) == 1:
        known.add("capabilities")
    if row.get("kind") == "address":
        known.add("kind")
    if row.get("origin") == row.get("address"):
        known.add("origin")
    if repl.owned:
        known |= {"kind", "address", "processId", "capabilities"}
        usual = {"origin": repl.dialect, "projectRoot": state.life.workspace}
        known |= {name for name, value in usual.items() if row.get(name) == value}
    lean = {name: value for name, value in row.items() if name not in known}
    if isinstance(able := lean.get("capabilities"), dict):
        lean["capabilities"] = list(able)
    if isinstance(versions := lean.get("versions"), dict):
        lean["versions"] = {name: version for name, version in versions.items() if name != "codriver-worker"}
    if isinstance(running := lean.get("running"), dict) and running["who"] == who:
        lean["running"] = {name: value for name, value in running.items() if name != "code"}
    return lean


async def _seams(call: Call) -> dict[str, dict[str, object]]:
    """The application that shows itself in each REPL, in short, by REPL.

    All REPLs are asked: an application may have begun to show itself, with no evaluation of ours.
    """
    found = {}
    for repl in call.state.repls.values():
        if repl.phase == "connected" and repl.profile is not None:
            with suppress(CodriverError), anyio.move_on_after(LOOK_S):
                told = await call.services.repls.adapter(repl.id).ask_seam("health", "{}")
                found[repl.id] = _seam_row(call.state, repl, read_told(call, told))
    return found


def _seam_row(state: State, repl: Repl, told: Mapping[str, Any]) -> dict[str, object]:
    now = state.repls[repl.id].profile
    support = now.capabilities.get(SEAM) if now else None
    bands = told.get("bands", {})
    return {
        "provider": support.op if support and support.adapted else "codriver",
        "sessionId": told.get("sessionId"),
        "frames": told.get("frames", []),
        "bands": [name for name in bands if bands[name] is True],
        "subscriptions": sum(stream.repl == repl.id for stream in app_streams.live(state)),
        **({} if told.get("contract", CONTRACT) == CONTRACT else {"contract": told["contract"]}),
    }


def _lanes(state: State, repl: Repl, own: tuple[str, str]) -> list[dict[str, object]]:
    """The lanes of a REPL, a row each; none if the reader's own is the only one and idle.

    A lane whose client is gone is news as long as code runs in it.
    """
    rows = []
    is_news = False
    for session in repl.sessions.values():
        running = _running(state, repl, session)
        if session.lane is None or (running is None and session.client not in state.clients):
            continue
        is_news |= running is not None or (session.client, session.lane.who) != own
        row: dict[str, object] = {"key": repl.session_key(session.name), "client": session.lane.client_name}
        if session.lane.who != client_slug(session.lane.client_name):
            row["who"] = session.lane.who
        if session.namespace:
            row["ns"] = session.namespace
        if session.client not in state.clients:
            row["note"] = "its client is gone"
        rows.append(row | _held(running))
    return rows if is_news else []


def _held(running: Evaluation | None) -> dict[str, object]:
    if running is None:
        return {}
    return {"running": {"evaluationId": running.id, "who": running.who, "code": running.head}}


async def server_health(call: Call, arguments: NoArguments) -> Answer:
    """The server's own state. Changes nothing."""
    del arguments
    state, services = call.state, call.services
    life, log = state.life, services.log
    clients = services.client_counters()
    repls = [_repl_health(state, repl) for repl in state.repls.values()]
    fields: dict[str, object] = {
        "sessionId": life.session_id,
        "phase": life.phase,
        "pid": life.process_id,
        "version": life.version,
        "workspace": life.workspace,
        "host": life.host,
        "port": life.port,
        "startedAt": iso(life.started_at),
        "uptimeS": max(0, services.now() - life.started_at) // 1000,
        "repls": repls,
        "clients": clients,
        "count": len(clients),
        "log": {
            "firstLine": log.first_line,
            "lastLine": log.last_line,
            "entities": log.entity_count,
            "textBytes": log.text_bytes,
            "evicted": log.evicted,
        },
        **event_counts(services.app_log),
        "history": services.history.usage(),
        "evaluations": {
            "accepted": state.evaluated,
            "queued": sum(e.status == "queued" for e in state.unfinished()),
            "running": sum(e.status in HELD for e in state.unfinished()),
            **services.transcripts.store.usage(),
            **({"unfinished": _unfinished(call)} if traits_of(call.client_name).wants_detail else {}),
        },
        "errors": [
            {"code": latch.code, "message": latch.text, "count": latch.count, "firstAt": iso(latch.first_at)}
            for latch in state.latches.values()
        ],
    }
    if life.port_note:
        fields["portNote"] = life.port_note
    if services.live.settings.python != "auto":
        fields["python"] = services.live.settings.python
    return Answer(fields)


def event_counts(app_log: AppLog) -> dict[str, object]:
    """The counts of applications' events, if there were some."""
    if not app_log.kept and not app_log.dropped:
        return {}
    counts = {"entities": app_log.entity_count, "bytes": app_log.text_bytes}
    counts |= {"kept": app_log.kept, "dropped": app_log.dropped}
    return {"appLog": {"firstLine": app_log.first_line, "lastLine": app_log.last_line, **counts}}


def iso(epoch_ms: int) -> str:
    """A time for people and programs: ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="seconds")


def repl_row(repl: Repl) -> dict[str, object]:
    """A REPL in a few words."""
    row: dict[str, object] = {
        "key": repl.key,
        "phase": repl.phase,
        "origin": repl.origin.text,
        "kind": repl.origin.kind,
        "dialect": repl.dialect,
        "generation": repl.generation,
    }
    if repl.address:
        row["address"] = repl.address
    if repl.note:
        row["note"] = repl.note
    return row


def _repl_health(state: State, repl: Repl) -> dict[str, object]:
    found = [*cautions(state, repl), *([repl.remark] if repl.remark else [])]
    caution = {"caution": "; ".join(found)} if found else {}
    return repl_row(repl) | caution | ({"awaitsAcceptance": True} if awaits_acceptance(repl) else {})


def session_row(state: State, repl: Repl, session: Session) -> dict[str, object]:
    """A session, with the abilities of its REPL and those that cannot be had."""
    row = {**repl_row(repl), "key": repl.session_key(session.name)}
    if repl.notebook:
        row["notebook"] = _shown_path(repl.notebook, state.life.workspace)
    if session.namespace:
        row["ns"] = session.namespace
    if session.last_activity:
        row["lastActivity"] = iso(session.last_activity)
    if session.who:
        row["who"] = session.who
    if session.is_leaving:
        row["note"] = "its client is gone: it ends with what still runs in it"
    row |= _held(_running(state, repl, session))
    if repl.profile is not None:
        row |= _abilities(repl, repl.profile)
        if stray(state, repl):
            row["elsewhere"] = True
        notes = [*cautions(state, repl), *([repl.remark] if repl.remark else []), *repl.profile.notes]
        if notes:
            row["notes"] = notes
    return row


def _abilities(repl: Repl, profile: Profile) -> dict[str, object]:
    """The part of a session's row that its REPL showed when it was connected."""
    capabilities: dict[str, dict[str, object]] = {}
    for name in CAPABILITIES:
        if name == "restart" and repl.owned:
            capabilities[name] = {"support": "native", "op": "codriver"}
        elif name in profile.capabilities:
            support = profile.capabilities[name]
            capabilities[name] = {"support": "adapted" if support.adapted else "native", "op": support.op}
    row: dict[str, object] = {
        "capabilities": capabilities,
        "versions": dict(profile.versions),
        "isolation": profile.isolation,
    }
    # An application is seldom there; a caller that asks for one is told how to have it.
    missing = {name: how for name, how in profile.missing.items() if name not in (*capabilities, "seam")}
    if missing:
        row["missing"] = missing
    if profile.process_id:
        row["processId"] = profile.process_id
    if profile.project_root:
        row["projectRoot"] = profile.project_root
    return row


def _shown_path(path: str, workspace: str) -> str:
    """A path in the form for a reader in the workspace."""
    return path.removeprefix(f"{workspace.rstrip('/')}/")


def _running(state: State, repl: Repl, session: Session) -> Evaluation | None:
    for evaluation in state.unfinished():
        if evaluation.status in HELD and (evaluation.repl, evaluation.session) == (repl.id, session.name):
            return evaluation
    return None


def _unfinished(call: Call) -> list[dict[str, object]]:
    """The unfinished evaluations, for our own commands: caller, place, begin, and what holds them."""
    state, now = call.state, call.services.now()
    rows = []
    for one in state.unfinished():
        since = now - (one.started_at or now)
        row = {"evaluationId": one.id, "who": one.who, "sessionKey": state.key_of(one), "status": one.status,
               "kind": one.kind, "code": one.head, "elapsedMs": since}  # fmt: skip
        waits = {"waits": queue_notes(call, one)[0].partition(";")[0]} if one.status == "queued" else {}
        rows.append({**row, **waits})
    return rows


_SESSIONS = {"type": "array", "items": {"type": "object", "properties": {"elsewhere": {"const": True}}}}
"""`elsewhere`: a port file led to this REPL, which runs neither in the workspace nor above it."""


SETTLE_LOOK_S = 0.05


class RestartArguments(Arguments):
    """Arguments of `restart_repl`."""

    repl_session_key: str | None = None
    timeout_ms: int = Field(25_000, ge=100, le=600_000, json_schema_extra={UNLISTED: True})


async def restart_repl(call: Call, arguments: RestartArguments) -> Answer:
    """End the process behind a session, start it anew, and wait until it is back."""
    repl = _wanted(call.state, arguments.repl_session_key)
    who = call.who(arguments.who)
    with anyio.move_on_after(arguments.timeout_ms / 1000):
        if repl.owned:
            call.dispatch(RestartRepl(repl.id, f"{who} asked for it"))
        elif _is_served(repl) and arguments.repl_session_key is not None:
            await call.services.repls.adapter(repl.id).restart()
        else:
            why = f"codriver did not start {repl.key}: restart it where it was started"
            raise CapabilityMissingError("restart", why)
        while not _is_settled(_as_it_is(call.state, repl), repl):
            await anyio.sleep(SETTLE_LOOK_S)
    current = _as_it_is(call.state, repl)
    if current.phase == "stopped":
        raise repl_stopped(current)
    if not _is_settled(current, repl):
        why = f" ({current.note})" if current.note else ""
        told = f"it is not back yet{why}: an evaluation sent now runs as soon as it is"
        current = replace(current, phase="waiting" if current is repl else current.phase)
    else:
        told = "what was defined in it is gone: load what you need again" if repl.generation else "it is here now"
        call.services.told.places.is_renewed(call.client, who, current)  # told here, and not again
    fields = {"sessionKey": current.key, "phase": current.phase, "generation": current.generation, "notes": [told]}
    return Answer(fields)


def _as_it_is(state: State, before: Repl) -> Repl:
    """The REPL in its present state; if gone, the one with its key: a server may lead to it another way then."""
    same_key = (one for one in state.repls.values() if one.key == before.key)
    return state.repls.get(before.id) or next(same_key, before)


def _is_settled(now: Repl, before: Repl) -> bool:
    """True for a REPL that is back, or given up."""
    is_new = now.id != before.id or now.generation > before.generation
    return now.phase == "stopped" or (now.phase == "connected" and is_new)


def _is_served(repl: Repl) -> bool:
    """True of a kernel that a Jupyter Server can restart. It may be a human's, so it has to be named by its key."""
    return repl.profile is not None and "restart" in repl.profile.capabilities


def _wanted(state: State, key: str | None) -> Repl:
    """The REPL that `key` names, also a stopped one; without a key the only one of ours.

    Raises:
        RefusedError: as `resolve` says.
    """
    if key is None:
        ours = [repl for repl in state.repls.values() if repl.owned]
        if len(ours) == len(state.repls) == 1:
            return ours[0]
    for repl in state.repls.values():
        if any(repl.session_key(name) == key for name in repl.sessions):
            return repl
    return resolve(state, key).repl


TOOLS = (
    Tool(
        name="restart_repl",
        title="Restart REPL",
        description="Restart a REPL of codriver's; its state is lost.",
        arguments=RestartArguments,
        output=answer_schema(
            sessionKey="string",
            phase="string",
            generation="integer",
            notes=TEXTS,
        ),
        run=restart_repl,
        needs=("restart",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        search_hint="start the process anew",
    ),
    Tool(
        name="list_sessions",
        other_names=("clojure_list_sessions",),
        title="List REPL sessions",
        description="Every REPL session and its state.",
        arguments=NoArguments,
        output=answer_schema(sessions=_SESSIONS, count="integer"),
        run=list_sessions,
        read_only=True,
        idempotent=True,
        is_core=True,
    ),
    Tool(
        name="server_health",
        title="Server health",
        description="The server's clients, log range, errors.",
        arguments=NoArguments,
        output=answer_schema(
            sessionId="string", pid="integer", port="integer", repls=ROWS, clients=ROWS, log="object", errors=ROWS
        ),
        run=server_health,
        read_only=True,
        idempotent=True,
        search_hint="diagnose the server",
    ),
)
