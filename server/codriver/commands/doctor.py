"""`codriver doctor`: check the setup and suggest a fix for each problem."""

from __future__ import annotations

import sys
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already
from typing import Any

import click

from codriver.commands.options import color_option, json_option, quiet_option, workspace_option
from codriver.commands.terminal import Styled, echo, echo_json, waiting_line
from codriver.errors import StartError
from codriver.net import client

REPORT_INDENT = 16
"""The indent of wrapped lines in the report from `init`."""
COLOR_BY_TONE = {"ok": "green", "note": "yellow", "wrong": "red", "fix": "cyan"}
"""The colors used in the doctor's report."""


@click.command("doctor", short_help="Find problems in the setup, and suggest fixes.")
@workspace_option
@quiet_option("Print only errors and notes.")
@color_option
@json_option
def doctor_command(*, workspace: Path, is_quiet: bool, as_json: bool) -> None:
    """Check everything that has to work together, and suggest a fix for each problem.

    This covers versions, settings, skills, the server, the port file, the relay, clients, permissions, and REPLs with
    their capabilities. Nothing is changed, and no program is started except the relay, which runs briefly. A note is
    not an error, but reports something that may be unexpected. The exit status is 1 if something is wrong.
    """
    from codriver.app.features import doctor_checks  # noqa: PLC0415  # as above
    from codriver.app.workspace_settings import settings_model  # noqa: PLC0415  # as above
    from codriver.setup.doctor import diagnose  # noqa: PLC0415  # only this command needs it
    from codriver.setup.doctor_checks import CLIENT_NAME  # noqa: PLC0415  # as above
    from codriver.setup.environment import Environment  # noqa: PLC0415  # as above
    from codriver.setup.relay_launch import Launch  # noqa: PLC0415  # as above

    def call_tool(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            with client.connect(workspace.resolve(), name=CLIENT_NAME) as connection:
                return connection.call(tool, arguments)
        except client.NoServerError as error:
            raise StartError(error.why) from error  # the doctor gives advice of its own

    with waiting_line(lambda: "checking the installation by trying the relay, the interpreters and the clients"):
        machine = Environment.current()
        launch = Launch.current(workspace).with_shared_command(machine)
        report = diagnose(launch, call_tool, machine, settings_model=settings_model(), of_features=doctor_checks())
    if as_json:
        echo_json(report.to_json(), indent=2)
    else:
        parts = [
            Styled(text, fg=COLOR_BY_TONE.get(tone), bold=tone == "head")
            for tone, text in report.parts(is_brief=is_quiet)
        ]
        echo(*parts, end="" if is_quiet else "\n", hang=report.indent)
    sys.exit(report.exit_status)
