"""Detach classes that an undone load created from their base classes.

They exist until they are garbage collected, which does not happen while a registry, a traceback or a callback refers to
them.
"""

from __future__ import annotations

import gc
import weakref

from .definition_access import (
    HEAP,
    IMMUTABLE,
    base_of,
    bases_of,
    defining_module_name,
    flags_of,
    order_of,
    qualified_name,
    space_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def detach_classes(classes: list[type]) -> list[str]:
    """Replace the bases of each class with an empty class, and clear the list. Return the names of skipped classes.

    A class is skipped if it or a subclass has instances, if it is a base of a class that is not in the list, or if its
    layout or metaclass forbids the change. Its name is returned only if something still refers to it.
    """
    stay = _replace_bases(classes)
    classes.clear()
    if stay:
        gc.collect()  # classes without references must not be reported
    return [
        defining_module_name(class_) + "." + qualified_name(class_)
        for class_ in (known() for known in stay)
        if class_ is not None
    ]


def _replace_bases(classes: list[type]) -> list[weakref.ref[type]]:
    """Replace the base classes of these classes, and return the classes that were skipped."""
    failed = {id(class_): class_ for class_ in classes if not all(map(_is_built_in, bases_of(class_)))}
    if not failed:
        return []
    kinds = {id(type(candidate)) for candidate in gc.get_objects()}
    stay: set[int] = set()
    for key, class_ in failed.items():
        if key in kinds or _overrides_mro(class_) or any(id(other) not in failed for other in _all_subclasses(class_)):
            stay.update(map(id, order_of(class_)))
    for class_ in sorted(failed.values(), key=lambda class_: -len(order_of(class_))):  # subclasses precede their bases
        if id(class_) not in stay:
            try:
                type.__setattr__(class_, "__bases__", (_make_empty_class(class_),))
            except TypeError:  # incompatible layout
                stay.update(map(id, order_of(class_)))
    return [weakref.ref(class_) for key, class_ in failed.items() if key in stay]


def _is_built_in(class_: type) -> bool:
    flags: int = flags_of(class_)
    return not flags & HEAP or bool(flags & IMMUTABLE)


def _make_empty_class(failed: type) -> type:
    """Create a class with the memory layout of `failed`, but without its attributes."""
    base: type | None = failed
    while base is not None and not _is_built_in(base):
        base = base_of(base)
    return type("PutBack", (base or object,), {"__module__": __name__})


def _all_subclasses(class_: type) -> Iterator[type]:
    found: list[type] = type.__subclasses__(class_)
    for other in found:
        yield other
        yield from _all_subclasses(other)


def _overrides_mro(class_: type) -> bool:
    """Return whether the metaclass overrides `mro`, which would be called when the base classes change."""
    return any("mro" in space_of(kind) for kind in order_of(type(class_)) if not _is_built_in(kind))
