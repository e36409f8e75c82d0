"""Find the signals of Django and Celery, and the functions of the workspace that they call."""

from __future__ import annotations

import sys
import types
import weakref

from .stored_attributes import instance_dict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, List, Tuple

    Entries = List[Tuple[Any, ...]]

    """The receivers of a signal. Each begins with a key, which contains the id of the sender, and the receiver."""

SIGNAL_CLASSES = (("django.dispatch.dispatcher", "Signal"), ("celery.utils.dispatch.signal", "Signal"))
"""The module and name of each class whose instances have a list of receivers."""


def find_signals() -> Iterator[Any]:
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


def receiving_function(entry: tuple[Any, ...]) -> types.FunctionType | None:
    """Return the function that is called for a receiver, or None if it is not a plain function."""
    function = entry[1]() if isinstance(entry[1], weakref.ReferenceType) else entry[1]
    return function if type(function) is types.FunctionType else None


def set_receivers(signal: Any, receivers: Entries) -> None:
    """Replace the receivers of a signal."""
    signal.receivers[:] = receivers
    signal.sender_receivers_cache.clear()
