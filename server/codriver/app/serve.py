"""Run a server: start its parts, serve clients, and shut down.

The server loads its settings, claims the workspace, creates its parts, starts listening, installs the relay, writes the
port file, and then discovers REPLs. The shutdown reverses this order. If standard output is a terminal, a line is
printed for each REPL or client that connects or disconnects.
"""

from __future__ import annotations

import gc
import logging
import os
import queue
import sys
import threading
import time
import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import anyio

from codriver import __version__
from codriver.app import features
from codriver.app.first_answers import watch_languages
from codriver.app.live_settings import LiveSettings
from codriver.app.shutdown import Shutdown, run_step
from codriver.app.wiring import build_server_parts, disk_error_reporter, history_error_actions, now_ms
from codriver.app.workspace_settings import load_workspace_settings
from codriver.core.actions import (
    AddServerLine,
    CancelQueued,
    EvaluationFinished,
    ResourcesChanged,
    ServerStopped,
    StartServer,
    StopServer,
)
from codriver.core.effects import OpenListener, PublishAddress, ShutDownServer
from codriver.core.evaluations import OCCUPYING_STATUSES, Failure
from codriver.errors import StartError, format_count, install_command
from codriver.files.codriver_paths import relay_file, server_directory
from codriver.files.polling import Poller
from codriver.log.control_characters import escape_controls, escape_to_one_line
from codriver.net import known_servers, registration, relay_install, server_record
from codriver.net.admission import Admission, is_loopback
from codriver.net.client import server_process_id
from codriver.net.kernel_sockets import format_address
from codriver.net.listener import Listener, ListenerLimits
from codriver.net.listening_sockets import open_listener
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.net.server_record import ServerRecord
from codriver.repls.launch.listening_programs import watch_listening_programs
from codriver.repls.launch.recipes import check_repl_word
from codriver.repls.launch.repl_discovery import Discovery
from codriver.server_hooks import RunningServer
from codriver.settings.durations import Durations, durations_from_environment
from codriver.settings.layers import SettingsReloader, withheld_message
from codriver.systems.machine import IDENTIFIES_USERS
from codriver.systems.termination_signals import watch_termination_signals
from codriver_relay.hosts import host_identity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.state import Repl, State
    from codriver.settings.layers import LoadedSettings
    from codriver.settings.model import Settings


logger = logging.getLogger(__name__)

IDLE_CHECKS_PER_TIMEOUT = 100
"""Number of times that the server checks for activity during its idle timeout."""
MAX_IDLE_CHECK_INTERVAL_S = 10
"""Maximum interval between checks for activity."""
ARRIVAL_CHECK_INTERVAL_S = 1.0
"""Interval between checks for newly connected REPLs and clients to report on the terminal."""
THREAD_SWITCH_INTERVAL_S = 0.0005
"""Maximum time, in seconds, for which a thread holds the interpreter lock while the event loop is waiting for it.

Python's default is 5 ms, fifty times the duration of a ping.
"""
STDERR = 2
"""File descriptor of standard error."""
MAX_QUEUED_MESSAGES = 1000
"""Maximum number of messages waiting to be written to stderr. Further ones are dropped and counted."""
FAREWELL_S = 1.0
"""Maximum time, in seconds, to wait for the last messages to be written."""
Verbosity = Literal["quiet", "usual", "verbose"]


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options for running a server."""

    workspace: Path
    overrides: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    """Settings from the command line, by name."""
    ends_when_idle: bool = False
    """Whether the server stops after it has had no clients for a while."""
    on_reached: Callable[[], None] | None = None
    """Called when the server accepts connections."""
    is_on_demand: bool = False
    """Whether a relay or a command starts the server instead of the user.

    Programs in the workspace are then only started if the user has accepted the workspace.
    """
    prints_arrivals: bool = False
    """Whether to print a line for each REPL or client that connects or disconnects."""
    requested_ms: int = 0
    """The time at which the start was requested, in epoch milliseconds. A later `codriver stop` cancels the start."""
    verbosity: Verbosity = "usual"
    """What to print: only errors, also the address, or also everything that the server does."""


class UvloopMissingError(StartError):
    """Raised when the settings require uvloop, but it is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "the setting eventLoop requires uvloop, which is not installed. Install uvloop with "
            f'{install_command("fast")}, or set eventLoop to "auto"'
        )


def run(options: ServeOptions) -> int:
    """Run a server until it is stopped, and return the exit status.

    Raises:
        StartError: the server could not be started.
    """
    with logging_to_stderr(logging.INFO if options.verbosity == "verbose" else logging.WARNING):
        loaded = load_workspace_settings(options.workspace.resolve(), environ=os.environ, overrides=options.overrides)
        for words in loaded.settings.repl if "repl" in options.overrides else ():
            check_repl_word(
                words,
                options.workspace.resolve(),
                os.environ,
                python=loaded.settings.python,
                added_kinds=features.repl_kinds(),
            )
        durations = durations_from_environment(os.environ, features.feature_durations())
        features.check_settings(loaded.settings, os.environ)
        sys.setswitchinterval(THREAD_SWITCH_INTERVAL_S)
        return anyio.run(
            _run, options, loaded, durations, backend_options={"use_uvloop": _uses_uvloop(loaded.settings)}
        )


def _uses_uvloop(settings: Settings) -> bool:
    """Return whether to use uvloop. By default, it is used if it is installed.

    Raises:
        UvloopMissingError: the settings require uvloop, but it is not installed.
    """
    is_installed = find_spec("uvloop") is not None
    if settings.event_loop == "uvloop" and not is_installed:
        raise UvloopMissingError
    return is_installed and settings.event_loop != "asyncio"


async def _run(options: ServeOptions, loaded: LoadedSettings, durations: Durations) -> int:
    workspace = options.workspace.resolve()
    for warning in loaded.warnings:
        logger.warning("%s", warning)
    for line in loaded.withheld:
        logger.warning("%s", withheld_message(line))
    directory = server_directory(workspace)
    with registration.claim_workspace(
        directory, is_alive=lambda found: server_process_id(workspace, found) is not None
    ) as claim:
        if not options.is_on_demand:
            registration.allow_start(workspace)
        elif registration.is_stopped_for_good(workspace):
            raise registration.StoppedForGoodError(workspace)
        if options.requested_ms and registration.was_stopped_since(workspace, options.requested_ms):
            raise registration.StoppedWhileStartingError(workspace)
        if loaded.settings.require_token or not is_loopback(loaded.settings.host) or not IDENTIFIES_USERS:
            claim.create_token()
        async with anyio.create_task_group() as tasks:
            reloader = SettingsReloader(workspace, environ=os.environ, overrides=options.overrides, loaded=loaded)
            server = Server(workspace, LiveSettings(reloader), claim, tasks, options, durations)
            await server.run()
            tasks.cancel_scope.cancel()
    # Raised outside, because a task group would wrap the error in an exception group.
    if server.failure is not None:
        raise server.failure
    return 0


class Server:
    """A running server. Starts and stops its parts, and performs effects that concern the server as a whole."""

    def __init__(
        self,
        workspace: Path,
        live: LiveSettings,
        claim: registration.Claim,
        tasks: TaskGroup,
        options: ServeOptions,
        durations: Durations,
    ) -> None:
        self.failure: StartError | None = None
        """The reason why the server could not start, if it failed."""
        self._workspace = workspace
        self._live = live
        self._claim = claim
        self._tasks = tasks
        self._options = options
        self._stop_s, self._skills_s = durations.stop_s, durations.skills_s
        self._session_id = uuid.uuid4().hex
        self.shutdown = Shutdown()
        self._closed = anyio.Event()
        self._accepting = anyio.CancelScope()
        self._parts = build_server_parts(
            workspace,
            live,
            tasks,
            {
                OpenListener: lambda effect: tasks.start_soon(self._listen, effect),
                PublishAddress: self._announce,
                ShutDownServer: lambda _effect: tasks.start_soon(self._shut_down),
            },
            session_id=self._session_id,
            durations=durations,
            is_user_started=not options.is_on_demand,
        )
        self._core = self._parts.core

    async def run(self) -> None:
        """Start the server, serve clients, and return when everything is closed."""
        parts = self._parts
        self._plan_shutdown()
        self._tasks.start_soon(self._stop_on_signals)
        self._tasks.start_soon(parts.history.run, disk_error_reporter(self._core, "history-unwritable"))
        self._tasks.start_soon(parts.recorder.run, partial(disk_error_reporter, self._core))
        parts.transcripts.store.start_cleanup(disk_error_reporter(self._core, "spill-unwritable"))
        parts.protocol.broadcast.followers.add(parts.recorder.schedule_write)
        self._tasks.start_soon(parts.logbook.run, parts.protocol.broadcast.notify_all_of_log_growth)
        self._tasks.start_soon(self._watch_skills)
        self._tasks.start_soon(watch_languages, self._core, self._workspace)
        self._tasks.start_soon(self._live.run, parts.core, parts.skills)
        self._tasks.start_soon(parts.watcher.run)
        for part in features.feature_parts():
            if part.run is not None:
                self._tasks.start_soon(part.run, parts.services.part(part.kind))
        start = StartServer(self._session_id, os.getpid(), __version__, str(self._workspace))
        self._core.report(*parts.reports, start, *parts.cut_off)
        with parts.protocol.log_messages.forwarding_log_records():
            await self._closed.wait()

    async def _watch_skills(self) -> None:
        """Notify clients whenever skills change."""
        poller = Poller(self._parts.skills.changed, interval_s=self._skills_s, rests_first=True)
        while True:
            await poller.next_result(bool)
            self._core.report(ResourcesChanged())

    async def _listen(self, effect: OpenListener) -> None:
        settings = self._live.settings
        try:
            listener, port = await open_listener(effect.host, effect.port)
        except StartError as error:
            self.failure = error
            self._core.report(StopServer(str(error)))
            return
        admission = Admission(token=self._claim.token, session_id=self._session_id, workspace=self._workspace)
        protocol, clients = self._parts.protocol, self._parts.clients
        limits = ListenerLimits(settings.max_clients, settings.outbox_messages, settings.outbox_bytes)
        front = Listener(
            admission=admission,
            protocol=protocol,
            clients=clients,
            limits=limits,
            on_stop=lambda: self._core.report(StopServer("`codriver stop`")),
            requests=self._requests(),
        )
        async with listener:
            self._core.resume(effect, (effect.host, port))
            with self._accepting:
                await listener.serve(front.serve_connection, self._tasks)

    def _requests(self) -> Mapping[str, Callable[[str], Awaitable[Mapping[str, object]]]]:
        """Return the functions that answer requests which commands send to the server's port, by name."""
        server = RunningServer(self._parts.services, self._parts.protocol, self._parts.clients)
        return {request.name: partial(request.answer, server) for request in features.port_requests()}

    async def _read_history(self) -> None:
        """Load the history from earlier runs in a thread. Code that needs the history waits for it."""
        read = self._parts.history.read
        report = await anyio.to_thread.run_sync(read, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        self._core.report(*history_error_actions(report))

    def _announce(self, effect: PublishAddress) -> None:
        """Write the server's record and port file, and print the server's address."""
        lifecycle = effect.lifecycle
        record = ServerRecord(
            pid=lifecycle.process_id,
            port=lifecycle.port,
            host=lifecycle.host,
            session_id=lifecycle.session_id,
            started_at=lifecycle.started_at,
            version=lifecycle.version,
            port_note=lifecycle.port_note,
            max_line_bytes=self._parts.services.live.settings.max_line_bytes,
            host_name=server_record.local_host_name(),
            host_id=host_identity(),
        )
        self._install_relay()
        try:
            self._claim.publish(record)
        except StartError as error:
            self.failure = error
            self._core.report(StopServer(str(error)))
            return
        try:
            known_servers.write_note(self._workspace)
        except OSError as error:
            logger.warning("`codriver status --all` will not list this server: %s", error)
        self._start_discovery()
        self._tasks.start_soon(self._read_history)
        if self._options.ends_when_idle:
            self._tasks.start_soon(self._exit_when_idle)
        # Objects created so far are permanent, and every garbage collection would take 100 ms to scan them.
        gc.freeze()
        # Evaluations create little garbage, so collecting it less often makes them 4 % faster.
        gc.set_threshold(20_000)
        address_line = describe_server(self._core.state, self._claim.port_file, has_token=self._claim.token is not None)
        if self._options.verbosity != "quiet":
            print(escape_to_one_line(address_line), flush=True)  # noqa: T201  # output of `serve`
        if self._options.on_reached:
            self._options.on_reached()
        if self._options.prints_arrivals:
            self._tasks.start_soon(self._print_arrivals)
        if lifecycle.port_note:
            self._core.report(AddServerLine(lifecycle.port_note))

    @staticmethod
    def _install_relay() -> None:
        """Install the relay. If this fails, clients need a relay on their `PATH`."""
        try:
            logger.info(
                "the relay is at %s", relay_install.install_relay(relay_install.shipped_relay_directory(), relay_file())
            )
        except relay_install.RelayNotInstalledError as error:
            logger.warning("%s. Clients configured with codriver-relay from the PATH are not affected", error)

    def _start_discovery(self) -> None:
        """Start looking for the configured REPLs and for others in the workspace."""
        settings = self._live.settings
        discovery = Discovery(
            core=self._core,
            workspace=self._workspace,
            addresses=settings.nrepl,
            commands=settings.repl,
            named=features.named_repls(settings, os.environ),
            port_files=settings.port_files,
            recipe_of=self._parts.recipe_of,
            added_kinds=features.repl_kinds(),
        )
        discovery.report_configured()
        self._live.discovery = discovery
        self._tasks.start_soon(discovery.run)
        for part in features.feature_parts():
            if part.search is not None:
                self._tasks.start_soon(part.search, self._parts.services.part(part.kind))
        variables = features.connecting_program_variables()
        self._tasks.start_soon(watch_listening_programs, self._core, self._workspace, variables)

    async def _print_arrivals(self) -> None:
        """Print a line for each REPL or client that connects or disconnects."""
        arrivals = ConnectionChanges()
        while True:
            for line in arrivals.describe_changes(self._core.state.repls.values(), self._parts.clients.counters()):
                print(escape_to_one_line(f"{time.strftime('%H:%M:%S')} {line}"), flush=True)  # noqa: T201  # as above
            await anyio.sleep(ARRIVAL_CHECK_INTERVAL_S)

    async def _stop_on_signals(self) -> None:
        await watch_termination_signals(lambda name: self._core.report(StopServer(f"signal {name}")))

    async def _exit_when_idle(self) -> None:
        """Stop the server when it has had no clients and no evaluations for the configured time."""
        idle_since = anyio.current_time()
        while True:
            allowed_s = self._live.settings.idle_exit_seconds
            # Rare enough not to wake an idle server often, and frequent enough for a short limit.
            await anyio.sleep(min(max(1, allowed_s / IDLE_CHECKS_PER_TIMEOUT), MAX_IDLE_CHECK_INTERVAL_S))
            busy = self._parts.clients or self._core.state.live
            if busy or not allowed_s:
                idle_since = anyio.current_time()
            elif anyio.current_time() - idle_since >= allowed_s:
                self._core.report(StopServer(f"idle for {allowed_s} s"))
                return

    async def _shut_down(self) -> None:
        """Run the steps of the shutdown, and mark the server as closed."""
        try:
            await self.shutdown.run()
        finally:
            self._closed.set()

    def _plan_shutdown(self) -> None:
        """Add the steps of the shutdown in the order in which the parts are started. The last one runs first."""
        parts, add = self._parts, self.shutdown.add
        # A separate limiter, because all other threads may be busy.
        in_thread = partial(anyio.to_thread.run_sync, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        add("report the end", lambda: self._core.report(ServerStopped()))
        add("release the workspace", self._claim.withdraw)
        add("remove this server from the list of servers", lambda: known_servers.remove_note(self._workspace))
        add("close the history", partial(in_thread, parts.history.close))
        add("close the memory", partial(in_thread, lambda: parts.recorder.close(now_ms())))
        add("add pending entries to the log", partial(in_thread, parts.logbook.log.add_waiting))
        add("write the tool lists for relays", parts.stored_lists.end)
        add("write the record of clients", parts.seen.wait_until_written)
        add("remove the image files", partial(in_thread, parts.services.image_files.clear))
        add("close the long texts", partial(in_thread, parts.transcripts.store.close))
        for part in features.feature_parts():
            if part.stop_after_repls is not None:
                add(f"end {part.kind.__name__}", partial(part.stop_after_repls, parts.services.part(part.kind)))
        add("end the REPLs", parts.repls.close_all)
        add("end the test runs", parts.services.tests.end_all)
        for part in features.feature_parts():
            if part.stop_before_repls is not None:
                add(f"stop {part.kind.__name__}", partial(part.stop_before_repls, parts.services.part(part.kind)))
        add("disconnect the clients", self._disconnect_clients)
        add("end the tasks", parts.protocol.end)
        add("send queued messages to the clients", self._empty_outboxes)
        add("answer the open requests", self._await_open_requests)
        add("give up on running evaluations", self._give_up_evaluations)
        add("end the evaluations", self._end_evaluations)
        add("refuse callers waiting for a thread", parts.work.standing.close)
        add("close the listener", self._accepting.cancel)

    async def _await_open_requests(self) -> None:
        """Wait until all open client requests are answered."""
        await _wait_until(lambda: not any(client.open_requests for client in self._parts.clients), self._stop_s)

    async def _empty_outboxes(self) -> None:
        """Close clients' outboxes, and wait until their messages are sent."""
        for client in self._parts.clients:
            await run_step(f"close the outbox of the client {client.id}", client.outbox.close)
        await _wait_until(lambda: not any(client.outbox.waiting for client in self._parts.clients), self._stop_s)

    async def _disconnect_clients(self) -> None:
        """Close all connections. Relays store further messages for the next server."""
        for client in self._parts.clients:
            client.part()
        await _wait_until(lambda: not self._parts.clients, self._stop_s)

    async def _end_evaluations(self) -> None:
        """Cancel queued evaluations, and interrupt running ones."""
        why = "the server is stopping"
        live = self._core.state.unfinished()
        self._core.report(*(CancelQueued(e.id, why) for e in live if e.status == "queued"))
        interrupt = partial(self._parts.repls.stop, why=why, allow_restart=False, settle_s=self._stop_s)
        tests = self._parts.services.tests
        with anyio.move_on_after(self._stop_s):
            async with anyio.create_task_group() as tasks:
                for evaluation in live:
                    if evaluation.status in OCCUPYING_STATUSES:
                        tasks.start_soon(
                            run_step,
                            f"end the evaluation {evaluation.id}",
                            partial(tests.stop, evaluation, why)
                            if evaluation.is_job
                            else partial(interrupt, evaluation.id),
                        )

    def _give_up_evaluations(self) -> None:
        """Mark evaluations that could not be interrupted as lost, so that their callers still receive an answer."""
        why = "the server is stopping"
        text = f"{why}, and the code could not be interrupted. It may have kept running until its REPL ended"
        failure = Failure("server-stopped", text)
        live = self._core.state.unfinished()
        self._core.report(*(CancelQueued(e.id, why) for e in live if e.status == "queued"))
        self._core.report(
            *(EvaluationFinished(e.id, "lost", failure=failure) for e in live if e.status in OCCUPYING_STATUSES)
        )


async def _wait_until(is_so: Callable[[], bool], most_s: float) -> None:
    """Wait until `is_so` returns true, for at most `most_s` seconds."""
    deadline = anyio.current_time() + most_s
    while not is_so() and anyio.current_time() < deadline:
        await anyio.sleep(0.01)


def describe_server(state: State, port_file: Path, *, has_token: bool = False) -> str:
    """Describe a server in one line: its address, port file, REPLs, and the path of the token if clients need one."""
    lifecycle = state.lifecycle
    repls = ", ".join(f"{repl.key} ({repl.origin.text})" for repl in state.repls.values()) or "none yet"
    note = f" ({lifecycle.port_note})" if lifecycle.port_note else ""
    token = f"; the token that clients must send is in {port_file.with_name('token')}" if has_token else ""
    address = format_address(lifecycle.host, lifecycle.port)
    return f"codriver listens on {address}{note}; port file {port_file}; REPLs: {repls}{token}"


@dataclass(slots=True)
class ConnectionChanges:
    """Determines which REPLs and clients have connected or disconnected since the previous check."""

    _repls: dict[str, str] = field(default_factory=dict)
    _clients: dict[str, str] = field(default_factory=dict)

    def describe_changes(self, repls: Iterable[Repl], clients: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        """Yield a line for each REPL or client that has connected or disconnected."""
        now = {repl.key: f"{repl.origin.text}, {repl.dialect}" for repl in repls if repl.phase == "connected"}
        for key in now.keys() - self._repls.keys():
            yield f"REPL {key} is connected ({now[key]})"
        for key in self._repls.keys() - now.keys():
            yield f"REPL {key} is no longer connected. See `codriver status`"
        named = {str(row["id"]): str(row["name"]) for row in clients if row["name"]}
        present = {key: name for key, name in named.items() if not name.startswith(COMMAND_NAME_PREFIX)}
        for key in present.keys() - self._clients.keys():
            yield f"client {present[key]} connected; {_count_clients(len(present))}"
        for key in self._clients.keys() - present.keys():
            yield f"client {self._clients[key]} disconnected; {_count_clients(len(present))}"
        self._repls, self._clients = now, present


def _count_clients(count: int) -> str:
    return f"{format_count(count, 'client') if count else 'no clients'} now"


class NonBlockingHandler(logging.Handler):
    """A log handler that writes to stderr in a separate thread.

    The program that starts a server may connect stderr to a pipe and never read it. Writing to a full pipe would block
    the whole server. The thread is blocked instead, and messages that cannot be queued are dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._waiting: queue.Queue[str] = queue.Queue(MAX_QUEUED_MESSAGES)
        self._thread: threading.Thread | None = None
        self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record for the thread. If too many are waiting, the record is dropped and counted."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._write, name="stderr", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def drain(self) -> None:
        """Wait until all records are written, for at most `FAREWELL_S` seconds."""
        deadline = time.monotonic() + FAREWELL_S
        while self._waiting.unfinished_tasks and time.monotonic() < deadline:
            time.sleep(0.01)

    def _write(self) -> None:
        while True:
            text = self._waiting.get()
            dropped, self._dropped = self._dropped, 0
            if dropped:
                text += f"\ncodriver: {dropped} more messages were dropped because nothing was reading standard error"
            left = memoryview(f"{escape_controls(text)}\n".encode())
            with suppress(OSError):  # nobody reads it any more
                # Bypass `sys.stderr`, whose lock a blocked write would hold and the interpreter needs when it exits.
                while left:
                    left = left[os.write(STDERR, left) :]
            self._waiting.task_done()


@contextmanager
def logging_to_stderr(level: int) -> Iterator[None]:
    """Write log messages with at least this level to stderr while the context is active."""
    handler = NonBlockingHandler()
    logging.basicConfig(level=level, format="codriver: %(message)s", handlers=[handler])
    try:
        yield
    finally:
        handler.drain()
