"""Answers to queries about code: symbols, sources, completions and lists of names."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Symbol:
    """The documentation and position of a symbol. `extra` contains the remaining fields of the server's reply."""

    name: str
    namespace: str | None = None
    doc: str | None = None
    arglists: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    column: int | None = None
    macro: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyntaxIssue:
    """A syntax error that a REPL reports without running the code. Lines and columns start at 1."""

    message: str
    type: str = "SyntaxError"
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The source text of a definition, and its position if known.

    The text may continue after the end of the definition.
    """

    text: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ListedName:
    """An entry in a list of names, with its parameters and the first line of its documentation."""

    name: str
    type: str | None = None
    """The server's term for the kind of name, as in `Completion.type`."""
    parameters: str = ""
    doc: str = ""
    line: int | None = None
    """For a class member, its line in the file that defines the class."""


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names, which may be incomplete. `omitted` is the number of missing names."""

    listed: tuple[ListedName, ...]
    omitted: int = 0
    private: int = 0
    """Number of private names, as far as known. They are neither listed nor counted as omitted."""

    def definitions_of(self, name: str) -> list[str]:
        """Return the qualified names in the list that end with this name, such as `shop.price` for `price`."""
        return [row.name for row in self.listed if row.name.endswith(f".{name}")]


@dataclass(frozen=True, slots=True)
class Completion:
    """A name that completes a prefix.

    `type` is the server's term for its kind, such as `function`, `macro` or `module`.
    """

    candidate: str
    type: str | None = None
    namespace: str | None = None
