"""Plan which hooks to install in clients, as `wrapper-config/hooks/` describes them.

In a client's own settings file, everything else is preserved, including other hooks for the same event. Codriver's
hooks are recognized by the program they run. Files that are entirely Codriver's are written and removed as a whole.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.files.codriver_paths import hook_file
from codriver.setup import jsonc
from codriver.setup.change_plan import Change, read_file
from codriver.setup.client_entries import is_versioned
from codriver.setup.clients import Client, entry_name, read_packaged_text
from codriver.setup.jsonc import FileFormatError
from codriver.systems.programs import quote_command_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.setup.environment import Environment
    from codriver.setup.relay_launch import Launch, Scope

HOOK_DIRECTORY: Final = "hooks"
HOOK_PROGRAM: Final = "codriver-hook"
CODRIVER_MARKS: Final = (HOOK_PROGRAM, "codriver_hook", "note_edit")
"""Names of Codriver's program and tool, one of which occurs in each of its hooks."""


@dataclass(frozen=True, slots=True)
class HookFile:
    """A file that configures hooks of a client. See `wrapper-config/hooks/hooks.toml` for the fields."""

    path: str
    template: str
    is_exclusive: bool = False
    is_private: bool = False
    is_executable: bool = False
    next: str = ""

    def command_words(self, launch: Launch, environment: Environment) -> tuple[str, ...]:
        """Return the command line that runs the hook program.

        If the program is on the PATH and the file may be shared, it is called by its name. Otherwise its path is used.
        """
        if not self.is_private and environment.has_command(HOOK_PROGRAM):
            return (HOOK_PROGRAM,)
        return str(launch.python), "-I", "-S", str(hook_file(launch.relay))

    def text(self, words: tuple[str, ...], server: str, *, is_windows: bool) -> str:
        """Return the content of a file that contains only Codriver's hooks."""
        command = quote_command_line(words, system="win32" if is_windows else "posix")
        inner = json.dumps(command, ensure_ascii=False)[1:-1] if self.template.endswith(".json") else command
        filled = (
            read_packaged_text(f"{HOOK_DIRECTORY}/{self.template}")
            .replace("{{hook}}", inner)
            .replace("{{server}}", server)
        )
        return filled.replace("{{words}}", json.dumps(words, ensure_ascii=False))


@cache
def known_hooks() -> Mapping[str, tuple[HookFile, ...]]:
    """Return the hook files of each client that supports hooks, by client id."""
    table = tomllib.loads(read_packaged_text(f"{HOOK_DIRECTORY}/hooks.toml"))
    return MappingProxyType({name: tuple(map(_parse_hook_file, rows)) for name, rows in table.items()})


def plan_hooks(
    clients: Iterable[Client],
    launch: Launch,
    environment: Environment,
    *,
    scope: Scope | None = None,
    planned: Iterable[Change] = (),
    force: bool = False,
) -> tuple[Change, ...]:
    """Return the changes that install these clients' hooks, in addition to the changes in `planned`.

    `scope` is the scope of the client's entry, whose server the hooks call.
    """
    known, contents = known_hooks(), {change.file: change.after for change in planned if change.is_pending}
    changes = []
    for client in clients:
        server = entry_name(scope or client.scopes[0], launch.workspace)
        for file in known.get(client.id, ()):
            target = _Target(client, file, launch, contents)
            words = file.command_words(launch, environment)
            text = file.text(words, server, is_windows=environment.platform == "windows")
            names_paths = not file.is_private and str(hook_file(launch.relay)) in text
            if names_paths and is_versioned(launch.workspace) and not force:
                changes.append(target.plan_skip(text))
            else:
                changes.append(target.plan_install(text, force=force))
            contents.update({change.file: change.after for change in changes[-1:] if change.is_pending})
    return tuple(changes)


def plan_hooks_removal(
    clients: Iterable[Client], launch: Launch, *, planned: Iterable[Change] = ()
) -> tuple[Change, ...]:
    """Return the changes that remove these clients' hooks.

    For a file without hooks, the change has the state `absent`.
    """
    known, contents = known_hooks(), {change.file: change.after for change in planned if change.is_pending}
    return tuple(
        _Target(client, file, launch, contents).plan_removal()
        for client in clients
        for file in known.get(client.id, ())
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """A client's hook file in one workspace. `contents` contains the planned content of files."""

    client: Client
    file: HookFile
    launch: Launch
    contents: Mapping[Path, str | None]

    def plan_install(self, text: str, *, force: bool) -> Change:
        """Return the change that adds Codriver's hooks to the file, replacing those from earlier versions."""
        try:
            before = self._before()
            after = text if before is None or self.file.is_exclusive else _add_hooks(before, text)
        except (FileFormatError, OSError, UnicodeDecodeError) as error:
            return self._refused_change(error)
        if before == after:
            return self._change("same", before, after)
        if before is not None and self.file.is_exclusive and not _is_codrivers(before) and not force:
            fix = f"codriver init --hooks --client {self.client.id} --force replaces it"
            return replace(self._change("refused", before, before), reason="Codriver did not write the file", fix=fix)
        state = "replace" if before is not None and _is_codrivers(before) else "add"
        return replace(self._change(state, before, after), next=self.file.next)

    def plan_skip(self, text: str) -> Change:
        """Return a change that does nothing, because a shared file must not contain this machine's paths.

        If Codriver's hooks are already installed, they stay.
        """
        change = self.plan_install(text, force=True)
        if not change.is_pending:
            return change
        reason = (
            "the file is in git, and the hook would contain paths from this machine, because no "
            f"{HOOK_PROGRAM} is on the PATH"
        )
        fix = f"install it with `uv tool install` or pipx; codriver init --hooks --client {self.client.id} --force"
        fix += " writes the paths anyway"
        return replace(self._change("skipped", change.before, change.before), reason=reason, fix=fix)

    def plan_removal(self) -> Change:
        """Return the change that removes Codriver's hooks from the file."""
        try:
            before = self._before()
            if before is None or not _is_codrivers(before):
                return self._change("absent", before, before)
            after = None if self.file.is_exclusive else _without_codriver_hooks(before)
        except (FileFormatError, OSError, UnicodeDecodeError) as error:
            return self._refused_change(error)
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

    def _refused_change(self, error: Exception) -> Change:
        why = f"the file cannot be read: {getattr(error, 'strerror', None) or error}"
        fix = "fix the file and run the command again"
        return replace(self._change("refused", None, None), reason=why, fix=fix)


def _is_codrivers(hook: object) -> bool:
    """Return whether a hook, or the content of a hook file, belongs to Codriver."""
    text = hook if isinstance(hook, str) else json.dumps(hook, ensure_ascii=False)
    return any(word in text for word in CODRIVER_MARKS)


def _parse_hooks(text: str) -> dict[str, list[Any]]:
    """Return the hooks in a settings file by event.

    Raises:
        FileFormatError: the file is not valid JSON, or has an unexpected structure.
    """
    root = jsonc.parse_jsonc(text)
    value = {} if root is None else root.value
    hooks = value.get("hooks", {}) if isinstance(value, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise FileFormatError("`hooks` must be an object whose values are lists", 1, 1)
    return hooks


def _add_hooks(before: str, hooks_file: str) -> str:
    """Return a settings file with Codriver's hooks added after other hooks for the same event.

    Everything else is preserved.

    Raises:
        FileFormatError: the file has an unexpected structure.
    """
    text = _without_codriver_hooks(before)
    if text is None:
        text = hooks_file
    else:
        new, present = _parse_json(hooks_file), _parse_hooks(text)
        for event, groups in new["hooks"].items():
            text = jsonc.set_member(text, ("hooks", event), [*present.get(event, []), *groups])
        for key in new.keys() - {"hooks"} - _parse_json(before).keys():
            text = jsonc.set_member(text, (key,), new[key])
    return before if _parse_json(text) == _parse_json(before) else text


def _parse_json(text: str) -> dict[str, Any]:
    root = jsonc.parse_jsonc(text)
    return root.value if root is not None and isinstance(root.value, dict) else {}


def _without_codriver_hooks(text: str) -> str | None:
    """Return a settings file without Codriver's hooks and anything that becomes empty, or None if nothing is left."""
    for event, groups in _parse_hooks(text).items():
        remaining = [group for group in groups if not _is_codrivers(group)]
        if len(remaining) == len(groups):
            continue
        way = ("hooks", event)
        text = jsonc.set_member(text, way, remaining) if remaining else jsonc.remove_with_empty_parents(text, way)
    try:
        root = jsonc.parse_jsonc(text, comments=False)
    except FileFormatError:
        return text  # preserve comments
    return None if root is None or root.value in ({}, {"version": 1}, {"hooks": {}}) else text


def _parse_hook_file(row: Mapping[str, Any]) -> HookFile:
    return HookFile(
        path=row["file"],
        template=row["template"],
        is_exclusive=row.get("own", False),
        is_private=row.get("private", False),
        is_executable=row.get("runs", False),
        next=row["next"],
    )
