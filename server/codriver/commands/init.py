"""`codriver init`: add Codriver to the configuration of MCP clients."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already
from typing import TYPE_CHECKING

import click

from codriver.commands.doctor import REPORT_INDENT
from codriver.commands.options import complete_client, exact_workspace_option
from codriver.commands.terminal import echo
from codriver.files.codriver_paths import relay_file
from codriver.log.control_characters import escape_to_one_line
from codriver.net import relay_install

if TYPE_CHECKING:
    from codriver.settings.layers import WithheldSetting
    from codriver.setup.environment import Environment
    from codriver.setup.init import InitOptions, Report
    from codriver.setup.relay_launch import Launch, Scope


@click.command("init")
@exact_workspace_option
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_client,
    help="Configure this client even if it was not found, or pass `all` for all clients. Can be repeated.",
)
@click.option(
    "--scope",
    type=click.Choice(["workspace", "user"]),
    help=(
        "Whether to write to the workspace's configuration file or to your own. Default: the workspace's, if the "
        "client has one."
    ),
)
@click.option(
    "--toolset",
    type=click.Choice(["default", "full"]),
    help="Whether clients get the default tools or all of them. The choice is written to codriver.toml.",
)
@click.option("--dry-run", is_flag=True, help="Show the changes without making them.")
@click.option(
    "--force",
    is_flag=True,
    help=(
        "Replace existing entries that differ, write this machine's paths into shared files, and allow your home "
        "directory or `/` as the workspace."
    ),
)
@click.option(
    "--remove",
    is_flag=True,
    help="Remove everything that this command wrote. With --client, remove only what it wrote for that client.",
)
@click.option(
    "--approve",
    is_flag=True,
    help="Let clients run every tool, and thus any code, without asking you. This works for Gemini CLI, Qwen Code "
    "and Codex. To revoke it, run the command with --force and without this option.",
)
@click.option(
    "--skills",
    is_flag=True,
    help="Also write the skills as files for agents, in .agents/skills and .claude/skills. --remove --skills removes "
    "only these files.",
)
@click.option(
    "--agents-md",
    is_flag=True,
    help=(
        "Also write six lines about the REPL to AGENTS.md, between markers. --remove --agents-md removes only these "
        "lines."
    ),
)
@click.option(
    "--hooks",
    is_flag=True,
    help="Also install hooks for Claude Code, Codex, Gemini CLI, Qwen Code, Copilot CLI, Cursor, Cline and opencode: "
    "they log edits, and report Lisp code that cannot be read. --remove --hooks removes only the hooks.",
)
@click.option(
    "--list",
    "is_listing",
    is_flag=True,
    help="List all clients, whether each is found and configured, and when it was last connected. Nothing is changed.",
)
def init_command(  # noqa: PLR0913  # one argument an option
    *,
    workspace: Path,
    clients: tuple[str, ...],
    scope: Scope | None,
    toolset: str | None,
    dry_run: bool,
    force: bool,
    remove: bool,
    approve: bool,
    skills: bool,
    agents_md: bool,
    hooks: bool,
    is_listing: bool,
) -> None:
    """Add codriver to the configuration of your MCP clients.

    This finds out which REPL the project has and which clients are used in this workspace or installed on this machine,
    and adds an entry to each client's own file. Everything else in the file stays unchanged, including comments. An
    entry that differs is only replaced with --force. Files in the workspace, which a team may share, contain
    `codriver-relay` or `uvx` instead of paths on this machine. If codriver can start the project's REPL, the REPL is
    written to `codriver.toml`. The workspace is then accepted as by `codriver trust`, unless its settings require
    something that only you may grant. Codriver's first answers to each client are stored, so that the client's first
    session has the tools immediately.

    Clients: claude-code, vscode, cursor, claude-desktop, windsurf, gemini, codex, zed, eca, opencode, copilot, cline,
    cline-vscode, qwen, visual-studio, junie, kiro, roo, kilo, amp, warp, lm-studio, droid, auggie, crush. `--hooks`
    also installs hooks for the clients that support them, and leaves other hooks in their files unchanged. For these
    clients, the entries are printed for pasting: goose, continue, github (the Copilot cloud agent).

    Exit status: 0 ok, 1 an entry was refused or a file could not be written, 2 wrong usage.
    """
    from codriver.net import seen_clients  # noqa: PLC0415  # only needed here
    from codriver.setup.client_list import render_client_table  # noqa: PLC0415  # as above
    from codriver.setup.environment import Environment  # noqa: PLC0415  # as above
    from codriver.setup.init import InitOptions, check_is_project  # noqa: PLC0415  # as above
    from codriver.setup.printed_clients import printed_entries  # noqa: PLC0415  # as above
    from codriver.setup.relay_launch import Launch  # noqa: PLC0415  # as above

    machine = Environment.current()
    launch = Launch.current(workspace).with_shared_command(machine)
    if is_listing:
        echo(render_client_table(launch, machine, seen_clients.read_last_connections()))
        return
    if not (force or remove):
        check_is_project(workspace.resolve(), machine.home)
    if not dry_run:
        relay_install.install_relay(relay_install.shipped_relay_directory(), relay_file())
    printed, written = printed_entries(clients, launch, remove=remove)
    if printed:
        echo(printed)
    if clients and not written:
        return
    options = InitOptions(written, scope, dry_run, force, remove, approve, toolset, skills, agents_md, hooks)
    sys.exit(_write_entries(workspace.resolve(), launch, options, machine))


def _write_entries(workspace: Path, launch: Launch, options: InitOptions, machine: Environment) -> int:
    """Write the entries for clients, accept the workspace, and return the exit status."""
    from codriver.app import features  # noqa: PLC0415  # as above
    from codriver.setup.init import run_init  # noqa: PLC0415  # as above

    withheld, messages = _find_withheld(workspace)
    report = run_init(launch, options, machine, features.project_finders())
    echo(report.text, hang=None if options.dry_run else REPORT_INDENT)
    for message in messages:
        echo(
            f"codriver: no server can start in this workspace until this is fixed: {escape_to_one_line(message)}",
            err=True,
        )
    if options.remove and not (options.dry_run or options.is_partial or options.clients):
        _revoke_acceptance(workspace)
    if not options.dry_run and not options.remove:
        _accept(workspace, withheld)
        _store_lists(workspace, report)
    return report.exit_status or int(bool(messages) and not options.remove)


def _find_withheld(workspace: Path) -> tuple[tuple[WithheldSetting, ...] | None, tuple[str, ...]]:
    """Return the settings that the user has not accepted yet.

    Returns None and the error messages if the settings are invalid.
    """
    from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # only needed here
    from codriver.settings.layers import SettingsError  # noqa: PLC0415  # only needed here

    try:
        return load_workspace_settings(workspace, environ=os.environ).withheld, ()
    except SettingsError as error:
        return None, error.messages


def _revoke_acceptance(workspace: Path) -> None:
    from codriver.app import stored_answers  # noqa: PLC0415  # only needed here
    from codriver.settings import acceptance_records  # noqa: PLC0415  # as above

    stored_answers.remove_stored_lists(workspace)
    if acceptance_records.revoke_acceptance(workspace):
        echo(f"{escape_to_one_line(str(workspace))}: no longer accepted. To accept it again, run `codriver trust`")


def _accept(workspace: Path, withheld: tuple[WithheldSetting, ...] | None) -> None:
    """Accept the workspace, unless its settings already contain something that only the user may grant."""
    from codriver.app.workspace_settings import load_workspace_settings  # noqa: PLC0415  # as above
    from codriver.settings.acceptance import accept_workspace  # noqa: PLC0415  # only needed here
    from codriver.settings.layers import withheld_message  # noqa: PLC0415  # as above

    for setting in withheld or ():
        echo(f"codriver: {withheld_message(setting, workspace)}", err=True)
    if withheld == ():
        accept_workspace(workspace, load_workspace_settings(workspace, environ=os.environ), os.environ)


def _store_lists(workspace: Path, report: Report) -> None:
    """Store the answers that the configured clients request first, so that their first session has the tools."""
    from codriver.app.first_answers import store_first_answers  # noqa: PLC0415  # only needed here
    from codriver.settings.layers import SettingsError  # noqa: PLC0415  # as above

    with suppress(SettingsError, OSError):  # already reported, and no server can start
        store_first_answers(workspace, report.greetings)
