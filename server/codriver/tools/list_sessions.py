"""`list_sessions`: list the REPL sessions and their capabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.requests import MAIN_SESSION
from codriver.tools.calls.answer import ROWS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.caller_slugs import client_slug
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.start_rows import start_row
from codriver.tools.session_rows import running_evaluation, running_field, session_row

if TYPE_CHECKING:
    from codriver.core.state import Repl, State
    from codriver.tools.calls.call import Call


class NoArguments(Arguments):
    """Arguments of a tool that declares none."""


async def list_sessions(call: Call, arguments: NoArguments) -> Answer:
    """Return all REPL sessions with the capabilities of their REPLs."""
    who = call.who(arguments.who)
    additions = [await query(call) for query in call.services.hooks.sessions]
    rows: list[dict[str, object]] = []
    state, names = call.state, call.services.repls.capability_names
    is_lean = not find_traits(call.client_name).wants_detail
    for repl in state.repls.values():
        caller = (call.client, who)
        for session in repl.sessions.values():
            if session.lane is None:
                lanes = _lane_rows(state, repl, caller) if session.name == MAIN_SESSION else []
                row = session_row(state, repl, session, names) | ({"lanes": lanes} if lanes else {})
                row = _lean_session_row(state, repl, row, who) if is_lean else row
                rows.append(row)
    for add in additions:
        rows = add(rows)
    starts = [start_row(start_state, state.lifecycle.workspace) for start_state in call.services.tests.start_states()]
    # Agents need this row only if test runs start in an unusual way.
    listed = starts if not is_lean or any("python" in start for start in starts) else []
    return Answer({"sessions": rows, "count": len(rows)} | ({"testRuns": listed} if listed else {}))


def _lean_session_row(state: State, repl: Repl, row: dict[str, object], who: str) -> dict[str, object]:
    """Shorten a session's description for agents: omit details of capabilities, but not why others are missing.

    The path and the capabilities are omitted for the only REPL, and for one that Codriver started in this workspace.
    """
    known = {"missing", "lastActivity", "isolation"}
    if len(state.repls) == 1:
        known.add("capabilities")
    if row.get("kind") == "address":
        known.add("kind")
    if row.get("origin") == row.get("address"):
        known.add("origin")
    if repl.is_owned:
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


def _lane_rows(state: State, repl: Repl, caller: tuple[str, str]) -> list[dict[str, object]]:
    """Describe the lanes of a REPL, with one object for each. A single idle lane of the caller is not described.

    A lane whose client has disconnected is listed only while code is running in it.
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
            row["note"] = "the session's client has disconnected"
        rows.append(row | running_field(running))
    return rows if is_worth_listing else []


_SESSIONS_SCHEMA = {"type": "array", "items": {"type": "object", "properties": {"elsewhere": {"const": True}}}}
"""Schema of the sessions.

`elsewhere` marks a REPL that was found by a port file, but runs neither in the workspace nor above it.
"""

TOOL = Tool(
    name="list_sessions",
    other_names=("clojure_list_sessions",),
    title="List REPL sessions",
    description="List every REPL session and its state.",
    arguments=NoArguments,
    output=answer_schema(sessions=_SESSIONS_SCHEMA, count="integer", testRuns=ROWS_SCHEMA),
    run=list_sessions,
    read_only=True,
    idempotent=True,
    is_core=True,
)
