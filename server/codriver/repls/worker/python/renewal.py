"""Update objects that were created by a previous load of a module, after the module is loaded again.

Names that other modules imported are bound to the new functions and classes. Functions referenced elsewhere, such as
callbacks, get the new code, instances get the new class, and subclasses get the new base. The closures of a function
are found by their code, which is among the function's constants. Code objects are compared by behavior, ignoring
comments, layout and positions. Objects that cannot be updated stay unchanged, and `Drift` reports them.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import types
import weakref

from ..basics.definition_access import (
    MAX_UNWRAPPED_DECORATORS,
    defining_module_name,
    is_class,
    qualified_name,
    space_of,
    unwrap_descriptor,
    unwrap_functions,
)
from ..basics.undo_records import UndoRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Note = Callable[[str, Callable[[], bool], Callable[[], None]], None]

    """Records a change: its name, a check whether it is still in effect, and a function that undoes it."""

    Path = tuple[tuple[str, int], ...]


def update_remaining_objects(
    module: types.ModuleType,
    before: dict[str, Any],
    undo: UndoRecord | None = None,
    closures: PreviousClosures | None = None,
) -> list[dict[str, str]]:
    """Update objects that remain from the previous load of a module. `before` contains the module's previous names.

    Return rows of the kind `renewed` in the form of `Drift.find_differences`: one for each name in another module, each
    class with updated instances, and each function with updated closures. No user code runs. Changes are recorded in
    `undo`, and closures that cannot be updated in `closures`.
    """
    undo, closures = undo or UndoRecord([], is_recording=False), closures or PreviousClosures()
    pairs = {
        id(old): (old, module.__dict__[name])
        for name, old in before.items()
        if name in module.__dict__ and _is_new_version(module.__dict__[name], old, module.__name__)
    }
    if not pairs:
        return []
    rows = list(_renew_names(module, pairs, undo))
    classes = {key: pair for key, pair in pairs.items() if is_class(pair[0])}
    rows += _renew_closures(module, pairs, undo, closures)
    for old, new in pairs.values():
        if is_class(old):
            _renew_methods(old, new, undo)
            _renew_subclasses(old, new, undo)
        else:
            _renew_function(old, new, undo)
    return [*rows, *_renew_instances(module, classes, undo)]


def remove_previous_definitions(
    module: types.ModuleType, before: dict[str, Any], file: str, written: set[str]
) -> list[str]:
    """Remove functions and classes from the previous load whose names are not in `written`, and return their names.

    Evaluated definitions are not removed.
    """
    rows = []
    for name, value in before.items():
        if name in written or module.__dict__.get(name) is not value:
            continue
        undo = space_of(value).values() if is_class(value) else [value]
        files = {item.__code__.co_filename for item in undo if type(item) is types.FunctionType}
        if files == {file} and defining_module_name(value) == module.__name__:
            del module.__dict__[name]
            rows.append(name)
    return rows


def _is_new_version(new: object, old: object, home: str) -> bool:
    """Return whether `new` is a new version of `old`, a function or class with the same name in the module `home`."""
    if new is old or type(new) is not type(old) or not (type(old) is types.FunctionType or is_class(old)):
        return False
    identities = [(defining_module_name(item), qualified_name(item)) for item in (old, new)]
    return identities[0] == identities[1] and bool(identities[0][0] == home) and not _is_other_statement(old, new)


def _is_other_statement(old: Any, new: Any) -> bool:
    """Return whether two functions, or those that they wrap, come from different statements that use the same name."""
    waiting, seen = [(old, new)], set()
    while waiting:
        before, now = waiting.pop()
        if type(before) is not types.FunctionType or type(now) is not types.FunctionType or id(before) in seen:
            continue
        seen.add(id(before))
        codes = before.__code__, now.__code__
        if codes[0].co_filename != codes[1].co_filename or qualified_name(before) != qualified_name(now):
            continue
        if codes[0].co_firstlineno != codes[1].co_firstlineno:
            if not is_same_code(*codes):
                return True
            continue
        cells = zip(before.__closure__ or (), now.__closure__ or ())
        waiting += [(_content(cell), _content(other)) for cell, other in cells]
    return False


def _content(cell: types.CellType) -> object:
    """Return the value in a cell, or None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _renew_names(
    module: types.ModuleType, pairs: dict[int, tuple[Any, Any]], undo: UndoRecord
) -> Iterator[dict[str, str]]:
    """Bind names in other modules that refer to previous objects to the new ones, and yield a row for each name."""
    for name, other in list(sys.modules.items()):
        if other is module or not issubclass(type(other), types.ModuleType):
            continue
        # Checking the values first is faster, because most modules have none of these objects.
        if pairs.keys().isdisjoint(map(id, other.__dict__.values())):
            continue
        for attribute, value in list(other.__dict__.items()):
            pair = pairs.get(id(value))
            if pair is not None and pair[0] is value:
                other.__dict__[attribute] = pair[1]
                undo.record_key(name + "." + attribute, other.__dict__, attribute, value)
                yield {"module": name, "name": attribute, "kind": "renewed"}


def _renew_closures(
    module: types.ModuleType, pairs: dict[int, tuple[Any, Any]], undo: UndoRecord, closures: PreviousClosures
) -> Iterator[dict[str, str]]:
    """Update the closures created by previous functions, and yield a row for each of these functions."""
    renewed, left = update_closures(module.__name__, _iter_functions(pairs), undo.record_change)
    for name, closure in left:
        closures.add(module.__name__, name, closure)
    for name, count in renewed.items():
        of = "1 closure" if count == 1 else str(count) + " closures"
        yield {"module": module.__name__, "name": name, "kind": "renewed", "of": of}


def _iter_functions(pairs: dict[int, tuple[Any, Any]]) -> Iterator[tuple[str, types.FunctionType, types.FunctionType]]:
    """Yield the name, the previous object and the new object of each function and method."""
    for old, new in pairs.values():
        if not is_class(old):
            yield from ((qualified_name(old), *both) for both in zip(unwrap_functions(old), unwrap_functions(new)))
            continue
        for name, value in list(space_of(old).items()):
            method, other = unwrap_descriptor(value), unwrap_descriptor(space_of(new).get(name))
            if type(method) is types.FunctionType and type(other) is types.FunctionType:
                yield qualified_name(old) + "." + name, method, other


def _renew_function(old: types.FunctionType, new: types.FunctionType, undo: UndoRecord) -> None:
    """Update a function with the code, defaults and docstring of another. Also update the functions that it wraps."""
    for _ in range(MAX_UNWRAPPED_DECORATORS):
        if len(old.__closure__ or ()) != len(new.__closure__ or ()) or old.__globals__ is not new.__globals__:
            return
        inner = old.__dict__.get("__wrapped__"), new.__dict__.get("__wrapped__")
        for cell, other in zip(old.__closure__ or (), new.__closure__ or ()):
            _wrapped_function(cell, other, undo)
        _note_function(old, new, undo)
        old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
        old.__doc__, old.__annotations__ = new.__doc__, new.__annotations__
        if not all(type(item) is types.FunctionType for item in inner):
            return
        old, new = inner  # type: ignore[assignment]  # checked to be functions above


def _note_function(old: types.FunctionType, new: types.FunctionType, record: UndoRecord) -> None:
    """Record how to restore the function `old`, before it gets the code of `new`."""
    before = old.__code__, old.__defaults__, old.__kwdefaults__, old.__doc__, old.__annotations__
    now = new.__code__

    def undo() -> None:
        old.__code__, old.__defaults__, old.__kwdefaults__, old.__doc__, old.__annotations__ = before

    record.record_change("", lambda: old.__code__ is now, undo)


def _wrapped_function(cell: types.CellType, other: types.CellType, undo: UndoRecord) -> None:
    """Make a wrapper call the new wrapper's function. Other closure variables are not changed."""
    with contextlib.suppress(ValueError):  # the cell is empty
        if type(cell.cell_contents) is type(other.cell_contents) is types.FunctionType:
            before, now = cell.cell_contents, other.cell_contents
            cell.cell_contents = now
            undo.record_change("", lambda: cell.cell_contents is now, lambda: setattr(cell, "cell_contents", before))


def _renew_methods(old: type, new: type, undone: UndoRecord) -> None:
    """Give methods of a previous class the code of the new ones, because other objects may refer to them."""
    for name, undo in list(space_of(old).items()):
        other = space_of(new).get(name)
        if type(undo) in (staticmethod, classmethod) and type(other) is type(undo):
            undo, other = undo.__func__, other.__func__  # noqa: PLW2901  # unwrap the function
        if type(undo) is types.FunctionType and type(other) is types.FunctionType:
            _renew_function(undo, other, undone)


def _renew_subclasses(old: type, new: type, undo: UndoRecord) -> None:
    """Replace a class with its new version in the bases of its subclasses."""
    found: list[type] = type.__subclasses__(old)
    for kind in found:
        bases = tuple(new if base is old else base for base in kind.__bases__)
        with contextlib.suppress(TypeError):  # the memory layouts differ
            _note_bases(kind, bases, undo)
            type.__setattr__(kind, "__bases__", bases)


def _note_bases(kind: type, bases: tuple[type, ...], undo: UndoRecord) -> None:
    """Record how to restore the bases of a class before they are changed."""
    before = kind.__bases__
    undo.record_change("", lambda: kind.__bases__ == bases, lambda: type.__setattr__(kind, "__bases__", before))


def _note_class(instance: object, pair: tuple[Any, Any], undo: UndoRecord) -> None:
    """Record how to restore the class of an object. `pair` contains its previous and its new class."""
    undo.record_change(
        "", lambda: type(instance) is pair[1], lambda: object.__setattr__(instance, "__class__", pair[0])
    )


def _renew_instances(
    module: types.ModuleType, classes: dict[int, tuple[Any, Any]], undo: UndoRecord
) -> Iterator[dict[str, str]]:
    """Change the class of instances of previous classes, and yield a row for each class."""
    if not classes:
        return
    renewed = dict.fromkeys(classes, 0)
    of_old = [pair[0] for pair in classes.values()]
    found = gc.get_objects()
    for item in found if are_all_objects(found) else _referrers_among_frozen(*of_old):
        pair = classes.get(id(type(item)))
        if pair is not None and type(item) is pair[0]:
            try:
                object.__setattr__(item, "__class__", pair[1])
                renewed[id(pair[0])] += 1
                _note_class(item, pair, undo)
            except (TypeError, AttributeError):  # the memory layouts differ
                pass
    for key, count in renewed.items():
        if count:
            name = qualified_name(classes[key][0])
            yield {"module": module.__name__, "name": name, "kind": "renewed", "of": str(count)}


class PreviousClosures:
    """Weak references to closures from previous loads that could not be updated."""

    def __init__(self) -> None:
        self._known: list[tuple[str, str, weakref.ref[types.FunctionType]]] = []

    def add(self, module: str, name: str, closure: types.FunctionType) -> None:
        """Add a closure that the function `name` has created. The name is dotted for methods."""
        self._known.append((module, name, weakref.ref(closure)))

    def count_outdated(
        self, modules: dict[str, tuple[types.ModuleType, str]]
    ) -> Iterator[tuple[types.ModuleType, str, int]]:
        """Yield each module and function with the number of its closures that would differ if created now."""
        self._known = [item for item in self._known if item[2]() is not None]
        found: dict[tuple[str, str], int] = {}
        for module, name, reference in self._known:
            closure = reference()
            if module in modules and closure is not None and not _is_current(modules[module][0], name, closure):
                found[module, name] = found.get((module, name), 0) + 1
        for (module, name), count in found.items():
            yield modules[module][0], name, count


def update_closures(
    module: str, functions: Iterable[tuple[str, types.FunctionType, types.FunctionType]], note: Note
) -> tuple[dict[str, int], list[tuple[str, types.FunctionType]]]:
    """Give closures created by the old functions the code of the corresponding closures in the new functions.

    Return the number of updated closures by function, and the closures that cannot be updated because their free
    variables differ or their name no longer exists. Each change is passed to `note`. Call this before the old functions
    are updated.
    """
    codes: dict[int, tuple[types.CodeType, str, types.CodeType | None]] = {}
    for name, old, new in functions:
        if is_same_code(old.__code__, new.__code__):
            continue
        heirs = dict(_nested_with_paths(new.__code__))
        for path, code in _nested_with_paths(old.__code__):
            heir = heirs.get(path)
            if heir is None or not is_same_code(code, heir):
                fits = heir is not None and heir.co_freevars == code.co_freevars
                codes[id(code)] = code, name, heir if fits else None
    renewed: dict[str, int] = {}
    left: list[tuple[str, types.FunctionType]] = []
    if codes:
        for referrer in find_referrers(*[code for code, _, _ in codes.values()]):
            if (
                type(referrer) is types.FunctionType
                and id(referrer.__code__) in codes
                and referrer.__module__ == module
            ):
                _, name, heir = codes[id(referrer.__code__)]
                if heir is None:
                    left.append((name, referrer))
                else:
                    _set_code(referrer, heir, note)
                    renewed[name] = renewed.get(name, 0) + 1
    return renewed, left


def _set_code(closure: types.FunctionType, code: types.CodeType, note: Note) -> None:
    """Replace the code of a closure and record how to restore it."""
    before = closure.__code__
    closure.__code__ = code
    note("", lambda: closure.__code__ is code, lambda: setattr(closure, "__code__", before))


def _nested_with_paths(code: types.CodeType, path: Path = ()) -> Iterator[tuple[Path, types.CodeType]]:
    """Yield the code objects nested in another one, each with a path.

    The path consists of names and numbers. The numbers distinguish equal names.
    """
    seen: dict[str, int] = {}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            number = seen[constant.co_name] = seen.get(constant.co_name, -1) + 1
            attribute = (*path, (constant.co_name, number))
            yield attribute, constant
            yield from _nested_with_paths(constant, attribute)


def _is_current(module: types.ModuleType, name: str, closure: types.FunctionType) -> bool:
    """Return whether the current function with this name would create the same closure."""
    maker: Any = module.__dict__.get(name.partition(".")[0])
    if "." in name:
        maker = type.__dict__["__dict__"].__get__(maker).get(name.rpartition(".")[2]) if type(maker) is type else None
    maker = getattr(maker, "__func__", maker)
    if type(maker) is not types.FunctionType:
        return False
    codes = (code for _, code in _nested_with_paths(maker.__code__) if code.co_name == closure.__code__.co_name)
    return any(is_same_code(closure.__code__, code) for code in codes)


def are_all_objects(objects: list[Any]) -> bool:
    """Return whether the list of objects from the garbage collector is complete, because no objects are frozen.

    It is complete if it includes a very old dictionary. Counting the frozen objects would take as long as checking all
    of them.
    """
    return any(item is sys.__dict__ for item in objects)


def find_referrers(*objects: object) -> list[Any]:
    """Return the objects that refer to any of these objects.

    Objects hidden by `gc.freeze`, as in the fork for a trial run, are included. They are only read, because creating a
    list of all of them would make the fork copy the memory pages that it shares with the worker.
    """
    return gc.get_referrers(*objects) if are_all_objects(gc.get_objects()) else _referrers_among_frozen(*objects)


def _referrers_among_frozen(*objects: object) -> list[Any]:
    is_enabled = gc.isenabled()
    gc.disable()
    gc.unfreeze()
    try:
        return gc.get_referrers(*objects)
    finally:
        gc.freeze()
        if is_enabled:
            gc.enable()


def is_same_code(first: types.CodeType, other: types.CodeType) -> bool:
    """Return whether two code objects behave in the same way."""
    if first is other:
        return True
    if _shape(first) != _shape(other) or len(first.co_consts) != len(other.co_consts):
        return False
    return all(_is_same_constant(a, b) for a, b in zip(first.co_consts, other.co_consts))


NEW_LOCALS_FLAG = 0x2
"""The flag of code objects whose assignments are local, as in functions. Source: `inspect.CO_NEWLOCALS`."""


def is_same_function_code(first: types.CodeType, other: types.CodeType) -> bool:
    """Return whether two code objects behave in the same way when called, ignoring changes inside nested functions."""
    if _shape(first) != _shape(other) or len(first.co_consts) != len(other.co_consts):
        return False
    pairs = list(zip(first.co_consts, other.co_consts))
    # Lambdas and comprehensions are compared completely, because the function may call them itself.
    for a, b in pairs:
        if not (type(a) is type(b) is types.CodeType and a.co_name == b.co_name and a.co_name[:1] != "<"):
            if not _is_same_constant(a, b):
                return False
        elif not a.co_flags & NEW_LOCALS_FLAG and not is_same_function_code(
            a, b
        ):  # the body of a class runs as part of the call
            return False
    return True


def _shape(code: types.CodeType) -> tuple[Any, ...]:
    """Return the parts of a code object, except its constants, that determine its behavior."""
    return (
        code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
        code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
    )  # fmt: skip


def _is_same_constant(first: object, other: object) -> bool:
    if isinstance(first, types.CodeType) and isinstance(other, types.CodeType):
        return is_same_code(first, other)
    if isinstance(first, tuple) and isinstance(other, tuple):
        return len(first) == len(other) and all(map(_is_same_constant, first, other))
    is_same = first == other if isinstance(first, frozenset) else repr(first) == repr(other)
    return is_same and type(first) is type(other)
