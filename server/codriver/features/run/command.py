"""`codriver run`: start a program unchanged, so that agents can evaluate code in its Python processes later."""

# mypy: disable-error-code="attr-defined"
# Windows is not supported, and lacks some of these functions.

from __future__ import annotations

import os
import platform
import signal
import sys
import time
from typing import TYPE_CHECKING, Final

import click

from codriver.commands.options import workspace_option
from codriver.commands.terminal import echo
from codriver.errors import StartError
from codriver.features.run.naming import program_name
from codriver.features.run.process_table import SUPPORTED_SYSTEMS, find_process, started_ms
from codriver.features.run.program_copy import prepare_program
from codriver.features.run.run_directory import DIRECTORY_VARIABLE, create_run_directory
from codriver.files.codriver_paths import server_directory
from codriver.net import registration, server_record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from codriver.features.run.run_directory import Run

STDIN, STDOUT, STDERR = range(3)
NOT_FOUND_STATUS: Final = 127
"""Exit status of shells for a command that does not exist."""
NOT_EXECUTABLE_STATUS: Final = 126
"""Exit status of shells for a command that exists but cannot be executed."""
POLL_INTERVAL_S: Final = 0.02
"""Interval between checks of the program and of a server that is starting."""
UNSUPPORTED_MESSAGE: Final = (
    "`codriver run` works only on Linux and macOS. On this system, call `codriver_seam.start_repl(True)` in the "
    "program instead"
)
"""Message for systems other than Linux and macOS."""


@click.command(
    "run",
    short_help="Start a program with a REPL in it for agents.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("--name", default="", metavar="NAME", help="Name of the program's session. Default: the program's name.")
@workspace_option
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run_command(*, name: str, workspace: Path, command: tuple[str, ...]) -> None:
    """Start COMMAND, and let agents evaluate code in its Python processes.

    \b
    codriver run -- flask --app shop run --debug
    codriver run -- python manage.py runserver
    codriver run -- gunicorn -w 3 shop:app

    The program keeps its process, terminal, signals and exit status. Until an agent evaluates code in it, Codriver adds
    no thread, socket or open file to it.
    """  # noqa: D301  # click uses this character to mark a paragraph that it must not rewrap
    if platform.system() not in SUPPORTED_SYSTEMS:
        raise StartError(UNSUPPORTED_MESSAGE)
    workspace, requested_ms = workspace.resolve(), _start_ms()
    environ = dict(os.environ)
    try:
        run = create_run_directory(workspace, command, name or program_name(command))
        copy = prepare_program()
        paths = [str(copy), *filter(None, [environ.get("PYTHONPATH")])]
        environ |= {DIRECTORY_VARIABLE: str(run.directory), "PYTHONPATH": os.pathsep.join(paths)}
        if run.name != (name or run.name):
            echo(
                f"codriver run: the name {name} is already used by another run, so this one is called {run.name}",
                err=True,
            )
    except OSError as error:
        echo(f"codriver run: the program will run without a REPL: {error.filename}: {error.strerror}", err=True)
    else:
        if not server_record.is_claimed(server_directory(workspace)):
            _start_server(workspace, requested_ms)
        _run_detached(lambda: _compile(run, copy))
    _exec(command, environ)


def _start_ms() -> int:
    """Return the start time of this process in epoch milliseconds.

    A server that the user stops after this time must not be started again by this command.
    """
    process = find_process(os.getpid())
    return int(time.time() * 1000) if process is None else started_ms(process)


def _start_server(workspace: Path, requested_ms: int) -> None:
    """Start a server in the same way as the relay. Print a message if this fails."""
    program, mark = os.getpid(), registration.mark_start(workspace)
    _run_detached(lambda: _run_server_starter(workspace, requested_ms, program))
    if mark is not None:
        os.close(mark)


def _run_detached(act: Callable[[], object]) -> None:
    """Call `act` in a detached process, so that the program does not have an unexpected child process."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    try:
        if os.fork() == 0:
            os.setsid()
            act()
    except OSError as error:
        echo(f"codriver run: no process could be started: {error.strerror}", err=True)
    finally:
        os._exit(0)


def _compile(run: Run, copy: Path) -> None:
    """Compile the modules of the REPL for the program's Python, without using the program's standard streams."""
    from codriver.features.run.compilation import compile_for_run  # noqa: PLC0415  # not in the program's process

    _redirect_to_null(STDIN, STDOUT, STDERR)
    compile_for_run(run, copy)


def _redirect_to_null(*streams: int) -> None:
    """Redirect standard streams to the null device.

    Otherwise, a reader of the program's output would also wait for this process to exit.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in streams:
        os.dup2(nothing, stream)
    if nothing not in (STDIN, STDOUT, STDERR):
        os.close(nothing)


def _run_server_starter(workspace: Path, requested_ms: int, program: int) -> None:
    """Start a server in a new process session. Print a message if this fails."""
    from codriver_relay.starter import Starter  # noqa: PLC0415  # only needed if no server is running

    starter = Starter(str(workspace), None, 0.0)
    starter.arguments += ["--requested-ms", str(requested_ms)]
    starter.start()
    if starter.process is not None:
        _redirect_to_null(STDIN, STDOUT)
        while starter.process.poll() is None:
            if find_process(program) is None:
                _redirect_to_null(STDERR)
            time.sleep(POLL_INTERVAL_S)
        if starter.process.returncode == server_record.STOPPED_WHILE_STARTING_STATUS:
            return
        starter.check_process()
    # It also fails if another run or client has just started a server.
    if starter.failure is not None and not server_record.is_claimed(server_directory(workspace)):
        echo(f"codriver run: the program is running, but no server could be started: {starter.failure}", err=True)


def _exec(command: Sequence[str], environ: dict[str, str]) -> None:
    """Replace this process with the program."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these signals, which the program would inherit
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), environ)  # noqa: S606  # it is the user's own command
    except OSError as error:
        echo(f"codriver run: {command[0]}: {error.strerror}", err=True)
        sys.exit(NOT_FOUND_STATUS if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE_STATUS)
