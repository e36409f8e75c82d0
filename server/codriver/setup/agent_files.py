"""Files for agents besides the clients' entries: hooks, skills, and a block in AGENTS.md, each planned or removed.

`wrapper-config/hooks/` describes the hooks. In a client's own settings file, everything else is preserved, including
other hooks for the same event. Codriver's hooks are recognized by the program they run. Files that are entirely
Codriver's are written and removed as a whole. The last line of a skill's file has the digest of its text, so that an
unchanged file can be replaced or removed, and a file that a user has changed is left alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.files.own_folders import hook_file, shipped_directory
from codriver.repls.kinds import JUPYTER, PYTHON
from codriver.repls.launch.projects import find_projects, projects_below
from codriver.setup import jsonc
from codriver.setup.change_plan import Change, read_file
from codriver.setup.clients import Client, entry_name, is_versioned, shipped_text
from codriver.setup.jsonc import FileFormatError
from codriver.systems.programs import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codriver.setup.change_plan import State
    from codriver.setup.clients import Environment, Launch, Scope

HOOK_DIRECTORY: Final = "hooks"
PROGRAM: Final = "codriver-hook"
CODRIVER_MARKS: Final = (PROGRAM, "codriver_hook", "note_edit")
"""Names of Codriver's program and tool, one of which occurs in each of its hooks."""
SKILL_DIRECTORIES: Final = (".agents/skills", ".claude/skills")
"""Directories from which clients read skills.

Codex, Gemini CLI, Qwen Code, Copilot CLI and opencode read the first, and Claude Code the second. Source: observed.
"""
OF_LISP: Final = "editing-lisp-files"
"""The skill that is not needed if all projects are Python projects."""
SIGNATURE: Final = re.compile(r"<!-- codriver init ([0-9a-f]{16}) -->\n\Z")
"""Matches the last line of a skill's file. Its group is the digest."""
MOST_SKILL_FILES: Final = 200
"""Maximum number of files that are searched for skills of an earlier version."""
BEGIN: Final = "<!-- codriver: by `codriver init --agents-md` -->"
END: Final = "<!-- /codriver -->"
BLOCK: Final = """\
## Live REPL: the MCP server `codriver`
- The program runs in a REPL: try code there before you write it to a file. `list_sessions` shows what is there.
- `evaluate_code` one small form, look at the result, build on it; write it to the file and `load_file`.
- Status running or queued is no failure: `get_evaluation` waits for the end. Never send the same code twice.
- `repl_output_log` has what people and other agents evaluated and printed: read it before you rely on state.
- Edit Lisp by whole forms with `edit_files`. `run_tests` before you say that it works.
"""


@dataclass(frozen=True, slots=True)
class HookFile:
    """A file with a client's hooks. See `wrapper-config/hooks/hooks.toml` for the fields."""

    path: str
    template: str
    is_exclusive: bool = False
    is_private: bool = False
    is_executable: bool = False
    next: str = ""

    def words(self, launch: Launch, environment: Environment) -> tuple[str, ...]:
        """Return the command line of the hook program.

        It is the program's name if that is on the PATH and the file may be shared, and its path otherwise.
        """
        if not self.is_private and environment.has_command(PROGRAM):
            return (PROGRAM,)
        return str(launch.python), "-I", "-S", str(hook_file(launch.relay))

    def text(self, words: tuple[str, ...], server: str, *, is_windows: bool) -> str:
        """Return the content of a file that has only Codriver's hooks."""
        command = typed(words, system="win32" if is_windows else "posix")
        inner = json.dumps(command, ensure_ascii=False)[1:-1] if self.template.endswith(".json") else command
        filled = (
            shipped_text(f"{HOOK_DIRECTORY}/{self.template}").replace("{{hook}}", inner).replace("{{server}}", server)
        )
        return filled.replace("{{words}}", json.dumps(words, ensure_ascii=False))


@cache
def known_hooks() -> Mapping[str, tuple[HookFile, ...]]:
    """Return the files with hooks of each client that supports them, by client id."""
    table = tomllib.loads(shipped_text(f"{HOOK_DIRECTORY}/hooks.toml"))
    return MappingProxyType({name: tuple(map(_hook_file, rows)) for name, rows in table.items()})


def plan_hooks(
    clients: Iterable[Client],
    launch: Launch,
    environment: Environment,
    *,
    scope: Scope | None = None,
    planned: Iterable[Change] = (),
    force: bool = False,
) -> tuple[Change, ...]:
    """Return the changes that install the hooks of these clients, on top of the changes in `planned`.

    `scope` is the scope of the client's entry, whose server the hooks call.
    """
    known, contents = known_hooks(), {change.file: change.after for change in planned if change.is_pending}
    changes = []
    for client in clients:
        server = entry_name(scope or client.scopes[0], launch.workspace)
        for file in known.get(client.id, ()):
            target = _Target(client, file, launch, contents)
            words = file.words(launch, environment)
            text = file.text(words, server, is_windows=environment.platform == "windows")
            names_paths = not file.is_private and str(hook_file(launch.relay)) in text
            if names_paths and is_versioned(launch.workspace) and not force:
                changes.append(target.skipped(text))
            else:
                changes.append(target.installed(text, force=force))
            contents.update({change.file: change.after for change in changes[-1:] if change.is_pending})
    return tuple(changes)


def plan_hooks_removal(
    clients: Iterable[Client], launch: Launch, *, planned: Iterable[Change] = ()
) -> tuple[Change, ...]:
    """Return the changes that remove the hooks of these clients. For a file without hooks, its state is `absent`."""
    known, contents = known_hooks(), {change.file: change.after for change in planned if change.is_pending}
    return tuple(
        _Target(client, file, launch, contents).removed() for client in clients for file in known.get(client.id, ())
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """A file with a client's hooks in one workspace. `contents` has those of files with planned changes."""

    client: Client
    file: HookFile
    launch: Launch
    contents: Mapping[Path, str | None]

    def installed(self, text: str, *, force: bool) -> Change:
        """Return the change that adds Codriver's hooks to the file, replacing earlier ones."""
        try:
            before = self._before()
            after = text if before is None or self.file.is_exclusive else _merged(before, text)
        except (FileFormatError, OSError, UnicodeDecodeError) as error:
            return self._refused(error)
        if before == after:
            return self._change("same", before, after)
        if before is not None and self.file.is_exclusive and not _is_codrivers(before) and not force:
            fix = f"codriver init --hooks --client {self.client.id} --force replaces it"
            return replace(self._change("refused", before, before), reason="it is not codriver's", fix=fix)
        state = "replace" if before is not None and _is_codrivers(before) else "add"
        return replace(self._change(state, before, after), next=self.file.next)

    def skipped(self, text: str) -> Change:
        """Return no change, because the file is shared and would contain paths of this machine.

        An installed hook stays.
        """
        change = self.installed(text, force=True)
        if not change.is_pending:
            return change
        reason = f"it is in git, and the hook would contain paths of this machine, because no {PROGRAM} is on the PATH"
        fix = f"install it with `uv tool install` or pipx; codriver init --hooks --client {self.client.id} --force"
        fix += " writes the paths anyway"
        return replace(self._change("skipped", change.before, change.before), reason=reason, fix=fix)

    def removed(self) -> Change:
        """Return the change that removes Codriver's hooks from the file."""
        try:
            before = self._before()
            if before is None or not _is_codrivers(before):
                return self._change("absent", before, before)
            after = None if self.file.is_exclusive else _without_codriver_hooks(before)
        except (FileFormatError, OSError, UnicodeDecodeError) as error:
            return self._refused(error)
        return self._change("absent" if after == before else "remove", before, after)

    def _path(self) -> Path:
        return self.launch.workspace / self.file.path

    def _before(self) -> str | None:
        path = self._path()
        return self.contents[path] if path in self.contents else read_file(path, self.launch.workspace)

    def _change(self, state: Any, before: str | None, after: str | None) -> Change:
        return Change(
            self.client.title,
            self._path(),
            state,
            before,
            after,
            root=self.launch.workspace,
            is_executable=self.file.is_executable,
        )

    def _refused(self, error: Exception) -> Change:
        why = f"it cannot be read: {getattr(error, 'strerror', None) or error}"
        fix = "fix the file and run the command again"
        return replace(self._change("refused", None, None), reason=why, fix=fix)


def _is_codrivers(hook: object) -> bool:
    """Return whether a hook, or the content of a file with hooks, is Codriver's."""
    text = hook if isinstance(hook, str) else json.dumps(hook, ensure_ascii=False)
    return any(word in text for word in CODRIVER_MARKS)


def _hooks_in(text: str) -> dict[str, list[Any]]:
    """Return the hooks in a settings file by event.

    Raises:
        FileFormatError: the file is not JSON, or has an unexpected structure.
    """
    root = jsonc.parse(text)
    value = {} if root is None else root.value
    hooks = value.get("hooks", {}) if isinstance(value, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise FileFormatError("hooks should be an object of lists", 1, 1)
    return hooks


def _merged(before: str, hooks_file: str) -> str:
    """Add Codriver's hooks to a settings file after other hooks for the same event, preserving everything else.

    Raises:
        FileFormatError: the file has an unexpected structure.
    """
    text = _without_codriver_hooks(before)
    if text is None:
        text = hooks_file
    else:
        new, present = _data(hooks_file), _hooks_in(text)
        for event, groups in new["hooks"].items():
            text = jsonc.with_member(text, ("hooks", event), [*present.get(event, []), *groups])
        for key in new.keys() - {"hooks"} - _data(before).keys():
            text = jsonc.with_member(text, (key,), new[key])
    return before if _data(text) == _data(before) else text


def _data(text: str) -> dict[str, Any]:
    root = jsonc.parse(text)
    return root.value if root is not None and isinstance(root.value, dict) else {}


def _without_codriver_hooks(text: str) -> str | None:
    """Return a settings file without Codriver's hooks and whatever is then empty, or None if nothing else is left."""
    for event, groups in _hooks_in(text).items():
        remaining = [group for group in groups if not _is_codrivers(group)]
        if len(remaining) == len(groups):
            continue
        way = ("hooks", event)
        text = jsonc.with_member(text, way, remaining) if remaining else jsonc.without_entry(text, way)
    try:
        root = jsonc.parse(text, comments=False)
    except FileFormatError:
        return text  # preserve comments
    return None if root is None or root.value in ({}, {"version": 1}, {"hooks": {}}) else text


def _hook_file(row: Mapping[str, Any]) -> HookFile:
    return HookFile(
        path=row["file"],
        template=row["template"],
        is_exclusive=row.get("own", False),
        is_private=row.get("private", False),
        is_executable=row.get("runs", False),
        next=row["next"],
    )


@dataclass(frozen=True, slots=True)
class AgentFileOptions:
    """The files to write, or to remove if `remove`. `is_named` is whether the user requested them explicitly."""

    skills: bool
    agents_md: bool
    remove: bool = False
    force: bool = False
    is_named: bool = True


def plan_agent_files(workspace: Path, options: AgentFileOptions) -> tuple[Change, ...]:
    """Return the changes to the files for agents.

    When removing, missing files are only included if the user named them.
    """
    changes: list[Change] = []
    if options.skills:
        changes += _plan_skills(workspace, options)
    if options.agents_md:
        changes.append(_plan_block(workspace, remove=options.remove))
    return tuple(change for change in changes if options.is_named or change.state in ("remove", "skipped"))


def skill_files() -> Mapping[str, str]:
    """Return the skills that are distributed with Codriver, by their path within a directory of skills."""
    shipped = shipped_directory("skills")
    return {
        # Clients can read files next to the skill without a server.
        path.relative_to(shipped).as_posix(): path.read_text("utf-8").replace(f"skill://{path.parent.name}/", "")
        for path in sorted(shipped.glob("*/*.md"))
    }


def signed(text: str) -> str:
    """Append a line with the digest of the text."""
    return f"{text}<!-- codriver init {_digest(text)} -->\n"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_unchanged_skill(text: str) -> bool:
    """Return whether a file is unchanged since some version of Codriver wrote it, apart from line endings."""
    text = text.replace("\r\n", "\n")
    found = SIGNATURE.search(text)
    return found is not None and found.group(1) == _digest(text[: found.start()])


def _plan_skills(workspace: Path, options: AgentFileOptions) -> Iterator[Change]:
    seen: set[str] = set()
    projects = (*find_projects(workspace), *projects_below(workspace))
    is_lisp = options.remove or not projects or any(project.repl not in (PYTHON.repl, JUPYTER) for project in projects)
    for name in SKILL_DIRECTORIES:
        folder = workspace / name
        # One directory may be a link to the other.
        if os.path.realpath(folder) in seen:
            continue
        seen.add(os.path.realpath(folder))
        contents = {folder / path: signed(text) for path, text in skill_files().items()}
        for file, text in contents.items():
            if is_lisp or file.parent.name != OF_LISP or os.path.lexists(file):
                yield _plan_skill(file, text, workspace, options)
        for file in sorted(folder.glob("*/*.md"))[:MOST_SKILL_FILES]:
            if file not in contents and (change := _plan_left_over(file, workspace)):
                yield change


def _plan_skill(file: Path, text: str, workspace: Path, options: AgentFileOptions) -> Change:
    """Return the change to one file of a skill."""
    try:
        before = read_file(file, workspace)
    except (OSError, UnicodeDecodeError) as error:
        return _refused("skills", file, f"it cannot be read: {getattr(error, 'strerror', None) or error}", workspace)
    if before is None:
        return Change(
            "skills", file, "absent" if options.remove else "add", None, _unless(options, text), root=workspace
        )
    if before.replace("\r\n", "\n") == text and not options.remove:
        return Change("skills", file, "same", before, before, root=workspace)
    if options.force or _is_unchanged_skill(before):
        state: State = "remove" if options.remove else "replace"
        return Change("skills", file, state, before, _unless(options, text), root=workspace)
    reason = "it was changed since codriver wrote it"
    fix = "--remove --skills --force removes it" if options.remove else "--skills --force replaces it"
    state = "refused" if options.is_named else "skipped"
    return Change("skills", file, state, before, before, reason, f"codriver init {fix}", root=workspace)


def _unless(options: AgentFileOptions, text: str) -> str | None:
    """Return the new content of the file."""
    return None if options.remove else text


def _plan_left_over(file: Path, workspace: Path) -> Change | None:
    """Return the removal of a file that an older version wrote, unless it was changed."""
    try:
        before = read_file(file, workspace)
    except (OSError, UnicodeDecodeError):
        return None  # it is not one of Codriver's
    if before is None or not _is_unchanged_skill(before):
        return None
    return Change("skills", file, "remove", before, None, root=workspace)


def _refused(title: str, file: Path, reason: str, workspace: Path) -> Change:
    fix = "fix the file and run the command again"
    return Change(title, file, "refused", None, None, reason, fix, root=workspace)


def _plan_block(workspace: Path, *, remove: bool) -> Change:
    """Return the change to AGENTS.md. Only the text between the marks and the surrounding line endings change."""
    file = workspace / "AGENTS.md"
    title = file.name
    try:
        before = read_file(file, workspace)
        span = _span(before or "")
    except (OSError, UnicodeDecodeError) as error:
        return _refused(title, file, f"it cannot be read: {getattr(error, 'strerror', None) or error}", workspace)
    except ValueError as error:
        return _refused(title, file, str(error), workspace)
    if remove:
        after = None if span is None else _without(before or "", *span)
        return Change(title, file, "absent" if span is None else "remove", before, after or None, root=workspace)
    after = _with_block(before or "", span)
    if after == before:
        return Change(title, file, "same", before, before, root=workspace)
    return Change(title, file, "add" if span is None else "replace", before, after, root=workspace)


def _span(text: str) -> tuple[int, int] | None:
    """Return the position of the block including its marks, or None if there is none.

    Raises:
        ValueError: the marks do not form a pair.
    """
    begins, ends = text.count(BEGIN), text.count(END)
    if not begins and not ends:
        return None
    begin, end = text.find(BEGIN), text.find(END)
    if (begins, ends) != (1, 1) or end < begin:
        raise ValueError(f"its marks {BEGIN} and {END} do not form a pair")
    return begin, end + len(END)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _with_block(text: str, span: tuple[int, int] | None) -> str:
    line_end = _line_end(text)
    block = f"{BEGIN}\n{BLOCK}{END}".replace("\n", line_end)
    if span is not None:
        return text[: span[0]] + block + text[span[1] :]
    if not text.removeprefix("\ufeff"):
        return text + block + line_end
    # If the file did not end with a line ending, add none after the block, so that a removal restores the file.
    return f"{text}{line_end}{block}{line_end if text.endswith(line_end) else ''}"


def _without(text: str, begin: int, end: int) -> str:
    """Return the text as it was before the block was added."""
    line_end = _line_end(text)
    before, behind = text[:begin], text[end:]
    return before.removesuffix(line_end) + behind.removeprefix(line_end)
