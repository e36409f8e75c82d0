"""Renewal: after a module is loaded again, what others hold of its former load is made that of the new one.

Names that other modules imported get the new functions and classes; functions that are held elsewhere, as callbacks
are, get the new code, instances the new class, subclasses the new base. What cannot be renewed stays as it was, and
`Drift` tells of it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types

from ..basics.class_spaces import MOST_WRAPPERS, function_in, home_of, is_class, qualname_of, space_of, unwrapped
from ..basics.held_definitions import Held
from .closures import FormerClosures, renew_closures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


def renew(
    module: types.ModuleType, before: dict[str, Any], held: Held | None = None, former: FormerClosures | None = None
) -> list[dict[str, str]]:
    """Renew what is held of the objects that the names of a module had `before` it was loaded again.

    A row for each name in another module, each class whose instances are renewed and each function whose closures are,
    as `Drift.rows` has them, of the kind `renewed`. No user code is run. What is changed is kept in `held`, closures
    that cannot be renewed in `former`.
    """
    held, former = held or Held([], holds=False), former or FormerClosures()
    pairs = {
        id(old): (old, module.__dict__[name])
        for name, old in before.items()
        if name in module.__dict__ and _is_heir(module.__dict__[name], old, module.__name__)
    }
    if not pairs:
        return []
    rows = list(_names(module, pairs, held))
    classes = {key: pair for key, pair in pairs.items() if is_class(pair[0])}
    rows += _closures(module, pairs, held, former)
    for old, new in pairs.values():
        if is_class(old):
            _methods(old, new, held)
            _subclasses(old, new, held)
        else:
            _function(old, new, held)
    return [*rows, *_instances(module, classes, held)]


def forget(module: types.ModuleType, before: dict[str, Any], file: str, written: set[str]) -> list[str]:
    """Take out of a module the functions and classes of the former load of its file that are not `written` there now.

    The names of those. What was evaluated in the REPL stays.
    """
    rows = []
    for name, value in before.items():
        if name in written or module.__dict__.get(name) is not value:
            continue
        held = space_of(value).values() if is_class(value) else [value]
        files = {one.__code__.co_filename for one in held if type(one) is types.FunctionType}
        if files == {file} and home_of(value) == module.__name__:
            del module.__dict__[name]
            rows.append(name)
    return rows


def _is_heir(new: object, old: object, home: str) -> bool:
    """Whether both are functions, or both are classes of one kind, of that module and of one name there."""
    if new is old or type(new) is not type(old) or not (type(old) is types.FunctionType or is_class(old)):
        return False
    places = [(home_of(one), qualname_of(one)) for one in (old, new)]
    return places[0] == places[1] and bool(places[0][0] == home)


def _names(module: types.ModuleType, pairs: dict[int, tuple[Any, Any]], held: Held) -> Iterator[dict[str, str]]:
    for name, other in list(sys.modules.items()):
        if other is module or not isinstance(other, types.ModuleType):
            continue
        # Most modules have none of them: to see that, only the values are touched, and not all of their names.
        if pairs.keys().isdisjoint(map(id, other.__dict__.values())):
            continue
        for own, value in list(other.__dict__.items()):
            pair = pairs.get(id(value))
            if pair is not None and pair[0] is value:
                other.__dict__[own] = pair[1]
                held.note_key(name + "." + own, other.__dict__, own, value)
                yield {"module": name, "name": own, "kind": "renewed"}


def _closures(
    module: types.ModuleType, pairs: dict[int, tuple[Any, Any]], held: Held, former: FormerClosures
) -> Iterator[dict[str, str]]:
    renewed, left = renew_closures(module.__name__, _functions(pairs), held.note)
    for name, closure in left:
        former.add(module.__name__, name, closure)
    for name, count in renewed.items():
        of = "1 closure" if count == 1 else str(count) + " closures"
        yield {"module": module.__name__, "name": name, "kind": "renewed", "of": of}


def _functions(pairs: dict[int, tuple[Any, Any]]) -> Iterator[tuple[str, types.FunctionType, types.FunctionType]]:
    """Each function and method, by name, of the former load and of the new one."""
    for old, new in pairs.values():
        if not is_class(old):
            yield from ((qualname_of(old), *both) for both in zip(unwrapped(old), unwrapped(new)))
            continue
        for name, value in list(space_of(old).items()):
            method, other = function_in(value), function_in(space_of(new).get(name))
            if type(method) is types.FunctionType and type(other) is types.FunctionType:
                yield qualname_of(old) + "." + name, method, other


def _function(old: types.FunctionType, new: types.FunctionType, held: Held) -> None:
    """Give a function the code of another, and with it the function that a wrapper calls."""
    for _ in range(MOST_WRAPPERS):
        if len(old.__closure__ or ()) != len(new.__closure__ or ()) or old.__globals__ is not new.__globals__:
            return
        inner = old.__dict__.get("__wrapped__"), new.__dict__.get("__wrapped__")
        for cell, other in zip(old.__closure__ or (), new.__closure__ or ()):
            _wrapped_function(cell, other, held)
        _note_function(old, new, held)
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
        old.__doc__, old.__annotations__ = new.__doc__, new.__annotations__
        if not all(type(one) is types.FunctionType for one in inner):
            return
        old, new = inner  # type: ignore[assignment]  # both are functions, as was asked


def _note_function(old: types.FunctionType, new: types.FunctionType, held: Held) -> None:
    """Keep what a function is before it is given the code of another."""
    before = old.__code__, old.__defaults__, old.__kwdefaults__, old.__doc__, old.__annotations__
    now = new.__code__

    def undo() -> None:
        old.__code__, old.__defaults__, old.__kwdefaults__, old.__doc__, old.__annotations__ = before

    held.note("", lambda: old.__code__ is now, undo)


def _wrapped_function(cell: types.CellType, other: types.CellType, held: Held) -> None:
    """Let a wrapper call the function that the new one calls; whatever else it encloses is its own."""
    with contextlib.suppress(ValueError):  # of a cell that is empty
        if type(cell.cell_contents) is type(other.cell_contents) is types.FunctionType:
            before, now = cell.cell_contents, other.cell_contents
            cell.cell_contents = now
            held.note("", lambda: cell.cell_contents is now, lambda: setattr(cell, "cell_contents", before))


def _methods(old: type, new: type, undone: Held) -> None:
    """Give the methods of a class, which may be held, the code of those of another."""
    for name, held in list(space_of(old).items()):
        other = space_of(new).get(name)
        if type(held) in (staticmethod, classmethod) and type(other) is type(held):
            held, other = held.__func__, other.__func__  # noqa: PLW2901  # the function within
        if type(held) is types.FunctionType and type(other) is types.FunctionType:
            _function(held, other, undone)


def _subclasses(old: type, new: type, held: Held) -> None:
    found: list[type] = type.__subclasses__(old)
    for kind in found:
        bases = tuple(new if base is old else base for base in kind.__bases__)
        with contextlib.suppress(TypeError):  # of another layout
            _note_bases(kind, bases, held)
            type.__setattr__(kind, "__bases__", bases)


def _note_bases(kind: type, bases: tuple[type, ...], held: Held) -> None:
    before = kind.__bases__
    held.note("", lambda: kind.__bases__ == bases, lambda: type.__setattr__(kind, "__bases__", before))


def _note_class(one: object, pair: tuple[Any, Any], held: Held) -> None:
    held.note("", lambda: type(one) is pair[1], lambda: object.__setattr__(one, "__class__", pair[0]))


def _instances(module: types.ModuleType, classes: dict[int, tuple[Any, Any]], held: Held) -> Iterator[dict[str, str]]:
    if not classes:
        return
    renewed = dict.fromkeys(classes, 0)
    for one in gc.get_objects():
        pair = classes.get(id(type(one)))
        if pair is not None and type(one) is pair[0]:
            try:
                object.__setattr__(one, "__class__", pair[1])
                renewed[id(pair[0])] += 1
                _note_class(one, pair, held)
            except (TypeError, AttributeError):  # of another layout
                pass
    for key, count in renewed.items():
        if count:
            name = qualname_of(classes[key][0])
            yield {"module": module.__name__, "name": name, "kind": "renewed", "of": str(count)}
