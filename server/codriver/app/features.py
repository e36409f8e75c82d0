"""The list of features, and their declarations merged into what the base needs.

A feature whose import fails stops the program with its traceback: a feature that vanishes silently is worse than none.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from codriver.tools.manifest import manifest_with

if TYPE_CHECKING:
    from codriver.feature import Feature, Part, ServerHooks
    from codriver.tools.calls.base import Manifest

NAMES: Final = ("try_code",)
"""The packages in `codriver.features`, in the order in which clients see their tools. A name that is taken out of this
list takes the feature away."""


@cache
def features() -> tuple[Feature, ...]:
    """Return the declarations of all features whose required features are listed too."""
    found: tuple[Feature, ...] = tuple(import_module(f"codriver.features.{name}").FEATURE for name in NAMES)
    return tuple(one for one in found if set(one.requires) <= set(NAMES))


@cache
def server_hooks() -> tuple[ServerHooks, ...]:
    """Import and return what each feature adds to a server, in the order of the list."""
    return tuple(one.server() for one in features())


def parts() -> tuple[Part[Any], ...]:
    """Return the declarations of all state that features keep for the life of a server."""
    return tuple(part for hooks in server_hooks() for part in hooks.parts)


@cache
def manifest() -> Manifest:
    """Return all tools: the base's, and those of the features."""
    return manifest_with(tuple(tool for hooks in server_hooks() for tool in hooks.tools))
