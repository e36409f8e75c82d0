"""Values on the drift of a REPL's code from its files: the differences, and what of its code is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

OnlyOf = Literal["", "old", "edited"]
DriftKind = Literal[
    "edited", "redefined", "gone", "missing", "kept", "unknown", "docstring", "order", "deleted", "unparsable",
    "old", "former", "instances", "closures", "unbound", "renewed", "removed", "emptied", "stays", "unchanged",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a module as it is loaded and its file as it is now.

    `edited`: the file has another definition since, `of` naming the part that differs where it is not the body.
    `redefined`: the name was bound anew since its load. `gone`: the file has none. `missing`: only the file has it.
    `docstring`: that alone was edited. `order`: statements stand in another order, from this one on. `deleted`,
    `unparsable`: the file is not there, or `of` says why it does not parse. `unbound`: the name is imported from `of`,
    which is gone. `old`: the name has an object of a former load, `of` being its successor. `instances`: so many, `of`,
    live on of a former load's class. `closures`: so many of what a former load's function has made. `renewed`, which is
    told once: a load since has put its own in place of the name's object of a former load, of the class of so many
    instances, or of the code of so many closures. `removed`, told once too: a load since has taken it out, as the file
    has it no more. `emptied`, told once: a cache around it lost so many values, as it changed. `stays`, told once: a
    load has left something of it as it was, `of` says what. `unchanged`: a load had nothing to run. In Lisp there are
    also `kept`: the file has another form, and no load defines it anew, as it is a multimethod or of `defonce`;
    `former`: the type is of a protocol's former load, `of` being the protocol; `unknown`: nobody saw what was loaded or
    evaluated.
    """

    module: str
    name: str
    kind: DriftKind
    evaluated: bool = False
    """Whether the live definition is from code that was evaluated."""
    of: str = ""
    by: str = ""
    """Who evaluated it, in which evaluation, and when, as far as that is known already."""
    path: str = ""
    """The file whose text differs from the one that was loaded, in Python."""
    joint: str = "."
    """What stands between the names of the module and of what it defines."""

    @property
    def full(self) -> str:
        """The qualified name."""
        return f"{self.module}{self.joint}{self.name}"


@dataclass(frozen=True, slots=True)
class LoadedVar:
    """A var as it is loaded: the file and line that it was defined at, as far as its namespace's files have them.

    A `file` that is blank: it was evaluated. `root` stands for its value: another one, another value. `stamp` for its
    definition: another one, it was defined anew.
    """

    name: str
    file: str
    line: int | None
    root: str
    stamp: str = ""


@dataclass(frozen=True, slots=True)
class LoadedNamespace:
    """A namespace as it is loaded; without `files` it is not of the folder that was asked about.

    `mark` stands for all of it: the same one, nothing changed.
    """

    name: str
    mark: str
    files: tuple[str, ...] = ()
    vars: tuple[LoadedVar, ...] = ()


@dataclass(frozen=True, slots=True)
class LivesOn:
    """A survivor of a former load: see the kinds of `Difference`."""

    module: str
    name: str
    kind: Literal["old", "former", "instances"]
    of: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The code that a Lisp has loaded: when it began, all its namespaces, those whose mark is new, what lives on."""

    began_ms: int
    names: frozenset[str]
    changed: tuple[LoadedNamespace, ...]
    lives_on: tuple[LivesOn, ...]
