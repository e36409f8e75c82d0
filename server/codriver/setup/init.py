"""The implementation of `codriver init`, which configures clients for a workspace or removes the configuration.

A removal also deletes directories that were created for clients' files, if they are empty. The report names the
programs that a project's REPL requires, and what a linked working tree does not share.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from codriver.errors import StartError
from codriver.files.codriver_paths import workspace_state_directory
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
from codriver.setup.change_plan import AUTO_REFUSAL, Change, apply_change, format_diff, plan_entries, plan_removal
from codriver.setup.client_hooks import plan_hooks, plan_hooks_removal
from codriver.setup.clients import detect_clients, known_clients, select_clients
from codriver.setup.codriver_toml import (
    has_repl_setting,
    named_repls,
    plan_marker_file,
    plan_marker_removal,
    plan_settings,
)
from codriver.setup.created_directories import missing_parents, record_created_directories, remove_empty_parents
from codriver.setup.environment import Environment, path_exists
from codriver.setup.relay_launch import Launch, Scope
from codriver.setup.shared_command import RELAY_COMMAND
from codriver.systems.programs import grant_access_command, quote_command_line
from codriver_relay.workspace_search import is_search_boundary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from codriver.setup.clients import Client

    FindProject = Callable[[Path, Mapping[str, str]], Project | None]
    """Returns a project that is preferred to a plain Python project: see `Feature.project`."""

ANY_IMAGE_DIRECTORY: Final = "~/.local/state/codriver/workspaces/*/pictures"
"""The placeholder in `clients.toml` for the directories of image files. See `codriver.log.image_files`."""


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
    """Whether to also write skills as files. With `remove`, only the parts selected by such options are removed."""
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
        settings = plan_settings(launch.workspace, repl, options.toolset)
        changes = (*(settings or plan_marker_file(launch, changes)), *changes)
    elif not options.is_partial:
        is_whole = not options.clients and options.scope in (None, "workspace")
        changes = (*changes, *plan_marker_removal(launch, clients, environment, changes, is_whole=is_whole))
    changes = (*changes, *_plan_for_agents(launch.workspace, options))
    hooked = _plan_hooks(clients, launch, environment, options, changes)
    if not clients:
        known = ", ".join(known_clients())
        lines.append(f"clients    none found. Choose one with --client: {known}")
    report_lines, applied, failed = _apply_changes((*changes, *hooked), options)
    report_lines += [
        (f"{client.title:<15} skipped: the client has no file for the scope {options.scope}") for client in lacking
    ]
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
    """Check that the workspace is neither the home directory nor above it, where all projects would share a server.

    Raises:
        NotAProjectError: the workspace is the root, the home directory, or one of its parents.
    """
    home = home.resolve()
    if workspace in (home, workspace.parent, *home.parents):
        what = "your home directory" if workspace == home else "a directory above your projects"
        raise NotAProjectError(
            f"{workspace} is {what}, so its server would serve everything in it. Run `codriver init` in a project, "
            "or with --force if that is intended"
        )


def _check_readable(workspace: Path) -> None:
    try:
        os.listdir(workspace)  # noqa: PTH208  # `iterdir` would not raise before it is iterated
    except OSError as error:
        raise StartError(
            f"{workspace} cannot be read: {error.strerror}. If it is yours, run `{grant_access_command(workspace)}`. "
            "Otherwise, choose another --workspace"
        ) from error


def _approval_lines(clients: Sequence[Client]) -> list[str]:
    """Return a line for each client that describes what `--approve` permits."""
    lines = []
    for client in clients:
        keys = ", ".join(f"{key} = {json.dumps(value)}" for key, value in client.approval.items())
        remark = f"{keys} lets its agent run every Codriver tool, and thus any code, without asking you"
        lines.append(
            f"approve    {client.title}: "
            f"{remark if keys else 'its entry has no such setting, so allow the tools in the client'}"
        )
    return lines


def _describe_projects(projects: Sequence[Project], workspace: Path, environment: Environment) -> list[str]:
    lines = [f"project    {project.kind} ({project.evidence})" for project in projects]
    lines += [
        f"below      {below.kind} ({below.evidence}): codriver init in that folder gives it its own server"
        for below in projects_below(workspace)
    ]
    named = named_repls(workspace) or {}
    if not projects:
        lines.insert(0, "project    none recognized")
        if not named and not port_files_with_port(workspace):
            lines.append(
                "REPL       Codriver starts its embedded Python REPL"
                if is_python_default(workspace)
                else 'REPL       none is started. Start one, or set repl = ["python"] or another REPL in codriver.toml'
            )
    lines += [
        f"REPL       running, according to {file}. Codriver connects to it" for file in port_files_with_port(workspace)
    ]
    for key, value in named.items():
        does = "codriver starts" if key == "repl" else "codriver connects to"
        values = ", ".join(map(str, value)) if isinstance(value, list) else value
        lines.append(f"REPL       {does} {values}, according to the workspace's settings")
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
    if not can_start(projects[0], workspace, environment) or has_repl_setting(workspace):
        return ""
    return f'repl = ["{projects[0].repl}"]\n'


_ACTION_WORDS = {
    "add": ("add to", "added to"),
    "replace": ("replace in", "replaced in"),
    "remove": ("remove from", "removed from"),
    "same": ("already in", "already in"),
    "absent": ("not in", "not in"),
    "refused": ("refused:", "refused:"),
    "skipped": ("skipped:", "skipped:"),
}
"""Words that describe the change to an entry, in a dry run and otherwise."""


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
    """Return the clients that were selected only by `all` and have no file in the requested scope."""
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
        advice = f"{names} contains no paths from this machine and may be committed; " if is_in_git else ""
        program = environment.which(launch.shared[0])
        if program and (Path(program).parents[1] / "pyvenv.cfg").is_file():
            needs += f": here it is in {Path(program).parents[1]}, so start clients with that environment activated"
        return [f"{'git: ' if advice else ''}{advice}everyone who works on the project needs {needs}"]
    if is_in_git:
        return [
            f"git: {names} contains paths from this machine. Do not commit it, or have everyone run `codriver init`"
        ]
    if launch.shared is None:
        return []
    if is_search_boundary(str(launch.workspace)):
        return [f"{names} contains paths from this machine, because {AUTO_REFUSAL}"]
    return [
        (
            f"{names} contains paths from this machine. Before you share it, install {RELAY_COMMAND[0]} on the PATH, "
            "for example with pipx or `uv tool install`, and run init again; --scope user writes your own file, if a "
            "client has one"
        )
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
    """Yield lines about what a linked working tree does not share with the main one. Yield nothing for other trees."""
    main = main_checkout(workspace)
    if main is None:
        return
    yield f"tree       linked to {main}, with its own server, REPLs, log and history"
    if any(path_exists(workspace / mark) for mark in kinds.PYTHON_KIND.marks):
        python = find_python(workspace, environ)
        yield f"Python     {python.whose}"
        if python.caution or python.remark:
            yield "           run `python3 -m venv .venv` and install the project's packages to give it one of its own"
