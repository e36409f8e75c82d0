"""`list_sessions`: list the REPL sessions and their capabilities."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core import app_streams
from codriver.core.values import MAIN_SESSION
from codriver.errors import CodriverError
from codriver.repls.dialects.seam_providers import CONTRACT
from codriver.tools.acts.test_starts import start_row
from codriver.tools.calls.answer import ROWS, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.caller_slugs import client_slug
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.tool import Tool
from codriver.tools.inspect_app import SEAM, parse_answer
from codriver.tools.session_rows import running_evaluation, running_field, session_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call

SEAM_TIMEOUT_S: Final = 1.0
"""Time limit for asking a REPL about its application, in seconds."""


class NoArguments(Arguments):
    """Arguments of a tool that has none."""


async def list_sessions(call: Call, arguments: NoArguments) -> Answer:
    """Return every REPL session with the capabilities of its REPL."""
    who = call.who(arguments.who)
    seams = await _seams(call)
    rows: list[dict[str, object]] = []
    state, names = call.state, call.services.repls.capability_names
    is_lean = not traits_of(call.client_name).wants_detail
    for repl in state.repls.values():
        caller = (call.client, who)
        for session in repl.sessions.values():
            if session.lane is None:
                lanes = _lanes(state, repl, caller) if session.name == MAIN_SESSION else []
                row = session_row(state, repl, session, names) | ({"lanes": lanes} if lanes else {})
                row = _lean(state, repl, row, who) if is_lean else row
                is_of_app = session.name == MAIN_SESSION and repl.id in seams
                rows.append(row | ({"seam": seams[repl.id]} if is_of_app else {}))
    for add in call.services.hooks.sessions:
        rows = await add(call, rows)
    starts = [start_row(one, state.lifecycle.workspace) for one in call.services.tests.start_states()]
    # Agents need this row only if test runs start in an unusual way.
    listed = starts if not is_lean or any("python" in one for one in starts) else []
    return Answer({"sessions": rows, "count": len(rows)} | ({"testRuns": listed} if listed else {}))


def _lean(state: State, repl: Repl, row: dict[str, object], who: str) -> dict[str, object]:
    """Shorten a row for agents: omit details of capabilities, but keep the reason why one is missing.

    The path and the capabilities are omitted for the only REPL, and for one that Codriver started in this workspace.
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
        usual = {"origin": repl.dialect, "projectRoot": state.lifecycle.workspace}
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
    """Return a summary of the application in each REPL, by REPL id.

    Every REPL is queried, because an application may have installed its seam without an evaluation.
    """
    found = {}
    for repl in call.state.repls.values():
        if repl.phase == "connected" and repl.profile is not None:
            with suppress(CodriverError), anyio.move_on_after(SEAM_TIMEOUT_S):
                health = await call.services.repls.adapter(repl.id).call_seam("health", "{}")
                found[repl.id] = _seam_row(call.state, repl, parse_answer(call, health))
    return found


def _seam_row(state: State, repl: Repl, health: Mapping[str, Any]) -> dict[str, object]:
    now = state.repls[repl.id].profile
    support = now.capabilities.get(SEAM) if now else None
    bands = health.get("bands", {})
    return {
        "provider": support.op if support and support.adapted else "codriver",
        "sessionId": health.get("sessionId"),
        "frames": health.get("frames", []),
        "bands": [name for name in bands if bands[name] is True],
        "subscriptions": sum(stream.repl == repl.id for stream in app_streams.active_app_streams(state)),
        **({} if health.get("contract", CONTRACT) == CONTRACT else {"contract": health["contract"]}),
    }


def _lanes(state: State, repl: Repl, caller: tuple[str, str]) -> list[dict[str, object]]:
    """Return a row for each lane of a REPL, or none if the caller's lane is the only one and idle.

    A lane whose client has disconnected is listed while code runs in it.
    """
    rows = []
    is_worth_listing = False
    for session in repl.sessions.values():
        running = running_evaluation(state, repl, session)
        if session.lane is None or (running is None and session.client not in state.clients):
            continue
        is_worth_listing |= running is not None or (session.client, session.lane.who) != caller
        row: dict[str, object] = {"key": repl.session_key(session.name), "client": session.lane.client_name}
        if session.lane.who != client_slug(session.lane.client_name):
            row["who"] = session.lane.who
        if session.namespace:
            row["ns"] = session.namespace
        if session.client not in state.clients:
            row["note"] = "its client is gone"
        rows.append(row | running_field(running))
    return rows if is_worth_listing else []


_SESSIONS = {"type": "array", "items": {"type": "object", "properties": {"elsewhere": {"const": True}}}}
"""`elsewhere` marks a REPL that was found by a port file, but runs neither in the workspace nor above it."""

TOOL = Tool(
    name="list_sessions",
    other_names=("clojure_list_sessions",),
    title="List REPL sessions",
    description="List every REPL session and its state.",
    arguments=NoArguments,
    output=answer_schema(sessions=_SESSIONS, count="integer", testRuns=ROWS),
    run=list_sessions,
    read_only=True,
    idempotent=True,
    is_core=True,
)
