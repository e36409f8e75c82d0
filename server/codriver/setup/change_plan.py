"""Plan and apply changes to the configuration files of clients.

A configuration file is handled as text in which one entry is found, set or removed.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from codriver import files
from codriver.errors import StartError
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import port_file
from codriver.setup import jsonc
from codriver.setup.client_entries import (
    command_line,
    is_acceptable_command,
    is_versioned,
    is_written_by_init,
    starts_relay,
)
from codriver.setup.clients import NAME_PLACEHOLDER, entry_name
from codriver.setup.jsonc import FileFormatError
from codriver.setup.relay_launch import Scope
from codriver.setup.shared_command import RELAY_COMMAND
from codriver.systems.file_system import permission_bits
from codriver.systems.programs import find_program, quote_command_line
from codriver_relay.workspace_search import is_search_boundary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from codriver.files import DirectoryEntry
    from codriver.setup.clients import Client
    from codriver.setup.environment import Environment
    from codriver.setup.relay_launch import Launch

MAX_CONFIGURATION_BYTES: Final = 32 * files.MEBIBYTE
"""Maximum size of a configuration file. The limit is high because some clients also store their conversations in it."""
NEW_DIRECTORY_MODE: Final = 0o777
"""Mode of new directories, restricted by the user's umask."""
AUTO_REFUSAL: Final = "--workspace auto does not accept other users' folders, the home folder, or temporary folders"
"""Why a client's entry must contain the path of a workspace in such a folder, as a clause for messages."""

PROGRAM_MODE: Final = 0o755
"""Mode of new executable files."""

State = Literal["add", "replace", "remove", "same", "absent", "refused", "skipped"]
"""What a change does.

`same` and `absent` mean that nothing needs to be changed. For `refused` and `skipped`, see `Change`.
"""


def find_entry(client: Client, text: str, name: str) -> Any:
    """Return the parsed entry with this name in a configuration file, or None.

    Raises:
        FileFormatError: the client could not read the file.
    """
    node = _parse(client, text)
    for key in (*client.entry_path(), name):
        if not isinstance(node, dict) or key not in node:
            return None
        node = node[key]
    return node


def find_foreign_key(client: Client, text: str) -> str | None:
    """Return a top-level key that only another client's files have, or None.

    Raises:
        FileFormatError: the client could not read the file.
    """
    return next((key for key in client.foreign if key in _parse(client, text)), None)


def set_entry(client: Client, text: str, launch: Launch, name: str) -> str:
    """Return the text of a configuration file with the entry added or replaced. Everything else is preserved.

    Raises:
        FileFormatError: the file does not have the structure that the client documents.
    """
    keys = (*client.entry_path(), name)
    if not client.is_toml:
        if jsonc.parse_jsonc(text) is None:
            return _append_block(text, client.render(launch, name))
        return jsonc.set_member(text, keys, client.entry(launch, name))
    block = client.render(launch, name)
    tries = (
        _table_swaps(text, keys, block) if find_entry(client, text, name) is not None else [_append_block(text, block)]
    )
    entry = client.entry(launch, name)
    good = (changed for changed in tries if _differs_only_in_entry(changed, text, keys, entry))
    return next(good, None) or _replace_in_toml(text, keys, entry)


def remove_entry(client: Client, text: str, name: str) -> str:
    """Return the text of a configuration file without the entry and any objects that become empty.

    Everything else is preserved.
    """
    keys = (*client.entry_path(), name)
    if find_entry(client, text, name) is None:
        return text
    if not client.is_toml:
        return jsonc.remove_with_empty_parents(text, keys)
    good = (changed for changed in _table_swaps(text, keys, "") if _differs_only_in_entry(changed, text, keys, None))
    changed = next(good, None)
    return _replace_in_toml(text, keys, None) if changed is None else changed


def is_empty_template(client: Client, text: str) -> bool:
    """Return whether a file contains only the text that the client's template puts around an entry."""
    if client.is_toml:
        return not text.strip()
    try:
        root = jsonc.parse_jsonc(text, comments=False)
    except FileFormatError:
        return False  # somebody's comment is worth keeping
    around = jsonc.parse_jsonc(
        jsonc.remove_with_empty_parents(client.template, (*client.entry_path(), NAME_PLACEHOLDER))
    )
    return root is not None and around is not None and root.value == around.value


def _parse(client: Client, text: str) -> Any:
    if client.is_toml:
        try:
            return tomllib.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:  # invalid TOML, oversized numbers, or excessive nesting
            line, column = _toml_position(text, str(error))
            raise FileFormatError(str(error).split(" (at ")[0], line, column) from error
    root = jsonc.parse_jsonc(text, comments=client.comments, trailing_commas=client.trailing_commas)
    if root is None:
        return {}
    if not isinstance(root.value, dict):
        raise FileFormatError("expected an object here", *jsonc.line_and_column(text, root.start))
    return root.value


def _toml_position(text: str, message: str) -> tuple[int, int]:
    """Return the line and column at the end of tomllib's error message, or else the end of the text."""
    numbers = [
        int(word) for word in message.rpartition("(at ")[2].replace(",", " ").rstrip(")").split() if word.isdigit()
    ]
    return (numbers[0], numbers[1]) if len(numbers) == 2 else jsonc.line_and_column(text, len(text))


def _table_swaps(text: str, keys: tuple[str, ...], block: str) -> Iterator[str]:
    """Yield the text with the table `[a.b]` and its subtables replaced, once for each line that may start the table.

    Lines are replaced as a whole, so that comments after the table, which belong to the next one, are preserved. A line
    within a multi-line string can look like a header, so the caller uses the first valid version.
    """
    name = r"\s*\.\s*".join(rf"[\"']?{re.escape(key)}[\"']?" for key in keys)
    header = re.compile(rf"\s*\[\s*{name}\s*(\.[^\]]*)?\]")
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    for start in (number for number, line in enumerate(lines) if header.match(line)):
        end = start + 1
        while end < len(lines) and (header.match(lines[end]) or not re.match(r"\s*\[\[?\s*[\w\"'-]", lines[end])):
            end += 1
        while not lines[end - 1].split("#")[0].strip():
            end -= 1
        has_gap = not block and start and not lines[start - 1].strip()
        head = lines[: start - 1] if has_gap else lines[:start]
        yield "".join([*head, block.replace("\n", newline), *lines[end:]])


def _differs_only_in_entry(changed: str, text: str, keys: tuple[str, ...], entry: Any) -> bool:
    """Return whether `changed` means the same as `text` except for having `entry`, or no entry if None, at `keys`."""
    try:
        new, old = (tomllib.loads(version.removeprefix("\ufeff")) for version in (changed, text))
    except (ValueError, RecursionError):  # as above
        return False
    _pop_entry(old, keys)
    return bool(_pop_entry(new, keys) == entry and new == old)


def _pop_entry(document: dict[str, Any], keys: tuple[str, ...]) -> Any:
    """Remove and return the entry at `keys`, with any tables that become empty. Return None if it does not exist."""
    first, *rest = keys
    if not rest:
        return document.pop(first, None)
    inner = document.get(first)
    removed = _pop_entry(inner, tuple(rest)) if isinstance(inner, dict) else None
    if inner == {}:
        del document[first]
    return removed


def _replace_in_toml(text: str, keys: tuple[str, ...], entry: Any) -> str:
    """Return the text with the entry at `keys` replaced or removed, however TOML expresses it.

    Raises:
        FileFormatError: the entry is written in a way that cannot be changed separately.
    """
    import tomlkit  # noqa: PLC0415  # rarely needed, as only one client uses TOML

    table_name = ".".join(keys[:-1])
    format_error = FileFormatError(
        f"write {table_name} as [{table_name}.NAME] tables, so that a single one can be changed", 1, 1
    )
    document = tomlkit.parse(text.removeprefix("\ufeff"))
    holder: Any = document
    for key in keys[:-1]:
        holder = holder.setdefault(key, {})
        if not isinstance(holder, dict):
            raise format_error
    if entry is None:
        del holder[keys[-1]]
    else:
        if not isinstance(holder.get(keys[-1]), dict):
            holder[keys[-1]] = {}
        table = holder[keys[-1]]
        for key in [key for key in table if key not in entry]:
            del table[key]
        table.update(entry)
    changed = ("\ufeff" if text.startswith("\ufeff") else "") + tomlkit.dumps(document)
    if not _differs_only_in_entry(changed, text, keys, entry):
        raise format_error
    return changed


def _append_block(text: str, block: str) -> str:
    """Append a block to a string after an empty line, with the line endings of the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    head = text.rstrip()
    block = block.replace("\n", newline)
    return f"{head}{newline}{newline}{block}" if head.strip("\ufeff") else f"{head}{block}"


class FileChangedError(StartError):
    """Raised when a file was changed after the plan was made."""

    def __init__(self, file: Path) -> None:
        super().__init__(f"{file} was changed in the meantime and was left as it is. Run the command again")


class CannotWriteError(StartError):
    """Raised when a file cannot be written."""

    def __init__(self, file: Path, error: OSError) -> None:
        super().__init__(f"{file} cannot be written: {error.strerror or error}")


@dataclass(frozen=True, slots=True)
class Change:
    """A planned or completed change to one file.

    If the state is `refused` or `skipped`, nothing is changed. A skipped change counts as an error only if the user
    named the client.
    """

    title: str
    file: Path
    state: State
    before: str | None
    """The whole previous content, or None if the file does not exist."""
    after: str | None
    """The whole new content, or None if the file is removed."""
    reason: str = ""
    """The reason why nothing is changed, if the state is `refused` or `skipped`."""
    fix: str = ""
    """Advice on what to do if nothing is changed."""
    next: str = ""
    root: Path | None = None
    """The workspace, for a file in it, or None for one of the user's files."""
    is_executable: bool = False
    """Whether a new file is executable."""

    @property
    def is_pending(self) -> bool:
        """Return whether applying the change would write or remove the file."""
        return self.state in ("add", "replace", "remove")


def plan_entries(
    clients: Iterable[Client],
    launch: Launch,
    environment: Environment,
    *,
    scope: Scope | None = None,
    force: bool = False,
    approve: bool = False,
) -> tuple[Change, ...]:
    """Return the changes that make these clients start the relay for `launch.workspace`.

    Without `scope`, the entry is written to the workspace if possible. With `force`, a different entry with the same
    name is replaced. Clients that share a file get a single entry. With `approve`, the entry lets the client run all
    tools without asking, if the client has such a setting. Unless `force` is set, an existing entry that already does
    so is preserved.

    Raises:
        NoSuchScopeError: a client has no file in `scope`.
    """
    contents: dict[Path, str | None] = {}
    changes = []
    for client in clients:
        target = _find_target(client, launch, environment, scope)
        granting = replace(target, client=client.with_approval())
        is_plain = approve and _plan_entry(target, launch, environment, contents, force=False).state == "same"
        if approve or (not force and _is_approved(target, contents)):
            target = granting
        changes.append(_plan_entry(target, launch, environment, contents, force=force or is_plain))
        _record_content(contents, changes[-1])
    return tuple(changes)


def plan_removal(
    clients: Iterable[Client],
    launch: Launch,
    environment: Environment,
    *,
    scope: Scope | None = None,
    force: bool = False,
) -> tuple[Change, ...]:
    """Return the changes that remove these clients' entries.

    With `force`, entries that do not start Codriver's relay are removed too.
    """
    contents: dict[Path, str | None] = {}
    changes = []
    for client in clients:
        changes.append(_plan_removal(_find_target(client, launch, environment, scope), contents, force=force))
        _record_content(contents, changes[-1])
    return tuple(changes)


def format_diff(change: Change) -> str:
    """Return a change as a unified diff, or "" if it changes nothing."""
    if not change.is_pending:
        return ""
    lines = difflib.unified_diff(
        (change.before or "").splitlines(keepends=True),
        (change.after or "").splitlines(keepends=True),
        str(change.file) if change.before is not None else "/dev/null",
        str(change.file) if change.after is not None else "/dev/null",
    )
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def apply_change(change: Change) -> None:
    """Apply a change atomically. The file keeps its mode and owner, and if it is a link, the target is changed.

    Raises:
        FileChangedError: the file was changed after the plan was made.
        CannotWriteError: the file cannot be written.
    """
    if not change.is_pending:
        return
    links = _link_policy(change.root)
    try:
        with files.locate(change.file, links, root=change.root, make_mode=NEW_DIRECTORY_MODE) as file_entry:
            if _read_entry(file_entry, links) != change.before:
                raise FileChangedError(change.file)
            if change.after is None:
                file_entry.remove()
            else:
                _write(file_entry, change.after, is_executable=change.is_executable)
    except OSError as error:
        raise CannotWriteError(change.file, error) from error


def _write(file_entry: DirectoryEntry, text: str, *, is_executable: bool = False) -> None:
    """Write a file atomically, preserving the mode and owner of an existing file."""
    status = file_entry.status()
    mode, owner = (None, None) if status is None else (permission_bits(status), (status.st_uid, status.st_gid))
    file_entry.replace(text.encode("utf-8"), mode=PROGRAM_MODE if is_executable else mode, owner=owner)


def read_file(file: Path, root: Path | None) -> str | None:
    """Return the text of a file with its line endings and byte order mark, or None if it does not exist.

    If `root` is the workspace, links must not lead out of it. If `root` is None, the file belongs to the user's own
    configuration, and links are followed.
    """
    links = _link_policy(root)
    try:
        with files.locate(file, links, root=root) as file_entry:
            return _read_entry(file_entry, links)
    except FileNotFoundError:
        return None


def _read_entry(file_entry: DirectoryEntry, links: Links) -> str | None:
    try:
        return file_entry.read(FileRules(links, MAX_CONFIGURATION_BYTES)).decode("utf-8")
    except FileNotFoundError:
        return None


def _link_policy(root: Path | None) -> Links:
    return Links.OF_USER if root is None else Links.WITHIN


@dataclass(frozen=True, slots=True)
class _Target:
    """The file for a client's entry in one scope."""

    client: Client
    scope: Scope
    file: Path
    name: str
    root: Path | None

    def change(self, state: State, before: str | None, after: str | None, reason: str = "", fix: str = "") -> Change:
        """Create the change to this file from its content before and after."""
        next_step = self.client.next if state in ("add", "replace") else ""
        return Change(self.client.title, self.file, state, before, after, reason, fix, next_step, self.root)

    def text(self, contents: Mapping[Path, str | None]) -> str | None:
        """Return the content of the file after the changes planned so far."""
        return contents[self.file] if self.file in contents else read_file(self.file, self.root)


def _find_target(client: Client, launch: Launch, environment: Environment, scope: Scope | None) -> _Target:
    scope = scope or client.scopes[0]
    file, name = client.file(scope, launch.workspace, environment), entry_name(scope, launch.workspace)
    return _Target(client, scope, file, name, launch.workspace if scope == "workspace" else None)


def _record_content(contents: dict[Path, str | None], change: Change) -> None:
    """Record the planned content of a file, for later changes in the same plan."""
    if change.is_pending:
        contents[change.file] = change.after


def _is_approved(target: _Target, contents: Mapping[Path, str | None]) -> bool:
    """Return whether the existing entry already lets the client run all tools without asking."""
    try:
        text = target.text(contents)
        entry = find_entry(target.client, text, target.name) if text is not None else None
    except (FileFormatError, OSError, UnicodeDecodeError):
        return False  # reported by the plan
    approval = target.client.approval
    return bool(approval) and isinstance(entry, dict) and entry.items() >= approval.items()


def _plan_entry(
    target: _Target, launch: Launch, environment: Environment, contents: Mapping[Path, str | None], *, force: bool
) -> Change:
    client, name = target.client, target.name
    shared = launch.shared if target.scope == "workspace" else None
    launch = launch.for_scope(target.scope)
    try:
        before = target.text(contents)
        present = find_entry(client, before, name) if before is not None else None
        entry = client.entry(launch, name)
        is_codrivers = bool(shared) and is_written_by_init(present, entry)
        if before is not None and (present == entry or (shared is not None and is_acceptable_command(present, entry))):
            is_planned = target.file in contents  # planned for an earlier client in this plan
            return replace(target.change("same", before, before), next=client.next if is_planned else "")
        if present is not None and not force and not is_codrivers:
            fix = f"codriver init --client {client.id} --force replaces it"
            other = f"the file has a different entry {name}{_other_workspace_clause(present, launch.workspace)}"
            return target.change("refused", before, before, other, fix)
        if shared == () and not force and is_versioned(launch.workspace):
            return target.change("skipped", before, before, *_reason_not_shared(target, launch))
        if reason := _reason_unsuitable(target, before, launch, environment, contents):
            return target.change("skipped", before, before, *reason)
        if before is None:
            return target.change("add", None, client.render(launch, name))
        state: State = "add" if present is None else "replace"
        return target.change(state, before, set_entry(client, before, launch, name))
    except (FileFormatError, OSError, UnicodeDecodeError) as error:
        return _refused_change(client, target.file, error)


def _other_workspace_clause(present: object, workspace: Path) -> str:
    """Return a clause if the entry is for another workspace, such as another working tree. Otherwise return ""."""
    expected_port_file = port_file(workspace)
    found = (
        word
        for word in command_line(present)
        if word.endswith(f"/{expected_port_file.relative_to(workspace).as_posix()}")
    )
    file = next(found, None) if starts_relay(present) else None
    return (
        ""
        if file in (None, str(expected_port_file))
        else f", which connects to the server of {PurePath(str(file)).parents[2]}"
    )


def _reason_not_shared(target: _Target, launch: Launch) -> tuple[str, str]:
    """Return the reason why no entry is written to a shared file, and advice on what to do."""
    client = target.client
    reason = "the file is in git, and the entry would contain paths from this machine, because "
    first = ""
    if is_search_boundary(str(launch.workspace)):
        reason += AUTO_REFUSAL
    else:
        reason += f"no {RELAY_COMMAND[0]} of this version is on the PATH"
        first = f"{_install_relay_advice(launch)}, then run init again; otherwise "
    fix = f"codriver init --client {client.id} --force writes them anyway"
    if "user" in client.scopes:
        fix = f"codriver init --client {client.id} --scope user writes your own file"
    elif client.private:
        words = quote_command_line(command_line(client.entry(launch.for_scope("user"), target.name)))
        fix = f"{fix}, or only for you, in that folder: `{client.private.format(name=target.name)} {words}`"
    return reason, first + fix


def _install_relay_advice(launch: Launch) -> str:
    """Return advice on how to install the relay's command on the PATH."""
    installed = "`uv tool install .` in a checkout of Codriver"
    venv = launch.python.parents[1]
    if (venv / "pyvenv.cfg").is_file() and find_program(launch.python.parent, RELAY_COMMAND[0]):
        return f"activate {venv}, or {installed}"
    return installed


def _reason_unsuitable(
    target: _Target, before: str | None, launch: Launch, environment: Environment, contents: Mapping[Path, str | None]
) -> tuple[str, str] | None:
    """Return the reason why the entry must not be written to this file, with advice, or None if it can be written.

    The file may belong to another client, or the client may read another file that already has an entry.
    """
    client = target.client
    if before is not None and (key := find_foreign_key(client, before)):
        others = [scope for scope in client.scopes if scope != target.scope]
        fix = "use separate files for the two clients"
        if others:
            fix = f"codriver init --client {client.id} --scope {others[0]} writes another file"
        return f"the file has the key {key} of other clients, and {client.title} uses a different key", fix
    for scope in get_args(Scope) if client.is_once else ():
        if scope == target.scope or scope not in client.scopes:
            continue
        other = _find_target(client, launch, environment, scope)
        text = other.text(contents)
        if text is not None and starts_relay(find_entry(client, text, other.name)):
            reason = (
                f"{client.title} also reads {other.file}, which has an entry, so the client would start Codriver twice"
            )
            return reason, f"codriver init --remove --client {client.id} --scope {scope} removes that entry"
    return None


def _plan_removal(target: _Target, contents: Mapping[Path, str | None], *, force: bool) -> Change:
    client, name = target.client, target.name
    try:
        before = target.text(contents)
        present = find_entry(client, before, name) if before is not None else None
        if before is None or present is None:
            return target.change("absent", before, before)
        if not force and not starts_relay(present):
            reason = f"the entry {name} does not start Codriver's relay"
            fix = f"codriver init --remove --client {client.id} --force removes it anyway"
            return target.change("refused", before, before, reason, fix)
        after = remove_entry(client, before, name)
        return target.change("remove", before, None if is_empty_template(client, after) else after)
    except (FileFormatError, OSError, UnicodeDecodeError) as error:
        return _refused_change(client, target.file, error)


def _refused_change(client: Client, file: Path, error: Exception) -> Change:
    if isinstance(error, UnicodeDecodeError):
        reason = f"the file is not UTF-8 (byte {error.start})"
    elif isinstance(error, OSError):
        reason = f"the file cannot be read: {error.strerror or error}"
    else:
        reason = f"{client.title} cannot read the file: {error}"
    return Change(client.title, file, "refused", None, None, reason, "fix the file and run the command again")
