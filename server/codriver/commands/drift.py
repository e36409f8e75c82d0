"""`codriver drift`: where the loaded code differs from the files, for people and for CI.

Exit status: 0 nothing differs, 1 something does, or it cannot be told, and else as `codriver eval`.
"""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already

import click

from codriver.commands.answer_reading import reading
from codriver.commands.call import FAILED, connected, exit_status, explained, session_option
from codriver.commands.options import json_option, workspace_option
from codriver.commands.terminal import say, say_json
from codriver.log.control_characters import one_line


@click.command(
    "drift",
    short_help="Say where loaded code differs from its files.",
    epilog="Exit status: 0 nothing differs, 1 something does, 2 wrong usage, 3 no server.",
)
@session_option
@workspace_option
@json_option
def drift_command(*, session: str | None, workspace: Path, as_json: bool) -> None:
    """Say where the code that the REPL has loaded differs from its files, and what of a former load lives on.

    Definitions that were edited since, redefined in the REPL, or are only in one of both. Comments do not count.
    """
    with connected(workspace.resolve(), start=False) as connection:
        answer = connection.call("what_changed", {"replSessionKey": session} if session else {})
    if as_json:
        say_json(answer, indent=2)
    elif not answer.get("ok"):
        for line in explained(answer):
            say(line, err=True)
    else:
        with reading("what_changed"):
            lines = [one_line(line) for line in answer["differences"]] or ["what is loaded is what the files say"]
        for line in lines:
            say(line)
    sys.exit(exit_status(answer) or (FAILED if answer.get("count") else 0))
