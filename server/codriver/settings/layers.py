"""Load settings from several layers, such as files and environment variables, and reload changed files.

The order is: defaults < the user's file < the workspace's file (`codriver.toml`, or `[tool.codriver]` in
`pyproject.toml`; the former wins for keys in both) < environment (`CODRIVER_…`) < command line < the machine policy,
which can only turn things off. Anybody may have written the workspace's file, so a setting that grants something takes
effect there only once the user has accepted its value. While a server is running, some changes take effect immediately
and others wait for a restart.
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
from codriver.files.codriver_paths import user_settings_file
from codriver.files.toml_file import TomlFileError
from codriver.files.whole_files import ReadCache
from codriver.files.working_trees import main_checkout
from codriver.repls.launch.projects import TRUST_COMMAND
from codriver.settings import acceptance_records, granting, machine_policy
from codriver.settings.model import (
    VARIABLE_PREFIX,
    Settings,
    describe_allowed_values,
    environment_variable,
    is_list,
    name_in_files,
    to_toml,
)
from codriver.settings.workspace_tables import WorkspaceTables, codriver_file, project_file, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from codriver.settings.machine_policy import MachinePolicy


T = TypeVar("T")
NON_SETTING_VARIABLES = frozenset(
    {
        "CODRIVER_TOKEN",
        "CODRIVER_SERVER_COMMAND",
        "CODRIVER_DURATIONS",
        "CODRIVER_RELAY_GIVE_UP_S",
        "CODRIVER_RELAY_DURATIONS",
    }
)
"""Environment variables with the prefix `CODRIVER_` that are not settings."""


SETTING_SYNONYMS = MappingProxyType({
    "port": "mcpSocketServerPort", "serverport": "mcpSocketServerPort", "listen": "host", "bind": "host",
    "address": "host", "timeout": "evaluateTimeoutMs", "timeoutms": "evaluateTimeoutMs", "token": "requireToken",
    "auth": "requireToken", "repls": "repl", "idleexit": "idleExitSeconds", "idletimeout": "idleExitSeconds",
    "autostart": "autoStartMCPServer", "interpreter": "python", "skills": "skillSources", "clients": "maxClients",
})  # fmt: skip
"""Names that other programs use, in lower case without separators, with the settings that they probably refer to."""


class SettingsError(StartError):
    """Raised when a setting has an invalid value or a settings file cannot be read.

    `source` is the file, variable or layer. `errors` contains a pair of source and message for each error.
    """

    def __init__(self, source: str, message: str) -> None:
        super().__init__(f"{source}: {message}")
        self.source = source
        self.errors: tuple[tuple[str, str], ...] = ((source, f"{source}: {message}"),)
        self.warnings: tuple[str, ...] = ()

    @classmethod
    def combine(cls, errors: Sequence[SettingsError], warnings: Sequence[str]) -> SettingsError:
        """Return one error with the messages of several, one per line. `warnings` are added to them."""
        combined = cls(errors[0].source, "")
        combined.args = ("\n".join((*map(str, errors), *warnings)),)
        combined.errors, combined.warnings = tuple(pair for error in errors for pair in error.errors), tuple(warnings)
        return combined

    @property
    def messages(self) -> tuple[str, ...]:
        """Return all messages, errors before warnings. Files that could not be read may contain further errors."""
        return (*(message for _source, message in self.errors), *self.warnings)


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """The origin of a setting's value."""

    layer: str
    """The layer: `default`, `user`, `workspace`, `environment`, `command line` or `machine`."""
    source: str = ""
    """The file or the environment variable that the value comes from, if any."""


@dataclass(frozen=True, slots=True)
class WithheldSetting:
    """A setting in a file in the workspace that is ignored until the user accepts it."""

    source: str
    setting: str
    value: object
    accepted: tuple[object, ...] = ()
    """The items of the setting that the user has accepted."""
    was_accepted: bool = False
    """Whether the user has accepted the workspace before."""
    error: str | None = None
    """The reason why the record of the acceptance cannot be read, or None if it can."""

    def __str__(self) -> str:
        """Return the setting as written, with its file."""
        return f"{self.source}: {self.setting} = {granting.value_as_json_line(self.value)}"

    @property
    def change(self) -> str:
        """Return a clause that explains why the value is ignored."""
        if self.error is not None:
            return f"because your acceptance has lapsed: {self.error}"
        if self.accepted:
            items = self.accepted if isinstance(self.value, tuple) else self.accepted[0]
            known = self.accepted if isinstance(self.value, tuple) or len(self.accepted) > 1 else items
            return f"because it was changed. The accepted value is {granting.value_as_json_line(known)}"
        if self.was_accepted:
            return "because it was added after you accepted this workspace"
        return "because you have not accepted this workspace's settings"


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Loaded settings, with the origin of each value and warnings."""

    settings: Settings
    origins: Mapping[str, ValueOrigin] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    withheld: tuple[WithheldSetting, ...] = ()
    """Settings in the workspace's files that are ignored until the user accepts them."""
    granting: Mapping[str, tuple[object, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """The items that grant something, accepted or not, of each setting in the workspace's files, by attribute name."""
    policy: MachinePolicy | None = None


@dataclass(frozen=True, slots=True)
class _Layer:
    """The values of one layer before validation, by attribute name, and the unknown names in the layer."""

    origin: ValueOrigin
    values: Mapping[str, object]
    unknown: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    """Each unknown name with the most similar existing name, spelled as in this layer."""


def load_settings(
    workspace: Path,
    *,
    environ: Mapping[str, str],
    model: type[Settings],
    overrides: Mapping[str, object] | None = None,
) -> LoadedSettings:
    """Load the settings of a workspace.

    `model` defines the settings of the base and of features. `overrides` are the values from the command line, by
    attribute name, or None for options that were not passed.

    Raises:
        SettingsError: a value is invalid or a file cannot be read. The message contains the source, the key and the
            allowed values.
    """
    errors: list[SettingsError] = []
    values: dict[str, object] = {}
    origins = {name: ValueOrigin("default") for name in model.model_fields}
    warnings: list[str] = []
    withheld: list[WithheldSetting] = []
    granted: dict[str, tuple[object, ...]] = {}
    tables = _read_or_raise(read_tables, workspace)
    record = acceptance_records.read_record(workspace)
    for layer in _read_layers(workspace, tables, environ, overrides or {}, model):
        for given, nearest in layer.unknown.items():
            hint = f"; did you mean {nearest}?" if nearest else ""
            warnings.append(f"{layer.origin.source}: there is no setting {given}{hint}")
        for name, value in layer.values.items():
            if layer.origin.layer == "workspace" and (reason := model.reason_ignored(name)):
                warnings.append(f"{layer.origin.source}: {name_in_files(name)} {reason}")
                continue
            try:
                counting = _validate(name, value, layer.origin, model)
            except SettingsError as error:
                errors.append(error)
                continue
            if layer.origin.layer == "workspace":
                items = granting.granting_items(name, counting, model.grant_kind(name), model.ADDED_REPLS)
                if items:
                    granted[name] = (*granted.get(name, ()), *items)
                current = values.get(name, model.model_fields[name].default)
                accepted = record.settings.get(name, ())
                counting, waiting = granting.split_granting(name, counting, current, accepted, items)
                if waiting is not None:
                    source, setting = layer.origin.source, name_in_files(name)
                    withheld.append(WithheldSetting(source, setting, waiting, accepted, record.exists, record.error))
            if model.extends(name) and counting is not None:
                counting = (*values.get(name, ()), *counting)  # type: ignore[misc]  # both are tuples
            if counting is not None:
                values[name], origins[name] = counting, layer.origin
    if errors:
        raise SettingsError.combine(errors, warnings)
    policy = machine_policy.read_policy(machine_policy.policy_file())
    origins |= dict.fromkeys(model.names_turned_off(policy), ValueOrigin("machine", str(policy.path)))
    settings = model.model_validate(values).restricted(policy)
    return LoadedSettings(
        settings, MappingProxyType(origins), tuple(warnings), tuple(withheld), MappingProxyType(granted), policy
    )


def withheld_message(withheld: WithheldSetting, workspace: Path | None = None) -> str:
    """Return the message about a withheld setting, with the command that accepts it if the workspace is given."""
    command = f"`{TRUST_COMMAND}` there" if workspace is None else f"`{acceptance_records.accept_command(workspace)}`"
    return f"{withheld} is ignored, {withheld.change}. Review the setting, then run {command}"


def settings_files(workspace: Path) -> tuple[Path, ...]:
    """Return the paths of the settings files in increasing order of precedence. The files need not exist."""
    return user_settings_file(), project_file(workspace), codriver_file(workspace)


def setting_rows(loaded: LoadedSettings) -> tuple[tuple[str, str, str], ...]:
    """Return the name, the value in TOML and the origin of each setting, for display."""
    rows = []
    for name in type(loaded.settings).model_fields:
        origin = loaded.origins[name]
        origin_text = (
            f"{origin.layer} ({origin.source})" if origin.source and origin.source != origin.layer else origin.layer
        )
        rows.append((name_in_files(name), to_toml(getattr(loaded.settings, name)), origin_text))
    return tuple(rows)


def _read_layers(
    workspace: Path,
    tables: WorkspaceTables,
    environ: Mapping[str, str],
    overrides: Mapping[str, object],
    model: type[Settings],
) -> Iterator[_Layer]:
    """Yield the layers in increasing order of precedence."""
    user, project, workspace_file = settings_files(workspace)
    yield _file_layer("user", user, _read_or_raise(partial(toml_file.read_toml, root=None), user), model)
    yield _file_layer("workspace", project, tables.project, model)
    yield _file_layer("workspace", workspace_file, tables.codriver_table, model)
    by_variable = {environment_variable(name): name for name in model.model_fields}
    no_settings = NON_SETTING_VARIABLES.union(*(declared.variables for declared in model.DECLARED.values()))
    for given, text in environ.items():
        if not given.startswith(VARIABLE_PREFIX) or given in no_settings:
            continue
        origin = ValueOrigin("environment", given)
        name = by_variable.get(given)
        if name is None:
            yield _Layer(origin, {}, {given: _most_similar_name(given, by_variable)})
        elif text or is_list(name, model):  # an empty variable counts as unset, except that it empties a list
            yield _Layer(origin, {name: _parse_variable(name, text, model)})
    given_values = {name: value for name, value in overrides.items() if value is not None}
    yield _Layer(ValueOrigin("command line", "command line"), given_values)


def _file_layer(layer: str, path: Path, table: Mapping[str, object], model: type[Settings]) -> _Layer:
    names = {name_in_files(name): name for name in model.model_fields}
    known = {names[key]: value for key, value in table.items() if key in names}
    unknown = {key: _most_similar_name(key, names) for key in table if key not in names}
    return _Layer(ValueOrigin(layer, str(path)), known, unknown)


def _most_similar_name(given: str, names: Mapping[str, str]) -> str | None:
    """Return the setting whose name is most similar to `given`, ignoring case and separators, or None."""

    def bare(name: str) -> str:
        return name.removeprefix(VARIABLE_PREFIX).replace("_", "").replace("-", "").lower()

    by_bare = {bare(name): name for name in names}
    if (usual := SETTING_SYNONYMS.get(bare(given), "").lower()) in by_bare:
        return by_bare[usual]
    near = difflib.get_close_matches(bare(given), by_bare, n=1)
    return by_bare[near[0]] if near else None


def _read_or_raise(read: Callable[[Path], T], path: Path) -> T:
    """Return the result of `read(path)`.

    Raises:
        SettingsError: the file cannot be read.
    """
    try:
        return read(path)
    except TomlFileError as error:
        raise SettingsError(str(error.path), error.why) from error


def _parse_variable(name: str, text: str, model: type[Settings]) -> object:
    """Parse the value of an environment variable.

    A list can be JSON or comma-separated. JSON is tried first, because command lines can contain commas.
    """
    if not is_list(name, model):
        return text
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = None
    return listed if isinstance(listed, list) else [part.strip() for part in text.split(",") if part.strip()]


def _validate(name: str, value: object, origin: ValueOrigin, model: type[Settings]) -> object:
    """Validate a value. Values in files are not converted: the text `"25"` is not accepted as a number."""
    given = list(value) if isinstance(value, tuple) else value
    try:
        if origin.layer == "environment":
            validated = model.model_validate({name: given})
        else:
            validated = model.model_validate_json(json.dumps({name: given}), strict=True)
    except (ValidationError, TypeError) as error:
        describe = model.DECLARED[name].describe_error if name in model.DECLARED else None
        if describe is not None and isinstance(error, ValidationError):
            raise SettingsError(origin.source, f"{name}: {describe(error)}") from None
        displayed = given if isinstance(given, str | int | float | list) else str(given)
        raise SettingsError(
            origin.source,
            f"{name_in_files(name)} = {to_toml(displayed)} is invalid. Use {describe_allowed_values(name, model)}",
        ) from error
    checked: object = getattr(validated, name)
    return checked


RESTART_COMMAND = "codriver stop && codriver serve"


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """The result of reloading changed settings files."""

    settings: Settings
    """The settings that are now in effect."""
    changes: tuple[str, ...] = ()
    """Messages for the log about changed settings."""
    warnings: tuple[str, ...] = ()
    """Warnings for the log."""
    refused: bool = False
    """Whether a file has an error, in which case no change from any file was applied."""
    accepted: bool = False
    """Whether the user has accepted the workspace, or the main checkout of a linked working tree, since the last check.
    """


class SettingsReloader:
    """Reloads the settings of a workspace when their files change while a server is running. Not thread-safe."""

    def __init__(
        self, workspace: Path, *, environ: Mapping[str, str], overrides: Mapping[str, object], loaded: LoadedSettings
    ) -> None:
        self._workspace = workspace
        self._environ = environ
        self._overrides = overrides
        self._loaded = loaded
        self.settings = loaded.settings
        """The settings that are in effect."""
        # A linked working tree may use the environment of its main checkout.
        self._accepting = tuple(filter(None, (workspace, main_checkout(workspace))))
        # Resolved once, because resolving the workspace on every check takes half of the time that an idle server
        # needs.
        self._files = settings_files(workspace)
        self._records = [
            (acceptance_records.record_path(directory), partial(acceptance_records.read_record, directory))
            for directory in self._accepting
        ]
        self._read_or_raise: ReadCache[object] = ReadCache()
        self._seen = self._read_files()

    @property
    def withheld(self) -> tuple[WithheldSetting, ...]:
        """Return the settings in the workspace's files that are ignored until the user accepts them."""
        return self._loaded.withheld

    def check(self) -> SettingsChange | None:
        """Reload the settings if a file has changed since the last call. Return None if no file has changed.

        If a file has an error, the settings do not change until the error is fixed.
        """
        seen = self._read_files()
        if seen == self._seen:
            return None
        is_trust_changed, self._seen = seen[-1] != self._seen[-1], seen
        try:
            loaded = load_settings(
                self._workspace, environ=self._environ, model=type(self.settings), overrides=self._overrides
            )
        except SettingsError as error:
            return SettingsChange(
                self.settings, warnings=(f"the settings were not reloaded: {'; '.join(error.messages)}",), refused=True
            )
        before, self._loaded = self._loaded, loaded
        warnings = [warning for warning in loaded.warnings if warning not in before.warnings]
        warnings += [withheld_message(line) for line in loaded.withheld if line not in before.withheld]
        rows = {name: (value, origin_text) for name, value, origin_text in setting_rows(loaded)}
        changes: list[str] = []
        effective: dict[str, object] = {}
        for name in type(loaded.settings).model_fields:
            value, current = getattr(loaded.settings, name), getattr(self.settings, name)
            is_new = value != getattr(before.settings, name)
            words = (
                " = ".join((name_in_files(name), rows[name_in_files(name)][0]))
                + f" from {rows[name_in_files(name)][1]}"
            )
            if type(self.settings).applies_additions(name):
                effective[name] = (*current, *(item for item in value if item not in current))
                if is_new:
                    changes.append(f"setting {words}: {_describe_growth(value, current)}")
            elif self.settings.needs_restart(name):
                effective[name] = current
                if is_new and value != current:
                    changes.append(f"setting {words} takes effect after a restart: {RESTART_COMMAND}")
            elif is_new:
                changes.append(f"setting {words} takes effect now")
        self.settings = loaded.settings.model_copy(update=effective)
        accepted = is_trust_changed and any(acceptance_records.is_accepted(directory) for directory in self._accepting)
        return SettingsChange(self.settings, tuple(changes), tuple(warnings), accepted=accepted)

    def _read_files(self) -> tuple[object, ...]:
        """Read everything that the settings depend on: the settings files and the record of acceptances."""
        user, *workspace_files = self._files
        machine = machine_policy.policy_file()
        contents = [
            self._read_content(machine, None),
            self._read_content(user, None),
            *(self._read_content(file, self._workspace) for file in workspace_files),
        ]
        return (*contents, tuple(self._read_if_changed(path, read) for path, read in self._records))

    def _read_content(self, file: Path, root: Path | None) -> object:
        return self._read_if_changed(file, partial(_read_content, file, root))

    def _read_if_changed(self, file: Path, read: Callable[[], object]) -> object:
        try:
            return self._read_or_raise.get(file, read)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _describe_growth(value: tuple[object, ...], current: tuple[object, ...]) -> str:
    """Describe the effect of a change to a list whose items a running server can add but not remove."""
    added = [str(item) for item in value if item not in current]
    left = [str(item) for item in current if item not in value]
    parts = [f"{', '.join(added)} was added"] if added else []
    parts += [f"{', '.join(left)} remains in use until a restart: {RESTART_COMMAND}"] if left else []
    return "; ".join(parts) or "no entry was added or removed"


def _read_content(file: Path, root: Path | None) -> bytes | str | None:
    """Return the content of a file, None if it does not exist, or the reason as a string if it cannot be read."""
    try:
        return toml_file.read_toml_bytes(file, root=root)
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
