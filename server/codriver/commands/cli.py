"""The command `codriver`. Subcommands are imported only when they are used, so that each starts quickly."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import StringIO
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already
from typing import TYPE_CHECKING

import click

from codriver import __version__
from codriver.app import features
from codriver.commands.options import DIRECTORY_TYPE
from codriver.commands.terminal import echo
from codriver.errors import CodriverError, StartError
from codriver.systems.pipes import use_utf8_output

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.feature import Command

FAILED_STATUS = 1
"""Exit status of a command that failed."""

COMMAND_MODULES = {
    "serve": "serve",
    "status": "status",
    "stop": "stop",
    "relay": "relay",
    "demo": "demo",
    "eval": "call",
    "load": "call",
    "test": "testing",
    "drift": "call",
    "call": "call",
    "tools": "call",
    "log": "log",
    "image": "image",
    "history": "history",
    "runs": "runs",
    "forget": "forget",
    "watch": "watch",
    "init": "init",
    "doctor": "doctor",
    "config": "config",
    "trust": "trust",
    "completion": "options",
}
"""The module in `codriver.commands` that defines each base command."""


SUGGESTED_COMMANDS = {
    "start": "serve", "server": "serve", "up": "serve", "kill": "stop", "quit": "stop", "down": "stop",
    "stats": "status", "ps": "status", "health": "status", "info": "status", "logs": "log", "tail": "log",
    "settings": "config", "check": "doctor", "install": "init", "setup": "init", "evaluate": "eval", "exec": "eval",
    "version": "--version", "help": "--help",
}  # fmt: skip
"""Command names that other programs use, each with the Codriver command that users probably want."""


def _feature_commands() -> dict[str, Command]:
    """Return the commands that features add.

    This imports the features, so it is only called for names that are not base commands.
    """
    return {command.name: command for feature in features.features() for command in feature.commands}


def _unknown_command_message(given: str, added: Mapping[str, Command]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415  # only needed after a mistake

    known = [*COMMAND_MODULES, *added]
    synonyms = {word: name for name, command in added.items() for word in command.synonyms}
    near = (SUGGESTED_COMMANDS | synonyms).get(given) or next(iter(get_close_matches(given, known, n=1)), None)
    hint = f"Did you mean `codriver {near}`?" if near else f"The commands are {', '.join(known)}"
    return f"there is no command {given!r}. {hint}"


class LazyGroup(click.Group):
    """A command group that imports each command when it is used."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command for these arguments, or fail with a suggestion of a similar one."""
        if (
            args
            and args[0] not in COMMAND_MODULES
            and not args[0].startswith("-")
            and args[0] not in (added := _feature_commands())
        ):
            ctx.fail(_unknown_command_message(args[0], added))
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands.

        Those of the base come first, in the order of `COMMAND_MODULES`, followed by those of features.
        """
        del ctx
        return [*COMMAND_MODULES, *_feature_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, and return it with the options that features add. Return None if it is unknown."""
        del ctx
        if cmd_name in COMMAND_MODULES:
            module = f"codriver.commands.{COMMAND_MODULES[cmd_name]}"
        elif (command := _feature_commands().get(cmd_name)) is not None:
            module = command.module
        else:
            return None
        found = getattr(import_module(module), f"{cmd_name}_command")
        assert isinstance(found, click.Command)  # noqa: S101  # the table names commands
        for extending in features.option_modules(cmd_name):
            found = import_module(extending).extend_command(found)
            assert isinstance(found, click.Command)  # noqa: S101  # as a feature's module returns it
        return found


def _print_versions(ctx: click.Context, is_requested: object) -> None:
    """Print the versions that a bug report needs, and exit. The packages themselves are not imported."""
    if not is_requested or ctx.resilient_parsing:
        return
    import platform  # noqa: PLC0415  # only here
    from importlib import metadata  # noqa: PLC0415  # only here

    echo(f"codriver {__version__}")
    echo(f"Python {platform.python_version()} ({platform.python_implementation()}, {sys.executable})")
    for package in ("mcp", "basilisp", "uvloop"):
        try:
            echo(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue  # optional, as it belongs to an extra
    echo(f"{platform.system()} {platform.release()} {platform.machine()}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with `codriver init` in your project. `codriver doctor` finds problems and suggests fixes.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, given: _print_versions(ctx, given),
    help="Print the versions of Codriver and its environment.",
)
@click.option(
    "--workspace",
    "-w",
    type=DIRECTORY_TYPE,
    help="The workspace folder. This option can be given before or after the command.",
)
def cli(*, workspace: Path | None) -> None:
    """A live REPL within reach of AI agents, with no editor in between.

    One server per workspace finds or starts the REPLs of a project and speaks MCP to any number of agents. Every
    command uses the current folder, or the one given by --workspace.
    """
    del workspace  # each command reads the option: see `codriver.commands.options`


def main(started_call: object = None) -> None:
    """Run the command line and exit. `started_call` is an evaluation that `codriver.__main__` has already started."""
    use_utf8_output()
    try:
        status = cli.main(prog_name="codriver", standalone_mode=False, obj=started_call)
    except click.ClickException as error:
        words = StringIO()
        error.show(words)
        echo(words.getvalue(), err=True, end="", hang=2)
        status = error.exit_code
    except click.Abort:
        echo("Aborted!", err=True)
        status = FAILED_STATUS
    except CodriverError as error:
        echo(f"codriver: {error}", err=True, hang=2)
        status = error.exit_status if isinstance(error, StartError) else FAILED_STATUS
    except OSError as error:
        location = f"{error.filename}: " if error.filename else ""
        reason = "the current directory has been deleted" if _is_in_deleted_directory() else error.strerror or error
        echo(f"codriver: {location}{reason}", err=True)
        status = FAILED_STATUS
    sys.exit(status if isinstance(status, int) else 0)


def _is_in_deleted_directory() -> bool:
    try:
        os.getcwd()  # noqa: PTH109  # only whether it raises
    except FileNotFoundError:
        return True
    return False
