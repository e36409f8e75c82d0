"""Run the REPL processes that Codriver starts: process trees that end with the server, however the server ends."""

from __future__ import annotations

import codecs
import itertools
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import anyio

from codriver import files, systems
from codriver.errors import StartError
from codriver.files import Links
from codriver.net.task_set import task_group_cancelled_on_exit
from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.launch.port_files import read_port_file
from codriver.systems.other_processes import HAS_GROUPS, NEW_CONSOLE, ProcessTree
from codriver.systems.pipes import make_nonblocking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from anyio.abc import ByteReceiveStream, Process

    from codriver.files import Stamp


SUPERVISED_OPTION: Final = "--supervised"
"""The command-line option of REPLs that exit with Codriver, because their stdin is a pipe that Codriver's exit closes.

Commands without this option get an empty stdin, so code that reads it fails immediately instead of waiting forever.
"""

WATCHDOG_PATH: Final = str(Path(systems.__file__).with_name("watchdog.py"))
STOP_TIMEOUT_S: Final = 2.5
"""Seconds to wait for a process tree to end: the watchdog's 2 s between SIGTERM and SIGKILL, and a margin."""

SHUTDOWN_TIMEOUT_S: Final = 2.0
"""Seconds that a REPL has to exit by itself on request. A busy REPL never does."""

ADDRESS_POLL_INTERVAL_S: Final = 0.05
"""Seconds between checks for the address of a REPL that is starting."""
MAX_TAIL_LINES: Final = 8
"""Maximum number of output lines quoted when a process ends."""
CRASH_REPORT_PREFIX: Final = "Fatal Python error: "
"""The start of the report that Python's `faulthandler` prints for a crash."""
MAX_CRASH_LINES: Final = 2000
"""Maximum number of lines to store from a crash report. The stack of the crashed thread may come last."""
MAX_CRASH_FRAMES: Final = 3
"""Maximum number of frames quoted from a crash report."""
MAX_LINE_CHARS: Final = 4096
"""Maximum number of characters per line that are searched for an address, so that long lines do not fill the memory."""

_ADDRESS_PATTERNS: Final = (
    re.compile(r"nrepl://(?P<host>\[[^\]\s]+\]|[^\s:/]+):(?P<port>\d{1,5})"),
    re.compile(r"nREPL server[^\n]*? at (?P<host>\[[^\]\s]+\]|[^\s:/]+):(?P<port>\d{1,5})", re.IGNORECASE),
    re.compile(r"nREPL[^\n]*? port:? (?P<port>\d{1,5})", re.IGNORECASE),
    re.compile(r"^Listening on (?:port )?(?P<port>\d{1,5})$"),
)
"""Match the lines in which nREPL, babashka, shadow-cljs and hy-nrepl print their addresses."""

_LOOPBACK_HOSTS: Final = {"0.0.0.0": "127.0.0.1", "localhost": "127.0.0.1", "[::]": "::1"}  # noqa: S104 - read, not bound


Farewell = Callable[[], Awaitable[None]]
"""Asks a REPL to exit by itself. Must not raise."""


class ReplProcess:
    """A REPL process started by `start_repl_process`."""

    def __init__(
        self,
        process: Process,
        command: Sequence[str],
        *,
        port_file: Path | None,
        stale: tuple[Stamp, str] | None,
        start_timeout_s: float,
        farewell: Farewell | None,
    ) -> None:
        self._process = process
        self._tree = ProcessTree.of(process.pid)
        self._farewell = farewell
        self._command = command
        self._port_file = port_file
        self._stale = stale
        self._start_timeout_s = start_timeout_s
        self._tail: deque[str] = deque(maxlen=MAX_TAIL_LINES)
        self._crash: list[str] | None = None
        self._line = {"out": "", "err": ""}
        self._printed: Endpoint | None = None
        self._endpoint: Endpoint | None = None
        self._exit: str | None = None
        self._is_swept = False
        self.over = anyio.Event()
        self.pid: int = process.pid
        """The process id of the REPL itself, once it is running."""

    async def endpoint(self) -> Endpoint:
        """Wait for the REPL's address and return it. It is read from the output or from the REPL's port file.

        Raises:
            StartError: the process ended, or reported no address within `start_timeout_s`.
        """
        with anyio.move_on_after(self._start_timeout_s):
            while not self.over.is_set():
                if found := self._printed or await anyio.to_thread.run_sync(self._read_port_file):
                    self._endpoint = found
                    return found
                with anyio.move_on_after(ADDRESS_POLL_INTERVAL_S):
                    await self.over.wait()
        words = " ".join(self._command)
        if self.over.is_set():
            raise StartError(f"the REPL started by `{words}` exited before it opened a port: {self._exit_text()}")
        where = f" or write it to {self._port_file}" if self._port_file else ""
        raise StartError(
            f"the REPL started by `{words}` did not print its port within {self._start_timeout_s:g} s{where}"
            f"{self._tail_text()}"
        )

    async def wait(self) -> str:
        """Wait until the process has ended, and return a description of how it ended."""
        await self.over.wait()
        return self._exit_text()

    def kill(self) -> None:
        """Kill the whole process tree immediately. Repeated calls have no effect."""
        if self._exit is None:
            self._exit = "the process was killed by codriver"
        self.kill_remaining_group()

    def kill_remaining_group(self) -> None:
        """Kill the remaining processes of the group, but only once, because the id of the group may be reused later."""
        if self._is_swept:
            return
        self._is_swept = True
        if not self._tree.kill():
            with suppress(ProcessLookupError, PermissionError):  # the group has ended
                self._process.kill()

    def process_output(self, stream: Literal["out", "err"], text: str) -> None:
        """Search the process's output for the REPL's address, and store the last lines of the output."""
        *whole, rest = (self._line[stream] + text).split("\n")
        self._line[stream] = rest[-MAX_LINE_CHARS:]
        for line in whole[-200:]:
            if self._printed is None and (found := _read_address(line[:MAX_LINE_CHARS])):
                # The line with the address does not explain why a process ended.
                self._printed = found
                continue
            self._tail.append(line[:MAX_LINE_CHARS].rstrip())
            if line.startswith(CRASH_REPORT_PREFIX):
                self._crash = []
            if self._crash is not None and len(self._crash) < MAX_CRASH_LINES:
                self._crash.append(line[:MAX_LINE_CHARS].strip())

    def process_watchdog_line(self, line: str) -> None:
        """Record a start, a failed start or an exit that the watchdog reports in a line."""
        word, _, rest = line.partition(" ")
        if word == "pid":
            self.pid = int(rest)
        elif word == "failed":
            self._exit = f"the process could not be started: {rest}"
        elif word == "exit" and self._exit is None:
            self._exit = _status_text(int(rest))

    async def stop(self) -> None:
        """Stop the process tree and wait until it has ended.

        First `farewell` is called, then SIGTERM and SIGKILL are sent, 2 s apart.
        """
        # `over` cannot be used, because the task that sets it is cancelled when the server ends.
        if self._farewell is not None and self._process.returncode is None:
            with anyio.move_on_after(SHUTDOWN_TIMEOUT_S):
                await self._farewell()
                await self._process.wait()
        if self._process.stdin is not None:
            await self._process.stdin.aclose()
        elif self._process.returncode is None:  # without a watchdog, which ends when its stdin does
            self._process.terminate()
        with anyio.move_on_after(STOP_TIMEOUT_S):
            await self._process.wait()
        self.kill()
        await self._process.wait()

    def remove_port_file(self) -> None:
        """Remove the port file that the process left behind. This blocks."""
        found, endpoint = self._read_port_file(), self._endpoint or self._printed
        if self._port_file is not None and found is not None and endpoint in (None, found):
            with suppress(OSError):
                files.remove(self._port_file)

    def read_replaced_port_file(self) -> bytes | None:
        """Return the content of the port file if another REPL has overwritten it, or None. This blocks."""
        found, endpoint = self._read_port_file(), self._endpoint or self._printed
        return str(found.port).encode() if found is not None and endpoint not in (None, found) else None

    def restore_port_file(self, content: bytes) -> None:
        """Write the port file of another REPL again, which this process removed when it exited. This blocks.

        nREPL removes its port file without reading it.
        """
        if self._port_file is not None and not self._port_file.exists():
            with suppress(OSError):
                files.replace(self._port_file, content, links=Links.NEVER, is_durable=False)

    def _read_port_file(self) -> Endpoint | None:
        stamp = _port_file_stamp(self._port_file)
        if stamp is None or stamp == self._stale or not stamp[1].strip().isdecimal():
            return None
        return Endpoint("127.0.0.1", int(stamp[1]))

    def _exit_text(self) -> str:
        return f"{self._exit or 'its watchdog was killed'}{self._tail_text()}"

    def _tail_text(self) -> str:
        if self._crash:
            return f"; {_crash_text(self._crash)}"
        lines = [line for line in self._tail if line]
        return f"; its last output: {' | '.join(lines[-3:])}" if lines else ""


def _crash_text(lines: Sequence[str]) -> str:
    """Return the crash message and the innermost frames of the crashed thread.

    Source: Python's `faulthandler`, which prints the innermost frame first.
    """
    stacks = itertools.dropwhile(lambda line: not line.startswith("Current thread "), lines)
    frames = itertools.takewhile(lambda line: line.startswith("File "), itertools.islice(stacks, 1, None))
    return " | ".join([lines[0], *itertools.islice(frames, MAX_CRASH_FRAMES)])


@asynccontextmanager
async def start_repl_process(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    on_output: Callable[[Literal["out", "err"], str], None],
    port_file: Path | None = None,
    start_timeout_s: float = 60.0,
    farewell: Farewell | None = None,
) -> AsyncIterator[ReplProcess]:
    """Start a REPL with `command` in `cwd`, and stop its process tree when the context exits.

    `on_output` receives the output of each stream in order, as text. `farewell` asks the REPL to exit by itself. If
    this process dies, even by SIGKILL, the tree ends within 2 s. On systems without process groups, there is no
    watchdog. Child processes of the command then outlive it, and the command ends with this process only if it reads
    stdin.

    Raises:
        StartError: the command cannot be run.
    """
    stale = _port_file_stamp(port_file)  # before the process can write it
    try:
        # Cancelling a start half-way would leave unknown processes. Starting waits only for the operating system.
        with anyio.CancelScope(shield=True):
            open_process = _open_watched if HAS_GROUPS else _open_alone
            process, reading = await open_process(command, cwd, dict(env))
    except OSError as error:
        raise StartError(_start_error_text(command, cwd, error)) from error
    running = ReplProcess(
        process, command, port_file=port_file, stale=stale, start_timeout_s=start_timeout_s, farewell=farewell
    )
    try:
        async with task_group_cancelled_on_exit() as tasks:
            try:
                if process.stdout is not None and process.stderr is not None:
                    tasks.start_soon(_drain, process.stdout, "out", running, on_output)
                    tasks.start_soon(_drain, process.stderr, "err", running, on_output)
                if reading is None:
                    tasks.start_soon(_await_end, process, running)
                else:
                    tasks.start_soon(_read_reports, reading, running)
                yield running
            finally:
                with anyio.CancelScope(shield=True):
                    replaced = await anyio.to_thread.run_sync(running.read_replaced_port_file)
                    await running.stop()
                    await process.aclose()
                    if replaced is None:
                        await anyio.to_thread.run_sync(running.remove_port_file)
                    else:
                        await anyio.to_thread.run_sync(running.restore_port_file, replaced)
    finally:
        if reading is not None:
            os.close(reading)  # the reading task may be cancelled before it starts


async def _open_watched(command: Sequence[str], cwd: Path, env: dict[str, str]) -> tuple[Process, int | None]:
    """Start the watchdog of a REPL. Return its process and the pipe from which to read its reports."""
    reading, writing = os.pipe()
    stdin = "shared" if SUPERVISED_OPTION in command else "empty"
    try:
        process = await anyio.open_process(
            [sys.executable, "-I", "-S", WATCHDOG_PATH, str(writing), stdin, *command],
            cwd=cwd,
            env=env,
            start_new_session=True,
            pass_fds=(writing,),
        )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return process, reading


async def _open_alone(command: Sequence[str], cwd: Path, env: dict[str, str]) -> tuple[Process, int | None]:
    """Start a REPL without a watchdog."""
    stdin = subprocess.PIPE if SUPERVISED_OPTION in command else subprocess.DEVNULL
    return await anyio.open_process([*command], stdin=stdin, cwd=cwd, env=env, creationflags=NEW_CONSOLE), None


async def _await_end(process: Process, running: ReplProcess) -> None:
    """Wait until a REPL without a watchdog has ended."""
    try:
        running.process_watchdog_line(f"exit {await process.wait()}")
    finally:
        running.over.set()


async def _drain(
    stream: ByteReceiveStream,
    name: Literal["out", "err"],
    running: ReplProcess,
    on_output: Callable[[Literal["out", "err"], str], None],
) -> None:
    """Read all output of the REPL, even if nobody uses it, so that the REPL never blocks on a full pipe."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        async for data in stream:
            if text := decoder.decode(data):
                running.process_output(name, text)
                on_output(name, text)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        return


async def _read_reports(reading: int, running: ReplProcess) -> None:
    """Process the watchdog's reports until the watchdog exits, together with the REPL."""
    make_nonblocking(reading)
    pending = b""
    try:
        while True:
            await anyio.wait_readable(reading)
            data = os.read(reading, 4096)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                running.process_watchdog_line(line.decode("utf-8", "replace"))
            if not data:
                running.kill_remaining_group()
                return
    finally:
        running.over.set()


def _read_address(line: str) -> Endpoint | None:
    for pattern in _ADDRESS_PATTERNS:
        if match := pattern.search(line.strip()):
            host = match.groupdict().get("host") or "127.0.0.1"
            return Endpoint(_LOOPBACK_HOSTS.get(host, host.strip("[]")), int(match["port"]))
    return None


def _port_file_stamp(path: Path | None) -> tuple[Stamp, str] | None:
    """Return the stamp and content of a port file, or None if it is missing or unreadable."""
    if path is None:
        return None
    try:
        data, status = read_port_file(path, path.parent)
        return files.stamp_from_status(status), data.decode("utf-8", "replace")[:64]
    except OSError:
        return None


def _start_error_text(command: Sequence[str], cwd: Path, error: OSError) -> str:
    why = error.strerror or str(error)
    if not cwd.is_dir():
        why = "that directory no longer exists. Create it again, and call restart_repl if the REPL does not restart"
    return f"`{' '.join(command)}` could not be started in {cwd}: {why}"


def _status_text(status: int) -> str:
    if status >= 0:
        return f"the process ended with status {status}"
    try:
        return f"the process was killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"the process was killed by signal {-status}"
