"""The tree of forks of a try: a supervisor forks candidates, waits for them, and leaves nothing of them behind.

It is the only child of the worker, and the parent of all that the candidates start and leave. Where a process stands
that did not end in time is told by its dump of Python's `faulthandler`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import json
import linecache
import os
import random
import re
import resource
import select
import signal
import sys
import time
import traceback
import warnings

from ..basics.error_report import is_library, is_worker
from . import shield

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    Told = dict[str, Any]

    Act = tuple[Callable[[], Told], Mapping[str, str]]

    """What is done, and the texts of its code by the names that frames have."""


assert sys.platform == "linux"  # noqa: S101  # for type checkers: elsewhere nobody gets here

MORE_BYTES = 2**30
"""Of memory, beyond what the worker has."""
FILE_BYTES = 256 * 2**20
PROCESSES = 64
RESULT_BYTES = 2**22
DUMP_BYTES = 2**16
PRINTED_BYTES = 300
DUMPED_AT = 0.8
"""The part of its time after which a candidate tells its place."""
SWEEP_S = 1.0
FAILED = 70
"""The exit status of a process that could tell nothing. Source: sysexits.h, `EX_SOFTWARE`."""


class Limits:
    """The limits and the surroundings of the candidates. `folders` are laid over where the space is their own."""

    def __init__(self, folders: Sequence[str], wall_s: float, random_state: object, *, is_shielded: bool) -> None:
        self.folders = folders
        self.wall_s = wall_s
        self.random_state = random_state
        self.is_shielded = is_shielded


class Candidate:
    """One candidate under way: its process, and the ends of the pipes that we read."""

    def __init__(self, act: Act, limits: Limits) -> None:
        self.pipes = {name: os.pipe() for name in ("result", "printed", "dump")}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of the threads that a fork does not have
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
        """Read what has come; False at its end."""
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
        """End the process and all of its group; what it told, and how it ended."""
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
    """Do each act in a process of its own, all side by side; what came of each."""
    shield.control(shield.PR_SET_CHILD_SUBREAPER, 1)  # what they leave comes to us, and not to init
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
    """End what left the groups of the candidates."""
    patience = time.monotonic() + SWEEP_S
    while (strays := shield.children()) and time.monotonic() < patience:
        for process in strays:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(process, signal.SIGKILL)
                os.waitpid(process, 0)


def _be_candidate(act: Callable[[], Told], limits: Limits, ends: Mapping[str, int]) -> None:
    """Do an act as the process that was forked for it, and tell what came of it. Never returns."""
    os.setpgid(0, 0)
    gc.freeze()  # a collection would copy the pages of all that the worker holds
    if limits.is_shielded:
        shield.overlay(limits.folders)
    shield.control(shield.PR_SET_PDEATHSIG, signal.SIGKILL)
    shield.control(shield.PR_SET_DUMPABLE, 0)
    _take_streams(ends)
    _limit(limits)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if limits.random_state is not None:  # Python seeds it anew in every child
        random.setstate(limits.random_state)  # type: ignore[arg-type]  # what `getstate` gave
    faulthandler.enable(ends["dump"])
    faulthandler.dump_traceback_later(max(limits.wall_s * DUMPED_AT, 0.05), file=ends["dump"])
    own = os.getpid()
    try:
        told = act()
    except BaseException as error:
        words = "".join(traceback.format_exception_only(type(error), error)).strip()
        told = {"error": {"message": words[:PRINTED_BYTES]}}
    if os.getpid() != own:  # a child of the candidate came back: it has nothing to tell
        os._exit(0)
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    data = json.dumps(told).encode()
    while data:
        data = data[os.write(ends["result"], data) :]
    os._exit(0)


def _take_streams(ends: Mapping[str, int]) -> None:
    os.dup2(shield.nothing(), 0)
    os.dup2(ends["printed"], 1)
    os.dup2(ends["printed"], 2)
    shield.part_descriptors({0, 1, 2, ends["result"], ends["dump"]})


def _limit(limits: Limits) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limits.is_shielded:  # counted in our own user namespace: elsewhere all processes of the user count
        _lower(resource.RLIMIT_NPROC, PROCESSES)
    _lower(resource.RLIMIT_CPU, int(limits.wall_s) + 2)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_AS, shield.memory_bytes() + MORE_BYTES)
    sys.dont_write_bytecode = True


def _lower(what: int, most: int) -> None:
    """Set a limit, unless a lower one holds."""
    now = resource.getrlimit(what)[1]
    most = most if now == resource.RLIM_INFINITY else min(most, now)
    resource.setrlimit(what, (most, most))


def _beginning(data: bytes) -> str:
    """The beginning of what was printed, in whole characters."""
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

    `waits`: it waits for another thread there.
    """

    def __init__(self, dump: str, sources: Mapping[str, str]) -> None:
        """`sources`: the texts of code that is in no file here, or in another version, by name."""
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
