"""The MCP clients that `codriver init` can configure, and the entries in their configuration files.

`wrapper-config/` describes them. For some clients, the entry is only printed, and the user has to paste it.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass, field, replace
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import StartError
from codriver.files.codriver_paths import port_file, shipped_directory
from codriver.setup import jsonc
from codriver.setup.environment import Environment, path_exists

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from codriver.setup.relay_launch import Launch, Scope


NAME_PLACEHOLDER = "{{name}}"
TEMPLATE_ARGUMENTS: Final = re.compile(r'"-I", "-S", "\{\{relay\}\}",\s*"[^"]*",\s*"--start"')
"""Matches the arguments after the interpreter in every template."""


class UnknownClientError(StartError):
    """Raised when the user names an unknown client."""

    exit_status = 2

    def __init__(self, name: str, known: Iterable[str]) -> None:
        super().__init__(f"there is no client {name!r}. The known clients are {', '.join(known)}")


class NoSuchScopeError(StartError):
    """Raised when a client has no configuration file in the requested scope."""

    exit_status = 2

    def __init__(self, title: str, scope: Scope) -> None:
        other = "--scope workspace" if scope == "user" else "--scope user"
        where = "for all workspaces" if scope == "user" else "in a workspace"
        super().__init__(f"{title} has no file {where} that Codriver can write. Use {other}")


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
    """Keys of an entry that make the client run all tools without asking. Empty if the client has no such keys."""
    who: str = ""
    """The name by which the server records that the client was connected."""
    greets: tuple[str, ...] = ()
    """The name and the MCP version that the client sends, if known."""

    @property
    def scopes(self) -> tuple[Scope, ...]:
        """Return the scopes in which the client can be configured, starting with the preferred one."""
        locations: tuple[tuple[Scope, object], ...] = (("workspace", self.workspace), ("user", self.user))
        return tuple(scope for scope, files in locations if files)

    def file(self, scope: Scope, workspace: Path, environment: Environment) -> Path:
        """Return the client's configuration file in a scope.

        This is the first one that exists, or else the first one that the client would read.

        Raises:
            NoSuchScopeError: the client has no file in that scope.
        """
        if scope not in self.scopes:
            raise NoSuchScopeError(self.title, scope)
        if scope == "workspace":
            files = [workspace / name for name in self.workspace]
        else:
            files = environment.expand_paths(self.user[environment.platform])
        return next((file for file in files if path_exists(file)), files[0])

    def is_used_in(self, workspace: Path) -> bool:
        """Return whether files in the workspace indicate that this client is used there."""
        return any(path_exists(workspace / mark) for mark in self.marks)

    def is_installed(self, environment: Environment) -> bool:
        """Return whether this client seems to be installed."""
        return any(path_exists(trace) for trace in environment.expand_paths(self.traces)) or any(
            environment.has_command(command) for command in self.commands
        )

    def entry_path(self) -> tuple[str, ...]:
        """Return the keys that lead to the entries in a configuration file."""
        keys, node = [], self._parse(self.template)
        while NAME_PLACEHOLDER not in node:
            key = next(key for key, value in node.items() if isinstance(value, dict))
            keys.append(key)
            node = node[key]
        return tuple(keys)

    def render(self, launch: Launch, name: str) -> str:
        """Return the text of a configuration file that contains only this entry."""
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
        """Return a copy of the client whose entry lets it run all tools without asking."""
        template = self.template
        for key, value in self.approval.items():
            if self.is_toml:
                template = f"{template}{key} = {json.dumps(value)}\n"
            else:
                template = jsonc.set_member(template, (*self.entry_path(), NAME_PLACEHOLDER, key), value)
        return replace(self, template=template)

    def entry(self, launch: Launch, name: str) -> Any:
        """Return the entry as data."""
        node: Any = self._parse(self.render(launch, name))
        for key in (*self.entry_path(), name):
            node = node[key]
        return node

    def _parse(self, text: str) -> Any:
        # A name in braces is not a valid bare key in TOML, so quote it before parsing.
        return (
            tomllib.loads(text.replace(f".{NAME_PLACEHOLDER}]", f'."{NAME_PLACEHOLDER}"]'))
            if self.is_toml
            else json.loads(text)
        )


@cache
def known_clients() -> Mapping[str, Client]:
    """Return all clients by id, in the order in which they are displayed."""
    directory = shipped_directory("wrapper-config")
    table = tomllib.loads((directory / "clients.toml").read_text(encoding="utf-8"))
    return MappingProxyType({name: _parse_client(name, row, directory) for name, row in table.items()})


def select_clients(names: Iterable[str]) -> tuple[Client, ...]:
    """Return the clients with these ids. The id `all` means every client.

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
        client
        for client in known_clients().values()
        if client.is_used_in(workspace) or client.is_installed(environment)
    )


def entry_name(scope: Scope, workspace: Path) -> str:
    """Return the name of Codriver's entry. In files for all workspaces, it is unique to the workspace."""
    slug = re.sub(r"[^a-z0-9]+", "-", workspace.name.lower()).strip("-")
    return "codriver" if scope == "workspace" or not slug else f"codriver-{slug}"


def read_packaged_text(name: str, directory: Path | None = None) -> str:
    """Return the content of a file in `wrapper-config/`, or in `directory` if given."""
    return ((directory or shipped_directory("wrapper-config")) / name).read_text(encoding="utf-8")


def _parse_client(name: str, row: Mapping[str, Any], directory: Path) -> Client:
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
