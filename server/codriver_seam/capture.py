"""Captures: calls of a function, or executions of a line, recorded as events with their variables.

The application is never stopped or delayed. Values are converted to text immediately, judging only by their types. A
condition compares variables with literals. It is parsed, and never evaluated as code. Conditions and values that fail
are counted, and their errors never reach the application. A capture ends when it is unsubscribed, or after enough
events.
"""

from __future__ import annotations

import ast
import dis
import itertools
import operator
import os
import sys
import time
import types

from .copies import BuiltinMonitor, CopyingMonitor, codes_in, find_functions, parameters_of
from .recording import LISP, FormattedText, Plain, comparable, emit, fields_of, is_reading, seam
from .values import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .recording import Json

    Test = Callable[[Mapping[str, Any]], bool]


KEYS = ("of", "when", "pred", "hits")
"""The keys that a request for a capture may have."""
HITS, MOST = 50, 1000
"""The default and maximum number of events that a capture reports."""
VARIABLES, VALUE = 1000, 300
"""Maximum length of the variables in an event, and of its result."""
OUTCOMES = ("result", "raised")
"""Names that conditions can use for the result of a call and for the class of its exception."""


class Target:
    """The target of a capture: `module:function`, `module:Class.method`, `file:line` or Basilisp's `ns/fn`.

    Raises:
        Refusal: the function or line does not exist.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.function: types.FunctionType | None = None
        self.line: int | None = None
        before, colon, after = text.rpartition(":")
        if not colon and "/" in text:
            self.function = _function_in(_lisp_var_value(*text.split("/", 1)), text)
            self.codes = [self.function.__code__]
            return
        if not colon or not before or not after:
            raise Refusal(
                "path-not-found", f"of must be module:function, module:Class.method, ns/fn or file:line, not {text!r}"
            )
        if after.isdigit():
            self.codes = self._at(before, int(after))
        else:
            self.function = self._named(before, after)
            self.codes = [self.function.__code__]

    @property
    def code(self) -> types.CodeType:
        """Return the code of the target. If its file was loaded several times, return the first one."""
        return self.codes[0]

    @property
    def position(self) -> str:
        """Return the file and line of the target."""
        return f"{self.code.co_filename}:{self.line or self.code.co_firstlineno}"

    @property
    def name(self) -> str:
        """Return the qualified name of the target's function."""
        return str(getattr(self.function, "__qualname__", getattr(self.code, "co_qualname", self.code.co_name)))

    def _named(self, module: str, name: str) -> types.FunctionType:
        """Return the function with a qualified name in a loaded module."""
        value: Any = sys.modules.get(module)
        if value is None:
            like = [loaded for loaded in sorted(sys.modules) if loaded.rpartition(".")[2] == module.rpartition(".")[2]][
                :5
            ]
            hint = f"; loaded are {', '.join(like)}" if like else "; what is not loaded is not captured"
            raise Refusal("path-not-found", f"no module {module} is loaded{hint}")
        for step in name.split("."):
            candidates = [vars(owner)[step] for owner in _owners(value) if step in vars(owner)]
            if not candidates:
                raise Refusal("path-not-found", f"{module} has no {name}: there is no {step}")
            value = candidates[0]
        return _function_in(value, name)

    def _at(self, file: str, line: int) -> list[types.CodeType]:
        """Return the code of the innermost function around a line. The line of its `def` selects its calls."""
        ending = "/" + file.replace(os.sep, "/").lstrip("./")
        all_codes = {id(function.__code__): function.__code__ for function in find_functions(lambda _: True)}
        codes = [code for code in all_codes.values()
                 if ("/" + code.co_filename.replace(os.sep, "/")).endswith(ending)]  # fmt: skip
        files = sorted({code.co_filename for code in codes})
        if len(files) != 1:
            words = f"several files end with it: {', '.join(files[:5])}" if files else "no function of it is loaded"
            raise Refusal("path-not-found", f"{file}: {words}")
        every = {id(inner): inner for code in codes for inner in codes_in(code)}.values()
        around = [code for code in every if code.co_firstlineno <= line <= _last_line(code)]
        if not around:
            raise Refusal("path-not-found", f"line {line} of {file} is not in any loaded function")
        first = max(code.co_firstlineno for code in around)
        found = [code for code in around if code.co_firstlineno == first and code.co_flags & 0x2]
        lines = sorted(
            {number for code in found for _, number in dis.findlinestarts(code) if number and number > first}
        )
        if line == first or (lines and line < lines[0]):
            return found
        if line not in lines:
            near = [number for number in lines if abs(number - line) <= 5]
            raise Refusal(
                "path-not-found", (f"no code starts on line {line} of {file}, but code starts on {near or lines[:10]}")
            )
        self.line = line
        return found


def _lisp_var_value(namespace: str, name: str) -> Any:
    """Return the value of a Basilisp var."""
    runtime, symbols = (sys.modules.get(f"basilisp.lang.{name}") for name in ("runtime", "symbol"))
    found: Any = runtime.Namespace.get(symbols.symbol(namespace)) if runtime and symbols else None
    var = found.find(symbols.symbol(name)) if found and symbols else None
    if var is None:
        raise Refusal(
            "path-not-found", (f"there is no var {namespace}/{name}; for a Python function, use module:function")
        )
    return var.value


def _owners(value: Any) -> tuple[Any, ...]:
    """Return the objects that may hold an attribute of a value: the class and its bases, or the value itself."""
    return tuple(type.mro(value)) if isinstance(value, type) else (value,)


def _function_in(value: Any, name: str) -> types.FunctionType:
    """Return the function inside a decorated function, a method or a property."""
    for _ in range(20):
        if type(value) is types.FunctionType and "__wrapped__" not in vars(value):
            return value
        inner: Any = None
        for step in ("__wrapped__", "__func__", "fget", "func"):
            inner = inner if inner is not None else getattr(value, step, None) if not isinstance(value, type) else None
        if inner is None:
            break
        value = inner
    what = f"the class {name}: name one of its methods, such as {name}.__init__" if isinstance(value, type) else (
        f"a {type(value).__name__}, which has no Python code")  # fmt: skip
    raise Refusal("path-not-found", f"{name} is {what}")


def _last_line(code: types.CodeType) -> int:
    return max([line for inner in codes_in(code) for _, line in dis.findlinestarts(inner) if line] or [0])


class Capture:
    """A capture, until it is stopped or has reported the requested number of events.

    It implements `copies.Listener`.
    """

    def __init__(self, identity: str, request: Json) -> None:
        self.id, self.target = identity, Target(str(request.get("of")))
        self.line, self.is_over = self.target.line, False
        self.hits = self.failed = 0
        self.failure = ""
        """The message of the first condition that failed."""
        self._most = max(1, min(int(request.get("hits") or HITS), MOST))
        self._numbers = itertools.count(1)
        self._condition = Condition(str(request["when"])) if request.get("when") else None
        self._predicate = _predicate(request.get("pred"))
        self._names = frozenset(parameters_of(self.target.code))
        self._is_at_entry = self._condition is None or self._names.issuperset(self._condition.names)
        self._check_names()
        self._undo: list[Callable[[], None]] = []
        self.description: Json = {}
        """The description of the capture for the caller that started it."""

    def start(self) -> None:
        """Start capturing.

        Raises:
            Refusal: the target cannot be captured in this version of Python.
        """
        way = _way()
        description: Json = {"of": self.target.name, "at": self.target.position, "hits": self._most, "how": way.how}
        try:
            for code in self.target.codes:
                self._undo.append(way.listen(code, self))
        except Refusal:
            if self.target.function is None or isinstance(way, BuiltinMonitor):
                self.stop()
                raise
            self._undo.append(way.relay(self.target.function, self))
            description["how"] = "wrapped, because its source is not available"
        running = _running(self.target.codes) if isinstance(way, CopyingMonitor) else 0
        if running:
            description["missed"] = f"calls that are already running ({running}), because Python is older than 3.12"
        self.description = description

    def stop(self) -> None:
        """Stop capturing, and restore the application's code."""
        self.is_over = True
        while self._undo:
            self._undo.pop()()

    def _check_names(self) -> None:
        """Check that the condition uses only variables of the target.

        Raises:
            Refusal: it uses another one.
        """
        code = self.target.code
        known = {*code.co_varnames, *code.co_cellvars, *code.co_freevars, *(OUTCOMES if self.line is None else ())}
        strange = [name for name in (self._condition.names if self._condition else ()) if name not in known]
        if strange:
            raise Refusal("path-not-found",(
                f"{self.target.name} has no variable {strange[0]}; its variables are {', '.join(sorted(known))}"
            ))  # fmt: skip

    def row(self) -> Json:
        """Return the description of the capture for a list."""
        description: Json = {"of": self.target.name, "hits": self.hits, "left": self._most - self.hits}
        if self._is_replaced():
            description["replaced"] = "it was redefined: start a new capture"
        return {**description, **({"failed": self.failed, "why": self.failure} if self.failed else {})}

    def _is_replaced(self) -> bool:
        """Return whether the name refers to another function after its module was loaded again."""
        try:
            now = Target(self.target.text).function if self.target.function is not None else None
        except Refusal:
            return True
        return now is not None and not self.is_over and not _way().hears(now)

    # On the application's threads

    def begin(self, values: Any, caller: Any) -> Any:
        """Record the start of a call.

        Return the time, the arguments and the caller's position, or None to ignore the call.
        """
        if self.is_over or is_reading.get():
            return None
        try:
            if self._is_at_entry and not self._is_satisfied(values):
                return None
            variables = [(name, values[name]) for name in parameters_of(self.target.code) if name in values]
            return time.perf_counter(), f"({Plain(VARIABLES).named(variables)})", _position_of(caller)
        except Exception as error:  # noqa: BLE001  # must not affect the application
            self._fail(error)
            return None

    def end(self, state: Any, word: str, value: Any, values: Callable[[], Any]) -> None:
        """Report a call that has ended, if the condition holds.

        `state` is the result of `begin`. `word` is `result` or `raised`, and `value` is the result or the exception.
        """
        if self.is_over or is_reading.get():
            return
        try:
            if not self._is_at_entry:
                outcome = {word: type(value).__name__ if word == "raised" else value}
                if not self._is_satisfied({**dict.fromkeys(OUTCOMES), **values(), **outcome}):
                    return
            text = Plain(VALUE).raised(value) if word == "raised" else Plain(VALUE).text(value)
            ms = round((time.perf_counter() - state[0]) * 1000, 3)
            self._emit(ms, {"args": state[1], word: text, "from": state[2]})
        except Exception as error:  # noqa: BLE001  # must not affect the application
            self._fail(error)

    def at(self, values: Any, caller: Any) -> None:
        """Report a line that is about to run, if the condition holds."""
        if self.is_over or is_reading.get():
            return
        try:
            if self._is_satisfied(values):
                variables = [(name, value) for name, value in dict(values).items() if name.isidentifier()]
                self._emit(None, {"locals": f"({Plain(VARIABLES).named(variables)})", "from": _position_of(caller)})
        except Exception as error:  # noqa: BLE001  # must not affect the application
            self._fail(error)

    def _is_satisfied(self, values: Mapping[str, Any]) -> bool:
        """Return whether the condition and the predicate hold for these variables."""
        if self._condition is not None and not self._condition.is_satisfied(values):
            return False
        if self._predicate is None:
            return True
        token = is_reading.set(True)
        try:
            about = {"opType": "call", "operation": self.target.name, "locals": dict(values)}
            return bool(self._predicate(about))
        finally:
            is_reading.reset(token)

    def _emit(self, ms: float | None, tags: dict[str, str]) -> None:
        """Emit an event for a hit, unless enough were emitted before."""
        number = next(self._numbers)
        if number > self._most:
            self.is_over = True
            return
        self.hits = number
        facts: dict[str, Any] = {name: FormattedText(text) for name, text in tags.items() if text}
        is_last = number == self._most
        if is_last:
            facts["ended"] = f"{number} hits"
        emit("call", self.target.name, source=self.id, ms=ms, **facts)
        # Set this last, because the writer ends a capture that is over and has no queued events.
        self.is_over = self.is_over or is_last

    def _fail(self, error: Exception) -> None:
        """Count a condition that failed, and store the first error."""
        self.failed += 1
        if not self.failure:
            self.failure = Plain(VALUE).raised(error)


def _predicate(name: object) -> Callable[[Json], Any] | None:
    """Return the registered predicate with this name, or None without a name.

    Raises:
        Refusal: no predicate has this name.
    """
    if name is None:
        return None
    test = seam.predicates.get(str(name))
    if test is None:
        raise Refusal(
            "no-such-predicate", (f"there is no such predicate; registered are: {', '.join(seam.predicates) or 'none'}")
        )
    return test


def _running(codes: list[types.CodeType]) -> int:
    """Return the number of running calls of these code objects in all threads."""
    count = 0
    for frame in [*sys._current_frames().values()]:  # noqa: SLF001  # there is no public API
        current: Any = frame
        while current is not None:
            count += current.f_code in codes
            current = current.f_back
    return count


def _position_of(frame: Any) -> str:
    """Return the position of a caller."""
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _way() -> BuiltinMonitor | CopyingMonitor:
    """Return how this process listens to functions, deciding it on first use."""
    if seam.way is None:
        seam.way = BuiltinMonitor() if BuiltinMonitor.is_free() else CopyingMonitor()
    found: BuiltinMonitor | CopyingMonitor = seam.way
    return found


CONDITION_SYNTAX = "a comparison of a variable with a literal, such as total > 100, or several with and, or"
"""Describes the syntax of conditions in messages."""
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda value, many: value in many, ast.NotIn: lambda value, many: value not in many,
}  # fmt: skip
"""The comparisons in conditions."""


class Condition:
    """A condition on variables, such as `order.total > 100 and status in ("new", "paid")`.

    Attributes are those stored in an object itself. Items are those of lists, tuples, dicts and Basilisp's maps, whose
    keywords are written as strings.

    Raises:
        Refusal: the text is not such a condition.
    """

    def __init__(self, text: str) -> None:
        self.names: dict[str, None] = {}
        """The names of the variables in the condition."""
        try:
            self._test = self._read(ast.parse(text.strip(), mode="eval").body)
        except (ValueError, KeyError, TypeError, SyntaxError, MemoryError, RecursionError):
            raise Refusal("accessor-failed", f"when must be {CONDITION_SYNTAX}; {text[:80]!r} is not") from None

    def is_satisfied(self, values: Mapping[str, Any]) -> bool:
        """Return whether the condition holds for these variables.

        Raises:
            LookupError: a variable, an attribute or an item is missing.
            TypeError: the compared values are not plain, or have different types.
        """
        return self._test(values)

    def _read(self, node: ast.expr) -> Test:
        """Return the test for a part of the condition.

        Raises:
            ValueError, KeyError, TypeError: the part is not supported.
        """
        if isinstance(node, ast.BoolOp):
            tests, combine = [self._read(part) for part in node.values], all if isinstance(node.op, ast.And) else any
            return lambda values: combine(test(values) for test in tests)
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            raise ValueError
        compare, expected = OPERATORS[type(node.ops[0])], ast.literal_eval(node.comparators[0])
        name, steps = self._steps(node.left)
        self.names[name] = None
        if expected is None:
            # Identity does not call methods of the value.
            is_same = {ast.Is: True, ast.Eq: True, ast.IsNot: False, ast.NotEq: False}[type(node.ops[0])]
            return lambda values: (_value(values, name, steps) is None) is is_same
        return lambda values: bool(compare(comparable(_value(values, name, steps)), expected))

    def _steps(self, node: ast.expr) -> tuple[str, tuple[tuple[bool, Any], ...]]:
        """Return the name of a variable, and the steps into it: whether each is an attribute, and its name or key."""
        if isinstance(node, ast.Name):
            return node.id, ()
        if isinstance(node, ast.Attribute):
            name, steps = self._steps(node.value)
            return name, (*steps, (True, node.attr))
        if isinstance(node, ast.Subscript):
            name, steps = self._steps(node.value)
            index: Any = node.slice
            if type(index).__name__ == "Index":  # Python 3.8
                index = index.value
            return name, (*steps, (False, ast.literal_eval(index)))
        raise ValueError


def _value(values: Mapping[str, Any], name: str, steps: tuple[tuple[bool, Any], ...]) -> Any:
    """Return the value that the steps lead to from the variable with this name.

    Raises:
        LookupError: the variable, an attribute or an item is missing.
    """
    if name not in values:
        raise LookupError(f"there is no variable {name} at that point")
    value = values[name]
    for is_field, key in steps:
        if is_field:
            value = fields_of(value)[key]
        elif isinstance(value, dict) and key in dict.keys(value):
            value = dict.get(value, key)
        elif type(value) in (list, tuple):
            value = value[key]
        elif type(value).__module__ == LISP + "map":
            value = next(part for name, part in value.items() if getattr(name, "name", name) == key)
        else:
            raise LookupError(f"{name} has no item {key!r}")
    return value
