"""The processes of a run according to `/proc`: which ones can provide a REPL, and why the others cannot.

A process belongs to a run if it was started with the run's environment, or is a descendant of such a process. Programs
may overwrite their environment to set a title, and some start children without it.

Source: proc(5).
"""

# mypy: disable-error-code="attr-defined"
# Only Linux is supported, and other systems lack some of these functions.

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PROCESSES_DIRECTORY: Final = "/proc"
"""The directory in which Linux lists all processes."""
SIGNAL_BIT: Final = 1 << (int(getattr(signal, "SIGURG", 23)) - 1)
"""The bit of SIGURG in the signal masks in `/proc`."""
ISOLATING_OPTIONS: Final = frozenset("IES")
"""Letters of command-line options that make Python ignore PYTHONPATH or `sitecustomize`."""
INTERPRETER_OPTION: Final = re.compile(r"-([^cmWX]*)([cmWX]?)")
"""Matches Python options that may be combined, and one that is followed by its value."""
OLD_INTERPRETER_NAME: Final = re.compile(r"python(2(?:\.\d+)?|3\.[0-7])")
"""Matches the file names of interpreters in which the embedded REPL cannot run."""
RELOADED_CHILD_VARIABLES: Final = (b"WERKZEUG_RUN_MAIN", b"RUN_MAIN")
"""Variables set to `true` in the child of a reloader. Source: Werkzeug's `run_with_reloader`, Django's `autoreload`."""


@dataclass(frozen=True, slots=True)
class RunProcess:
    """A process of a program started by `codriver run`, in the state in which it was read from `/proc`."""

    pid: int
    parent: int
    started: int
    """The start time in clock ticks since the machine was started."""
    words: tuple[str, ...]
    """The command line."""
    is_ready: bool
    """Whether the signal handler for requests is installed and can read them."""
    is_blocking: bool = False
    """Whether the signal is blocked in the main thread."""
    is_ignoring: bool = False
    """Whether the process explicitly ignores the signal, although that is already the default."""
    interpreter: str = ""
    """The file name of the program that the process executes."""
    isolation: str = ""
    """How the process is isolated from this one, in which case it cannot read requests, or ""."""
    environ: Mapping[bytes, bytes] = field(default_factory=dict)

    @property
    def is_reloaded(self) -> bool:
        """Return whether a reloader has marked this process as the one that handles requests."""
        return any(self.environ.get(name) == b"true" for name in RELOADED_CHILD_VARIABLES)

    @property
    def is_python(self) -> bool:
        """Return whether the command line begins with a Python interpreter."""
        return bool(self.words) and PurePath(self.words[0]).name.startswith(("python", "pypy"))

    @property
    def no_repl_reason(self) -> str:
        """Return the reason why the process cannot have a REPL, or an empty string if it can."""
        if self.is_ready:
            return ""
        if self.isolation:
            return (
                f"the process {self.isolation} than `codriver run`: start both in the same way, or call start_repl() "
                "in the program"
            )
        if not self.is_python:
            return "the program is not written in Python, or is a frozen program that ignores PYTHONPATH"
        if (version := OLD_INTERPRETER_NAME.fullmatch(self.interpreter)) is not None:
            return f"the process runs Python {version[1]}, but Codriver needs Python 3.8 or later"
        if option := _isolating_option(self.words):
            return (
                f"Python was started with {option}, which ignores Codriver: start it without that option, or call "
                "start_repl()"
            )
        if b"CODRIVER_RUN" not in self.environ:
            return "the process was started with a different environment, without PYTHONPATH: call start_repl() in it"
        if self.is_ignoring:
            return "the program ignores SIGURG, with which a REPL is requested: call start_repl() in it"
        return "the process is still starting, or its handler for SIGURG was replaced: call start_repl() in it"


def _isolating_option(words: Sequence[str]) -> str:
    """Return the command-line option that makes Python ignore PYTHONPATH or `sitecustomize`, or ""."""
    rest = list(words[1:])
    while rest and rest[0].startswith("-") and not rest[0].startswith("--"):
        word = rest.pop(0)
        option = INTERPRETER_OPTION.match(word)
        if option is None:
            break
        if ISOLATING_OPTIONS.intersection(option[1]):
            return word
        if option[2] in ("c", "m"):
            break
        if option[2] and option.end() == len(word):
            del rest[:1]
    return ""


def find_processes() -> dict[int, RunProcess]:
    """Return all of this user's processes by process id. Blocks."""
    found: dict[int, RunProcess] = {}
    for name in os.listdir(PROCESSES_DIRECTORY):  # noqa: PTH208  # there are hundreds of names, and this runs several times per second
        if name.isdecimal() and (process := _read_process(int(name))) is not None:
            found[process.pid] = process
    return found


def select_run_processes(
    everyone: Mapping[int, RunProcess], directory: str, first: tuple[int, int]
) -> list[RunProcess]:
    """Return the processes of the run with this directory, sorted by start time.

    `everyone` contains all processes by process id. `first` is the process id and start time of the run's first
    process.
    """
    mark = os.fsencode(directory)
    members = {pid for pid, running in everyone.items() if running.environ.get(b"CODRIVER_RUN") == mark}
    pid, started = first
    if (
        pid in everyone
        and everyone[pid].started == started
        and everyone[pid].environ.get(b"CODRIVER_RUN", mark) == mark
    ):
        members.add(pid)
    children: dict[int, list[int]] = {}
    for running in everyone.values():
        children.setdefault(running.parent, []).append(running.pid)
    unseen = list(members)
    while unseen:
        for pid in children.get(unseen.pop(), ()):
            other = everyone[pid].environ.get(b"CODRIVER_RUN", mark)
            if pid not in members and other == mark:
                members.add(pid)
                unseen.append(pid)
    return sorted((everyone[pid] for pid in members), key=lambda running: (running.started, running.pid))


def _read_process(pid: int) -> RunProcess | None:
    """Read the state of a process. Return None if it has exited or belongs to another user."""
    base = f"{PROCESSES_DIRECTORY}/{pid}/"
    try:
        # The fields follow the name in parentheses, which may contain any character.
        rest = _bytes(base + "stat").rpartition(b")")[2].split()
        if rest[0] in (b"Z", b"X"):
            return None
        environ = dict(part.partition(b"=")[::2] for part in _bytes(base + "environ").split(b"\0") if part)
        words = tuple(_bytes(base + "cmdline").decode("utf-8", "replace").rstrip("\0").split("\0"))
        status = {line.partition(b":")[0]: line.split()[1:] for line in _bytes(base + "status").splitlines()}
        masks = {name: int(status[name][0], 16) for name in (b"SigCgt", b"SigBlk", b"SigIgn") if name in status}
        isolation = ""
        if status[b"Uid"][1] != b"%d" % os.geteuid():
            isolation = "runs as a different user"
        elif status.get(b"NSpid", [b"%d" % pid])[-1] != b"%d" % pid:
            isolation = "has a different PID namespace"
        elif os.readlink(base + "root") != os.sep:  # noqa: PTH115  # as below
            isolation = "has a different root directory"
        is_caught = bool(masks.get(b"SigCgt", 0) & SIGNAL_BIT)
        return RunProcess(
            pid=pid,
            parent=int(rest[1]),
            started=int(rest[19]),
            words=words,
            is_ready=is_caught and not isolation,
            is_blocking=bool(masks.get(b"SigBlk", 0) & SIGNAL_BIT),
            is_ignoring=bool(masks.get(b"SigIgn", 0) & SIGNAL_BIT),
            interpreter=os.path.basename(os.readlink(base + "exe")),  # noqa: PTH115, PTH119  # this runs often
            isolation=isolation,
            environ=environ,
        )
    except (OSError, IndexError, ValueError):
        return None


def _bytes(path: str) -> bytes:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # as above
        parts = []
        while part := file.read(65536):
            parts.append(part)
    return b"".join(parts)


def find_process(pid: int) -> RunProcess | None:
    """Return the process with this id, or None if it does not exist or belongs to another user."""
    return _read_process(pid)
