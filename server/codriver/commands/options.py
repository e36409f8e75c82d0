"""Options that several commands share, and shell completion: the words for a shell, `codriver completion`."""

from __future__ import annotations

import contextlib
import os
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from codriver.commands.terminal import COLOUR, reading, say
from codriver.errors import CodriverError
from codriver.files.own_folders import server_directory
from codriver.log.control_characters import one_line
from codriver.net import client, server_record

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
"""The type of options that name a workspace."""


class Whole(click.IntRange):
    """A whole number in a range; messages about another value call it so."""

    name = "whole number"


class Number(click.FloatRange):
    """A number in a range; messages about another value call it so."""

    name = "number"


def workspace_option(function: F) -> F:
    """`--workspace DIR`, the one given before the command by default, else the nearest from the current folder upward.

    A workspace above is named on standard error, unless the command prints JSON, or is about all workspaces.
    """

    @wraps(function)
    def run(*given: object, workspace: Path | None, **others: object) -> object:
        is_quiet = any(map(others.get, ("as_json", "is_quiet", "is_every")))
        return function(*given, workspace=chosen_workspace(workspace, is_quiet=is_quiet), **others)

    return cast("F", _option("The workspace folder; by default the nearest, from the current one upward.")(run))


def chosen_workspace(given: Path | None, *, is_quiet: bool = False) -> Path:
    """Return the workspace of a command: as `given`, else as before the command, else the nearest one.

    A workspace above the current directory is named on standard error, unless `is_quiet`.
    """
    found = given or _before(click.get_current_context())
    if found is not None:
        return found
    above = workspace_above(Path.cwd())
    if above is not None and not is_quiet:
        say(f"codriver: this is in the workspace {one_line(str(above))}", err=True)
    return above or Path()


def exact_workspace_option(function: F) -> F:
    """`--workspace DIR` for commands that make a directory a workspace: the current directory by default."""

    @wraps(function)
    def run(*given: object, workspace: Path | None, **others: object) -> object:
        return function(*given, workspace=workspace or _before(click.get_current_context()) or Path(), **others)

    return cast("F", _option("The workspace folder; the current one by default.")(run))


def _option(text: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    return click.option("--workspace", "-w", type=FOLDER, help=text)


def _before(ctx: click.Context) -> Path | None:
    """Return the workspace that stands before the command."""
    given = ctx.find_root().params.get("workspace")
    return given if isinstance(given, Path) else None


def workspace_above(folder: Path) -> Path | None:
    """The nearest folder above `folder` that is a workspace; None if there is none, or `folder` itself is one.

    A workspace has, or had, a server, or has `codriver.toml` or a project file, or is a linked working tree of git,
    whatever checkout it lies in. A folder beyond the user's own ground is no workspace: the home folder, folders for
    temporary files, those of other users or to which others may write, and whatever is above these.
    """
    if _is_workspace(folder):
        return None
    from codriver.files.working_trees import is_linked_tree  # noqa: PLC0415  # where a server runs, nobody looks
    from codriver_relay.target import is_border  # noqa: PLC0415  # as above; the relay has the same rule

    if is_linked_tree(folder) or is_border(str(folder)):
        return None
    for above in folder.parents:
        if is_border(str(above)):
            return None
        if _is_workspace(above) or is_linked_tree(above):
            return above
    return None


def _is_workspace(folder: Path) -> bool:
    if server_record.lock_status(server_directory(folder)) is not None:
        return True
    from codriver.repls.kinds import project_marks  # noqa: PLC0415  # where a server runs, nobody looks

    return any(os.path.isfile(folder / name) for name in ("codriver.toml", *project_marks()))  # noqa: PTH113  # `is_file` raises where it may not look


def python_option(function: F) -> F:
    """`--python PATH` of commands that start fresh REPLs."""
    words = "Interpreter of the fresh REPL; by default the server's, else that of the project."
    return click.option("--python", default="", metavar="PATH", help=words)(function)


def color_option(function: F) -> F:
    """`--color`, which `codriver.commands.terminal` respects."""

    def keep(ctx: click.Context, _param: click.Parameter, choice: str) -> None:
        ctx.meta[COLOUR] = choice

    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        expose_value=False,
        is_eager=True,
        callback=keep,
        help="Colours; auto: on a terminal, unless NO_COLOR is set, or anywhere with FORCE_COLOR.",
    )(function)


def quiet_option(text: str) -> Callable[[F], F]:
    """`--quiet`, with the words on what it leaves out."""
    return click.option("--quiet", "-q", "is_quiet", is_flag=True, help=text)


STRICT = "strict"
"""The choice by which a picture reproduces only by the same bytes."""
pictures_option = click.option(
    "--pictures",
    type=click.Choice(["alike", STRICT]),
    default="alike",
    help="When a picture reproduces: of the same kind and pixels (alike, which is said), or of the same bytes.",
)


PICTURE = "<<image/"
"""The beginning of the mark in place of a picture: see `codriver.core.pictures`."""


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of the running server's sessions with this beginning."""
    del param
    keys: list[str] = []
    with contextlib.suppress(CodriverError, OSError), reading("list_sessions"), _server(ctx) as connection:
        keys = [str(row["key"]) for row in connection.call("list_sessions", {}).get("sessions", [])]
    return _completing(keys, incomplete)


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the tools now on offer with this beginning."""
    del param
    names: list[str] = []
    with contextlib.suppress(CodriverError, OSError), reading("tools/list"), _server(ctx) as connection:
        tools: list[dict[str, Any]] = connection.request("tools/list", {}).get("tools", [])
        names = [str(tool["name"]) for tool in tools]
    return _completing(names, incomplete)


def complete_client(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the clients that `init` knows, with this beginning."""
    del ctx, param
    from codriver.setup.clients import known_clients, printed_clients  # noqa: PLC0415  # only this completion needs it

    return [name for name in (*known_clients(), *printed_clients(), "all") if name.startswith(incomplete)]


def _completing(words: list[str], incomplete: str) -> list[str]:
    """Return the words with this beginning.

    A shell shows them unchanged, so words with control characters are left out.
    """
    return [word for word in words if word.startswith(incomplete) and word == one_line(word)]


def _server(ctx: click.Context) -> client.Connection:
    workspace = ctx.params.get("workspace") or _before(ctx) or workspace_above(Path.cwd()) or Path()
    return client.connect(Path(workspace).resolve(), name="codriver-completion")


VARIABLE = "_CODRIVER_COMPLETE"


@click.command("completion", short_help="Print the tab completion for a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print what SHELL reads to complete commands, options, session keys, tool names and clients.

    \b
    bash  in ~/.bashrc:  eval "$(codriver completion bash)"
    zsh   in ~/.zshrc:   eval "$(codriver completion zsh)"
    fish  codriver completion fish > ~/.config/fish/completions/codriver.fish
    """  # noqa: D301  # click knows a paragraph that it leaves as it is by the character itself
    from click.shell_completion import get_completion_class  # noqa: PLC0415  # only this command needs it

    completion = get_completion_class(shell)
    assert completion is not None  # noqa: S101  # the choices are the shells there are
    # Its source() asks the installed bash for its version; the text alone serves all shells alike.
    script = completion.source_template % completion(ctx.find_root().command, {}, "codriver", VARIABLE).source_vars()
    say(script)
