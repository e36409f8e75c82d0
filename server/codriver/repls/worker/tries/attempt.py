"""An attempt of candidates, from the worker's main thread: forks a supervisor, and waits for its answers.

Nothing of the worker changes: the candidates are the supervisor's children, with descriptors, shared memory and files
of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import threading
import warnings
from time import monotonic, sleep

from ..basics.connections import OWN_THREAD

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from .fork_tree import Act

    Prepare = Callable[[bool], Sequence[Act]]
    """Run in the supervisor: gives the acts, after their common preparation; it gets whether files are shielded."""

assert sys.platform == "linux"  # noqa: S101  # for type checkers: elsewhere nobody gets here

SHARED_BYTES = 512 * 2**20
"""The most bytes of shared memory that are copied."""
GRACE_S = 30.0
"""The supervisor's time beyond the candidates': it loads the modules that all of them need."""
END_S = 1.5
"""The supervisor's time for ending all when told to."""
ENDED = 70
NEEDS_FILES = "files are not shielded here, so that only edits of loaded modules can be tried: use edit_files"
SQLITE = ("-journal", "-wal")
"""The endings of the names of an open SQLite database's files. Source: sqlite.org, "Temporary Files"."""


class Attempt:
    """Acts under way, each in a process of its own, from the fork of their supervisor on. Made on the main thread.

    `guard`: a time in which an interrupt waits. `needs_files` refuses where files are not shielded.
    """

    def __init__(
        self,
        prepare: Prepare,
        folders: Sequence[str],
        wall_s: float,
        guard: AbstractContextManager[object],
        *,
        needs_files: bool,
    ) -> None:
        self._threads = [one.name for one in threading.enumerate() if one.name != OWN_THREAD and not _is_main(one)]
        self._guard, self._lock, self._process = guard, threading.Lock(), 0
        self._ends_at = monotonic() + wall_s + GRACE_S
        self._reading, writing = os.pipe()
        state = _random_state()
        with guard:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # threads that a fork does not have
                self._process = os.fork()
            if self._process == 0:
                try:
                    _be_supervisor(prepare, folders, wall_s, state, writing, needs_files=needs_files)
                finally:
                    os._exit(ENDED)
            os.close(writing)

    def wait(self) -> dict[str, Any]:
        """Wait until all candidates are over: the answer `told` by each, or the reason as `refused`.

        `notShielded` says why files are not shielded. `threads` names the user's threads, which a fork does not have.
        """
        data = b""
        try:
            data = _read(self._reading, self._ends_at)
        finally:
            with self._guard:
                os.close(self._reading)
                self._end()
        try:
            told: dict[str, Any] = json.loads(data)
        except ValueError:
            told = {"refused": "the process that was to try them ended before it told anything"}
        return {**told, "threads": self._threads}

    def stop(self) -> None:
        """Have all candidates end soon; waiting callers get nothing then. Any thread may call."""
        with self._lock:
            if self._process:
                os.kill(self._process, signal.SIGTERM)

    def _end(self) -> None:
        """End the supervisor, and with it all candidates; at once if it has told all."""
        process, patience = self._process, monotonic() + END_S
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, signal.SIGTERM)
            while not self._is_over(os.WNOHANG):
                if monotonic() > patience:
                    os.kill(process, signal.SIGKILL)
                    self._is_over(0)
                    break
                sleep(0.001)

    def _is_over(self, how: int) -> bool:
        with self._lock:  # the process id may be another's from then on
            is_over = os.waitpid(self._process, how)[0] != 0
            self._process = 0 if is_over else self._process
        return is_over


def _is_main(thread: threading.Thread) -> bool:
    return thread is threading.main_thread()


def _random_state() -> object:
    """The state of the `random` module's own generator, if user code has loaded the module."""
    library: Any = sys.modules.get("random")
    return None if library is None else library.getstate()


def _read(reading: int, ends_at: float) -> bytes:
    data = b""
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    while (left_s := ends_at - monotonic()) > 0:
        if poll.poll(left_s * 1000):
            more = os.read(reading, 65536)
            if not more:
                break
            data += more
    return data


def _raise_exit(*_signal: object) -> None:
    raise SystemExit


def _be_supervisor(
    prepare: Prepare, folders: Sequence[str], wall_s: float, state: object, writing: int, *, needs_files: bool
) -> None:
    """Supervise, in the process forked for that, and tell the results. Never returns."""
    import gc

    gc.freeze()  # a collection would copy all of the worker's memory pages
    signal.signal(signal.SIGTERM, _raise_exit)
    # Imported here, as the worker itself does not need it.
    from . import fork_tree

    fork_tree.control(fork_tree.PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.dont_write_bytecode = True
    try:
        told = _supervised(prepare, folders, wall_s, state, writing, needs_files=needs_files)
    except Exception as error:
        told = {"refused": f"{type(error).__name__}: {error}"}
    data = json.dumps(told).encode()
    while data:
        data = data[os.write(writing, data) :]
    os._exit(0)


def _supervised(
    prepare: Prepare, folders: Sequence[str], wall_s: float, state: object, writing: int, *, needs_files: bool
) -> dict[str, Any]:
    from . import fork_tree

    if words := _of_memory(fork_tree.shared_maps(), {name for *_, name in fork_tree.maps()}):
        return {"refused": words}
    laid = fork_tree.outermost(folders)
    databases = [one for one in _open_files() if one.endswith(SQLITE)]
    fork_tree.part_descriptors({writing})
    fork_tree.copy_shared_maps()
    why = _enter(laid)
    for one in databases:
        if why or not any(fork_tree.is_below(one, folder) for folder in laid):
            return {
                "refused": f"a transaction may be open in {one}, and that file is not shielded: end it, or close it"
            }
    if why and needs_files:
        return {"refused": f"{NEEDS_FILES} ({why})"}
    limits = fork_tree.Limits(laid, wall_s, state, is_shielded=not why)
    told: dict[str, Any] = {"told": fork_tree.supervise(prepare(not why), limits)}
    return {**told, "notShielded": why} if why else told


def _enter(folders: Sequence[str]) -> str:
    """Enter a namespace of our own, and check that overlays can be laid there; the reason in words why not."""
    from . import fork_tree

    try:
        fork_tree.own_space()
        try:
            fork_tree.lay(folders)
        finally:
            fork_tree.lift(folders)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _of_memory(shared: Sequence[tuple[int, int, str]], named: set[str]) -> str:
    """The reason in words why this process's memory cannot be separated from the worker's."""
    torch: Any = sys.modules.get("torch")
    has_cuda = False
    with contextlib.suppress(Exception):
        has_cuda = torch is not None and torch.cuda.is_initialized()
    if has_cuda or any(name.startswith("/dev/nvidia") for name in named):
        return "CUDA is in use, which a fork cannot use"
    size = sum(last - first for first, last, _ in shared)
    if size > SHARED_BYTES:
        largest = max(shared, key=lambda one: one[1] - one[0])[2] or "memory without a name"
        words = f"{size:,} bytes of memory are shared, most of them {largest}"
        return f"{words}, and {SHARED_BYTES:,} are the most that is copied"
    return ""


def _open_files() -> list[str]:
    """The paths behind the descriptors of this process."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return found
