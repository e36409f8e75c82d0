"""Options that several commands share, and completion: what a shell completes for them, `codriver completion`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from codriver.commands.answer_reading import reading
from codriver.commands.terminal import say
from codriver.errors import CodriverError
from codriver.log.control_characters import one_line
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., object]")
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
"""What a workspace is given as."""


def workspace_option(function: F) -> F:
    """`--workspace DIR`, the one given before the command by default, else the current folder."""
    return click.option(
        "--workspace",
        "-w",
        type=FOLDER,
        default=_given_before,
        help="The workspace folder; the current one by default.",
    )(function)


def _given_before() -> Path:
    """The workspace that stands before the command; the current folder when none does."""
    return _before(click.get_current_context())


def _before(ctx: click.Context) -> Path:
    given = ctx.find_root().params.get("workspace")
    return given if isinstance(given, Path) else Path()


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(function)


def complete_session(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The keys of the sessions of the running server that begin like this."""
    del param
    keys: list[str] = []
    with contextlib.suppress(CodriverError, OSError), reading("list_sessions"), _server(ctx) as connection:
        keys = [str(row["key"]) for row in connection.call("list_sessions", {}).get("sessions", [])]
    return _completing(keys, incomplete)


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The names of the tools now on offer that begin like this."""
    del param
    names: list[str] = []
    with contextlib.suppress(CodriverError, OSError), reading("tools/list"), _server(ctx) as connection:
        tools: list[dict[str, Any]] = connection.request("tools/list", {}).get("tools", [])
        names = [str(tool["name"]) for tool in tools]
    return _completing(names, incomplete)


def complete_client(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The clients that `init` knows."""
    del ctx, param
    from codriver.setup.clients import known_clients  # noqa: PLC0415  # only this completion needs it

    return [name for name in (*known_clients(), "all") if name.startswith(incomplete)]


def _completing(words: list[str], incomplete: str) -> list[str]:
    """The words that begin like this. A shell shows them as they are, so what is no plain text is left out."""
    return [word for word in words if word.startswith(incomplete) and word == one_line(word)]


def _server(ctx: click.Context) -> client.Connection:
    workspace = ctx.params.get("workspace") or _before(ctx)
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
