"""Bundle the programs that run in a test process into one file of sources for each kind of run.

One file is opened and read faster than ten, and the process stores the compiled code next to it. The sources are those
of `programs`, and of the embedded REPL's modules that they use.
"""

from __future__ import annotations

import hashlib
import logging
import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files import Links
from codriver.files.codriver_paths import cache_directory
from codriver.files.private_directories import make_private_directory

if TYPE_CHECKING:
    from codriver.testing.runs import Runner

logger = logging.getLogger(__name__)

BOOT_SCRIPT: Final = Path(__file__).with_name("programs") / "boot.py"
"""The script that a test process runs first. It loads all other programs."""
_RUN_AS_MAIN_CODE: Final = (
    "import sys\n"
    "sys.argv[:] = sys.argv[1:]\n"
    "__file__ = sys.argv[0]\n"
    f"if sys.path[:1] == ['']: sys.path[0] = __file__.rpartition({os.sep!r})[0]\n"
    "with open(__file__, encoding='utf-8') as _file: _code = compile(_file.read(), __file__, 'exec')\n"
    "exec(_code)"
)
"""Code for `python -c` that runs a script as the main program.

In Python 3.14 and later, messages about a module that shadows one in the standard library depend on the directory of
the script that the interpreter was started with. With `-c`, this is the current directory, as with `python -m`.
"""
REPLACED_FILES_SCRIPT: Final = BOOT_SCRIPT.with_name("replaced_files.py")
"""Script that runs as `sitecustomize` and substitutes the content of files."""
_PACKAGE_DIRECTORY: Final = Path(__file__).parents[1]
"""Directory of Codriver's package."""
_PROGRAMS_PACKAGE: Final = "_codriver"
"""Name of Codriver's package in a test process while its programs are loaded."""
_START_PROGRAMS: Final = ("testing.programs.start",)
"""The program that runs first and loads all others."""
_RUNNER_INDEPENDENT_PROGRAMS: Final = (
    "testing.programs.event_file",
    "testing.programs.bytecode",
    "testing.programs.process",
)
"""Programs that every run uses. They import neither the test runner nor its dependencies."""
_EVENT_PROGRAMS: Final = ("testing.programs.secret_values",)
"""Programs that event writers use in every run."""
_FAILURE_PROGRAMS: Final = (
    "repls.worker.basics.previews",
    "repls.worker.basics.plain_values",
    "testing.programs.parsed_files",
    "testing.programs.called_functions",
    "testing.programs.assigned_attributes",
    "testing.programs.failures",
)
"""Programs that describe failures in every run."""
_EVENT_WRITERS: Final = {
    "pytest": "testing.programs.pytest_events",
    "unittest": "testing.programs.unittest_events",
    "django": "testing.programs.unittest_events",
}
"""For each test runner, the program that writes the events of a run."""
_EXTRA_PROGRAMS: Final = {
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
        "repls.worker.python.call_profiler",
        "testing.programs.calls_recorder",
    ),
}
"""Additional programs for each recorder and for retaining a process.

The last program of a recorder defines a function named `recorder`.
"""
_FUTURE_IMPORT: Final = "from __future__ import annotations\n"
"""Import that is removed from each program, because its effect is passed to the compiler as a flag."""


def plugin_program(runner: Runner) -> str:
    """Return the name of the program that writes the events of a test runner."""
    return _EVENT_WRITERS[runner].rpartition(".")[2]


def recorder_program(recorder: str) -> str:
    """Return the name of the program that implements a recorder."""
    return _EXTRA_PROGRAMS[recorder][-1].rpartition(".")[2]


def runner_independent_programs() -> list[str]:
    """Return the names of the programs that can be loaded before the test runner."""
    return [f"{_PROGRAMS_PACKAGE}.{name}" for name in _RUNNER_INDEPENDENT_PROGRAMS]


def script_command(python: str, script: str, *arguments: str) -> list[str]:
    """Return the command that runs a script as if it were in the current directory."""
    return [python, "-c", _RUN_AS_MAIN_CODE, script, *arguments]


def bundle_programs(runner: Runner, extras: tuple[str, ...] = (), *, run_directory: Path) -> Path:
    """Write the programs that a run needs to one file, unless it exists, and return its path. Blocks.

    `extras` contains the names of recorders and of other additional programs. If the cache cannot be written, for
    example because the home directory is read-only, the file is in the private directory of the run.

    Raises:
        OSError: the file cannot be written.
    """
    added = dict.fromkeys(name for extra in extras for name in _EXTRA_PROGRAMS[extra])
    data = _program_sources(
        (
            *_START_PROGRAMS,
            *_RUNNER_INDEPENDENT_PROGRAMS,
            *_EVENT_PROGRAMS,
            *_FAILURE_PROGRAMS,
            *added,
            _EVENT_WRITERS[runner],
        )
    )
    directory = cache_directory() / "test-programs"
    file = directory / f"{runner}-{hashlib.sha256(data).hexdigest()[:16]}.txt"
    try:
        if not file.exists():
            make_private_directory(directory)
            files.replace(file, data, links=Links.OF_USER, is_durable=False)
    except OSError as error:
        logger.info("the programs of test runs are not cached, because %s cannot be written: %s", directory, error)
        file = run_directory / "programs.txt"
        files.replace(file, data, links=Links.NEVER, is_durable=False)
    return file


@cache
def _program_sources(names: tuple[str, ...]) -> bytes:
    """Return the names and sources of programs as a literal. Each program follows those that it imports."""
    return ascii([(f"{_PROGRAMS_PACKAGE}.{name}", _read_program(name)) for name in names]).encode()


def _read_program(name: str) -> str:
    """Return the source of a program without its `__future__` import."""
    text = _PACKAGE_DIRECTORY.joinpath(*name.split(".")).with_suffix(".py").read_text("utf-8")
    return text.replace(_FUTURE_IMPORT, "\n", 1)
