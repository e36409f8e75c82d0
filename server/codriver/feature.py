"""What a feature adds to the base: a declaration of typed tuples.

A feature is a package in `codriver.features` that names itself in one `FEATURE`. `codriver.app.features` lists the
features and merges their declarations once, into what each part of the base needs. The base imports no feature.

A declaration is read by every command, so it imports nothing: the tools and the state of a server are imported when
`Feature.server` is called.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from anyio.abc import TaskGroup

    from codriver.tools.calls.base import Services, Tool

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the command line.

    `module` is imported when the command is used; it has the `click` command as `NAME_command`. `synonyms` are words of
    other programs with this meaning, for the hint about an unknown command.
    """

    name: str
    module: str
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """State that lives as long as a server, reached from a call as `call.services.part(kind)`."""

    kind: type[T]
    make: Callable[[Services, TaskGroup], T]
    """Called when the server is built, before it listens."""
    run: Callable[[T], Coroutine[Any, Any, None]] | None = None
    """A task that starts with the server and is cancelled when it ends."""
    stop: Callable[[T], Coroutine[Any, Any, None]] | None = None
    """Awaited when the server stops, before its REPLs end. It must return within a second."""


@dataclass(frozen=True, slots=True)
class ServerHooks:
    """What a feature adds to a running server."""

    tools: tuple[Tool, ...] = ()
    parts: tuple[Part[Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Feature:
    """The declaration of one feature.

    `requires` names other features that this one imports; it is left out where one of them is.
    """

    name: str
    requires: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    server: Callable[[], ServerHooks] = field(default=ServerHooks)
    """Import and return what the feature adds to a server."""
