"""Held definitions of Basilisp: what a load changed in namespaces, kept so that it can be put back.

Of a namespace its vars are held with their values, and what it interned, refers to, imports and aliases; of
multimethods their methods, of protocols what was extended. Nothing is evaluated to put them back, and no watch runs.
"""

from __future__ import annotations

import contextlib
import os

from ..basics.held_definitions import ABSENT, Held, Holds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..basics.jobs import Job

FIELDS = ("_refers", "_aliases", "_imports", "_import_aliases", "_import_refers")
VAR = ("_root", "_meta", "_is_bound")
METHODS = ("_methods", "_prefers")


class LispHolds(Holds):
    """The holds of a Basilisp, for the life of the worker, with its classes of namespaces and of multimethods.

    Code that changes Basilisp's own namespaces is not put back, but for methods.
    """

    def __init__(self, namespaces: Any, multi: Any) -> None:
        super().__init__([os.getcwd()])
        self._namespaces = namespaces
        self._multi = multi

    def make(self) -> Held:
        """See `Holds`."""
        return LispHeld(self._roots, self._namespaces)

    @contextlib.contextmanager
    def around(self, job: Job) -> Iterator[None]:
        """Hold what is changed meanwhile, where the request says that it may be put back."""
        hold = job.message.get("codriver/hold")
        if not hold:
            yield
            return
        with job.shield:
            held, before = self.of(hold), LispSnapshot(self._namespaces, self._multi)
            held.begin_load()
        try:
            yield
        finally:
            with job.shield:
                held.end_load()
                before.note_changes(held)


class LispHeld(Held):
    """The hold of one batch, in namespaces too."""

    def __init__(self, roots: list[str], namespaces: Any) -> None:
        super().__init__(roots)
        self._namespaces = namespaces
        self._known = set(namespaces.ns_cache())

    def _forget_modules(self) -> None:
        """Take out the namespaces of the project's files that were not there, and the modules behind them."""
        super()._forget_modules()
        for name in [one for one in self._namespaces.ns_cache() if one not in self._known]:
            file = self._namespaces.get(name).module.__dict__.get("__file__")
            if not isinstance(file, str) or self.is_own(file):
                self._namespaces.remove(name)


class LispSnapshot:
    """The definitions in all namespaces, as they are before something runs."""

    def __init__(self, namespaces: Any, multi: Any) -> None:
        own = multi.__module__.partition(".")[0] + "."
        self._spaces = [
            (space, space.interns, dict(space.module.__dict__), _fields_of(space, FIELDS))
            for space in namespaces.ns_cache().values()
            if not str(space.name).startswith(own)
        ]
        self._vars = [(var, _fields_of(var, VAR)) for _, interns, *_ in self._spaces for var in interns.values()]
        roots = [var.root for space in namespaces.ns_cache().values() for var in space.interns.values()]
        self._methods = [(one, _fields_of(one, METHODS)) for one in roots if type(one) is multi]
        self._tables = [(one, table, dict(table)) for one in roots if (table := _table_of(one)) is not None]

    def note_changes(self, held: Held) -> None:
        """Keep in `held` what is another thing now."""
        for var, was in self._vars:
            _note_fields(held, str(var.ns.name) + "/" + str(var.name), var, was)
        for space, interns, names, was in self._spaces:
            now = space.interns
            for symbol in [*interns, *(one for one in now if one not in interns)]:
                if now.val_at(symbol) is not interns.val_at(symbol):
                    _note_intern(held, space, symbol, interns.val_at(symbol))
            _note_fields(held, str(space.name), space, was)
            _note_keys(held, space.module.__dict__, names)
        for multi, was in self._methods:
            _note_fields(held, str(multi._name), multi, was, multi._reset_cache)  # noqa: SLF001  # there is no other way
        for function, table, was in self._tables:
            if _note_keys(held, table, was):
                held.note("", lambda: True, function.__dict__["_clear_cache"])


def _note_keys(held: Held, space: dict[Any, Any], was: dict[Any, Any]) -> bool:
    """Keep the keys of a mapping that have other values now; whether there are any."""
    changed = [key for key in {**was, **space} if space.get(key, ABSENT) is not was.get(key, ABSENT)]
    for key in changed:
        held.note_key("", space, key, was.get(key, ABSENT))
    return bool(changed)


def _fields_of(owner: object, names: tuple[str, ...]) -> dict[str, object]:
    return {name: getattr(owner, name) for name in names if hasattr(owner, name)}


def _note_fields(held: Held, shown: str, owner: Any, was: dict[str, object], after: Any = None) -> None:
    """Keep the fields of an object that are other things now; `after`: what it needs when they are put back."""
    now = _fields_of(owner, tuple(was))
    if all(now[name] is was[name] for name in was):
        return

    def undo() -> None:
        with owner._lock:  # noqa: SLF001  # the lock under which Basilisp itself changes them
            for name, value in was.items():
                setattr(owner, name, value)
            if after is not None:
                after()

    held.note(shown, lambda: all(getattr(owner, name) is now[name] for name in now), undo)


def _note_intern(held: Held, space: Any, symbol: Any, old: Any) -> None:
    new = space.interns.val_at(symbol)

    def undo() -> None:
        space.unmap(symbol)
        if old is not None:
            space.intern(symbol, old, force=True)

    held.note(str(space.name) + "/" + str(symbol.name), lambda: space.interns.val_at(symbol) is new, undo)


def _table_of(function: Any) -> Any:
    """The table of a function that is extended by type, as those of protocols are; None of any other."""
    register = getattr(function, "__dict__", {}).get("register")
    code = getattr(register, "__code__", None)
    cells = dict(zip(getattr(code, "co_freevars", ()), getattr(register, "__closure__", None) or ()))
    table = cells["registry"].cell_contents if "registry" in cells else None
    return table if isinstance(table, dict) and "_clear_cache" in function.__dict__ else None
