"""The programs started by `codriver run` in a workspace: find them, request REPLs in them, and follow reloads.

If the connection to a REPL in use is lost, the program's processes are checked four times per second. After a reload,
the process that replaces the old one gets the same key.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.actions import AddRepl, DropRepl, ReplProgress
from codriver.core.profiles import PYTHON
from codriver.core.state import Origin
from codriver.errors import refused
from codriver.features.run.final_output import collect_from_now, read_final_output
from codriver.features.run.naming import NamedProcess, close_gaps, name_processes
from codriver.features.run.process_table import find_processes
from codriver.features.run.processes import select_run_processes
from codriver.features.run.requests import request_stream
from codriver.features.run.run_directory import Run, read_runs, remove_finished_runs, runs_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.features.run.processes import RunProcess
    from codriver.repls.contract.endpoints import AcceptedStream
    from codriver.tools.calls.call import Services

RUN_PROTOCOL: Final = "run"
"""Name of the protocol of REPLs in running programs."""
PROGRAM: Final = "program"
"""The origin kind of REPLs in running programs. The origin's text is the program's command."""
CHECK_INTERVAL_S: Final = 0.25
"""Time between two checks for processes that have started or ended."""
NEXT_PROCESS_TIMEOUT_S: Final = 2.0
"""Maximum time for a program to start its next process. After that, the session reports that there is none."""
FEWER_PROCESSES_TIMEOUT_S: Final = 4.0
"""Time after which a process that was not replaced is forgotten if other processes handle the requests.

It is longer than the time after which slots are reassigned, so that another process can take over the slot first.
"""
SEARCH_INTERVAL_S: Final = 1.0
"""Minimum time between two searches for programs whose REPL has not been started."""
MAX_FINISHED: Final = 50
"""Maximum number of sessions of finished programs to remember."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a program started by `codriver run`, with its name."""

    run: Run
    named: NamedProcess

    @property
    def id(self) -> str:
        """Return the id of the process's REPL. A process that takes the place of this one gets the same id."""
        return f"{RUN_PROTOCOL}:{self.run.directory.name}:{self.named.slot}"

    @property
    def address(self) -> str:
        """Return the address of the process's REPL."""
        return f"{RUN_PROTOCOL}://{self.run.directory.name}/{self.named.slot}/{self.named.process.pid}"


@dataclass(slots=True)
class _ProcessCount:
    """The number of a program's processes that handle requests, and the time at which the number last changed."""

    usual: int
    """The number of processes when it was last constant for `NEXT_PROCESS_TIMEOUT_S`, or when the run was found."""
    now: int
    since: float
    """The time at which the number of processes last changed."""

    def update(self, now: int, time: float) -> None:
        """Record that there are `now` processes at `time`, which is in monotonic seconds."""
        if now != self.now:
            self.now, self.since = now, time
        elif time - self.since > NEXT_PROCESS_TIMEOUT_S:
            self.usual = now


@dataclass(slots=True)
class Programs:
    """Connects to the programs that `codriver run` has started in the workspace, and follows their restarts."""

    services: Services
    applications: dict[str, Sequence[str]] = field(default_factory=dict)
    """The applications found in a process, by the address of its REPL."""
    _slots: dict[str, dict[str, int]] = field(default_factory=dict)
    """The pid in each slot, by run."""
    _counts: dict[str, _ProcessCount] = field(default_factory=dict)
    """The number of processes that handle requests, by run."""
    _supervisors: dict[str, set[int]] = field(default_factory=dict)
    """The pids of processes that had children that handled requests, by run."""
    _lost: dict[str, float] = field(default_factory=dict)
    """The time at which the loss of the connection was noticed, by REPL."""
    _unreplaced: dict[str, str] = field(default_factory=dict)
    """The reason why a REPL has no process, by REPL."""
    _outputs: dict[str, str] = field(default_factory=dict)
    """The last output of the finished runs of known REPLs, by run, until these REPLs are forgotten."""
    _finished: dict[str, str] = field(default_factory=dict)
    """Descriptions of how programs that an agent had used ended, by session key."""
    _next_search: float = 0.0
    """The earliest time of the next search for unused programs, in monotonic seconds."""
    _in_use: anyio.Event = field(default_factory=anyio.Event)
    _directory: Path = field(init=False)
    _directory_path: str = field(init=False)
    """The directory of all runs."""

    def __post_init__(self) -> None:
        self._directory = runs_directory(self.services.workspace)
        self._directory_path = str(self._directory)

    def has_runs(self) -> bool:
        """Return whether a program may be running.

        Makes only one system call, because this is checked before each evaluation.
        """
        return os.access(self._directory_path, os.F_OK)

    async def find_members(self) -> list[Member]:
        """Return the processes of all programs that `codriver run` has started in the workspace."""
        return await anyio.to_thread.run_sync(self._find_members)

    async def find_unused(self, is_candidate: Callable[[str], bool]) -> list[Member]:
        """Return the serving process of each program whose REPL has not been started.

        `is_candidate` is called with the name of a run's directory, and returns whether to consider the run. Because
        this is used after evaluations, processes are searched at most once per second.
        """
        if monotonic() < self._next_search:
            return []
        runs = await anyio.to_thread.run_sync(read_runs, self.services.workspace)
        if not any(is_candidate(run.directory.name) for run in runs):
            return []
        self._next_search = monotonic() + SEARCH_INTERVAL_S
        found: dict[str, Member] = {}
        used = {run_directory_name(repl) for repl in self._program_repls()}
        for member in await self.find_members():
            name, process = member.run.directory.name, member.named.process
            if process.is_ready and member.named.role == "serves" and name not in used and is_candidate(name):
                found.setdefault(name, member)
        return list(found.values())

    def _find_members(self) -> list[Member]:
        found: list[Member] = []
        runs = read_runs(self.services.workspace)
        everyone = find_processes() if runs else {}
        in_use = {run_directory_name(repl) for repl in self._program_repls()}
        for run in runs:
            members = select_run_processes(everyone, str(run.directory), (run.pid, run.started))
            rows = self._name_members(run, members)
            found += [Member(run, row) for row in rows]
            name = run.directory.name
            if not rows and name in in_use and name not in self._outputs:
                output = read_final_output(run.directory, (), self._supervisors[name], prefers_errors=True)
                if output is not None:  # another thread may have stored it, and be removing the files
                    self._outputs.setdefault(name, output.text)
        if len({member.run.directory for member in found}) < len(runs):
            remove_finished_runs(self.services.workspace)
        return found

    def _name_members(self, run: Run, members: Sequence[RunProcess]) -> list[NamedProcess]:
        """Assign names to the processes of a run. Processes that already have a name keep it if possible."""
        name = run.directory.name
        supervisors = self._supervisors.setdefault(name, set())
        rows = name_processes(run.name, members, self._slots.get(name, {}), supervisors)
        slots = _serving_slots(rows)
        count = self._counts.setdefault(name, _ProcessCount(len(slots), len(slots), monotonic()))
        count.update(len(slots), monotonic())
        if len(slots) >= count.usual:  # otherwise, a process is about to be replaced, and the next one gets its number
            in_use = [repl.id.split(":")[2] for repl in self._program_repls() if run_directory_name(repl) == name]
            if (closed := close_gaps(slots, [slot for slot in in_use if slot in slots])) != slots:
                rows, slots = name_processes(run.name, members, closed, supervisors), closed
        supervisors.update(row.process.pid for row in rows if row.role == "supervises")
        self._slots[name] = slots
        return rows

    def register(self, member: Member) -> None:
        """Add a process to the REPLs of the server, which then connects to it."""
        self.services.core.report(
            AddRepl(
                member.id,
                member.named.key,
                Origin(PROGRAM, " ".join(member.run.command), has_several_processes=True),
                member.address,
                dialect=PYTHON,
                rewritten=True,
                aliases=member.named.aliases,
            )
        )
        self._in_use.set()

    async def accept(self, address: str) -> AcceptedStream:
        """Request a REPL from the process at an address, and return the stream to it.

        Raises:
            ReplUnreachableError: the process has ended or does not answer.
        """
        name, _slot, pid = address.split("/")
        stream, applications = await request_stream(self._directory / name, int(pid))
        self.applications[f"{RUN_PROTOCOL}://{address}"] = applications
        with suppress(OSError):  # reports of failed starts are less detailed then
            collect_from_now(self._directory / name)
        return stream

    async def follow(self) -> None:
        """Connect to processes that replace others, and forget programs that have ended.

        Runs until cancelled.
        """
        while True:
            await self._in_use.wait()
            self._in_use = anyio.Event()
            while any(repl.origin.kind == PROGRAM for repl in self.services.core.state.repls.values()):
                await anyio.sleep(CHECK_INTERVAL_S)
                if lost := self._lost_repls():
                    await self._replace(lost)
                else:
                    self._lost.clear()
                    self._unreplaced.clear()

    def _program_repls(self) -> list[Repl]:
        return [repl for repl in self.services.core.state.repls.values() if repl.origin.kind == PROGRAM]

    def _lost_repls(self) -> list[Repl]:
        return [repl for repl in self._program_repls() if repl.phase in ("waiting", "connecting") and repl.generation]

    async def forget_finished(self) -> None:
        """Forget the REPLs of programs that have ended, so that restarted programs get the same session keys."""
        if lost := self._lost_repls():
            self._forget_finished(lost, {member.run.directory.name for member in await self.find_members()})

    def _forget_finished(self, lost: Sequence[Repl], runs: Collection[str]) -> None:
        for repl in lost:
            name = run_directory_name(repl)
            if name not in runs:
                message = f"the program has ended: {repl.origin.text}" + _output_clause(self._outputs.get(name))
                self._forget(repl, message)
        in_use = {run_directory_name(repl) for repl in self._program_repls()}
        self._outputs = {name: text for name, text in self._outputs.items() if name in in_use}

    def _forget(self, repl: Repl, message: str) -> None:
        """Remove a REPL, and remember the message that explains why, unless this was done in the meantime."""
        if repl.id not in self.services.core.state.repls:
            return
        self._finished[repl.key] = message
        if len(self._finished) > MAX_FINISHED:
            del self._finished[next(iter(self._finished))]
        self.services.core.report(DropRepl(repl.id, message))

    def check_replaced(self, repl: Repl) -> None:
        """Raise an error if a REPL's process has ended and no other process has taken its place.

        Raises:
            RefusedError: no process has taken its place. The message contains the output of the last one.
        """
        if repl.id in self._unreplaced and repl.profile is None:
            raise refused("repl-unreachable", self._unreplaced[repl.id], hint="correct the program, and call again")

    def check_unfinished(self, key: str) -> None:
        """Raise an error if the session key belongs to a program that has ended.

        Raises:
            RefusedError: the program has ended. The message contains its last output.
        """
        if key in self._finished:
            raise refused("repl-unreachable", self._finished[key], hint="start the program again with `codriver run`")

    async def _replace(self, lost: Sequence[Repl]) -> None:
        """Connect to processes that have taken the place of lost processes, and forget programs that have ended."""
        members = await self.find_members()
        by_id = {candidate.id: candidate for candidate in members if candidate.named.process.is_ready}
        runs = {candidate.run.directory.name for candidate in members}
        self._forget_finished(lost, runs)
        for repl in lost:
            member = by_id.get(repl.id)
            if run_directory_name(repl) not in runs:
                continue
            if member is not None and member.address != repl.address:
                self._lost.pop(repl.id, None)
                self._unreplaced.pop(repl.id, None)
                self.register(member)
            elif member is None and repl.id.split(":")[2].startswith("pid "):
                self.services.core.report(DropRepl(repl.id, f"the process has ended: {repl.origin.text}"))
            elif member is None:
                await self._report_unreplaced(repl, members, monotonic() - self._lost.setdefault(repl.id, monotonic()))

    async def _report_unreplaced(self, repl: Repl, members: Sequence[Member], lost_s: float) -> None:
        """Report that a lost process was not replaced. Forget its REPL if other processes handle the requests."""
        if lost_s <= NEXT_PROCESS_TIMEOUT_S:
            return
        message = await anyio.to_thread.run_sync(self._why_unreplaced, repl, members)
        name = run_directory_name(repl)
        others = any(other.named.role == "serves" and other.run.directory.name == name for other in members)
        if others and lost_s > FEWER_PROCESSES_TIMEOUT_S:
            self._lost.pop(repl.id, None)
            self._forget(repl, message)
            return
        self._unreplaced[repl.id] = message
        if repl.note != message:
            self.services.core.report(ReplProgress(repl.id, message))

    def _why_unreplaced(self, repl: Repl, members: Sequence[Member]) -> str:
        """Describe how a REPL's process ended, and how a process started in its place ended. Blocks."""
        _, _, pid = (repl.address or "").rpartition("/")
        running = {member.named.process.pid for member in members}
        name = run_directory_name(repl)
        output = read_final_output(self._directory / name, running, self._supervisors.get(name, ()))
        if output is None or output.pid == int(pid):
            message = f"process {pid} has ended, and {repl.origin.text!r} has not started another"
        else:
            message = (
                f"process {pid} has ended, and so has process {output.pid}, which {repl.origin.text!r} started next"
            )
        return message + _output_clause(None if output is None else output.text)


def _serving_slots(rows: Sequence[NamedProcess]) -> dict[str, int]:
    """Return the ids of the processes that handle requests, by slot."""
    return {row.slot: row.process.pid for row in rows if row.role == "serves"}


def _output_clause(text: str | None) -> str:
    """Return a clause about a process's last output."""
    return f"; its last output:\n{text}" if text else "; see its terminal for its output"


def run_directory_name(repl: Repl) -> str:
    """Return the name of the directory of the run that a REPL belongs to."""
    return repl.id.split(":")[1]
