"""Trust in workspaces: whose settings files the user has accepted, and which settings count only then.

A checkout's settings are words of a stranger, and some of them would run a command, let others in or let edits out.
Such settings count only once the user has accepted exactly these words: a digest of the files' settings is kept outside
of the workspace, and any change of them takes the acceptance back. Everything else in a workspace's settings changes
how Codriver serves, and nothing about what it may do to whom.

A grant is a smaller yes, given through a client for a server's life and written nowhere: to the project's own
interpreter by its path, for the settings as they were, and to no command, host or hook that they ask for.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.errors import StartError, cut
from codriver.files import Links, Rules, toml_file
from codriver.files.own_folders import state_folder, workspace_state_folder
from codriver.files.toml_file import TomlFileError
from codriver.net.admission import is_loopback
from codriver.repls import kinds
from codriver.systems.programs import typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


COMMAND: Final = "codriver trust"
RECORD: Final = "accepted.json"
RECORD_RULES: Final = Rules(Links.OWN, 64 * files.KIBIBYTE, is_granting=True)


class CannotRememberError(StartError):
    """The user's acceptance, or its end, cannot be written down."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}; mend that and run the command again")


@dataclass(frozen=True, slots=True)
class WorkspaceTables:
    """The settings that a workspace gives itself: `[tool.codriver]` of pyproject.toml, and codriver.toml."""

    project: Mapping[str, Any]
    own: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """The digest that tells these tables from all others. Comments and the order of keys make no difference."""
        text = json.dumps([self.project, self.own], sort_keys=True, default=repr)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Accepted:
    """A workspace that the user has accepted, and whether its files still say the same."""

    workspace: str
    is_current: bool


def command_for(workspace: Path) -> str:
    """The command that accepts a workspace, as it can be given to a shell anywhere."""
    return f"{COMMAND} --workspace {typed([str(workspace)])}"


def project_file(workspace: Path) -> Path:
    """The project's file, which has a table for settings."""
    return workspace / "pyproject.toml"


def own_file(workspace: Path) -> Path:
    """The workspace's own settings file."""
    return workspace / "codriver.toml"


def read_tables(workspace: Path) -> WorkspaceTables:
    """The settings of a workspace as written, unchecked; empty for a workspace without any.

    Raises:
        TomlFileError: a file cannot be read, or has something else at the place of the table.
    """
    file = project_file(workspace)
    table: object = toml_file.read(file, root=workspace)
    for key in ("tool", "codriver"):
        table = table.get(key, {}) if isinstance(table, dict) else table
    if not isinstance(table, dict):
        raise TomlFileError(file, "tool.codriver is no table; write [tool.codriver] and the settings below")
    return WorkspaceTables(table, toml_file.read(own_file(workspace), root=workspace))


def is_accepted(workspace: Path, tables: WorkspaceTables | None = None) -> bool:
    """Whether the user has accepted this workspace with its present settings files; unreadable ones: no.

    `tables`, when given, are used instead of reading the files again.
    """
    digest = kept_digest(workspace)
    if digest is None:
        return False
    try:
        return digest == (tables or read_tables(workspace)).digest
    except TomlFileError:
        return False


def record_path(workspace: Path) -> Path:
    """The file that says which settings the user accepted for this workspace."""
    return workspace_state_folder(workspace) / RECORD


def kept_digest(workspace: Path) -> str | None:
    """The digest that the user accepted for this workspace; None when there is none."""
    kept = _read_record(record_path(workspace))
    return kept.get("sha256") if kept is not None and kept.get("workspace") == str(workspace.resolve()) else None


def accept(workspace: Path, tables: WorkspaceTables) -> None:
    """Keep that the user accepts this workspace with these settings.

    Raises:
        CannotRememberError: the acceptance cannot be written down.
    """
    path = record_path(workspace)
    text = json.dumps({"workspace": str(workspace.resolve()), "sha256": tables.digest})
    try:
        files.replace(path, text.encode("ascii"), links=Links.OWN, make_mode=files.PRIVATE_FOLDER)
    except OSError as error:
        raise CannotRememberError(path, error) from error


def forget(workspace: Path) -> bool:
    """Take the acceptance back; true if there was one.

    Raises:
        CannotRememberError: the acceptance cannot be taken back.
    """
    path = record_path(workspace)
    try:
        with files.locate(path, Links.OWN) as place:
            place.remove()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CannotRememberError(path, error) from error
    return True


def list_accepted() -> tuple[Accepted, ...]:
    """Every workspace that was accepted, by name."""
    from pathlib import Path  # noqa: PLC0415  # only the listing needs it

    kept = (_read_record(path) for path in sorted((state_folder() / "workspaces").glob(f"*/{RECORD}")))
    names = sorted(record["workspace"] for record in kept if record is not None)
    return tuple(Accepted(name, is_accepted(Path(name))) for name in names)


def _read_record(path: Path) -> dict[str, str] | None:
    record = files.read_json(path, RECORD_RULES)
    if not isinstance(record, dict):
        return None
    return record if all(isinstance(record.get(key), str) for key in ("workspace", "sha256")) else None


SHOWN_CHARACTERS: Final = 120


def _is_known_repl(words: str) -> bool:
    return words == kinds.NO_REPL or words in kinds.by_word()


def _is_near(address: str) -> bool:
    host, colon, _ = address.rpartition("=")[2].rpartition(":")
    return not colon or is_loopback(host)


def _is_within(path: str) -> bool:
    return not (path.startswith(("/", "\\")) or ".." in path or ":" in path)


_HARMLESS_ITEMS: Mapping[str, Callable[[str], bool]] = MappingProxyType(
    {
        "repl": _is_known_repl,  # any other word is a command line, and an interpreter's path is one too
        "nrepl": _is_near,
        "port_files": _is_within,
        "skill_sources": lambda _: False,
    }
)
"""By list: whether an item grants nothing."""

_GRANTING_VALUES: Mapping[str, object] = MappingProxyType(
    {
        "auto_start_mcp_server": True,
        "allow_edits_outside_workspace": True,
        "allow_edits_of_client_files": True,
        "allow_sensitive_reads": True,
        "enable_mcp_repl_evaluation": True,
        "require_token": False,
        "watch": True,  # a watcher runs the code that is saved, or checked out
        "hook_reload": True,  # as above
        "hook_gate": True,
    }
)
"""By switch: the value that grants something. A workspace may always take something away."""

_GRANTING_TEXTS: Final = frozenset({"host", "clojuredocs_url", "python"})


def split_granting(name: str, value: object, current: object) -> tuple[object, object]:
    """The part of a value for the setting `name` from a workspace's file that counts, and the rest; None for nothing.

    `current`: the value without that file, which needs no acceptance.
    """
    if name in _HARMLESS_ITEMS and isinstance(value, tuple):
        had = current if isinstance(current, tuple) else ()
        held = tuple(item for item in value if item not in had and not _HARMLESS_ITEMS[name](item))
        kept = tuple(item for item in value if item not in held)
        return (kept if kept or not held else None), held or None
    is_granting = name in _GRANTING_TEXTS or (name in _GRANTING_VALUES and value is _GRANTING_VALUES[name])
    return (None, value) if is_granting and value != current else (value, None)


_OF_ITEMS: Mapping[str, str] = MappingProxyType(
    {
        "repl": "the words of known REPLs; a command line once accepted",
        "nrepl": "on this machine; others once accepted",
        "port_files": "below the workspace; others once accepted",
        "skill_sources": "once accepted",
        "kernels": "never",
    }
)


def when_it_counts(name: str) -> str:
    """The condition, in words, under which a workspace's file decides the setting `name`."""
    if name in _GRANTING_VALUES:
        return f"{json.dumps(_GRANTING_VALUES[name])} once accepted"
    return _OF_ITEMS.get(name) or ("once accepted" if name in _GRANTING_TEXTS else "always")


def shown_value(value: object) -> str:
    """A value in one line, not too long."""
    return cut(json.dumps(value, default=str), SHOWN_CHARACTERS)


class Grants:
    """The grant of one workspace, for the life of one server.

    `python_of` gives the interpreter that would run were the workspace accepted, None for a workspace without any. The
    function blocks.
    """

    def __init__(self, workspace: Path, python_of: Callable[[], str | None]) -> None:
        self._workspace = workspace
        self._python_of = python_of
        self._asked: dict[str, str] = {}
        """By the path of an interpreter that a human is asked for: the digest of the settings at that time."""
        self._given: tuple[str, str] | None = None
        """The interpreter that may run, and the digest of the settings with which it may."""

    def wanted(self) -> str | None:
        """The interpreter to ask for, by its path; None when no interpreter waits for the user's yes. Blocks."""
        if is_accepted(self._workspace):
            return None
        python, digest = self._python_of(), self._digest()
        if python is None or digest is None:
            return None
        self._asked[python] = digest
        return python

    @property
    def is_given(self) -> bool:
        """True from the user's yes on."""
        return self._given is not None

    def give(self, python: str) -> None:
        """Let an interpreter that was asked for run from now on, with the settings of that time."""
        self._given = python, self._asked[python]

    def allows(self, python: str) -> bool:
        """True if the user let this interpreter run, with the present settings. Blocks."""
        return self._given is not None and self._given == (python, self._digest())

    def _digest(self) -> str | None:
        try:
            return read_tables(self._workspace).digest
        except TomlFileError:
            return None
