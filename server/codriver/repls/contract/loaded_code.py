"""Describe the code that a Lisp process has loaded: namespaces, vars, and objects from previous loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class LoadedVar:
    """A loaded var with the position of its definition."""

    name: str
    file: str
    """The file with the definition, or an empty string if it was evaluated directly."""
    line: int | None
    root: str
    """A mark that changes whenever the value of the var changes."""
    stamp: str = ""
    """A mark that changes whenever the definition changes."""


@dataclass(frozen=True, slots=True)
class LoadedNamespace:
    """A loaded namespace. `files` is empty if none of its files are in the requested directory.

    `mark` identifies the state of the namespace. If two marks are equal, nothing has changed.
    """

    name: str
    mark: str
    files: tuple[str, ...] = ()
    vars: tuple[LoadedVar, ...] = ()


@dataclass(frozen=True, slots=True)
class SurvivingObject:
    """An object from a previous load that still exists. `Difference` describes the kinds."""

    module: str
    name: str
    kind: Literal["old", "former", "instances"]
    of: str


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """The code that a Lisp process has loaded, and the objects from previous loads that still exist."""

    started_ms: int
    """The start time of the process."""
    names: frozenset[str]
    """The names of all loaded namespaces."""
    changed: tuple[LoadedNamespace, ...]
    """The namespaces whose mark differs from the one in the query."""
    lives_on: tuple[SurvivingObject, ...]
