"""`codriver watch`: follow the output log in the terminal, or show it on a page in a browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codriver.commands.log import Selection, follow_log, selection_options
from codriver.commands.options import color_option, json_option, workspace_option
from codriver.commands.terminal import say
from codriver.errors import CodriverError
from codriver.features.page.page_redirect import write_redirect
from codriver.files.own_folders import page_redirect_file
from codriver.net import client

if TYPE_CHECKING:
    from pathlib import Path

CLOSES = (
    "Open it in a browser on this machine. The address works once, within ten minutes. "
    "The page closes ten minutes after nobody looks at it any more."
)
WEAKER = (
    "127.0.0.1 is the weaker choice: whatever other programs once served at the same address and port (pages, service "
    "workers) can read this page. Use it only where your browser cannot open the page's own name."
)
NO_BROWSER = "No browser could be started: open the address yourself."


@click.command("watch", short_help="Follow the output log, in the terminal or on a page.")
@selection_options
@click.option("--web", is_flag=True, help="Print the address of a page that shows it, for a browser on this machine.")
@click.option("--open", "opens", is_flag=True, help="With --web: open the page in your browser.")
@click.option(
    "--address",
    type=click.Choice(["127.0.0.1"]),
    help="With --web: the host in the address, for a browser that cannot open the page's own name. Weaker.",
)
@workspace_option
@color_option
@json_option
def watch_command(  # one argument an option
    *, selection: Selection, web: bool, opens: bool, address: str | None, workspace: Path, as_json: bool
) -> None:
    """Print the newest entries of the output log and go on with new ones, as `codriver log --follow` does.

    With --web a page in a browser shows them.
    """
    workspace = workspace.resolve()
    if not web:
        if opens or address:
            raise click.UsageError("--open and --address belong to --web")
        follow_log(workspace, selection, as_json=as_json)
        return
    if selection != Selection() or as_json:
        raise click.UsageError("--web takes no options that select entries, nor --json: the page has fields for that")
    if opens and address:
        raise click.UsageError("--open works with the page's own name only: leave one of --open and --address out")
    _show_page(workspace, address or "", opens=opens)


class NoPageError(CodriverError):
    """The server cannot open its page."""


def page_address(workspace: Path, host: str = "") -> str:
    """Return an address that opens the page of the workspace's server once.

    `host`: the host in the address, `""` for the page's own name.

    Raises:
        NoServerError: there is no server.
        NoPageError: the server cannot open its page.
    """
    answer = client.ask_for_page(workspace, host)
    address = answer.get("address")
    if not isinstance(address, str):
        raise NoPageError(str(answer.get("problem") or "the server gave no address: restart it"))
    return address


def _show_page(workspace: Path, host: str, *, opens: bool) -> None:
    say(page_address(workspace, host))
    say(CLOSES, err=True)
    if host:
        say(WEAKER, err=True)
    if opens:
        import webbrowser  # noqa: PLC0415  # only for this

        # A code of its own, in a file: others can read the command line of the browser.
        file = page_redirect_file(workspace)
        write_redirect(file, page_address(workspace, host))
        if not webbrowser.open(file.as_uri()):
            say(NO_BROWSER, err=True)
