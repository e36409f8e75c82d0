"""Exclude preloaded objects from garbage collections.

pytest and Python collect garbage several times at the end of a run. In a forked process, each collection of all
preloaded objects would copy the memory that they occupy, and take longer than a short test.

`gc` lists no frozen objects. Its functions that list objects are therefore replaced in a run, and unfreeze them first.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

LISTING_FUNCTIONS = ("get_objects", "get_referrers", "get_freeze_count")
"""The functions of `gc` whose results depend on whether objects are frozen."""


class UnfreezingFunction:
    """A wrapper for a function of `gc`. It unfreezes all objects, and restores the original functions.

    Like a built-in function, it is not bound when it is an attribute of a class.
    """

    def __init__(self, real: Callable[..., Any], restore: Callable[[], None]) -> None:
        self.real = real
        self.restore = restore

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Unfreeze all objects, and call the original function."""
        self.restore()
        found = self.real(*arguments, **options)
        # The arguments of this call refer to the objects whose referrers are listed.
        return [value for value in found if value is not arguments] if isinstance(found, list) else found


def replace_listing_functions(module: ModuleType) -> dict[str, Any]:
    """Replace the functions of `gc` that list objects. Return the replacements by name."""
    namespace = vars(module)
    real = {name: namespace[name] for name in LISTING_FUNCTIONS if name in namespace}
    unfreeze = namespace["unfreeze"]

    def restore() -> None:
        unfreeze()
        for name, function in real.items():
            if namespace.get(name) is replacements[name]:
                namespace[name] = function

    replacements = {name: UnfreezingFunction(function, restore) for name, function in real.items()}
    namespace.update(replacements)
    return replacements
