"""Recorded calls of the project's own functions: the choice of functions, and the record as JSON.

The recorders are in `call_monitor`. Arguments and results become short texts while the program runs: quickly, and
without running any of its code. Classes are compared by identity and read past their own attributes, as a metaclass may
answer for a class.
"""

from __future__ import annotations

import os
import re
import threading
import types

from ..basics.error_report import is_library, is_worker
from ..basics.plain_values import BITS, SECRET, name_of
from ..basics.previews import title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..basics.dialect import Dialect
    from ..basics.plain_values import PlainPrinter

    Record = list[Any]

MOST_CALLS = 10_000
"""The most calls of one recording: 250 bytes an event, two events a call."""
MOST_EACH = 200
"""Calls of one function that are recorded. A bound on the whole alone would not bound the time."""
MOST_REST = 8
"""The most arguments behind the named ones of a Lisp function."""
FUNCTION, PARENT, THREAD, START_NS, END_NS, ARGUMENTS, RESULT, ERROR, YIELDS = range(9)
"""The places in a record. `PARENT` is the record of the caller, `END_NS` is 0 while the call goes on."""
OPTIMIZED, VARIABLE, KEYWORDS = 1, 4, 8
"""Flags of codes: of a function, with `*args`, with `**kwargs`. Source: `inspect`."""
ENTERED = ("<eval ", "<ipython-input-", "<cell ")
"""Beginnings of the names of evaluated code outside of files."""
CELLS = os.sep + "ipykernel_"
"""Part of the paths that ipykernel gives to cells."""


class Function:
    """A function in a recording, known by its code. `arguments`: the names of its parameters."""

    __slots__ = (
        "arguments",
        "code",
        "count",
        "hidden",
        "is_over",
        "is_requested",
        "makes",
        "module",
        "most",
        "name",
        "open",
    )

    def __init__(self, code: types.CodeType, module: str, name: str, *, is_requested: bool) -> None:
        self.code, self.module, self.name, self.is_requested = code, module, name, is_requested
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & VARIABLE) + bool(code.co_flags & KEYWORDS)
        self.arguments = code.co_varnames[:count]
        self.hidden: frozenset[str] = frozenset()
        self.makes = code.co_name == "__init__" and bool(self.arguments)
        """Whether the first argument is told in place of the result: the object that it made."""
        self.count = self.open = 0
        self.most = MOST_EACH
        self.is_over = False
        """Whether the function was called more often than is recorded."""


class Selection:
    """The functions to record: the project's own below `roots`, or those named by `names`.

    A name is a module's, class's or function's, whole or from its module on; libraries need whole names.
    """

    def __init__(self, roots: Iterable[str], names: Iterable[str] = ()) -> None:
        self._roots = tuple(os.path.realpath(one) + os.sep for one in roots)
        # A Lisp function's name has a slash behind its namespace.
        self._names = tuple([one.replace("/", ".") for one in names])
        self._is_project: dict[str, bool] = {}

    def includes(self, code: types.CodeType, module: str, name: str) -> bool:
        """True if calls of a function are recorded."""
        # The body of a class has no variables of its own.
        if code.co_name[0] == "<" or not code.co_flags & OPTIMIZED or is_worker(code.co_filename):
            return False
        is_project_file = self.is_project_file(code.co_filename)
        if not self._names:
            return is_project_file
        whole = f"{module}.{name}."
        return any(
            whole.startswith(one + ".") or (is_project_file and f".{one}." in f".{name}.") for one in self._names
        )

    def is_project_file(self, file: str) -> bool:
        """True if a code's file is the project's, or evaluated code."""
        known = self._is_project.get(file)
        if known is None:
            known = file.startswith(ENTERED) or CELLS in file or self._is_in_project(file)
            self._is_project[file] = known
        return known

    def _is_in_project(self, file: str) -> bool:
        if not os.path.isabs(file) or is_library(file):
            return False
        real = os.path.realpath(file)
        root = next((one for one in self._roots if real.startswith(one)), None)
        # A hidden folder, such as an environment, holds nothing of the project's own.
        return root is not None and not any(part.startswith(".") for part in real[len(root) :].split(os.sep)[:-1])


class Recording:
    """The calls of one run. Only recorders write any. `dialect`: the dialect of the recording REPL, if any.

    `changed_ms` gives the time at which a load changed a function, by its code and mark, as in `Dialect`.
    """

    def __init__(
        self,
        selection: Selection,
        dialect: Dialect | None = None,
        changed_ms: Callable[[types.CodeType, int], int] = lambda *_: 0,
    ) -> None:
        self.selection = selection
        self._changed_ms = changed_ms
        self._dialect = dialect
        self._is_lisp = dialect is not None and dialect.is_lisp
        self.printer = CallPrinter(dialect.plain_printer if dialect is not None and dialect.is_lisp else None)
        self.functions: dict[int, Function] = {}
        """All functions seen, wanted or not, by the id of their code."""
        self.calls: list[Record] = []
        self.first_thread = threading.get_ident()
        self.notes: list[str] = []

    def function_of(self, code: types.CodeType, frame: types.FrameType) -> Function:
        """Take a function that is seen for the first time."""
        module = frame.f_globals.get("__name__")
        module = module if type(module) is str else ""
        name = getattr(code, "co_qualname", code.co_name)
        if self._dialect is not None:
            module, name = self._dialect.called(code, module, name)
        found = Function(code, module, name, is_requested=name != "" and self.selection.includes(code, module, name))
        if found.is_requested:
            found.hidden = frozenset(one for one in found.arguments if self.printer.is_secret(one))
        self.functions[id(code)] = found
        return found

    def printed_arguments(self, function: Function, frame: types.FrameType) -> list[str]:
        """The texts of the arguments of a call that begins."""
        values, short, names = frame.f_locals, self.printer.short, function.arguments
        rest: list[str] = []
        if self._is_lisp and function.code.co_flags & VARIABLE and type(values.get(names[-1])) is tuple:
            # In the form of a Lisp call, which the server's `Function.named` knows.
            rest = [HIDDEN if names[-1] in function.hidden else short(one) for one in values[names[-1]][:MOST_REST]]
            names = names[:-1]
        if function.hidden:
            return [HIDDEN if one in function.hidden else short(values[one]) for one in names if one in values] + rest
        return [short(values[one]) for one in names if one in values] + rest

    def result(self, function: Function, frame: types.FrameType, value: object) -> str:
        """The text of what a call returned."""
        return self.printer.short(frame.f_locals.get(function.arguments[0]) if function.makes else value)

    def report(self) -> dict[str, Any]:
        """The whole record: `functions`, `calls` in the order of their beginning, `threads` and `notes`.

        A function: module, name, file, line, parameters, calls counted, whether there were more, and, except for a
        Lisp's, the code's mark and the time of its last change by a load. A call: the place of its function, that of
        its caller's call or -1, that of its thread, microseconds from the beginning, its duration or -1 for one that
        goes on, texts of arguments, result and error, and how often it yielded.
        """
        indexes: dict[int, int] = {}
        functions: list[list[Any]] = []
        threads, calls = {self.first_thread: 0}, list(self.calls)
        numbers = {id(call): number for number, call in enumerate(calls)}
        start_ns = calls[0][START_NS] if calls else 0
        rows = []
        for call in calls:
            function = call[FUNCTION]
            if id(function) not in indexes:
                indexes[id(function)] = len(functions)
                code = function.code
                row = [function.module, function.name, code.co_filename, code.co_firstlineno]
                marks: list[int] = []
                if not self._is_lisp:  # names in a Lisp's code change at each load
                    mark = mark_of(code)
                    marks = [mark, self._changed_ms(code, mark)]
                functions.append([*row, self._parameters(function), function.count, function.is_over, *marks])
            parent = call[PARENT]
            duration_us = (call[END_NS] - call[START_NS]) // 1000 if call[END_NS] else -1
            parent_index = numbers.get(id(parent), -1) if parent is not None else -1
            thread = threads.setdefault(call[THREAD], len(threads))
            row = [indexes[id(function)], parent_index, thread, (call[START_NS] - start_ns) // 1000, duration_us]
            rows.append([*row, call[ARGUMENTS], call[RESULT], call[ERROR], call[YIELDS]])
        if self._is_lisp:
            functions, rows = _by_name(functions, rows)
        if len(calls) >= MOST_CALLS:
            self.notes.append(f"the first {MOST_CALLS:,} calls are recorded, and none after these")
        known = {one.ident: one.name for one in threading.enumerate()}
        names = [known.get(ident, f"thread {number}") for ident, number in threads.items()]
        summary = {"functions": functions, "calls": rows, "threads": names, "notes": self.notes}
        return {**summary, "lisp": True} if self._is_lisp else summary

    def _parameters(self, function: Function) -> list[Any]:
        """The names of a function's parameters; for a Lisp a list for this arity, with `&` before the rest."""
        if not self._is_lisp or self._dialect is None:
            return list(function.arguments)
        names = [self._dialect.local_name(one) or one for one in function.arguments]
        if function.code.co_flags & VARIABLE:
            names.insert(-1, "&")
        return [names]


def mark_of(code: types.CodeType) -> int:
    """A number for the behaviour of a code, independent of its place in the file."""
    import binascii

    parts = [mark_of(one) if isinstance(one, types.CodeType) else _plain(one) for one in code.co_consts]
    return binascii.crc32(code.co_code + repr((code.co_names, code.co_varnames, parts)).encode("utf-8", "replace"))


def _plain(constant: object) -> object:
    """A constant in a form that is the same in each load."""
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _by_name(functions: list[list[Any]], rows: list[Record]) -> tuple[list[list[Any]], list[Record]]:
    """Functions and calls with the arities of a function, which are several codes, as one."""
    found: dict[tuple[str, str], int] = {}
    merged: list[list[Any]] = []
    indexes = []
    for one in functions:
        key = (one[0], one[1])
        if key not in found:
            found[key] = len(merged)
            merged.append(one)
        else:
            known = merged[found[key]]
            known[4:] = [known[4] + one[4], known[5] + one[5], known[6] or one[6]]
        indexes.append(found[key])
    return merged, [[indexes[row[0]], *row[1:]] for row in rows]


CHARACTERS = 80
"""The characters of the longest text."""
SMALL_CHARACTERS = 24
"""The characters of a text within a collection."""
SHORT_CHARACTERS = 60
"""The characters kept from the beginning of a longer text."""
PARTS = 4
"""The elements of the longest collection told by its elements."""
LEVELS = 2
HIDDEN = "<not shown>"
BASES = (str, int, float, tuple, list, dict, set, frozenset, bytes)
"""Built-in classes whose value is told for instances of a derived class."""
AROUND = {list: ("[", "]"), tuple: ("(", ")"), dict: ("{", "}"), set: ("{", "}"), frozenset: ("frozenset({", "})")}
ALL = slice(None)
PLAIN: dict[type, Callable[[Any], Any]] = {
    str: str.__str__, int: int.__int__, float: float.__float__, bytes: lambda value: bytes.__getitem__(value, ALL),
}  # fmt: skip
"""The built-in value of an instance of a derived class."""
SECRET_VARIABLE = re.compile(r"_(KEY|SECRET|TOKEN|PASSWORD)$")
"""Names of environment variables whose values the server takes out of all texts, if they are whole."""
LEAST_SECRET = 6

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
space_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__


class CallPrinter:
    """The texts of one recording: `short` for a value, and `error` for an exception.

    `printer`: of a language with values of its own.
    """

    def __init__(self, printer: PlainPrinter | None = None) -> None:
        self._printer = printer
        secrets = (value for name, value in os.environ.items() if SECRET_VARIABLE.search(name.upper()))
        self._secrets = [value for value in secrets if len(value) >= LEAST_SECRET]
        self._kinds: dict[int, tuple[type, type | None, Callable[[object], Any] | None, str]] = {}
        """By the id of a class: the class, its built-in base, its instances' fields, its name."""
        self._is_secret: dict[str, bool] = {}

    def short(self, value: Any) -> str:
        """A short text of any value."""
        if self._printer is not None:
            return self._printed(value, self._printer)
        kind = type(value)
        if kind is int:
            return repr(value) if value.bit_length() < BITS else f"int of {value.bit_length()} bits"
        if kind is str or kind is bytes:
            return self._text(value, CHARACTERS, SHORT_CHARACTERS)
        if value is None or kind is bool or kind is float or kind is complex:
            return repr(value)
        try:
            if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
                return self._collection(value, kind, 0)
            return self._object(value, kind, 0)
        except RuntimeError:  # another thread changed it meanwhile
            return f"<{name_of(kind)}>"

    def _printed(self, value: Any, printer: PlainPrinter) -> str:
        """The text of a value as its language prints it."""
        if type(value) is str and len(value) > CHARACTERS:
            if any(one in value for one in self._secrets):
                return HIDDEN
            return f"{printer.text(value[:SHORT_CHARACTERS], CHARACTERS)}+{len(value) - SHORT_CHARACTERS}"
        return printer.text(value, CHARACTERS)

    def error(self, error: BaseException) -> str:
        """The class of an error with its arguments."""
        arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # past a property of the same name
        parts = [self._within(one, 1) for one in arguments[:PARTS]] if type(arguments) is tuple else []
        return _bounded(f"{name_of(type(error))}({', '.join(parts)})")

    def is_secret(self, name: str) -> bool:
        """True if a name looks like a secret's."""
        known = self._is_secret.get(name)
        if known is None:
            known = self._is_secret[name] = SECRET.search(name) is not None
        return known

    def _text(self, value: Any, most: int, short: int) -> str:
        if len(value) <= most:
            return repr(value)
        # Half of a secret would not be recognised.
        if type(value) is str and any(one in value for one in self._secrets):
            return HIDDEN
        return f"{value[:short]!r}+{len(value) - short}"

    def _within(self, value: Any, level: int) -> str:
        """The text of a value within another."""
        kind = type(value)
        if kind is str or kind is bytes:
            return self._text(value, SMALL_CHARACTERS, SMALL_CHARACTERS // 2)
        if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
            return self._collection(value, kind, level)
        if value is None or kind is int or kind is bool or kind is float or kind is complex:
            return self.short(value)
        return self._object(value, kind, level)

    def _collection(self, value: Any, base: Any, level: int) -> str:
        """A collection of a built-in class, or of one that derives from it, by its elements or by their number."""
        size = base.__len__(value)
        if size > PARTS or (size and level >= LEVELS):
            return f"{name_of(base)} of {size}"
        if not size and base is not list and base is not tuple and base is not dict:
            return f"{name_of(base)}()"
        before, after = AROUND[base]
        if base is dict:
            pairs = dict.items(value)
            parts = ", ".join([f"{self._within(key, level + 1)}: {self._named(key, one, level)}" for key, one in pairs])
        else:
            parts = ", ".join([self._within(one, level + 1) for one in base.__iter__(value)])
        text = before + parts + ("," if base is tuple and size == 1 else "") + after
        return text if len(text) <= CHARACTERS else f"{name_of(base)} of {size}"

    def _named(self, name: object, value: object, level: int) -> str:
        return HIDDEN if type(name) is str and self.is_secret(name) else self._within(value, level + 1)

    def _object(self, value: Any, kind: type, level: int) -> str:
        """An instance by its class, and its built-in value or its first fields."""
        _, base, fields, name = self._kinds.get(id(kind)) or self._reader_of(kind)
        if base is not None:
            if base in PLAIN:
                return _bounded(f"{name}({self._within(PLAIN[base](value), level)})")
            text = self._collection(value, base, level + 1)
            return _bounded(f"{name}{text}" if text[0] == "(" else f"{name}({text})")
        found = fields(value) if fields is not None and level < LEVELS - 1 else None
        if type(found) is not dict or not found:
            return title_of(value) or f"<{name}>"
        names = [key for key in list(found)[: PARTS + 1] if type(key) is str]
        parts = [f"{key}={self._named(key, found.get(key), level)}" for key in names[:PARTS]]
        text = f"{name}({', '.join(parts)}{', …' if len(names) > PARTS else ''})"
        return text if len(text) <= CHARACTERS else f"<{name}>"

    def _reader_of(self, kind: type) -> tuple[type, type | None, Callable[[object], Any] | None, str]:
        bases = mro_of(kind)
        base = next((one for one in BASES if any(one is other for other in bases)), None)
        fields: Callable[[object], Any] | None = None
        for one in bases:
            found = space_of(one).get("__dict__")
            if type(found) is types.GetSetDescriptorType:
                fields = found.__get__
                break
        # A module, a class or a function is told by its name: their fields are code.
        if kind is types.ModuleType or kind is types.FunctionType or any(one is type for one in bases):
            fields = None
        known = self._kinds[id(kind)] = kind, base, fields, name_of(kind)
        return known


def _bounded(text: str) -> str:
    return text if len(text) <= 2 * CHARACTERS else text[: 2 * CHARACTERS] + "…"
