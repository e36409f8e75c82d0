"""Loads of files as the modules that they are: which one, and what becomes of its former load."""

from __future__ import annotations

import importlib.util
import os
import sys

from .app_seam import FILE, NAME
from .held_definitions import ABSENT, Held, Snapshot
from .renewal import forget, renew

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from typing import Any

    from .closures import FormerClosures
    from .loaded_texts import LoadedTexts


def module_name(path: str, roots: list[str]) -> str | None:
    """The dotted name under which a file can be imported, from the project's `roots` or the path; None if it cannot."""
    if not path.endswith(".py"):
        return None
    for root in sorted({*roots, *map(os.path.abspath, sys.path)}, key=len, reverse=True):
        if path.startswith(root.rstrip(os.sep) + os.sep):
            parts = path[len(root.rstrip(os.sep)) + 1 : -3].split(os.sep)
            if parts[-1] == "__init__" and len(parts) > 1:
                parts.pop()
            if all(part.isidentifier() for part in parts):
                return ".".join(parts)
    # The seam, which a client lays into a process whose project does not know it.
    return NAME if path.endswith(os.sep + FILE) else None


def is_loaded(name: str | None, path: str) -> bool:
    """Whether the module of that name is there, and from that file."""
    module = sys.modules.get(name) if name else None
    return module is not None and os.path.abspath(getattr(module, "__file__", None) or "") == path


class ModuleLoad:
    """The load of a file, around whatever runs it: its `module`, None where the file is none and runs in `home`.

    A new module that fails to load is not left behind. What others hold of a former load is `renewed` when it succeeds.
    What changed is kept in `held` in any case, and in `former` closures that could not be renewed.
    """

    module: types.ModuleType | None = None

    def __init__(
        self,
        name: str | None,
        path: str,
        written: set[str],
        held: Held,
        former: FormerClosures,
        texts: LoadedTexts,
        *,
        home: types.ModuleType,
    ) -> None:
        self._texts = texts
        self.renewed: list[dict[str, str]] = []
        self._name, self._path, self._written, self._held = name, path, written, held
        self._former = former
        self._home = home
        self._before: object = ABSENT
        self._snapshot: Snapshot | None = None

    def begin(self) -> None:
        """Find the module, or make it."""
        name = self._name
        self._held.begin_load()
        if name is None:
            self._snapshot = Snapshot(self._home)
        else:
            if "." in name:
                importlib.import_module(name.rpartition(".")[0])
            self._before = sys.modules.get(name, ABSENT)
            if is_loaded(name, self._path):
                self.module = sys.modules[name]
                self._snapshot = Snapshot(self.module)
            else:
                self.module = self._new(name)

    def _new(self, name: str) -> types.ModuleType:
        spec = importlib.util.spec_from_file_location(name, self._path)
        if spec is None:
            raise ImportError("no loader is known for " + self._path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        return module

    def end(self, text: str, *, has_failed: bool) -> None:
        """Bring others in line with what was loaded, and keep what changed. `text`: all that the file says."""
        module, name = self.module, self._name
        self._held.end_load(name or self._home.__name__)
        if module is None or name is None:
            if self._snapshot is not None:
                self._snapshot.note_changes(self._held)
            return
        self._change(module, name, has_failed=has_failed)
        loads, before = self._texts.loads, self._texts.loads.get(name)
        if not has_failed:
            self._texts.loaded(name, module, self._path, text)
        elif before is not None:
            loads[name] = before.with_names_of_now()
        for row in self.renewed:
            if row["kind"] == "renewed" and "of" not in row:
                undo = self._texts.rebind(row["module"], row["name"])
                if undo is not None:
                    self._held.note("", lambda: True, undo)
        if name in loads:
            self._held.note_key("", loads, name, ABSENT if before is None else before)

    def _change(self, module: types.ModuleType, name: str, *, has_failed: bool) -> None:
        if module is not self._before:
            self._end_new(module, name, has_failed=has_failed)
        elif self._snapshot is not None:
            if not has_failed:
                self.renewed += forget(module, self._snapshot.names, self._path, self._written)
            self._snapshot.note_changes(self._held)
            if not has_failed:
                self.renewed += renew(module, self._snapshot.names, self._held, self._former)

    def _end_new(self, module: types.ModuleType, name: str, *, has_failed: bool) -> None:
        modules: dict[str, Any] = sys.modules
        if has_failed:
            modules.pop(name, None)
            if self._before is not ABSENT:
                modules[name] = self._before
            return
        if self._before is ABSENT:  # else it is one of those that were exchanged
            self._held.note_key(name, modules, name, self._before)
        parent, _, child = name.rpartition(".")
        if parent:
            space = modules[parent].__dict__
            before = space.get(child, ABSENT)
            setattr(modules[parent], child, module)
            self._held.note_key(name, space, child, before)
