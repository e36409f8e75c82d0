"""The option `--follow` of `codriver call`: print the events of a stream that `watch_app` starts, as they come."""

from __future__ import annotations

import copy
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.call import call_tool, connected, exit_status, read_arguments
from codriver.commands.options import chosen_workspace
from codriver.commands.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FOLLOW = click.Option(["--follow", "-f"], is_flag=True, help="With watch_app: keep printing events as they arrive.")


def extended(command: click.Command) -> click.Command:
    """Return a copy of `codriver call` with this option, which stands before `--json`."""
    found, callback = copy.copy(command), command.callback
    assert callback is not None  # noqa: S101  # it is a function with decorators
    at = [one.name for one in command.params].index("as_json")
    found.params = [*command.params[:at], FOLLOW, *command.params[at:]]
    found.callback = partial(_call, callback)
    return found


def _call(
    call: Callable[..., Any],
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
        call(tool=tool, arguments=arguments, start=start, workspace=workspace, as_json=as_json)
        return
    given = read_arguments(arguments)
    begins_stream = tool == "watch_app" and given.get("topic") is not None and given.get("stop") is None
    if follow and not begins_stream:
        raise click.UsageError("--follow requires watch_app with a topic; `codriver log --follow` prints everything")
    with connected(chosen_workspace(workspace, is_quiet=as_json).resolve(), start=start) as connection:
        answer = call_tool(connection, tool, given, as_json=as_json)
        if follow and answer.get("ok"):
            from codriver.features.applications.followed_streams import (  # noqa: PLC0415  # few calls follow anything
                follow_stream,
            )

            sys.exit(follow_stream(connection, answer, given["topic"], as_json=as_json))
    if begins_stream and answer.get("ok"):
        echo("the stream ended with this command; use --follow to keep it open and print its events", err=True)
    sys.exit(exit_status(answer))
