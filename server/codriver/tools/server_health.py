"""`server_health`: report the state of the server itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.evaluations import OCCUPYING_STATUSES
from codriver.core.state import awaits_acceptance, first_answer_warnings
from codriver.tools.calls.answer import ROWS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.evaluation_waits import describe_queue
from codriver.tools.calls.tool import Tool
from codriver.tools.list_sessions import NoArguments
from codriver.tools.session_rows import format_iso_time, repl_row

if TYPE_CHECKING:
    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call


async def server_health(call: Call, arguments: NoArguments) -> Answer:
    """Return the state of the server: its clients, REPLs, log and errors."""
    del arguments
    state, services = call.state, call.services
    lifecycle, log = state.lifecycle, services.log
    clients = services.client_counters()
    repls = [_repl_health(state, repl) for repl in state.repls.values()]
    fields: dict[str, object] = {
        "sessionId": lifecycle.session_id,
        "phase": lifecycle.phase,
        "pid": lifecycle.process_id,
        "version": lifecycle.version,
        "workspace": lifecycle.workspace,
        "host": lifecycle.host,
        "port": lifecycle.port,
        "startedAt": format_iso_time(lifecycle.started_at),
        "uptimeS": max(0, services.now() - lifecycle.started_at) // 1000,
        "repls": repls,
        "clients": clients,
        "count": len(clients),
        "calls": services.uses,
        "log": {
            "firstLine": log.first_line,
            "lastLine": log.last_line,
            "entities": log.entity_count,
            "textBytes": log.text_bytes,
            "evicted": log.evicted_count,
        },
        **{event_log.usage_as: usage for event_log, store in log.sources.growing.values() if (usage := store.usage())},
        "history": services.history.usage(),
        "evaluations": {
            "accepted": state.evaluated,
            "queued": sum(e.status == "queued" for e in state.unfinished()),
            "running": sum(e.status in OCCUPYING_STATUSES for e in state.unfinished()),
            **services.transcripts.store.usage(),
            **({"unfinished": _unfinished_rows(call)} if find_traits(call.client_name).wants_detail else {}),
        },
        "errors": [
            {
                "code": latch.code,
                "message": latch.text,
                "count": latch.count,
                "firstAt": format_iso_time(latch.first_at),
            }
            for latch in state.latches.values()
        ],
    }
    if lifecycle.port_note:
        fields["portNote"] = lifecycle.port_note
    if services.live.settings.python != "auto":
        fields["python"] = services.live.settings.python
    return Answer(fields)


def _repl_health(state: State, repl: Repl) -> dict[str, object]:
    """Describe a REPL in a JSON object, including warnings."""
    found = [*first_answer_warnings(state, repl), *([repl.remark] if repl.remark else [])]
    caution = {"caution": "; ".join(found)} if found else {}
    return repl_row(repl) | caution | ({"awaitsAcceptance": True} if awaits_acceptance(repl) else {})


def _unfinished_rows(call: Call) -> list[dict[str, object]]:
    """Describe unfinished evaluations for Codriver's commands, with one JSON object for each."""
    state, now = call.state, call.services.now()
    rows = []
    for evaluation in state.unfinished():
        since = now - (evaluation.started_at or now)
        row = {"evaluationId": evaluation.id, "who": evaluation.who,
               "sessionKey": state.evaluation_session_key(evaluation), "status": evaluation.status,
               "kind": evaluation.kind, "code": evaluation.head, "elapsedMs": since}  # fmt: skip
        waits = (
            {"waits": describe_queue(call, evaluation)[0].partition(";")[0]} if evaluation.status == "queued" else {}
        )
        rows.append({**row, **waits})
    return rows


TOOL = Tool(
    name="server_health",
    title="Server health",
    description="Report the server's clients, log range and errors.",
    arguments=NoArguments,
    output=answer_schema(
        sessionId="string",
        pid="integer",
        port="integer",
        repls=ROWS_SCHEMA,
        clients=ROWS_SCHEMA,
        calls="object",
        log="object",
        errors=ROWS_SCHEMA,
    ),
    run=server_health,
    read_only=True,
    idempotent=True,
    search_hint="diagnose the server",
)
