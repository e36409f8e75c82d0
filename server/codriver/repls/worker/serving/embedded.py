"""A REPL in a running program: the worker's server on its own threads, for allowed local peers.

The REPL does not change the program's signals, descriptors or threads, and leaves its streams alone until the first
evaluation. It runs until the program ends, until `stop`, or until a process that replaces it asks it to withdraw.

Each process that serves requests has a port file, which is always removed. A reloader runs the program twice, in a
waiting parent and a serving child, so the child replaces the parent. A helper process, started by `multiprocessing`,
leaves the port file to the program.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import os
import socket
import stat
import sys

from ..basics.connections import BencodeError, encode, read_value, start_thread
from ..basics.jobs import ABANDONED_MESSAGE
from ..basics.systems import lock_directory, retry_while_open
from .app_python import AppPython
from .nrepl_server import Server
from .routed_output import RoutedOutput
from .stalled_reader import StalledReader
from .start import find_roots
from .thread_interrupts import ThreadInterrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from typing import Any

    from ..basics.connections import Connection, Message
    from ..basics.jobs import Job, Session

EVALUATION_THREAD_NAME = "codriver evaluations"
"""Name of the evaluating thread."""


class EmbeddedRepl(Server):
    """A REPL in this process.

    `directory` is the project directory. `loop` is the program's event loop, on which `await` runs.
    """

    _output: RoutedOutput

    def __init__(self, directory: str, loop: asyncio.AbstractEventLoop | None) -> None:
        interrupts = ThreadInterrupts(self._replace)
        output = RoutedOutput(interrupts.shield)
        self.process_id = os.getpid()
        about = {
            "codriver/app": {"pid": self.process_id, "program": program_name(), "name": application_name(sys.argv)}
        }
        self._python = AppPython(find_roots(directory), loop)
        super().__init__(self._python, interrupts, output, about)
        self._ops["codriver/withdraw"] = self._withdraw
        self._directory = directory
        self.port = 0
        self.port_file: str | None = None
        """The path of the port file, or None if none could be written."""

    @property
    def is_open(self) -> bool:
        """Return whether the REPL accepts clients. In a forked child process, it does not."""
        return self.port != 0 and self.process_id == os.getpid()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use this event loop to run `await` in evaluated code."""
        self._python.loop = loop

    def start(self) -> None:
        """Start listening and evaluating, and write the port file.

        Raises:
            FileExistsError: another process's REPL already serves this helper process. Nothing was started.
            OSError: listening failed, or the directory is not writable. In the latter case, the REPL is running.
        """
        listener = socket.create_server((LISTENING_HOST, 0))
        self.port = listener.getsockname()[1]
        # The REPL must be able to answer for this process before its port is published.
        self.accept_connections(listener)
        self._start_evaluating()
        register_fork_handler(self._after_fork)
        atexit.register(self._release)
        parent, replaces_parent = find_conflicting_process()
        try:
            self.port_file = claim_port_file(self._directory, self.port, parent, replaces_parent=replaces_parent)
        except FileExistsError:
            self.stop()
            raise
        _leave_at_helper_exit(self._release)

    def serve_stream(self, sock: socket.socket) -> None:
        """Serve one client over a connected socket until it disconnects, then stop the REPL.

        The calling thread reads the requests. All of the REPL's other threads end.
        """
        self.port = CONNECTED_PORT
        register_fork_handler(self._after_fork)
        start_thread(self._output.flush_repeatedly)
        self._start_evaluating()
        try:
            connection = self._add_connection(sock)
            connection.serve()
        finally:
            self.stop()
            unregister_fork_handler(self._after_fork)

    def serve_stalling_stream(self, sock: socket.socket, thread: int, start_new_thread: Callable[..., object]) -> None:
        """Serve one client like `serve_stream`, but on a thread that also runs evaluations. See `StalledReader`."""
        reader = StalledReader(sock, thread, start_new_thread)
        reader.begin()
        try:
            self.serve_stream(sock)
        finally:
            reader.end()

    def stop(self) -> None:
        """Close all connections, restore the streams, and remove the port file. Repeated calls have no effect."""
        self._stop_accepting()
        for connection in self._connections:
            connection.close()
        self._queue.put(None)
        self._threads.end()
        self._output.stop()
        self._python.end()

    def _client_left(self, connection: Connection) -> None:
        """Interrupt the evaluations of a client that has disconnected, because nobody else can interrupt them."""
        with self._lock:
            left = [job for job in self._open if job.connection is connection]
            for job in left:
                job.is_interrupted = True
        for job in left:
            if job.is_started:
                self._interrupts_of(job).stop(job)

    def _stop_accepting(self) -> None:
        """Remove the port file, restore the streams, and stop accepting connections."""
        atexit.unregister(self._release)
        self._release()
        self._output.restore_streams()
        self.port = 0
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _release(self) -> None:
        """Remove the port file, unless this is a forked child process."""
        if self.port_file is not None and self.process_id == os.getpid():
            remove_port_file(self.port_file, self.port)

    def _after_fork(self) -> None:
        """Disable the REPL in a forked child process, whose output and port file belong to the program."""
        self._output.is_child = True
        if self._comparison is not None:
            self._comparison.stop()
        for connection in self._connections:
            connection.close_in_child()
        if self._listener is not None:
            self._listener.close()

    def _withdraw(self, message: Message, connection: Connection, _session: Session) -> None:
        """Handle the op sent by a process before it replaces this one: stop the REPL."""
        self._stop_accepting()
        connection.reply(message, {"status": ["done"]})
        self.stop()

    # On evaluating threads, one at a time

    def _start_evaluating(self) -> None:
        start_thread(self.run, EVALUATION_THREAD_NAME)

    def run(self) -> None:
        """Evaluate jobs until the REPL is stopped or the running job is abandoned."""
        self._interrupts.install()
        while (job := self._queue.get()) is not None:
            with self._lock:
                job.is_started = not job.is_interrupted
            if not job.is_started:
                continue
            try:
                self._run_one(job)
            except BaseException as error:  # no other thread evaluates
                self._conclude(job, error)
            if job.is_abandoned:
                return

    def _replace(self, job: Job) -> None:
        """Report that a job was abandoned, and continue with the next job on a new thread."""
        job.send({"err": f"codriver: {ABANDONED_MESSAGE}\n"})
        self._end(job, ["done", "interrupted"])
        self._start_evaluating()


_in_children: list[Callable[[], None]] = []
"""Functions that disable each of this process's REPLs in a forked child."""
_registered: list[bool] = []
"""Not empty once `_run_fork_handlers` has been registered with Python, because it cannot be unregistered."""


def register_fork_handler(leave: Callable[[], None]) -> None:
    """Call `leave` in each child process that is forked from now on."""
    _in_children.append(leave)
    if not _registered and hasattr(os, "register_at_fork"):
        _registered.append(True)
        os.register_at_fork(after_in_child=_run_fork_handlers)


def unregister_fork_handler(leave: Callable[[], None]) -> None:
    """Stop calling `leave` in forked child processes. Repeated calls have no effect."""
    with contextlib.suppress(ValueError):
        _in_children.remove(leave)


def _run_fork_handlers() -> None:
    for leave in _in_children:
        leave()
    _in_children.clear()


def program_name() -> str:
    """Return the file name of the running program, or the name of the package that was run."""
    path = sys.argv[0] if sys.argv else ""
    if os.path.basename(path) == "__main__.py":
        path = os.path.dirname(path)
    return os.path.basename(path) or "python"


SERVER_PROGRAMS = ("celery", "daphne", "flask", "granian", "gunicorn", "hypercorn", "uvicorn", "waitress-serve")
"""Programs that serve an application named by one of their arguments."""
GENERIC_MODULE_NAMES = ("app", "application", "asgi", "main", "wsgi")
"""Module names that are too common to identify an application."""
APPLICATION_OPTIONS = ("--app", "-A")
"""The options with which Flask and Celery select the application."""


def application_name(arguments: list[str]) -> str:
    """Return a short name for the application run by a program with these arguments.

    This is the module that a server program serves: `gunicorn shop.wsgi:app` and `flask --app shop run` give `shop`.
    Otherwise, it is the name of the script or package that was started, without a suffix.
    """
    path = arguments[0] if arguments else ""
    if os.path.basename(path) == "__main__.py":
        path = os.path.dirname(path)
    name = os.path.splitext(os.path.basename(path))[0]
    if name not in SERVER_PROGRAMS:
        return name.strip("-") if len(name) > 2 else "python"
    rest = arguments[1:]
    target = os.environ.get("FLASK_APP", "") if name == "flask" else ""
    for argument, following in zip(rest, [*rest[1:], ""]):
        option, equals, value = argument.partition("=")
        if option in APPLICATION_OPTIONS:
            target = value if equals else following
            break
        if not argument.startswith("-") and ":" in argument and "/" not in argument and argument[0].isalpha():
            target = argument
            break
    module = os.path.basename(target.partition(":")[0])
    parts = [part for part in module.split(".") if part and part != "py"]
    while len(parts) > 1 and parts[-1] in GENERIC_MODULE_NAMES:
        parts.pop()
    return parts[-1] if parts else name


def _leave_at_helper_exit(leave: Callable[[], object]) -> None:
    """Call `leave` when a `multiprocessing` process exits, because a forked one skips `atexit` functions."""
    processes: Any = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, leave, exitpriority=0)


CONNECTED_PORT = -1
"""The port of a REPL that does not listen because it connected to its client."""
LISTENING_HOST = "127.0.0.1"
"""The only host on which a REPL in a program listens."""
CODRIVER_DIRECTORY = ".codriver"
"""The directory for port files in a project."""
PORT_FILE_NAMES = (
    ".nrepl-port",
    *(os.path.join(CODRIVER_DIRECTORY, f"app{number}.port") for number in ("", "-2", "-3", "-4")),
)
"""The possible port files, relative to the project. The first one without a running REPL is used."""
REQUEST_TIMEOUT_S = 2.0
"""Seconds to wait for a local REPL to identify itself."""
RELOADER_VARIABLES = ("WERKZEUG_RUN_MAIN", "RUN_MAIN")
"""Variables that are `true` in a reloader's child: Werkzeug's `run_with_reloader`, Django's `autoreload`."""
PREFORK_MODULE = "gunicorn.arbiter"
"""A module used by servers that may load the program in the parent and fork the serving processes."""
SUPERVISOR_PACKAGES = ("uvicorn",)
"""Packages whose `multiprocessing` processes serve while the parent is waiting."""
OPEN_DIRECTORY_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
"""Flags for opening a directory, which must not be a link."""
READ_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)
"""Flags for opening a file for reading that may have become a link, or a pipe on which opening waits for a writer."""
HAS_OPEN_DIRECTORIES = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
"""Whether files can be opened, removed and replaced relative to an open directory. Windows does not support this."""
NAME_SURROGATE_BIT = 0x20000000
"""The bit in the tag of a reparse point that refers to another path, such as a junction.

Source: [MS-FSCC], 2.1.2.1.
"""


def find_conflicting_process() -> tuple[int, bool]:
    """Return the id of the process whose REPL conflicts with this one, and whether this process replaces it.

    The id is 0 if there is none.
    """
    processes: Any = sys.modules.get("multiprocessing.process")
    if processes is not None and getattr(processes.current_process(), "_inheriting", False):
        return os.getppid(), False  # the process is still importing the program, and its purpose is unknown
    parent = processes.parent_process() if processes is not None else None
    if parent is not None:
        target = getattr(processes.current_process(), "_target", None)
        return parent.pid, (getattr(target, "__module__", None) or "").split(".")[0] in SUPERVISOR_PACKAGES
    if PREFORK_MODULE in sys.modules or any(os.environ.get(name) == "true" for name in RELOADER_VARIABLES):
        return os.getppid(), True
    return 0, False


def claim_port_file(directory: str, port: int, parent: int, *, replaces_parent: bool) -> str | None:
    """Write the port to an unused port file and return its path, or return None if all port files are in use.

    If this REPL replaces that of the process `parent`, that REPL is asked to withdraw first.

    Raises:
        FileExistsError: the REPL of `parent` is active, and this process is its helper.
        OSError: no file can be written.
    """
    with _lock_directory(directory):
        paths = [os.path.join(directory, name) for name in PORT_FILE_NAMES]
        claimed = {path: number for path in paths for number in [_read_port_file(path)] if number is not None}
        for path, number in list(claimed.items()):
            about = send_request(number, "describe") if number not in (0, port) else {}
            if about is None:
                # A killed process could not remove its file.
                del claimed[path]
                with contextlib.suppress(OSError), _open_directory(path) as (name, within):
                    retry_while_open(lambda: os.unlink(name, dir_fd=within))
            elif parent and (about.get("codriver/app") or {}).get("pid") == parent:
                if not replaces_parent:
                    raise FileExistsError(path)
                send_request(number, "codriver/withdraw")
                del claimed[path]
        free = next((path for path in paths if path not in claimed), None)
        if free is not None:
            _write_port_file(free, port)
        else:
            with _open_directory(paths[-1]):  # raises if a link replaces Codriver's directory
                pass
        return free


def remove_port_file(path: str, port: int) -> None:
    """Remove a port file if it still contains this port."""
    with contextlib.suppress(OSError):
        if _read_port_file(path) == port:
            with _open_directory(path) as (name, within):
                retry_while_open(lambda: os.unlink(name, dir_fd=within))


def send_request(port: int, op: str) -> dict[str, Any] | None:
    """Send a request to the REPL on a local port and return the reply.

    Returns {} if there is no reply, and None if nothing is listening on the port.
    """
    try:
        with socket.create_connection((LISTENING_HOST, port), timeout=REQUEST_TIMEOUT_S) as sock:
            sock.sendall(encode({"op": op, "id": "1"}))
            with contextlib.suppress(OSError, BencodeError, ValueError, TypeError), sock.makefile("rb") as file:
                answer = read_value(file)
                return answer if isinstance(answer, dict) else {}
            return {}
    except ConnectionRefusedError:
        return None
    except OSError:
        return {}


def _read_port_file(path: str) -> int | None:
    """Return the port in a port file.

    Returns 0 if the file has no port or is not a regular file, and None if it does not exist.
    """
    try:
        with _open_directory(path) as (name, within):
            # Check this before opening the file, because some devices act when they are opened.
            if not stat.S_ISREG(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode):
                return 0
            descriptor = retry_while_open(lambda: os.open(name, READ_FLAGS, dir_fd=within))
            try:
                text = os.read(descriptor, 32).strip() if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError:
        return 0
    return int(text) if text.isdigit() and int(text) < 2**16 else 0


def _write_port_file(path: str, port: int) -> None:
    """Replace a port file atomically.

    Raises:
        OSError: the file cannot be written. It is never FileExistsError, which has a different meaning in
            `claim_port_file`.
    """
    with contextlib.suppress(FileExistsError):
        if os.path.basename(os.path.dirname(path)) == CODRIVER_DIRECTORY:
            os.mkdir(os.path.dirname(path))
    with _open_directory(path) as (name, within):
        draft = f"{name}.{os.getpid()}"
        with contextlib.suppress(OSError):  # left by a killed process, or a link
            os.unlink(draft, dir_fd=within)
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644, dir_fd=within)
        except FileExistsError:
            raise OSError(
                f"the port file cannot be written because {path}.{os.getpid()} already exists: delete that file"
            ) from None
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{port}\n")
            retry_while_open(lambda: os.replace(draft, name, src_dir_fd=within, dst_dir_fd=within))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(draft, dir_fd=within)
            raise


@contextlib.contextmanager
def _open_directory(path: str) -> Iterator[tuple[str, int | None]]:
    """Open the directory of a port file. Yield the file's name and the directory's descriptor.

    On systems without such descriptors, yield the path and None. The project's directory may be a link, but Codriver's
    directory in it must not be one.

    Raises:
        FileNotFoundError: the directory does not exist.
        NotADirectoryError: Codriver's directory is a link or a file.
        OSError: the directory cannot be opened.
    """
    directory, name = os.path.split(path)
    is_codrivers = os.path.basename(directory) == CODRIVER_DIRECTORY
    if is_codrivers:
        now = os.lstat(directory)
        if not stat.S_ISDIR(now.st_mode) or getattr(now, "st_reparse_tag", 0) & NAME_SURROGATE_BIT:
            text = "the port file cannot be written, because this path is not a directory: remove it"
            raise NotADirectoryError(errno.ENOTDIR, text, directory)
    if not HAS_OPEN_DIRECTORIES:
        yield path, None
        return
    within = os.open(
        directory, OPEN_DIRECTORY_FLAGS if is_codrivers else OPEN_DIRECTORY_FLAGS & ~getattr(os, "O_NOFOLLOW", 0)
    )
    try:
        yield name, within
    finally:
        os.close(within)


@contextlib.contextmanager
def _lock_directory(directory: str) -> Iterator[None]:
    """Lock a directory while a port file in it is claimed, if this system can lock directories."""
    descriptor = os.open(directory, os.O_RDONLY) if HAS_OPEN_DIRECTORIES else None
    try:
        if descriptor is not None:
            with contextlib.suppress(OSError):  # some file systems do not support locks
                lock_directory(descriptor)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
