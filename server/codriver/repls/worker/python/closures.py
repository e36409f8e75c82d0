"""Closures: functions that a function has made, which live on when that one is loaded again.

They are found by their code, which is among the constants of the function that made them.
"""

from __future__ import annotations

import gc
import types
import weakref

from .code_comparison import is_same_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Note = Callable[[str, Callable[[], bool], Callable[[], None]], None]
    """Keeps a change: its name, whether it still holds, and what takes it back."""
    Path = tuple[tuple[str, int], ...]


class FormerClosures:
    """The closures of former loads that could not be given the code of the new one, as long as they live."""

    def __init__(self) -> None:
        self._known: list[tuple[str, str, weakref.ref[types.FunctionType]]] = []

    def add(self, module: str, name: str, closure: types.FunctionType) -> None:
        """Remember a closure that a function of that name, methods by a dotted one, has made."""
        self._known.append((module, name, weakref.ref(closure)))

    def counts(self, modules: dict[str, tuple[types.ModuleType, str]]) -> Iterator[tuple[types.ModuleType, str, int]]:
        """The number of closures that a function would not make so now, by module and function."""
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
    """Give the closures of functions, by name the old one and the new, the code that the new ones give theirs.

    How many were given it by the name of their function, and those that cannot have it: they enclose other variables,
    or there is none of their name. To be called while the old functions have their code. Each change goes to `note`.
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
        for one in gc.get_referrers(*[code for code, _, _ in codes.values()]):
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
    """The codes within a code, by their names and which of that name each is."""
    seen: dict[str, int] = {}
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            number = seen[one.co_name] = seen.get(one.co_name, -1) + 1
            own = (*path, (one.co_name, number))
            yield own, one
            yield from _nested(one, own)


def _is_current(module: types.ModuleType, name: str, closure: types.FunctionType) -> bool:
    """Whether the function of that name would make such a closure now."""
    maker: Any = module.__dict__.get(name.partition(".")[0])
    if "." in name:
        maker = type.__dict__["__dict__"].__get__(maker).get(name.rpartition(".")[2]) if type(maker) is type else None
    maker = getattr(maker, "__func__", maker)
    if type(maker) is not types.FunctionType:
        return False
    codes = (code for _, code in _nested(maker.__code__) if code.co_name == closure.__code__.co_name)
    return any(is_same_code(closure.__code__, code) for code in codes)
