"""Iterate over the objects that the garbage collector tracks, without blocking other threads for long."""

from __future__ import annotations

import contextlib
import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

OBJECTS_PER_CHECK = 4096
"""Number of objects that a scan visits before it checks again whether the process is idle."""


def collected_objects(is_idle: Callable[[], bool]) -> Iterator[Any]:
    """Yield the tracked objects, then None if the process is no longer idle.

    The references are released in small parts, because deleting a list of all objects takes as long as creating it.
    """
    objects = gc.get_objects()
    while objects:
        if not is_idle():
            while objects:
                del objects[-OBJECTS_PER_CHECK:]
            yield None
            return
        part = objects[-OBJECTS_PER_CHECK:]
        del objects[-OBJECTS_PER_CHECK:]
        yield from part


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection during a description, because it would be slow and might run finalizers."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()
