"""The MCP clients that can be configured: where their entries belong, and their text.

`wrapper-config/` describes them. For some clients, the entry is only printed for pasting.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.errors import StartError
from codriver.files.own_folders import port_file, relay_file, shipped_directory
from codriver.setup import jsonc
from codriver_relay.safe_files import SERVER_DIRECTORY
from codriver_relay.starter import server_environment
from codriver_relay.workspace_search import is_search_boundary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Scope = Literal["workspace", "user"]
Platform = Literal["linux", "macos", "windows"]

NAME_PLACEHOLDER = "{{name}}"
TEMPLATE_ARGUMENTS: Final = re.compile(r'"-I", "-S", "\{\{relay\}\}",\s*"[^"]*",\s*"--start"')
"""Matches the arguments after the interpreter in every template."""
RELAY_COMMAND: Final = ("codriver-relay", "--workspace", "auto", "--start")
"""The command line of a relay on the PATH. With `auto`, the relay finds the workspace itself."""
INSTALLERS: Final = frozenset({"pip", "uv", "poetry", "pdm"})
"""Installers that fetch packages by name. Source: the INSTALLER files that they write."""
HELP_TIMEOUT_S: Final = 10.0
"""Maximum time to wait for the output of `codriver-relay --help`."""
_PACKAGE_PLACEHOLDER: Final = "{claude-package}"


class UnknownClientError(StartError):
    """Raised when the user names an unknown client."""

    exit_status = 2

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no client {name!r}; the known ones are {', '.join(known)}")


class NoSuchScopeError(StartError):
    """Raised when a client has no configuration file in the requested scope."""

    exit_status = 2

    def __init__(self, title: str, scope: Scope) -> None:
        other = "--scope workspace" if scope == "user" else "--scope user"
        where = "for all workspaces" if scope == "user" else "in a workspace"
        super().__init__(f"{title} has no file {where} that codriver can write; use {other}")


@dataclass(frozen=True, slots=True)
class Environment:
    """The parts of the machine and the user's environment that determine where clients are configured."""

    home: Path
    platform: Platform
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def current(cls) -> Environment:
        """Return the environment of this process."""
        platform: Platform = "linux"
        if sys.platform == "darwin":
            platform = "macos"
        elif sys.platform == "win32":
            platform = "windows"
        return cls(Path.home(), platform, MappingProxyType(dict(os.environ)))

    def paths(self, patterns: Iterable[str]) -> list[Path]:
        """Expand path patterns of `clients.toml`. Patterns for a package that is not installed are left out."""
        directories: dict[str, Path] = {
            "home": self.home,
            "config": self._directory("XDG_CONFIG_HOME") or self.home / ".config",
            "appdata": self._directory("APPDATA") or self.home / "AppData" / "Roaming",
            "codex": self._directory("CODEX_HOME") or self.home / ".codex",
            "copilot": self._directory("COPILOT_HOME") or self.home / ".copilot",
        }
        if (package := self._claude_package()) is not None:
            directories["claude-package"] = package
        return [
            Path(pattern.format_map(directories))
            for pattern in patterns
            if package or _PACKAGE_PLACEHOLDER not in pattern
        ]

    def has_command(self, name: str) -> bool:
        """Return whether a program is on the PATH."""
        return self.which(name) is not None

    def which(self, name: str) -> str | None:
        """Return the path of a program on the PATH, or None."""
        return shutil.which(name, path=self.variables.get("PATH", ""))

    def _claude_package(self) -> Path | None:
        """Return the directory of Claude Desktop's files if it is installed as a Windows package, or None.

        Such a package uses its own directory instead of `AppData/Roaming`. The directory's name ends with the
        publisher's key.
        """
        local = self._directory("LOCALAPPDATA") or self.home / "AppData" / "Local"
        return next(iter(sorted(local.glob("Packages/Claude_*/LocalCache/Roaming/Claude"))), None)

    def _directory(self, variable: str) -> Path | None:
        """Return the directory in an environment variable, or None if it is not an absolute path."""
        given = self.variables.get(variable, "")
        return Path(given) if given and Path(given).is_absolute() else None


@dataclass(frozen=True, slots=True)
class Launch:
    """The command that a client should run: the relay for one workspace."""

    python: Path
    """An interpreter that has Codriver installed, with which the relay starts the server."""
    relay: Path
    workspace: Path
    shared: tuple[str, ...] | None = None
    """The command line for shared files, without paths of this machine. Empty if none would work.

    None before it has been determined, in which case paths are used.
    """

    @classmethod
    def current(cls, workspace: Path) -> Launch:
        """Return the launch with this interpreter and this user's relay.

        The interpreter's path is not resolved, because a virtual environment is identified by its links.
        """
        return cls(Path(sys.executable), relay_file(), workspace.resolve())

    def resolve_shared_command(self, environment: Environment) -> Launch:
        """Return the launch with the command line for shared files, as determined on this machine."""
        return replace(self, shared=() if is_search_boundary(str(self.workspace)) else shared_command(environment))

    def in_scope(self, scope: Scope) -> Launch:
        """Return the launch for files of one scope. Files of the user contain paths of this machine."""
        return self if scope == "workspace" and self.shared else replace(self, shared=None)


@dataclass(frozen=True, slots=True)
class Client:
    """An MCP client and its configuration files. See `wrapper-config/clients.toml` for the fields."""

    id: str
    title: str
    template: str
    is_toml: bool
    next: str
    comments: bool = True
    trailing_commas: bool = True
    workspace: tuple[str, ...] = ()
    user: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    marks: tuple[str, ...] = ()
    traces: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    is_once: bool = False
    private: str = ""
    approval: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """The keys of an entry that let the client run all tools without asking, or empty if there are none."""
    who: str = ""
    """The name by which the server records that the client was connected."""
    greets: tuple[str, ...] = ()
    """The name and the MCP version that the client sends, if known."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the scopes in which the client can be configured, preferred one first."""
        locations: tuple[tuple[Scope, object], ...] = (("workspace", self.workspace), ("user", self.user))
        return tuple(scope for scope, files in locations if files)

    def file(self, scope: Scope, workspace: Path, environment: Environment) -> Path:
        """Return the client's file in a scope: the first one that exists, or else the first that it would read.

        Raises:
            NoSuchScopeError: the client has no file in that scope.
        """
        if scope not in self.scopes:
            raise NoSuchScopeError(self.title, scope)
        if scope == "workspace":
            files = [workspace / name for name in self.workspace]
        else:
            files = environment.paths(self.user[environment.platform])
        return next((file for file in files if path_exists(file)), files[0])

    def is_used_in(self, workspace: Path) -> bool:
        """Return whether the workspace shows signs that this client is used in it."""
        return any(path_exists(workspace / mark) for mark in self.marks)

    def is_on(self, environment: Environment) -> bool:
        """Return whether this client seems to be installed."""
        return any(path_exists(trace) for trace in environment.paths(self.traces)) or any(
            environment.has_command(command) for command in self.commands
        )

    def entry_path(self) -> tuple[str, ...]:
        """Return the keys in the template that lead to the entries."""
        keys, node = [], self._parsed(self.template)
        while NAME_PLACEHOLDER not in node:
            key = next(key for key, value in node.items() if isinstance(value, dict))
            keys.append(key)
            node = node[key]
        return tuple(keys)

    def render(self, launch: Launch, name: str) -> str:
        """Return the content of a file that has only this entry."""
        filled = {
            "name": name,
            "python": str(launch.python),
            "relay": str(launch.relay),
            "port-file": str(port_file(launch.workspace)),
        }

        template = self.template
        if launch.shared:
            filled["python"], words = launch.shared[0], ", ".join(map(json.dumps, launch.shared[1:]))
            template = TEMPLATE_ARGUMENTS.sub(lambda _: words, template)

        def fill(found: re.Match[str]) -> str:
            # JSON's escapes are also valid in a TOML basic string.
            return json.dumps(filled[found.group(1)], ensure_ascii=False)[1:-1]

        return re.sub(r"\{\{([a-z-]+)\}\}", fill, template)

    def with_approval(self) -> Client:
        """Return the client with the keys of `approval` added to its entry."""
        template = self.template
        for key, value in self.approval.items():
            if self.is_toml:
                template = f"{template}{key} = {json.dumps(value)}\n"
            else:
                template = jsonc.set_member(template, (*self.entry_path(), NAME_PLACEHOLDER, key), value)
        return replace(self, template=template)

    def entry(self, launch: Launch, name: str) -> Any:
        """Return the entry as parsed data."""
        node: Any = self._parsed(self.render(launch, name))
        for key in (*self.entry_path(), name):
            node = node[key]
        return node

    def _parsed(self, text: str) -> Any:
        # A name in braces is not a valid bare key in TOML, so quote it before parsing.
        return (
            tomllib.loads(text.replace(f".{NAME_PLACEHOLDER}]", f'."{NAME_PLACEHOLDER}"]'))
            if self.is_toml
            else json.loads(text)
        )


def path_exists(path: Path) -> bool:
    """Return whether a file or directory exists. In an unreadable directory, it counts as missing."""
    return os.path.exists(path)  # noqa: PTH110  # `Path.exists` raises if permission is denied


@cache
def known_clients() -> Mapping[str, Client]:
    """Return all clients by id, in display order."""
    directory = shipped_directory("wrapper-config")
    table = tomllib.loads((directory / "clients.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: _client(name, row, directory) for name, row in table.items()})


def select_clients(names: Iterable[str]) -> tuple[Client, ...]:
    """Return the clients with these ids, where `all` means every client.

    Raises:
        UnknownClientError: an id is unknown.
    """
    known = known_clients()
    chosen: dict[str, Client] = {}
    for name in names:
        if name == "all":
            chosen.update(known)
        elif name in known:
            chosen[name] = known[name]
        else:
            raise UnknownClientError(name, known)
    return tuple(chosen.values())


def detect_clients(workspace: Path, environment: Environment) -> tuple[Client, ...]:
    """Return the clients that are used in this workspace or installed on this machine."""
    return tuple(
        client for client in known_clients().values() if client.is_used_in(workspace) or client.is_on(environment)
    )


def command_line(entry: object) -> tuple[str, ...]:
    """Return the command line of an entry in any of the three formats that clients use, or an empty tuple."""
    if isinstance(entry, dict):
        entry = entry.get("transport", entry)
    if not isinstance(entry, dict):
        return ()
    parts = (entry.get("command", []), entry.get("args", []))
    return tuple(str(word) for part in parts for word in (part if isinstance(part, list) else [part]))


def starts_relay(entry: object) -> bool:
    """Return whether an entry starts Codriver's relay, wherever it is installed."""
    return any(re.search(r"codriver[-_]relay(\.py)?\Z", word) for word in command_line(entry))


def is_shareable(words: tuple[str, ...]) -> bool:
    """Return whether a command line is one that `init` writes to shared files."""
    return words == RELAY_COMMAND or (
        words[:2] == ("uvx", "--from") and words[3:] == RELAY_COMMAND and "codriver" in words[2]
    )


def is_written_by_init(present: object, entry: object) -> bool:
    """Return whether some version's `init` wrote the existing entry in place of `entry`, perhaps on another machine."""
    if not isinstance(present, dict) or not isinstance(entry, dict):
        return False
    words = command_line(present)
    paths = words[3:] if words[1:3] == ("-I", "-S") else words[1:]  # entries of earlier versions were not isolated
    has_paths = (
        len(paths) == len(RELAY_COMMAND) - 1
        and Path(paths[1]).parts[-3:] == (*SERVER_DIRECTORY, "port")
        and paths[2] == "--start"
    )
    if not starts_relay(present) or not (has_paths or is_shareable(words)):
        return False
    chosen = _rest(entry)
    return all(key in chosen and chosen[key] == value for key, value in _rest(present).items())


def is_acceptable_command(present: object, entry: object) -> bool:
    """Return whether an existing entry in a shared file can stay, although another command line works here."""
    if not isinstance(present, dict) or not isinstance(entry, dict):
        return False
    return is_shareable(command_line(present)) and _rest(present) == _rest(entry)


def is_versioned(workspace: Path) -> bool:
    """Return whether a directory is in a git repository, so that its files are shared."""
    return any(path_exists(directory / ".git") for directory in (workspace, *workspace.parents))


def _rest(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without its command line."""
    rest = ((key, value) for key, value in entry.items() if key not in ("command", "args"))
    return {
        key: _rest(setting) if key == "transport" and isinstance(setting, dict) else setting for key, setting in rest
    }


def shared_command(environment: Environment) -> tuple[str, ...]:
    """Return a command line for the relay that works wherever Codriver is installed, or empty if none works here.

    A relay on the PATH may belong to another installation, so it is checked that it supports `auto`.
    """
    relay = environment.which(RELAY_COMMAND[0])
    if relay is not None and _supports_auto(relay):
        return RELAY_COMMAND
    version = registry_version()
    return (
        ("uvx", "--from", f"codriver=={version}", *RELAY_COMMAND) if version and environment.has_command("uvx") else ()
    )


def _supports_auto(relay: str) -> bool:
    if Path(relay).parent == Path(sys.executable).parent:
        return True
    if not Path(relay).is_absolute():
        return False  # a file in the current directory is not trusted
    try:
        done = subprocess.run(  # noqa: S603  # a program on the user's PATH
            [relay, "--help"],
            env=server_environment(str(Path.cwd())),
            capture_output=True,
            timeout=HELP_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"`auto`" in done.stdout


def registry_version() -> str:
    """Return the installed version if others can install it from a registry by name, or an empty string."""
    from importlib import metadata  # noqa: PLC0415  # not needed if the relay is on the PATH

    try:
        installed = metadata.distribution("codriver")
        direct, installer = installed.read_text("direct_url.json"), installed.read_text("INSTALLER")
    except (metadata.PackageNotFoundError, OSError):
        return ""
    words = (installer or "").lower().split()
    return installed.version if direct is None and words and words[0] in INSTALLERS else ""


def entry_name(scope: Scope, workspace: Path) -> str:
    """Return the name of the entry. In files for all workspaces, the name is unique to the workspace."""
    slug = re.sub(r"[^a-z0-9]+", "-", workspace.name.lower()).strip("-")
    return "codriver" if scope == "workspace" or not slug else f"codriver-{slug}"


def read_packaged_text(name: str, directory: Path | None = None) -> str:
    """Return the content of a file in `wrapper-config/`. `directory` overrides that directory."""
    return ((directory or shipped_directory("wrapper-config")) / name).read_text(encoding="utf-8")


def _client(name: str, row: Mapping[str, Any], directory: Path) -> Client:
    return Client(
        id=name,
        title=row["title"],
        template=read_packaged_text(row["template"], directory),
        is_toml=row["template"].endswith(".toml"),
        next=row["next"],
        comments=row.get("comments", True),
        trailing_commas=row.get("trailing-commas", True),
        workspace=tuple(row.get("workspace", ())),
        user=MappingProxyType({platform: tuple(files) for platform, files in row.get("user", {}).items()}),
        marks=tuple(row["marks"]),
        traces=tuple(row["traces"]),
        commands=tuple(row["commands"]),
        foreign=tuple(row.get("foreign", ())),
        is_once=row.get("once", False),
        private=row.get("private", ""),
        approval=MappingProxyType(row.get("approve", {})),
        who=row.get("who", name),
        greets=tuple(row.get("greets", ())),
    )


@dataclass(frozen=True, slots=True)
class PastedBlock:
    """A text for pasting: its location and its template."""

    location: str
    template: str


@dataclass(frozen=True, slots=True)
class PrintedClient:
    """A client whose entry is printed for pasting. See `wrapper-config/printed.toml` for the fields."""

    id: str
    title: str
    scope: Scope
    next: str
    blocks: tuple[PastedBlock, ...]

    def render(self, block: PastedBlock, launch: Launch) -> str:
        """Return the text of a block for this launch."""
        client = Client(self.id, self.title, block.template, is_toml=False, next=self.next)
        return client.render(launch.in_scope(self.scope), entry_name(self.scope, launch.workspace))

    def to_text(self, launch: Launch) -> str:
        """Return all texts for pasting with their locations, followed by the next steps."""
        parts = [f"{self.title}: paste into {block.location}\n\n{self.render(block, launch)}" for block in self.blocks]
        return "\n".join([*parts, f"then {self.next}\n"])


def printed_clients() -> Mapping[str, PrintedClient]:
    """Return all clients whose entry is printed, by id."""
    table = tomllib.loads(read_packaged_text("printed.toml"))
    return MappingProxyType({name: _printed_client(name, row) for name, row in table.items()})


def printed_entries(names: Iterable[str], launch: Launch, *, remove: bool) -> tuple[str, tuple[str, ...]]:
    """Return the text to print for the clients among `names` that are configured by pasting, and the other names."""
    known = printed_clients()
    printed, others = [], []
    for name in names:
        if name not in known:
            others.append(name)
        elif remove:
            locations = " and ".join(block.location for block in known[name].blocks)
            printed.append(
                f"{known[name].title}: codriver wrote nothing; remove what you pasted into {locations} yourself\n"
            )
        else:
            printed.append(known[name].to_text(launch))
    return "\n".join(printed), tuple(others)


def _printed_client(name: str, row: Mapping[str, Any]) -> PrintedClient:
    blocks = tuple(PastedBlock(location, read_packaged_text(template)) for template, location in row["paste"].items())
    return PrintedClient(name, row["title"], row["scope"], row["next"], blocks)
