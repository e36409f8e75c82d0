"""The tree of forks of a try: a supervisor forks shielded candidates, and waits for them.

The supervisor is the only child of the worker, and the parent of all processes that the candidates start and leave:
none stays behind. The place of a process that did not end in time comes from a dump by Python's `faulthandler`. The
shield around a forked process makes descriptors, shared memory and files its own.

Sources: unshare(2), user_namespaces(7), mount_namespaces(7), prctl(2), mmap(2), proc(5); the kernel's documentation of
overlayfs.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import fcntl
import functools
import gc
import json
import linecache
import os
import random
import re
import resource
import select
import signal
import stat
import sys
import time
import traceback
import warnings

from ..basics.error_report import is_library, is_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    Told = dict[str, Any]
    Act = tuple[Callable[[], Told], Mapping[str, str]]
    """The function to call, and the texts of its code by the names that frames have."""


assert sys.platform == "linux"  # noqa: S101  # for type checkers: elsewhere nobody gets here

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWNET = 0x20000, 0x10000000, 0x40000000
MS_REC, MS_PRIVATE = 16384, 1 << 18
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER = 1, 4, 36
READ_WRITE, PRIVATE_FIXED_ANONYMOUS = 3, 0x32
UPPER_BYTES = "256m"
"""The most bytes that a candidate may write."""
SCRATCH = ("/mnt", "/media", "/srv", "/opt", "/run", "/home")
"""Folders that nearly every system has; one without overlaid folders is covered for a moment."""


@functools.lru_cache(maxsize=1)
def _libc() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    return library


def control(option: int, value: int) -> None:
    """Set an option of this process."""
    _libc().prctl(option, value)


def _check(status: int, step: str) -> None:
    if status:
        number = ctypes.get_errno()
        raise OSError(number, f"{step}: {os.strerror(number)}")


def nothing() -> int:
    """A descriptor of the null device."""
    return os.open(os.devnull, os.O_RDWR)


def memory_bytes() -> int:
    """The size of this process' address space."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def part_descriptors(kept: set[int]) -> None:
    """Make every inherited descriptor harmless: a read file gets an offset of its own, any other the null device.

    None is closed, as its number would go to another file.
    """
    nowhere = nothing()
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number in kept or number == nowhere:
            continue
        own = nowhere
        with contextlib.suppress(OSError):
            own = _reopened(number, nowhere)
        with contextlib.suppress(OSError):  # the descriptor of the folder listed here
            os.dup2(own, number, inheritable=os.get_inheritable(number))
        if own != nowhere:
            os.close(own)
    if nowhere not in kept:
        os.close(nowhere)


def _reopened(number: int, nowhere: int) -> int:
    """A descriptor of the same file with an offset of its own, if it is only read."""
    is_read = fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    if not (is_read and stat.S_ISREG(os.fstat(number).st_mode)):
        return nowhere
    own = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    os.lseek(own, os.lseek(number, 0, os.SEEK_CUR), os.SEEK_SET)
    return own


def maps() -> Iterator[tuple[int, int, str, str]]:
    """The maps of this process: first and last address, permissions, and name."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            first, last = (int(one, 16) for one in fields[0].split("-"))
            yield first, last, fields[1], fields[5].strip() if len(fields) > 5 else ""


def shared_maps() -> list[tuple[int, int, str]]:
    """The maps shared with other processes, as those of `numpy.memmap` and of `multiprocessing` locks."""
    return [(first, last, name) for first, last, flags, name in maps() if flags[:2] == "rw" and flags[3] == "s"]


def copy_shared_maps() -> None:
    """Replace each shared map by a private copy."""
    for first, last, _ in shared_maps():
        size = last - first
        content = ctypes.string_at(first, size)
        if _libc().mmap(first, size, READ_WRITE, PRIVATE_FIXED_ANONYMOUS, -1, 0) != first:
            raise OSError(ctypes.get_errno(), "mmap")
        ctypes.memmove(first, content, size)


def own_space() -> None:
    """Enter a separate user and mount namespace.

    Raises:
        OSError: the system does not allow that.
    """
    user, group = os.getuid(), os.getgid()
    _check(_libc().unshare(CLONE_NEWNS | CLONE_NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    _check(_libc().mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")


def part_network() -> None:
    """Enter a network namespace without any interface. Call this in a user namespace of our own.

    Raises:
        OSError: the system does not allow that.
    """
    _check(_libc().unshare(CLONE_NEWNET), "unshare")


def outermost(folders: Sequence[str]) -> list[str]:
    """The folders outside of all others, with their real paths."""
    real = sorted({os.path.realpath(one) for one in folders if os.path.isdir(one)})
    return [one for one in real if not any(is_below(one, other) for other in real if other != one)]


def is_below(path: str, folder: str) -> bool:
    """True for the folder itself and all in it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def overlay(folders: Sequence[str]) -> None:
    """Make all writes, edits and removals in the folders from now on private to this process and its children.

    Call this before the process has a second thread.

    Raises:
        OSError: the system does not allow that.
    """
    here = os.getcwd()
    _check(_libc().unshare(CLONE_NEWNS), "unshare")
    lay(folders)
    os.chdir(here)


def lay(folders: Sequence[str]) -> None:
    """Lay an overlay with its upper layer in memory over each folder.

    Raises:
        OSError: the system does not allow that.
    """
    scratch = next((one for one in SCRATCH if os.path.isdir(one) and not _touches(one, folders)), "")
    if not scratch:
        raise OSError(f"none of {', '.join(SCRATCH)} is free for the upper layer")
    place = os.fsencode(scratch)
    _check(_libc().mount(b"tmpfs", place, b"tmpfs", 0, f"size={UPPER_BYTES}".encode()), "mount tmpfs")
    try:
        for number, folder in enumerate(folders):
            upper, work = f"{scratch}/u{number}", f"{scratch}/w{number}"
            os.mkdir(upper)
            os.mkdir(work)
            status = os.stat(folder)
            with contextlib.suppress(OSError):
                os.chmod(upper, stat.S_IMODE(status.st_mode))
            data = f"lowerdir={_escaped(folder)},upperdir={upper},workdir={work},userxattr"
            at = os.fsencode(folder)
            _check(_libc().mount(b"overlay", at, b"overlay", 0, os.fsencode(data)), f"overlay {folder}")
    finally:
        _libc().umount2(place, MNT_DETACH)


def lift(folders: Sequence[str]) -> None:
    """Take the overlays off again."""
    for folder in folders:
        _libc().umount2(os.fsencode(folder), MNT_DETACH)


def _touches(scratch: str, folders: Sequence[str]) -> bool:
    return any(is_below(one, scratch) or is_below(scratch, one) for one in folders)


def _escaped(path: str) -> str:
    """A path, escaped for the options of a mount."""
    return "".join("\\" + one if one in "\\:," else one for one in path)


def children() -> list[int]:
    """The children of this process, also those of its threads."""
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
            found += map(int, file.read().split())
    return found


assert sys.platform == "linux"  # noqa: S101  # for type checkers: elsewhere nobody gets here

MORE_BYTES = 2**30
"""The memory for a candidate beyond the worker's own."""
FILE_BYTES = 256 * 2**20
PROCESSES = 64
RESULT_BYTES = 2**22
DUMP_BYTES = 2**16
PRINTED_BYTES = 300
DUMPED_AT = 0.8
"""The part of its time after which a candidate tells its place."""
SWEEP_S = 1.0
FAILED = 70
"""The exit status of a process without an answer. Source: sysexits.h, `EX_SOFTWARE`."""


class Limits:
    """The limits and the surroundings of the candidates. `folders` get overlays in a namespace of their own."""

    def __init__(self, folders: Sequence[str], wall_s: float, random_state: object, *, is_shielded: bool) -> None:
        self.folders = folders
        self.wall_s = wall_s
        self.random_state = random_state
        self.is_shielded = is_shielded


class Candidate:
    """One candidate under way: its process, and our ends of its pipes."""

    def __init__(self, act: Act, limits: Limits) -> None:
        self.pipes = {name: os.pipe() for name in ("result", "printed", "dump")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads that a fork does not have
            self.process = os.fork()
        if self.process == 0:
            try:
                _be_candidate(act[0], limits, {name: ends[1] for name, ends in self.pipes.items()})
            finally:
                os._exit(FAILED)
        with contextlib.suppress(OSError):
            os.setpgid(self.process, self.process)
        self.ends = {}
        for name, (reading, writing) in self.pipes.items():
            os.close(writing)
            os.set_blocking(reading, False)
            self.ends[reading] = name
        self.end = os.pidfd_open(self.process)
        self.texts = dict.fromkeys(self.pipes, b"")
        self.is_over = False
        self._sources = act[1]

    def read(self, reading: int) -> bool:
        """Read the received bytes; False at their end."""
        name = self.ends[reading]
        most = {"result": RESULT_BYTES, "printed": PRINTED_BYTES * 8, "dump": DUMP_BYTES}[name]
        try:
            data = os.read(reading, 65536)
        except BlockingIOError:
            return True
        if len(self.texts[name]) < most:
            self.texts[name] += data
        return bool(data)

    def finish(self) -> Told:
        """End the process and all of its group; its answer, and its ending."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        status = os.waitpid(self.process, 0)[1]
        os.close(self.end)
        for reading in self.ends:
            left = 96
            while left and self._has_more(reading):
                left -= 1
            os.close(reading)
        return {**self._outcome(status), "printed": _beginning(self.texts["printed"])}

    def _has_more(self, reading: int) -> bool:
        try:
            data = os.read(reading, 65536)
        except BlockingIOError:
            return False
        if len(self.texts[self.ends[reading]]) < RESULT_BYTES:
            self.texts[self.ends[reading]] += data
        return bool(data)

    def _outcome(self, status: int) -> Told:
        stop = Stop(self.texts["dump"].decode("utf-8", "replace"), self._sources)
        if not self.is_over:
            return {"timedOut": True, "at": stop.place, "waits": stop.waits}
        with contextlib.suppress(ValueError):
            told = json.loads(self.texts["result"])
            if isinstance(told, dict):
                return told
        code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
        how = f"with status {code}" if code >= 0 else f"by {signal.Signals(-code).name}"
        return {"died": f"its process ended {how}", "at": stop.place}


def supervise(acts: Sequence[Act], limits: Limits) -> list[Told]:
    """Do each act in a process of its own, all side by side; the result of each."""
    control(PR_SET_CHILD_SUBREAPER, 1)  # orphans come to us, and not to init
    ends_at = time.monotonic() + limits.wall_s
    candidates = [Candidate(act, limits) for act in acts]
    try:
        _wait(candidates, ends_at)
    finally:
        told = [one.finish() for one in candidates]
        _sweep()
    return told


def _wait(candidates: Sequence[Candidate], ends_at: float) -> None:
    poll = select.poll()
    of: dict[int, Candidate] = {}
    for one in candidates:
        for number in (*one.ends, one.end):
            poll.register(number, select.POLLIN)
            of[number] = one
    alive = len(candidates)
    while alive and (left_s := ends_at - time.monotonic()) > 0:
        for number, _ in poll.poll(left_s * 1000 + 1):
            one = of[number]
            if number == one.end:
                one.is_over, alive = True, alive - 1
                poll.unregister(number)
            elif not one.read(number):
                poll.unregister(number)


def _sweep() -> None:
    """End processes that left the groups of the candidates."""
    patience = time.monotonic() + SWEEP_S
    while (strays := children()) and time.monotonic() < patience:
        for process in strays:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


def _be_candidate(act: Callable[[], Told], limits: Limits, ends: Mapping[str, int]) -> None:
    """Do an act in the process forked for it, and tell the result. Never returns."""
    os.setpgid(0, 0)
    gc.freeze()  # a collection would copy all of the worker's memory pages
    if limits.is_shielded:
        overlay(limits.folders)
    control(PR_SET_PDEATHSIG, signal.SIGKILL)
    control(PR_SET_DUMPABLE, 0)
    _take_streams(ends)
    _limit(limits)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if limits.random_state is not None:  # Python seeds the generator anew in every child
        random.setstate(limits.random_state)  # type: ignore[arg-type]  # the result of `getstate`
    faulthandler.enable(ends["dump"])
    faulthandler.dump_traceback_later(max(limits.wall_s * DUMPED_AT, 0.05), file=ends["dump"])
    own = os.getpid()
    try:
        told = act()
    except BaseException as error:
        words = "".join(traceback.format_exception_only(type(error), error)).strip()
        told = {"error": {"message": words[:PRINTED_BYTES]}}
    if os.getpid() != own:  # a child of the candidate returned: it has nothing to tell
        os._exit(0)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    data = json.dumps(told).encode()
    while data:
        data = data[os.write(ends["result"], data) :]
    os._exit(0)


def _take_streams(ends: Mapping[str, int]) -> None:
    os.dup2(nothing(), 0)
    os.dup2(ends["printed"], 1)
    os.dup2(ends["printed"], 2)
    part_descriptors({0, 1, 2, ends["result"], ends["dump"]})


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.is_shielded:  # counted in our own user namespace: elsewhere all processes of the user count
        _lower(resource.RLIMIT_NPROC, PROCESSES)
    _lower(resource.RLIMIT_CPU, int(limits.wall_s) + 2)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_AS, memory_bytes() + MORE_BYTES)
    sys.dont_write_bytecode = True


def _lower(what: int, most: int) -> None:
    """Set a limit, unless a lower one holds."""
    now = resource.getrlimit(what)[1]
    most = most if now == resource.RLIM_INFINITY else min(most, now)
    resource.setrlimit(what, (most, most))


def _beginning(data: bytes) -> str:
    """The beginning of the output, in whole characters."""
    text = data[:PRINTED_BYTES].decode("utf-8", "ignore")
    return text + ("…" if len(data) > PRINTED_BYTES else "")


FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)
WAITS = {
    "threading.py": {"wait", "wait_for", "join", "_wait_for_tstate_lock", "acquire", "__enter__"},
    "queue.py": {"get", "put", "join"},
    "_base.py": {"result", "exception", "wait"},
    "synchronize.py": {"acquire", "wait", "__enter__"},
    "pool.py": {"get", "wait", "join"},
}
"""Functions of the standard library in which a thread waits for another, by the names of their files."""
WAITING_LINE = re.compile(r"\.(?:acquire|get|put|result|join|wait)\(|^(?:async )?with ")
"""Lines that call what waits in C: a lock, or a queue."""


class Stop:
    """The place of the innermost frame of the main thread, as `file:line in function`.

    `waits`: whether it waits for another thread.
    """

    def __init__(self, dump: str, sources: Mapping[str, str]) -> None:
        """`sources`: the texts of code without a file here, or with another version of it, by name."""
        threads = re.split(r"^(?=(?:Current thread|Thread) )", dump, flags=re.MULTILINE)
        frames = [one.groupdict() for one in FRAME.finditer(threads[-1])]
        own = [one for one in frames if not (is_worker(one["file"]) or is_library(one["file"]))]
        told = (own or frames)[:1]
        self.place = "".join(f"{one['file']}:{one['line']} in {one['function']}" for one in told)
        self.waits = bool(frames) and _is_waiting(**frames[0], sources=sources)


def _is_waiting(file: str, line: str, function: str, sources: Mapping[str, str]) -> bool:
    if is_library(file):
        return function in WAITS.get(os.path.basename(file), ())
    if file in sources:
        shown = "".join(sources[file].splitlines()[int(line) - 1 : int(line)])
    else:
        shown = linecache.getline(file, int(line))
    return WAITING_LINE.search(shown.strip()) is not None
