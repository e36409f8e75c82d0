"""Select the program that a call refers to, and connect to it before the call runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.actions import DropRepl
from codriver.core.profiles import PYTHON
from codriver.core.recent_repls import recent_repl_ids
from codriver.errors import refused
from codriver.features.run.programs import PROGRAM, Programs
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.evaluate_code import EvaluateArguments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.state import Repl
    from codriver.features.run.programs import Member
    from codriver.tools.calls.arguments import Arguments
    from codriver.tools.calls.call import Call

WAIT_INTERVAL_S: Final = 0.02
"""Interval between checks while a caller is waiting for a process."""


async def connect_before_call(call: Call, arguments: Arguments) -> None:
    """Connect to the program that a call refers to.

    If the call names no session, connect to the only program that it could refer to.

    Raises:
        RefusedError: the program does not answer, or there are several programs that the call could refer to.
    """
    programs, key = call.services.part(Programs), getattr(arguments, "repl_session_key", None)
    if not programs.has_runs():
        return
    await programs.forget_finished()
    if isinstance(arguments, EvaluateArguments) and (repl := _current_repl(call, arguments, key)):
        programs.check_replaced(repl)
    if not _could_refer_to_program(call, arguments, key):
        return
    members = await programs.find_members()
    member = _select_only_program(call, members) if key is None else _select_by_key(programs, members, key)
    if member is not None:
        await _connect(call, programs, member)


def _select_by_key(programs: Programs, members: Sequence[Member], key: str) -> Member | None:
    """Return the process with a session key, or None if there is none.

    Raises:
        RefusedError: the key belongs to a process that cannot have a REPL, or to a program that has ended.
    """
    ready = [member for member in members if member.named.process.is_ready]
    found = next((member for member in ready if key == member.named.key), None)
    found = found or next((member for member in ready if key in member.named.aliases), None)
    if found is None:
        _check_has_repl(members, key)
        programs.check_unfinished(key)
    return found


def _select_only_program(call: Call, members: Sequence[Member]) -> Member | None:
    """Return the first process of the only running program, or None if there is none or it is already connected.

    Raises:
        RefusedError: several applications are running.
    """
    serving = [member for member in members if member.named.process.is_ready and member.named.role == "serves"]
    first: dict[Path, Member] = {}
    for member in sorted(serving, key=lambda member: int(member.named.slot)):
        first.setdefault(member.run.directory, member)
    if not first:
        return None
    others = [repl.key for repl in _application_repls(call) if repl.origin.kind != PROGRAM]
    keys = sorted([*others, *[member.named.key for member in first.values()]])
    if len(keys) > 1:
        raise refused(
            "ambiguous-session",
            f"{len(keys)} applications are running, and replSessionKey was not given",
            hint=f"Call again with replSessionKey set to one of: {', '.join(keys)}.",
            details={"sessions": keys, "count": len(keys)},
        )
    (member,) = first.values()
    return None if member.id in call.state.repls else member


def _current_repl(call: Call, arguments: Arguments, key: str | None) -> Repl | None:
    """Return the REPL with a call's session key, or without a key, the REPL that the caller used last."""
    if key is not None:
        repls = call.state.repls.values()
        return next((repl for repl in repls if repl.key == key), None) or next(
            (repl for repl in repls if key in repl.aliases), None
        )
    recent = recent_repl_ids(call.state, call.client, call.who(arguments.who))
    return call.state.repls.get(recent[-1]) if recent else None


def _application_repls(call: Call) -> list[Repl]:
    """Return the connected REPLs that run inside applications."""
    return [repl for repl in call.state.repls.values() if repl.profile is not None and repl.profile.application]


def _could_refer_to_program(call: Call, arguments: Arguments, key: str | None) -> bool:
    """Return whether a call could refer to a program that is not connected, or to one of several programs.

    A call without a session key refers to the session that the caller used last.
    """
    if key is not None:
        return not call.state.has_session(key)
    files = arguments.session_files
    if files and not any(PYTHON in dialects_by_suffix().get(Path(file).suffix, ()) for file in files):
        return False
    return arguments.chooses_session and not recent_repl_ids(call.state, call.client, call.who(arguments.who))


async def _connect(call: Call, programs: Programs, member: Member) -> None:
    """Connect to a process, and wait until the connection is established.

    Raises:
        RefusedError: the process did not provide a REPL.
    """
    programs.register(member)
    with anyio.move_on_after(call.services.durations.others["program_connects_s"]):
        while (repl := call.state.repls.get(member.id)) is not None and repl.phase == "connecting":
            await anyio.sleep(WAIT_INTERVAL_S)
    repl = call.state.repls.get(member.id)
    if repl is not None and repl.phase == "connected":
        return
    why = repl.note if repl is not None and repl.note else "the program did not answer in time"
    if repl is not None and not repl.generation:
        call.dispatch(DropRepl(repl.id, "the REPL did not connect"))
    raise refused(
        "repl-unreachable",
        f"{member.named.key} did not provide a REPL: {why}",
        hint="the program was not changed. To start a REPL in it, call codriver_seam.start_repl(True) there",
    )


def _check_has_repl(members: Sequence[Member], key: str) -> None:
    """Raise an error if the session key belongs to a process that cannot have a REPL.

    Raises:
        RefusedError: the process cannot have a REPL. The message explains why.
    """
    found = [member for member in members if key in (member.named.key, *member.named.aliases)]
    if not found:  # the name of a program without a ready process
        found = [member for member in members if key == member.run.name]
        found.sort(key=lambda member: not member.named.process.is_python)
    for member in found:
        if member.named.process.no_repl_reason:
            raise refused(
                "repl-unreachable",
                f"process {member.named.process.pid} of {member.run.name} has no REPL: "
                f"{member.named.process.no_repl_reason}",
                hint="list_sessions lists the processes that have a REPL",
            )
