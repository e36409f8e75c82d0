"""Trust in workspaces: two grants by their user, kept outside of the workspace.

The environment grant lets a server that a client starts run the project's own REPL and the programs of its environment.
It names the workspace and the environment's directory. It does not depend on the settings, and lapses when somebody
else decides what is in that directory (`environments`).

The settings grant keeps the accepted values of those settings that would grant something (`granting`), so that a later
difference can be shown. Each value counts by itself: a new or changed one waits for the user, the others keep counting.

A settings file or a record that cannot be read suspends both grants.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver import files
from codriver.errors import StartError
from codriver.files import Links, Rules
from codriver.files.own_folders import state_directory, workspace_state_directory
from codriver.files.toml_file import TomlFileError
from codriver.repls.launch.projects import NOT_ACCEPTED, Acceptance, find_python, is_inside
from codriver.settings.environments import EnvironmentState, change_since, inspect
from codriver.settings.workspace_tables import read_tables
from codriver.systems.programs import typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


COMMAND: Final = "codriver trust"
RECORD: Final = "accepted.json"
RECORD_RULES: Final = Rules(Links.OF_USER, 256 * files.KIBIBYTE, is_granting=True)


class CannotRememberError(StartError):
    """The user's acceptance, or its end, cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}; fix that and run the command again")


@dataclass(frozen=True, slots=True)
class Record:
    """What the user has accepted in a workspace.

    `settings`: for each setting, by attribute name, its accepted items as JSON has them. `problem`: why an existing
    record cannot be used; nothing is accepted then.
    """

    environments: tuple[EnvironmentState, ...] = ()
    settings: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: MappingProxyType({}))
    is_there: bool = False
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A workspace that the user has accepted, and why that does not count any more, if so."""

    workspace: str
    lapsed: str | None


def command_for(workspace: Path) -> str:
    """Return the command that accepts a workspace, as it can be given to a shell in any directory."""
    return f"{COMMAND} --workspace {typed([str(workspace)])}"


def record_path(workspace: Path) -> Path:
    """Return the path of the file with the user's acceptance of this workspace."""
    return workspace_state_directory(workspace) / RECORD


def read_record(workspace: Path) -> Record:
    """Read what the user has accepted in this workspace. Blocks."""
    path = record_path(workspace)
    try:
        found: object = json.loads(files.read(path, RECORD_RULES))
    except FileNotFoundError:
        return Record()
    except (OSError, ValueError, RecursionError) as error:
        return Record(problem=f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
    record, named = _record_of(found)
    if record is None:
        return Record(problem=f"{path} is not in the format of this version")
    return record if named == str(workspace.resolve()) else Record()


def _record_of(found: object) -> tuple[Record | None, str]:
    match found:
        case {"workspace": str(workspace), "environments": list(directories), "settings": dict(settings)}:
            states = [EnvironmentState.from_json(one) for one in directories if isinstance(one, dict)]
            known = tuple(state for state in states if state is not None)
            is_whole = len(known) == len(directories) and all(isinstance(items, list) for items in settings.values())
            accepted = {name: tuple(items) for name, items in settings.items()} if is_whole else {}
            return (Record(known, MappingProxyType(accepted), is_there=True) if is_whole else None), workspace
    return None, ""


def accept(workspace: Path, settings: Mapping[str, Iterable[object]], directories: Iterable[str]) -> None:
    """Keep that the user accepts these items of granting settings, and these directories of environments. Blocks.

    Raises:
        CannotRememberError: the acceptance cannot be written.
    """
    path = record_path(workspace)
    found: dict[str, Any] = {
        "workspace": str(workspace.resolve()),
        "environments": [inspect(workspace, directory).to_json() for directory in directories],
        "settings": {name: list(items) for name, items in settings.items()},
    }
    try:
        data = json.dumps(found, default=str).encode("ascii")
        files.replace(path, data, links=Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE)
    except OSError as error:
        raise CannotRememberError(path, error) from error


def forget(workspace: Path) -> bool:
    """Take the acceptance back; true if there was one.

    Raises:
        CannotRememberError: the acceptance cannot be taken back.
    """
    path = record_path(workspace)
    try:
        with files.locate(path, Links.OF_USER) as place:
            place.remove()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise CannotRememberError(path, error) from error
    return True


def environment_acceptance(workspace: Path) -> Acceptance:
    """Return the state of the environment grant of a workspace. Blocks."""
    record = read_record(workspace)
    if record.problem is not None:
        return Acceptance(lapsed=record.problem)
    if not record.is_there:
        return NOT_ACCEPTED
    try:
        read_tables(workspace)
    except TomlFileError as error:
        return Acceptance(lapsed=str(error))
    for state in record.environments:
        change = change_since(state, inspect(workspace, state.path))
        if change is not None:
            return Acceptance(lapsed=change)
    return Acceptance(is_given=True, directories=tuple(state.path for state in record.environments))


def environment_lapse(workspace: Path, environ: Mapping[str, str], chosen: str) -> str | None:
    """Return why a given environment grant does not count for the interpreter in use; None if it does. Blocks.

    None also for a workspace that was never accepted. `chosen`: the setting `python`.
    """
    acceptance = environment_acceptance(workspace)
    if acceptance.lapsed is not None or not acceptance.is_given:
        return acceptance.lapsed
    python = find_python(workspace, environ, chosen).path
    return acceptance.lapse_for(python, workspace) if is_inside(python, workspace, workspace) else None


def lapse_sentence(lapsed: str, workspace: Path | None = None) -> str:
    """Return the sentence about a lapsed environment grant, with the whole command if the workspace is given."""
    command = f"`{COMMAND}` there" if workspace is None else f"`{command_for(workspace)}`"
    effect = "a server that a client starts runs nothing of this project by itself"
    return f"the acceptance of this workspace has lapsed, as {lapsed}: {effect}; check that, then run {command}"


def is_accepted(workspace: Path) -> bool:
    """Return whether the environment grant of this workspace counts. Blocks."""
    return environment_acceptance(workspace).is_given


def list_accepted() -> tuple[Accepted, ...]:
    """Return every workspace that was accepted, by name. Blocks."""
    from pathlib import Path  # noqa: PLC0415  # only the listing needs it

    names = []
    for path in sorted((state_directory() / "workspaces").glob(f"*/{RECORD}")):
        found = files.read_json(path, RECORD_RULES)
        if isinstance(found, dict) and isinstance(found.get("workspace"), str):
            names.append(found["workspace"])
    return tuple(Accepted(name, environment_acceptance(Path(name)).lapsed) for name in sorted(names))
