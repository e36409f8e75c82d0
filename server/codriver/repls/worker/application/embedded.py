"""A REPL in a running program: the worker's server on threads of its own, for whoever may connect from this machine.

It touches no signal, no descriptor and no thread of the program's, and its streams only once something is evaluated. It
lives until the program ends, until `stop`, or until a process that serves in its place asks it to withdraw.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
import threading

from ..basics.connections import START_THREAD
from ..basics.jobs import ABANDONED
from ..basics.systems import own_user
from ..serving.nrepl_server import Server
from ..serving.start import find_roots
from ..serving.thread_interrupts import ThreadInterrupts
from .app_python import AppPython
from .embedded_port_file import HOST, claim, place_of_parent, withdraw
from .routed_streams import RoutedOutput

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from ..basics.connections import Connection, Message
    from ..basics.jobs import Job, Session

EVALUATING = "codriver evaluations"
"""The name of the thread that evaluates."""
IS_LINUX = sys.platform == "linux"
TABLE = "/proc/net/tcp"
"""Of the kernel of Linux: the users behind the connections of this machine. Source: proc(5)."""


class EmbeddedRepl(Server):
    """A REPL in this process. `folder`: the project's. `loop`: the program's own, on which `await` is run."""

    _output: RoutedOutput

    def __init__(self, folder: str, loop: asyncio.AbstractEventLoop | None) -> None:
        interrupts = ThreadInterrupts(self._replace)
        output = RoutedOutput(interrupts.shield)
        self.process_id = os.getpid()
        about = {"codriver/app": {"pid": self.process_id, "program": program()}}
        self._python = AppPython(find_roots(folder), loop)
        super().__init__(self._python, interrupts, output, about)
        self._ops["codriver/withdraw"] = self._withdraw
        self._folder = folder
        self.port = 0
        self.port_file: str | None = None
        """Where the port stands; None where it could be written nowhere."""

    @property
    def is_open(self) -> bool:
        """Whether it still takes clients, in the process that started it."""
        return self.port != 0 and self.process_id == os.getpid()

    def use_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Run `await` at the top of what is evaluated on that loop from now on."""
        self._python.loop = loop

    def start(self) -> None:
        """Listen and evaluate from now on, and write the port file.

        Raises:
            FileExistsError: this process helps another, whose REPL is the one to talk to. Nothing was started.
            OSError: nothing can listen here, or nothing be written in the folder: then it is started all the same.
        """
        listener = socket.create_server((HOST, 0))
        self.port = listener.getsockname()[1]
        # The answer to whoever asks which process this is must be there before its port is.
        self.serve(listener)
        self._start_evaluating()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)
        atexit.register(self._leave_place)
        parent, takes_over = place_of_parent()
        try:
            self.port_file = claim(self._folder, self.port, parent, takes_over=takes_over)
        except FileExistsError:
            self.stop()
            raise
        _leave_with_helper(self._leave_place)

    def stop(self) -> None:
        """Hang up on everybody, give the streams back, and remove the port file. Twice is harmless."""
        self._shut()
        for connection in self._connections:
            connection.drop()
        self._queue.put(None)

    def _shut(self) -> None:
        atexit.unregister(self._leave_place)
        self._leave_place()
        self._output.give_back()
        self.port = 0
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def _leave_place(self) -> None:
        if self.port_file is not None and self.process_id == os.getpid():
            withdraw(self.port_file, self.port)

    def _after_fork(self) -> None:
        """A forked child is no REPL: what it prints, and the port file, are the program's."""
        self._output.is_child = True
        for connection in self._connections:
            connection.forget()
        if self._listener is not None:
            self._listener.close()

    def _withdraw(self, message: Message, connection: Connection, _session: Session) -> None:
        """Make room for the process that serves in this one's place."""
        self._shut()
        connection.answer(message, {"status": ["done"]})
        self.stop()

    def _admits(self, peer: tuple[str, int]) -> bool:
        return user_behind(peer[1], self.port) in (None, own_user(), 0)

    # On threads that evaluate, one at a time

    def _start_evaluating(self) -> None:
        START_THREAD(threading.Thread(target=self.run, name=EVALUATING, daemon=True))

    def run(self) -> None:
        """Evaluate until the REPL is stopped, or until what runs was abandoned."""
        self._interrupts.install()
        while (job := self._queue.get()) is not None:
            with self._lock:
                job.is_begun = not job.is_interrupted
            if not job.is_begun:
                continue
            try:
                self._run_one(job)
            except BaseException as error:  # the thread is the only one that evaluates
                self._conclude(job, error)
            if job.is_abandoned:
                return

    def _replace(self, job: Job) -> None:
        """Say that a job was abandoned, and evaluate the next on a new thread."""
        job.send({"err": f"codriver: {ABANDONED}\n"})
        self._end(job, ["done", "interrupted"])
        self._start_evaluating()


def program() -> str:
    """The name of the program, as its command begins; a package that was run is known by its own."""
    path = sys.argv[0] if sys.argv else ""
    if os.path.basename(path) == "__main__.py":
        path = os.path.dirname(path)
    return os.path.basename(path) or "python"


def user_behind(port: int, own_port: int) -> int | None:
    """The user of the process at the other end of a connection to us; None where the system does not tell.

    A socket that no process has any more counts as nobody's, -1: the kernel shows user 0 for it.
    """
    if not IS_LINUX:
        return None
    ends = [f"0100007F:{port:04X}", f"0100007F:{own_port:04X}"] if sys.byteorder == "little" else []
    try:
        with open(TABLE, encoding="ascii") as table:
            rows: list[list[str]] = [line.split() for line in table]
    except OSError:
        return None
    # Columns: number, local address, remote address, state, queues, timer, retransmits, user, timeout, inode.
    found: Any = next((row for row in rows if row[1:3] == ends), None)
    if found is None:
        return None
    return int(found[7]) if found[9] != "0" else -1


def _leave_with_helper(leave: Callable[[], object]) -> None:
    """Have a process of `multiprocessing` remove its port file: one that was forked ends without `atexit`."""
    processes: Any = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(None, leave, exitpriority=0)
