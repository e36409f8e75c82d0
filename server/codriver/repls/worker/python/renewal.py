"""Renewal: after a module is loaded again, other holders of its former load's objects get the new ones.

Names that other modules imported get the new functions and classes; functions held elsewhere, as callbacks, get the new
code, instances the new class, subclasses the new base. Closures of a function are found by their code, which is among
the function's constants. Code objects are compared by their behaviour: comments, layout and places do not count.
Objects that cannot be renewed stay as they are, and `Drift` tells them.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types
import weakref

from ..basics.held_definitions import (
    MOST_WRAPPERS,
    UndoRecord,
    function_in,
    home_of,
    is_class,
    qualname_of,
    space_of,
    unwrapped,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Note = Callable[[str, Callable[[], bool], Callable[[], None]], None]

    """Keeps a change: its name, a test whether it still holds, and its undoing."""

    Path = tuple[tuple[str, int], ...]


def renew(
    module: types.ModuleType,
    before: dict[str, Any],
    undo: UndoRecord | None = None,
    closures: PreviousClosures | None = None,
) -> list[dict[str, str]]:
    """Renew the held objects of a module's names from `before` its new load.

    The rows, in the form of `Drift.rows` and of the kind `renewed`, are one for each name in another module, each class
    with renewed instances and each function with renewed closures. No user code is run. Changes are kept in `undo`,
    closures that cannot be renewed in `closures`.
    """
    undo, closures = undo or UndoRecord([], is_recording=False), closures or PreviousClosures()
    pairs = {
        id(old): (old, module.__dict__[name])
        for name, old in before.items()
        if name in module.__dict__ and _is_heir(module.__dict__[name], old, module.__name__)
    }
    if not pairs:
        return []
    rows = list(_names(module, pairs, undo))
    classes = {key: pair for key, pair in pairs.items() if is_class(pair[0])}
    rows += _closures(module, pairs, undo, closures)
    for old, new in pairs.values():
        if is_class(old):
            _methods(old, new, undo)
            _subclasses(old, new, undo)
        else:
            _function(old, new, undo)
    return [*rows, *_instances(module, classes, undo)]


def forget(module: types.ModuleType, before: dict[str, Any], file: str, written: set[str]) -> list[str]:
    """Take functions and classes of the former load out of a module if its file no longer has them `written`.

    The result is their names. Evaluated definitions stay.
    """
    rows = []
    for name, value in before.items():
        if name in written or module.__dict__.get(name) is not value:
            continue
        undo = space_of(value).values() if is_class(value) else [value]
        files = {one.__code__.co_filename for one in undo if type(one) is types.FunctionType}
        if files == {file} and home_of(value) == module.__name__:
            del module.__dict__[name]
            rows.append(name)
    return rows


def _is_heir(new: object, old: object, home: str) -> bool:
    """Whether both are functions, or classes of one kind, with the same name in that module."""
    if new is old or type(new) is not type(old) or not (type(old) is types.FunctionType or is_class(old)):
        return False
    identities = [(home_of(one), qualname_of(one)) for one in (old, new)]
    return identities[0] == identities[1] and bool(identities[0][0] == home) and not _is_another(old, new)


def _is_another(old: Any, new: Any) -> bool:
    """True for functions of different statements of one file, which only have a name in common."""
    if type(old) is not types.FunctionType or old.__code__.co_filename != new.__code__.co_filename:
        return False
    return old.__code__.co_firstlineno != new.__code__.co_firstlineno and not is_same_code(old.__code__, new.__code__)


def _names(module: types.ModuleType, pairs: dict[int, tuple[Any, Any]], undo: UndoRecord) -> Iterator[dict[str, str]]:
    for name, other in list(sys.modules.items()):
        if other is module or not isinstance(other, types.ModuleType):
            continue
        # Most modules have none of them, which the values alone show, without their names.
        if pairs.keys().isdisjoint(map(id, other.__dict__.values())):
            continue
        for attribute, value in list(other.__dict__.items()):
            pair = pairs.get(id(value))
            if pair is not None and pair[0] is value:
                other.__dict__[attribute] = pair[1]
                undo.note_key(name + "." + attribute, other.__dict__, attribute, value)
                yield {"module": name, "name": attribute, "kind": "renewed"}


def _closures(
    module: types.ModuleType, pairs: dict[int, tuple[Any, Any]], undo: UndoRecord, closures: PreviousClosures
) -> Iterator[dict[str, str]]:
    renewed, left = renew_closures(module.__name__, _functions(pairs), undo.note)
    for name, closure in left:
        closures.add(module.__name__, name, closure)
    for name, count in renewed.items():
        of = "1 closure" if count == 1 else str(count) + " closures"
        yield {"module": module.__name__, "name": name, "kind": "renewed", "of": of}


def _functions(pairs: dict[int, tuple[Any, Any]]) -> Iterator[tuple[str, types.FunctionType, types.FunctionType]]:
    """Each function and method of the former and of the new load, by name."""
    for old, new in pairs.values():
        if not is_class(old):
            yield from ((qualname_of(old), *both) for both in zip(unwrapped(old), unwrapped(new)))
            continue
        for name, value in list(space_of(old).items()):
            method, other = function_in(value), function_in(space_of(new).get(name))
            if type(method) is types.FunctionType and type(other) is types.FunctionType:
                yield qualname_of(old) + "." + name, method, other


def _function(old: types.FunctionType, new: types.FunctionType, undo: UndoRecord) -> None:
    """Give a function the code of another, and with it the function that a wrapper calls."""
    for _ in range(MOST_WRAPPERS):
        if len(old.__closure__ or ()) != len(new.__closure__ or ()) or old.__globals__ is not new.__globals__:
            return
        inner = old.__dict__.get("__wrapped__"), new.__dict__.get("__wrapped__")
        for cell, other in zip(old.__closure__ or (), new.__closure__ or ()):
            _wrapped_function(cell, other, undo)
        _note_function(old, new, undo)
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
        old.__doc__, old.__annotations__ = new.__doc__, new.__annotations__
        if not all(type(one) is types.FunctionType for one in inner):
            return
        old, new = inner  # type: ignore[assignment]  # both are functions, as was asked


def _note_function(old: types.FunctionType, new: types.FunctionType, record: UndoRecord) -> None:
    """Keep a function's state before it gets another code."""
    before = old.__code__, old.__defaults__, old.__kwdefaults__, old.__doc__, old.__annotations__
    now = new.__code__

    def undo() -> None:
        old.__code__, old.__defaults__, old.__kwdefaults__, old.__doc__, old.__annotations__ = before

    record.note("", lambda: old.__code__ is now, undo)


def _wrapped_function(cell: types.CellType, other: types.CellType, undo: UndoRecord) -> None:
    """Let a wrapper call the new wrapper's function; its other enclosed variables are its own."""
    with contextlib.suppress(ValueError):  # of an empty cell
        if type(cell.cell_contents) is type(other.cell_contents) is types.FunctionType:
            before, now = cell.cell_contents, other.cell_contents
            cell.cell_contents = now
            undo.note("", lambda: cell.cell_contents is now, lambda: setattr(cell, "cell_contents", before))


def _methods(old: type, new: type, undone: UndoRecord) -> None:
    """Give the methods of a class, which may be held elsewhere, the code of another class's methods."""
    for name, undo in list(space_of(old).items()):
        other = space_of(new).get(name)
        if type(undo) in (staticmethod, classmethod) and type(other) is type(undo):
            undo, other = undo.__func__, other.__func__  # noqa: PLW2901  # the function within
        if type(undo) is types.FunctionType and type(other) is types.FunctionType:
            _function(undo, other, undone)


def _subclasses(old: type, new: type, undo: UndoRecord) -> None:
    found: list[type] = type.__subclasses__(old)
    for kind in found:
        bases = tuple(new if base is old else base for base in kind.__bases__)
        with contextlib.suppress(TypeError):  # of another layout
            _note_bases(kind, bases, undo)
            type.__setattr__(kind, "__bases__", bases)


def _note_bases(kind: type, bases: tuple[type, ...], undo: UndoRecord) -> None:
    before = kind.__bases__
    undo.note("", lambda: kind.__bases__ == bases, lambda: type.__setattr__(kind, "__bases__", before))


def _note_class(one: object, pair: tuple[Any, Any], undo: UndoRecord) -> None:
    undo.note("", lambda: type(one) is pair[1], lambda: object.__setattr__(one, "__class__", pair[0]))


def _instances(
    module: types.ModuleType, classes: dict[int, tuple[Any, Any]], undo: UndoRecord
) -> Iterator[dict[str, str]]:
    if not classes:
        return
    renewed = dict.fromkeys(classes, 0)
    of_old = [pair[0] for pair in classes.values()]
    found = gc.get_objects()
    for one in found if are_all(found) else _referring_frozen(*of_old):
        pair = classes.get(id(type(one)))
        if pair is not None and type(one) is pair[0]:
            try:
                object.__setattr__(one, "__class__", pair[1])
                renewed[id(pair[0])] += 1
                _note_class(one, pair, undo)
            except (TypeError, AttributeError):  # of another layout
                pass
    for key, count in renewed.items():
        if count:
            name = qualname_of(classes[key][0])
            yield {"module": module.__name__, "name": name, "kind": "renewed", "of": str(count)}


class PreviousClosures:
    """The living closures of former loads that could not get the new code."""

    def __init__(self) -> None:
        self._known: list[tuple[str, str, weakref.ref[types.FunctionType]]] = []

    def add(self, module: str, name: str, closure: types.FunctionType) -> None:
        """Remember a closure made by a function of that name, dotted for methods."""
        self._known.append((module, name, weakref.ref(closure)))

    def counts(self, modules: dict[str, tuple[types.ModuleType, str]]) -> Iterator[tuple[types.ModuleType, str, int]]:
        """The number of closures that their function would now make otherwise, by module and function."""
        self._known = [one for one in self._known if one[2]() is not None]
        found: dict[tuple[str, str], int] = {}
        for module, name, reference in self._known:
            closure = reference()
            if module in modules and closure is not None and not _is_current(modules[module][0], name, closure):
                found[module, name] = found.get((module, name), 0) + 1
        for (module, name), count in found.items():
            yield modules[module][0], name, count


def renew_closures(
    module: str, functions: Iterable[tuple[str, types.FunctionType, types.FunctionType]], note: Note
) -> tuple[dict[str, int], list[tuple[str, types.FunctionType]]]:
    """Give the closures of old functions the code of the new functions' closures; both functions come by name.

    The result is the number of renewed closures by function, and the closures that cannot be renewed: they enclose
    other variables, or the name is gone. To be called while the old functions have their code. Each change goes to
    `note`.
    """
    codes: dict[int, tuple[types.CodeType, str, types.CodeType | None]] = {}
    for name, old, new in functions:
        if is_same_code(old.__code__, new.__code__):
            continue
        heirs = dict(_nested(new.__code__))
        for path, code in _nested(old.__code__):
            heir = heirs.get(path)
            if heir is None or not is_same_code(code, heir):
                fits = heir is not None and heir.co_freevars == code.co_freevars
                codes[id(code)] = code, name, heir if fits else None
    renewed: dict[str, int] = {}
    left: list[tuple[str, types.FunctionType]] = []
    if codes:
        for one in referring(*[code for code, _, _ in codes.values()]):
            if type(one) is types.FunctionType and id(one.__code__) in codes and one.__module__ == module:
                _, name, heir = codes[id(one.__code__)]
                if heir is None:
                    left.append((name, one))
                else:
                    _give(one, heir, note)
                    renewed[name] = renewed.get(name, 0) + 1
    return renewed, left


def _give(closure: types.FunctionType, code: types.CodeType, note: Note) -> None:
    before = closure.__code__
    closure.__code__ = code
    note("", lambda: closure.__code__ is code, lambda: setattr(closure, "__code__", before))


def _nested(code: types.CodeType, path: Path = ()) -> Iterator[tuple[Path, types.CodeType]]:
    """The codes within a code, by their names and their number among those of one name."""
    seen: dict[str, int] = {}
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            number = seen[one.co_name] = seen.get(one.co_name, -1) + 1
            attribute = (*path, (one.co_name, number))
            yield attribute, one
            yield from _nested(one, attribute)


def _is_current(module: types.ModuleType, name: str, closure: types.FunctionType) -> bool:
    """Whether the present function of that name would make such a closure."""
    maker: Any = module.__dict__.get(name.partition(".")[0])
    if "." in name:
        maker = type.__dict__["__dict__"].__get__(maker).get(name.rpartition(".")[2]) if type(maker) is type else None
    maker = getattr(maker, "__func__", maker)
    if type(maker) is not types.FunctionType:
        return False
    codes = (code for _, code in _nested(maker.__code__) if code.co_name == closure.__code__.co_name)
    return any(is_same_code(closure.__code__, code) for code in codes)


def are_all(objects: list[Any]) -> bool:
    """Whether the collector tells all objects, with none frozen.

    Then the oldest mapping is among them. Counting the frozen objects takes as long as looking at each.
    """
    return any(one is sys.__dict__ for one in objects)


def referring(*objects: object) -> list[Any]:
    """The objects that refer to some objects, also frozen ones, as in the fork of a try.

    Objects are only read: listing all of them would copy the worker's memory pages.
    """
    return gc.get_referrers(*objects) if are_all(gc.get_objects()) else _referring_frozen(*objects)


def _referring_frozen(*objects: object) -> list[Any]:
    is_enabled = gc.isenabled()
    gc.disable()
    gc.unfreeze()
    try:
        return gc.get_referrers(*objects)
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


def is_same_code(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether two codes have the same behaviour."""
    one, other = function_code(one), function_code(other)
    if one is other:
        return True
    if _shape(one) != _shape(other) or len(one.co_consts) != len(other.co_consts):
        return False
    return all(_is_same_constant(a, b) for a, b in zip(one.co_consts, other.co_consts))


OF_FUNCTIONS = 0x2
"""The flag of codes of functions: what they bind is local. Source: `inspect.CO_NEWLOCALS`."""


def is_same_function_code(one: types.CodeType, other: types.CodeType) -> bool:
    """Whether a call of two codes does the same, apart from the functions within them."""
    one, other = function_code(one), function_code(other)
    if _shape(one) != _shape(other) or len(one.co_consts) != len(other.co_consts):
        return False
    pairs = list(zip(one.co_consts, other.co_consts))
    # A lambda or comprehension may be called at once.
    for a, b in pairs:
        if not (type(a) is type(b) is types.CodeType and a.co_name == b.co_name and a.co_name[:1] != "<"):
            if not _is_same_constant(a, b):
                return False
        elif not a.co_flags & OF_FUNCTIONS and not is_same_function_code(
            a, b
        ):  # the body of a class runs with the call
            return False
    return True


def function_code(code: types.CodeType) -> types.CodeType:
    """The original code, if the seam of an application put a copy in its place to capture calls."""
    last = code.co_consts[-1] if code.co_consts else None
    is_copy = type(last).__module__ == "codriver_seam.copies"
    return last.code if is_copy else code  # type: ignore[union-attr]  # it is an application's class


def _shape(code: types.CodeType) -> tuple[Any, ...]:
    return (
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
    )  # fmt: skip


def _is_same_constant(one: object, other: object) -> bool:
    if isinstance(one, types.CodeType) and isinstance(other, types.CodeType):
        return is_same_code(one, other)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same_constant, one, other))
    is_same = one == other if isinstance(one, frozenset) else repr(one) == repr(other)
    return is_same and type(one) is type(other)
