"""`codriver serve`: run the server of a workspace until it is stopped."""

from __future__ import annotations

import gc
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from codriver.commands.mistaken_client import MistakenClientDetector
from codriver.commands.options import WholeNumberRange, exact_workspace_option, quiet_option, workspace_above
from codriver.commands.terminal import echo, waiting_line
from codriver.files.codriver_paths import server_directory
from codriver.log.control_characters import escape_to_one_line
from codriver.net import registration, server_record
from codriver.systems.other_processes import daemonize, do_nothing
from codriver.systems.programs import complete_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.app.serve import Verbosity

STARTING_MESSAGE = "the server is starting and reading its stored data about this workspace"


class _ReplOption(click.Option):
    """An option whose help lists the kinds of REPLs. They are only imported when the help is displayed."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the help record with the current list of REPL kinds."""
        from codriver.app.features import repl_kinds  # noqa: PLC0415  # only needed for `--help`
        from codriver.repls import kinds  # noqa: PLC0415  # as above

        by_word = kinds.kinds_by_word(repl_kinds())
        words = ", ".join([*by_word, *(f"{word}:{kind.variant}" for word, kind in by_word.items() if kind.variant)])
        self.help = f"Start this REPL: {words}, any command line, or {kinds.NO_REPL_SETTING}. Can be repeated."
        return super().get_help_record(ctx)


@click.command("serve")
@exact_workspace_option
@click.option(
    "--host", help="Address to listen on (default: 127.0.0.1). Clients need a token if it is not a loopback address."
)
@click.option(
    "--port",
    type=WholeNumberRange(0, server_record.MAX_PORT),
    help="Port to listen on (default: 1664). Use 0 for any free port.",
)
@click.option(
    "--nrepl", multiple=True, metavar="[KEY=][HOST:]PORT", help="Connect to this nREPL server. Can be repeated."
)
@click.option(
    "--repl",
    multiple=True,
    cls=_ReplOption,
    metavar="WORD|COMMAND",
    help="Start this REPL.",
)
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter for the project's Python code. Default: the one in the project's environment.",
)
@click.option(
    "--idle-exit",
    type=WholeNumberRange(0, 604_800),
    metavar="SECONDS",
    help="Stop the server when no client was connected for this long.",
)
@click.option(
    "--on-demand",
    is_flag=True,
    help="Stop the server after idleExitSeconds without clients, as if a relay had started it.",
)
@click.option(
    "--requested-ms",
    type=WholeNumberRange(0, 2**53),
    default=0,
    hidden=True,
    help="When the start was requested, in milliseconds since the epoch. A later `codriver stop` cancels the start.",
)
@quiet_option("Print only errors, and do not print the address.")
@click.option("--verbose", "-v", "is_verbose", is_flag=True, help="Also log the server's activity to standard error.")
@click.option("--detach", is_flag=True, help="Continue in the background once the server accepts connections.")
def serve_command(  # noqa: PLR0913  # one parameter per option
    *,
    workspace: Path,
    host: str | None,
    port: int | None,
    nrepl: tuple[str, ...],
    repl: tuple[str, ...],
    python: str | None,
    idle_exit: int | None,
    on_demand: bool,
    requested_ms: int,
    detach: bool,
    is_quiet: bool,
    is_verbose: bool,
    added: Mapping[str, object] = MappingProxyType({}),
) -> None:
    """Run the server of a workspace.

    The server prints its address on one line when it accepts connections. It finds REPLs that are started later through
    their port files. `codriver stop`, Ctrl-C and SIGTERM stop the server and the REPLs that it started.

    MCP clients must start `codriver-relay` instead of this command. If a client starts `codriver serve`, the command
    exits with status 2 and explains the mistake on standard error.
    """
    if is_quiet and is_verbose:
        raise click.UsageError("--quiet and --verbose cannot be used together")
    if not on_demand:
        requested_ms = requested_ms or time.time_ns() // 1_000_000
    on_reached = daemonize() if detach else do_nothing
    mark = None if on_demand else registration.mark_start(workspace.resolve())
    complete_path()
    watch = MistakenClientDetector()
    if not (on_demand or detach):
        watch.start()
    if not (on_demand or is_quiet):
        _warn_of_server_above(workspace.resolve())
    _load_server()
    from codriver.app.serve import ServeOptions, run  # noqa: PLC0415  # only needed here

    given = {
        "host": host,
        "mcp_socket_server_port": port,
        "nrepl": nrepl or None,
        "repl": repl or None,
        "python": python,
        "idle_exit_seconds": idle_exit,
    }
    overrides = {name: value for name, value in given.items() if value is not None} | dict(added)
    with ExitStack() as waiting:
        if mark is not None:
            waiting.callback(os.close, mark)
        waiting.enter_context(waiting_line(lambda: STARTING_MESSAGE))

        def reached() -> None:
            waiting.close()
            on_reached()

        verbosity: Verbosity = "quiet" if is_quiet else "verbose" if is_verbose else "usual"
        is_passing = on_demand or idle_exit is not None
        options = ServeOptions(workspace, overrides, is_passing, reached, is_on_demand=on_demand, verbosity=verbosity)
        is_watched = not (detach or on_demand) and _prints_arrivals(verbosity)
        options = replace(options, requested_ms=requested_ms, prints_arrivals=is_watched)
        sys.exit(watch.run_server(lambda: run(options)))


def _prints_arrivals(verbosity: Verbosity) -> bool:
    """Return whether to print a line for new connections: on a terminal, unless only errors were requested."""
    return verbosity != "quiet" and sys.stdout.isatty()


def _load_server() -> None:
    """Import the server with garbage collection disabled.

    Garbage collection would take a tenth of the time and free nothing.
    """
    gc.disable()
    try:
        import codriver.app.serve  # noqa: F401, PLC0415  # only needed here
    finally:
        gc.freeze()
        gc.enable()


def _warn_of_server_above(workspace: Path) -> None:
    above = _find_server_above(workspace)
    if above is not None:
        path = escape_to_one_line(str(above))
        echo(f"codriver: another server is running for a parent folder. See `codriver status -w {path}`", err=True)


def _find_server_above(workspace: Path) -> Path | None:
    """Return the workspace above this one if it has a running server, or None.

    Locks are checked first, so that directories are only searched if there is a server.
    """
    if not any(server_record.is_claimed(server_directory(directory)) for directory in workspace.parents):
        return None
    above = workspace_above(workspace)
    return above if above is not None and server_record.is_claimed(server_directory(above)) else None
