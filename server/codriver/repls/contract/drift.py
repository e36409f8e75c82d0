"""Describe how the code that a REPL has loaded differs from its files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Mapping

OnlyOf = Literal["", "old", "edited"]
"""Which differences `Drift` returns: all, only `old` objects from previous loads, or also those in `edited` files."""
DriftKind = Literal[
    "edited", "redefined", "gone", "missing", "kept", "unknown", "docstring", "order", "deleted", "unparsable",
    "old", "former", "instances", "closures", "unbound", "renewed", "removed", "emptied", "lost", "stays",
    "unchanged",
]  # fmt: skip
"""The kinds of differences that `Difference` describes."""
DRIFT_KINDS: Final[Mapping[str, DriftKind]] = {kind: kind for kind in get_args(DriftKind)}
"""The kinds of differences by name, for validating an answer."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a loaded module and its current file.

    The kinds are:

    - `edited`: the file has a different definition. `of` is the part that differs, if it is not the body.
    - `redefined`: the name was bound again after its module was loaded.
    - `gone`: the file no longer has the definition.
    - `missing`: only the file has the definition.
    - `docstring`: only the docstring was edited.
    - `order`: from this definition on, the statements are in a different order.
    - `deleted`, `unparsable`: the file is missing, or does not parse for the reason `of`.
    - `unbound`: the name is imported from `of`, which no longer exists.
    - `old`: the name refers to an object from a previous load. `of` is its successor.
    - `instances`: `of` instances of a class from a previous load still exist.
    - `closures`: `of` closures of a function from a previous load still exist.
    - `unchanged`: a load had nothing to run.

    The following are reported once, by the load that caused them:

    - `renewed`: the load replaced an object from a previous load, the class of instances, or the code of closures.
    - `removed`: the load removed the name, which the file no longer has.
    - `emptied`: a cache around the name lost `of` values.
    - `lost`: the load removed `of` entries that were added at run time from a collection.
    - `stays`: the load left the part `of` of the definition unchanged.

    Lisps also have:

    - `kept`: the file has a different form, but loading it does not redefine a multimethod or a `defonce`.
    - `former`: the type implements the protocol `of` as a previous load defined it.
    - `unknown`: it is not known how the definition was loaded or evaluated.
    """

    module: str
    name: str
    kind: DriftKind
    evaluated: bool = False
    """Whether the live definition comes from evaluated code."""
    of: str = ""
    by: str = ""
    """Who created the live definition, in which evaluation, and when, as far as known."""
    path: str = ""
    """The file whose text differs from the loaded text. Python only."""
    holders: str = ""
    """The names that still refer to the instances, or to the removed function or class. Python only."""
    joint: str = "."
    """The separator between the module's name and the definition's name."""

    @property
    def qualified_name(self) -> str:
        """Return the definition's name, qualified by its module."""
        return f"{self.module}{self.joint}{self.name}"
