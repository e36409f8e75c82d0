"""Add the option `--follow` to `codriver call`. It prints the events of a stream started by `watch_app`."""

from __future__ import annotations

import copy
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.call import call_tool, connect_to_server, exit_status, read_arguments
from codriver.commands.options import resolve_workspace
from codriver.commands.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOLLOW_OPTION = click.Option(
    ["--follow", "-f"], is_flag=True, help="With watch_app: keep the stream open, and print events as they arrive."
)


def extend_command(command: click.Command) -> click.Command:
    """Return a copy of `codriver call` with the option `--follow` before `--json`."""
    copied, callback = copy.copy(command), command.callback
    assert callback is not None  # noqa: S101  # it is a function with decorators
    index = [parameter.name for parameter in command.params].index("as_json")
    copied.params = [*command.params[:index], FOLLOW_OPTION, *command.params[index:]]
    copied.callback = partial(_call, callback)
    return copied


def _call(
    original: Callable[..., Any],
    /,
    *,
    tool: str,
    arguments: str,
    start: bool,
    workspace: Path | None,
    follow: bool,
    as_json: bool,
) -> None:
    if tool != "watch_app" and not follow:
        original(tool=tool, arguments=arguments, start=start, workspace=workspace, as_json=as_json)
        return
    parsed = read_arguments(arguments)
    starts_stream = tool == "watch_app" and parsed.get("topic") is not None and parsed.get("stop") is None
    if follow and not starts_stream:
        raise click.UsageError(
            "--follow requires watch_app with a topic. To print everything, use `codriver log --follow`"
        )
    with connect_to_server(resolve_workspace(workspace, is_quiet=as_json).resolve(), start=start) as connection:
        answer = call_tool(connection, tool, parsed, as_json=as_json)
        if follow and answer.get("ok"):
            from codriver.features.applications.followed_streams import (  # noqa: PLC0415  # few calls follow anything
                follow_stream,
            )

            sys.exit(follow_stream(connection, answer, parsed["topic"], as_json=as_json))
    if starts_stream and answer.get("ok"):
        echo("the stream ended with this command. To keep it open and print its events, use --follow", err=True)
    sys.exit(exit_status(answer))
