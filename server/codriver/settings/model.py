"""The model of the settings: names, defaults, bounds, descriptions, and which ones need a restart."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    create_model,
)
from pydantic.alias_generators import to_camel

from codriver.settings import granting
from codriver.settings.declared import DeclaredSetting
from codriver.settings.machine_policy import SETTINGS_BY_KEY

if TYPE_CHECKING:
    from codriver.settings.declared import Grants
    from codriver.settings.machine_policy import MachinePolicy

T = TypeVar("T")


MEBIBYTE = 2**20
VARIABLE_PREFIX = "CODRIVER_"

SPELLING_EXCEPTIONS: Mapping[str, str] = MappingProxyType({"auto_start_mcp_server": "autoStartMCPServer"})
"""Settings not spelled in plain camelCase in files, for compatibility with existing configurations."""


def name_in_files(name: str) -> str:
    """Return the name of a setting as it is written in files, in camelCase."""
    return SPELLING_EXCEPTIONS.get(name) or to_camel(name)


def environment_variable(name: str) -> str:
    """Return the name of the environment variable for a setting."""
    return VARIABLE_PREFIX + name.upper()


Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


def _validate_port(address: str) -> str:
    """Return an address unchanged, after checking its port."""
    if not 0 < int(re.split("[:=]", address)[-1]) < 1 << 16:
        raise ValueError("a port must be a number from 1 to 65535")
    return address


ADDRESS_PATTERN = r"^([^=\s]+=)?(([^=\s:]*|\[[^=\s\]]+\]):)?[0-9]{1,5}$"
"""Matches `[KEY=][HOST:]PORT`, with IPv6 addresses in brackets."""
Address = Annotated[str, StringConstraints(pattern=ADDRESS_PATTERN), AfterValidator(_validate_port)]


class Settings(BaseModel):
    """Codriver's settings, except those of features, with defaults, bounds and descriptions.

    In files, their names are in camelCase.
    """

    model_config = ConfigDict(alias_generator=name_in_files, populate_by_name=True, frozen=True, extra="forbid")

    DECLARED: ClassVar[Mapping[str, DeclaredSetting[Any]]] = MappingProxyType({})
    """The settings that features declare, by name: see `build_settings_model`."""
    ADDED_REPLS: ClassVar[frozenset[str]] = frozenset()
    """The names of the kinds of REPLs that features add, for the setting `repl`."""

    _turned_off: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """The path of the machine's policy for each setting that it turns off."""

    @property
    def has_chosen_port(self) -> bool:
        """Return whether a user chose the server's port. The default port may belong to another project's server."""
        return "mcp_socket_server_port" in self.model_fields_set

    def restricted(self, policy: MachinePolicy) -> Settings:
        """Return a copy of the settings in which all settings that the policy turns off are false."""
        names = self.names_turned_off(policy)
        restricted = self.model_copy(update=dict.fromkeys(names, False))
        restricted._turned_off = dict.fromkeys(names, str(policy.path))  # noqa: SLF001  # of this class
        return restricted

    @classmethod
    def names_turned_off(cls, policy: MachinePolicy) -> list[str]:
        """Return the names of the settings that a policy turns off."""
        switches = {
            **SETTINGS_BY_KEY,
            **{declaration.policy: declaration.name for declaration in cls.DECLARED.values()},
        }
        return [switches[key] for key in policy.off if key in switches]

    def value_of(self, setting: DeclaredSetting[T]) -> T:
        """Return the value of a setting that a feature declares."""
        found: T = getattr(self, setting.name)
        return found

    @classmethod
    def grant_kind(cls, name: str) -> Grants:
        """Return the values of a setting that grant something, if a feature declares the setting."""
        return cls.DECLARED[name].grants if name in cls.DECLARED else "nothing"

    @classmethod
    def needs_restart(cls, name: str) -> bool:
        """Return whether a change to the setting takes effect only when the server restarts."""
        return cls.DECLARED[name].needs_restart if name in cls.DECLARED else name in RESTART_SETTINGS

    @classmethod
    def applies_additions(cls, name: str) -> bool:
        """Return whether a running server applies new items of this list. Removed items stay until a restart."""
        return cls.DECLARED[name].grows if name in cls.DECLARED else name in GROWING_LISTS

    @classmethod
    def reason_ignored(cls, name: str) -> str:
        """Return the reason why the setting is ignored in a workspace's file, even if accepted, or an empty string."""
        return cls.DECLARED[name].reason_ignored if name in cls.DECLARED else ""

    @classmethod
    def extends(cls, name: str) -> bool:
        """Return whether a layer with higher precedence extends the list. Other lists are replaced."""
        return name in cls.DECLARED and cls.DECLARED[name].extends

    def policy_path(self, name: str) -> str | None:
        """Return the path of the machine's policy if it turns this setting off."""
        return self._turned_off.get(name)

    host: Text = Field(
        "127.0.0.1", description="Address to listen on. Clients need a token if it is not a loopback address."
    )
    mcp_socket_server_port: int = Field(1664, ge=0, le=65535, description="Port to listen on. 0 picks a free port.")
    auto_start_mcp_server: bool = Field(
        default=False,
        description="Let eval, load, test, call and tools start a server if none is running, as with --start.",
    )
    require_token: bool = Field(default=False, description="Require the token from loopback connections too.")
    idle_exit_seconds: int = Field(
        1800,
        ge=0,
        le=7 * 86400,
        description="Stop a server started on demand when no client was connected for this long. 0 means never.",
    )
    enable_mcp_repl_evaluation: bool = Field(default=True, description="Enable the tools that evaluate code.")
    enable_edits: bool = Field(default=True, description="Enable the tools that change files in the workspace.")
    toolset: Literal["default", "full"] = Field(
        "default", description="Whether clients see the default tools or all of them."
    )
    provide_bd_skill: bool = Field(default=True, description="Provide the skill for working in a live REPL.")
    provide_edit_skill: bool = Field(default=True, description="Provide the skill for editing Lisp files.")
    disabled_skills: tuple[Text, ...] = Field(
        (), description="Names of skills to disable. A library's skill is called lib.LIBRARY/NAME."
    )
    skill_sources: tuple[Text, ...] = Field(
        (), description="Sources of additional skills: workspace, or names of dependencies."
    )
    repl: tuple[Text, ...] = Field((), description="REPLs to start: python, lisp, clojure, …, a command line, or none.")
    nrepl: tuple[Address, ...] = Field((), description="REPLs to connect to: [KEY=][HOST:]PORT.")
    lanes: bool = Field(
        default=True, description="Give each client a separate session in REPLs that support concurrent sessions."
    )
    python: Text = Field("auto", description="Interpreter for the project's REPLs: a path, or auto.")
    port_files: tuple[Text, ...] = Field((), description="Additional port files to watch, relative to the workspace.")
    watch: bool = Field(default=False, description="Load saved source files into the REPL that serves them.")
    hook_gate: bool = Field(
        default=False, description="Let client hooks run the tests affected by changes at the end of a turn."
    )
    evaluate_timeout_ms: int = Field(
        25_000, ge=1000, le=600_000, description="How long a call waits for its evaluation to finish."
    )
    max_run_ms: int = Field(
        600_000, ge=1000, le=86_400_000, description="How long an evaluation may run before it is interrupted."
    )
    gone_client_grace_ms: int = Field(
        10_000,
        ge=0,
        le=86_400_000,
        description="How long a disconnected client's evaluation may keep others waiting.",
    )
    max_text_bytes: int = Field(
        6000, ge=1024, le=16 * MEBIBYTE, description="Maximum length of an answer, unless the call asks for more."
    )
    max_images: int = Field(10, ge=0, le=100, description="Maximum number of images in an answer.")
    max_length: int = Field(25, ge=1, le=100_000, description="Maximum number of elements printed for a collection.")
    max_depth: int = Field(7, ge=1, le=1000, description="Maximum nesting depth printed for a collection.")
    log_max_entities: int = Field(
        1000, ge=10, le=1_000_000, description="Maximum number of entities in the output log."
    )
    log_max_bytes: int = Field(
        16 * MEBIBYTE, ge=64 * 1024, le=1024 * MEBIBYTE, description="Maximum bytes of text in the output log."
    )
    history_max_entities: int = Field(
        10_000, ge=10, le=1_000_000, description="Maximum number of evaluations in the history."
    )
    history_max_bytes: int = Field(
        16 * MEBIBYTE,
        ge=256 * 1024,
        le=1024 * MEBIBYTE,
        description="Maximum bytes of code in the history, in memory and on disk.",
    )
    remember_runs: int = Field(
        5,
        ge=0,
        le=20,
        description="Number of server runs, including this one, whose output logs are kept on disk. 0 keeps none.",
    )
    spill_max_bytes: int = Field(
        1024 * MEBIBYTE,
        ge=0,
        le=1024 * 1024 * MEBIBYTE,
        description=(
            "Disk space for long outputs of evaluations. A single output uses at most a quarter of it. 0 means none."
        ),
    )
    max_line_bytes: int = Field(
        16 * MEBIBYTE, ge=1024, le=1024 * MEBIBYTE, description="Maximum length of a line from a client."
    )
    outbox_messages: int = Field(
        1000, ge=1, le=1_000_000, description="Maximum number of notifications queued for a client."
    )
    outbox_bytes: int = Field(
        MEBIBYTE, ge=1024, le=1024 * MEBIBYTE, description="Maximum bytes of notifications queued for a client."
    )
    max_clients: int = Field(512, ge=1, le=100_000, description="Maximum number of connected clients.")
    max_requests_per_client: int = Field(
        256, ge=1, le=100_000, description="Maximum number of pending requests per client."
    )
    fuzzy_line_targeting_padding: int = Field(
        2,
        ge=0,
        le=20,
        description="Number of lines above and below the line of an edit in which its target is searched for.",
    )
    line_context_response_padding: int = Field(
        10,
        ge=0,
        le=100,
        description="Number of lines displayed above and below the given line if the target of an edit was not found.",
    )
    event_loop: Literal["auto", "asyncio", "uvloop"] = Field(
        "auto", description="The server's event loop. auto uses uvloop if it is installed."
    )
    allow_edits_outside_workspace: bool = Field(
        default=False, description="Let edit_files change files outside the workspace."
    )
    allow_edits_of_client_files: bool = Field(
        default=False,
        description=(
            "Let edit_files change guarded files: hidden files, codriver.toml, and files that other programs run."
        ),
    )


RESTART_SETTINGS = frozenset(
    {
        "host", "mcp_socket_server_port", "require_token", "repl", "nrepl", "port_files", "log_max_entities",
        "log_max_bytes", "history_max_entities", "history_max_bytes", "spill_max_bytes", "outbox_messages",
        "outbox_bytes", "max_clients", "max_line_bytes", "event_loop",
    }
)  # fmt: skip
"""Settings whose changes take effect only after a server restart."""

GROWING_LISTS = frozenset({"repl", "nrepl"})
"""List settings to which a running server adds new entries. Removed entries stay until a restart."""


@cache
def build_settings_model(
    declared: tuple[DeclaredSetting[Any], ...], added_repls: frozenset[str] = frozenset()
) -> type[Settings]:
    """Return the settings model for the base and all features. Each program calls this once."""
    added: dict[str, Any] = {
        declaration.name: (
            _type_of(declaration),
            Field(declaration.default, ge=declaration.least, le=declaration.most, description=declaration.description),
        )
        for declaration in declared
    }
    model = create_model("Settings", __base__=Settings, __module__=__name__, **added)
    model.DECLARED = MappingProxyType({declaration.name: declaration for declaration in declared})
    model.ADDED_REPLS = added_repls
    return model


def _type_of(setting: DeclaredSetting[Any]) -> Any:
    if setting.annotation is not None:
        return setting.annotation()
    kind = type(setting.default)
    return Text if kind is str else kind


def settings_table(model: type[Settings]) -> str:
    """Return a Markdown table of all settings for the documentation."""
    rows = [
        "| setting | default | allowed | description | from a workspace's file | a change |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, info in model.model_fields.items():
        change = "at a restart" if model.needs_restart(name) else "at once"
        if model.applies_additions(name):
            change = "additions: immediately"
        default, when = f"`{to_toml(info.default)}`", granting.describe_grant_condition(name, model.grant_kind(name))
        if model.reason_ignored(name):
            when = "never"
        cells = (
            f"`{name_in_files(name)}`",
            default,
            describe_allowed_values(name, model),
            info.description or "",
            when,
            change,
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def describe_allowed_values(name: str, model: type[Settings]) -> str:
    """Describe the allowed values of a setting, for error messages and the documentation."""
    info = model.model_fields[name]
    if info.annotation is bool:
        return "true or false"
    if info.annotation is int:
        bounds = [bound for mark in info.metadata for bound in (getattr(mark, "ge", None), getattr(mark, "le", None))]
        low, high = (bound for bound in bounds if bound is not None)
        return f"a whole number from {low} to {high}"
    if get_origin(info.annotation) is Literal:
        return " or ".join(get_args(info.annotation))
    if name == "nrepl":
        return "a list of strings like [KEY=][HOST:]PORT, with ports from 1 to 65535"
    if name in model.DECLARED and (words := model.DECLARED[name].allowed):
        return words
    return "a non-empty string" if isinstance(info.default, str) else "a list of non-empty strings"


def to_toml(value: object) -> str:
    """Format a value in TOML."""
    # TOML strings have the syntax of JSON strings, except that DEL must be escaped.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def is_list(name: str, model: type[Settings]) -> bool:
    """Return whether a setting is a list of strings."""
    return isinstance(model.model_fields[name].default, tuple)
