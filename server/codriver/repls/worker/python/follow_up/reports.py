"""Report the parts of modules that a load could not update."""

from __future__ import annotations

import types
import weakref

from ..holders import is_in_use
from ..statements import assigned_names, line_range

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..module_text import Text
    from ..python_drift import Drift
    from ..registrations import Registrations
    from .module_code import ModuleCode
    from .module_sources import ModuleSources


class Reports:
    """Collects the parts of modules that could not be updated.

    `stays` contains the module, name and reason for each part. `lasting` contains the same for parts whose reports stay
    valid when another edited file is loaded.
    """

    def __init__(self, sources: ModuleSources) -> None:
        self._sources = sources
        self.stays: list[tuple[str, str, str]] = []
        self.lasting: list[tuple[str, str, str]] = []
        self._registered: list[tuple[str, Any, weakref.ref[Any], str]] = []

    def report(self, text: Text, node: Any, why: str, name: str = "") -> None:
        """Report a part of a module that was not updated. `why` is the reason."""
        label = name or getattr(node, "name", "") or ", ".join(assigned_names(node)) or text.source.summary(node)
        row = text.name, label, f"line {line_range(node)[0]}: {why}"
        if row not in self.stays:
            self.stays.append(row)

    def report_not_updated(self, name: str, node: Any, why: str) -> None:
        """Report a part of the edited module that was not updated."""
        self.report(self._sources.text, node, why, name)

    def report_if_used(self, name: str, node: Any, value: object, why: str) -> None:
        """Report a part of the edited module if its previous function is still in use after the load.

        Libraries such as Django and blinker hold only weak references to the functions that they register. If the
        previous value is not a function, the part is reported immediately.
        """
        if type(value) is types.FunctionType:
            self._registered.append((name, node, weakref.ref(value), why))
        else:
            self.report_not_updated(name, node, why)

    def report_grown(self, registrations: Registrations) -> None:
        """Report edited definitions that are now registered twice, or whose previous version is still registered."""
        registered, self._registered = self._registered, []
        for name, node, reference, why in registered:
            function = reference()
            if function is not None and is_in_use(function, is_weak=True):
                self.report_not_updated(name, node, why)
        for name, node in registrations.registered_twice():
            by = " by the decorators" if getattr(node, "decorator_list", None) else ""
            self.report(self._sources.text, node, f"previous registrations{by} are not undone", name)

    def report_replaced_members(self, code: ModuleCode, drift: Drift) -> None:
        """Report enumeration members in other modules that were replaced and are still in use."""
        for name, minimal in code.other_loads():
            minimal.members.report_replaced_members(drift, self._sources.name)
            self.stays += [(name, *row) for row in minimal.pop_not_updated()]
