"""Run statements and evaluate expressions from the sources of modules."""

from __future__ import annotations

import ast

from ...basics.definition_access import ABSENT

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterator
    from typing import Any

    from ..edits.minimal_load import MinimalLoad
    from ..module_text import Text


class ModuleCode:
    """Runs code in modules. `name` is the name of the edited module, and `minimal` loads it."""

    def __init__(self, name: str, minimal: MinimalLoad) -> None:
        self.name, self._minimal = name, minimal
        self._minimals: dict[str, MinimalLoad] = {name: minimal}

    def close(self) -> None:
        """Drop all references to modules."""
        self._minimals.clear()

    def load_for(self, text: Text) -> MinimalLoad:
        """Return an object that can run statements in a module, creating it on first use."""
        if text.name not in self._minimals:
            self._minimals[text.name] = self._minimal.for_other_module(text)
        return self._minimals[text.name]

    def other_loads(self) -> Iterator[tuple[str, MinimalLoad]]:
        """Yield the names and loads of the other modules that have been needed so far."""
        return (item for item in list(self._minimals.items()) if item[1] is not self._minimal)

    def compile(self, text: Text, node: Any, mode: str) -> types.CodeType:
        """Compile a statement or expression in a module."""
        return self.load_for(text).edited.compile(node, mode)

    def run(self, text: Text, node: Any) -> None:
        """Run a statement in its module."""
        exec(self.compile(text, ast.Module([node], []), "exec"), text.space)

    def evaluate_or_absent(self, text: Text, node: Any) -> Any:
        """Return the value of an expression in a module, or ABSENT if evaluating it fails."""
        try:
            return eval(self.compile(text, ast.Expression(node), "eval"), text.space)
        except (Exception, SystemExit):  # an error in user code is handled when the statement is followed up
            return ABSENT
