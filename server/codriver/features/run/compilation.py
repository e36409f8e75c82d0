"""Compile the embedded REPL in a separate process, before a program loads it.

Compiling holds the interpreter lock for up to 30 ms per module, during which the program's requests would have to wait.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.features.run.process_table import find_process, find_processes
from codriver.features.run.processes import select_run_processes

if TYPE_CHECKING:
    from codriver.features.run.run_directory import Run

INTERPRETER_NAME: Final = re.compile(r"(?:[Pp]ython|pypy)[\d.]*t?")
"""Matches the file names of interpreters that accept Python's options. Other programs may also embed Python."""
START_TIMEOUT_S: Final = 10.0
"""Maximum time to wait for a program to start Python. After that, the program compiles the modules on loading them."""
CHECK_INTERVAL_S: Final = 0.05
"""Interval between checks of the processes of a program that is starting."""
PRIORITY: Final = 10
"""The niceness of the compilation, which runs while the program is starting."""


def compile_for_run(run: Run, copy: Path) -> None:
    """Wait for a process in the run that can load the REPL, and compile the modules in `copy` for its Python. Blocks.

    The priority of the current process is lowered.
    """
    if sys.platform != "win32":
        os.nice(PRIORITY)
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and find_process(run.pid) is not None:
        for process in select_run_processes(find_processes(), str(run.directory), (run.pid, run.started)):
            if process.is_ready:
                with suppress(OSError):
                    _compile(Path(process.executable), copy)
                return
        time.sleep(CHECK_INTERVAL_S)


def _compile(interpreter: Path, copy: Path) -> None:
    """Compile the modules with a Python interpreter, unless this has been done before."""
    if INTERPRETER_NAME.fullmatch(interpreter.name):
        script = copy / "codriver_program" / "worker" / "loading.py"
        subprocess.run([interpreter, "-I", "-S", script], check=False)  # noqa: S603  # the program's own interpreter
