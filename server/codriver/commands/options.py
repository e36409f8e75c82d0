"""Command line options shared by several commands, and shell completion."""

from __future__ import annotations

import contextlib
import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from codriver.commands.terminal import COLOR_KEY, convert_field_errors, echo
from codriver.errors import CodriverError
from codriver.files.codriver_paths import server_directory
from codriver.log.control_characters import escape_to_one_line
from codriver.net import client, server_record

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")
DIRECTORY_TYPE = click.Path(exists=True, file_okay=False, path_type=Path)
"""The type of options that take a directory."""


class WholeNumberRange(click.IntRange):
    """A parameter type for an integer in a range. Error messages call it a whole number."""

    name = "whole number"


class Number(click.FloatRange):
    """A parameter type for a float in a range. Error messages call it a number."""

    name = "number"


def workspace_option(function: F) -> F:
    """Add the option `--workspace` to a command.

    It defaults to the nearest workspace at or above the current directory. If that is above the current directory, its
    path is printed to standard error, unless the command prints JSON or concerns all workspaces.
    """

    @wraps(function)
    def run(*given: object, workspace: Path | None, **others: object) -> object:
        is_quiet = any(map(others.get, ("as_json", "is_quiet", "is_every")))
        return function(*given, workspace=resolve_workspace(workspace, is_quiet=is_quiet), **others)

    return cast("F", _option("The workspace folder. Default: the nearest one at or above the current folder.")(run))


def resolve_workspace(given: Path | None, *, is_quiet: bool = False) -> Path:
    """Return the workspace given with the option, or the nearest one at or above the current directory.

    The option may be given before or after the command. If the workspace is above the current directory, its path is
    printed to standard error, unless `is_quiet` is true.
    """
    found = given or _workspace_before_command(click.get_current_context())
    if found is not None:
        return found
    above = workspace_above(Path.cwd())
    if above is not None and not is_quiet:
        echo(f"codriver: using the workspace {escape_to_one_line(str(above))}", err=True)
    return above or Path()


def exact_workspace_option(function: F) -> F:
    """Add the option `--workspace` to a command that may create a workspace. It defaults to the current directory."""

    @wraps(function)
    def run(*given: object, workspace: Path | None, **others: object) -> object:
        return function(
            *given, workspace=workspace or _workspace_before_command(click.get_current_context()) or Path(), **others
        )

    return cast("F", _option("The workspace folder. Default: the current directory.")(run))


def _option(text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    return click.option("--workspace", "-w", type=DIRECTORY_TYPE, help=text)


def _workspace_before_command(ctx: click.Context) -> Path | None:
    """Return the value of a `--workspace` option that was given before the command, or None."""
    given = ctx.find_root().params.get("workspace")
    return given if isinstance(given, Path) else None


def workspace_above(directory: Path) -> Path | None:
    """Return the nearest workspace above a directory, or None if there is none or the directory is itself a workspace.

    A workspace has or had a server, has `codriver.toml` or a project file, or is a linked git working tree. The search
    ends at directories that do not belong to the user alone: the home directory, directories for temporary files, those
    of other users, and those that others may write to.
    """
    if _is_workspace(directory):
        return None
    from codriver.files.working_trees import is_linked_tree  # noqa: PLC0415  # not needed if a server is running
    from codriver_relay.workspace_search import is_search_boundary  # noqa: PLC0415  # as above; the relay uses the same rule

    if is_linked_tree(directory) or is_search_boundary(str(directory)):
        return None
    for above in directory.parents:
        if is_search_boundary(str(above)):
            return None
        if _is_workspace(above) or is_linked_tree(above):
            return above
    return None


def _is_workspace(directory: Path) -> bool:
    if server_record.lock_status(server_directory(directory)) is not None:
        return True
    from codriver.repls.kinds import project_file_names  # noqa: PLC0415  # not needed if a server is running

    return any(os.path.isfile(directory / name) for name in ("codriver.toml", *project_file_names()))  # noqa: PTH113  # `Path.is_file` raises if permission is denied


def python_option(function: F) -> F:
    """Add the option `--python` to a command that starts new REPLs."""
    words = "The interpreter of the fresh REPL. Default: the server's if one is running, otherwise the project's."
    return click.option("--python", default="", metavar="PATH", help=words)(function)


def color_option(function: F) -> F:
    """Add the option `--color` to a command. `codriver.commands.terminal` reads it from the context."""

    def store_choice(ctx: click.Context, _param: click.Parameter, choice: str) -> None:
        ctx.meta[COLOR_KEY] = choice

    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        expose_value=False,
        is_eager=True,
        callback=store_choice,
        help=(
            "Whether to use colors. `auto` uses them on a terminal unless NO_COLOR is set, and always if FORCE_COLOR "
            "is set."
        ),
    )(function)


def quiet_option(text: str) -> Callable[[F], F]:
    """Return a decorator that adds the option `--quiet` with the given help text."""
    return click.option("--quiet", "-q", "is_quiet", is_flag=True, help=text)


STRICT_CHOICE = "strict"
"""The choice that requires an image to be reproduced byte for byte."""
images_option = click.option(
    "--pictures",
    type=click.Choice(["alike", STRICT_CHOICE]),
    default="alike",
    help="When an image counts as reproduced: `alike` compares its type and size in pixels, and `strict` its bytes.",
)


IMAGE_MARK_PREFIX = "<<image/"
"""The start of the marker that replaces an image: see `codriver.core.images`."""


def json_option(function: F) -> F:
    """Add the option `--json` to a command, which receives it as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the session keys of the running server that start with the incomplete word."""
    del param
    keys: list[str] = []
    with (
        contextlib.suppress(CodriverError, OSError),
        convert_field_errors("list_sessions"),
        _connect(ctx) as connection,
    ):
        keys = [str(row["key"]) for row in connection.call("list_sessions", {}).get("sessions", [])]
    return _filter_completions(keys, incomplete)


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of available tools that start with the incomplete word."""
    del param
    names: list[str] = []
    with contextlib.suppress(CodriverError, OSError), convert_field_errors("tools/list"), _connect(ctx) as connection:
        tools: list[dict[str, Any]] = connection.request("tools/list", {}).get("tools", [])
        names = [str(tool["name"]) for tool in tools]
    return _filter_completions(names, incomplete)


def complete_client(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of clients known to `init` that start with the incomplete word."""
    del ctx, param
    from codriver.setup.clients import known_clients  # noqa: PLC0415  # as above
    from codriver.setup.printed_clients import printed_clients  # noqa: PLC0415  # only needed here

    return [name for name in (*known_clients(), *printed_clients(), "all") if name.startswith(incomplete)]


def _filter_completions(words: list[str], incomplete: str) -> list[str]:
    """Return the words that start with `incomplete`.

    Words with control characters are left out, because shells print them unchanged.
    """
    return [word for word in words if word.startswith(incomplete) and word == escape_to_one_line(word)]


def _connect(ctx: click.Context) -> client.Connection:
    workspace = ctx.params.get("workspace") or _workspace_before_command(ctx) or workspace_above(Path.cwd()) or Path()
    return client.connect(Path(workspace).resolve(), name="codriver-completion")


COMPLETION_VARIABLE = "_CODRIVER_COMPLETE"
"""Environment variable with which a shell requests completions."""


@click.command("completion", short_help="Print the completion script for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, options, session keys, tool names and clients.

    \b
    bash  in ~/.bashrc:  eval "$(codriver completion bash)"
    zsh   in ~/.zshrc:   eval "$(codriver completion zsh)"
    fish  codriver completion fish > ~/.config/fish/completions/codriver.fish
    """  # noqa: D301  # click needs the character itself to keep the paragraph as it is
    from click.shell_completion import get_completion_class  # noqa: PLC0415  # only this command needs it

    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101  # the choices are the shells there are
    # Its `source()` would run bash to check the version, which this does not need.
    script = (
        completion.source_template
        % completion(ctx.find_root().command, {}, "codriver", COMPLETION_VARIABLE).source_vars()
    )
    echo(script)
