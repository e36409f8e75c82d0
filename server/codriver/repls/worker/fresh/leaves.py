"""Describe the contents of a module as leaves: paths such as `shop.TABLE['a'].price`, each with a line of text.

Leaves from different processes are compared, so their text contains nothing that depends on the process, such as
addresses or hash order. Describing a module runs no user code: types are obtained with `type`, attributes with the
interpreter's own descriptors, and `repr` is only called for values of known types. Native library objects are described
only by their type, because their contents can differ between imports without being out of date.
"""

from __future__ import annotations

import abc
import collections
import gc
import itertools
import sys
import types
import weakref
from time import thread_time

from .code_texts import code_digest, short_digest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any, Callable, Dict, Tuple

    Leaf = Tuple[str, object]
    """A string, and the code object that belongs to it, or None."""
    Leaves = Dict[str, str]

UNKNOWN_TEXT = "(not looked at)"
"""The text for a value that is described at another path below the same name, or that exceeded a limit."""
SIZE_PART = ".len"
"""The last component of a path to the size of a collection."""
MAX_OBJECT_DEPTH = 12
"""Maximum number of levels described below a name."""
MAX_LEAVES_PER_NAME = 6000
"""Maximum number of values described for one name. If a name has more, all of them count as unknown."""
MAX_C_OBJECT_PARTS = 50
"""Maximum number of parts of an object implemented in C that are described."""
MAX_TEXT_CHARACTERS = 120
"""Maximum length of a string that is described in full."""
TEXT_PREFIX_CHARACTERS = 80
"""Number of characters included from the start of a longer string."""
LEAVES_PER_CHECK = 64
"""Number of values to describe before the time limit is checked again."""

_PLAIN_TYPE_IDS = frozenset(map(id, (float, complex, bool, type(None), type(...), type(NotImplemented), range)))
"""The ids of types whose values are described by their `repr`."""
_NAMED_TYPE_IDS = frozenset(
    map(
        id,
        (
            types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
            types.GetSetDescriptorType, types.MemberDescriptorType, types.ClassMethodDescriptorType,
        ),
    )
)  # fmt: skip
"""The ids of types whose objects are described by their name."""
_CODE_ATTRIBUTE_BY_TYPE = {
    id(types.GeneratorType): "gi_code",
    id(types.CoroutineType): "cr_code",
    id(types.AsyncGeneratorType): "ag_code",
}
"""The attribute with the code of a generator or coroutine, by the id of its type."""
_PRINTABLE_TYPES = {
    "datetime": ("date", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
    "pathlib": ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath"),
    "ipaddress": ("IPv4Address", "IPv6Address", "IPv4Network", "IPv6Network"),
    "zoneinfo": ("ZoneInfo",),
}
"""Standard library types whose `repr` describes the value without calling user code."""
_OPAQUE_TYPES = {
    ("logging", "Manager"), ("logging", "RootLogger"), ("threading", "Thread"), ("importlib.machinery", "ModuleSpec"),
    ("_frozen_importlib", "ModuleSpec"), ("_frozen_importlib_external", "SourceFileLoader"),
}  # fmt: skip
"""Types whose parts are not described, because they belong to the whole process."""
_TRANSPARENT_MODULES = frozenset(("functools", "types", "typing", "builtins", "contextvars", "collections"))
"""Modules whose types are implemented in C and are described part by part."""
IGNORED_MODULE_NAMES = frozenset(
    ("__builtins__", "__cached__", "__file__", "__loader__", "__spec__", "__path__", "__warningregistry__",
     "__conditional_annotations__")
)  # fmt: skip
"""Names in modules that are not described."""
CREATION_COUNTER_NAMES = frozenset(
    ("creation_counter", "auto_creation_counter", "_creation_order", "_creation_counter")
)
"""Attributes that store the order in which objects were created in a process, as in Django and SQLAlchemy."""
_IGNORED_CLASS_NAMES = frozenset(
    ("__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__", "__annotations_cache__",
     "_abc_impl")
)  # fmt: skip
_FUNCTION_ATTRIBUTES = (
    "__name__", "__doc__", "__defaults__", "__kwdefaults__", "__dict__",
    "__annotate__" if sys.version_info >= (3, 14) else "__annotations__",
)  # fmt: skip
"""The attributes of a function that are described.

From Python 3.14 on, reading `__annotations__` runs the user code stored in `__annotate__`.
"""
_INSTANCE_DICT_DOCSTRING = "dictionary for instance variables"
"""The start of the docstring of `__dict__` in classes written in Python. Source: `Objects/typeobject.c`."""
_COLLECTION_TYPES = (dict, list, tuple, collections.deque, set, frozenset)

_space_of: Any = type.__dict__["__dict__"].__get__
_mro_of: Any = type.__dict__["__mro__"].__get__
_module_of: Any = type.__dict__["__module__"].__get__
_qualname_of: Any = type.__dict__["__qualname__"].__get__
_size_of: Any = type.__dict__["__basicsize__"].__get__
_module_space: Any = vars(types.ModuleType)["__dict__"].__get__


def module_dict(module: types.ModuleType) -> dict[str, Any]:
    """Return the dictionary of a module, even if its class defines `__getattribute__`."""
    space: dict[str, Any] = _module_space(module)
    return space


def is_class(thing: object) -> bool:
    """Return whether an object is a class. Unlike `isinstance`, this cannot be deceived by a proxy."""
    return issubclass(type(thing), type)


def module_and_name(thing: Any) -> tuple[str, str]:
    """Return the module and qualified name of a class or function. Values that are not strings become ""."""
    if is_class(thing):
        try:
            module = _module_of(thing)
        except AttributeError:
            module = ""
        return _text_or_empty(module), _text_or_empty(_qualname_of(thing))
    return _text_or_empty(thing.__module__), _text_or_empty(thing.__qualname__)


def full_name(thing: object) -> str:
    """Return the dotted name of a class or function."""
    return ".".join(module_and_name(thing))


def current_definition(thing: object) -> object:
    """Return the object that a class's or function's module and qualified name currently refer to, or None.

    This is the class or function itself unless it has been replaced.
    """
    module, name = module_and_name(thing)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        kind = type(found)
        if is_class(found):
            found = _space_of(found).get(part)
        elif issubclass(kind, types.ModuleType):
            found = module_dict(found).get(part)
        else:
            return None
    return found.__func__ if type(found) is staticmethod or type(found) is classmethod else found


class LeafDescriber:
    """Describes modules as leaves within a time limit.

    Classes from the modules in `names` are described wherever they occur, in addition to those from the described
    module. `code` describes a code object, by default with its digest. `seconds` is the processor time for all modules.
    Names for which no time is left count as unknown.
    """

    def __init__(
        self,
        names: Collection[str],
        seconds: float,
        code: Callable[[types.CodeType], str] = code_digest,
        most_leaves: int = MAX_LEAVES_PER_NAME,
    ) -> None:
        self._names = frozenset(names)
        self._project_names = self._names
        self._ends_at = thread_time() + seconds
        self._code = code
        self._most_leaves = most_leaves
        self._slots: dict[int, tuple[type, list[tuple[str, Any]]]] = {}

    @property
    def is_over(self) -> bool:
        """Return whether the time limit has been reached."""
        return thread_time() > self._ends_at

    def describe_module(self, name: str, roots: Iterable[str] | None = None) -> Leaves:
        """Describe all values in a loaded module, by path. With `roots`, include only these names."""
        module = sys.modules.get(name)
        if not issubclass(type(module), types.ModuleType):
            return {}
        space = module_dict(module)  # type: ignore[arg-type]  # it is a module
        self._project_names = self._names | {name}
        names = [item for item in list(dict.keys(space)) if type(item) is str and item not in IGNORED_MODULE_NAMES]
        chosen = sorted(names) if roots is None else [root for root in roots if root in space]
        leaves: Leaves = {}
        for item in chosen:
            leaves.update(self._leaves_of_name(f"{name}.{item}", dict.get(space, item)))
        return leaves

    def _leaves_of_name(self, root: str, value: object) -> Leaves:
        names: Leaves = {}
        seen: set[int] = set()
        queue = collections.deque([(root, value, 0)])
        alive = []  # keep objects alive so that their ids are not reused
        while queue:
            if len(names) >= self._most_leaves or (not len(names) % LEAVES_PER_CHECK and self.is_over):
                return {root: UNKNOWN_TEXT}
            path, thing, depth = queue.popleft()
            try:
                names[path], has_parts = self._head(thing, path)
                if not has_parts:
                    continue
                if id(thing) in seen:
                    names[path] = UNKNOWN_TEXT
                elif depth < MAX_OBJECT_DEPTH:
                    seen.add(id(thing))
                    alive.append(thing)
                    queue.extend((path + step, part, depth + 1) for step, part in self._parts(thing))
            except (RuntimeError, ValueError, TypeError, AttributeError):  # it is changing, or half-made
                names[path] = UNKNOWN_TEXT
        return names

    def _head(self, thing: Any, path: str) -> tuple[str, bool]:
        """Return a line of text for an object, and whether its parts must be described too."""
        kind = type(thing)
        text = plain_value_text(thing)
        if text is not None:
            return text, False
        if kind is types.CodeType:
            return f"code {self._code(thing)}", False
        if id(kind) in _NAMED_TYPE_IDS or issubclass(kind, types.ModuleType):
            name = module_dict(thing).get("__name__") if issubclass(kind, types.ModuleType) else thing.__name__
            return f"{kind.__name__} {_text_or_empty(name)}", False
        if kind is types.FunctionType or is_class(thing):
            return self._definition(thing, path)
        if id(kind) in _CODE_ATTRIBUTE_BY_TYPE:
            return f"a {kind.__name__} of {self._code(getattr(thing, _CODE_ATTRIBUTE_BY_TYPE[id(kind)]))}", False
        home = module_and_name(kind)
        is_other = home[0] in self._project_names and current_definition(kind) is not kind
        return f"a {'.'.join(home)}{' (another class of this name)' if is_other else ''}", home not in _OPAQUE_TYPES

    def _definition(self, thing: Any, path: str) -> tuple[str, bool]:
        """Return a line of text for a function or class, and whether its parts must be described too."""
        name = full_name(thing)
        if name != path and current_definition(thing) is thing:
            return f"is {name}", False  # it is described under its own name
        if not is_class(thing):
            return f"function {thing.__code__.co_name} {self._code(thing.__code__)}", True
        if module_and_name(thing)[0] not in self._project_names:
            return f"class {name}", False
        bases = ", ".join(map(full_name, _mro_of(thing)[1:]))
        other = "" if name == path else "another "
        return f"{other}class {name} ({bases}) of {full_name(type(thing))}, size {_size_of(thing)}", True

    def _parts(self, thing: Any) -> Iterator[tuple[str, object]]:
        """Yield the parts of an object, each with the suffix for its path."""
        kind = type(thing)
        if kind is types.FunctionType:
            yield from ((f".{name}", getattr(thing, name)) for name in _FUNCTION_ATTRIBUTES)
            for name, cell in zip(thing.__code__.co_freevars, thing.__closure__ or ()):
                yield from ((f".closure.{name}", part) for part in gc.get_referents(cell))
        elif is_class(thing):
            yield from self._of_class(thing)
        elif kind is weakref.ref:
            yield "()", thing()
        elif kind is property:
            yield from ((f".{name}", getattr(thing, name)) for name in ("fget", "fset", "fdel"))
        elif kind is staticmethod or kind is classmethod:
            yield ".__func__", thing.__func__
        else:
            yield from self._of_object(thing, kind)

    def _of_class(self, thing: type) -> Iterator[tuple[str, object]]:
        names = _space_of(thing)
        for name, value in sorted((item for item in names.items() if type(item[0]) is str), key=_first):
            if name not in _IGNORED_CLASS_NAMES and not (name == "__annotations__" and "__annotate_func__" in names):
                yield f".{name}", value
        if "_abc_impl" in names:
            yield ".registered", {full_name(registered_class) for registered_class in _registered_classes(thing)}
        below = type.__subclasses__(thing) if not issubclass(thing, type) else ()
        for element in sorted(
            full_name(item)
            for item in below
            if module_and_name(item)[0] in self._project_names and current_definition(item) is item
        ):
            yield f".subclasses{{{element}}}", True

    def _of_object(self, thing: Any, kind: type) -> Iterator[tuple[str, object]]:
        holder = next((type_ for type_ in _COLLECTION_TYPES if issubclass(kind, type_)), None)
        size = 0
        if holder is not None:
            is_set = holder in (set, frozenset)
            # This is a single step of the interpreter, because other threads may change the collection.
            items = list(dict.items(thing) if holder is dict else enumerate(list(holder.__iter__(thing))))
            size = len(items)
            for key, value in items:
                text = key_text(value if is_set else key)
                if text is not None:
                    yield (f"{{{text}}}", True) if is_set else (f"[{text}]", value)
        names = self._attributes(thing, kind)
        yield from (
            (f".{name}", value)
            for name, value in sorted(names.items(), key=_first)
            if name not in CREATION_COUNTER_NAMES
        )
        if holder is not None:
            yield SIZE_PART, size
        elif not names and module_and_name(kind)[0] in _TRANSPARENT_MODULES and kind is not types.FrameType:
            parts = (part for part in gc.get_referents(thing) if part is not kind)
            yield from (
                (f"<{number}>", part) for number, part in enumerate(itertools.islice(parts, MAX_C_OBJECT_PARTS))
            )

    def _attributes(self, thing: object, kind: type) -> dict[str, object]:
        """Return the attributes of an object, including slots. No properties or proxies are run."""
        found: dict[str, object] = {}
        for name, descriptor in self._class_slots(kind):
            try:
                value = descriptor.__get__(thing)
            except (AttributeError, TypeError):
                continue  # the slot is empty
            if name != "__dict__":
                found.setdefault(name, value)
            elif issubclass(type(value), dict):
                found.update((key, part) for key, part in list(dict.items(value)) if type(key) is str)
        return found

    def _class_slots(self, kind: type) -> list[tuple[str, Any]]:
        known = self._slots.get(id(kind))
        if known is None:
            known = self._slots[id(kind)] = kind, list(instance_descriptors(kind))
        return known[1]


def instance_descriptors(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the descriptors for `__dict__` and slots in a class and its bases, if these are written in Python."""
    for base in _mro_of(kind):
        names = _space_of(base)
        value = names.get("__dict__")
        if type(value) is types.GetSetDescriptorType:
            documentation = value.__doc__
            is_plain = type(documentation) is str and documentation.startswith(_INSTANCE_DICT_DOCSTRING)
            if is_plain or module_and_name(base)[0] in _TRANSPARENT_MODULES:
                yield "__dict__", value
        if "__slots__" in names:
            yield from (
                (name, value)
                for name, value in names.items()
                if type(value) is types.MemberDescriptorType and name != "__weakref__"
            )


def plain_value_text(thing: Any) -> str | None:
    """Return the text of a plain value, or None for any other object."""
    kind = type(thing)
    if kind is str or kind is bytes:
        return _shorten(thing)
    if kind is int:
        return str(thing) if -(10**18) < thing < 10**18 else hex(thing)
    if id(kind) in _PLAIN_TYPE_IDS:
        return repr(thing)
    if kind is bytearray:
        return f"bytearray {_shorten(bytes(thing))}"
    module = module_and_name(kind)[0]
    return _library_value_text(thing, kind, module) if module in _PRINTABLE_MODULES else None


def _library_value_text(thing: Any, kind: type, module: str) -> str | None:
    """Return the text of a standard library value, or None for any other value."""
    library = sys.modules.get("pathlib" if module.startswith("pathlib") else module)
    name = _text_or_empty(_qualname_of(kind))
    if library is None or module_dict(library).get(name) is not kind:
        return None
    if module == "re" and name == "Pattern":
        return f"pattern {plain_value_text(thing.pattern)} {thing.flags}"
    if module == "datetime" and name in ("datetime", "time"):
        zone = thing.tzinfo
        return f"{thing.replace(tzinfo=None)!r} {None if zone is None else full_name(type(zone))}"
    if name in _PRINTABLE_TYPES.get("pathlib" if module.startswith("pathlib") else module, ()):
        return str(repr(thing))[:MAX_TEXT_CHARACTERS]
    return None


_PRINTABLE_MODULES = frozenset((*_PRINTABLE_TYPES, "re", "pathlib._local"))
"""Standard library modules whose values are described by their text."""


def key_text(key: object) -> str | None:
    """Return the text for a key in a path. Return None for objects, whose order may depend on their address."""
    text = plain_value_text(key)
    if text is not None:
        return text
    if type(key) is tuple:
        parts = [key_text(item) for item in key]
        return None if None in parts else f"({', '.join(map(str, parts))})"
    if is_class(key) or type(key) is types.FunctionType:
        return full_name(key)
    return _member_text(key)


def _member_text(key: object) -> str | None:
    """Return the name of an enumeration member, or None for any other object."""
    library = sys.modules.get("enum")
    if library is None or not issubclass(type(type(key)), module_dict(library)["EnumMeta"]):
        return None
    for name, descriptor in instance_descriptors(type(key)):
        if name == "__dict__":
            member = dict.get(descriptor.__get__(key), "_name_")
            return f"{full_name(type(key))}.{member}" if type(member) is str else None
    return None


def _registered_classes(kind: type) -> Iterator[type]:
    """Yield the classes that are registered with an abstract base class."""
    references: Any = abc._get_dump(kind)[0] if hasattr(abc, "_get_dump") else ()  # noqa: SLF001  # no other way
    for reference in references:
        found = reference()
        if found is not None:
            yield found


def _shorten(value: str | bytes) -> str:
    """Return the `repr` of a string. For a long string, return its beginning, length and digest."""
    if len(value) <= MAX_TEXT_CHARACTERS:
        return repr(value)
    data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return f"{value[:TEXT_PREFIX_CHARACTERS]!r}... {len(value)} {short_digest(data)}"


def _text_or_empty(value: object) -> str:
    return value if type(value) is str else ""


def _first(item: tuple[str, object]) -> str:
    return item[0]


def undoable_names(name: str) -> list[str]:
    """Return the names in a module whose values a load may undo. Classes come last, and functions are omitted."""
    module = sys.modules.get(name)
    space = module_dict(module) if issubclass(type(module), types.ModuleType) else {}  # type: ignore[arg-type]  # it is a module
    values: list[str] = []
    classes: list[str] = []
    for key, value in list(dict.items(space)):
        if type(key) is not str or key in IGNORED_MODULE_NAMES:
            continue
        if is_class(value):
            classes.append(key)
        elif type(value) is not types.FunctionType or value.__closure__ or value.__dict__:
            values.append(key)
    return [*values, *classes]


def split_leaf_path(path: str, modules: Mapping[str, object] | Collection[str]) -> tuple[str, str]:
    """Split the path of a value into the longest possible module name and a name in that module."""
    dotted = path
    while "." in dotted:
        dotted = dotted.rpartition(".")[0]
        if dotted in modules:
            rest = path[len(dotted) + 1 :]
            end = next(
                (index for index, character in enumerate(rest) if not (character.isalnum() or character == "_")),
                len(rest),
            )
            return dotted, rest[:end]
    return "", path
