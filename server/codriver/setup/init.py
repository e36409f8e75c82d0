"""The implementation of `codriver init`, which configures clients for a workspace or removes the configuration.

A removal also deletes directories that were created for clients' files, if they are empty. The report names the
programs that a project's REPL requires, and what a linked working tree has of its own. `--list` reports for each client
whether it was found, is configured, and has been connected.
"""

from __future__ import annotations

import json
import os
import re
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from codriver import files
from codriver.errors import StartError
from codriver.files import FileRules, Links, toml_file
from codriver.files.codriver_paths import state_directory, workspace_state_directory
from codriver.files.toml_file import TomlFileError
from codriver.files.working_trees import main_checkout
from codriver.repls import kinds
from codriver.repls.launch.projects import (
    Project,
    find_projects,
    find_python,
    is_python_default,
    port_files_with_port,
    projects_below,
)
from codriver.setup.agent_files import AgentFileOptions, plan_agent_files
from codriver.setup.change_plan import Change, apply_change, format_diff, plan_entries, plan_removal, read_file
from codriver.setup.client_hooks import plan_hooks, plan_hooks_removal
from codriver.setup.clients import detect_clients, known_clients, select_clients
from codriver.setup.environment import Environment, path_exists
from codriver.setup.printed_clients import printed_clients
from codriver.setup.relay_launch import Launch, Scope
from codriver.setup.shared_command import RELAY_COMMAND
from codriver.systems.programs import grant_access_command, quote_command_line
from codriver.wire.untrusted import mapping_or_empty
from codriver_relay.workspace_search import is_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from codriver.setup.clients import Client

    FindProject = Callable[[Path, Mapping[str, str]], Project | None]
    """Returns a project that is preferred to a plain Python project: see `Feature.project`."""

WORKSPACE_MARK: Final = (
    "# Codriver's settings. While this file is here, codriver-relay --workspace auto finds this folder.\n"
)
"""Content of a `codriver.toml` whose only purpose is to mark the workspace."""
ANY_IMAGE_DIRECTORY: Final = "~/.local/state/codriver/workspaces/*/pictures"
"""The placeholder in `clients.toml` for the directories of image files; see `codriver.log.image_files`."""
CODRIVER_LINES_ONLY: Final = re.compile(r'(?:repl = \["[\w-]+"\]\n)?(?:toolset = "\w+"\n)?')
"""Matches a file that contains only lines written by this command."""
TOOLSET_LINE: Final = re.compile(r"^toolset[ \t]*=.*\n?", re.MULTILINE)
"""Matches the line that sets the toolset."""
COLUMN_TITLES = ("client", "--client", "found", "last connected", "entry")
"""The column titles of the list of clients."""


@dataclass(frozen=True, slots=True)
class InitOptions:
    """The options for `codriver init`.

    Without `clients`, all clients used in the workspace or installed on the machine are configured.
    """

    clients: Sequence[str] = ()
    scope: Scope | None = None
    dry_run: bool = False
    force: bool = False
    remove: bool = False
    approve: bool = False
    """Whether to let clients run all tools without asking, if they have such a setting."""
    toolset: str | None = None
    """The toolset to write to `codriver.toml`, or None to leave it unchanged."""
    skills: bool = False
    """Whether to also write skills as files. With `remove`, only the parts named this way are removed."""
    agents_md: bool = False
    """Whether to also write the block in AGENTS.md. See `skills` for removal."""
    hooks: bool = False
    """Whether to also install hooks. See `skills` for removal."""
    start_repl: bool = True
    """Whether to write the REPL to start to `codriver.toml`, if the project has one and none is running."""

    @property
    def is_partial(self) -> bool:
        """Return whether only some parts are removed, because the user named them."""
        return self.remove and (self.skills or self.agents_md or self.hooks)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `codriver init`: the text to print, and the exit status, which is 1 if a change was refused."""

    text: str
    changes: tuple[Change, ...]
    exit_status: int
    greetings: tuple[tuple[str, str], ...] = ()
    """The name and the MCP version of each configured client, as it sends them to a server."""


def run_init(
    launch: Launch, options: InitOptions, environment: Environment, finders: Sequence[FindProject] = ()
) -> Report:
    """Configure clients for `launch.workspace`, or remove their configuration.

    The clients will start the relay at `launch.relay`, which the caller must install, except in a dry run.

    Raises:
        UnknownClientError: a named client is unknown.
        NoSuchScopeError: a client has no file in the requested scope.
        StartError: the workspace cannot be read.
    """
    _check_readable(launch.workspace)
    lacking = _clients_without_scope(options)
    chosen = tuple(client for client in select_clients(options.clients) if client not in lacking)
    clients = chosen or detect_clients(launch.workspace, environment)
    planner = plan_removal if options.remove else partial(plan_entries, approve=options.approve)
    if not options.clients:
        # These clients were not named explicitly, so ignore those without a file in the scope.
        clients = tuple(client for client in clients if options.scope in (None, *client.scopes))
    entered = () if options.is_partial else clients
    changes = planner(entered, launch, environment, scope=options.scope, force=options.force)
    projects = () if options.remove else find_projects(launch.workspace)
    if projects[:1] and projects[0].repl == kinds.PYTHON_KIND.repl:
        others = (find(launch.workspace, environment.variables) for find in finders)
        projects = (*filter(None, others), *projects)
    lines = [f"workspace  {launch.workspace}"]
    if not options.remove:
        lines += describe_linked_tree(launch.workspace, environment.variables)
        lines += _describe_projects(projects, launch.workspace, environment)
        repl = _repl_line(projects, launch.workspace, environment) if options.start_repl else ""
        lines += _approval_lines(clients) if options.approve else []
        settings = _plan_settings(launch.workspace, repl, options.toolset)
        changes = (*(settings or _plan_marker_file(launch, changes)), *changes)
    elif not options.is_partial:
        changes = (*changes, *_plan_marker_removal(launch, clients, environment, changes))
    changes = (*changes, *_plan_for_agents(launch.workspace, options))
    hooked = _plan_hooks(clients, launch, environment, options, changes)
    if not clients:
        known = ", ".join(known_clients())
        lines.append(f"clients    none found; choose one with --client: {known}")
    report_lines, applied, failed = _apply_changes((*changes, *hooked), options)
    report_lines += [f"{client.title:<15} skipped: it has no file for the scope {options.scope}" for client in lacking]
    lines += ["", *report_lines] if report_lines else []
    lines += _next_steps(applied[: len(changes)], applied[len(changes) :], options, launch, environment)
    if options.remove and not options.is_partial:
        lines += _other_scope_lines(clients, launch, environment, options)
    greetings = tuple((client.greets[0], client.greets[1]) for client in clients if client.greets)
    return Report("\n".join(lines) + "\n", tuple(applied), int(failed), greetings)


def _plan_hooks(
    clients: Sequence[Client],
    launch: Launch,
    environment: Environment,
    options: InitOptions,
    planned: Sequence[Change],
) -> tuple[Change, ...]:
    """Return the requested changes to hooks. If entries are removed, hooks are removed too."""
    if options.remove and (options.hooks or not options.is_partial):
        # A client that is no longer found may have left hooks.
        others = clients if options.clients else known_clients().values()
        changes = plan_hooks_removal(others, launch, planned=planned)
        is_reported = options.hooks and options.clients
        return changes if is_reported else tuple(change for change in changes if change.state != "absent")
    if options.remove or not options.hooks:
        return ()
    return plan_hooks(clients, launch, environment, scope=options.scope, planned=planned, force=options.force)


def _plan_for_agents(workspace: Path, options: InitOptions) -> tuple[Change, ...]:
    """Return the requested changes to files for agents. A removal that names no files removes all of them.

    These files are shared by all clients, so they stay if only one client or only the user's files are cleaned up.
    """
    if options.remove and not options.is_partial:
        is_all = not options.clients and options.scope != "user"
        chosen = AgentFileOptions(skills=is_all, agents_md=is_all, remove=True, is_named=False)
    else:
        chosen = AgentFileOptions(options.skills, options.agents_md, options.remove, options.force)
    return plan_agent_files(workspace, chosen)


class NotAProjectError(StartError):
    """Raised when the workspace is a directory that contains other projects, such as the home directory."""


def check_is_project(workspace: Path, home: Path) -> None:
    """Check that the workspace is neither the home directory nor above it. All projects in it would share a server.

    Raises:
        NotAProjectError: the workspace is the root, the home directory, or one of its parents.
    """
    home = home.resolve()
    if workspace in (home, workspace.parent, *home.parents):
        what = "your home directory" if workspace == home else "a directory above your projects"
        raise NotAProjectError(
            f"{workspace} is {what}, so its server would serve everything in it: run `codriver init` in a project, or "
            "with --force if that is intended"
        )


def _check_readable(workspace: Path) -> None:
    try:
        os.listdir(workspace)  # noqa: PTH208  # `iterdir` would not raise before it is iterated
    except OSError as error:
        raise StartError(
            f"{workspace} cannot be read: {error.strerror}; run `{grant_access_command(workspace)}` if it is "
            "yours, or choose another --workspace"
        ) from error


def _approval_lines(clients: Sequence[Client]) -> list[str]:
    """Return a line for each client that describes what `--approve` permits."""
    lines = []
    for client in clients:
        keys = ", ".join(f"{key} = {json.dumps(value)}" for key, value in client.approval.items())
        remark = f"{keys} lets its agent run every tool of codriver, including any code, without asking you"
        lines.append(
            f"approve    {client.title}: {remark if keys else 'its entry has no such setting; allow it in the client'}"
        )
    return lines


def _describe_projects(projects: Sequence[Project], workspace: Path, environment: Environment) -> list[str]:
    lines = [f"project    {project.kind} ({project.evidence})" for project in projects]
    lines += [
        f"below      {below.kind} ({below.evidence}): codriver init in that folder gives it a server of its own"
        for below in projects_below(workspace)
    ]
    named = _named_repls(workspace) or {}
    if not projects:
        lines.insert(0, "project    none recognized")
        if not named and not port_files_with_port(workspace):
            lines.append(
                "REPL       codriver starts its embedded Python REPL"
                if is_python_default(workspace)
                else 'REPL       none is started: start one, or write repl = ["python"], or another, into codriver.toml'
            )
    lines += [
        f"REPL       running, according to {file}; codriver connects to it" for file in port_files_with_port(workspace)
    ]
    for key, value in named.items():
        does = "codriver starts" if key == "repl" else "codriver connects to"
        values = ", ".join(map(str, value)) if isinstance(value, list) else value
        lines.append(f"REPL       {does} {values}, as the workspace's settings say")
    if projects and not named and not port_files_with_port(workspace):
        first = projects[0]
        lines.append(f"REPL       {first.repl}; by hand: codriver serve --repl {first.repl}")
        if not can_start(first, workspace, environment):
            lines.append(f"           {first.programs[0]} is not installed: install it, or start the REPL yourself")
    return lines


def _repl_line(projects: Sequence[Project], workspace: Path, environment: Environment) -> str:
    """Return the line for `codriver.toml` that starts the project's REPL, or "" if none is needed.

    No line is needed if the settings already name a REPL.
    """
    if not projects or port_files_with_port(workspace):
        return ""  # a running REPL will be found
    if not can_start(projects[0], workspace, environment) or _has_repl_setting(workspace):
        return ""
    return f'repl = ["{projects[0].repl}"]\n'


def _plan_settings(workspace: Path, repl_line: str, toolset: str | None) -> tuple[Change, ...]:
    """Return the change to `codriver.toml` for the REPL to start and the requested toolset."""
    if not repl_line and toolset is None:
        return ()
    file = workspace / "codriver.toml"
    before = read_file(file, workspace)
    text = (before or "").removeprefix("\ufeff")
    if toolset is not None:
        text = TOOLSET_LINE.sub("", text, count=1)
    line = "" if toolset is None else f'toolset = "{toolset}"\n'
    # Keys without a table must come before the first table.
    after = repl_line + line + text
    if after == (before or "").removeprefix("\ufeff"):
        return ()
    next_step = (
        "to use another REPL, change repl in codriver.toml"
        if repl_line
        else "toolset in codriver.toml determines which tools clients get"
    )
    return (Change("codriver", file, "add", before, after, next=next_step, root=workspace),)


def _plan_marker_file(launch: Launch, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return the creation of `codriver.toml` if `--workspace auto` would not find the workspace without it."""
    needs_mark = launch.shared and any(change.is_pending and change.root is not None for change in changes)
    if not needs_mark or is_workspace(str(launch.workspace)):
        return ()
    return (Change("codriver", launch.workspace / "codriver.toml", "add", None, WORKSPACE_MARK, root=launch.workspace),)


def _plan_marker_removal(
    launch: Launch, clients: Sequence[Client], environment: Environment, changes: Sequence[Change]
) -> tuple[Change, ...]:
    """Return the removal of `codriver.toml` if only `init` has written to it and no other client needs it."""
    file = launch.workspace / "codriver.toml"
    try:
        before = read_file(file, launch.workspace)
    except (OSError, UnicodeDecodeError):
        before = None
    is_mark = before == WORKSPACE_MARK or (before is not None and CODRIVER_LINES_ONLY.fullmatch(before) is not None)
    cleared = {change.file for change in changes if change.state == "remove" and change.root is not None}
    others = [client for client in known_clients().values() if "workspace" in client.scopes and client not in clients]
    left = plan_removal(others, launch, environment, scope="workspace")
    if not is_mark or not cleared or any(change.state == "remove" and change.file not in cleared for change in left):
        return ()
    return (Change("codriver", file, "remove", before, None, root=launch.workspace),)


def _has_repl_setting(workspace: Path) -> bool:
    """Return whether the workspace's settings name a REPL. Also return True if they cannot be read."""
    named = _named_repls(workspace)
    return named is None or bool(named)


def _named_repls(workspace: Path) -> dict[str, object] | None:
    """Return the workspace's settings that name REPLs, or None if the settings cannot be read."""
    try:
        workspace_settings, project = (
            toml_file.read_toml(workspace / name, root=workspace) for name in ("codriver.toml", "pyproject.toml")
        )
    except TomlFileError:
        return None
    layers = (mapping_or_empty(mapping_or_empty(project.get("tool")).get("codriver")), workspace_settings)
    return {key: value for layer in layers for key, value in layer.items() if key in ("repl", "nrepl")}


_ACTION_WORDS = {
    "add": ("add to", "added to"),
    "replace": ("replace in", "replaced in"),
    "remove": ("remove from", "removed from"),
    "same": ("already in", "already in"),
    "absent": ("not in", "not in"),
    "refused": ("refused:", "refused:"),
    "skipped": ("skipped:", "skipped:"),
}
"""Words for what is or was done to an entry, in a dry run and otherwise."""


def _apply_changes(changes: Sequence[Change], options: InitOptions) -> tuple[list[str], list[Change], bool]:
    """Apply the changes, unless in a dry run. A failed change does not prevent the others.

    Return lines for the report, the applied changes, and whether any change failed.
    """
    lines, applied, failed = [], [], False
    named = {client.title for client in select_clients(name for name in options.clients if name != "all")}
    for planned in changes:
        change = planned if options.dry_run else _apply_change(planned)
        applied.append(change)
        action = _ACTION_WORDS[change.state][0 if options.dry_run else 1]
        if reason := "; ".join(part for part in (change.reason, change.fix) if part):
            failed |= change.state != "skipped" or change.title in named
            lines.append(f"{change.title:<15} {action} {change.file}: {reason}")
        else:
            lines.append(f"{change.title:<15} {action} {change.file}")
        if options.dry_run and (patch := format_diff(change)):
            lines.append(patch.rstrip("\n"))
    return lines, applied, failed


def _apply_change(change: Change) -> Change:
    """Apply a change, and record the directories created for it.

    Return the change. Its state is `refused` if it failed.
    """
    made = missing_parents(change.file) if change.is_pending else ()
    try:
        apply_change(change)
    except StartError as error:
        return replace(change, state="refused", reason=str(error), fix="", next="")
    if made:
        record_created_directories(made)
    if change.is_pending and change.after is None:
        remove_empty_parents(change.file)
    return change


def _clients_without_scope(options: InitOptions) -> tuple[Client, ...]:
    """Return the clients that only `all` includes and that have no file in the requested scope."""
    if "all" not in options.clients or options.scope is None:
        return ()
    unnamed = [client for name, client in known_clients().items() if name not in options.clients]
    return tuple(client for client in unnamed if options.scope not in client.scopes)


def _next_steps(
    changes: Sequence[Change],
    hooked: Sequence[Change],
    options: InitOptions,
    launch: Launch,
    environment: Environment,
) -> list[str]:
    if options.dry_run:
        return ["", "Nothing was written: this was a dry run."] if changes or hooked else []
    image_directory = (workspace_state_directory(launch.workspace) / "pictures").as_posix()
    steps = [
        f"{change.title}: {change.next.replace(ANY_IMAGE_DIRECTORY, image_directory)}"
        for change in changes
        if change.next
    ]
    entries = [change.file for change in changes if change.is_pending and change.file.suffix != ".md"]
    entries = [file for file in entries if file.name != "codriver.toml"]
    inside = [file for file in entries if file.is_relative_to(launch.workspace)]
    shared = [file.relative_to(launch.workspace).as_posix() for file in inside]
    steps += [f"{change.title}: {change.next}" for change in hooked if change.next]
    if not steps:
        return []
    if shared and not options.remove:
        steps += _sharing_advice(", ".join(dict.fromkeys(shared)), launch, environment)
    return ["", "next", *(f"  {step}" for step in steps), "  codriver doctor checks the result"]


def _sharing_advice(names: str, launch: Launch, environment: Environment) -> list[str]:
    """Return advice about files in the workspace that may be shared with a team."""
    is_in_git = (launch.workspace / ".git").exists()
    if launch.shared:
        needs = "uv" if launch.shared[0] == "uvx" else f"{RELAY_COMMAND[0]} on their PATH"
        advice = f"{names} contains no path of this machine and may be committed; " if is_in_git else ""
        program = environment.which(launch.shared[0])
        if program and (Path(program).parents[1] / "pyvenv.cfg").is_file():
            needs += f": here {Path(program).parents[1]} has it, so start clients where that environment is active"
        return [f"{'git: ' if advice else ''}{advice}everyone who works on the project needs {needs}"]
    if is_in_git:
        return [f"git: {names} contains paths of this machine; do not commit it, or have everybody run init"]
    if launch.shared is None:
        return []
    advice = (
        f"{names} names paths of this machine: before you share it, have {RELAY_COMMAND[0]} on the PATH, as by pipx"
    )
    return [
        f"{advice} or `uv tool install`, and run init again; --scope user writes your own file, where a client has one"
    ]


def _other_scope_lines(
    clients: Sequence[Client], launch: Launch, environment: Environment, options: InitOptions
) -> list[str]:
    """Return lines about entries that remain in another scope, with the command that removes them."""
    lines: list[str] = []
    for scope in get_args(Scope):
        others = [c for c in clients if scope in c.scopes and scope != (options.scope or c.scopes[0])]
        left = [
            (client, change)
            for client in others
            for change in plan_removal([client], launch, environment, scope=scope)
            if change.state == "remove"
        ]
        if left:
            named = " ".join(f"--client {client.id}" for client, _ in left)
            lines += ["", *(f"{change.title:<15} an entry remains in {change.file}" for _, change in left)]
            workspace_option = (
                "" if launch.workspace == Path.cwd() else f" --workspace {quote_command_line([str(launch.workspace)])}"
            )
            lines.append(
                f"  codriver init --remove --scope {scope} {named}{workspace_option} also removes {_pronoun(left)}"
            )
    return lines


def _pronoun(several: Sequence[object]) -> str:
    return "it" if len(several) == 1 else "them"


RECORD_NAME: Final = "made-folders.json"
RECORD_RULES: Final = FileRules(Links.OF_USER, files.MEBIBYTE, is_granting=True)
"""Rules for reading the record. Directories in it may be removed, so it must belong to the user."""


def missing_parents(file: Path) -> tuple[Path, ...]:
    """Return the parent directories of a file that do not exist, innermost first."""
    missing: list[Path] = []
    for directory in file.parents:
        if os.path.lexists(directory):
            break
        missing.append(directory)
    return tuple(missing)


def record_created_directories(directories: Iterable[Path]) -> None:
    """Record that `init` created these directories, so that they can be removed later. Errors are ignored."""
    names = {str(directory) for directory in directories if directory.is_dir()}
    recorded = _read_record()
    if not names <= recorded:
        _write_record(recorded | names)


def remove_empty_parents(file: Path) -> None:
    """Remove the parent directories of a removed file that `init` created and that are empty."""
    recorded = _read_record()
    removed: set[str] = set()
    for directory in file.parents:
        if str(directory) not in recorded or not _remove_if_empty(directory):
            break
        removed.add(str(directory))
    if removed:
        _write_record(recorded - removed)


def _remove_if_empty(directory: Path) -> bool:
    """Remove a directory if it is empty and not a link, and return whether it was removed."""
    try:
        with files.locate(directory, Links.OF_USER, is_last_followed=False) as entry:
            entry.remove_directory()
    except OSError:
        return False
    return True


def _read_record() -> set[str]:
    found = files.read_json(state_directory() / RECORD_NAME, RECORD_RULES)
    return {name for name in found if isinstance(name, str)} if isinstance(found, list) else set()


def _write_record(directories: set[str]) -> None:
    text = json.dumps(sorted(directories))
    try:
        path = state_directory() / RECORD_NAME
        files.replace(path, text.encode("ascii"), links=Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
    except OSError:
        return  # then the directory will not be removed later


_PROGRAM_DIRECTORIES: Final = ("node_modules/.bin", ".venv/bin", "venv/bin")
"""Directories for a project's programs that are not on the PATH."""


def can_start(project: Project, workspace: Path, environment: Environment) -> bool:
    """Return whether the program for a project's REPL is installed. Python and Basilisp need none."""
    return not project.programs or any(_has_program(name, workspace, environment) for name in project.programs)


def _has_program(name: str, workspace: Path, environment: Environment) -> bool:
    if environment.has_command(name):
        return True
    return any(path_exists(workspace / directory / name) for directory in _PROGRAM_DIRECTORIES)


def describe_linked_tree(workspace: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield lines about what a linked working tree does not share with the main one. Yields nothing for others."""
    main = main_checkout(workspace)
    if main is None:
        return
    yield f"tree       linked to {main}, with a server, REPLs, log and history of its own"
    if any(path_exists(workspace / mark) for mark in kinds.PYTHON_KIND.marks):
        python = find_python(workspace, environ)
        yield f"Python     {python.whose}"
        if python.caution or python.remark:
            yield "           run `python3 -m venv .venv` and install the project's packages to give it one of its own"


def render_client_table(launch: Launch, environment: Environment, seen: Mapping[str, int]) -> str:
    """Return a table of all known clients, and where they are configured for `launch.workspace`.

    `seen` has the time of each client's last connection to any server, in seconds since the epoch.
    """
    rows = [COLUMN_TITLES, *(_client_row(client, launch, environment, seen) for client in known_clients().values())]
    printed = [
        (client.title, client.id, "?", _format_time(seen.get(client.id))) for client in printed_clients().values()
    ]
    rows += [(*cells, "not searched for: --client prints one") for cells in printed]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMN_TITLES))]
    return "\n".join(_format_row(row, widths) for row in rows) + "\n"


def _format_row(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()


def _client_row(client: Client, launch: Launch, environment: Environment, seen: Mapping[str, int]) -> tuple[str, ...]:
    is_found = client.is_used_in(launch.workspace) or client.is_installed(environment)
    found = "yes" if is_found else "no"
    return (
        client.title,
        client.id,
        found,
        _format_time(seen.get(client.who)),
        _describe_entries(client, launch, environment),
    )


def _format_time(when: int | None) -> str:
    """Format a time in the local time zone. None becomes "never"."""
    return "never" if when is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(when))


def _describe_entries(client: Client, launch: Launch, environment: Environment) -> str:
    """Return where a client's entries are, including entries that differ and files that cannot be read."""
    found: list[str] = []
    for scope in client.scopes:
        (change,) = plan_entries([client], launch, environment, scope=scope)
        path = _display_path(change.file, launch.workspace, environment.home)
        if change.state == "same":
            found.append(f"in {path}")
        elif change.state == "replace":
            found.append(f"{path}: an older entry with paths of this machine")
        elif change.state == "refused":
            found.append(f"{path}: {change.reason}")
    return ", ".join(found) or "none"


def _display_path(file: Path, workspace: Path, home: Path) -> str:
    """Return a path relative to the workspace or the home directory, if possible."""
    if file.is_relative_to(workspace):
        return str(file.relative_to(workspace))
    return f"~/{file.relative_to(home)}" if file.is_relative_to(home) else str(file)
