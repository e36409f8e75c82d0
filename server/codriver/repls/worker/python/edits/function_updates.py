"""Give existing functions the new code of an edited file."""

from __future__ import annotations

import types

from ..holders import find_holder_paths
from ..live_functions import LiveCode, match_codes
from ..rebuilds import refers_to_function
from ..statements import FUNCTION

TYPE_CHECKING = False
if TYPE_CHECKING:
    import weakref
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ..statements import Statement
    from .edited_module import EditedModule
    from .load_plan import LoadPlan


class FunctionUpdates:
    """The existing functions of an edited module, and the functions that a load has updated.

    `left` contains the functions that were not updated because their free variables differ from those of the new code,
    each with the name of the function that creates it. `touched` contains the functions that were updated.
    """

    def __init__(self, edited: EditedModule, plan: LoadPlan) -> None:
        self.edited, self.plan = edited, plan
        self.left: list[tuple[str, types.FunctionType]] = []
        self.touched: list[types.FunctionType] = []
        self._live: LiveCode | None = None
        self._running: list[tuple[str, str, weakref.ref[Any]]] = []

    def close(self) -> None:
        """Drop all references to updated functions, so that unused functions can be deleted."""
        self._live = None
        for collection in (self.left, self.touched):
            collection.clear()

    def update(self, functions: list[tuple[Statement, Statement]]) -> dict[int, types.FunctionType]:
        """Give all existing functions the code of the new statements in `functions`.

        Returns the functions that could not be updated, by id.
        """
        live = LiveCode(self.edited.file, self.edited.codes[0], self.edited.space)
        codes = match_codes(*self.edited.codes, self.edited.comparison.same, functions)
        left = {id(function): function for function in live.update_functions(codes, self.edited.undo.record_change)}
        self._live = live  # without it, the edited functions are defined again
        return left

    def clear_caches(self) -> Iterable[tuple[str, int]]:
        """Clear the caches of updated functions. Return each function with the number of entries in its cache."""
        return self._live.clear_caches(self.touched) if self._live is not None else ()

    def has_code(self, old: Statement, left: dict[int, types.FunctionType]) -> bool:
        """Return whether functions with the code of a statement exist and have all been updated."""
        live = self._live
        code = self.edited.codes[0].code_of_statement(old.node)
        if live is None or code is None:
            return False
        functions = live.functions_with_code(code)
        inner = [function for nested in iter_codes(code) for function in live.functions_with_code(nested)]
        stale = [function for function in (*functions, *inner) if id(function) in left]
        self.touched += [function for function in (*functions, *inner) if id(function) not in left]
        self.left += [(old.name, function) for function in stale]
        self._running += [
            (old.name, *found)
            for code_object in (code, *iter_codes(code))
            for found in live.running_generators(code_object)
        ]
        return bool(functions) and not any(function in stale for function in functions)

    def report_running(self, before: dict[str, Any]) -> None:
        """After the load, report the generators and coroutines still running the previous code.

        `before` contains the previous values of the module's names. Generators to which only such a name referred no
        longer exist.
        """
        for name, word, reference in self._running:
            running = reference()
            is_replaced = any(
                self.edited.space.get(attribute) is not value and refers_to_function(value, running)
                for attribute, value in before.items()
                if running is not None
            )
            if running is not None and not (is_replaced and not find_holder_paths([running])):
                self.plan.stays.append((name, f"a {word} is still running the previous code"))


def edited_functions(edited: EditedModule) -> list[tuple[Statement, Statement]]:
    """Return the previous and new statements of functions that differ between the sources."""
    pairs = [(change.old, change.new) for change in edited.comparison.changes if change.old and change.new]
    return [pair for pair in pairs if pair[0].kind == pair[1].kind == FUNCTION]


def iter_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield the code objects within another, at any depth."""
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield constant
            yield from iter_codes(constant)
