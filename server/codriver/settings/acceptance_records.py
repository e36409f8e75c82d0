"""Records of the workspaces whose settings and Python environments the user trusts, stored outside the workspaces.

The environment grant lets a server that a client starts run the project's own REPL and the programs in its environment.
It covers the workspace and the directory of the environment, regardless of the settings. It lapses when somebody else
gains control over that directory (see `environment_acceptance`).

The settings grant stores the accepted values of settings that grant something (see `granting`), so that later
differences can be shown. Each value is accepted separately: a new or changed value waits for the user while the others
stay in effect.

A settings file or record that cannot be read suspends both grants.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.errors import StartError
from codriver.files import FileRules, Links
from codriver.files.codriver_paths import state_directory, workspace_state_directory
from codriver.files.toml_file import TomlFileError
from codriver.repls.launch.projects import NOT_ACCEPTED, TRUST_COMMAND, Acceptance, find_python, is_inside
from codriver.settings.environment_acceptance import EnvironmentState, describe_revoking_change, inspect_directory
from codriver.settings.workspace_tables import read_tables
from codriver.systems.programs import quote_command_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


ACCEPTANCE_FILE: Final = "accepted.json"
RECORD_RULES: Final = FileRules(Links.OF_USER, 256 * files.KIBIBYTE, is_granting=True)


class CannotRememberError(StartError):
    """Raised when the record of what the user has accepted cannot be written or removed."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"cannot write {path}: {error.strerror or error}. Fix this and run the command again")


@dataclass(frozen=True, slots=True)
class AcceptanceRecord:
    """A record of the settings and the environment that the user has accepted in a workspace."""

    environments: tuple[EnvironmentState, ...] = ()
    settings: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The accepted items of each setting as JSON, by attribute name."""
    exists: bool = False
    error: str | None = None
    """The reason why an existing record cannot be used, in which case nothing is accepted."""


@dataclass(frozen=True, slots=True)
class AcceptedWorkspace:
    """A workspace that the user has accepted, and the reason why the acceptance no longer applies, or None."""

    workspace: str
    lapsed: str | None


def accept_command(workspace: Path) -> str:
    """Return the shell command that accepts a workspace. It works in any directory."""
    return f"{TRUST_COMMAND} --workspace {quote_command_line([str(workspace)])}"


def record_path(workspace: Path) -> Path:
    """Return the path of the file that records what the user has accepted in a workspace."""
    return workspace_state_directory(workspace) / ACCEPTANCE_FILE


def read_record(workspace: Path) -> AcceptanceRecord:
    """Return the record of what the user has accepted in a workspace. Blocks on disk I/O."""
    path = record_path(workspace)
    try:
        found: object = json.loads(files.read(path, RECORD_RULES))
    except FileNotFoundError:
        return AcceptanceRecord()
    except (OSError, ValueError, RecursionError) as error:
        return AcceptanceRecord(error=f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
    record, named = _parse_record(found)
    if record is None:
        return AcceptanceRecord(error=f"{path} is not in the format of this version")
    return record if named == str(workspace.resolve()) else AcceptanceRecord()


def _parse_record(found: object) -> tuple[AcceptanceRecord | None, str]:
    match found:
        case {"workspace": str(workspace), "environments": list(directories), "settings": dict(settings)}:
            states = [EnvironmentState.from_json(directory) for directory in directories if isinstance(directory, dict)]
            known = tuple(state for state in states if state is not None)
            is_whole = len(known) == len(directories) and all(isinstance(items, list) for items in settings.values())
            accepted = {name: tuple(items) for name, items in settings.items()} if is_whole else {}
            return (AcceptanceRecord(known, MappingProxyType(accepted), exists=True) if is_whole else None), workspace
    return None, ""


def record_acceptance(workspace: Path, settings: Mapping[str, Iterable[object]], directories: Iterable[str]) -> None:
    """Record that the user accepts these items of settings and these environment directories. Blocks on disk I/O.

    Raises:
        CannotRememberError: the record cannot be written.
    """
    path = record_path(workspace)
    found: dict[str, Any] = {
        "workspace": str(workspace.resolve()),
        "environments": [inspect_directory(workspace, directory).to_json() for directory in directories],
        "settings": {name: list(items) for name, items in settings.items()},
    }
    try:
        data = json.dumps(found, default=str).encode("ascii")
        files.replace(path, data, links=Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
    except OSError as error:
        raise CannotRememberError(path, error) from error


def revoke_acceptance(workspace: Path) -> bool:
    """Delete the record of what the user has accepted, and return whether there was one.

    Raises:
        CannotRememberError: the record cannot be deleted.
    """
    path = record_path(workspace)
    try:
        with files.locate(path, Links.OF_USER) as entry:
            entry.remove()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CannotRememberError(path, error) from error
    return True


def environment_acceptance(workspace: Path) -> Acceptance:
    """Return whether the user has accepted the Python environment of a workspace, and whether this still applies.

    Blocks on disk I/O.
    """
    record = read_record(workspace)
    if record.error is not None:
        return Acceptance(lapsed=record.error)
    if not record.exists:
        return NOT_ACCEPTED
    try:
        read_tables(workspace)
    except TomlFileError as error:
        return Acceptance(lapsed=str(error))
    for state in record.environments:
        change = describe_revoking_change(state, inspect_directory(workspace, state.path))
        if change is not None:
            return Acceptance(lapsed=change)
    return Acceptance(is_given=True, directories=tuple(state.path for state in record.environments))


def environment_lapse_reason(workspace: Path, environ: Mapping[str, str], chosen: str) -> str | None:
    """Return the reason why the acceptance of an environment does not apply to the interpreter in use, or None.

    Returns None if it applies, or if the workspace was never accepted. `chosen` is the value of the `python` setting.
    Blocks on disk I/O.
    """
    acceptance = environment_acceptance(workspace)
    if acceptance.lapsed is not None or not acceptance.is_given:
        return acceptance.lapsed
    python = find_python(workspace, environ, chosen).path
    return acceptance.lapse_reason(python, workspace) if is_inside(python, workspace, workspace) else None


def lapse_message(lapsed: str, workspace: Path | None = None) -> str:
    """Return the message about an acceptance that no longer applies.

    If the workspace is given, the message includes the command that accepts it again.
    """
    command = f"`{TRUST_COMMAND}` there" if workspace is None else f"`{accept_command(workspace)}`"
    effect = "servers that clients start do not run this project's interpreter"
    return (
        f"the acceptance of this workspace has lapsed because {lapsed}: {effect}. Review the change, then run {command}"
    )


def is_accepted(workspace: Path) -> bool:
    """Return whether the environment of this workspace is accepted and has not changed since. Blocks on disk I/O."""
    return environment_acceptance(workspace).is_given


def list_accepted() -> tuple[AcceptedWorkspace, ...]:
    """Return all workspaces that the user has accepted, sorted by path. Blocks on disk I/O."""
    from pathlib import Path  # noqa: PLC0415  # only the listing needs it

    names = []
    for path in sorted((state_directory() / "workspaces").glob(f"*/{ACCEPTANCE_FILE}")):
        found = files.read_json(path, RECORD_RULES)
        if isinstance(found, dict) and isinstance(found.get("workspace"), str):
            names.append(found["workspace"])
    return tuple(AcceptedWorkspace(name, environment_acceptance(Path(name)).lapsed) for name in sorted(names))
