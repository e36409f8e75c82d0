"""Calls of the project's own functions while something runs, recorded: which are told, and the record as JSON.

The recorders are in `call_monitor` and, for interpreters without `sys.monitoring`, in `call_profiler`.
"""

from __future__ import annotations

import os
import threading

from ..basics.error_report import is_library, is_worker
from .call_texts import HIDDEN, CallTexts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterable
    from typing import Any

    from ..basics.dialect import Dialect

    Record = list[Any]

MOST_CALLS = 10_000
"""Of one recording: 250 bytes an event, of which a call has two."""
MOST_EACH = 200
"""Calls of one function that are recorded. A bound on the whole alone would not bound the time."""
MOST_REST = 8
"""Of the arguments behind the named ones of a function of a Lisp."""
FUNCTION, PARENT, THREAD, BEGAN_NS, ENDED_NS, ARGUMENTS, RESULT, ERROR, YIELDS = range(9)
"""The places in a record. `PARENT` is the record of the caller, `ENDED_NS` is 0 while the call goes on."""
OPTIMIZED, VARIABLE, KEYWORDS = 1, 4, 8
"""Flags of a code of a function, of one that takes `*args`, and of one that takes `**kwargs`. Source: `inspect`."""
ENTERED = ("<eval ", "<ipython-input-", "<cell ")
"""Beginnings of the names of code that was entered, and is in no file."""
CELLS = os.sep + "ipykernel_"
"""Part of the paths that ipykernel gives to cells."""


class Function:
    """A function as a recording knows it, by its code. `arguments`: the names of its parameters."""

    __slots__ = (
        "arguments",
        "code",
        "count",
        "hidden",
        "is_over",
        "is_wanted",
        "makes",
        "module",
        "most",
        "name",
        "open",
    )

    def __init__(self, code: types.CodeType, module: str, name: str, *, is_wanted: bool) -> None:
        self.code, self.module, self.name, self.is_wanted = code, module, name, is_wanted
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & VARIABLE) + bool(code.co_flags & KEYWORDS)
        self.arguments = code.co_varnames[:count]
        self.hidden: frozenset[str] = frozenset()
        self.makes = code.co_name == "__init__" and bool(self.arguments)
        """True for one whose first argument is told in the place of its result: the object that it made."""
        self.count = self.open = 0
        self.most = MOST_EACH
        self.is_over = False
        """True for one that was called more often than is recorded."""


class Wanted:
    """The functions that are recorded: the project's own below `roots`, or those that `names` name.

    A name is that of a module, a class or a function, whole or from its module on; of libraries whole names alone.
    """

    def __init__(self, roots: Iterable[str], names: Iterable[str] = ()) -> None:
        self._roots = tuple(os.path.realpath(one) + os.sep for one in roots)
        # A function of a Lisp is named with a stroke behind its namespace.
        self._names = tuple([one.replace("/", ".") for one in names])
        self._is_own: dict[str, bool] = {}

    def takes(self, code: types.CodeType, module: str, name: str) -> bool:
        """True where calls of a function are recorded."""
        # The body of a class has no variables of its own.
        if code.co_name[0] == "<" or not code.co_flags & OPTIMIZED or is_worker(code.co_filename):
            return False
        is_own = self.is_own(code.co_filename)
        if not self._names:
            return is_own
        whole = f"{module}.{name}."
        return any(whole.startswith(one + ".") or (is_own and f".{one}." in f".{name}.") for one in self._names)

    def is_own(self, file: str) -> bool:
        """True where a file, as code names it, is the project's, or what somebody entered."""
        known = self._is_own.get(file)
        if known is None:
            known = file.startswith(ENTERED) or CELLS in file or self._is_in_project(file)
            self._is_own[file] = known
        return known

    def _is_in_project(self, file: str) -> bool:
        if not os.path.isabs(file) or is_library(file):
            return False
        real = os.path.realpath(file)
        root = next((one for one in self._roots if real.startswith(one)), None)
        # A hidden folder, as an environment's, holds nothing of the project's own.
        return root is not None and not any(part.startswith(".") for part in real[len(root) :].split(os.sep)[:-1])


class Recording:
    """The calls of one run. Only recorders write any. `dialect`: of the REPL that records, where it has one."""

    def __init__(self, wanted: Wanted, dialect: Dialect | None = None) -> None:
        self.wanted = wanted
        self._dialect = dialect
        self._is_lisp = dialect is not None and dialect.is_lisp
        self.texts = CallTexts(dialect.plain_printer if dialect is not None and dialect.is_lisp else None)
        self.functions: dict[int, Function] = {}
        """By the id of its code: all that were seen, wanted or not."""
        self.calls: list[Record] = []
        self.first_thread = threading.get_ident()
        self.notes: list[str] = []

    def look(self, code: types.CodeType, frame: types.FrameType) -> Function:
        """A function that is seen for the first time."""
        module = frame.f_globals.get("__name__")
        module = module if type(module) is str else ""
        name = getattr(code, "co_qualname", code.co_name)
        if self._dialect is not None:
            module, name = self._dialect.called(code, module, name)
        found = Function(code, module, name, is_wanted=name != "" and self.wanted.takes(code, module, name))
        if found.is_wanted:
            found.hidden = frozenset(one for one in found.arguments if self.texts.is_secret(one))
        self.functions[id(code)] = found
        return found

    def shown(self, function: Function, frame: types.FrameType) -> list[str]:
        """The texts of the arguments of a call that begins."""
        values, short, names = frame.f_locals, self.texts.short, function.arguments
        rest: list[str] = []
        if self._is_lisp and function.code.co_flags & VARIABLE and type(values.get(names[-1])) is tuple:
            # As they are written in a call of a Lisp, which `Function.named` of the server knows.
            rest = [HIDDEN if names[-1] in function.hidden else short(one) for one in values[names[-1]][:MOST_REST]]
            names = names[:-1]
        if function.hidden:
            return [HIDDEN if one in function.hidden else short(values[one]) for one in names if one in values] + rest
        return [short(values[one]) for one in names if one in values] + rest

    def result(self, function: Function, frame: types.FrameType, value: object) -> str:
        """The text of what a call returned."""
        return self.texts.short(frame.f_locals.get(function.arguments[0]) if function.makes else value)

    def report(self) -> dict[str, Any]:
        """All of it: `functions`, `calls` in the order in which they began, `threads` and `notes`.

        A function: module, name, file, line, parameters, calls counted, whether there were more. A call: the place of
        its function, that of its caller's call or -1, that of its thread, microseconds from the beginning, its
        duration or -1 for one that goes on, texts of arguments, result and error, and how often it yielded.
        """
        places: dict[int, int] = {}
        functions: list[list[Any]] = []
        threads, calls = {self.first_thread: 0}, list(self.calls)
        numbers = {id(call): number for number, call in enumerate(calls)}
        began = calls[0][BEGAN_NS] if calls else 0
        rows = []
        for call in calls:
            function = call[FUNCTION]
            if id(function) not in places:
                places[id(function)] = len(functions)
                code = function.code
                row = [function.module, function.name, code.co_filename, code.co_firstlineno]
                functions.append([*row, self._parameters(function), function.count, function.is_over])
            parent = call[PARENT]
            took = (call[ENDED_NS] - call[BEGAN_NS]) // 1000 if call[ENDED_NS] else -1
            place = numbers.get(id(parent), -1) if parent is not None else -1
            thread = threads.setdefault(call[THREAD], len(threads))
            row = [places[id(function)], place, thread, (call[BEGAN_NS] - began) // 1000, took]
            rows.append([*row, call[ARGUMENTS], call[RESULT], call[ERROR], call[YIELDS]])
        if self._is_lisp:
            functions, rows = _by_name(functions, rows)
        if len(calls) >= MOST_CALLS:
            self.notes.append(f"the first {MOST_CALLS:,} calls are recorded, and none after these")
        known = {one.ident: one.name for one in threading.enumerate()}
        names = [known.get(ident, f"thread {number}") for ident, number in threads.items()]
        told = {"functions": functions, "calls": rows, "threads": names, "notes": self.notes}
        return {**told, "lisp": True} if self._is_lisp else told

    def _parameters(self, function: Function) -> list[Any]:
        """The names of its parameters; of a Lisp a list of them for this arity, `&` before the rest."""
        if not self._is_lisp or self._dialect is None:
            return list(function.arguments)
        names = [self._dialect.local_name(one) or one for one in function.arguments]
        if function.code.co_flags & VARIABLE:
            names.insert(-1, "&")
        return [names]


def _by_name(functions: list[list[Any]], rows: list[Record]) -> tuple[list[list[Any]], list[Record]]:
    """Functions and calls with the arities of a function, which are several codes, as one."""
    found: dict[tuple[str, str], int] = {}
    merged: list[list[Any]] = []
    places = []
    for one in functions:
        key = (one[0], one[1])
        if key not in found:
            found[key] = len(merged)
            merged.append(one)
        else:
            known = merged[found[key]]
            known[4:] = [known[4] + one[4], known[5] + one[5], known[6] or one[6]]
        places.append(found[key])
    return merged, [[places[row[0]], *row[1:]] for row in rows]
