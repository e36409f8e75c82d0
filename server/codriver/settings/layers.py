"""The layers that settings are loaded from, each value with the layer it comes from, and their reload.

Defaults < the user's file < the workspace's file (`codriver.toml`, or `[tool.codriver]` in `pyproject.toml`; the first
wins where both have a key) < environment (`CODRIVER_…`) < command line < the machine's policy, which can only
turn off. Anybody may have written the workspace's file: a setting that would grant something counts there once the user
has accepted its value. While a server runs, some changes
take effect at once, others wait for a restart.
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from pydantic import ValidationError

from codriver.errors import StartError
from codriver.files import toml_file
from codriver.files.own_folders import user_settings_file
from codriver.files.toml_file import TomlFileError
from codriver.files.whole_files import ReadCache
from codriver.files.working_trees import main_checkout
from codriver.settings import granting, machine_policy, trust
from codriver.settings.model import (
    GROWING,
    PREFIX,
    Settings,
    allowed,
    is_list,
    printed,
    problem_of,
    spelled,
    variable,
)
from codriver.settings.workspace_tables import WorkspaceTables, own_file, project_file, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.settings.machine_policy import MachinePolicy


T = TypeVar("T")
NOT_SETTINGS = frozenset(
    {
        "CODRIVER_TOKEN",
        "CODRIVER_KERNEL_TOKEN",
        "CODRIVER_SERVER_COMMAND",
        "CODRIVER_DURATIONS",
        "CODRIVER_RELAY_GIVE_UP_S",
        "CODRIVER_RELAY_DURATIONS",
    }
)
"""Variables with our prefix that other parts read."""


USERS_ALONE: Mapping[str, str] = MappingProxyType({
    "kernels": "does not count in a workspace's file, as it says which server a token is shown to: it belongs into "
    "your own settings, or on the command line",
})  # fmt: skip
"""Settings that never count in a workspace's file, also in one that is accepted, and why."""
ADDED = frozenset({"kernels"})
"""Lists that a stronger layer extends; every other list is replaced by the stronger layer's."""

USUAL_WORDS = MappingProxyType({
    "port": "mcpSocketServerPort", "serverport": "mcpSocketServerPort", "listen": "host", "bind": "host",
    "address": "host", "timeout": "evaluateTimeoutMs", "timeoutms": "evaluateTimeoutMs", "token": "requireToken",
    "auth": "requireToken", "repls": "repl", "idleexit": "idleExitSeconds", "idletimeout": "idleExitSeconds",
    "autostart": "autoStartMCPServer", "interpreter": "python", "skills": "skillSources", "clients": "maxClients",
})  # fmt: skip
"""By a word that other programs have, bare of case and separators: the setting that it may mean."""


class SettingsError(StartError):
    """A setting has a wrong value, or a settings file cannot be read. `place` is the file, variable or layer.

    `faults`: each place with the sentence about it, all that keeps the settings from being used.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.faults: tuple[tuple[str, str], ...] = ((place, f"{place}: {problem}"),)
        self.warnings: tuple[str, ...] = ()

    @classmethod
    def of_all(cls, errors: Sequence[SettingsError], warnings: Sequence[str]) -> SettingsError:
        """Return one error that says all of `errors`, a line each; `warnings` are faults that are not fatal."""
        one = cls(errors[0].place, "")
        one.args = ("\n".join((*map(str, errors), *warnings)),)
        one.faults, one.warnings = tuple(fault for error in errors for fault in error.faults), tuple(warnings)
        return one

    @property
    def problems(self) -> tuple[str, ...]:
        """Return all faults of the settings, the fatal first, as far as the settings could be read."""
        return (*(problem for _place, problem in self.faults), *self.warnings)


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a value, and its place.

    The origin is `default`, `user`, `workspace`, `environment`, `command line` or `machine`.
    """

    layer: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Withheld:
    """A setting of a workspace's file, with the value that does not count until the user accepts it.

    `accepted`: the items of the setting that the user has accepted. `was_accepted`: whether the user has accepted the
    workspace at all. `problem`: why that acceptance cannot be read.
    """

    place: str
    setting: str
    value: object
    accepted: tuple[object, ...] = ()
    was_accepted: bool = False
    problem: str | None = None

    def __str__(self) -> str:
        """Return the setting as it is written, with its file."""
        return f"{self.place}: {self.setting} = {granting.shown_value(self.value)}"

    @property
    def change(self) -> str:
        """Return the clause that says why the value does not count."""
        if self.problem is not None:
            return f"as the acceptance has lapsed: {self.problem}"
        if self.accepted:
            items = self.accepted if isinstance(self.value, tuple) else self.accepted[0]
            known = self.accepted if isinstance(self.value, tuple) or len(self.accepted) > 1 else items
            return f"as it was changed: accepted is {granting.shown_value(known)}"
        if self.was_accepted:
            return "as it was added after its user had accepted this workspace"
        return "as its user has not accepted this workspace's settings"


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that were loaded, the origin of each by attribute name, and the faults that are not fatal.

    `withheld`: the settings of the workspace's files that do not count until the user accepts them. `granting`: for
    each setting of those files, by attribute name, its items that grant something, accepted or not.
    """

    settings: Settings
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    granting: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: MappingProxyType({}))
    policy: MachinePolicy | None = None


@dataclass(frozen=True, slots=True)
class _Layer:
    """One layer's values by attribute name, as given, and its names of settings that do not exist."""

    origin: Origin
    values: Mapping[str, object]
    unknown: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    """By the name given: the nearest existing name, spelled as this layer spells names."""


def load(
    workspace: Path,
    *,
    environ: Mapping[str, str],
    model: type[Settings],
    overrides: Mapping[str, object] | None = None,
) -> Loaded:
    """Load the settings of a workspace.

    `model` has the settings of the base and of its features. `overrides` come from the command line, by attribute name;
    None means not given.

    Raises:
        SettingsError: a value is wrong or a file cannot be read; the error names the place, the key and the allowed
        values.
    """
    errors: list[SettingsError] = []
    values: dict[str, object] = {}
    origins = {name: Origin("default") for name in model.model_fields}
    warnings: list[str] = []
    withheld: list[Withheld] = []
    granted: dict[str, tuple[object, ...]] = {}
    tables = _read(read_tables, workspace)
    record = trust.read_record(workspace)
    for layer in _layers(workspace, tables, environ, overrides or {}, model):
        for given, nearest in layer.unknown.items():
            hint = f"; did you mean {nearest}?" if nearest else ""
            warnings.append(f"{layer.origin.place}: there is no setting {given}{hint}")
        for name, value in layer.values.items():
            if layer.origin.layer == "workspace" and name in USERS_ALONE:
                warnings.append(f"{layer.origin.place}: {spelled(name)} {USERS_ALONE[name]}")
                continue
            try:
                counting = _checked(name, value, layer.origin, model)
            except SettingsError as error:
                errors.append(error)
                continue
            if layer.origin.layer == "workspace":
                grants = model.grants_of(name)
                if items := granting.granting_items(name, counting, grants):
                    granted[name] = (*granted.get(name, ()), *items)
                current = values.get(name, model.model_fields[name].default)
                accepted = record.settings.get(name, ())
                counting, held = granting.split_granting(name, counting, current, accepted, grants)
                if held is not None:
                    place, setting = layer.origin.place, spelled(name)
                    withheld.append(Withheld(place, setting, held, accepted, record.is_there, record.problem))
            if name in ADDED and counting is not None:
                counting = (*values.get(name, ()), *counting)  # type: ignore[misc]  # both are tuples
            if counting is not None:
                values[name], origins[name] = counting, layer.origin
    if errors:
        raise SettingsError.of_all(errors, warnings)
    policy = machine_policy.read(machine_policy.policy_file())
    origins |= dict.fromkeys(model.names_off(policy), Origin("machine", str(policy.path)))
    settings = model.model_validate(values).restricted(policy)
    return Loaded(
        settings, MappingProxyType(origins), tuple(warnings), tuple(withheld), MappingProxyType(granted), policy
    )


def held_back(withheld: Withheld, workspace: Path | None = None) -> str:
    """Return the sentence about a withheld setting, with the whole command if the workspace is given."""
    command = f"`{trust.COMMAND}` there" if workspace is None else f"`{trust.command_for(workspace)}`"
    return f"{withheld} does not count, {withheld.change}: read the settings, then run {command}"


def files(workspace: Path) -> tuple[Path, ...]:
    """Return the files that settings come from, the strongest last, whether they exist or not."""
    return user_settings_file(), project_file(workspace), own_file(workspace)


def as_rows(loaded: Loaded) -> tuple[tuple[str, str, str], ...]:
    """Every setting for people to see: its name, its value as TOML spells it, and where the value comes from."""
    rows = []
    for name in type(loaded.settings).model_fields:
        origin = loaded.origins[name]
        whence = f"{origin.layer} ({origin.place})" if origin.place and origin.place != origin.layer else origin.layer
        rows.append((spelled(name), printed(getattr(loaded.settings, name)), whence))
    return tuple(rows)


def _layers(
    workspace: Path,
    tables: WorkspaceTables,
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    model: type[Settings],
) -> Iterator[_Layer]:
    user, project, own = files(workspace)
    yield _file_layer("user", user, _read(partial(toml_file.read, root=None), user), model)
    yield _file_layer("workspace", project, tables.project, model)
    yield _file_layer("workspace", own, tables.own, model)
    by_variable = {variable(name): name for name in model.model_fields}
    for given, text in environ.items():
        if not given.startswith(PREFIX) or given in NOT_SETTINGS:
            continue
        origin = Origin("environment", given)
        name = by_variable.get(given)
        if name is None:
            yield _Layer(origin, {}, {given: _nearest(given, by_variable)})
        elif text or is_list(
            name, model
        ):  # a variable set to nothing counts as not set, but for a list it is an empty one
            yield _Layer(origin, {name: _from_text(name, text, model)})
    given_values = {name: value for name, value in overrides.items() if value is not None}
    yield _Layer(Origin("command line", "command line"), given_values)


def _file_layer(layer: str, path: Path, table: Mapping[str, object], model: type[Settings]) -> _Layer:
    names = {spelled(name): name for name in model.model_fields}
    known = {names[key]: value for key, value in table.items() if key in names}
    unknown = {key: _nearest(key, names) for key in table if key not in names}
    return _Layer(Origin(layer, str(path)), known, unknown)


def _nearest(given: str, names: Mapping[str, str]) -> str | None:
    """Return the existing name that looks most like `given`, whatever its case and separators."""

    def bare(name: str) -> str:
        return name.removeprefix(PREFIX).replace("_", "").replace("-", "").lower()

    by_bare = {bare(name): name for name in names}
    if (usual := USUAL_WORDS.get(bare(given), "").lower()) in by_bare:
        return by_bare[usual]
    near = difflib.get_close_matches(bare(given), by_bare, n=1)
    return by_bare[near[0]] if near else None


def _read(read: Callable[[Path], T], path: Path) -> T:
    try:
        return read(path)
    except TomlFileError as error:
        raise SettingsError(str(error.path), error.why) from error


def _from_text(name: str, text: str, model: type[Settings]) -> object:
    """Return an environment variable's text as a value.

    A list is written as JSON, or with commas between its parts. JSON first, for a command line that has a comma.
    """
    if not is_list(name, model):
        return text
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = None
    return listed if isinstance(listed, list) else [part.strip() for part in text.split(",") if part.strip()]


def _checked(name: str, value: object, origin: Origin, model: type[Settings]) -> object:
    """Return the validated value. Types in files count: `"25"` is no number there. A variable is always text."""
    given = list(value) if isinstance(value, tuple) else value
    try:
        if origin.layer == "environment":
            validated = model.model_validate({name: given})
        else:
            validated = model.model_validate_json(json.dumps({name: given}), strict=True)
    except (ValidationError, TypeError) as error:
        if name == "kernels" and isinstance(error, ValidationError):
            raise SettingsError(origin.place, f"{name}: {problem_of(error)}") from None
        shown = given if isinstance(given, str | int | float | list) else str(given)
        raise SettingsError(
            origin.place, f"{spelled(name)} = {printed(shown)} is wrong; allowed is {allowed(name, model)}"
        ) from error
    checked: object = getattr(validated, name)
    return checked


RESTART = "codriver stop && codriver serve"


@dataclass(frozen=True, slots=True)
class News:
    """The news from a look at the settings files. `settings`: those in effect from now on.

    `said` and `wrong`: lines for the log. `refused`: a file is so wrong that nothing of it holds.
    """

    settings: Settings
    said: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    refused: bool = False
    accepted: bool = False
    """True once the user has accepted the workspace, or the main checkout of a linked working tree, since then."""


class Reloader:
    """Looks at the settings files of one workspace, for the life of a server. Not for several threads at once."""

    def __init__(
        self, workspace: Path, *, environ: Mapping[str, str], overrides: Mapping[str, object], loaded: Loaded
    ) -> None:
        self._workspace = workspace
        self._environ = environ
        self._overrides = overrides
        self._loaded = loaded
        self.settings = loaded.settings
        """The settings in effect."""
        # The environment of a linked working tree may be that of its main checkout.
        self._accepting = tuple(filter(None, (workspace, main_checkout(workspace))))
        # Resolved once: to resolve the workspace at every look would take half of an idle server's time for a look.
        self._files = files(workspace)
        self._records = [(trust.record_path(one), partial(trust.read_record, one)) for one in self._accepting]
        self._read: ReadCache[object] = ReadCache()
        self._seen = self._read_files()

    @property
    def withheld(self) -> tuple[Withheld, ...]:
        """Return the settings of the workspace's files that do not count."""
        return self._loaded.withheld

    def look(self) -> News | None:
        """Return the changes since the last look; None for unchanged files.

        A faulty file changes nothing: the settings stay unchanged until the file is fixed.
        """
        seen = self._read_files()
        if seen == self._seen:
            return None
        is_trust_news, self._seen = seen[-1] != self._seen[-1], seen
        try:
            loaded = load(self._workspace, environ=self._environ, model=type(self.settings), overrides=self._overrides)
        except SettingsError as error:
            return News(
                self.settings, wrong=(f"the settings stay as they are: {'; '.join(error.problems)}",), refused=True
            )
        before, self._loaded = self._loaded, loaded
        warnings = [warning for warning in loaded.warnings if warning not in before.warnings]
        warnings += [held_back(line) for line in loaded.withheld if line not in before.withheld]
        rows = {name: (value, whence) for name, value, whence in as_rows(loaded)}
        said: list[str] = []
        kept: dict[str, object] = {}
        for name in type(loaded.settings).model_fields:
            value, current = getattr(loaded.settings, name), getattr(self.settings, name)
            is_new = value != getattr(before.settings, name)
            words = " = ".join((spelled(name), rows[spelled(name)][0])) + f" from {rows[spelled(name)][1]}"
            if name in GROWING:
                kept[name] = (*current, *(item for item in value if item not in current))
                if is_new:
                    said.append(f"setting {words}: {_grown(value, current)}")
            elif self.settings.needs_restart(name):
                kept[name] = current
                if is_new and value != current:
                    said.append(f"setting {words} waits for a restart: {RESTART}")
            elif is_new:
                said.append(f"setting {words} holds from now on")
        self.settings = loaded.settings.model_copy(update=kept)
        accepted = is_trust_news and any(trust.is_accepted(folder) for folder in self._accepting)
        return News(self.settings, tuple(said), tuple(warnings), accepted=accepted)

    def _read_files(self) -> tuple[object, ...]:
        """Read what the settings depend on: the user's file, the workspace's files, and the acceptances."""
        user, *own = self._files
        machine = machine_policy.policy_file()
        contents = [
            self._content(machine, None),
            self._content(user, None),
            *(self._content(file, self._workspace) for file in own),
        ]
        return (*contents, tuple(self._cached(path, read) for path, read in self._records))

    def _content(self, file: Path, root: Path | None) -> object:
        return self._cached(file, partial(_content, file, root))

    def _cached(self, file: Path, read: Callable[[], object]) -> object:
        try:
            return self._read.get(file, read)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _grown(value: tuple[object, ...], current: tuple[object, ...]) -> str:
    """Return the fate of a changed list that only grows while the server runs, in words."""
    added = [str(item) for item in value if item not in current]
    left = [str(item) for item in current if item not in value]
    parts = [f"{', '.join(added)} comes now"] if added else []
    parts += [f"{', '.join(left)} stays until a restart: {RESTART}"] if left else []
    return "; ".join(parts) or "no entry came or went"


def _content(file: Path, root: Path | None) -> bytes | str | None:
    """The content of a file; None for a missing file, the reason as a text for one that is not read."""
    try:
        return toml_file.content(file, root=root)
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
