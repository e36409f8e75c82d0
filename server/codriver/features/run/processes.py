"""Find the processes of a run, and determine which of them can provide a REPL.

A process belongs to a run if it was started with the run's environment, or is a descendant of such a process. Programs
may overwrite their environment to set a title, and some start children without the run's environment.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """A process of a program started by `codriver run`, as last described by the operating system."""

    pid: int
    parent: int
    started: int
    """The start time, in the unit used by the process table. It distinguishes processes that have the same id."""
    words: tuple[str, ...]
    """The command line."""
    is_ready: bool
    """Whether the signal handler for requests is installed and can read them, as far as the system reports."""
    is_blocking: bool = False
    """Whether the signal is blocked in the main thread."""
    is_ignoring: bool = False
    """Whether the process explicitly ignores the signal, although that is already the default."""
    executable: str = ""
    """The path of the program that the process executes."""
    isolation: str = ""
    """How the process is isolated from this one, so that it cannot read requests, or an empty string."""
    environ: Mapping[bytes, bytes] = field(default_factory=dict)
    has_unknown_environ: bool = False
    """Whether the system hides the environment, or the process has overwritten it."""

    @property
    def is_reloaded(self) -> bool:
        """Return whether a reloader has marked this process as the one that handles requests."""
        return any(self.environ.get(name) == b"true" for name in RELOADED_CHILD_VARIABLES)

    @property
    def is_python(self) -> bool:
        """Return whether the command line begins with a Python interpreter."""
        return bool(self.words) and PurePath(self.words[0]).name.startswith(("python", "pypy"))

    @property
    def interpreter(self) -> str:
        """Return the file name of the program that the process executes."""
        return self.executable.rpartition(os.sep)[2]

    @property
    def no_repl_reason(self) -> str:
        """Return the reason why the process cannot have a REPL, or an empty string if it can."""
        if self.is_ready:
            return ""
        if reason := self.unprepared_reason:
            return reason
        if self.is_ignoring:
            return "the program ignores SIGURG, the signal that requests a REPL. Call start_repl() in the program"
        return (
            "the process is still starting, or its handler for SIGURG was replaced. If so, call start_repl() in the "
            "program"
        )

    @property
    def unprepared_reason(self) -> str:
        """Return the reason why the process was started without a handler for requests, or an empty string."""
        if self.isolation:
            return (
                f"the process {self.isolation} than `codriver run`. Start both in the same way, or call start_repl() "
                "in the program"
            )
        if not self.is_python:
            return "the program is not written in Python, or is a frozen program that ignores PYTHONPATH"
        if (version := OLD_INTERPRETER_NAME.fullmatch(self.interpreter)) is not None:
            return f"the process runs Python {version[1]}, but Codriver needs Python 3.8 or later"
        if option := _isolating_option(self.words):
            return (
                f"Python was started with {option}, which makes Python ignore Codriver. Start it without that "
                "option, or call start_repl()"
            )
        if b"CODRIVER_RUN" not in self.environ and not self.has_unknown_environ:
            return (
                "the process was started with a different environment, without PYTHONPATH. Call start_repl() in the "
                "program"
            )
        return ""


def _isolating_option(words: Sequence[str]) -> str:
    """Return the command-line option that makes Python ignore PYTHONPATH or `sitecustomize`, or an empty string."""
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
