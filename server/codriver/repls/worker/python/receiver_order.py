"""Restore the order in which Django and Celery signals call the functions that an edited module connects.

A signal calls its receivers in the order in which they were connected. After a load, a new or moved receiver would be
called last.
"""

from __future__ import annotations

import sys
import types
import weakref

from .stored_attributes import instance_dict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any, List, Tuple

    from ..basics.held_definitions import UndoRecord

    Entries = List[Tuple[Any, ...]]

SIGNAL_CLASSES = (("django.dispatch.dispatcher", "Signal"), ("celery.utils.dispatch.signal", "Signal"))
"""The module and name of each class whose instances have a list of receivers."""


def sort_receivers(
    loads: Mapping[str, Any], edited: str, names: Collection[str], undo: UndoRecord
) -> Iterator[tuple[str, str]]:
    """Sort the receivers of all signals that call one of the functions `names` in the module `edited`.

    Afterwards, each function has the position at which a fresh import would connect it. Yield the module and name of
    each function whose position is unknown, because the other receivers were not connected in the order of their
    definitions.
    """
    modules = {name: number for number, name in enumerate(list(sys.modules)) if name in loads}
    for signal in _signals():
        receivers: Entries = signal.receivers
        keys = {index: _position(entry, modules) for index, entry in enumerate(receivers)}
        known = [(key, index) for index, key in keys.items() if key is not None]
        found = [(key, index) for key, index in known if key[0] == modules.get(edited) and key[2] in names]
        if not found or known == sorted(known):
            continue
        others = [item for item in known if item not in found]
        if others != sorted(others):
            yield from ((edited, key[2]) for key, _ in found)
            continue
        before = list(receivers)
        order = [before[index] for _, index in sorted(known)]
        for (_, index), entry in zip(known, order):
            receivers[index] = entry
        signal.sender_receivers_cache.clear()
        undo.record_change("", lambda: True, lambda receivers=receivers, before=before: _refill(receivers, before))  # type: ignore[misc]


def _signals() -> Iterator[Any]:
    """Yield the signals of Django and Celery to which something is connected."""
    for module, name in SIGNAL_CLASSES:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is None:
            continue
        seen: set[int] = set()
        for space in [instance_dict_of(found) or {} for found in list(sys.modules.values())]:
            for value in list(space.values()):
                if issubclass(type(value), kind) and id(value) not in seen and type(value.receivers) is list:
                    seen.add(id(value))
                    yield value


def _position(entry: tuple[Any, ...], modules: Mapping[str, int]) -> tuple[int, int, str] | None:
    """Return the module's number, the line and the name of a receiver, or None if it is not a plain function."""
    function = entry[1]() if isinstance(entry[1], weakref.ReferenceType) else entry[1]
    if type(function) is not types.FunctionType or function.__module__ not in modules:
        return None
    name = function.__qualname__
    return None if "." in name else (modules[function.__module__], function.__code__.co_firstlineno, name)


def _refill(receivers: Entries, before: Entries) -> None:
    receivers[:] = before
