"""`codriver doctor`: check the setup and suggest a fix for each problem."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already
from typing import Any

import click

from codriver.commands.options import color_option, json_option, quiet_option, workspace_option
from codriver.commands.terminal import Styled, echo, echo_json, patience
from codriver.errors import StartError
from codriver.net import client

REPORT_HANG = 16
"""The indent of wrapped lines in the report of `init`."""
TONES = {"ok": "green", "note": "yellow", "wrong": "red", "fix": "cyan"}
"""The colours used in the doctor's report."""


@click.command("doctor", short_help="Find out what is wrong, and what mends it.")
@workspace_option
@quiet_option("Print only what is wrong or may surprise.")
@color_option
@json_option
def doctor_command(*, workspace: Path, is_quiet: bool, as_json: bool) -> None:
    """Look at everything that has to fit together, and say what mends what does not.

    Versions, settings, skills, server, port file, relay, clients, permissions, REPLs and what each of them can do.
    Changes nothing, and starts nothing but the relay, for a moment. A note works and may surprise; what is wrong
    gives the exit status 1.
    """
    from codriver.app.workspace_settings import settings_model  # noqa: PLC0415  # as above
    from codriver.setup.clients import Environment, Launch  # noqa: PLC0415  # as above
    from codriver.setup.doctor import diagnose  # noqa: PLC0415  # only this command needs it
    from codriver.setup.doctor_checks import NAME  # noqa: PLC0415  # as above

    def call_tool(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            with client.connect(workspace.resolve(), name=NAME) as connection:
                return connection.call(tool, arguments)
        except client.NoServerError as error:
            raise StartError(error.why) from error  # the doctor gives advice of its own

    with patience(lambda: "looking at the installation: the relay, the interpreters and the clients are tried"):
        machine = Environment.current()
        launch = Launch.current(workspace).with_shared(machine)
        report = diagnose(launch, call_tool, machine, settings_model=settings_model())
    if as_json:
        echo_json(report.to_json(), indent=2)
    else:
        parts = [
            Styled(text, fg=TONES.get(tone), bold=tone == "head") for tone, text in report.parts(is_brief=is_quiet)
        ]
        echo(*parts, end="" if is_quiet else "\n", hang=report.indent)
    sys.exit(report.exit_status)
