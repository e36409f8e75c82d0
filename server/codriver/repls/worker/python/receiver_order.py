"""Restore the order in which Django and Celery signals call the functions that an edited module connects.

A signal calls its receivers in the order in which they were connected. After a load, a new or moved receiver would be
called last.
"""

from __future__ import annotations

import sys

from .signals import find_signals, receiving_function, set_receivers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from ..basics.undo_records import UndoRecord
    from .signals import Entries


def sort_receivers(
    loads: Mapping[str, Any], edited: str, names: Collection[str], undo: UndoRecord
) -> Iterator[tuple[str, str]]:
    """Sort the receivers of all signals that call one of the functions `names` in the module `edited`.

    Afterwards, each function has the position at which a fresh import would connect it. Yield the module and name of
    each function whose position is unknown, because the other receivers were not connected in the order of their
    definitions.
    """
    modules = {name: number for number, name in enumerate(list(sys.modules)) if name in loads}
    for signal in find_signals():
        receivers: Entries = list(signal.receivers)
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
        set_receivers(signal, receivers)
        undo.record_undo(set_receivers, signal, before)


def _position(entry: tuple[Any, ...], modules: Mapping[str, int]) -> tuple[int, int, str] | None:
    """Return the module's number, the line and the name of a receiver, or None if it is not a plain function."""
    function = receiving_function(entry)
    if function is None or function.__module__ not in modules:
        return None
    name = function.__qualname__
    return None if "." in name else (modules[function.__module__], function.__code__.co_firstlineno, name)
