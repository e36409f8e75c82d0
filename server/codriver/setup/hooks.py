"""Clients' hooks, as `wrapper-config/hooks/` describes them: the plan that puts them in, or takes them out again.

A file that is a client's own settings keeps everything else, other hooks for the same event among it; ours are known by
what they run. A file of ours is written and removed whole.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.files.own_folders import hook_file
from codriver.setup import jsonc
from codriver.setup.change_plan import Change, read_file
from codriver.setup.clients import Client, entry_name, is_versioned, shipped_text
from codriver.setup.jsonc import FileFaultError
from codriver.systems.programs import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.setup.clients import Environment, Launch, Scope

FOLDER: Final = "hooks"
PROGRAM: Final = "codriver-hook"
OURS: Final = (PROGRAM, "codriver_hook", "note_edit")
"""What the text of a hook of ours has one of: its program, or the tool that it calls."""


@dataclass(frozen=True, slots=True)
class HookFile:
    """One file of a client's hooks. See `wrapper-config/hooks/hooks.toml` for the fields."""

    path: str
    template: str
    is_own: bool = False
    is_private: bool = False
    is_executable: bool = False
    next: str = ""

    def words(self, launch: Launch, environment: Environment) -> tuple[str, ...]:
        """The command line of the hook program: by its name in a file that others may get too, where that works."""
        if not self.is_private and environment.has_command(PROGRAM):
            return (PROGRAM,)
        return str(launch.python), "-I", "-S", str(hook_file(launch.relay))

    def text(self, words: tuple[str, ...], server: str, *, is_windows: bool) -> str:
        """The whole file with our hooks alone."""
        command = typed(words, system="win32" if is_windows else "posix")
        inner = json.dumps(command, ensure_ascii=False)[1:-1] if self.template.endswith(".json") else command
        filled = shipped_text(f"{FOLDER}/{self.template}").replace("{{hook}}", inner).replace("{{server}}", server)
        return filled.replace("{{words}}", json.dumps(words, ensure_ascii=False))


@cache
def known_hooks() -> Mapping[str, tuple[HookFile, ...]]:
    """The files of each client that has hooks, by the client's id."""
    table = tomllib.loads(shipped_text(f"{FOLDER}/hooks.toml"))
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
    """The changes that install the hooks of these clients in the workspace, after those that are `planned` already.

    `scope` is that of the entry whose server the hooks call.
    """
    known, texts = known_hooks(), {change.file: change.after for change in planned if change.is_pending}
    changes = []
    for client in clients:
        server = entry_name(scope or client.scopes[0], launch.workspace)
        for file in known.get(client.id, ()):
            target = _Target(client, file, launch, texts)
            words = file.words(launch, environment)
            text = file.text(words, server, is_windows=environment.platform == "windows")
            names_paths = not file.is_private and str(hook_file(launch.relay)) in text
            if names_paths and is_versioned(launch.workspace) and not force:
                changes.append(target.skipped(text))
            else:
                changes.append(target.installed(text, force=force))
            texts.update({change.file: change.after for change in changes[-1:] if change.is_pending})
    return tuple(changes)


def plan_hooks_removal(
    clients: Iterable[Client], launch: Launch, *, planned: Iterable[Change] = ()
) -> tuple[Change, ...]:
    """The changes that take the hooks of these clients out again; those of files that have none say `absent`."""
    known, texts = known_hooks(), {change.file: change.after for change in planned if change.is_pending}
    return tuple(
        _Target(client, file, launch, texts).removed() for client in clients for file in known.get(client.id, ())
    )


@dataclass(frozen=True, slots=True)
class _Target:
    """One file of a client's hooks in one workspace. `texts`: those of files that are planned to change already."""

    client: Client
    file: HookFile
    launch: Launch
    texts: Mapping[Path, str | None]

    def installed(self, text: str, *, force: bool) -> Change:
        """The change that has our hooks in the file, and no older ones of ours."""
        try:
            before = self._before()
            after = text if before is None or self.file.is_own else _merged(before, text)
        except (FileFaultError, OSError, UnicodeDecodeError) as error:
            return self._refused(error)
        if before == after:
            return self._change("same", before, after)
        if before is not None and self.file.is_own and not _is_ours(before) and not force:
            fix = f"codriver init --hooks --client {self.client.id} --force replaces it"
            return replace(self._change("refused", before, before), problem="it is not codriver's", fix=fix)
        state = "replace" if before is not None and _is_ours(before) else "add"
        return replace(self._change(state, before, after), next=self.file.next)

    def skipped(self, text: str) -> Change:
        """No change: others get the file, and it would name paths of this machine. Not if it is so now."""
        change = self.installed(text, force=True)
        if not change.is_pending:
            return change
        problem = f"it is shared by git, and the hook would name paths of this machine: no {PROGRAM} is on the PATH"
        fix = f"`uv tool install` or pipx put it there; codriver init --hooks --client {self.client.id} --force"
        fix += " writes the paths all the same"
        return replace(self._change("skipped", change.before, change.before), problem=problem, fix=fix)

    def removed(self) -> Change:
        """The change that has no hook of ours in the file."""
        try:
            before = self._before()
            if before is None or not _is_ours(before):
                return self._change("absent", before, before)
            after = None if self.file.is_own else _without_ours(before)
        except (FileFaultError, OSError, UnicodeDecodeError) as error:
            return self._refused(error)
        return self._change("absent" if after == before else "remove", before, after)

    def _path(self) -> Path:
        return self.launch.workspace / self.file.path

    def _before(self) -> str | None:
        path = self._path()
        return self.texts[path] if path in self.texts else read_file(path, self.launch.workspace)

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
        fix = "mend the file and run the command again"
        return replace(self._change("refused", None, None), problem=why, fix=fix)


def _is_ours(hook: object) -> bool:
    """Whether a hook, or the text of a file of hooks, is one of ours."""
    text = hook if isinstance(hook, str) else json.dumps(hook, ensure_ascii=False)
    return any(word in text for word in OURS)


def _hooks_in(text: str) -> dict[str, list[Any]]:
    """The hooks of a settings file by their events.

    Raises:
        FileFaultError: it is no JSON, or has another shape.
    """
    root = jsonc.parse(text)
    value = {} if root is None else root.value
    hooks = value.get("hooks", {}) if isinstance(value, dict) else None
    if not isinstance(hooks, dict) or not all(isinstance(groups, list) for groups in hooks.values()):
        raise FileFaultError("hooks should be an object of lists", 1, 1)
    return hooks


def _merged(before: str, ours: str) -> str:
    """A settings file with our hooks behind those of others, for each event; all else as it was.

    Raises:
        FileFaultError: it has another shape than the client's.
    """
    text = _without_ours(before)
    if text is None:
        text = ours
    else:
        wanted, present = _data(ours), _hooks_in(text)
        for event, groups in wanted["hooks"].items():
            text = jsonc.with_member(text, ("hooks", event), [*present.get(event, []), *groups])
        for key in wanted.keys() - {"hooks"} - _data(before).keys():
            text = jsonc.with_member(text, (key,), wanted[key])
    return before if _data(text) == _data(before) else text


def _data(text: str) -> dict[str, Any]:
    root = jsonc.parse(text)
    return root.value if root is not None and isinstance(root.value, dict) else {}


def _without_ours(text: str) -> str | None:
    """A settings file without our hooks, and without what is empty then; None where nothing else is left in it."""
    for event, groups in _hooks_in(text).items():
        kept = [group for group in groups if not _is_ours(group)]
        if len(kept) == len(groups):
            continue
        way = ("hooks", event)
        text = jsonc.with_member(text, way, kept) if kept else jsonc.without_entry(text, way)
    try:
        root = jsonc.parse(text, comments=False)
    except FileFaultError:
        return text  # somebody's comment is worth keeping
    return None if root is None or root.value in ({}, {"version": 1}, {"hooks": {}}) else text


def _hook_file(row: Mapping[str, Any]) -> HookFile:
    return HookFile(
        path=row["file"],
        template=row["template"],
        is_own=row.get("own", False),
        is_private=row.get("private", False),
        is_executable=row.get("runs", False),
        next=row["next"],
    )
