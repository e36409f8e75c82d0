"""Find a server's REPLs: those in the settings, those with port files, or one that Codriver starts."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from codriver.core.actions import AddRepl, AddServerLine, DropRepl, PortFilesScanned, ReplSearchChanged
from codriver.core.records import replace
from codriver.core.state import Origin
from codriver.net.server_record import MAX_PORT
from codriver.repls import kinds
from codriver.repls.launch.port_files import find_port_files, watch_port_files
from codriver.repls.launch.projects import read_port_text, repls_to_start
from codriver.repls.launch.recipes import NotAcceptedError, RecipeError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from pathlib import Path

    from codriver.core.actions import Action
    from codriver.core.dispatch import Core
    from codriver.repls.kinds import ReplKind
    from codriver.repls.launch.port_files import FoundPortFile
    from codriver.repls.launch.recipes import Recipe


RECHECK_INTERVAL_S = 0.25
"""Seconds between checks while port files alone do not show which REPLs are running, as when one is starting."""
CONNECT_TIMEOUT_S = 3.0
"""Seconds to wait for a connection to a port. Windows takes two seconds to report that nothing is listening."""
SETTLED_RECHECK_INTERVAL_S = 10.0
"""Seconds between checks while nothing is pending. The checks only find changes that were missed otherwise."""


class Discovery:
    """Finds REPLs and reports them to the core of one server."""

    def __init__(
        self,
        *,
        core: Core,
        workspace: Path,
        addresses: Sequence[str],
        commands: Sequence[str],
        port_files: Sequence[str],
        recipe_of: Callable[[str], Recipe],
        named: Sequence[AddRepl] = (),
        added_kinds: Collection[ReplKind] = (),
    ) -> None:
        self._core = core
        self._workspace = workspace
        self._addresses = addresses
        self._commands = commands
        self._named = named
        self._added_kinds = added_kinds
        self._recipe_of = recipe_of
        self._port_files = (*kinds.port_file_names(), *port_files)
        self._found: tuple[FoundPortFile, ...] = ()
        self._found_event = anyio.Event()
        self._replaced: set[str] = set()
        """The configured commands that are not started because their REPL is already running."""
        self._errors: dict[str, str] = {}
        self._written: dict[str, int] = {}
        """The time at which each port file was written, as of the last check, by REPL id."""

    def report_configured(self) -> None:
        """Report the configured REPLs to the core. Report a search if there are none, or if one is already running."""
        if not self._is_configured:
            self._dispatch(ReplSearchChanged(is_under_way=True))
        self.configure(self._addresses, self._commands, self._named)
        if self._is_configured and self._replaced:
            self._dispatch(ReplSearchChanged(is_under_way=True))

    def configure(self, addresses: Sequence[str], commands: Sequence[str], named: Sequence[AddRepl] = ()) -> None:
        """Report configured REPLs that the core does not know yet.

        An nREPL whose port file leads to a running REPL is not started, because it would overwrite the file, which may
        be that of the user's editor. The file is found like any other.
        """
        actions: list[Action] = [_configured_address(text) for text in addresses]
        for text in commands:
            if text == kinds.NO_REPL_SETTING:
                continue
            if (name := self._port_file_of_running(text)) is not None:
                self._replaced.add(text)
                words = f"{kinds.display_name(text)} is not started, because {name} leads to a running REPL"
                actions.append(AddServerLine(words))
                continue
            actions.append(_configured_command(text, self._added_kinds))
        self._dispatch(*actions, *named)

    def _port_file_of_running(self, text: str) -> str | None:
        """Return the name of a port file that a command writes and that leads to a running REPL, or None."""
        kind = kinds.find_kind(text, self._added_kinds) or kinds.kind_of_program(text)
        if kind is None or kind.protocol != kinds.NREPL_PROTOCOL:
            return None
        for name in kind.port_files:
            port = read_port_text(self._workspace, name)
            if port.isascii() and port.isdecimal() and 0 < int(port) <= MAX_PORT and _is_listening(int(port)):
                return name
        return None

    async def run(self) -> None:
        """Watch the port files. Start a REPL if none is configured or found."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch)
            await self._found_event.wait()
            if not self._is_configured:
                await self._choose()
            if not self._is_configured or self._replaced:
                self._dispatch(ReplSearchChanged(is_under_way=False))
            while True:
                self._found_event = anyio.Event()
                # A port file may belong to a REPL that is just starting, so it is checked again soon.
                is_settled = self._reconcile()
                with anyio.move_on_after(SETTLED_RECHECK_INTERVAL_S if is_settled else RECHECK_INTERVAL_S):
                    await self._found_event.wait()

    def search_once(self) -> None:
        """Report what `report_configured` and `run` would find now, without watching for changes. This blocks."""
        self.report_configured()
        self._found = find_port_files(self._workspace, self._port_files)
        if not self._is_configured:
            self._report(None if _lead_to_listener(self._found) else choose_repl(self._workspace, self._recipe_of))
        if not self._is_configured or self._replaced:
            self._dispatch(ReplSearchChanged(is_under_way=False))
        self._reconcile()

    async def _watch(self) -> None:
        async for found in watch_port_files(self._workspace, self._port_files):
            self._found = found
            self._reconcile()
            self._found_event.set()

    @property
    def _is_configured(self) -> bool:
        return bool(self._addresses or self._commands or self._named)

    async def choose_again(self) -> None:
        """Choose a REPL again after the user has accepted the workspace, unless REPLs are configured.

        The REPL that was used until then instead of the project's own will stop by itself.
        """
        if not self._is_configured:
            await self._choose()

    async def _choose(self) -> None:
        """Start a REPL that fits the files in the workspace, unless a port file leads to a running one."""
        if await anyio.to_thread.run_sync(_lead_to_listener, self._found):
            return
        try:
            choice = await anyio.to_thread.run_sync(choose_repl, self._workspace, self._recipe_of)
        except OSError as error:
            self._dispatch(
                AddServerLine(f"no REPL is started, because the workspace cannot be read: {error.strerror}", error=True)
            )
            return
        self._report(choice)

    def _report(self, choice: ReplChoice | None) -> None:
        """Report the chosen REPL to the core, unless the core already knows it."""
        if choice is None or f"process:{choice.repl}" in self._core.state.repls:
            return
        found = _configured_command(choice.repl)
        found = replace(
            found,
            error=choice.error,
            is_not_accepted=choice.is_not_accepted,
            origin=replace(found.origin, stand_in_note=choice.stand_in_note, is_unasked=True),
        )
        does = "codriver starts its own" if choice.error is None else "codriver would start its own"
        words = f"no REPL was found or requested, so {does} {choice.title} REPL (key {found.key})"
        self._dispatch(AddServerLine(words), found)

    def _reconcile(self) -> bool:
        """Report REPLs whose port files appeared, changed or disappeared, except for REPLs that Codriver started.

        Return whether the files alone determined the result. That is not the case while a REPL is starting, or if one
        has outlived its port file.
        """
        state = self._core.state
        connected = {repl.address for repl in state.repls.values() if repl.origin.kind != "port-file"}
        starting = any(repl.is_owned and repl.phase == "starting" for repl in state.repls.values())
        expected: dict[str, AddRepl] = {}
        errors: dict[str, str] = {}
        has_unread = False
        for found in self._found:
            path = str(found.path)
            if found.port is None:
                errors[path] = found.error or "the file contains no port"
                continue
            address = found.address
            identity = f"file:{path}"
            before = state.repls.get(identity)
            if address in connected:
                continue
            if starting and (before is None or before.address != address):
                has_unread = True
                continue
            expected[identity] = AddRepl(
                identity,
                found.key,
                Origin("port-file", path),
                address,
                keyed=not kinds.is_provisional_key(found.key),
                rewritten=self._written.get(identity, found.written_ns) != found.written_ns,
            )
        known = {repl.id: repl for repl in state.repls.values() if repl.origin.kind == "port-file"}
        actions: list[Action] = [
            found
            for identity, found in expected.items()
            if identity not in known or known[identity].address != found.address or found.rewritten
        ]
        actions += [
            DropRepl(identity)
            for identity, repl in known.items()
            if identity not in expected and repl.phase != "connected"
        ]
        actions += [
            AddServerLine(f"the port file {path} cannot be used: {error}", error=True)
            for path, error in errors.items()
            if self._errors.get(path) != error
        ]
        if has_unread != state.lifecycle.has_unread_port_files:
            actions.append(PortFilesScanned(has_unread))
        self._errors = errors
        self._written = {f"file:{found.path}": found.written_ns for found in self._found}
        self._dispatch(*actions)
        return not starting and all(identity in expected for identity in known)

    def _dispatch(self, *actions: Action) -> None:
        if actions:
            self._core.report(*actions)


@dataclass(frozen=True, slots=True)
class ReplChoice:
    """The REPL to start if the setting `repl` is not set. `repl` is the value that would select it."""

    repl: str
    error: str | None = None
    """The reason why the REPL cannot be started."""
    is_not_accepted: bool = False
    """Whether the error is that the user has not accepted a checkout."""
    stand_in_note: str = ""
    """If the REPL replaces the project's own, a note on what it is and why the project's own is not started."""

    @property
    def title(self) -> str:
        """Return the display name of the REPL."""
        return kinds.display_name(self.repl)


def choose_repl(workspace: Path, recipe_of: Callable[[str], Recipe]) -> ReplChoice | None:
    """Return the REPL to start if none is configured, or None if the files in the workspace suggest none.

    This is the first candidate that can be started. If other candidates precede it, it replaces the first one. This
    blocks.

    Raises:
        OSError: the workspace cannot be read.
    """
    first: ReplChoice | None = None
    for repl in repls_to_start(workspace):
        try:
            recipe_of(repl)
        except RecipeError as error:
            first = first or ReplChoice(repl, error.report, isinstance(error, NotAcceptedError))
            continue
        if first is None:
            return ReplChoice(repl)
        return ReplChoice(repl, stand_in_note=f"this is {kinds.display_name(repl)} instead, because {first.error}")
    return first


def _lead_to_listener(found: Sequence[FoundPortFile]) -> bool:
    """Return whether a port file leads to a listener. Protocols other than nREPL are not checked. This blocks."""
    running = [item for item in found if item.port is not None]
    if any(kinds.split_address(item.address)[0] != kinds.NREPL_PROTOCOL for item in running):
        return True
    return any(_is_listening(port) for port in {item.port for item in running} if port is not None)


def _is_listening(port: int) -> bool:
    """Return whether connections to a local port are not refused. This blocks."""
    try:
        socket.create_connection(("127.0.0.1", port), CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    except (OSError, OverflowError):  # a slow port may be alive, and other hosts are checked elsewhere
        pass
    return True


def _configured_address(text: str) -> AddRepl:
    """Parse `[KEY=][HOST:]PORT` into a REPL to connect to."""
    key, equals, address = text.rpartition("=")
    if ":" not in address:
        address = f"127.0.0.1:{address}"
    origin = Origin("address", address)
    return AddRepl(f"address:{address}", key or f"nrepl-{address.rpartition(':')[2]}", origin, address, bool(equals))


def _configured_command(text: str, added_kinds: Collection[ReplKind] = ()) -> AddRepl:
    """Parse a name such as `python`, or a command line, into a REPL to start."""
    kind = kinds.find_kind(text, added_kinds)
    key, dialect = (kind.key, kind.dialect) if kind else ("repl", "unknown")
    if kind is not None and kind.key_of_variant is not None and (variant := text.partition(":")[2]):
        key = kind.key_of_variant(variant)
        dialect = dialect if key == kind.key else "unknown"
    return AddRepl(f"process:{text}", key, Origin("process", text), keyed=kind is not None, dialect=dialect)
