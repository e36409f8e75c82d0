"""`codriver handoff`: how things stand in the REPLs, for an agent or a person who takes over.

The report comes from a running server, else from the memory of the workspace.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from codriver.commands.options import json_option, workspace_option
from codriver.commands.runs import memory_of
from codriver.commands.terminal import reading, say, say_json
from codriver.files.own_folders import history_file
from codriver.log.control_characters import visible
from codriver.net import client

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.log.output_log import Entry

SEARCH_S = 5.0
NOTHING = "nothing is remembered of this workspace yet"


@click.command("handoff", short_help="Say how things stand, for who takes over.")
@click.option("--who", metavar="WHO", default="", help="For this caller: what others did since its last call, too.")
@workspace_option
@json_option
def handoff_command(*, who: str, workspace: Path, as_json: bool) -> None:
    """Say how things stand in the REPLs, in 4,000 bytes at most, for an agent or a person who takes over.

    Goals and checkpoints, tests that are red, what failed and how it ended, definitions that are in no file, what runs
    and who is here. Where no server runs it is told from what earlier ones left.
    """
    workspace = workspace.resolve()
    try:
        with client.connect(workspace, name="codriver-handoff") as connection, reading("resources/read"):
            uri = f"codriver://handoff?who={quote(who, safe='')}"
            text = str(connection.request("resources/read", {"uri": uri})["contents"][0]["text"])
    except client.NoServerError:
        say("codriver: no server runs here: this is what earlier ones left", err=True)
        text = _told_without_server(workspace, who) or NOTHING
    if as_json:
        say_json({"handoff": text})
    else:
        say(visible(text), hang=2)


def _told_without_server(workspace: Path, who: str) -> str:
    """The handoff from the files on disk."""
    from codriver.features.handoff.defined_names import names_on_disk  # noqa: PLC0415  # only without a server
    from codriver.features.handoff.report import Present, compose  # noqa: PLC0415  # as above
    from codriver.features.handoff.work_story import read_story  # noqa: PLC0415  # as above
    from codriver.repls.kinds import dialects_by_suffix  # noqa: PLC0415  # as above

    story = read_story(_entries(workspace), {})
    defined = {name for step in story.steps for name in step.names}
    on_disk = names_on_disk(workspace, defined, tuple(dialects_by_suffix()), SEARCH_S)
    return compose(story, Present(now=time.time_ns() // 1_000_000, on_disk=on_disk), who)


def _entries(workspace: Path) -> tuple[Entry, ...]:
    """The entities that earlier runs left: see `earlier_runs`."""
    from codriver.log.history import NewerFormatError, UnreadableError, read_history  # noqa: PLC0415  # as above
    from codriver.log.output_log import Entry, earlier_runs  # noqa: PLC0415  # as above

    known = [Entry.from_record(record) for record in memory_of(workspace).snapshot().records]
    try:
        code = read_history(history_file(workspace))
    except (NewerFormatError, UnreadableError, OSError) as error:
        say(f"codriver: the history cannot be read: {error}", err=True)
        code = ()
    return earlier_runs(known, code)
