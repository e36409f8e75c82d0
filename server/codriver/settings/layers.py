"""Settings, read once from their layers and passed down.

Defaults < the user's file < the workspace's file (`codriver.toml`, or `[tool.codriver]` in `pyproject.toml`; the first
wins where both have a key) < environment (`CODRIVER_…`) < command line. Each value knows where it comes from.

Anybody may have written the workspace's file: what in it would grant something counts once the user has accepted it.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from codriver.errors import StartError
from codriver.files import toml_file
from codriver.files.paths import user_settings_file
from codriver.files.toml_file import TomlFileError
from codriver.settings import grants, trust

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

T = TypeVar("T")
MIB = 2**20
PREFIX = "CODRIVER_"
NOT_SETTINGS = frozenset({"CODRIVER_TOKEN", "CODRIVER_SERVER_COMMAND", "CODRIVER_RELAY_GIVE_UP_S"})
"""Variables with our prefix that other parts read."""

SPELLED: Mapping[str, str] = MappingProxyType({"auto_start_mcp_server": "autoStartMCPServer"})
"""Names that are not plain camelCase, as existing configurations spell them."""


def spelled(name: str) -> str:
    """The name of a setting as files spell it."""
    return SPELLED.get(name) or to_camel(name)


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return PREFIX + name.upper()


Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


def _with_port(address: str) -> str:
    """The address, if its port is one."""
    if not 0 < int(re.split("[:=]", address)[-1]) < 1 << 16:
        raise ValueError("a port is a number from 1 to 65535")
    return address


ADDRESS = r"^([^=\s]+=)?(([^=\s:]*|\[[^=\s\]]+\]):)?[0-9]{1,5}$"
"""`[KEY=][HOST:]PORT`; an IPv6 address in brackets."""
Address = Annotated[str, StringConstraints(pattern=ADDRESS), AfterValidator(_with_port)]


class Settings(BaseModel):
    """Every setting, with its default, its bounds and what it is for. In files the names are camelCase."""

    model_config = ConfigDict(alias_generator=spelled, populate_by_name=True, frozen=True, extra="forbid")

    host: Text = Field("127.0.0.1", description="Address to listen on; beyond loopback needs a token.")
    mcp_socket_server_port: int = Field(1664, ge=0, le=65535, description="Port to listen on; 0 means any free port.")
    auto_start_mcp_server: bool = Field(
        default=False, description="Let eval, load, call and tools start a server when none runs, as --start does."
    )
    require_token: bool = Field(default=False, description="Demand the token also from peers on loopback.")
    idle_exit_seconds: int = Field(
        1800,
        ge=0,
        le=7 * 86400,
        description="Stop a server started on demand when nobody was connected this long; 0 means never.",
    )
    enable_mcp_repl_evaluation: bool = Field(default=True, description="Offer the tools that evaluate code.")
    provide_bd_skill: bool = Field(default=True, description="Offer the skill about working in a live REPL.")
    provide_edit_skill: bool = Field(default=True, description="Offer the skill about editing Lisp files.")
    disabled_skills: tuple[Text, ...] = Field((), description="Skills that are not offered, by name.")
    skill_sources: tuple[Text, ...] = Field(
        (), description="Whose skills are offered beside Codriver's own: workspace, and dependencies by name."
    )
    repl: tuple[Text, ...] = Field((), description="REPLs to start: python, lisp, clojure, …, a command line, or none.")
    nrepl: tuple[Address, ...] = Field((), description="REPLs to connect to: [KEY=][HOST:]PORT.")
    port_files: tuple[Text, ...] = Field((), description="More port files to watch, relative to the workspace.")
    watch: bool = Field(default=False, description="Load saved source files into the REPL that serves them.")
    evaluate_timeout_ms: int = Field(
        25_000, ge=1000, le=600_000, description="How long a call waits for an evaluation."
    )
    max_run_ms: int = Field(600_000, ge=1000, le=86_400_000, description="When an evaluation is ended by itself.")
    gone_client_grace_ms: int = Field(
        10_000,
        ge=0,
        le=86_400_000,
        description="When what a client that is gone left running may be ended for others that wait.",
    )
    max_text_bytes: int = Field(50 * 1024, ge=1024, le=16 * MIB, description="Text of an answer, its parts together.")
    max_images: int = Field(10, ge=0, le=100, description="Most images of an answer.")
    max_length: int = Field(25, ge=1, le=100_000, description="Elements of a collection that the REPL prints.")
    max_depth: int = Field(7, ge=1, le=1000, description="Nesting of a collection that the REPL prints.")
    log_max_entities: int = Field(1000, ge=10, le=1_000_000, description="Entities the output log holds.")
    log_max_bytes: int = Field(16 * MIB, ge=64 * 1024, le=1024 * MIB, description="Bytes of text the output log holds.")
    history_max_entities: int = Field(10_000, ge=10, le=1_000_000, description="Evaluations the history holds.")
    history_max_bytes: int = Field(
        16 * MIB, ge=256 * 1024, le=1024 * MIB, description="Bytes of code the history holds, in memory and on disk."
    )
    spill_max_bytes: int = Field(
        1024 * MIB,
        ge=0,
        le=1024 * 1024 * MIB,
        description="Disk for what evaluations say that is too long for memory, a quarter for one text; 0 means none.",
    )
    max_line_bytes: int = Field(16 * MIB, ge=1024, le=1024 * MIB, description="Longest line a client may send.")
    outbox_messages: int = Field(1000, ge=1, le=1_000_000, description="Notifications that wait for one client.")
    outbox_bytes: int = Field(
        MIB, ge=1024, le=1024 * MIB, description="Bytes of notifications that wait for one client."
    )
    max_clients: int = Field(512, ge=1, le=100_000, description="Clients connected at once.")
    max_requests_per_client: int = Field(256, ge=1, le=100_000, description="Unanswered requests of one client.")
    fuzzy_line_targeting_padding: int = Field(
        2, ge=0, le=20, description="Lines around an edit's line that are searched."
    )
    line_context_response_padding: int = Field(10, ge=0, le=100, description="Lines shown around a line not found.")
    clojuredocs_url: Text = Field(
        "https://clojuredocs.org/clojuredocs-export.json",
        description="Where the ClojureDocs export is fetched from; none means never.",
    )
    clojuredocs_max_age_days: int = Field(
        30, ge=1, le=3650, description="When a kept ClojureDocs export is fetched anew."
    )
    event_loop: Literal["auto", "asyncio", "uvloop"] = Field(
        "auto", description="What the server's event loop is: auto takes uvloop where it is installed."
    )
    allow_edits_outside_workspace: bool = Field(default=False, description="Let edit_files touch other folders.")


NEED_RESTART = frozenset(
    {
        "host", "mcp_socket_server_port", "require_token", "repl", "nrepl", "port_files", "log_max_entities",
        "log_max_bytes", "history_max_entities", "history_max_bytes", "spill_max_bytes", "outbox_messages",
        "outbox_bytes", "max_clients", "event_loop",
    }
)  # fmt: skip
"""The settings that a running server keeps as they were when it started."""

GROWING = frozenset({"repl", "nrepl"})
"""Those of them to which a running server adds what is added; what is taken out goes at a restart."""


class SettingsError(StartError):
    """A setting has a wrong value, or a settings file cannot be read. `place` is the file, variable or layer.

    `problems` is everything that is wrong with the settings, as far as they could be read; the first is the message.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(f"{place}: {problem}")
        self.place = place
        self.problems: tuple[str, ...] = (f"{place}: {problem}",)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: `default`, `user`, `workspace`, `environment` or `command line`, and which place."""

    layer: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, where each comes from (by attribute name), and what was wrong without being fatal.

    `withheld`: what the workspace's files say and what does not count, as its user has not accepted it, a line each.
    `tables`: what those files say.
    """

    settings: Settings
    origins: Mapping[str, Origin] = field(default_factory=lambda: MappingProxyType({}))
    warnings: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    tables: trust.WorkspaceTables = field(default_factory=lambda: trust.WorkspaceTables({}, {}))


@dataclass(frozen=True, slots=True)
class _Layer:
    """Values by attribute name, as given, and the names it uses for settings that do not exist."""

    origin: Origin
    values: Mapping[str, object]
    unknown: Mapping[str, str | None] = field(default_factory=lambda: MappingProxyType({}))
    """By the name given: the nearest name there is, spelled as this layer spells it."""


def load(workspace: Path, *, environ: Mapping[str, str], overrides: Mapping[str, object] | None = None) -> Loaded:
    """The settings for a workspace. `overrides` come from the command line, by attribute name; None means not given.

    Raises:
        SettingsError: a value is wrong or a file cannot be read; it names the place, the key and what is allowed.
    """
    errors: list[SettingsError] = []
    values: dict[str, object] = {}
    origins = {name: Origin("default") for name in Settings.model_fields}
    warnings: list[str] = []
    withheld: list[str] = []
    tables = _read(trust.read_tables, workspace)
    is_accepted = trust.is_accepted(workspace, tables)
    for layer in _layers(workspace, tables, environ, overrides or {}):
        for given, nearest in layer.unknown.items():
            hint = f"; did you mean {nearest}?" if nearest else ""
            warnings.append(f"{layer.origin.place}: there is no setting {given}{hint}")
        for name, value in layer.values.items():
            try:
                counting = _checked(name, value, layer.origin)
            except SettingsError as error:
                errors.append(error)
                continue
            if layer.origin.layer == "workspace" and not is_accepted:
                counting, held = grants.split(name, counting, values.get(name, Settings.model_fields[name].default))
                if held is not None:
                    withheld.append(f"{layer.origin.place}: {spelled(name)} = {grants.shown(held)}")
            if counting is not None:
                values[name], origins[name] = counting, layer.origin
    if errors:
        errors[0].problems = (*map(str, errors), *warnings)
        raise errors[0]
    settings = Settings.model_validate(values)
    return Loaded(settings, MappingProxyType(origins), tuple(warnings), tuple(withheld), tables)


def held_back(withheld: str) -> str:
    """The sentence about one line of `Loaded.withheld`."""
    why = "as its user has not accepted this workspace's settings: read them, then run"
    return f"{withheld} does not count, {why} `{trust.COMMAND}` there"


def files(workspace: Path) -> tuple[Path, ...]:
    """The files that settings come from, the strongest last, whether they are there or not."""
    return user_settings_file(), trust.project_file(workspace), trust.own_file(workspace)


def as_rows(loaded: Loaded) -> tuple[tuple[str, str, str], ...]:
    """Every setting for people to see: its name, its value as TOML spells it, and where the value comes from."""
    rows = []
    for name in Settings.model_fields:
        origin = loaded.origins[name]
        whence = f"{origin.layer} ({origin.place})" if origin.place and origin.place != origin.layer else origin.layer
        rows.append((spelled(name), _printed(getattr(loaded.settings, name)), whence))
    return tuple(rows)


def settings_table() -> str:
    """A Markdown table of all settings."""
    rows = [
        "| setting | default | allowed | what it is for | from a workspace's file | a change |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, info in Settings.model_fields.items():
        change = "at a restart" if name in NEED_RESTART else "at once"
        if name in GROWING:
            change = "what is added: at once"
        default, whence = f"`{_printed(info.default)}`", grants.when_it_counts(name)
        cells = (f"`{spelled(name)}`", default, allowed(name), info.description or "", whence, change)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def allowed(name: str) -> str:
    """What a setting may be, in words."""
    info = Settings.model_fields[name]
    if info.annotation is bool:
        return "true or false"
    if info.annotation is int:
        bounds = [bound for mark in info.metadata for bound in (getattr(mark, "ge", None), getattr(mark, "le", None))]
        low, high = (bound for bound in bounds if bound is not None)
        return f"a whole number from {low} to {high}"
    if get_origin(info.annotation) is Literal:
        return " or ".join(get_args(info.annotation))
    if name == "nrepl":
        return "a list of texts like [KEY=][HOST:]PORT, with ports from 1 to 65535"
    return "a text that is not empty" if info.annotation is str else "a list of texts, none empty"


def _printed(value: object) -> str:
    # TOML's strings are JSON's, but for one character that they may not hold as it is.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def _layers(
    workspace: Path, tables: trust.WorkspaceTables, environ: Mapping[str, str], overrides: Mapping[str, object]
) -> Iterator[_Layer]:
    user, project, own = files(workspace)
    yield _file_layer("user", user, _read(partial(toml_file.read, root=None), user))
    yield _file_layer("workspace", project, tables.project)
    yield _file_layer("workspace", own, tables.own)
    by_variable = {variable(name): name for name in Settings.model_fields}
    for given, text in environ.items():
        if not given.startswith(PREFIX) or given in NOT_SETTINGS:
            continue
        origin = Origin("environment", given)
        name = by_variable.get(given)
        if name is None:
            yield _Layer(origin, {}, {given: _nearest(given, by_variable)})
        elif text or _is_list(name):  # a variable set to nothing counts as not set, but for a list it means none
            yield _Layer(origin, {name: _from_text(name, text)})
    given_values = {name: value for name, value in overrides.items() if value is not None}
    yield _Layer(Origin("command line", "command line"), given_values)


def _file_layer(layer: str, path: Path, table: Mapping[str, object]) -> _Layer:
    names = {spelled(name): name for name in Settings.model_fields}
    known = {names[key]: value for key, value in table.items() if key in names}
    unknown = {key: _nearest(key, names) for key in table if key not in names}
    return _Layer(Origin(layer, str(path)), known, unknown)


def _nearest(given: str, names: Mapping[str, str]) -> str | None:
    """The name there is that looks most like `given`, whatever its case and separators."""

    def bare(name: str) -> str:
        return name.removeprefix(PREFIX).replace("_", "").replace("-", "").lower()

    by_bare = {bare(name): name for name in names}
    near = difflib.get_close_matches(bare(given), by_bare, n=1)
    return by_bare[near[0]] if near else None


def _read(read: Callable[[Path], T], path: Path) -> T:
    try:
        return read(path)
    except TomlFileError as error:
        raise SettingsError(str(error.path), error.why) from error


def _is_list(name: str) -> bool:
    return isinstance(Settings.model_fields[name].default, tuple)


def _from_text(name: str, text: str) -> object:
    """An environment variable's text as a value.

    A list is written as JSON, or with commas between its parts. JSON first, for a command line that has a comma.
    """
    if not _is_list(name):
        return text
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError):
        listed = None
    return listed if isinstance(listed, list) else [part.strip() for part in text.split(",") if part.strip()]


def _checked(name: str, value: object, origin: Origin) -> object:
    """`value` as the settings hold it. Files say what they mean: `"25"` is no number there; a variable is all text."""
    given = list(value) if isinstance(value, tuple) else value
    try:
        if origin.layer == "environment":
            model = Settings.model_validate({name: given})
        else:
            model = Settings.model_validate_json(json.dumps({name: given}), strict=True)
    except (ValidationError, TypeError) as error:
        shown = given if isinstance(given, str | int | float | list) else str(given)
        raise SettingsError(
            origin.place, f"{spelled(name)} = {_printed(shown)} is wrong; allowed is {allowed(name)}"
        ) from error
    checked: object = getattr(model, name)
    return checked
