"""`codriver init`, `trust`, `doctor`, `config`, `seam`: setting a workspace up, and finding faults in it.

`seam` gives an application the package `codriver_seam`, by a path to it or as a copy in its project. Exit status of
`seam`: 1 if a copy would replace a file that Codriver did not write.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path  # noqa: TC003  # for the annotation alone, and loaded already
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.options import (
    FOLDER,
    color_option,
    complete_client,
    exact_workspace_option,
    json_option,
    quiet_option,
    workspace_option,
)
from codriver.commands.terminal import Styled, patience, say, say_json
from codriver.errors import StartError
from codriver.files.own_folders import relay_file
from codriver.log.control_characters import one_line
from codriver.net import client, relay_install

if TYPE_CHECKING:
    from codriver.settings.layers import Withheld
    from codriver.setup.clients import Environment, Launch, Scope
    from codriver.setup.init import InitOptions, Report


REPORT_HANG = 16
"""The column behind the names in the report of `init`."""
TONES = {"ok": "green", "note": "yellow", "wrong": "red", "fix": "cyan"}
"""The colours of the doctor's report."""


@click.command("init")
@exact_workspace_option
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_client,
    help="Set up this client, whether it is found or not; `all` for every one. Can be repeated.",
)
@click.option(
    "--scope",
    type=click.Choice(["workspace", "user"]),
    help="In the workspace's file or in the user's own; the workspace's by default where the client has one.",
)
@click.option(
    "--toolset",
    type=click.Choice(["full", "lean"]),
    help="Which tools clients get, written to codriver.toml: all, or five by which an agent reaches all.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace an entry that differs; write paths into shared files; set up your home directory or `/`, too.",
)
@click.option(
    "--remove", is_flag=True, help="Take out again all that it wrote; with --client only what is that client's."
)
@click.option(
    "--approve",
    is_flag=True,
    help="Let clients run every tool, any code included, without asking you, where an entry can say so: Gemini CLI, "
    "Qwen Code, Codex. --force without it takes it back.",
)
@click.option(
    "--skills",
    is_flag=True,
    help="Write the skills too, as files that agents read: .agents/skills and .claude/skills. --remove --skills takes "
    "only them out.",
)
@click.option(
    "--agents-md",
    is_flag=True,
    help="Write six lines on the REPL into AGENTS.md too, between marks. --remove --agents-md takes only them out.",
)
@click.option(
    "--hooks",
    is_flag=True,
    help="Install hooks too, for Claude Code, Codex, Gemini CLI, Qwen Code, Copilot CLI, Cursor, Cline and opencode: "
    "edits enter the log, Lisp that does not read is told. --remove --hooks takes only them out.",
)
@click.option(
    "--list",
    "is_listing",
    is_flag=True,
    help="List all clients: found or not, with an entry or not, and when each was last connected; change nothing.",
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
    """Write codriver into the configuration of your MCP clients.

    Looks which REPL the project has and which clients this workspace and this machine show signs of, and adds an entry
    to each client's own file; everything else in it stays, comments included. An entry that says something else is
    left alone without --force. Files in the workspace, which a team may share, name `codriver-relay` or `uvx` and no
    path of this machine. Where the project has a REPL that codriver can start, `codriver.toml` gets to name it.
    The workspace is then accepted as by `codriver trust`, unless its settings ask for what only you may grant.
    What the clients will be told first is kept, so that the first session of each has the tools at once.

    Clients: claude-code, vscode, cursor, claude-desktop, windsurf, gemini, codex, zed, eca, opencode, copilot, cline,
    cline-vscode, qwen, visual-studio, junie, kiro, roo, kilo, amp, warp, lm-studio, droid, auggie, crush.
    `--hooks` also installs hooks for the clients that have them; other hooks in their files stay.
    To be pasted, the entries of these are printed: goose, continue, github (the Copilot cloud agent).

    Exit status: 0 ok, 1 an entry was refused or a file could not be written, 2 wrong usage.
    """
    from codriver.net import seen_clients  # noqa: PLC0415  # only this command needs it
    from codriver.setup.clients import Environment, Launch, printed_entries  # noqa: PLC0415  # as above
    from codriver.setup.init import InitOptions, check_is_project, client_list  # noqa: PLC0415  # as above

    machine = Environment.here()
    launch = Launch.here(workspace).with_shared(machine)
    if is_listing:
        say(client_list(launch, machine, seen_clients.read()))
        return
    if not (force or remove):
        check_is_project(workspace.resolve(), machine.home)
    if not dry_run:
        relay_install.install_relay(relay_install.shipped_relay(), relay_file())
    printed, written = printed_entries(clients, launch, remove=remove)
    if printed:
        say(printed)
    if clients and not written:
        return
    options = InitOptions(written, scope, dry_run, force, remove, approve, toolset, skills, agents_md, hooks)
    sys.exit(_write_entries(workspace.resolve(), launch, options, machine))


def _write_entries(workspace: Path, launch: Launch, options: InitOptions, machine: Environment) -> int:
    """Write the entries of clients, accept the workspace, and give the exit status."""
    from codriver.setup.init import run_init  # noqa: PLC0415  # as above

    held, problems = _withheld(workspace)
    report = run_init(launch, options, machine)
    say(report.text, hang=None if options.dry_run else REPORT_HANG)
    for problem in problems:
        say(f"codriver: no server starts here until this is mended: {one_line(problem)}", err=True)
    if options.remove and not (options.dry_run or options.is_partial or options.clients):
        _take_back_acceptance(workspace)
    if not options.dry_run and not options.remove:
        _accept(workspace, held)
        _keep_lists(workspace, report)
    return report.exit_status or int(bool(problems) and not options.remove)


def _withheld(workspace: Path) -> tuple[tuple[Withheld, ...] | None, tuple[str, ...]]:
    """Return the workspace's settings that await acceptance; if none can be read, None and the reasons."""
    from codriver.app.workspace_settings import load  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import SettingsError  # noqa: PLC0415  # only this command needs it

    try:
        return load(workspace, environ=os.environ).withheld, ()
    except SettingsError as error:
        return None, error.problems


def _take_back_acceptance(workspace: Path) -> None:
    from codriver.app import kept_lists  # noqa: PLC0415  # only this command needs it
    from codriver.settings import trust  # noqa: PLC0415  # as above

    kept_lists.forget(workspace)
    if trust.forget(workspace):
        say(f"{one_line(str(workspace))}: accepted no more; `codriver trust` accepts it again")


def _accept(workspace: Path, held: tuple[Withheld, ...] | None) -> None:
    """Accept what `init` leaves, unless older settings grant something and nobody accepted them."""
    from codriver.app.workspace_settings import load  # noqa: PLC0415  # as above
    from codriver.settings.acceptance import accept_workspace  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import held_back  # noqa: PLC0415  # as above

    for one in held or ():
        say(f"codriver: {held_back(one, workspace)}", err=True)
    if held == ():
        accept_workspace(workspace, load(workspace, environ=os.environ), os.environ)


def _keep_lists(workspace: Path, report: Report) -> None:
    """Keep the first answers to the clients with an entry, so that the first session of each has its tools."""
    from codriver.app import first_session  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import SettingsError  # noqa: PLC0415  # as above

    with suppress(SettingsError, OSError):  # the errors were told; no server starts with them
        first_session.keep(workspace, report.greetings)


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

    def ask(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            with client.connect(workspace.resolve(), name=NAME) as connection:
                return connection.call(tool, arguments)
        except client.NoServerError as error:
            raise StartError(error.why) from error  # the doctor has its own advice

    with patience(lambda: "looking at the installation: the relay, the interpreters and the clients are tried"):
        machine = Environment.here()
        launch = Launch.here(workspace).with_shared(machine)
        report = diagnose(launch, ask, machine, settings_model=settings_model())
    if as_json:
        say_json(report.to_json(), indent=2)
    else:
        pieces = [
            Styled(text, fg=TONES.get(tone), bold=tone == "head") for tone, text in report.pieces(is_brief=is_quiet)
        ]
        say(*pieces, end="" if is_quiet else "\n", hang=report.indent)
    sys.exit(report.exit_status)


@click.group("config")
def config_command() -> None:
    """Show the settings, or check them."""


@config_command.command("show", short_help="Show every setting, its value, and its origin.")
@workspace_option
@json_option
def config_show(*, workspace: Path, as_json: bool) -> None:
    """Every setting, its value, and where it comes from, strongest last: user's file, workspace's file, environment.

    What was given to a running `codriver serve` on its command line is not seen here.
    """
    from codriver.app.workspace_settings import load  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import as_rows, held_back  # noqa: PLC0415  # only this command needs it

    workspace = workspace.resolve()
    loaded = load(workspace, environ=os.environ)
    rows = as_rows(loaded)
    for warning in (*loaded.warnings, *(held_back(line, workspace) for line in loaded.withheld)):
        say(f"codriver: {warning}", err=True)
    if as_json:
        say_json([dict(zip(("setting", "value", "origin"), row, strict=True)) for row in rows], indent=2)
        return
    rows = tuple((name, one_line(value), one_line(origin)) for name, value, origin in rows)
    width = max(len(row[0]) for row in rows)
    wide = max(len(row[1]) for row in rows)
    for name, value, origin in rows:
        if sys.stdout.isatty():  # a long value widens its own row alone
            say(f"{name:{width}}  {value}  {origin}", hang=width + 2)
        else:
            say(f"{name:{width}}  {value:{wide}}  {origin}")


@config_command.command("check")
@workspace_option
def config_check(*, workspace: Path) -> None:
    """Say all that is wrong with the settings, and whether your acceptance of them still counts.

    Exit status 1 when something is wrong.
    """
    from codriver.app.workspace_settings import load  # noqa: PLC0415  # only this command needs it
    from codriver.settings import trust  # noqa: PLC0415  # only this command needs it
    from codriver.settings.layers import SettingsError, held_back  # noqa: PLC0415  # only this command needs it

    workspace = workspace.resolve()
    try:
        loaded = load(workspace, environ=os.environ)
        lapsed = trust.environment_lapse(workspace, os.environ, loaded.settings.python)
        sentences = [held_back(one, workspace) for one in loaded.withheld]
        if lapsed is not None:
            sentences.append(trust.lapse_sentence(lapsed, workspace))
        problems = (*loaded.warnings, *sentences)
        usable = True
    except SettingsError as error:
        problems, usable = error.problems, False
    for problem in problems:
        say(problem, err=not usable)
    if not problems:
        say("the settings are fine")
    sys.exit(1 if problems else 0)


@click.command("trust", short_help="Accept this workspace's settings and environment.")
@exact_workspace_option
@click.option("--remove", is_flag=True, help="Take it back.")
@click.option("--list", "is_listing", is_flag=True, help="List the workspaces that you have accepted; change nothing.")
def trust_command(*, workspace: Path, remove: bool, is_listing: bool) -> None:
    """Accept this workspace's settings and its Python environment, as they are now.

    Anybody may have written `codriver.toml` and `[tool.codriver]` of pyproject.toml. Until you accept them, settings
    that would run a command, let others in, let edits out of the workspace or show agents the workspace's own skills do
    not count. A client that starts a server here starts no interpreter that lies in the workspace, either.
    `codriver config check` names what does not count.

    What you accept is kept outside the workspace. A setting that grants something has to be accepted again when it
    changes; other settings do not matter. The environment has to be accepted again when it becomes a link out of the
    workspace, belongs to another user or is tracked by git, but not when it is rebuilt.

    Exit status: 0 ok, 1 the files cannot be read or nothing could be kept, 2 wrong usage.
    """
    from codriver.settings import trust  # noqa: PLC0415  # only this command needs it

    if remove and is_listing:
        raise click.UsageError("--remove and --list exclude each other")
    if is_listing:
        _list_accepted()
    elif remove:
        was_there = trust.forget(workspace)
        say(f"{one_line(str(workspace.resolve()))}: {'accepted no more' if was_there else 'was not accepted'}")
    else:
        _accept_as_written(workspace.resolve())


def _list_accepted() -> None:
    from codriver.settings import trust  # noqa: PLC0415  # only this command needs it

    accepted = trust.list_accepted()
    for entry in accepted:
        say(one_line(entry.workspace) + ("" if entry.lapsed is None else f": lapsed, as {one_line(entry.lapsed)}"))
    if not accepted:
        say("you have accepted no workspace", err=True)


def _accept_as_written(workspace: Path) -> None:
    from codriver.app.workspace_settings import load  # noqa: PLC0415  # as above
    from codriver.settings.acceptance import accept_workspace  # noqa: PLC0415  # only this command needs it

    loaded = load(workspace, environ=os.environ)
    accept_workspace(workspace, loaded, os.environ)
    say(f"{one_line(str(workspace))}: accepted, with its settings and its environment as they are now")
    for one in loaded.withheld:
        say(f"  counts from now on: {one_line(str(one))}")


LINES = """\
    import codriver_seam
    codriver_seam.start_repl(True)  # or app.debug, or nothing, with CODRIVER_SEAM=1 in the environment"""


@click.group("seam", short_help="Give an application the seam, by which agents see its state.")
def seam_command() -> None:
    """Give an application the package codriver_seam, by which agents see its state and evaluate in it.

    It needs no installation: `path` is for PYTHONPATH or a classpath, `copy` puts it into a project.
    """


@seam_command.command("path", short_help="Print the folder for PYTHONPATH or the classpath.")
@click.argument("language", type=click.Choice(["python", "clojure"]))
def path_command(*, language: str) -> None:
    """Print the folder for PYTHONPATH or the classpath, and nothing else.

    \b
    PYTHONPATH="$(codriver seam path python)" flask --app shop run --debug
    nbb -cp "$(codriver seam path clojure):src" page.cljs

    The one for Python is among your caches, and holds codriver_seam alone: no dependency of Codriver's comes with it.
    """  # noqa: D301  # click knows a paragraph that it leaves as it is by the character itself
    from codriver.setup import seam_copy  # noqa: PLC0415  # help needs none of it

    say(str(seam_copy.python_path() if language == "python" else seam_copy.CLOJURE))


@seam_command.command("copy", short_help="Copy the seam into DIR/codriver_seam.")
@click.argument("folder", metavar="DIR", type=FOLDER)
def copy_command(*, folder: Path) -> None:
    """Copy the seam, with the REPL that start_repl starts, into DIR/codriver_seam, for any Python from 3.8 on.

    For a project whose Python is older than 3.11, or has no pip. Run it again to renew the copy. Files there that
    Codriver did not write, or that somebody has changed, are never replaced: then nothing is copied.
    """
    from codriver.setup import seam_copy  # noqa: PLC0415  # as above

    copied = seam_copy.copy_seam(folder)
    written = f"{len(copied.written)} file{'s' * (len(copied.written) != 1)} written"
    removed = f", {len(copied.removed)} of an earlier version removed" if copied.removed else ""
    say(f"{copied.package}: {written}, {len(copied.same)} there already{removed}")
    say(f"Where {copied.package.parent} is on the application's sys.path, these two lines are enough:")
    say(LINES)
    say(f"For Clojure, the classpath gets {copied.package / 'clojure'}.")
