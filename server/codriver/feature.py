"""Declarations of optional features, which name their parts without importing them.

A feature is a package in `codriver.features` that declares itself in a constant `FEATURE`. `codriver.app.features`
lists the features and merges their declarations into what each part of the base needs. The base imports no feature.

Every command reads the declarations, so they import nothing. The code that a feature adds to a server is imported when
`Feature.server` is called. See `codriver.server_hooks`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codriver.log.event_logs import EventLog
    from codriver.repls.kinds import ReplKind
    from codriver.repls.launch.projects import Project
    from codriver.repls.launch.recipes import Launch
    from codriver.server_hooks import ServerHooks
    from codriver.settings.declared import DeclaredSetting
    from codriver.setup.doctor_checks import FeatureChecks


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a feature adds to the command line.

    `module` is imported when the command is used. It defines the `click` command as `NAME_command`. `synonyms` are
    words that other programs use for the command. If a user enters one of them, the hint suggests this command.
    """

    name: str
    module: str
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """Options that a feature adds to a base command.

    `module` is imported with the command. Its function `extend_command` receives the `click` command and returns a copy
    with the additional options.
    """

    command: str
    module: str


@dataclass(frozen=True, slots=True)
class Feature:
    """The declaration of a feature.

    `requires` names the features that this one imports. If one of them is disabled, so is this feature.
    """

    name: str
    server: Callable[[], ServerHooks]
    """Import and return what the feature adds to a server."""
    requires: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    settings: tuple[DeclaredSetting[Any], ...] = ()
    options: tuple[Options, ...] = ()
    doctor: Callable[[], FeatureChecks] | None = None
    """Import and return what the feature adds to `codriver doctor`."""
    repl_kinds: tuple[tuple[ReplKind, Launch], ...] = ()
    """Kinds of REPLs that a user starts by name, each with the function that starts it: see `repls.launch.recipes`."""
    project: Callable[[Path, Mapping[str, str]], Project | None] | None = None
    """Return the project to which `codriver init` gives precedence over a plain Python project, or None.

    It is called with a workspace and an environment.
    """
    logs: tuple[EventLog, ...] = ()
    """Event logs, which commands print together with the output log."""
    durations: tuple[tuple[str, float], ...] = ()
    """The server's waits in seconds, by name. Tests shorten them: see `settings.model.Durations`."""
