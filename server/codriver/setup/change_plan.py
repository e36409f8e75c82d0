"""The plan of changes to clients' files, and each change itself: whole or not at all, and never over another's."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, Literal, get_args

from codriver import files
from codriver.errors import StartError
from codriver.files import Links, Rules
from codriver.files.own_folders import port_file
from codriver.setup.clients import (
    RELAY,
    Scope,
    command_line,
    entry_name,
    is_as_good,
    is_versioned,
    is_written_by_init,
    starts_relay,
)
from codriver.setup.config_document import (
    find_entry,
    foreign_key,
    is_left_over,
    remove_entry,
    set_entry,
)
from codriver.setup.jsonc import FileFaultError
from codriver.systems.file_system import mode_of
from codriver.systems.programs import program_in, typed
from codriver_relay.target import is_border

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.files import Place
    from codriver.setup.clients import Client, Environment, Launch

MAX_BYTES: Final = 32 * files.MEBIBYTE
"""Some clients keep their conversations in the file that also has the entries."""
NEW_FOLDER: Final = 0o777
"""A new folder is for others what the user's umask leaves, as any is."""

PROGRAM_MODE: Final = 0o755

State = Literal["add", "replace", "remove", "same", "absent", "refused", "skipped"]


class FileChangedError(StartError):
    """A file is another one than when the plan was made."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} was changed meanwhile and is left alone; run the command again")


class CannotWriteError(StartError):
    """A file cannot be written."""

    def __init__(self, file: Path, error: OSError) -> None:
        super().__init__(f"{file} cannot be written: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class Change:
    """The change of one file, planned or done.

    `before` and `after` are its whole text, None where there is no file. With state `refused`, `problem` says why,
    `fix` what to do, and nothing would happen; with `skipped` so too, but nothing is wrong unless this client was asked
    for by name; with `same` and `absent` nothing has to.
    """

    title: str
    file: Path
    state: State
    before: str | None
    after: str | None
    problem: str = ""
    fix: str = ""
    next: str = ""
    root: Path | None = None
    """The workspace, for a file of it; None for the user's own."""
    is_executable: bool = False
    """Whether a new file is a program."""

    @property
    def is_pending(self) -> bool:
        """Whether there is something to write."""
        return self.state in ("add", "replace", "remove")


def plan(
    clients: Iterable[Client],
    launch: Launch,
    environment: Environment,
    *,
    scope: Scope | None = None,
    force: bool = False,
    approve: bool = False,
) -> tuple[Change, ...]:
    """The change that each client's file needs so that it starts the relay for `launch.workspace`.

    Without `scope`, a client's entry goes into the workspace where it can. `force` replaces an entry of the same name
    that says something else. Clients that share a file get one entry there. With `approve` an entry has its client run
    all tools unasked, where the client knows such a key; one that does so already stays, but for `force`.

    Raises:
        NoSuchScopeError: a client has no file in `scope`.
    """
    texts: dict[Path, str | None] = {}
    changes = []
    for client in clients:
        target = _target(client, launch, environment, scope)
        granting = replace(target, client=client.approving())
        is_plain = approve and _plan_entry(target, launch, environment, texts, force=False).state == "same"
        if approve or (not force and _is_approved(target, texts)):
            target = granting
        changes.append(_plan_entry(target, launch, environment, texts, force=force or is_plain))
        _note(texts, changes[-1])
    return tuple(changes)


def plan_removal(
    clients: Iterable[Client],
    launch: Launch,
    environment: Environment,
    *,
    scope: Scope | None = None,
    force: bool = False,
) -> tuple[Change, ...]:
    """The change that takes each client's entry out again. An entry that does not start our relay needs `force`."""
    texts: dict[Path, str | None] = {}
    changes = []
    for client in clients:
        changes.append(_plan_removal(_target(client, launch, environment, scope), texts, force=force))
        _note(texts, changes[-1])
    return tuple(changes)


def diff(change: Change) -> str:
    """The change as a unified diff; empty when nothing would happen."""
    if not change.is_pending:
        return ""
    lines = difflib.unified_diff(
        (change.before or "").splitlines(keepends=True),
        (change.after or "").splitlines(keepends=True),
        str(change.file) if change.before is not None else "/dev/null",
        str(change.file) if change.after is not None else "/dev/null",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def apply(change: Change) -> None:
    """Do what the change says. A file is replaced in one step, keeps its mode, and a link to it stays a link.

    Raises:
        FileChangedError: the file is no longer what the plan was made for.
        CannotWriteError: it cannot be written.
    """
    if not change.is_pending:
        return
    links = _links(change.root)
    try:
        with files.locate(change.file, links, root=change.root, make_mode=NEW_FOLDER) as place:
            if _read_at(place, links) != change.before:
                raise FileChangedError(change.file)
            if change.after is None:
                place.remove()
            else:
                _put(place, change.after, is_executable=change.is_executable)
    except OSError as error:
        raise CannotWriteError(change.file, error) from error


def _put(place: Place, text: str, *, is_executable: bool = False) -> None:
    """Give a file this text in one step. Its mode stays; a new file has for others what any new file has."""
    status = place.status()
    mode, owner = (None, None) if status is None else (mode_of(status), (status.st_uid, status.st_gid))
    place.replace(text.encode("utf-8"), mode=PROGRAM_MODE if is_executable else mode, owner=owner)


def read_file(file: Path, root: Path | None) -> str | None:
    """The text of a file, line endings and byte order mark included; None when there is none.

    `root`: the workspace, below which links have to stay; None for the user's own file, whose links are the user's.
    """
    links = _links(root)
    try:
        with files.locate(file, links, root=root) as place:
            return _read_at(place, links)
    except FileNotFoundError:
        return None


def _read_at(place: Place, links: Links) -> str | None:
    try:
        return place.read(Rules(links, MAX_BYTES)).decode("utf-8")
    except FileNotFoundError:
        return None


def _links(root: Path | None) -> Links:
    return Links.OWN if root is None else Links.WITHIN


@dataclass(frozen=True, slots=True)
class _Target:
    """The place of one client's entry in one scope."""

    client: Client
    scope: Scope
    file: Path
    name: str
    root: Path | None

    def change(self, state: State, before: str | None, after: str | None, problem: str = "", fix: str = "") -> Change:
        told = self.client.next if state in ("add", "replace") else ""
        return Change(self.client.title, self.file, state, before, after, problem, fix, told, self.root)

    def text(self, texts: Mapping[Path, str | None]) -> str | None:
        """The text of its file, with the changes that are planned already."""
        return texts[self.file] if self.file in texts else read_file(self.file, self.root)


def _target(client: Client, launch: Launch, environment: Environment, scope: Scope | None) -> _Target:
    scope = scope or client.scopes[0]
    file, name = client.file(scope, launch.workspace, environment), entry_name(scope, launch.workspace)
    return _Target(client, scope, file, name, launch.workspace if scope == "workspace" else None)


def _note(texts: dict[Path, str | None], change: Change) -> None:
    """Have the clients that come later in the plan see the file as this change leaves it."""
    if change.is_pending:
        texts[change.file] = change.after


def _is_approved(target: _Target, texts: Mapping[Path, str | None]) -> bool:
    """Whether its client runs all tools unasked, as its entry says now."""
    try:
        text = target.text(texts)
        entry = find_entry(target.client, text, target.name) if text is not None else None
    except (FileFaultError, OSError, UnicodeDecodeError):
        return False  # the plan says what is wrong
    approval = target.client.approval
    return bool(approval) and isinstance(entry, dict) and entry.items() >= approval.items()


def _plan_entry(
    target: _Target, launch: Launch, environment: Environment, texts: Mapping[Path, str | None], *, force: bool
) -> Change:
    client, name = target.client, target.name
    shared = launch.shared if target.scope == "workspace" else None
    launch = launch.in_scope(target.scope)
    try:
        before = target.text(texts)
        present = find_entry(client, before, name) if before is not None else None
        entry = client.entry(launch, name)
        is_ours = bool(shared) and is_written_by_init(present, entry)
        if before is not None and (present == entry or (shared is not None and is_as_good(present, entry))):
            is_planned = target.file in texts  # the entry is that of a client before this one, and as new
            return replace(target.change("same", before, before), next=client.next if is_planned else "")
        if present is not None and not force and not is_ours:
            fix = f"codriver init --client {client.id} --force replaces it"
            other = f"it has another entry {name}{_leads_elsewhere(present, launch.workspace)}"
            return target.change("refused", before, before, other, fix)
        if shared == () and not force and is_versioned(launch.workspace):
            return target.change("skipped", before, before, *_unshareable(target, launch))
        if problem := _no_place(target, before, launch, environment, texts):
            return target.change("skipped", before, before, *problem)
        if before is None:
            return target.change("add", None, client.render(launch, name))
        state: State = "add" if present is None else "replace"
        return target.change(state, before, set_entry(client, before, launch, name))
    except (FileFaultError, OSError, UnicodeDecodeError) as error:
        return _refused(client, target.file, error)


def _leads_elsewhere(present: object, workspace: Path) -> str:
    """Words on an entry that names the port file of another folder's server, as one of another working tree does."""
    ours = port_file(workspace)
    found = (word for word in command_line(present) if word.endswith(f"/{ours.relative_to(workspace).as_posix()}"))
    file = next(found, None) if starts_relay(present) else None
    return "" if file in (None, str(ours)) else f", which leads to the server of {PurePath(str(file)).parents[2]}"


def _unshareable(target: _Target, launch: Launch) -> tuple[str, str]:
    """Why no entry is written into a file that a team shares, and what to do."""
    client = target.client
    problem = "it is shared by git, and the entry would name paths of this machine: "
    first = ""
    if is_border(str(launch.workspace)):
        problem += "--workspace auto takes no folder of others, nor home or one for temporary files"
    else:
        problem += f"no {RELAY[0]} of this version is on the PATH"
        first = f"{_onto_the_path(launch)}, then run init again; else "
    fix = f"codriver init --client {client.id} --force writes them all the same"
    if "user" in client.scopes:
        fix = f"codriver init --client {client.id} --scope user writes your own file"
    elif client.private:
        words = typed(command_line(client.entry(launch.in_scope("user"), target.name)))
        fix = f"{fix}, or for you alone, in that folder: `{client.private.format(name=target.name)} {words}`"
    return problem, first + fix


def _onto_the_path(launch: Launch) -> str:
    """The simplest way to have the relay's command on the PATH, in words."""
    installed = "`uv tool install .` in a checkout of Codriver"
    venv = launch.python.parents[1]
    if (venv / "pyvenv.cfg").is_file() and program_in(launch.python.parent, RELAY[0]):
        return f"activate {venv}, or {installed}"
    return installed


def _no_place(
    target: _Target, before: str | None, launch: Launch, environment: Environment, texts: Mapping[Path, str | None]
) -> tuple[str, str] | None:
    """Why no entry belongs here, and what to do: the file is another client's, or another file has an entry already."""
    client = target.client
    if before is not None and (key := foreign_key(client, before)):
        others = [scope for scope in client.scopes if scope != target.scope]
        fix = "keep the two apart"
        if others:
            fix = f"codriver init --client {client.id} --scope {others[0]} writes another file"
        return f"its key {key} is for clients that read another key than {client.title}", fix
    for scope in get_args(Scope) if client.is_once else ():
        if scope == target.scope or scope not in client.scopes:
            continue
        other = _target(client, launch, environment, scope)
        text = other.text(texts)
        if text is not None and starts_relay(find_entry(client, text, other.name)):
            problem = f"{client.title} reads {other.file} too, which has the entry, and would start codriver twice"
            return problem, f"codriver init --remove --client {client.id} --scope {scope} takes that one out"
    return None


def _plan_removal(target: _Target, texts: Mapping[Path, str | None], *, force: bool) -> Change:
    client, name = target.client, target.name
    try:
        before = target.text(texts)
        present = find_entry(client, before, name) if before is not None else None
        if before is None or present is None:
            return target.change("absent", before, before)
        if not force and not starts_relay(present):
            problem = f"its entry {name} does not start codriver's relay"
            fix = f"codriver init --remove --client {client.id} --force removes it all the same"
            return target.change("refused", before, before, problem, fix)
        after = remove_entry(client, before, name)
        return target.change("remove", before, None if is_left_over(client, after) else after)
    except (FileFaultError, OSError, UnicodeDecodeError) as error:
        return _refused(client, target.file, error)


def _refused(client: Client, file: Path, error: Exception) -> Change:
    if isinstance(error, UnicodeDecodeError):
        problem = f"it is not UTF-8 (byte {error.start})"
    elif isinstance(error, OSError):
        problem = f"it cannot be read: {error.strerror or error}"
    else:
        problem = f"{client.title} cannot read it: {error}"
    return Change(client.title, file, "refused", None, None, problem, "mend the file and run the command again")
