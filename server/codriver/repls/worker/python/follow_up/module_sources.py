"""Sources of the edited module and of the other modules in the workspace, as they were loaded."""

from __future__ import annotations

import contextlib
import sys

from ..module_text import Text
from ..statements import PARSE_ERRORS, SourceText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from ..edits.edited_module import EditedModule
    from ..load_records import Load
    from ..python_drift import Drift


class ModuleSources:
    """The sources of the workspace's modules.

    `name` is the name of the edited module. `text` is its new source, and `old_text` is its previous source, which is
    used while `is_old` is set.
    """

    def __init__(self, name: str, edited: EditedModule, drift: Drift) -> None:
        self.name, self._drift = name, drift
        self.old_text = Text(name, edited.module, edited.file, edited.old)
        self.text = Text(name, edited.module, edited.file, edited.new)
        self.is_old = True
        self._sources: dict[str, Text | None] = {}
        self._names_by_file = {load.file: other for other, load in drift.sources.loads.items()}

    @property
    def module_names(self) -> Collection[str]:
        """Return the names of the workspace's modules."""
        return self._names_by_file.values()

    @property
    def loads(self) -> Mapping[str, Load]:
        """Return the loads of the workspace's modules, by name."""
        return self._drift.sources.loads

    def close(self) -> None:
        """Drop all references to other modules."""
        self._sources.clear()

    def find(self, function: Any) -> Any:
        """Return the syntax node of a workspace function or the source of a workspace file. Return None if unknown."""
        if type(function) is str:
            return self._find_file_source(function)
        code = function.__code__
        text = self._find_file_source(code.co_filename)
        return None if text is None else text.function(code)

    def _find_file_source(self, file: str) -> Text | None:
        """Return the loaded source of a file, or None if the file is not in the workspace."""
        if file == self.text.file:
            return self.old_text if self.is_old else self.text
        name = self._names_by_file.get(file)
        return None if name is None else self.source_of_module(name)

    def source_of_module(self, name: str) -> Text | None:
        """Return the loaded source of a module, or None if it is unknown."""
        if name == self.name:
            return self.text
        if name not in self._sources:
            self._sources[name] = None
            load = self.loads.get(name)
            module = sys.modules.get(name)
            if load is not None and module is not None and load.module() is module and not load.is_rewritten:
                load.read()
                data = load.data
                if data is not None:
                    with contextlib.suppress(*PARSE_ERRORS):
                        self._sources[name] = Text(name, module, load.file, SourceText(data, load.file))
        return self._sources[name]
