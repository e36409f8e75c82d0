"""`codriver handoff`: summarize the work in the REPLs for the next person or agent.

The report comes from the running server, or from the logs of earlier servers if none is running.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from codriver.commands.options import json_option, workspace_option
from codriver.commands.runs import open_memory
from codriver.commands.terminal import convert_field_errors, echo, echo_json
from codriver.files.codriver_paths import history_file
from codriver.log.control_characters import escape_controls
from codriver.net import client

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.log.log_entries import Entry

SEARCH_TIMEOUT_S = 5.0
"""Maximum duration of the search for names in source files."""
NO_LOG_MESSAGE = "nothing has been recorded in this workspace yet"
"""Message for a workspace without any log."""


@click.command("handoff", short_help="Summarize the work so far, for whoever takes over.")
@click.option("--who", metavar="WHO", default="", help="Include what others have done since this caller's last call.")
@workspace_option
@json_option
def handoff_command(*, who: str, workspace: Path, as_json: bool) -> None:
    """Summarize the work in the REPLs, in at most 4,000 bytes, for an agent or a person who takes over.

    Lists goals and checkpoints, failing tests, errors and whether they were fixed, definitions that are not in any
    file, running evaluations and connected clients. Without a running server, the summary comes from the logs of
    earlier ones.
    """
    workspace = workspace.resolve()
    try:
        with client.connect(workspace, name="codriver-handoff") as connection, convert_field_errors("resources/read"):
            uri = f"codriver://handoff?who={quote(who, safe='')}"
            text = str(connection.request("resources/read", {"uri": uri})["contents"][0]["text"])
    except client.NoServerError:
        echo("codriver: no server is running, so this summary is from the records of earlier ones", err=True)
        text = _read_from_logs(workspace, who) or NO_LOG_MESSAGE
    if as_json:
        echo_json({"handoff": text})
    else:
        echo(escape_controls(text), hang=2)


def _read_from_logs(workspace: Path, who: str) -> str:
    """Return the handoff for the caller `who`, created from the logs of earlier servers."""
    from codriver.features.handoff.defined_names import names_on_disk  # noqa: PLC0415  # only without a server
    from codriver.features.handoff.report import LiveState, render_handoff  # noqa: PLC0415  # as above
    from codriver.features.handoff.work_story import read_story  # noqa: PLC0415  # as above
    from codriver.repls.kinds import dialects_by_suffix  # noqa: PLC0415  # as above

    story = read_story(_log_entries(workspace), {})
    defined = {name for step in story.steps for name in step.names}
    on_disk = names_on_disk(workspace, defined, tuple(dialects_by_suffix()), SEARCH_TIMEOUT_S)
    return render_handoff(story, LiveState(now=time.time_ns() // 1_000_000, on_disk=on_disk), who)


def _log_entries(workspace: Path) -> tuple[Entry, ...]:
    """Return the entries in the logs of earlier servers. See `merge_earlier_runs`."""
    from codriver.log.history import NewerFormatError, UnreadableError, read_history  # noqa: PLC0415  # as above
    from codriver.log.log_entries import Entry  # noqa: PLC0415  # as above
    from codriver.log.output_log import merge_earlier_runs  # noqa: PLC0415  # as above

    known = [Entry.from_record(record) for record in open_memory(workspace).snapshot().records]
    try:
        code = read_history(history_file(workspace))
    except (NewerFormatError, UnreadableError, OSError) as error:
        echo(f"codriver: cannot read the history: {error}", err=True)
        code = ()
    return merge_earlier_runs(known, code)
