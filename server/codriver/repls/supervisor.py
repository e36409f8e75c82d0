"""The supervisor of a server's REPLs. It owns their connections and processes, and reports both to the core.

Each REPL has at most one connection task. The task starts the process if Codriver owns it, connects, and waits until
the connection is closed. It dispatches `ReplLost` if the connection ends by itself, and nothing if it is cancelled.
"""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

import anyio

from codriver.core import actions
from codriver.core.effects import (
    CloseSession,
    ConnectRepl,
    Effect,
    EndRepl,
    RetryRepl,
    RunEvaluation,
    StartGracePeriod,
    StartRepl,
    StopEvaluation,
    WakeWaiters,
)
from codriver.core.records import replace
from codriver.errors import NOT_CONNECTED, CodriverError, ReplDisconnectedError, StartError
from codriver.files.working_trees import other_working_tree
from codriver.repls import kinds
from codriver.repls.contract.adapter import (
    Adapter,
    Connector,
    NotAReplError,
    PackageMissingError,
    ReplUnreachableError,
    UntrustedListenerError,
)
from codriver.repls.contract.capabilities import CAPABILITIES
from codriver.repls.contract.evaluation_extensions import NO_HOOKS
from codriver.repls.event_recorder import EventRecorder
from codriver.repls.internal_errors import InternalErrorReporter
from codriver.repls.interrupt import Interrupter
from codriver.repls.launch import processes, recipes
from codriver.repls.runner import Runner
from codriver.systems.machine import release_large_blocks

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core, Performer
    from codriver.core.profiles import Profile
    from codriver.core.state import Origin, Repl
    from codriver.log.evaluation_transcripts import Transcripts
    from codriver.log.logbook import Logbook
    from codriver.repls.contract.capabilities import ServerCapability
    from codriver.repls.contract.evaluation_extensions import AdapterHooks

E = TypeVar("E")
logger = logging.getLogger(__name__)

SILENT_TIMEOUT_S = 4.0
"""Seconds without a reply after which a new connection is reported as silent."""
NOTHING_WITHHELD: Mapping[str, str] = MappingProxyType({})
EXIT_TIMEOUT_S = 5.0
"""Seconds to wait for a process to exit after its connection was closed.

On a busy machine, its watchdog may not run until seconds after the process has closed its socket.
"""
DISCONNECTED_GRACE_S = 2.0
"""Seconds that an interrupted evaluation has to end after its client has disconnected."""


def without_capabilities(profile: Profile, withheld: Mapping[str, str]) -> Profile:
    """Return a copy of the profile in which the withheld capabilities are listed as missing, with their hints."""
    if not withheld:
        return profile
    capabilities = {name: how for name, how in profile.capabilities.items() if name not in withheld}
    return replace(profile, capabilities=capabilities, missing={**profile.missing, **withheld})


def with_missing_hints(profile: Profile, added: Sequence[ServerCapability]) -> Profile:
    """Return the profile with a hint for each capability that features define and the REPL lacks."""
    hints = {
        capability.name: capability.hint_for(profile.dialect)
        for capability in added
        if capability.name not in profile.capabilities
    }
    return replace(profile, missing={**hints, **profile.missing}) if hints else profile


@dataclass(slots=True)
class _Connection:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)


class ReplSupervisor:
    """Owns a server's REPL connections, and performs the effects that the core requests on them."""

    def __init__(  # noqa: PLR0913  # one argument per part
        self,
        *,
        core: Core,
        tasks: TaskGroup,
        connectors: Mapping[str, Connector],
        workspace: Path,
        recipe_of: Callable[[str], recipes.Recipe],
        logbook: Logbook,
        transcripts: Transcripts,
        hooks: AdapterHooks = NO_HOOKS,
        stacks_s: float = 1.5,
    ) -> None:
        """Create the supervisor without opening any connections.

        `recipe_of` returns the recipe for a `repl` setting. It runs in a thread because it may read files. `hooks`
        contains the additions made by features. `stacks_s` is the number of seconds to wait for a REPL's stacks.
        """
        self._tasks = tasks
        self._connectors = dict(connectors)
        self._silences: dict[str, Callable[[str, float], str | None]] = {}
        self.hooks = hooks
        """The hooks with which features extend the adapters."""
        self.capability_names = (*CAPABILITIES, *(capability.name for capability in hooks.capabilities))
        """The names of all capabilities, in the order in which they are displayed."""
        self._recipe_of = recipe_of
        self._workspace = workspace
        self._connections: dict[str, _Connection] = {}
        self._address_files: dict[Path, recipes.AddressFile] = {}
        """The files that this server has written for REPLs that it started."""
        self._logged: dict[str, str] = {}
        """The last logged reason why each REPL is unavailable, by id, so that repeated failures are logged once."""
        self._adapters: dict[str, Adapter] = {}
        self._core = core
        self._errors = InternalErrorReporter(core)
        self._events = EventRecorder(core, logbook, transcripts)
        self._interrupter = Interrupter(core, self._adapters, transcripts, stacks_s=stacks_s)
        self._runner = Runner(
            core, self._errors, self._adapters, self._interrupter, self._start_task, self._events.redact_failure
        )
        self.stop = self._interrupter.stop
        self.read_stacks = self._interrupter.read_stacks

    def set_report_listeners(self, listeners: Mapping[str, Callable[[str, str | None, str], None]]) -> None:
        """Set the functions that receive reports from REPLs, by the name of the report. See `server_hooks.Report`."""
        self._events.listeners = listeners

    def set_connector(
        self, protocol: str, connector: Connector, silence: Callable[[str, float], str | None] | None = None
    ) -> None:
        """Set the connector for a protocol, which is the part of an address before `://`.

        `silence` describes an address that has not answered for some seconds, or returns None for the usual message.
        """
        self._connectors[protocol] = connector
        if silence is not None:
            self._silences[protocol] = silence

    def adapter(self, repl: str) -> Adapter:
        """Return the adapter of a connected REPL.

        Raises:
            ReplDisconnectedError: the REPL is not connected.
        """
        adapter = self._adapters.get(repl)
        if adapter is None:
            raise ReplDisconnectedError(NOT_CONNECTED)
        return adapter

    @property
    def performers(self) -> Mapping[type[Effect], Performer]:
        """Return a mapping from each type of effect on REPLs to the function that performs it."""
        return {
            StartRepl: self._open,
            ConnectRepl: self._open,
            EndRepl: self._close,
            RetryRepl: partial(self._start_task, "reconnecting to a REPL", self._retry),
            StartGracePeriod: partial(
                self._start_task, "ending a disconnected client's evaluations", self._await_grace
            ),
            RunEvaluation: self._runner.start_evaluation,
            CloseSession: partial(self._start_task, "closing the session {0.name}", self._close_session),
            StopEvaluation: partial(self._start_task, "stopping the evaluation {0.evaluation}", self._stop_left),
            WakeWaiters: self._events.wake_waiters,
        }

    def _open(self, effect: StartRepl | ConnectRepl) -> None:
        before = self._connections.get(effect.id)
        connection = self._connections[effect.id] = _Connection()
        self._tasks.start_soon(self._run, effect.id, connection, before)

    def _close(self, effect: EndRepl) -> None:
        connection = self._connections.get(effect.id)
        if connection is not None:
            connection.scope.cancel()

    def _start_task(self, what: str, act: Callable[[E], Awaitable[None]], effect: E) -> None:
        """Run `act` in a separate task. Errors are logged instead of propagated.

        `what` describes the task in the log. It is a format string for `effect`.
        """

        async def guarded() -> None:
            try:
                await act(effect)
            except Exception as error:  # noqa: BLE001  # in the server's task group it would end the server
                self._errors.report(what.format(effect), error)

        self._tasks.start_soon(guarded)

    async def close_all(self) -> None:
        """Close all connections and stop all processes that Codriver started. Wait until everything has ended."""
        for connection in list(self._connections.values()):
            connection.scope.cancel()
        for connection in list(self._connections.values()):
            await connection.over.wait()
        for file in list(self._address_files.values()):
            await anyio.to_thread.run_sync(file.discard, file.path)

    async def _run(self, repl_id: str, connection: _Connection, before: _Connection | None) -> None:
        cause, final, is_unreachable, is_not_accepted = "the connection ended", False, False, False
        try:
            if before is not None:
                before.scope.cancel()
                await before.over.wait()
            with connection.scope:
                try:
                    cause = await self._connect(self._core.state.repls[repl_id])
                except (recipes.RecipeError, PackageMissingError) as error:
                    cause, final = str(error), True
                    is_not_accepted = isinstance(error, recipes.NotAcceptedError)
                except CodriverError as error:
                    cause, is_unreachable = str(error), isinstance(error, ReplUnreachableError)
                except Exception as error:  # noqa: BLE001  # in the server's task group it would end the server
                    cause = self._errors.report(f"the connection to the REPL {repl_id}", error)
        finally:
            connection.over.set()
            self._events.flush_output(repl_id)
            if self._connections.get(repl_id) is connection:
                del self._connections[repl_id]
        if not connection.scope.cancel_called and self._core.state.lifecycle.phase in ("starting", "started"):
            self._core.report(actions.ReplLost(repl_id, cause, final, is_unreachable, is_not_accepted))
            given_up = self._core.state.repls.get(repl_id)
            if given_up is not None and given_up.phase == "stopped":
                logger.warning("the REPL %s is stopped: %s", given_up.key, given_up.note)
        # Do not await anything before this line: the REPL's next connection may report the same values again.
        self._events.remove_sensitive_values(repl_id)

    async def _connect(self, repl: Repl) -> str:
        """Connect to a REPL and return why the connection ended. If Codriver owns the REPL, start its process first."""
        if not repl.is_owned:
            try:
                return await self._stay_connected(repl.id, repl.address or repl.origin.text, repl.origin)
            except UntrustedListenerError as error:
                self._log_once(repl, str(error))
                raise
        recipe = await anyio.to_thread.run_sync(self._recipe_of, repl.origin.text)
        for note in recipe.notes:
            self._core.report(actions.ReplProgress(repl.id, note))
        file = recipe.address_file
        if file is not None:
            is_first = file.path not in self._address_files
            await anyio.to_thread.run_sync(partial(file.prepare, file.path, is_first=is_first))
            self._address_files[file.path] = file
        try:
            cause = await self._run_process(repl, recipe)
        except StartError as error:
            _check_remedies(repl, recipe, str(error))
            raise
        finally:
            current = self._core.state.repls.get(repl.id, repl)
            if file is not None and current.generation == repl.generation:
                del self._address_files[file.path]
                file.discard(file.path)  # another program may be using its ports by now
        _check_remedies(repl, recipe, cause)
        return cause

    async def _run_process(self, repl: Repl, recipe: recipes.Recipe) -> str:
        """Start a REPL's process and stay connected until either ends. Return the reason."""
        file = recipe.address_file
        async with AsyncExitStack() as stack:
            directory, port_file = self._workspace, recipe.port_file
            if recipe.is_apart:
                directory = Path(
                    stack.enter_context(TemporaryDirectory(prefix="codriver-repl-", ignore_cleanup_errors=True))
                )
                port_file = directory / port_file.name if port_file is not None else None
            running = await stack.enter_async_context(
                processes.start_repl_process(
                    recipe.command,
                    cwd=directory,
                    env=recipe.env,
                    on_output=lambda stream, text: self._events.receive_process_output(repl.id, stream, text),
                    port_file=port_file,
                    start_timeout_s=recipe.start_timeout_s,
                    farewell=partial(file.farewell, file.path) if file else None,
                )
            )
            address = kinds.join_address(recipe.protocol, str(file.path if file else await running.endpoint()))
            self._core.report(actions.ReplStarted(repl.id, address, recipe.caution, recipe.awaits_trust, recipe.remark))
            cause = ""
            async with anyio.create_task_group() as tasks:

                async def watch_process() -> None:
                    await running.over.wait()
                    tasks.cancel_scope.cancel()

                tasks.start_soon(watch_process)
                cause = await self._stay_with_process(repl.id, address, recipe)
                with anyio.move_on_after(EXIT_TIMEOUT_S):
                    await running.over.wait()
                tasks.cancel_scope.cancel()
            # An exiting process closes its socket first. Its exit is the reason, not the closed connection.
            return await running.wait() if running.over.is_set() else cause

    async def _stay_with_process(self, repl_id: str, address: str, recipe: recipes.Recipe) -> str:
        """Connect to a process that Codriver started, and return why the connection ended.

        A REPL with an address file does not announce that it is ready, so connecting is retried until the recipe's
        start timeout.
        """
        deadline = anyio.current_time() + recipe.start_timeout_s
        while True:
            try:
                return await self._stay_connected(repl_id, address, withheld=recipe.withheld)
            except (ReplUnreachableError, NotAReplError) as error:
                if recipe.address_file is None or anyio.current_time() > deadline:
                    return str(error)
                await anyio.sleep(processes.ADDRESS_POLL_INTERVAL_S)

    async def _stay_connected(
        self, repl_id: str, address: str, origin: Origin | None = None, withheld: Mapping[str, str] = NOTHING_WITHHELD
    ) -> str:
        """Keep a connection open until it ends, and return the reason.

        `origin` is set for a REPL that Codriver did not start. `withheld` maps capabilities that must not be used to
        hints on how to get them.
        """
        protocol, location = kinds.split_address(address)
        silence = anyio.CancelScope()
        if origin is not None:
            self._tasks.start_soon(self._report_silence, silence, repl_id, address)
        try:
            async with self._connector(protocol)(
                location,
                listener=partial(self._events.receive, repl_id),
                workspace=self._workspace,
                is_remote=origin is not None and origin.kind == "address" and not origin.named_by,
                found_by=Path(origin.named_by or origin.text)
                if origin is not None and origin.needs_verification
                else None,
            ) as adapter:
                silence.cancel()
                self._adapters[repl_id] = adapter
                try:
                    profile = without_capabilities(await self._with_working_tree(repl_id, adapter.profile), withheld)
                    profile = with_missing_hints(profile, self.hooks.capabilities)
                    key = kinds.session_key(profile.dialect, profile.application)
                    self._core.report(actions.ReplConnected(repl_id, profile, address, key))
                    await anyio.to_thread.run_sync(release_large_blocks)
                    return await adapter.wait_closed()
                finally:
                    del self._adapters[repl_id]
        finally:
            silence.cancel()

    def _connector(self, protocol: str) -> Connector:
        connector = self._connectors.get(protocol)
        if connector is None:
            raise CodriverError(
                f"this installation of Codriver cannot connect with the protocol {protocol!r}, because its feature "
                "was removed"
            )
        return connector

    async def _with_working_tree(self, repl_id: str, profile: Profile) -> Profile:
        """Return the profile with the REPL's working tree if a port file led to a REPL in a different working tree."""
        repl, root = self._core.state.repls.get(repl_id), profile.project_root
        if repl is None or repl.origin.kind != "port-file" or not root or not Path(root).is_absolute():
            return profile
        tree = await anyio.to_thread.run_sync(other_working_tree, self._workspace, Path(root))
        return replace(profile, other_tree=str(tree)) if tree else profile

    async def _report_silence(self, until: anyio.CancelScope, repl_id: str, address: str) -> None:
        """Report what may be listening at an address that has not answered for `SILENT_TIMEOUT_S`.

        Cancelling `until` stops the report.
        """
        with until:
            await anyio.sleep(SILENT_TIMEOUT_S)
            words = (
                f"the program at {address} has not answered like a REPL for {SILENT_TIMEOUT_S:g} s. It may be a "
                "different kind of server, or a busy REPL, in which case Codriver connects once the code has finished"
            )
            describe = self._silences.get(kinds.split_address(address)[0])
            if describe is not None:
                words = describe(address, SILENT_TIMEOUT_S) or words
            repl = self._core.state.repls.get(repl_id)
            if repl is None:
                return
            self._core.report(actions.ReplProgress(repl_id, words))
            self._log_once(repl, words)

    def _log_once(self, repl: Repl, words: str) -> None:
        """Log why a REPL is unavailable, unless the last message about this REPL was the same."""
        if self._logged.get(repl.id) != words:
            self._logged[repl.id] = words
            self._core.report(actions.AddServerLine(f"{repl.key}: {words}", error=True, repl=repl.key))

    async def _retry(self, effect: RetryRepl) -> None:
        await anyio.sleep(effect.delay_s)
        if self._core.state.lifecycle.phase == "started":
            self._core.resume(effect, None)

    async def _await_grace(self, effect: StartGracePeriod) -> None:
        await anyio.sleep(effect.grace_ms / 1000)
        self._core.resume(effect, None)

    async def _close_session(self, effect: CloseSession) -> None:
        adapter = self._adapters.get(effect.id)
        try:
            if adapter is not None:
                await adapter.close_session(effect.name)
        except CodriverError as error:
            logger.info("could not close the session %s in %s: %s", effect.name, effect.id, error)
        self._core.report(actions.SessionClosed(effect.id, effect.name))

    async def _stop_left(self, effect: StopEvaluation) -> None:
        reports = await self.stop(effect.evaluation, effect.why, allow_restart=False, settle_s=DISCONNECTED_GRACE_S)
        logger.info("stopped the evaluation %s because %s: %s", effect.evaluation, effect.why, "; ".join(reports))


def _check_remedies(repl: Repl, recipe: recipes.Recipe, cause: str) -> None:
    """Raise an error if the recipe knows a remedy for this cause, because starting the REPL again cannot help.

    Raises:
        RecipeError: the cause has a remedy, which is the message.
    """
    for words, remedy in recipe.remedies:
        if words in cause:
            raise recipes.RecipeError(repl.origin.text, remedy)
