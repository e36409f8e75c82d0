"""The options of `codriver watch` that open the page: `--web`, `--open` and `--address`."""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from codriver.commands.options import resolve_workspace
from codriver.commands.terminal import echo
from codriver.errors import CodriverError
from codriver.features.page import PAGE_REQUEST
from codriver.features.page.page_redirect import redirect_file, write_redirect
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

USAGE_NOTE = (
    "Open this address in a browser on this machine. It works only once, and only within ten minutes. The server "
    "closes the page ten minutes after its last tab is closed."
)
"""The explanation printed below the address: how to use the page, and when it closes."""
LOOPBACK_WARNING = (
    "127.0.0.1 is less secure: pages and service workers that other programs served earlier on the same address and "
    "port can read this page. Use it only if your browser cannot resolve the page's own host name."
)
NO_BROWSER_MESSAGE = "No browser could be started. Open the address in a browser yourself."
OPTIONS = (
    click.Option(
        ["--web"],
        is_flag=True,
        help="Print the address of a page that displays the log, for a browser on this machine.",
    ),
    click.Option(["--open", "opens"], is_flag=True, help="With --web: open the page in your browser."),
    click.Option(
        ["--address"],
        type=click.Choice(["127.0.0.1"]),
        help=(
            "With --web: the host to use in the address, for a browser that cannot resolve the page's own host name. "
            "This is less secure."
        ),
    ),
)
"""The options that this feature adds to `codriver watch`."""


def extend_command(command: click.Command) -> click.Command:
    """Return a copy of `codriver watch` with the page's options inserted before `--workspace`."""
    found, callback = copy.copy(command), command.callback
    assert callback is not None  # noqa: S101  # a decorated function always has one
    at = [parameter.name for parameter in command.params].index("workspace")
    found.params = [*command.params[:at], *OPTIONS, *command.params[at:]]
    found.callback = partial(_watch, callback)
    return found


def _watch(
    watch: Callable[..., Any], /, *, web: bool, opens: bool, address: str | None, workspace: Path | None, **given: Any
) -> None:
    """Run `codriver watch`, or print an address of the page if `--web` is given."""
    if not web:
        if opens or address:
            raise click.UsageError("--open and --address require --web")
        watch(workspace=workspace, **given)
        return
    context = click.get_current_context()
    if any(context.get_parameter_source(name) is ParameterSource.COMMANDLINE for name in given):
        raise click.UsageError(
            "--web cannot be combined with --json or with options that select entries. Select entries on the page "
            "instead"
        )
    if opens and address:
        raise click.UsageError("--open works only with the page's random host name. Omit --open or --address")
    _print_address(resolve_workspace(workspace).resolve(), address or "", opens=opens)


class NoPageError(CodriverError):
    """Raised when the server cannot open its page."""


def page_address(workspace: Path, host: str = "") -> str:
    """Return a single-use address for the page of the workspace's server.

    `host` is the host in the address. The default is the page's random name.

    Raises:
        NoServerError: no server is running.
        NoPageError: the server cannot open its page.
    """
    try:
        answer = client.send_request(workspace, PAGE_REQUEST, host)
    except client.ConnectionClosedError:
        answer = {}
    address = answer.get("address")
    if not isinstance(address, str):
        raise NoPageError(
            str(answer.get("problem") or "the server returned no address for the page. Restart the server")
        )
    return address


def _print_address(workspace: Path, host: str, *, opens: bool) -> None:
    echo(page_address(workspace, host))
    echo(USAGE_NOTE, err=True)
    if host:
        echo(LOOPBACK_WARNING, err=True)
    if opens:
        import webbrowser  # noqa: PLC0415  # needed only for this option

        # Write the address to a file, because other users can read the browser's command line.
        file = redirect_file(workspace)
        write_redirect(file, page_address(workspace, host))
        if not webbrowser.open(file.as_uri()):
            echo(NO_BROWSER_MESSAGE, err=True)
