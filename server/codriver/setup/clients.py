"""The MCP clients that can be set up, as `wrapper-config/` describes them: the place of each entry, and its text.

Some clients' entries are only printed for pasting: codriver does not write their files.
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
from codriver_relay.own_files import PLACE
from codriver_relay.starter import server_environment
from codriver_relay.target import is_border

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Scope = Literal["workspace", "user"]
Platform = Literal["linux", "macos", "windows"]

NAME_KEY = "{{name}}"
ARGUMENTS: Final = re.compile(r'"-I", "-S", "\{\{relay\}\}",\s*"[^"]*",\s*"--start"')
"""The arguments that follow the interpreter in every template."""
RELAY: Final = ("codriver-relay", "--workspace", "auto", "--start")
"""The relay as a command that finds its workspace itself."""
INSTALLERS: Final = frozenset({"pip", "uv", "poetry", "pdm"})
"""Installers that fetch packages by name. Source: the INSTALLER files that they write."""
HELP_S: Final = 10.0
_PACKAGE: Final = "{claude-package}"


class UnknownClientError(StartError):
    """A client was named that Codriver does not know."""

    exit_status = 2

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no client {name!r}; known are {', '.join(known)}")


class NoSuchScopeError(StartError):
    """A client keeps no entries in the scope asked for."""

    exit_status = 2

    def __init__(self, title: str, scope: Scope) -> None:
        other = "--scope workspace" if scope == "user" else "--scope user"
        where = "for all workspaces" if scope == "user" else "in a workspace"
        super().__init__(f"{title} has no entry {where} that codriver can write; use {other}")


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and its user, as far as clients depend on them."""

    home: Path
    platform: Platform
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def here(cls) -> Environment:
        """Return the environment of this process."""
        platform: Platform = "linux"
        if sys.platform == "darwin":
            platform = "macos"
        elif sys.platform == "win32":
            platform = "windows"
        return cls(Path.home(), platform, MappingProxyType(dict(os.environ)))

    def paths(self, patterns: Iterable[str]) -> list[Path]:
        """Return patterns from `clients.toml` as paths, without those in a package that is not installed."""
        folders: dict[str, Path] = {
            "home": self.home,
            "config": self._folder("XDG_CONFIG_HOME") or self.home / ".config",
            "appdata": self._folder("APPDATA") or self.home / "AppData" / "Roaming",
            "codex": self._folder("CODEX_HOME") or self.home / ".codex",
            "copilot": self._folder("COPILOT_HOME") or self.home / ".copilot",
        }
        if (package := self._claude_package()) is not None:
            folders["claude-package"] = package
        return [Path(pattern.format_map(folders)) for pattern in patterns if package or _PACKAGE not in pattern]

    def has_command(self, name: str) -> bool:
        """Return whether the program is on the search path."""
        return self.which(name) is not None

    def which(self, name: str) -> str | None:
        """Return the program of that name on the search path."""
        return shutil.which(name, path=self.variables.get("PATH", ""))

    def _claude_package(self) -> Path | None:
        """The folder of Claude Desktop's files, if the program was installed as a package of Windows.

        Such a package sees a folder of its own in place of `AppData/Roaming`. Its name ends in its publisher's key.
        """
        local = self._folder("LOCALAPPDATA") or self.home / "AppData" / "Local"
        return next(iter(sorted(local.glob("Packages/Claude_*/LocalCache/Roaming/Claude"))), None)

    def _folder(self, variable: str) -> Path | None:
        """Return the directory in a variable; a relative path counts as none."""
        given = self.variables.get(variable, "")
        return Path(given) if given and Path(given).is_absolute() else None


@dataclass(frozen=True, slots=True)
class Launch:
    """The command for a client to run: the relay, for one workspace."""

    python: Path
    """An interpreter that has Codriver installed: the relay starts the server with it."""
    relay: Path
    workspace: Path
    shared: tuple[str, ...] | None = None
    """The command line in files that a team shares, without a path of this machine; empty if none would work. None
    before the search: the paths then stand there too.
    """

    @classmethod
    def here(cls, workspace: Path) -> Launch:
        """Return the launch by this interpreter and the relay of this user.

        The path of the interpreter is left as it is: a virtual environment is known through its links.
        """
        return cls(Path(sys.executable), relay_file(), workspace.resolve())

    def with_shared(self, environment: Environment) -> Launch:
        """Return the launch with the command line for shared files, found on this machine."""
        return replace(self, shared=() if is_border(str(self.workspace)) else shared_command(environment))

    def in_scope(self, scope: Scope) -> Launch:
        """Return the launch for the files of one scope: the user's own files hold paths of this machine."""
        return self if scope == "workspace" and self.shared else replace(self, shared=None)


@dataclass(frozen=True, slots=True)
class Client:
    """One MCP client: the form and the place of its file. See `wrapper-config/clients.toml` for the fields."""

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
    """The keys of an entry that have the client run all tools unasked; empty if the client knows none."""
    who: str = ""
    """The name of its callers, by which the server remembers that it was connected."""
    greets: tuple[str, ...] = ()
    """The name that the client tells a server, and its version of MCP, if they are known."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the scopes in which the client keeps entries, the preferred one first."""
        places: tuple[tuple[Scope, object], ...] = (("workspace", self.workspace), ("user", self.user))
        return tuple(scope for scope, files in places if files)

    def file(self, scope: Scope, workspace: Path, environment: Environment) -> Path:
        """Return the client's file in a scope: the first existing one, else the first that it would read.

        Raises:
            NoSuchScopeError: the client has no file in that scope.
        """
        if scope not in self.scopes:
            raise NoSuchScopeError(self.title, scope)
        if scope == "workspace":
            files = [workspace / name for name in self.workspace]
        else:
            files = environment.paths(self.user[environment.platform])
        return next((file for file in files if is_there(file)), files[0])

    def is_used_in(self, workspace: Path) -> bool:
        """Return whether the workspace has traces of this client's use."""
        return any(is_there(workspace / mark) for mark in self.marks)

    def is_on(self, environment: Environment) -> bool:
        """Return whether this client seems to be installed."""
        return any(is_there(trace) for trace in environment.paths(self.traces)) or any(
            environment.has_command(command) for command in self.commands
        )

    def entry_path(self) -> tuple[str, ...]:
        """Return the keys that lead to the entry in the template, without the entry's own name."""
        keys, node = [], self._parsed(self.template)
        while NAME_KEY not in node:
            key = next(key for key, value in node.items() if isinstance(value, dict))
            keys.append(key)
            node = node[key]
        return tuple(keys)

    def render(self, launch: Launch, name: str) -> str:
        """Return the whole file with the entry alone, as it would be written by hand."""
        filled = {
            "name": name,
            "python": str(launch.python),
            "relay": str(launch.relay),
            "port-file": str(port_file(launch.workspace)),
        }

        template = self.template
        if launch.shared:
            filled["python"], words = launch.shared[0], ", ".join(map(json.dumps, launch.shared[1:]))
            template = ARGUMENTS.sub(lambda _: words, template)

        def fill(found: re.Match[str]) -> str:
            # The inside of a JSON string is also the inside of a TOML basic string.
            return json.dumps(filled[found.group(1)], ensure_ascii=False)[1:-1]

        return re.sub(r"\{\{([a-z-]+)\}\}", fill, template)

    def approving(self) -> Client:
        """Return the client with a template whose entry has the keys of `approval` too."""
        template = self.template
        for key, value in self.approval.items():
            if self.is_toml:
                template = f"{template}{key} = {json.dumps(value)}\n"
            else:
                template = jsonc.with_member(template, (*self.entry_path(), NAME_KEY, key), value)
        return replace(self, template=template)

    def entry(self, launch: Launch, name: str) -> Any:
        """Return the entry as data."""
        node: Any = self._parsed(self.render(launch, name))
        for key in (*self.entry_path(), name):
            node = node[key]
        return node

    def _parsed(self, text: str) -> Any:
        # A name in braces is no bare key in TOML, so it is quoted there before it is read.
        return tomllib.loads(text.replace(f".{NAME_KEY}]", f'."{NAME_KEY}"]')) if self.is_toml else json.loads(text)


def is_there(path: Path) -> bool:
    """True if such a file or folder exists; an entry of an unreadable folder counts as missing."""
    return os.path.exists(path)  # noqa: PTH110  # `Path.exists` raises where it may not look


@cache
def known_clients() -> Mapping[str, Client]:
    """Return every client, by its id, in the order they are shown."""
    folder = shipped_directory("wrapper-config")
    table = tomllib.loads((folder / "clients.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: _client(name, row, folder) for name, row in table.items()})


def chosen_clients(names: Iterable[str]) -> tuple[Client, ...]:
    """Return the clients of those names; `all` means every one.

    Raises:
        UnknownClientError: a name is no client's.
    """
    known = known_clients()
    wanted: dict[str, Client] = {}
    for name in names:
        if name == "all":
            wanted.update(known)
        elif name in known:
            wanted[name] = known[name]
        else:
            raise UnknownClientError(name, known)
    return tuple(wanted.values())


def found_clients(workspace: Path, environment: Environment) -> tuple[Client, ...]:
    """Return the clients with traces in this workspace or on this machine."""
    return tuple(
        client for client in known_clients().values() if client.is_used_in(workspace) or client.is_on(environment)
    )


def command_line(entry: object) -> tuple[str, ...]:
    """The words of an entry's command, in any of the clients' three shapes; empty without a command."""
    if isinstance(entry, dict):
        entry = entry.get("transport", entry)
    if not isinstance(entry, dict):
        return ()
    parts = (entry.get("command", []), entry.get("args", []))
    return tuple(str(word) for part in parts for word in (part if isinstance(part, list) else [part]))


def starts_relay(entry: object) -> bool:
    """Return whether an entry starts our relay, from whatever place."""
    return any(re.search(r"codriver[-_]relay(\.py)?\Z", word) for word in command_line(entry))


def is_shareable(words: tuple[str, ...]) -> bool:
    """Return whether a command line is ours, for files that a team shares."""
    return words == RELAY or (words[:2] == ("uvx", "--from") and words[3:] == RELAY and "codriver" in words[2])


def is_written_by_init(present: object, entry: object) -> bool:
    """Whether some version's `init`, on some machine, wrote the present entry in the place for `entry`."""
    if not isinstance(present, dict) or not isinstance(entry, dict):
        return False
    words = command_line(present)
    paths = words[3:] if words[1:3] == ("-I", "-S") else words[1:]  # entries of earlier versions were not isolated
    has_paths = len(paths) == len(RELAY) - 1 and Path(paths[1]).parts[-3:] == (*PLACE, "port") and paths[2] == "--start"
    if not starts_relay(present) or not (has_paths or is_shareable(words)):
        return False
    wanted = _rest(entry)
    return all(key in wanted and wanted[key] == value for key, value in _rest(present).items())


def is_as_good(present: object, entry: object) -> bool:
    """Whether an entry of ours for shared files can stay: another machine may need another of our command lines."""
    if not isinstance(present, dict) or not isinstance(entry, dict):
        return False
    return is_shareable(command_line(present)) and _rest(present) == _rest(entry)


def is_versioned(workspace: Path) -> bool:
    """Return whether a directory is in a git repository, so that others get its files too."""
    return any(is_there(folder / ".git") for folder in (workspace, *workspace.parents))


def _rest(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry without its command line."""
    rest = ((key, value) for key, value in entry.items() if key not in ("command", "args"))
    return {key: _rest(one) if key == "transport" and isinstance(one, dict) else one for key, one in rest}


def shared_command(environment: Environment) -> tuple[str, ...]:
    """Return the relay's command line on any machine with Codriver; empty if none works on this machine.

    The relay on the search path may be another installation's, and has to know `auto`.
    """
    relay = environment.which(RELAY[0])
    if relay is not None and _knows_auto(relay):
        return RELAY
    version = registry_version()
    return ("uvx", "--from", f"codriver=={version}", *RELAY) if version and environment.has_command("uvx") else ()


def _knows_auto(relay: str) -> bool:
    if Path(relay).parent == Path(sys.executable).parent:
        return True
    if not Path(relay).is_absolute():
        return False  # a file in the current folder may be anybody's
    try:
        done = subprocess.run(  # noqa: S603  # the user's own
            [relay, "--help"], env=server_environment(str(Path.cwd())), capture_output=True, timeout=HELP_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and b"`auto`" in done.stdout


def registry_version() -> str:
    """The version of this installation if it came from a registry, where others can get it by name; else empty."""
    from importlib import metadata  # noqa: PLC0415  # with the relay on the search path, nobody asks

    try:
        installed = metadata.distribution("codriver")
        direct, installer = installed.read_text("direct_url.json"), installed.read_text("INSTALLER")
    except (metadata.PackageNotFoundError, OSError):
        return ""
    words = (installer or "").lower().split()
    return installed.version if direct is None and words and words[0] in INSTALLERS else ""


def entry_name(scope: Scope, workspace: Path) -> str:
    """Return the name of the entry. In a file read in all workspaces, each workspace has an entry of its own."""
    slug = re.sub(r"[^a-z0-9]+", "-", workspace.name.lower()).strip("-")
    return "codriver" if scope == "workspace" or not slug else f"codriver-{slug}"


def shipped_text(name: str, folder: Path | None = None) -> str:
    """Return the text of a file of `wrapper-config/`. `folder`: another place of `wrapper-config/` than ours."""
    return ((folder or shipped_directory("wrapper-config")) / name).read_text(encoding="utf-8")


def _client(name: str, row: Mapping[str, Any], folder: Path) -> Client:
    return Client(
        id=name,
        title=row["title"],
        template=shipped_text(row["template"], folder),
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
class Block:
    """A text for pasting: its place, and the template."""

    place: str
    template: str


@dataclass(frozen=True, slots=True)
class PrintedClient:
    """A client whose entry is printed, as `wrapper-config/printed.toml` describes it."""

    id: str
    title: str
    scope: Scope
    next: str
    blocks: tuple[Block, ...]

    def render(self, block: Block, launch: Launch) -> str:
        """Return the text of a block, filled in."""
        client = Client(self.id, self.title, block.template, is_toml=False, next=self.next)
        return client.render(launch.in_scope(self.scope), entry_name(self.scope, launch.workspace))

    def to_text(self, launch: Launch) -> str:
        """Return all texts for pasting, each block behind its place, and the next steps."""
        parts = [f"{self.title}: paste into {block.place}\n\n{self.render(block, launch)}" for block in self.blocks]
        return "\n".join([*parts, f"then {self.next}\n"])


def printed_clients() -> Mapping[str, PrintedClient]:
    """Return every client whose entry is printed, by its id."""
    table = tomllib.loads(shipped_text("printed.toml"))
    return MappingProxyType({name: _printed_client(name, row) for name, row in table.items()})


def printed_entries(names: Iterable[str], launch: Launch, *, remove: bool) -> tuple[str, tuple[str, ...]]:
    """The text that `init` prints for clients among `names` with printed entries, and the other names."""
    known = printed_clients()
    texts, others = [], []
    for name in names:
        if name not in known:
            others.append(name)
        elif remove:
            places = " and ".join(block.place for block in known[name].blocks)
            texts.append(
                f"{known[name].title}: codriver wrote nothing; take out by hand what you pasted into {places}\n"
            )
        else:
            texts.append(known[name].to_text(launch))
    return "\n".join(texts), tuple(others)


def _printed_client(name: str, row: Mapping[str, Any]) -> PrintedClient:
    blocks = tuple(Block(place, shipped_text(template)) for template, place in row["paste"].items())
    return PrintedClient(name, row["title"], row["scope"], row["next"], blocks)
