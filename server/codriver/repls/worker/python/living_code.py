"""Living code: the living functions of a file, found by the place of their code in the loaded text.

Their holders do not matter: wrappers, closures, partials, registries, mapped classes. All these functions get the code
of a new text, so that their lines are right too; nothing of the text is run. Members of an enumeration are added,
changed and removed in the living class: a member with an unchanged definition stays the same object, so that references
to it stay equal.
"""

from __future__ import annotations

import functools
import gc
import sys
import types
import weakref

from ..basics.held_definitions import ABSENT, home_of, is_class, space_of
from .bound_names import is_plain
from .python_names import attribute_dict
from .renewal import are_all, function_code, is_same_code, referring
from .statements import CLASS, GUARD, span_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Dict, List, Tuple

    from .statements import SourceText, Statement

    Pair = Tuple[Statement, Statement]

    Note = Callable[[str, Callable[[], object], Callable[[], object]], None]

    Position = Tuple[str, int]

    Codes = Dict[int, Tuple[types.CodeType, types.CodeType]]

    Rows = List[Tuple[str, str]]


MOST_WRAPPERS = 32
"""Functions that are looked at within one cache."""
EMPTY_CELL = types.CellType()
"""The cell of an unbound name; comparing with it asks no value for equality."""
CACHED = type(functools.lru_cache()(int))
NEW_LOCALS, NESTED = 0x2, 0x10
"""Flags of codes: of functions, and of those within functions. Source: `inspect.CO_NEWLOCALS`, `CO_NESTED`."""
RUNNING = {
    types.GeneratorType: ("gi_code", "generator"),
    types.CoroutineType: ("cr_code", "coroutine"),
    types.AsyncGeneratorType: ("ag_code", "generator"),
}


class FileCodes:
    """The codes of a file's text, as compiled by Python."""

    def __init__(self, text: SourceText, file: str) -> None:
        self.code: types.CodeType = compile(text.data, file, "exec", dont_inherit=True)
        self.all = list(_within(self.code))

    def in_lines(self, first: int, last: int) -> list[types.CodeType]:
        """The codes that begin in these lines, in the order of the text."""
        return [one for one in self.all if first <= one.co_firstlineno <= last]

    def of(self, node: Any) -> types.CodeType | None:
        """The code of a function's statement; None for a statement with no code, or with several."""
        position = span_of(node)[0]
        found = [one for one in self.all if one.co_name == node.name and one.co_firstlineno == position]
        return found[0] if len(found) == 1 else None


MOST_REACHED = 20_000
PLAIN = (str, bytes, int, float, complex, bool, type(None), types.ModuleType, types.CodeType, types.BuiltinFunctionType)


def reached(space: dict[str, Any]) -> Iterator[object]:
    """The objects that the names of a module hold, directly or not, up to a number; without other modules' own."""
    home, seen, level = space.get("__name__"), {id(space)}, list(space.values())
    while level and len(seen) < MOST_REACHED:
        inner: list[object] = []
        for one in level:
            kind = type(one)
            if id(one) in seen or kind in PLAIN:
                continue
            seen.add(id(one))
            yield one
            if kind is types.FunctionType:
                # Its globals are a module's.
                inner += [*(one.__closure__ or ()), *(one.__defaults__ or ()), *one.__dict__.values()]
            elif not is_class(one):
                inner += (each for each in gc.get_referents(one) if not is_class(each))
            elif home_of(one) == home:
                inner += space_of(one).values()
        level = inner


def successors(old: FileCodes, new: FileCodes, same: Iterable[Pair], changed: Iterable[Pair]) -> Codes:
    """Each code of the old text and its successor in the new text, by the old code's id.

    `same`: the statements that are in both texts, `changed` the functions that differ.
    """
    found: Codes = {}
    for one, other in same:
        if one.kind not in (CLASS, GUARD) or "lines" in one.parts:
            before, now = old.in_lines(*span_of(one.node)), new.in_lines(*span_of(other.node))
            if [code.co_name for code in before] == [code.co_name for code in now]:
                found.update((id(code), (code, heir)) for code, heir in zip(before, now))
    for one, other in changed:
        old_codes, new_codes = old.of(one.node), new.of(other.node)
        if old_codes is not None and new_codes is not None:
            _pair(old_codes, new_codes, found)
    return found


def _pair(old: types.CodeType, new: types.CodeType, found: Codes) -> None:
    """Pair two codes and, by name, their inner codes; unnamed ones if their numbers are equal."""
    found[id(old)] = old, new
    before, now = _by_name(old), _by_name(new)
    for name, codes in before.items():
        heirs = now.get(name, [])
        if len(heirs) == len(codes) or not name.startswith("<"):
            for code, heir in zip(codes, heirs):
                _pair(code, heir, found)


def _by_name(code: types.CodeType) -> dict[str, list[types.CodeType]]:
    found: dict[str, list[types.CodeType]] = {}
    for one in code.co_consts:
        if type(one) is types.CodeType:
            found.setdefault(one.co_name, []).append(one)
    return found


def _within(code: types.CodeType) -> Iterator[types.CodeType]:
    for one in code.co_consts:
        if type(one) is types.CodeType:
            yield one
            yield from _within(one)


class LiveCode:
    """The living functions of one file, and other holders of its code, at one moment.

    `space`: the names of its module, searched too if the collector tells nothing.
    """

    def __init__(self, file: str, old: FileCodes, space: dict[str, Any]) -> None:
        self._file, self._space = file, space
        self._positions: dict[Position, list[types.CodeType]] = {}
        for code in old.all:
            self._positions.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        self._functions: dict[int, list[types.FunctionType]] = {}
        self._running: dict[int, list[tuple[str, weakref.ref[Any]]]] = {}
        self._caches: list[Any] = []
        self._known: set[int] = set()
        # In the fork of a try, the collector tells no object from before.
        objects = gc.get_objects()
        self._is_whole = are_all(objects)
        self._add(objects)
        if not self._is_whole:
            self._add(reached(space))

    def _add(self, found: Iterable[Any]) -> None:
        """Take all code of the file, and all caches, each once."""
        for one in found:
            kind = type(one)
            if kind is CACHED:
                self._append(one, self._caches)
            elif kind is types.FunctionType or kind in RUNNING:
                attribute, word = RUNNING.get(kind, ("__code__", ""))
                loaded = _as_loaded(getattr(one, attribute), self._file, self._positions)
                if loaded is not None and word:
                    self._running.setdefault(id(loaded), []).append((word, weakref.ref(one)))
                elif loaded is not None:
                    self._append(one, self._functions.setdefault(id(loaded), []))

    def _append(self, one: object, among: list[Any]) -> None:
        if id(one) not in self._known:
            self._known.add(id(one))
            among.append(one)

    def functions(self, code: types.CodeType | None) -> list[types.FunctionType]:
        """The living functions that have a code of the old text."""
        return self._functions.get(id(code), [])

    def running(self, code: types.CodeType) -> list[tuple[str, weakref.ref[Any]]]:
        """The generators and coroutines that still run a code of the old text, each with the word for it."""
        return self._running.get(id(code), [])

    def renew(self, codes: Codes, note: Note) -> list[types.FunctionType]:
        """Give each living function its new code; the functions that cannot take it."""
        left = []
        if not self._is_whole and any(self._may_miss(code, heir) for code, heir in codes.values()):
            self._add(referring(self._space, CACHED))
            self._is_whole = True
        for code, heir in codes.values():
            for function in self.functions(code):
                if code.co_freevars == heir.co_freevars:
                    give(function, heir, note)
                else:
                    left.append(function)
        return left

    def _may_miss(self, code: types.CodeType, heir: types.CodeType) -> bool:
        """True if functions without a path from the module's names may have a changing code."""
        is_function = code.co_flags & NEW_LOCALS and (code.co_name[:1] != "<" or code.co_name == "<lambda>")
        if not is_function or is_same_code(code, heir):
            return False
        return bool(code.co_flags & NESTED) or not self.functions(code)

    def empty_caches(self, functions: Iterable[types.FunctionType]) -> Iterator[tuple[str, int]]:
        """Empty the caches around functions; the names of those that held values, with their numbers."""
        touched = {id(one): one for one in functions}
        for cache in self._caches if touched else ():
            inner = next((touched[id(one)] for one in _wrapped_in(cache) if id(one) in touched), None)
            size = cache.cache_info().currsize
            if inner is not None and size:
                cache.cache_clear()
                yield inner.__qualname__, size


def _wrapped_in(cache: Any) -> list[Any]:
    """The functions that a cache calls, and the functions in their wrappers, under `__wrapped__` or in a closure."""
    found = [object.__getattribute__(cache, "__dict__").get("__wrapped__")]
    for one in found:
        if type(one) is types.FunctionType and len(found) < MOST_WRAPPERS:
            cells = [cell for cell in one.__closure__ or () if cell != EMPTY_CELL]
            inner = [one.__dict__.get("__wrapped__"), *[cell.cell_contents for cell in cells]]
            known = {id(other) for other in found}
            found += [other for other in inner if type(other) is types.FunctionType and id(other) not in known]
    return found


def keeping(kind: type, name: str) -> int:
    """The number of a class' instances that keep a value under a name, as a cached property does."""
    return sum(1 for one in gc.get_objects() if issubclass(type(one), kind) and name in attribute_dict(one))


def give(function: types.FunctionType, code: types.CodeType, note: Note) -> None:
    """Give a function a code, and the code's documentation if it had its own code's before."""
    before, doc = function.__code__, function.__doc__
    is_default_doc = doc == _doc_of(before)
    function.__code__ = code
    if is_default_doc:
        function.__doc__ = _doc_of(code)

    def undo() -> None:
        function.__code__ = before
        function.__doc__ = doc

    note("", lambda: function.__code__ is code, undo)


def annotations_of(function: Any) -> tuple[str, Any]:
    """The attribute that has the annotations of a function, and its value; lazy from Python 3.14 on."""
    annotate = getattr(function, "__annotate__", None)
    return ("__annotations__", function.__annotations__) if annotate is None else ("__annotate__", annotate)


def _doc_of(code: types.CodeType) -> str | None:
    """Return the docstring that the interpreter gives to a function of this code."""
    cells = tuple(types.CellType() for _ in code.co_freevars)
    return types.FunctionType(code, {}, closure=cells).__doc__


def _as_loaded(
    code: types.CodeType, file: str, positions: dict[Position, list[types.CodeType]]
) -> types.CodeType | None:
    """The code of the loaded text for a living code."""
    code = function_code(code)
    if code.co_filename != file:
        return None
    for one in positions.get((code.co_name, code.co_firstlineno), ()):
        if is_same_code(code, one):
            return one
    return None


MAPS = ("_member_map_", "_value2member_map_")
OF_CLASS = ("_flag_mask_", "_singles_mask_", "_all_bits_", "_inverted_", "_unhashable_values_", "_hashable_values_")
"""The attributes of an enumeration made from its members. Source: CPython 3.8 to 3.13, `enum.EnumType`."""


def is_enum(kind: object) -> bool:
    """True for a class of members."""
    library: Any = sys.modules.get("enum")
    return library is not None and issubclass(type(kind), library.EnumMeta) and bool(space_of(kind)["_member_map_"])


def move_members(old: Any, new: Any, changed: Iterable[str], note: Note) -> list[str]:
    """Give a living class the members of a new one, keeping its own with an unchanged definition.

    `changed`: the names with a changed definition. The result: the names of members that are new objects.

    Raises:
        TypeError: the living class cannot take the members.
    """
    has_changed, space = frozenset(changed), space_of(old)
    before, fresh = dict(space["_member_map_"]), space_of(new)["_member_map_"]
    members: dict[str, Any] = {}
    made_by: dict[int, Any] = {}
    ids = {id(one) for one in before.values()}
    for name, member in fresh.items():
        if id(member) not in made_by:  # otherwise an alias of an earlier member
            previous = before.get(name)
            is_same = name in before and (name not in has_changed or _is_same_member(previous, member))
            if is_same and _is_same_member(previous, member):
                made_by[id(member)] = previous
            elif previous is not None and id(previous) in ids and _needs_state(previous):
                made_by[id(member)] = _with_state_of(previous, member, note)
            else:
                made_by[id(member)] = _adopted(member, old)
            ids.discard(id(previous))
        members[name] = made_by[id(member)]
    _note(old, before, note)
    _give_names(old, new, before, members)
    _fill(space["_member_map_"], members)
    values = {key: made_by.get(id(member), member) for key, member in space_of(new)["_value2member_map_"].items()}
    _fill(space["_value2member_map_"], values)
    space["_member_names_"][:] = space_of(new)["_member_names_"]
    for name in OF_CLASS:
        if name in space_of(new):
            type.__setattr__(old, name, space_of(new)[name])
    for position, name in enumerate(space["_member_names_"]):
        if "_sort_order_" in members[name].__dict__:
            members[name].__dict__["_sort_order_"] = position
    return [name for name, member in before.items() if members.get(name) is not member and _is_user_state(member)]


def _is_same_member(one: Any, other: Any) -> bool:
    """True if two members have the same value and attributes, by plain values alone."""
    states = [
        {name: value for name, value in each.__dict__.items() if name not in ("__objclass__", "_sort_order_")}
        for each in (one, other)
    ]
    return states[0].keys() == states[1].keys() and all(
        type(value) is type(states[1][name]) and (not is_plain(value) or repr(value) == repr(states[1][name]))
        for name, value in states[0].items()
    )


def _needs_state(member: Any) -> bool:
    """True if a member's value is only in its attributes, not the member itself."""
    return space_of(type(member)).get("_member_type_", object) is object


def _with_state_of(member: Any, other: Any, note: Note) -> Any:
    """The living member with the value and the attributes of another."""
    state, home = member.__dict__, member.__dict__.get("__objclass__", ABSENT)
    before = dict(state)
    note("", lambda: True, lambda: (state.clear(), state.update(before)))
    state.clear()
    state.update(other.__dict__)
    if home is not ABSENT:
        state["__objclass__"] = home
    return member


def _is_user_state(member: Any) -> bool:
    """True if something other than the names of its class holds a member."""
    name, value = member.__dict__.get("_name_"), member.__dict__.get("_value_")
    for one in gc.get_referrers(member):
        if isinstance(one, dict) and (one.get(name) is member or _is_value_map(one, value, member)):
            continue
        if isinstance(one, (types.FrameType, types.CellType)) or type(one) is type(iter({}.items())):
            continue
        if type(one) is tuple and len(one) == 2 and one[0] == name:  # of a loop over names
            continue
        return True
    return False


def _is_value_map(found: dict[Any, Any], value: Any, member: Any) -> bool:
    try:
        return found.get(value) is member
    except TypeError:  # it cannot be a key
        return False


def _adopted(member: Any, kind: Any) -> Any:
    """A member of another class, as one of this class."""
    object.__setattr__(member, "__class__", kind)
    if "__objclass__" in member.__dict__:
        member.__dict__["__objclass__"] = kind
    return member


def _give_names(old: Any, new: Any, before: dict[str, Any], members: dict[str, Any]) -> None:
    """Make attributes of a class for its members; before Python 3.11 it has none for them."""
    for name, member in before.items():
        if name in space_of(old) and members.get(name) is not member:
            type.__delattr__(old, name)
    for name, member in members.items():
        if before.get(name) is not member and name in space_of(new):
            value = space_of(new)[name]
            is_member = value is space_of(new)["_member_map_"][name]
            type.__setattr__(old, name, member if is_member else value)


def _fill(mapping: dict[Any, Any], values: dict[Any, Any]) -> None:
    mapping.clear()
    mapping.update(values)


def _note(old: Any, before: dict[str, Any], note: Note) -> None:
    """Keep the state of the class, so that it can be put back."""
    space = space_of(old)
    values, names = dict(space["_value2member_map_"]), list(space["_member_names_"])
    state = {name: space[name] for name in (*before, *OF_CLASS) if name in space}

    def undo() -> None:
        for name in set(space["_member_map_"]).difference(before):
            if name in space_of(old):
                type.__delattr__(old, name)
        for name, value in state.items():
            type.__setattr__(old, name, value)
        _fill(space["_member_map_"], before)
        _fill(space["_value2member_map_"], values)
        space["_member_names_"][:] = names

    note("", lambda: True, undo)
