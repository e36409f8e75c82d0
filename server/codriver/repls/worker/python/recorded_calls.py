"""Record calls to the project's functions: select the functions, and return the recorded calls as JSON.

`call_monitor` and `call_profiler` define the recorders. Arguments and results are converted to short texts while the
program is running. This must be fast and not run any of the program's code. Classes are compared by identity and their
attributes are read without their metaclass, which may override attribute access.
"""

from __future__ import annotations

import os
import re
import threading
import types

from ..basics.error_report import is_library_file, is_worker_file
from ..basics.plain_values import MAX_INTEGER_BITS, SECRET_NAME_PATTERN, class_name
from ..basics.previews import describe_shape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..basics.dialect import Dialect
    from ..basics.plain_values import PlainPrinter

    Record = list[Any]

MAX_RECORDED_CALLS = 10_000
"""Maximum number of recorded calls. A call has two events of about 250 bytes each."""
MAX_CALLS_PER_FUNCTION = 200
"""Maximum number of recorded calls to each function.

It keeps the recording from slowing down a function that is called often, which a limit on the total would not do.
"""
MAX_EXTRA_ARGUMENTS = 8
"""Maximum number of extra arguments of a Lisp function that are recorded."""
FUNCTION, PARENT, THREAD, START_NS, END_NS, ARGUMENTS, RESULT, ERROR, YIELDS = range(9)
"""The indexes of the fields in the record of a call.

The field `PARENT` is the record of the caller, and `END_NS` is 0 until the call ends.
"""
OPTIMIZED, VARIABLE, KEYWORDS = 1, 4, 8
"""Code flags of functions, and of functions with `*args` or `**kwargs`. Source: `inspect`."""
EVALUATED_PREFIXES = ("<eval ", "<ipython-input-", "<cell ")
"""Prefixes of pseudo file names for evaluated code."""
CELL_PATH_PART = os.sep + "ipykernel_"
"""Part of the paths that ipykernel assigns to cells."""


class Function:
    """A function in a recording, identified by its code object. `arguments` are the names of its parameters."""

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
        """Whether to record the first argument instead of the result, because this is `__init__`."""
        self.count = self.open = 0
        self.most = MAX_CALLS_PER_FUNCTION
        self.is_over = False
        """Whether some calls were not recorded because there were too many."""


class Selection:
    """The functions to record: the project's functions below `roots`, or the functions that match `names`.

    A name matches a module, class or function, and can start at any level within a module. Names in libraries must
    start with the module.
    """

    def __init__(self, roots: Iterable[str], names: Iterable[str] = ()) -> None:
        self._roots = tuple(os.path.realpath(root) + os.sep for root in roots)
        # Convert names of Lisp functions, which have a slash after the namespace.
        self._names = tuple([name.replace("/", ".") for name in names])
        self._is_project: dict[str, bool] = {}

    def includes(self, code: types.CodeType, module: str, name: str) -> bool:
        """Return whether calls to a function are recorded."""
        # The body of a class has no local variables.
        if code.co_name[0] == "<" or not code.co_flags & OPTIMIZED or is_worker_file(code.co_filename):
            return False
        is_project_file = self.is_project_file(code.co_filename)
        if not self._names:
            return is_project_file
        whole = f"{module}.{name}."
        return any(
            whole.startswith(item + ".") or (is_project_file and f".{item}." in f".{name}.") for item in self._names
        )

    def is_project_file(self, file: str) -> bool:
        """Return whether a code object's file belongs to the project, or the code was evaluated."""
        known = self._is_project.get(file)
        if known is None:
            known = file.startswith(EVALUATED_PREFIXES) or CELL_PATH_PART in file or self._is_in_project(file)
            self._is_project[file] = known
        return known

    def _is_in_project(self, file: str) -> bool:
        if not os.path.isabs(file) or is_library_file(file):
            return False
        real = os.path.realpath(file)
        root = next((item for item in self._roots if real.startswith(item)), None)
        # Hidden directories, such as virtual environments, do not contain the project's code.
        return root is not None and not any(part.startswith(".") for part in real[len(root) :].split(os.sep)[:-1])


class Recording:
    """The calls recorded during one run. Only recorders modify it.

    `dialect` is the dialect of the recording REPL, if any. `changed_ms` takes the code and mark of a function and
    returns when a load last changed the function, like `Dialect.last_changed_ms`.
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
        """All functions that were called, whether recorded or not, by the id of their code object."""
        self.calls: list[Record] = []
        self.first_thread = threading.get_ident()
        self.notes: list[str] = []

    def register_function(self, code: types.CodeType, frame: types.FrameType) -> Function:
        """Register a function when it is called for the first time."""
        module = frame.f_globals.get("__name__")
        module = module if type(module) is str else ""
        name = getattr(code, "co_qualname", code.co_name)
        if self._dialect is not None:
            module, name = self._dialect.name_for_recording(code, module, name)
        found = Function(code, module, name, is_requested=name != "" and self.selection.includes(code, module, name))
        if found.is_requested:
            found.hidden = frozenset(argument for argument in found.arguments if self.printer.is_secret(argument))
        self.functions[id(code)] = found
        return found

    def format_arguments(self, function: Function, frame: types.FrameType) -> list[str]:
        """Format the arguments of a call that is starting."""
        values, short, names = frame.f_locals, self.printer.short_text, function.arguments
        rest: list[str] = []
        if self._is_lisp and function.code.co_flags & VARIABLE and type(values.get(names[-1])) is tuple:
            # Use the form of a Lisp call, as `Function.pair_with_parameters` in the server expects.
            rest = [
                HIDDEN_TEXT if names[-1] in function.hidden else short(value)
                for value in values[names[-1]][:MAX_EXTRA_ARGUMENTS]
            ]
            names = names[:-1]
        if function.hidden:
            return [
                HIDDEN_TEXT if name in function.hidden else short(values[name]) for name in names if name in values
            ] + rest
        return [short(values[name]) for name in names if name in values] + rest

    def result(self, function: Function, frame: types.FrameType, value: object) -> str:
        """Format the result of a call. For a call to `__init__`, this is the new object."""
        return self.printer.short_text(frame.f_locals.get(function.arguments[0]) if function.makes else value)

    def report(self) -> dict[str, Any]:
        """Return the recording: `functions`, `calls` in the order in which they started, `threads` and `notes`.

        Each function has its module, name, file, line, parameters, number of recorded calls, and whether there were
        more calls. Except in Lisp, it also has the mark of its code and the time when a load last changed it. Each call
        has the index of its function, the index of the caller's call or -1, the index of its thread, its start in
        microseconds, its duration or -1 if it has not ended, the texts of the arguments, result and error, and how
        often it yielded.
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
                if not self._is_lisp:  # names in Lisp code change with each load
                    mark = code_mark(code)
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
        if len(calls) >= MAX_RECORDED_CALLS:
            self.notes.append(f"only the first {MAX_RECORDED_CALLS:,} calls are recorded")
        known = {item.ident: item.name for item in threading.enumerate()}
        names = [known.get(ident, f"thread {number}") for ident, number in threads.items()]
        summary = {"functions": functions, "calls": rows, "threads": names, "notes": self.notes}
        return {**summary, "lisp": True} if self._is_lisp else summary

    def _parameters(self, function: Function) -> list[Any]:
        """Return the names of a function's parameters.

        In Lisp, this is a list with one vector for this arity, with `&` before the rest parameter.
        """
        if not self._is_lisp or self._dialect is None:
            return list(function.arguments)
        names = [self._dialect.source_name(argument) or argument for argument in function.arguments]
        if function.code.co_flags & VARIABLE:
            names.insert(-1, "&")
        return [names]


def code_mark(code: types.CodeType) -> int:
    """Return a number that identifies the behavior of a code object, independent of its position in the file."""
    import binascii

    parts = [code_mark(const) if isinstance(const, types.CodeType) else _plain(const) for const in code.co_consts]
    return binascii.crc32(code.co_code + repr((code.co_names, code.co_varnames, parts)).encode("utf-8", "replace"))


def _plain(constant: object) -> object:
    """Convert a constant to a form that is the same after each load."""
    return sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant


def _by_name(functions: list[list[Any]], rows: list[Record]) -> tuple[list[list[Any]], list[Record]]:
    """Merge the arities of each Lisp function, which are separate code objects, in the lists of functions and calls."""
    found: dict[tuple[str, str], int] = {}
    merged: list[list[Any]] = []
    indexes = []
    for function in functions:
        key = (function[0], function[1])
        if key not in found:
            found[key] = len(merged)
            merged.append(function)
        else:
            known = merged[found[key]]
            known[4:] = [known[4] + function[4], known[5] + function[5], known[6] or function[6]]
        indexes.append(found[key])
    return merged, [[indexes[row[0]], *row[1:]] for row in rows]


MAX_TEXT_CHARACTERS = 80
"""Maximum length of a string that is not inside a collection."""
MAX_NESTED_CHARACTERS = 24
"""Maximum length of a string inside a collection."""
TEXT_PREFIX_CHARACTERS = 60
"""Number of characters included from the start of a longer text."""
MAX_PARTS = 4
"""Maximum number of elements of a collection that is printed in full."""
MAX_LEVELS = 2
"""Maximum nesting of collections that are printed."""
HIDDEN_TEXT = "<not shown>"
"""The text that replaces a secret."""
PRINTED_BASE_CLASSES = (str, int, float, tuple, list, dict, set, frozenset, bytes)
"""Built-in classes whose subclass instances are also printed with their built-in value."""
BRACKETS_BY_TYPE = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
}
WHOLE_SLICE = slice(None)
BUILTIN_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    str: str.__str__, int: int.__int__, float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, WHOLE_SLICE),
}  # fmt: skip
"""For each built-in class, a function that converts an instance of a subclass to that class."""
SECRET_VARIABLE_PATTERN = re.compile(r"_(KEY|SECRET|TOKEN|PASSWORD)$")
"""Matches the names of environment variables whose values the server removes from all output.

The server only recognizes complete values, so they must not be truncated.
"""
MIN_SECRET_CHARACTERS = 6
"""Minimum length of a value that is treated as a secret."""

mro_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
space_of: Callable[[type], Any] = type.__dict__["__dict__"].__get__


class CallPrinter:
    """Converts values to short texts for one recording. `printer` is the printer of a Lisp dialect."""

    def __init__(self, printer: PlainPrinter | None = None) -> None:
        self._printer = printer
        secrets = (value for name, value in os.environ.items() if SECRET_VARIABLE_PATTERN.search(name.upper()))
        self._secrets = [value for value in secrets if len(value) >= MIN_SECRET_CHARACTERS]
        self._kinds: dict[int, tuple[type, type | None, Callable[[object], Any] | None, str]] = {}
        """For the id of each class: the class, its built-in base, a getter of its instances' attributes, and its name.
        """
        self._is_secret: dict[str, bool] = {}

    def short_text(self, value: Any) -> str:
        """Return a short text for any value."""
        if self._printer is not None:
            return self._lisp_text(value, self._printer)
        kind = type(value)
        if kind is int:
            return repr(value) if value.bit_length() < MAX_INTEGER_BITS else f"int of {value.bit_length()} bits"
        if kind is str or kind is bytes:
            return self._text(value, MAX_TEXT_CHARACTERS, TEXT_PREFIX_CHARACTERS)
        if value is None or kind is bool or kind is float or kind is complex:
            return repr(value)
        try:
            if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
                return self._collection_text(value, kind, 0)
            return self._object_text(value, kind, 0)
        except RuntimeError:  # another thread was changing it at the same time
            return f"<{class_name(kind)}>"

    def _lisp_text(self, value: Any, printer: PlainPrinter) -> str:
        """Format a value as in Lisp."""
        if type(value) is str and len(value) > MAX_TEXT_CHARACTERS:
            if any(secret in value for secret in self._secrets):
                return HIDDEN_TEXT
            prefix = printer.text(value[:TEXT_PREFIX_CHARACTERS], MAX_TEXT_CHARACTERS)
            return f"{prefix}+{len(value) - TEXT_PREFIX_CHARACTERS}"
        return printer.text(value, MAX_TEXT_CHARACTERS)

    def error(self, error: BaseException) -> str:
        """Format an error as its class with its arguments."""
        arguments = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # even if a property overrides it
        parts = (
            [self._nested_text(argument, 1) for argument in arguments[:MAX_PARTS]] if type(arguments) is tuple else []
        )
        return _truncate(f"{class_name(type(error))}({', '.join(parts)})")

    def is_secret(self, name: str) -> bool:
        """Return whether a name suggests that its value is a secret."""
        known = self._is_secret.get(name)
        if known is None:
            known = self._is_secret[name] = SECRET_NAME_PATTERN.search(name) is not None
        return known

    def _text(self, value: Any, most: int, short: int) -> str:
        if len(value) <= most:
            return repr(value)
        # The server would not recognize part of a secret.
        if type(value) is str and any(secret in value for secret in self._secrets):
            return HIDDEN_TEXT
        return f"{value[:short]!r}+{len(value) - short}"

    def _nested_text(self, value: Any, level: int) -> str:
        """Format a value that is part of another value."""
        kind = type(value)
        if kind is str or kind is bytes:
            return self._text(value, MAX_NESTED_CHARACTERS, MAX_NESTED_CHARACTERS // 2)
        if kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
            return self._collection_text(value, kind, level)
        if value is None or kind is int or kind is bool or kind is float or kind is complex:
            return self.short_text(value)
        return self._object_text(value, kind, level)

    def _collection_text(self, value: Any, base: Any, level: int) -> str:
        """Format a collection with its elements. If there are too many, give their number instead.

        It may be an instance of a subclass of a built-in class.
        """
        size = base.__len__(value)
        if size > MAX_PARTS or (size and level >= MAX_LEVELS):
            return f"{class_name(base)} of {size}"
        if not size and base is not list and base is not tuple and base is not dict:
            return f"{class_name(base)}()"
        before, after = BRACKETS_BY_TYPE[base]
        if base is dict:
            pairs = dict.items(value)
            parts = ", ".join(
                [f"{self._nested_text(key, level + 1)}: {self._named_text(key, item, level)}" for key, item in pairs]
            )
        else:
            parts = ", ".join([self._nested_text(item, level + 1) for item in base.__iter__(value)])
        text = before + parts + ("," if base is tuple and size == 1 else "") + after
        return text if len(text) <= MAX_TEXT_CHARACTERS else f"{class_name(base)} of {size}"

    def _named_text(self, name: object, value: object, level: int) -> str:
        """Format a named value, unless the name suggests a secret."""
        return HIDDEN_TEXT if type(name) is str and self.is_secret(name) else self._nested_text(value, level + 1)

    def _object_text(self, value: Any, kind: type, level: int) -> str:
        """Format an instance as its class with its built-in value or its first attributes."""
        _, base, fields, name = self._kinds.get(id(kind)) or self._find_reader(kind)
        if base is not None:
            if base in BUILTIN_CONVERTERS:
                return _truncate(f"{name}({self._nested_text(BUILTIN_CONVERTERS[base](value), level)})")
            text = self._collection_text(value, base, level + 1)
            return _truncate(f"{name}{text}" if text[0] == "(" else f"{name}({text})")
        found = fields(value) if fields is not None and level < MAX_LEVELS - 1 else None
        if type(found) is not dict or not found:
            return describe_shape(value) or f"<{name}>"
        names = [key for key in list(found)[: MAX_PARTS + 1] if type(key) is str]
        parts = [f"{key}={self._named_text(key, found.get(key), level)}" for key in names[:MAX_PARTS]]
        text = f"{name}({', '.join(parts)}{', …' if len(names) > MAX_PARTS else ''})"
        return text if len(text) <= MAX_TEXT_CHARACTERS else f"<{name}>"

    def _find_reader(self, kind: type) -> tuple[type, type | None, Callable[[object], Any] | None, str]:
        """Determine how instances of a class are formatted, and cache the result.

        The result has the class, its built-in base, a function that reads its attributes, and its name.
        """
        bases = mro_of(kind)
        base = next((item for item in PRINTED_BASE_CLASSES if any(item is other for other in bases)), None)
        fields: Callable[[object], Any] | None = None
        for item in bases:
            found = space_of(item).get("__dict__")
            if type(found) is types.GetSetDescriptorType:
                fields = found.__get__
                break
        # Modules, classes and functions are displayed by name, because their attributes are code.
        if kind is types.ModuleType or kind is types.FunctionType or any(item is type for item in bases):
            fields = None
        known = self._kinds[id(kind)] = kind, base, fields, class_name(kind)
        return known


def _truncate(text: str) -> str:
    """Truncate a string to twice the maximum length."""
    return text if len(text) <= 2 * MAX_TEXT_CHARACTERS else text[: 2 * MAX_TEXT_CHARACTERS] + "…"
