"""Add the processes of programs started by `codriver run` to the list of sessions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from codriver.features.run.process_table import find_ports
from codriver.features.run.programs import PROGRAM, Programs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.features.run.programs import Member
    from codriver.tools.calls.call import AddRows, Call


async def find_programs(call: Call) -> AddRows:
    """Find the processes of all runs, and return a function that adds them to the list of sessions."""
    programs = call.services.part(Programs)
    members = await programs.find_members() if programs.has_runs() else []
    # A supervisor may have opened the socket at which its children listen.
    listening = [member.named.process.pid for member in members if member.named.role != "supervises"]
    ports = await anyio.to_thread.run_sync(find_ports, listening) if listening else {}
    return partial(_add_programs, call, {member.id: member for member in members}, ports)


def _add_programs(
    call: Call, members: Mapping[str, Member], ports: Mapping[int, int], rows: list[dict[str, object]]
) -> list[dict[str, object]]:
    """Add information about programs to the list of sessions, along with an entry for each unconnected process.

    `ports` contains the ports on which processes listen, by process id.
    """
    programs = call.services.part(Programs)
    if not programs.has_runs():
        return rows
    by_key = {repl.key: repl for repl in call.state.repls.values() if repl.origin.kind == PROGRAM}
    found: list[dict[str, object]] = []
    for row in rows:
        added: dict[str, object] = {}
        if (repl := by_key.get(str(row["key"]))) is not None:
            pid = repl.profile.process_id if repl.profile is not None else None
            if pid is not None and pid in ports:
                added["port"] = ports[pid]
            if applications := programs.applications.get(repl.address or ""):
                added["applications"] = list(applications)
        found.append(row | added)
    known = {repl.id for repl in by_key.values()}
    return found + [_process_row(member, ports) for identity, member in members.items() if identity not in known]


def _process_row(member: Member, ports: Mapping[int, int]) -> dict[str, object]:
    """Return the entry for a process in the list of sessions."""
    process = member.named.process
    row: dict[str, Any] = {
        "key": member.named.key,
        "phase": "ready" if process.is_ready else "no REPL",
        "kind": "program",
        "program": " ".join(process.words)[:200],
        "processId": process.pid,
    }
    if member.named.role:
        row["role"] = member.named.role
    if process.pid in ports:
        row["port"] = ports[process.pid]
    row["note"] = (
        process.no_repl_reason
        or "the REPL is started when its key is first used. Until then, the program is left alone"
    )
    return row
