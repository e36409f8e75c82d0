"""Bundle the programs that run in a test process into one file of sources for each kind of run.

One file is opened and read faster than ten, and the process stores the compiled code next to it. The sources are those
of `programs`, and of the embedded REPL's modules that they use.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links
from codriver.files.own_folders import cache_directory, make_private_directory

if TYPE_CHECKING:
    from codriver.testing.runs import Runner

BOOT: Final = Path(__file__).with_name("programs") / "boot.py"
_AS_MAIN: Final = (
    "import sys\n"
    "sys.argv[:] = sys.argv[1:]\n"
    "__file__ = sys.argv[0]\n"
    f"if sys.path[:1] == ['']: sys.path[0] = __file__.rpartition({os.sep!r})[0]\n"
    "with open(__file__, encoding='utf-8') as _file: _code = compile(_file.read(), __file__, 'exec')\n"
    "exec(_code)"
)
"""Program that runs a script.

From Python 3.14, messages about a module that hides one of the standard library depend on the directory from which the
interpreter was started to run a program. For code it is the current directory, as for `python -m`.
"""
REPLACED_FILES: Final = BOOT.with_name("replaced_files.py")
"""Program that runs as `sitecustomize` and substitutes the content of files."""
_PACKAGE: Final = Path(__file__).parents[1]
_ROOT: Final = "_codriver"
"""Name of Codriver's package in a test process while its programs are loaded."""
_START: Final = ("testing.programs.start",)
"""Runs first, and loads the others."""
_ALWAYS: Final = ("testing.programs.event_file", "testing.programs.bytecode", "testing.programs.process")
_FOR_EVENTS: Final = ("testing.programs.secret_values",)
_FOR_FAILURES: Final = (
    "repls.worker.basics.previews",
    "repls.worker.basics.plain_values",
    "testing.programs.called_functions",
    "testing.programs.failures",
)
_EVENTS: Final = {
    "pytest": "testing.programs.pytest_events",
    "unittest": "testing.programs.unittest_events",
    "django": "testing.programs.unittest_events",
}
_EXTRAS: Final = {
    "functions": ("testing.programs.project_code", "testing.programs.functions_recorder"),
    "lines": ("testing.programs.project_code", "testing.programs.lines_recorder"),
    "kept process": (
        "repls.worker.basics.connections",
        "repls.worker.basics.error_report",
        "repls.worker.basics.frame_spaces",
        "testing.programs.retained_process",
    ),
    "calls": (
        "repls.worker.basics.connections",
        "repls.worker.basics.error_report",
        "repls.worker.python.recorded_calls",
        "repls.worker.python.call_monitor",
        "testing.programs.calls_recorder",
    ),
}
"""Programs of each recorder, the last of which has the function `recorder`, and those that retain a process."""
_FUTURE: Final = "from __future__ import annotations\n"


def plugin_of(runner: Runner) -> str:
    """Return the program that attaches itself to a runner."""
    return _EVENTS[runner].rpartition(".")[2]


def recorder_program(recorder: str) -> str:
    """Return the program of a recorder."""
    return _EXTRAS[recorder][-1].rpartition(".")[2]


def without_runner() -> list[str]:
    """Return the names of the programs that need neither the test runner nor anything it imports."""
    return [f"{_ROOT}.{name}" for name in _ALWAYS]


def command_of(python: str, script: str, *arguments: str) -> list[str]:
    """Return the command that runs a script as if the current directory were its own."""
    return [python, "-c", _AS_MAIN, script, *arguments]


def bundle(runner: Runner, extras: tuple[str, ...] = ()) -> Path:
    """Return the file of sources, writing it if it is missing. Blocks.

    Raises:
        OSError: the file cannot be written.
    """
    added = dict.fromkeys(name for extra in extras for name in _EXTRAS[extra])
    data = _sources((*_START, *_ALWAYS, *_FOR_EVENTS, *_FOR_FAILURES, *added, _EVENTS[runner]))
    directory = cache_directory() / "test-programs"
    file = directory / f"{runner}-{hashlib.sha256(data).hexdigest()[:16]}.txt"
    if not file.exists():
        make_private_directory(directory)
        files.replace(file, data, links=Links.OF_USER, is_durable=False)
    return file


@cache
def _sources(names: tuple[str, ...]) -> bytes:
    """Return the name and the source of each program, after those that it imports."""
    return ascii([(f"{_ROOT}.{name}", _read(name)) for name in names]).encode()


def _read(name: str) -> str:
    text = _PACKAGE.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")
    return text.replace(_FUTURE, "\n", 1)
