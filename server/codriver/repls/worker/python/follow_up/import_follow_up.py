"""Update names that were imported with `import *`, or from modules that create names with `__getattr__`."""

from __future__ import annotations

import ast
import sys
import types

from ...basics.definition_access import ABSENT
from ..bound_names import BoundNames
from ..stored_attributes import module_dict
from .import_syntax import is_bound_again, is_star, source_of_import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...basics.undo_records import UndoRecord
    from ..effects.analysis import Analysis
    from ..module_text import Text
    from ..name_changes import NameChanges
    from ..python_drift import Drift
    from .changed_words import ChangedWords
    from .module_sources import ModuleSources
    from .reports import Reports
    from .retained_objects import RetainedObjects


class ImportFollowUp:
    """Updates imported names. `lazy` contains the names that the `__getattr__` of the edited module creates again."""

    def __init__(
        self,
        sources: ModuleSources,
        analysis: Analysis,
        changes: NameChanges,
        reports: Reports,
        objects: RetainedObjects,
        names: ChangedWords,
        drift: Drift,
        undo: UndoRecord,
    ) -> None:
        self.sources, self.analysis, self.changes, self.reports = sources, analysis, changes, reports
        self.objects, self.names, self.drift, self.undo = objects, names, drift, undo
        self.lazy: set[str] = set()

    def follow(self, text: Text, node: Any) -> None:
        """Import names again if the `__getattr__` of a module has created their values or would create them now."""
        module = sys.modules.get(source_of_import(node, text))
        before = self.changes.before.get(module.__name__) if module is not None else None
        if module is None or before is None:
            return
        for alias in node.names:
            bound_name, value = alias.asname or alias.name, text.space.get(alias.asname or alias.name, ABSENT)
            if (alias.name in before and alias.name not in self.lazy) or is_bound_again(text, node, bound_name):
                continue
            getter = before.get("__getattr__")
            if alias.name not in module.__dict__:
                effects = self.analysis.call(getter) if type(getter) is types.FunctionType else None
                if effects is None or not self.changes.is_affected(effects):
                    continue
                if effects.effect is not None:
                    self.reports.report(
                        text,
                        node,
                        f"the import of the name used {self.changes.cause(effects)}, which has changed",
                        bound_name,
                    )
                    continue
            try:
                text.space[bound_name] = getattr(module, alias.name)
            except Exception as error:  # an error in user code
                self.reports.report(text, node, f"importing the name again raised {type(error).__name__}", bound_name)
                continue
            self.objects.restore_identity(text, bound_name, value)

    def follow_star(self, text: Text, node: Any) -> None:
        """Update the names that `from … import *` has imported."""
        source = source_of_import(node, text)
        module, before = sys.modules.get(source), self.changes.before.get(source)
        if module is None or before is None:
            return
        names = self.changes.public_before.get(source)
        old, new = _star_imported_names({**before, "__all__": names}), _star_imported_names(module_dict(module))
        for name, value in new.items():
            if name not in text.space or (name in old and text.space[name] is old[name] and value is not old[name]):
                current = text.space.get(name, ABSENT)
                text.space[name] = value
                self.undo.record_key(f"{text.name}.{name}", text.space, name, current)
        for name, value in old.items():
            if name not in new and text.space.get(name, ABSENT) is value and not is_bound_again(text, node, name):
                del text.space[name]
                self.undo.record_key(f"{text.name}.{name}", text.space, name, value)

    def forget_lazy_names(self) -> None:
        """Remove names that the module's `__getattr__` has added to it, if it would now create different values."""
        getter = self.sources.text.space.get("__getattr__", self.changes.before[self.sources.name].get("__getattr__"))
        if type(getter) is not types.FunctionType or self.sources.find(getter) is None:
            return
        effects = self.analysis.call(getter)
        if id(self.sources.text.space) not in effects.fills or not self.changes.is_affected(effects):
            return
        written = set(BoundNames(self.sources.text.source.tree).kinds)
        for name, value in list(self.sources.text.space.items()):
            if name[:2] != "__" and name not in written and name not in self.drift.rebound_names(self.sources.name):
                self.lazy.add(name)
                del self.sources.text.space[name]
                self.undo.record_key(f"{self.sources.name}.{name}", self.sources.text.space, name, value)

    def _import_aliases(self, text: Text) -> set[str]:
        """Return the aliases under which a module imports names that may have changed."""
        found = set()
        for node in text.body:
            for name in node.names if isinstance(node, ast.ImportFrom) else ():
                if name.asname and name.name in self.names.words:
                    found.add(name.asname)
        return found

    def affected_imports(self, text: Text) -> set[int]:
        """Return the positions of imports in a module that may depend on the load, and add the names that they bind."""
        found = {top for top, node in enumerate(text.body) if is_star(node)}
        self.names.words |= self._import_aliases(text)
        for top, node in enumerate(text.body) if has_module_getattr(self.sources, self.changes) else ():
            before = self.changes.before.get(source_of_import(node, text)) if isinstance(node, ast.ImportFrom) else None
            made = (
                {
                    alias.asname or alias.name
                    for alias in node.names
                    if alias.name not in before or alias.name in self.lazy
                }
                if before is not None
                else ()
            )
            self.names.words |= set(made)
            found |= {top} if made else set()
        return found


def _star_imported_names(space: dict[str, Any]) -> dict[str, Any]:
    """Return the names that `import *` imports from a module, with their values."""
    names = space.get("__all__")
    if isinstance(names, (list, tuple)):
        return {name: space[name] for name in names if name in space}
    return {name: value for name, value in space.items() if name[:1] != "_"}


def has_module_getattr(sources: ModuleSources, changes: NameChanges) -> bool:
    """Return whether the edited module has a `__getattr__` that creates names when they are looked up."""
    return "__getattr__" in changes.before[sources.name] or "__getattr__" in sources.text.space
