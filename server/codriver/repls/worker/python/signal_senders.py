"""Connect signal receivers to sender classes that a load has created again.

Signals of Django and Celery identify a sender by its id, and the statements that connected receivers to the previous
class do not run again.
"""

from __future__ import annotations

import ast

from .signals import find_signals, receiving_function, set_receivers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from ..basics.undo_records import UndoRecord

SIGNAL_LIBRARIES = frozenset({"django", "celery"})
CONNECTING_NAMES = frozenset({"receiver", "connect"})
"""Names of decorators and methods that connect a receiver. Source: the signals of Django and Celery."""


def connects_receiver(call: Any) -> bool:
    """Return whether a call has the form of one that connects a receiver to a signal."""
    function = call.func if isinstance(call, ast.Call) else None
    return (getattr(function, "attr", "") or getattr(function, "id", "")) in CONNECTING_NAMES


def renew_senders(classes: Mapping[int, Any], loads: Collection[str], undo: UndoRecord) -> None:
    """Connect the receivers of previous sender classes to the classes that replace them.

    `classes` maps the ids of the previous classes to the new classes. Only functions in the modules `loads` are
    connected.
    """
    for signal in find_signals() if classes else ():
        before = list(signal.receivers)
        known = {entry[0] for entry in before}
        now = [_with_new_sender(entry, classes, known, loads) for entry in before]
        if now != before:
            set_receivers(signal, now)
            undo.record_undo(set_receivers, signal, before)


def _with_new_sender(
    entry: tuple[Any, ...], classes: Mapping[int, Any], known: set[Any], loads: Collection[str]
) -> tuple[Any, ...]:
    """Return the entry of a receiver with the class that has replaced its previous sender."""
    key, function = entry[0], receiving_function(entry)
    sender = classes.get(key[-1]) if type(key) is tuple else None
    if sender is None or function is None or function.__module__ not in loads:
        return entry
    made = (*key[:-1], id(sender))
    return entry if made in known else (made, *entry[1:])
