"""The model of the settings: each with its name, default, bounds and description, and when a change of it counts.

The setting `kernels` has Jupyter kernels to connect to, by connection file or URL, with the places of their tokens. It
counts in the user's own settings alone: it says which server a token is shown to.

The `Durations` that a server waits are one record, read at its start and handed to each part that waits.
`CODRIVER_DURATIONS` gives others by name, such as `progress_s=0.2 drain_s=0.1`, for tests of the server.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeVar, get_args, get_origin
from urllib.parse import quote

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    StringConstraints,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from codriver.errors import StartError
from codriver.repls.jupyter.named_kernels import (
    CLI_TOKEN,
    IN_THE_OPEN,
    KernelUrl,
    NamedKernel,
    TokenSource,
    read_location,
    split_key,
)
from codriver.settings import granting
from codriver.settings.declared import Setting
from codriver.settings.machine_policy import SWITCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from codriver.settings.declared import Grants
    from codriver.settings.machine_policy import MachinePolicy

T = TypeVar("T")


GIVEN: Final = "CODRIVER_DURATIONS"


class WrongDurationError(StartError):
    """The variable names no duration, or gives no number."""

    def __init__(self, word: str, names: Iterable[str]) -> None:
        known = ", ".join(names)
        super().__init__(f"{GIVEN} gives no duration by {word!r}: it takes words such as settle_s=0.5, of {known}")


@dataclass(frozen=True, slots=True)
class Durations:
    """The waits of one server, in seconds."""

    progress_s: float = 5.0
    """Between two words on how far a call is, for a client that asked for them."""
    settle_s: float = 2.0
    """Between two reports of a call's progress, for a client that asked for them."""
    behind_input_s: float = 0.5
    """How long an input prompt ahead is waited out; the prompt of a client that has just left is ended at once."""
    task_s: float = 2.0
    """How long a call may take until it becomes a task, where its client knows of tasks."""
    tests_s: float = 25.0
    """How long one run of the tests of an edit may take."""
    drain_s: float = 5.0
    """How long a client whose input has ended is kept connected for the answers that are still to come."""
    stop_s: float = 2.0
    """How long a stopping server waits for evaluations to end and for answers to leave."""
    settling_s: float = 1.5
    """How long after its start a server has the list of tools wait for REPLs on their way: there are clients that ask
    for it once, as soon as they started the server, and never again. The embedded REPLs need half a second; a JVM may
    need more, but an agent that was given its task at once goes without the tools of a server that takes long."""
    question_s: float = 30.0
    """How long a question to a human stays open when nothing waits for its answer."""
    skills_s: float = 30.0
    """Between two looks at the files of skills."""
    others: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """The waits of features, by name."""


def durations_from(environ: Mapping[str, str], others: Mapping[str, float] = MappingProxyType({})) -> Durations:
    """Return the durations of a server, some of which its variables change. `others`: the waits of features by name.

    Raises:
        WrongDurationError: a variable names no duration, or gives no number.
    """
    names = [*(one.name for one in fields(Durations) if one.name != "others"), *others]
    given: dict[str, float] = {}
    for word in environ.get(GIVEN, "").split():
        name, _, value = word.partition("=")
        try:
            given[name] = float(value)
        except ValueError:
            raise WrongDurationError(word, names) from None
        if name not in names or not given[name] >= 0:
            raise WrongDurationError(word, names)
    of_features = {name: given.pop(name, seconds) for name, seconds in others.items()}
    return Durations(**given, others=MappingProxyType(of_features))


ALLOWED: Final = "a list of texts like [KEY=]FILE or [KEY=]URL, or of tables [[kernels]]"
KEY: Final = re.compile(r"[A-Za-z][\w.-]*")
MAY_BE_PASSED: Final = re.compile(r"KERNEL_\w+")


class NamedKernelEntry(BaseModel):
    """One kernel of the setting. As a text it is `[KEY=]FILE|URL`."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid")

    url: str = ""
    file: str = ""
    kernel: str | None = None
    key: str | None = None
    token_file: str | None = None
    token_env: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    plain_http: bool = False

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        if isinstance(given, str):
            key, place = split_key(given)
            return {("url" if "://" in place else "file"): place} | ({"key": key} if key else {})
        if isinstance(given, dict) and "token" in given:
            raise ValueError("a token does not stand in a settings file: name its place by tokenFile or tokenEnv")
        return given

    @model_validator(mode="after")
    def _names_one(self) -> NamedKernelEntry:
        if bool(self.url) == bool(self.file) or (self.file and "://" in self.file):
            raise ValueError("a kernel has either a file or a url")
        read_location(self.text)
        return self

    @property
    def text(self) -> str:
        """Return the place of the kernel, as a text names it."""
        if self.kernel is None:
            return self.url or self.file
        return f"{self.url}{'' if self.url.endswith('/') else '/'}?kernel={quote(self.kernel)}"

    @field_validator("key")
    @classmethod
    def _is_key(cls, key: str | None) -> str | None:
        if key is not None and not KEY.fullmatch(key):
            raise ValueError("a key is a word of letters, digits, `-`, `_` and `.`")
        return key

    @field_validator("env")
    @classmethod
    def _may_be_passed(cls, env: dict[str, str]) -> dict[str, str]:
        if any(not MAY_BE_PASSED.fullmatch(name) for name in env):
            raise ValueError("gateways pass on variables whose names begin with KERNEL_ alone")
        return env

    def __str__(self) -> str:
        """Return the kernel as a text names it. The text holds no secret."""
        return f"{self.key}={self.text}" if self.key else self.text


class UnencryptedError(StartError):
    """A server on another machine is named without encryption."""


def check_encrypted(kernels: Iterable[NamedKernel]) -> None:
    """Check that the way to each server is encrypted or allowed to be open, before any token is shown.

    Raises:
        UnencryptedError: the way is unencrypted, and the settings do not allow that.
    """
    for one in kernels:
        if isinstance(one.location, KernelUrl) and one.location.is_in_the_open and not one.is_plain_allowed:
            raise UnencryptedError(IN_THE_OPEN.format(base=one.location.base))


def problem_of(error: ValidationError) -> str:
    """Return the first fault of the setting, in words that show none of the values: they may be secrets."""
    fault = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in fault["loc"][1:] if part != "NamedKernelEntry")
    words = fault["msg"].removeprefix("Value error, ")
    return f"{where}: {words}" if where else words


def named_kernels(entries: Sequence[NamedKernelEntry], environ: Mapping[str, str]) -> tuple[NamedKernel, ...]:
    """Return the kernels of the setting.

    One without a token of its own has that of another kernel on the same server.
    """
    return tuple(_named(entry, entries, environ) for entry in entries)


def _named(entry: NamedKernelEntry, entries: Iterable[NamedKernelEntry], environ: Mapping[str, str]) -> NamedKernel:
    place = read_location(entry.text)
    if not isinstance(place, KernelUrl):
        return NamedKernel(place, entry.key)
    like = [one for one in (entry, *entries) if _base(one) == place.base]
    told = next((one for one in like if one.token_file or one.token_env), None)
    if told is not None:
        token = TokenSource(told.token_file, told.token_env)
    else:
        token = TokenSource(variable=CLI_TOKEN if environ.get(CLI_TOKEN) else None)
    if place.spec is not None and entry.key and not place.name:
        place = KernelUrl(place.base, spec=place.spec, name=entry.key)
    return NamedKernel(place, entry.key, token, entry.env, is_plain_allowed=any(one.plain_http for one in like))


def _base(entry: NamedKernelEntry) -> str | None:
    place = read_location(entry.text)
    return place.base if isinstance(place, KernelUrl) else None


MIB = 2**20
PREFIX = "CODRIVER_"

SPELLED: Mapping[str, str] = MappingProxyType({"auto_start_mcp_server": "autoStartMCPServer"})
"""Names that are not plain camelCase, as existing configurations spell them."""


def spelled(name: str) -> str:
    """Return the name of a setting as files spell it."""
    return SPELLED.get(name) or to_camel(name)


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.upper()


Text = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


def _with_port(address: str) -> str:
    """Return the address, if its port is a port's number."""
    if not 0 < int(re.split("[:=]", address)[-1]) < 1 << 16:
        raise ValueError("a port is a number from 1 to 65535")
    return address


ADDRESS = r"^([^=\s]+=)?(([^=\s:]*|\[[^=\s\]]+\]):)?[0-9]{1,5}$"
"""`[KEY=][HOST:]PORT`; an IPv6 address in brackets."""
Address = Annotated[str, StringConstraints(pattern=ADDRESS), AfterValidator(_with_port)]


class Settings(BaseModel):
    """Every setting, with its default, its bounds and its purpose. In files the names are camelCase."""

    model_config = ConfigDict(alias_generator=spelled, populate_by_name=True, frozen=True, extra="forbid")

    DECLARED: ClassVar[Mapping[str, Setting[Any]]] = MappingProxyType({})
    """By name the settings that features declare: see `settings_with`."""

    _turned_off: Mapping[str, str] = PrivateAttr(default_factory=dict)
    """For each setting that the machine's policy turns off, the path of that policy."""

    def restricted(self, policy: MachinePolicy) -> Settings:
        """Return these settings with those turned off that the machine's policy turns off."""
        names = self.names_off(policy)
        restricted = self.model_copy(update=dict.fromkeys(names, False))
        restricted._turned_off = dict.fromkeys(names, str(policy.path))  # noqa: SLF001  # of this class
        return restricted

    @classmethod
    def names_off(cls, policy: MachinePolicy) -> list[str]:
        """Return the settings that a policy turns off."""
        switches = {**SWITCHES, **{one.policy: one.name for one in cls.DECLARED.values()}}
        return [switches[key] for key in policy.off if key in switches]

    def value_of(self, setting: Setting[T]) -> T:
        """Return the value of a setting that a feature declares."""
        found: T = getattr(self, setting.name)
        return found

    @classmethod
    def grants_of(cls, name: str) -> Grants:
        """Return which values grant something, of a setting that a feature declares."""
        return cls.DECLARED[name].grants if name in cls.DECLARED else "nothing"

    @classmethod
    def needs_restart(cls, name: str) -> bool:
        """Return whether a running server keeps the value that a setting had at its start."""
        return cls.DECLARED[name].needs_restart if name in cls.DECLARED else name in NEED_RESTART

    def policy_of(self, name: str) -> str | None:
        """Return the path of the machine's policy if that turns a setting off."""
        return self._turned_off.get(name)

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
    enable_edits: bool = Field(default=True, description="Offer the tools that change files of the workspace.")
    toolset: Literal["default", "full"] = Field(
        "default", description="Which tools clients get: the usual ones, or all."
    )
    provide_bd_skill: bool = Field(default=True, description="Offer the skill about working in a live REPL.")
    provide_edit_skill: bool = Field(default=True, description="Offer the skill about editing Lisp files.")
    disabled_skills: tuple[Text, ...] = Field(
        (), description="Skills that are not offered, by name; of a library: lib.LIBRARY/NAME."
    )
    skill_sources: tuple[Text, ...] = Field(
        (), description="Whose skills are offered beside Codriver's own: workspace, and dependencies by name."
    )
    repl: tuple[Text, ...] = Field((), description="REPLs to start: python, lisp, clojure, …, a command line, or none.")
    nrepl: tuple[Address, ...] = Field((), description="REPLs to connect to: [KEY=][HOST:]PORT.")
    kernels: tuple[NamedKernelEntry, ...] = Field(
        (), description="Jupyter kernels to connect to: files, URLs, or tables [[kernels]]."
    )
    lanes: bool = Field(
        default=True, description="Give each client a session of its own in REPLs that run sessions side by side."
    )
    python: Text = Field("auto", description="Interpreter that REPLs of the project start with: a path, or auto.")
    port_files: tuple[Text, ...] = Field((), description="More port files to watch, relative to the workspace.")
    watch: bool = Field(default=False, description="Load saved source files into the REPL that serves them.")
    hook_gate: bool = Field(
        default=False, description="Let clients' hooks run the tests of what changed at the end of a turn."
    )
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
    max_text_bytes: int = Field(
        6000, ge=1024, le=16 * MIB, description="Text of an answer where no more is asked for, its parts together."
    )
    max_images: int = Field(10, ge=0, le=100, description="Most images of an answer.")
    max_length: int = Field(25, ge=1, le=100_000, description="Elements of a collection that the REPL prints.")
    max_depth: int = Field(7, ge=1, le=1000, description="Nesting of a collection that the REPL prints.")
    log_max_entities: int = Field(1000, ge=10, le=1_000_000, description="Entities the output log holds.")
    log_max_bytes: int = Field(16 * MIB, ge=64 * 1024, le=1024 * MIB, description="Bytes of text the output log holds.")
    history_max_entities: int = Field(10_000, ge=10, le=1_000_000, description="Evaluations the history holds.")
    history_max_bytes: int = Field(
        16 * MIB, ge=256 * 1024, le=1024 * MIB, description="Bytes of code the history holds, in memory and on disk."
    )
    remember_runs: int = Field(
        5, ge=0, le=20, description="Runs whose output log is kept in a file, this one among them; 0 for none."
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
    event_loop: Literal["auto", "asyncio", "uvloop"] = Field(
        "auto", description="What the server's event loop is: auto takes uvloop where it is installed."
    )
    allow_sensitive_reads: bool = Field(
        default=False, description="Let inspect_app show what an application declares sensitive, where a call asks."
    )
    allow_edits_outside_workspace: bool = Field(default=False, description="Let edit_files touch other folders.")
    allow_edits_of_client_files: bool = Field(
        default=False,
        description="Let edit_files change guarded files: hidden ones, codriver.toml, and what other programs run.",
    )


NEED_RESTART = frozenset(
    {
        "host", "mcp_socket_server_port", "require_token", "repl", "nrepl", "kernels", "port_files", "log_max_entities",
        "log_max_bytes", "history_max_entities", "history_max_bytes", "spill_max_bytes", "outbox_messages",
        "outbox_bytes", "max_clients", "max_line_bytes", "event_loop",
    }
)  # fmt: skip
"""The settings that a running server keeps with their values at its start."""

GROWING = frozenset({"repl", "nrepl", "kernels"})
"""The settings whose new members a running server adds; members that were taken out stay until a restart."""


@cache
def settings_with(declared: tuple[Setting[Any], ...]) -> type[Settings]:
    """Return the model of the base's settings and of those that features declare. Called once by each program."""
    added: dict[str, Any] = {
        one.name: (_type_of(one), Field(one.default, ge=one.least, le=one.most, description=one.description))
        for one in declared
    }
    model = create_model("Settings", __base__=Settings, __module__=__name__, **added)
    model.DECLARED = MappingProxyType({one.name: one for one in declared})
    return model


def _type_of(setting: Setting[Any]) -> Any:
    kind = type(setting.default)
    return Text if kind is str else kind


def settings_table(model: type[Settings]) -> str:
    """Return a Markdown table of all settings."""
    rows = [
        "| setting | default | allowed | what it is for | from a workspace's file | a change |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, info in model.model_fields.items():
        change = "at a restart" if model.needs_restart(name) else "at once"
        if name in GROWING:
            change = "what is added: at once"
        default, whence = f"`{printed(info.default)}`", granting.when_it_counts(name, model.grants_of(name))
        cells = (f"`{spelled(name)}`", default, allowed(name, model), info.description or "", whence, change)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def allowed(name: str, model: type[Settings]) -> str:
    """Describe the values that a setting may have."""
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
        return "a list of texts like [KEY=][HOST:]PORT, with ports from 1 to 65535"
    if name == "kernels":
        return ALLOWED
    return "a text that is not empty" if isinstance(info.default, str) else "a list of texts, none empty"


def printed(value: object) -> str:
    """Return a value as TOML spells it."""
    # TOML's strings are JSON's, except for one character that they may not hold unescaped.
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")


def is_list(name: str, model: type[Settings]) -> bool:
    """Return whether a setting is a list of texts."""
    return isinstance(model.model_fields[name].default, tuple)
