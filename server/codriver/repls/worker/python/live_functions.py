"""Update a file's existing functions in place, no matter what refers to them.

Functions are found by the position of their code in the loaded source, including those in wrappers, closures, partials,
registries and mapped classes. All of them get the code of the new source, so their line numbers are right as well. No
code in the source is run.
"""

from __future__ import annotations

import functools
import gc
import types
import weakref

from ..basics.definition_access import defining_module_name, is_class, space_of
from .remembered_names import is_plain_value
from .renewal import are_all_objects, find_referrers, is_same_code
from .statements import CLASS, GUARD, line_range
from .stored_attributes import attribute_dict, instance_dict_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Dict, List, Tuple

    from ..basics.undo_records import UndoRecord
    from .statements import SourceText, Statement

    Pair = Tuple[Statement, Statement]

    Note = Callable[[str, Callable[[], object], Callable[[], object]], None]

    Position = Tuple[str, int]

    Codes = Dict[int, Tuple[types.CodeType, types.CodeType]]

    Rows = List[Tuple[str, str]]


MAX_CACHED_FUNCTIONS = 32
"""Maximum number of functions in one cache that are searched for more functions."""
EMPTY_CELL = types.CellType()
"""An empty cell. Comparing another cell with it shows whether that cell is empty, without comparing any values."""
LRU_CACHE_TYPE = type(functools.lru_cache()(int))
"""The type of the functions that `lru_cache` returns."""
CACHED_VALUES_REASON = "{} instances keep the value that they have cached"
"""The reason for reporting a cached property, with the number of instances."""
NEW_LOCALS, NESTED = 0x2, 0x10
"""Code flags of functions and of nested functions. Source: `inspect.CO_NEWLOCALS`, `CO_NESTED`."""
CODE_ATTRIBUTES_AND_WORDS = {
    types.GeneratorType: ("gi_code", "generator"),
    types.CoroutineType: ("cr_code", "coroutine"),
    types.AsyncGeneratorType: ("ag_code", "generator"),
}
"""The attribute with the code of a generator or coroutine, and the word used for it in messages, by type."""


class FileCodes:
    """The code objects that Python compiles from a source file."""

    def __init__(self, text: SourceText, file: str) -> None:
        self.code: types.CodeType = compile(text.data, file, "exec", dont_inherit=True)
        self.read_all = list(_iter_nested(self.code))

    def codes_in_lines(self, first: int, last: int) -> list[types.CodeType]:
        """Return the code objects that start in a range of lines, in order."""
        return [item for item in self.read_all if first <= item.co_firstlineno <= last]

    def code_of_statement(self, node: Any) -> types.CodeType | None:
        """Return the code object of a function definition, or None unless there is exactly one."""
        position = line_range(node)[0]
        found = [item for item in self.read_all if item.co_name == node.name and item.co_firstlineno == position]
        return found[0] if len(found) == 1 else None


MAX_VISITED_OBJECTS = 20_000
"""Maximum number of objects that are visited, starting at the names of a module."""
UNSEARCHED_TYPES = (
    str,
    bytes,
    int,
    float,
    complex,
    bool,
    type(None),
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
)
"""Types whose objects are not searched."""


def reachable_objects(space: dict[str, Any]) -> Iterator[object]:
    """Yield the objects to which the names of a module refer, directly or indirectly. Other modules are not entered.

    At most about `MAX_VISITED_OBJECTS` objects are visited.
    """
    home, seen, level = space.get("__name__"), {id(space)}, list(space.values())
    while level and len(seen) < MAX_VISITED_OBJECTS:
        inner: list[object] = []
        for item in level:
            kind = type(item)
            if id(item) in seen or kind in UNSEARCHED_TYPES:
                continue
            seen.add(id(item))
            yield item
            if kind is types.FunctionType:
                # its globals belong to a module
                inner += [*(item.__closure__ or ()), *(item.__defaults__ or ()), *item.__dict__.values()]
            elif not is_class(item):
                inner += (each for each in gc.get_referents(item) if not is_class(each))
            elif defining_module_name(item) == home:
                inner += space_of(item).values()
        level = inner


def match_codes(old: FileCodes, new: FileCodes, same: Iterable[Pair], changed: Iterable[Pair]) -> Codes:
    """Return each old code object with its successor in the new source, by the id of the old one.

    `same` contains pairs of statements that are in both sources, and `changed` contains pairs of functions that differ.
    """
    found: Codes = {}
    for item, other in same:
        if item.kind not in (CLASS, GUARD) or "lines" in item.parts:
            before, now = old.codes_in_lines(*line_range(item.node)), new.codes_in_lines(*line_range(other.node))
            if [code.co_name for code in before] == [code.co_name for code in now]:
                found.update((id(code), (code, heir)) for code, heir in zip(before, now))
    for item, other in changed:
        old_codes, new_codes = old.code_of_statement(item.node), new.code_of_statement(other.node)
        if old_codes is not None and new_codes is not None:
            _match_nested(old_codes, new_codes, found)
    return found


def _match_nested(old: types.CodeType, new: types.CodeType, found: Codes) -> None:
    """Match two code objects and, recursively, their nested code objects with the same name.

    Nested code objects without a name, such as lambdas, are only matched if both have the same number of them.
    """
    found[id(old)] = old, new
    before, now = _group_by_name(old), _group_by_name(new)
    for name, codes in before.items():
        heirs = now.get(name, [])
        if len(heirs) == len(codes) or not name.startswith("<"):
            for code, heir in zip(codes, heirs):
                _match_nested(code, heir, found)


def _group_by_name(code: types.CodeType) -> dict[str, list[types.CodeType]]:
    """Return the code objects nested directly in another one, by name."""
    found: dict[str, list[types.CodeType]] = {}
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            found.setdefault(constant.co_name, []).append(constant)
    return found


def _iter_nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield all code objects nested in another one, at any depth."""
    for constant in code.co_consts:
        if type(constant) is types.CodeType:
            yield constant
            yield from _iter_nested(constant)


class LiveCode:
    """The functions, generators and coroutines in this process whose code comes from a file, and all function caches.

    They are found when an instance is created. `old` contains the code objects of the loaded source, and `space` is the
    namespace of the module. If the garbage collector does not list all objects, those reachable from `space` are
    searched as well.
    """

    def __init__(self, file: str, old: FileCodes, space: dict[str, Any]) -> None:
        self._file, self._space = file, space
        self._positions: dict[Position, list[types.CodeType]] = {}
        for code in old.read_all:
            self._positions.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        self._functions: dict[int, list[types.FunctionType]] = {}
        self._running: dict[int, list[tuple[str, weakref.ref[Any]]]] = {}
        self._caches: list[Any] = []
        self._known: set[int] = set()
        # In the fork for a trial run, the collector does not list objects from before the fork.
        objects = gc.get_objects()
        self._is_whole = are_all_objects(objects)
        self._add(objects)
        if not self._is_whole:
            self._add(reachable_objects(space))

    def _add(self, found: Iterable[Any]) -> None:
        """Add all functions whose code is from the file, and all caches."""
        for item in found:
            kind = type(item)
            if kind is LRU_CACHE_TYPE:
                self._append(item, self._caches)
            elif kind is types.FunctionType or kind in CODE_ATTRIBUTES_AND_WORDS:
                attribute, word = CODE_ATTRIBUTES_AND_WORDS.get(kind, ("__code__", ""))
                loaded = _find_loaded_code(getattr(item, attribute), self._file, self._positions)
                if loaded is not None and word:
                    self._running.setdefault(id(loaded), []).append((word, weakref.ref(item)))
                elif loaded is not None:
                    self._append(item, self._functions.setdefault(id(loaded), []))

    def _append(self, item: object, among: list[Any]) -> None:
        """Add an object to a list, unless it was already added."""
        if id(item) not in self._known:
            self._known.add(id(item))
            among.append(item)

    def functions_with_code(self, code: types.CodeType | None) -> list[types.FunctionType]:
        """Return the existing functions that have this code object of the old source."""
        return self._functions.get(id(code), [])

    def running_generators(self, code: types.CodeType) -> list[tuple[str, weakref.ref[Any]]]:
        """Return the generators and coroutines still running a code object of the old source, with their kinds."""
        return self._running.get(id(code), [])

    def update_functions(self, codes: Codes, note: Note) -> list[types.FunctionType]:
        """Give each existing function its new code. Return the functions for which this is not possible."""
        left = []
        if not self._is_whole and any(self._may_have_missed(code, heir) for code, heir in codes.values()):
            self._add(find_referrers(self._space, LRU_CACHE_TYPE))
            self._is_whole = True
        for code, heir in codes.values():
            for function in self.functions_with_code(code):
                if code.co_freevars == heir.co_freevars:
                    replace_code(function, heir, note)
                else:
                    left.append(function)
        return left

    def _may_have_missed(self, code: types.CodeType, heir: types.CodeType) -> bool:
        """Return whether there may be functions with a changed code object that have not been found.

        Functions that cannot be reached from the names in the module may be missed.
        """
        is_function = code.co_flags & NEW_LOCALS and (code.co_name[:1] != "<" or code.co_name == "<lambda>")
        if not is_function or is_same_code(code, heir):
            return False
        return bool(code.co_flags & NESTED) or not self.functions_with_code(code)

    def clear_caches(self, functions: Iterable[types.FunctionType]) -> Iterator[tuple[str, int]]:
        """Clear the caches of these functions.

        Yield the name and the number of entries of each cache that was not empty.
        """
        touched = {id(function): function for function in functions}
        for cache in self._caches if touched else ():
            inner = next((touched[id(item)] for item in _wrapped_functions(cache) if id(item) in touched), None)
            size = cache.cache_info().currsize
            if inner is not None and size:
                cache.cache_clear()
                yield inner.__qualname__, size


def _wrapped_functions(cache: Any) -> list[Any]:
    """Return the functions that a cache calls. Wrappers are followed through `__wrapped__` and closure variables."""
    found = [object.__getattribute__(cache, "__dict__").get("__wrapped__")]
    for item in found:
        if type(item) is types.FunctionType and len(found) < MAX_CACHED_FUNCTIONS:
            cells = [cell for cell in item.__closure__ or () if cell != EMPTY_CELL]
            inner = [item.__dict__.get("__wrapped__"), *[cell.cell_contents for cell in cells]]
            known = {id(other) for other in found}
            found += [other for other in inner if type(other) is types.FunctionType and id(other) not in known]
    return found


def clear_cached_values(
    kind: type, name: str, is_repeatable: Callable[[type], bool | None], undo: UndoRecord
) -> tuple[int, int]:
    """Delete the outdated values that a cached property has stored in the instances of a class and of its subclasses.

    `is_repeatable` returns whether computing a value again has no other effects, or None if the values in instances of
    a class are up to date. Values that may be the state of an object are not deleted.

    Returns the number of deleted values, and the number of other outdated values.
    """
    cleared = left = 0
    for candidate in gc.get_objects():
        if not issubclass(type(candidate), kind) or name not in attribute_dict(candidate):
            continue
        may_clear, space = is_repeatable(type(candidate)), instance_dict_of(candidate)
        if may_clear and space is not None and is_plain_value(space[name]):
            undo.record_key("", space, name, space.pop(name))
            cleared += 1
        elif may_clear is not None:
            left += 1
    return cleared, left


def replace_code(function: types.FunctionType, code: types.CodeType, note: Note) -> None:
    """Replace the code of a function. Also replace its docstring, unless other code has changed it."""
    before, doc = function.__code__, function.__doc__
    is_default_doc = doc == _compiled_docstring(before)
    function.__code__ = code
    if is_default_doc:
        function.__doc__ = _compiled_docstring(code)

    def undo() -> None:
        function.__code__ = before
        function.__doc__ = doc

    note("", lambda: function.__code__ is code, undo)


def annotation_attribute(function: Any) -> tuple[str, Any]:
    """Return the name and value of the attribute with a function's annotations. From Python 3.14 on, they are lazy."""
    annotate = getattr(function, "__annotate__", None)
    return ("__annotations__", function.__annotations__) if annotate is None else ("__annotate__", annotate)


def _compiled_docstring(code: types.CodeType) -> str | None:
    """Return the docstring that a new function with this code would have."""
    cells = tuple(types.CellType() for _ in code.co_freevars)
    return types.FunctionType(code, {}, closure=cells).__doc__


def _find_loaded_code(
    code: types.CodeType, file: str, positions: dict[Position, list[types.CodeType]]
) -> types.CodeType | None:
    """Return the code object in the loaded source that equals an existing object's code, or None."""
    if code.co_filename != file:
        return None
    for item in positions.get((code.co_name, code.co_firstlineno), ()):
        if is_same_code(code, item):
            return item
    return None
