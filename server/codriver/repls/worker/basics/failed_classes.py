"""Failed classes: those that a load made before it was put back, taken out of the subclasses of their bases.

Such a class lives on until the garbage collector comes by, and where a plug-in's registry, a traceback or a callback
holds it. No code of the user's is called for it.
"""

from __future__ import annotations

import gc
import weakref

from .class_spaces import home_of, qualname_of, space_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

HEAP, IMMUTABLE = 1 << 9, 1 << 8
"""Flags of types: made at run time; written in C all the same. Source: CPython, `object.h`, `Py_TPFLAGS_…`."""
flags_of, bases_of, base_of, order_of = (
    type.__dict__[name].__get__ for name in ("__flags__", "__bases__", "__base__", "__mro__")
)
"""Of a class, which its metaclass is not asked for."""


def take_out(classes: list[type]) -> list[str]:
    """Give each class an empty base of ours in place of its own; the names of those that stay. The list is emptied.

    A class stays where it, or one that is derived from it, has instances, is a base of a class that is not in the
    list, or has a layout or a metaclass that does not let its bases be changed; and where somebody holds it.
    """
    stay = _rebase(classes)
    classes.clear()
    if stay:
        gc.collect()  # one that nobody holds is told of for nothing
    return [home_of(one) + "." + qualname_of(one) for one in (known() for known in stay) if one is not None]


def _rebase(classes: list[type]) -> list[weakref.ref[type]]:
    """Do so with each class; those that stay as they are."""
    failed = {id(one): one for one in classes if not all(map(_is_built_in, bases_of(one)))}
    if not failed:
        return []
    kinds = {id(type(one)) for one in gc.get_objects()}
    stay: set[int] = set()
    for key, one in failed.items():
        if key in kinds or _orders_itself(one) or any(id(other) not in failed for other in _derived_from(one)):
            stay.update(map(id, order_of(one)))
    for one in sorted(failed.values(), key=lambda one: -len(order_of(one))):  # before its own bases
        if id(one) not in stay:
            try:
                type.__setattr__(one, "__bases__", (_empty_class(one),))
            except TypeError:  # of another layout
                stay.update(map(id, order_of(one)))
    return [weakref.ref(one) for key, one in failed.items() if key in stay]


def _is_built_in(one: type) -> bool:
    flags: int = flags_of(one)
    return not flags & HEAP or bool(flags & IMMUTABLE)


def _empty_class(failed: type) -> type:
    base: type | None = failed
    while base is not None and not _is_built_in(base):
        base = base_of(base)
    return type("PutBack", (base or object,), {"__module__": __name__})


def _derived_from(one: type) -> Iterator[type]:
    found: list[type] = type.__subclasses__(one)
    for other in found:
        yield other
        yield from _derived_from(other)


def _orders_itself(one: type) -> bool:
    """True where the metaclass has an `mro` of the user's, which a change of bases would call."""
    return any("mro" in space_of(kind) for kind in order_of(type(one)) if not _is_built_in(kind))
