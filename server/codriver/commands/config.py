"""`codriver config`: show or check the settings."""

from __future__ import annotations

import os
import sys
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already

import click

from codriver.commands.options import json_option, workspace_option
from codriver.commands.terminal import echo, echo_json
from codriver.log.control_characters import escape_to_one_line


@click.group("config")
def config_command() -> None:
    """Show or check the settings."""


@config_command.command("show", short_help="Show every setting with its value and origin.")
@workspace_option
@json_option
def config_show(*, workspace: Path, as_json: bool) -> None:
    """Show every setting with its value and the source of the value.

    Later sources override earlier ones: your own file, the workspace's file, the environment. Options given to a
    running `codriver serve` are not included.
    """
    from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import setting_rows, withheld_message  # noqa: PLC0415  # only this command needs it

    workspace = workspace.resolve()
    loaded = load_workspace_settings(workspace, environ=os.environ)
    rows = setting_rows(loaded)
    for warning in (*loaded.warnings, *(withheld_message(line, workspace) for line in loaded.withheld)):
        echo(f"codriver: {warning}", err=True)
    if as_json:
        echo_json([dict(zip(("setting", "value", "origin"), row, strict=True)) for row in rows], indent=2)
        return
    rows = tuple((name, escape_to_one_line(value), escape_to_one_line(origin)) for name, value, origin in rows)
    width = max(len(row[0]) for row in rows)
    wide = max(len(row[1]) for row in rows)
    for name, value, origin in rows:
        if sys.stdout.isatty():  # a long value only widens its own row
            echo(f"{name:{width}}  {value}  {origin}", hang=width + 2)
        else:
            echo(f"{name:{width}}  {value:{wide}}  {origin}")


@config_command.command("check")
@workspace_option
def config_check(*, workspace: Path) -> None:
    """Report all errors in the settings, and whether your acceptance of them still applies.

    The exit status is 1 if anything is wrong.
    """
    from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # only this command needs it
    from codriver.settings import acceptance_records  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import SettingsError, withheld_message  # noqa: PLC0415  # only this command needs it

    workspace = workspace.resolve()
    try:
        loaded = load_workspace_settings(workspace, environ=os.environ)
        lapsed = acceptance_records.environment_lapse_reason(workspace, os.environ, loaded.settings.python)
        sentences = [withheld_message(setting, workspace) for setting in loaded.withheld]
        if lapsed is not None:
            sentences.append(acceptance_records.lapse_message(lapsed, workspace))
        findings = (*loaded.warnings, *sentences)
        usable = True
    except SettingsError as error:
        findings, usable = error.messages, False
    for finding in findings:
        echo(finding, err=not usable)
    if not findings:
        echo("the settings are valid")
    sys.exit(1 if findings else 0)
