"""`codriver watch`: follow the output log in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from codriver.commands.log import Selection, follow_log, selection_options
from codriver.commands.options import color_option, json_option, workspace_option

if TYPE_CHECKING:
    from pathlib import Path


@click.command("watch", short_help="Follow the output log.")
@selection_options
@workspace_option
@color_option
@json_option
def watch_command(*, selection: Selection, workspace: Path, as_json: bool) -> None:
    """Print the newest entries of the output log and then new ones, as `codriver log --follow` does."""
    follow_log(workspace.resolve(), selection, as_json=as_json)
