"""List the processes of programs started by `codriver run` among the sessions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from codriver.features.run.programs import PROGRAM, Programs

if TYPE_CHECKING:
    from codriver.features.run.programs import Member
    from codriver.tools.calls.call import AddRows, Call


async def find_programs(call: Call) -> AddRows:
    """Find the processes of all runs, and return a function that adds them to the list of sessions."""
    programs = call.services.part(Programs)
    members = {member.id: member for member in await programs.find_members()} if programs.has_runs() else {}
    return partial(_add_programs, call, members)


def _add_programs(call: Call, members: dict[str, Member], rows: list[dict[str, object]]) -> list[dict[str, object]]:
    """Add information about programs to the list of sessions, along with a row for each unconnected process."""
    programs = call.services.part(Programs)
    if not programs.has_runs():
        return rows
    by_key = {repl.key: repl for repl in call.state.repls.values() if repl.origin.kind == PROGRAM}
    ports = {program.pid: int(program.address.rpartition(":")[2]) for program in call.state.programs}
    found: list[dict[str, object]] = []
    for row in rows:
        added: dict[str, object] = {}
        if (repl := by_key.get(str(row["key"]))) is not None:
            if repl.profile is not None and repl.profile.process_id in ports:
                added["port"] = ports[repl.profile.process_id]
            if applications := programs.applications.get(repl.address or ""):
                added["applications"] = list(applications)
        found.append(row | added)
    known = {repl.id for repl in by_key.values()}
    return found + [_process_row(member, ports) for identity, member in members.items() if identity not in known]


def _process_row(member: Member, ports: dict[int, int]) -> dict[str, object]:
    """Return the row for a process in the list of sessions."""
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
        or "the REPL is started when its key is first used; until then the program is not touched"
    )
    return row
