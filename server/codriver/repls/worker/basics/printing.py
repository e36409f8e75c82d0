"""Print values with limits on length and depth, and find parts of values by their paths.

Values that were truncated or that have other displays are stored for a while so that callers can read more of them.
"""

from __future__ import annotations

import array
import collections
import itertools
import json
import sys
import types
import weakref

from .displays import pretty_printed_text
from .previews import preview_value, select_part
from .sensitive_texts import check_sensitive_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Callable

    from .connections import Message
    from .jobs import Job, Session

    Step = object

    Path = tuple[object, ...]


OPTION_PREFIX = "nrepl.middleware.print/"
"""The prefix of print options in a request. Source: nREPL, print middleware."""
OPTIONS_FIELD = OPTION_PREFIX + "options"
QUOTA_FIELD = OPTION_PREFIX + "quota"
"""The field with the maximum size of a printed value."""
MAX_NESTED_CHARACTERS = 1000
"""Maximum length of a string inside a collection. Other strings are never truncated."""
BRACKETS: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
    dict: ("{", "}"),
    types.MappingProxyType: ("mappingproxy({", "})"),
    collections.OrderedDict: ("OrderedDict({", "})") if sys.version_info >= (3, 12) else ("OrderedDict([", "])"),
    collections.Counter: ("Counter({", "})"),
    type({}.keys()): ("dict_keys([", "])"),
    type({}.values()): ("dict_values([", "])"),
    type({}.items()): ("dict_items([", "])"),
}
INDEXED_TYPES = (list, tuple, collections.deque, collections.UserList, array.array)
"""Collections whose elements are addressed by position."""
MAPPING_TYPES = (dict, types.MappingProxyType)
ATOM_TYPES = frozenset({int, str, float, bool, bytes, complex, type(None), type, types.FunctionType, types.ModuleType})
"""Types whose instances have no parts."""


class Shape:
    """The parts of a collection or record, each with its step in a path, and the text around the parts."""

    def __init__(
        self, before: str, after: str, count: int | None, parts: Callable[[], Iterable[tuple[Step, Any]]], *, keys: str
    ) -> None:
        self.before, self.after, self.count, self.parts = before, after, count, parts
        self.keys = keys
        """The text between a step and its part: `: `, `=`, `, ` in pairs, or "" if steps are positions."""


class OmittedParts:
    """The parts that were omitted from a printed value."""

    def __init__(self) -> None:
        self._first = ""
        self._path: Path = ()
        self._count = 0

    def add(self, words: str, path: Path) -> None:
        """Record an omission. Only the outermost one is described in detail.

        `words` describe the omission, and `path` is its position in the value.
        """
        if not self._count or len(path) < len(self._path):
            self._first, self._path = words, path
        self._count += 1

    def describe(self) -> str:
        """Describe the omissions, or return "" if there are none."""
        if not self._count:
            return ""
        where = " at " + json.dumps(self._path, ensure_ascii=False) if self._path else ""
        more = f", and in {self._count - 1} more places" if self._count > 2 else ""
        return self._first + where + (more or (", and in 1 more place" if self._count == 2 else ""))


class Printer:
    """Prints Python values like `repr`, with at most `length` elements and `depth` levels. None means no limit.

    `requested` is the length that a caller requested. Without it, libraries shorten their tables and arrays themselves.
    """

    def __init__(self, length: int | None, depth: int | None, requested: int | None = None) -> None:
        self._length, self._depth, self._requested = length, depth, requested
        self.cuts = OmittedParts()

    def print_from(self, value: Any, start: int = 0, before: Path = ()) -> str:
        """Print a value, starting at the element `start`. `before` is its path for descriptions of omissions."""
        if self._length is None and self._depth is None and not start:
            return value_text(value)
        if isinstance(value, (str, bytes)) and not start:
            return repr(value)
        return self._text(value, before, (), start)

    def _text(self, value: Any, path: Path, around: tuple[int, ...], start: int = 0) -> str:
        shape = standard_shape(value)
        if shape is None:
            return self._plain(value, path, start)
        if id(value) in around:
            return shape.before + "..." + shape.after
        if self._depth is not None and len(around) >= self._depth and shape.count != 0:
            self.cuts.add(f"levels below {self._depth}", path)
            # Python itself only marks cycles with dots between the brackets.
            return f"<{type(value).__name__} of {shape.count}>"
        return self._collection(value, shape, path, (*around, id(value)), start)

    def _collection(self, value: Any, shape: Shape, path: Path, around: tuple[int, ...], start: int) -> str:
        end = None if self._length is None or shape.keys == "=" else start + self._length
        parts = ["..."] if start else []
        count = start
        for step, part in itertools.islice(shape.parts(), start, end):
            key = "" if not shape.keys else step if shape.keys == "=" else self._text(step, path, around)
            text = f"{key}{shape.keys}" + self._text(part, (*path, json_step(step)), around)
            parts.append(f"({text})" if shape.keys == ", " else text)
            count += 1
        if shape.count is not None and shape.count > count:
            self.cuts.add(f"{shape.count - count + start} of {shape.count} elements", path)
            parts.append("...")
        elif isinstance(value, tuple) and len(parts) == 1 and not shape.keys:
            parts[0] += ","
        return shape.before + ", ".join(parts) + shape.after

    def _plain(self, value: Any, path: Path, start: int) -> str:
        if isinstance(value, (str, bytes)) and len(value) > MAX_NESTED_CHARACTERS and path:
            unit = "characters" if isinstance(value, str) else "bytes"
            left = len(value) - MAX_NESTED_CHARACTERS
            self.cuts.add(f"{left} of {len(value)} {unit}", path)
            return repr(value[:MAX_NESTED_CHARACTERS]) + f"... ({left} more {unit})"
        if start or self._length is not None:
            preview = preview_value(value, start, self._requested)
            if preview is not None:
                text, words = preview
                if words:
                    self.cuts.add(words, path)
                return text
        return value_text(value)


def value_text(value: Any) -> str:
    """Return the `repr` of a value.

    If its class does not define one, return its `str` or the text of its pretty printer.
    """
    kind: Any = type(value)
    if kind.__repr__ is object.__repr__ and kind.__str__ is not object.__str__:
        return str(value)
    return pretty_printed_text(value, repr(value), value_text)


def json_step(step: object) -> object:
    """Convert a step of a path to a JSON value. Integers and strings are unchanged. Other keys are printed."""
    return step if type(step) in (int, str) else repr(step)


def standard_shape(value: Any) -> Shape | None:
    """Return the parts of a value that Python prints in its standard way. Return None for any other value."""
    if type(value) in ATOM_TYPES:
        return None
    repr_method: Any = type(value).__repr__
    for kind, (before, after) in BRACKETS.items():
        if isinstance(value, kind) and repr_method is kind.__repr__:
            return _brackets(value, kind, before, after)
    if isinstance(value, collections.defaultdict) and repr_method is collections.defaultdict.__repr__:
        return _mapping(value, f"defaultdict({value.default_factory!r}, {{", "})")
    if isinstance(value, array.array) and repr_method is array.array.__repr__ and value.typecode != "u":
        return Shape(f"array({value.typecode!r}, [", "])", len(value), lambda: enumerate(value), keys="")
    if isinstance(value, (collections.UserDict, collections.UserList)) and repr_method in (
        collections.UserDict.__repr__,
        collections.UserList.__repr__,
    ):
        return standard_shape(value.data)
    names = _fields(value, repr_method)
    if names is None:
        return None
    title = type(value).__qualname__.rsplit(">.", 1)[-1]
    return Shape(title + "(", ")", len(names), lambda: ((name, getattr(value, name)) for name in names), keys="=")


NAMED_TYPES = (set, frozenset, collections.deque, collections.OrderedDict, collections.Counter)
"""Types that print the name of a subclass, and omit the brackets if empty."""


def _brackets(value: Any, kind: type, before: str, after: str) -> Shape | None:
    """Return the parts of a collection that is printed in brackets, or None if it is printed without them.

    `before` and `after` are the brackets that `kind` uses.
    """
    if kind in NAMED_TYPES:
        if not value:
            return None
        if type(value) is not kind:
            before = before.replace(kind.__name__, type(value).__name__, 1)
            if kind is set:
                before, after = type(value).__name__ + "({", "})"
    if kind is collections.deque and value.maxlen is not None:
        after = f"], maxlen={value.maxlen})"
    if not isinstance(value, MAPPING_TYPES):
        return Shape(before, after, len(value), lambda: enumerate(value), keys="")
    if kind is collections.Counter:
        # The most common elements come first, but sorting very many takes too long.
        counter: Any = value
        most = counter.most_common() if len(value) <= 10_000 else counter.items()
        return Shape(before, after, len(value), lambda: iter(most), keys=": ")
    return _mapping(value, before, after, ", " if "([" in before else ": ")


def _mapping(value: Any, before: str, after: str, keys: str = ": ") -> Shape:
    return Shape(before, after, len(value), lambda: iter(value.items()), keys=keys)


def _fields(value: Any, repr_method: Any) -> list[str] | None:
    """Return the names of the printed fields of a dataclass, an attrs class or a named tuple.

    Returns None for other classes.
    """
    inner = getattr(repr_method, "__wrapped__", repr_method)
    code = getattr(inner, "__code__", None)
    made_in = getattr(code, "co_filename", "")
    if isinstance(value, type):
        return None
    if "__create_fn__" in getattr(inner, "__qualname__", "") and hasattr(value, "__dataclass_fields__"):
        return [
            field.name for field in value.__dataclass_fields__.values() if field.repr and hasattr(value, field.name)
        ]
    if made_in.startswith("<attrs generated") and hasattr(value, "__attrs_attrs__"):
        return [attr.name for attr in value.__attrs_attrs__ if attr.repr is True and hasattr(value, attr.name)]
    if isinstance(value, tuple) and hasattr(value, "_fields") and made_in == _COLLECTIONS_FILE:
        return list(value._fields)
    return None


_COLLECTIONS_FILE = collections.UserDict.__repr__.__code__.co_filename
"""The file of the `collections` module, which defines the methods of named tuples."""


class NoSuchPartError(LookupError):
    """Raised when a path does not exist in a value."""


def get_part(value: Any, path: Iterable[object]) -> Any:
    """Return the part of a value at a path of positions, field names and keys. Keys may be in their printed form.

    Raises:
        NoSuchPartError: the path does not exist.
    """
    try:
        for step in path:  # the message below uses it
            value = _part(value, step)
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration):
        raise NoSuchPartError(
            f"the {type(value).__name__} has no {step!r}, which is the next step of the path"
        ) from None
    return value


def _part(value: Any, step: Any) -> Any:
    rows = select_part(value, step)
    if rows is not None:
        return rows[0]
    shape = standard_shape(value)
    if shape is None:
        return vars(value)[step] if isinstance(step, str) else value[step]
    if shape.keys:
        return next(part for key, part in _matching(value, shape, step))
    if isinstance(value, INDEXED_TYPES):
        sequence: Any = value
        return sequence[step]
    if isinstance(step, int) and step >= 0:
        for part in itertools.islice(value, step, step + 1):
            return part
    raise NoSuchPartError


def _matching(value: Any, shape: Shape, step: object) -> Iterator[tuple[object, Any]]:
    """Yield the parts at a step of a path, each with its original key.

    Parts with an equal key come first, followed by those whose printed key equals the step.
    """
    if type(value) is dict and type(step) in (int, str) and step in value:
        yield step, value[step]
    for key, part in shape.parts():
        if type(key) is type(step) and key == step:
            yield key, part
    for key, part in shape.parts():
        if type(key) not in (int, str) and repr(key) == step:
            yield key, part
    raise NoSuchPartError


def add_print_limits(message: Message, session: Session) -> Message:
    """Add the session's print limits to a request. A request with `for-session` changes the session's limits."""
    options = message.get(OPTIONS_FIELD)
    if message["op"] == "eval" and options is None and QUOTA_FIELD not in message:
        return {**session.print_fields, **message}
    if isinstance(options, dict) and options.get("for-session"):
        session.print_fields = {OPTIONS_FIELD: options, QUOTA_FIELD: message.get(QUOTA_FIELD)}
    return message


def print_limits(job: Job) -> tuple[int | None, int | None]:
    """Return the maximum length and depth from the request or its defaults. None means no limit."""
    return _limit(job, "print-length", "default-length"), _limit(job, "print-level", "default-level")


def requested_print_limits(job: Job) -> tuple[int | None, int | None]:
    """Return the length and depth that the caller explicitly requested. These override the user's settings."""
    return _limit(job, "print-length"), _limit(job, "print-level")


def _limit(job: Job, *names: str) -> int | None:
    options = job.message.get(OPTIONS_FIELD)
    found = [options.get(name) for name in names] if isinstance(options, dict) else []
    return next((given for given in found if isinstance(given, int) and given > 0), None)


def send_value(job: Job, text: str, namespace: str, *, cut: str = "", is_cut: bool = False) -> None:
    """Send a printed value, truncated to the request's quota. `cut` describes what print limits omitted."""
    check_sensitive_values()
    quota = job.message.get(QUOTA_FIELD)
    if isinstance(quota, int) and quota > 0 and len(raw := text[: quota + 1].encode("utf-8", "replace")) > quota:
        text, is_cut = raw[:quota].decode("utf-8", "ignore"), True
    fields: dict[str, object] = {"value": text, "ns": namespace}
    if is_cut:
        fields["status"] = [OPTION_PREFIX + "truncated"]
    if cut:
        fields["codriver/cut"] = cut
    job.send_soon(fields)


MAX_STORED_VALUES = 8
"""Maximum number of values stored because they were not printed completely."""
DISPLAY_METHODS = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "text/latex": "_repr_latex_"}
"""The method for each kind of display, by MIME type. Source: IPython's display protocol."""
MAX_REMEMBERED_VALUES = 200
"""Maximum number of further values that are remembered for as long as the program itself keeps them alive."""


def has_display(value: Any, kind: object) -> bool:
    """Return whether a value has a display of this kind, or of any kind if `kind` is None. No code runs."""
    requested = [kind] if kind is not None else DISPLAY_METHODS
    return not isinstance(value, type) and any(
        item in DISPLAY_METHODS and hasattr(type(value), DISPLAY_METHODS[item]) for item in requested
    )


def render_display(value: Any, kind: str, start: int) -> str:
    """Return the display of a value as text, starting at the character `start`.

    Raises:
        NoSuchPartError: the display could not be created.
    """
    try:
        text = getattr(value, DISPLAY_METHODS[kind])()
    except Exception as error:
        raise NoSuchPartError("the value has no page to display: " + type(error).__name__) from None
    return str(text or "")[start:]


class StoredValues:
    """Values that were not printed completely, by evaluation and by their number in the evaluation, starting at 1.

    Only the newest values are stored.
    """

    def __init__(self) -> None:
        self._counts: collections.OrderedDict[str, int] = collections.OrderedDict()
        """The number of values sent, by evaluation."""
        self._values: collections.deque[tuple[tuple[str, int], str, Any]] = collections.deque(maxlen=MAX_STORED_VALUES)
        self._alive: collections.OrderedDict[tuple[str, int], weakref.ref[Any]] = collections.OrderedDict()

    def send_value(self, job: Job, value: Any, text: str, namespace: str, cut: str) -> None:
        """Send a printed value. If it was truncated or has other displays, and the request has an id, also store it."""
        evaluation = job.message.get("codriver/keep")
        if isinstance(evaluation, str):
            number = self._counts[evaluation] = self._counts.get(evaluation, 0) + 1
            if len(self._counts) > MAX_REMEMBERED_VALUES:
                self._counts.popitem(last=False)
            if cut or has_display(value, None):
                self._store((evaluation, number), job.session.id, value)
        send_value(job, text, namespace, cut=cut)

    def _store(self, key: tuple[str, int], session: str, value: Any) -> None:
        self._values.append((key, session, value))
        try:
            self._alive[key] = weakref.ref(value)
        except TypeError:
            return
        if len(self._alive) > MAX_REMEMBERED_VALUES:
            self._alive.popitem(last=False)

    def drop(self, session: str) -> None:
        """Drop the values stored for a session that is being closed."""
        left = [value for value in self._values if value[1] != session]
        self._values.clear()
        self._values.extend(left)

    def find(self, evaluation: str, number: int | None) -> Any:
        """Return a value stored for an evaluation. By default, this is its last one.

        Raises:
            NoSuchPartError: the value is not stored.
        """
        numbers = {key[1] for key, _, _ in self._values if key[0] == evaluation}
        numbers.update(key[1] for key, value in self._alive.items() if key[0] == evaluation and value() is not None)
        if not numbers:
            raise NoSuchPartError(
                f"the REPL no longer has the value: it stores only the {MAX_STORED_VALUES} most recent of the "
                "values that were shortened"
            )
        chosen = max(numbers) if number is None else number
        for key, _, value in self._values:
            if key == (evaluation, chosen):
                return value
        alive = self._alive.get((evaluation, chosen))
        value = alive() if alive is not None else None
        if value is None:
            raise NoSuchPartError(f"only the values {sorted(numbers)} of this evaluation are stored")
        return value
