"""Drift: the differences between the project's modules as they are loaded and their files as they are now.

Functions and methods are compared by what their code does: comments, layout and places do not count. Of other values
only plain ones are, that nothing of the file assigns a second time. No user code is run: files are compiled, not
executed.
"""

from __future__ import annotations

import gc
import operator
import os
import sys
import time
import types

from .closures import FormerClosures
from .code_comparison import is_same_code
from .file_definitions import ABSENT, PLAIN, Written, is_plain
from .shared_names import SPACE_OF_MODULE
from .source_files import read_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

INSTALLED = ("site-packages", "dist-packages")
COMPARED = (*PLAIN, tuple, types.FunctionType)
OTHER = object()
REWRITERS = ("AssertionRewritingHook",)
"""Loaders whose code is another than that of the file. Source: pytest, `_pytest.assertion.rewrite`."""
MOST_WRAPPERS = 20
FUNCTION = 2
"""The flag of a function's code, which a class body has not. Source: `inspect.CO_NEWLOCALS`."""
CLOCKS_NS = 3 * 10**9
"""How far the clocks of files and of this process may be apart."""
MOST_TEXT = 2**20
"""Bytes of a file that is compared: a longer one was made, and not written."""
EDITED, REDEFINED, GONE, MISSING = "edited", "redefined", "gone", "missing"
"""Edited in the file since it was loaded; redefined in the REPL; not in the file; not loaded."""
OLD, INSTANCES, CLOSURES = "old", "instances", "closures"
"""Of a former load: an object under a name elsewhere; instances of a class; closures that a function made."""


class Drift:
    """The project's drift, asked again and again: what was found is kept until the file or the module changes."""

    def __init__(self) -> None:
        self._written: dict[str, tuple[tuple[int, int, int], Written | None]] = {}
        self._began_ns = time.time_ns()
        self._compared: dict[str, tuple[Written, list[object], list[dict[str, str]]]] = {}
        """By module: what was compared, of the file and of what is loaded, and the rows that it gave."""
        self.closures = FormerClosures()
        self.tells_main = False
        """Whether `__main__` is a file of the project, as it is in a program that somebody started."""
        self._is_within: dict[tuple[str, str], bool] = {}

    def forget(self) -> None:
        """Let go of the values that were compared."""
        self._compared.clear()

    def rows(self, root: str, only: str = "") -> list[dict[str, str]]:
        """A row for each difference: `module`, `name`, `kind`, and the `file` where the live code is from.

        Of an old object the row's `of` is the name that has its successor; else it is how many there are. `only`:
        `old`, these alone; `edited`, these and the differences of files that were written since the worker began.
        """
        modules = self._modules_in(root)
        found: list[dict[str, str]] = []
        for module, file in modules.values():
            if only != OLD and not (only == EDITED and self._is_as_it_was(file)):
                found += self._of_module(module, file)
        found += _old_names(modules)
        for module, name, count in self.closures.counts(modules):
            found.append(_row(module, name, CLOSURES, of=str(count)))
        return [*found, *_old_instances(modules)]

    def _modules_in(self, root: str) -> dict[str, tuple[types.ModuleType, str]]:
        """The loaded modules whose files are in a folder, and not installed there."""
        found = {}
        for name, module in list(sys.modules.items()):
            if not issubclass(type(module), types.ModuleType) or (name == "__main__" and not self.tells_main):
                continue
            file = SPACE_OF_MODULE.__get__(module).get("__file__")
            if not isinstance(file, str) or not file.endswith(".py"):
                continue
            if (root, file) not in self._is_within:
                self._is_within[root, file] = _is_project(os.path.realpath(file), os.path.realpath(root))
            if self._is_within[root, file]:
                found[name] = module, file
        return found

    def _of_module(self, module: types.ModuleType, file: str) -> list[dict[str, str]]:
        written = None if _is_rewritten(module) else self._read(file)
        if written is None:
            return []
        loaded = _loaded(module)
        kept = self._compared.get(module.__name__)
        is_known = kept is not None and kept[0] is written and len(kept[1]) == len(loaded)
        if kept is not None and is_known and all(map(operator.is_, kept[1], loaded)):
            return kept[2]
        rows = list(_differences(module, file, written))
        self._compared[module.__name__] = written, loaded, rows
        return rows

    def _is_as_it_was(self, file: str) -> bool:
        """Whether a file was written before the worker began, and so before anything was loaded."""
        try:
            status = os.stat(file)
        except OSError:
            return True
        return max(status.st_mtime_ns, status.st_ctime_ns) < self._began_ns - CLOCKS_NS

    def _read(self, file: str) -> Written | None:
        """The definitions in a file; None where it cannot be read."""
        try:
            status = os.stat(file)
            key = status.st_mtime_ns, status.st_ctime_ns, status.st_size
            kept = self._written.get(file)
            if kept is None or kept[0] != key:
                kept = self._written[file] = key, _parse(file)
        except OSError:
            return None
        return kept[1]


def _parse(file: str) -> Written | None:
    try:
        text = read_source(file, MOST_TEXT)
        return None if text is None else Written(text, file)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_project(file: str, root: str) -> bool:
    return file.startswith(root.rstrip(os.sep) + os.sep) and not any(part in INSTALLED for part in file.split(os.sep))


def _loaded(module: types.ModuleType) -> list[object]:
    """All that a comparison of a module looks at; OTHER for any other value, which is not to be kept alive for it."""
    found: list[object] = []
    for name, value in list(module.__dict__.items()):
        is_compared = type(value) in COMPARED or is_class(value)
        found += (name, value if is_compared else OTHER)
        if not is_class(value):
            found += _parts(value)
        elif home_of(value) == module.__name__:
            for own, held in list(space_of(value).items()):
                found += (own, *_parts(function_in(held)))
    return found


def _parts(value: object) -> Iterator[object]:
    for one in unwrapped(value):
        yield from (one.__code__, one.__defaults__, one.__kwdefaults__)


def _is_rewritten(module: types.ModuleType) -> bool:
    loader = getattr(module.__dict__.get("__spec__"), "loader", None)
    return type(loader).__name__ in REWRITERS


def _row(module: types.ModuleType, name: str, kind: str, file: str = "", of: str = "") -> dict[str, str]:
    row = {"module": module.__name__, "name": name, "kind": kind, "file": file, "of": of}
    return {key: text for key, text in row.items() if text}


def _differences(module: types.ModuleType, file: str, written: Written) -> Iterator[dict[str, str]]:
    live = dict(module.__dict__)
    for name, value in live.items():
        if name in written.values and type(value) is not types.FunctionType:
            if not _is_same_value(written.values[name], value):
                yield _row(module, name, EDITED)
        elif not is_class(value):
            yield from _of_function(module, name, value, file, written)
        elif (home_of(value), qualname_of(value)) == (module.__name__, name):
            yield from _of_class(module, name, value, file, written)
    for name in sorted(written.sure.difference(live)):
        yield _row(module, name, MISSING)


def _of_class(
    module: types.ModuleType, name: str, value: object, file: str, written: Written
) -> Iterator[dict[str, str]]:
    if name not in written.classes:
        if name not in written.names:
            yield _row(module, name, GONE)
        return
    live, mangled = set(), "_" + name.lstrip("_") + "__"
    for key, held in list(space_of(value).items()):
        own = "__" + key[len(mangled) :] if key.startswith(mangled) else key
        live.add(own)
        yield from _of_function(module, name + "." + own, function_in(held), file, written)
    for dotted in sorted(written.codes):
        owner, _, own = dotted.rpartition(".")
        if owner == name and own not in live and _stays(value, dotted, written):
            yield _row(module, dotted, MISSING)


def _stays(value: object, dotted: str, written: Written) -> bool:
    """True where a class keeps what its body defines by a name: a metaclass may take out a class, such as `Meta`."""
    is_class_body = not all(code.co_flags & FUNCTION for code in written.codes[dotted])
    return dotted not in written.removed and not (is_class_body and type(value) is not type)


def is_class(value: object) -> bool:
    """Whether a value is a class. `isinstance` would ask it, and run what it answers with."""
    return issubclass(type(value), type)


def space_of(kind: object) -> Any:
    """The names of a class, which its metaclass is not asked for."""
    return type.__dict__["__dict__"].__get__(kind)


def qualname_of(value: object) -> Any:
    """The name of a class or function with those it is in."""
    owner = type if is_class(value) else types.FunctionType
    return owner.__dict__["__qualname__"].__get__(value)


def home_of(value: object) -> Any:
    """The name of the module that a class or a function is from."""
    return space_of(value).get("__module__") if is_class(value) else value.__module__


def function_in(held: Any) -> object:
    """The function that a name of a class stands for, where it is one; else what it is."""
    if type(held) in (staticmethod, classmethod):
        return held.__func__
    if type(held) is property:
        return held.fget
    return held


def _of_function(
    module: types.ModuleType, name: str, value: object, file: str, written: Written
) -> Iterator[dict[str, str]]:
    """The difference of one function, if there is one and it can be told: a wrapper without `__wrapped__` hides it."""
    functions = [one for one in unwrapped(value) if one.__module__ == module.__name__]
    own = [one for one in functions if one.__qualname__ in (name, name.rpartition(".")[2])]
    if not own:
        return
    known = written.codes.get(name)
    source = own[-1].__code__.co_filename
    if known is None:
        is_made = source != file and not source.startswith("<eval")
        if not is_made:
            # Where the file has the name, it has something else by that name.
            kind = EDITED if name in written.names else GONE
            yield _row(module, name, kind, source if source != file else "")
        return
    same = [one for one in functions for code in known if is_same_code(one.__code__, code)]
    if same and (len(known) > 1 or _has_defaults(same[0], written.defaults.get(name))):
        return
    yield _row(module, name, EDITED if source == file else REDEFINED, source if source != file else "")


def unwrapped(value: object) -> Iterator[types.FunctionType]:
    """The functions that a decorated one consists of, outermost first; nothing is asked of the user's classes."""
    for _ in range(MOST_WRAPPERS):
        if type(value) is types.FunctionType:
            yield value
        if is_class(value):
            return
        try:
            value = object.__getattribute__(value, "__dict__").get("__wrapped__")
        except AttributeError:
            return
        if value is None:
            return


def _has_defaults(function: types.FunctionType, written: list[object] | None) -> bool:
    """Whether the plain ones of a function's defaults are as written."""
    if written is None:
        return True
    live = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return len(live) == len(written) and all(
        one is ABSENT or _is_same_value(one, other) for one, other in zip(written, live)
    )


def _is_same_value(written: object, live: object) -> bool:
    """Whether a plain value is as written; one that is not plain may have been made of it, and does not count."""
    return not is_plain(live) or (type(written) is type(live) and repr(written) == repr(live))


def _successor(value: object, modules: dict[str, tuple[types.ModuleType, str]]) -> object:
    """The successor of a function or class in its own module; the thing itself where it has none."""
    home, name = home_of(value), qualname_of(value)
    module = modules.get(home) if type(home) is str else None
    if module is None or "." in name:
        return value
    current = module[0].__dict__.get(name)
    is_heir = type(current) is type(value) and (home_of(current), qualname_of(current)) == (home, name)
    if not is_heir or any(one is value for one in unwrapped(current)):
        return value
    return current


def _old_names(modules: dict[str, tuple[types.ModuleType, str]]) -> Iterator[dict[str, str]]:
    """The names of modules that have a function or class of another one, which has a newer one of that name."""
    loaded = [module for module, _ in modules.values()]
    main = sys.modules.get("__main__")
    for module in [*loaded, *([main] if main is not None else [])]:
        for name, value in list(module.__dict__.items()):
            if type(value) is not types.FunctionType and not is_class(value):
                continue
            if home_of(value) != module.__name__ and _successor(value, modules) is not value:
                yield _row(module, name, OLD, of=str(home_of(value)) + "." + qualname_of(value))


def _old_instances(modules: dict[str, tuple[types.ModuleType, str]]) -> Iterator[dict[str, str]]:
    """The classes that have a successor, and instances that live on."""
    former = {id(one): one for one in all_classes() if _successor(one, modules) is not one}
    if not former:
        return
    counts = dict.fromkeys(former, 0)
    for one in gc.get_objects():
        key = id(type(one))
        if key in counts:
            counts[key] += 1
    for key, count in counts.items():
        if count:
            yield _row(modules[home_of(former[key])][0], qualname_of(former[key]), INSTANCES, of=str(count))


def all_classes() -> Iterator[type]:
    """Every class that lives."""
    seen: set[int] = set()
    waiting: list[type] = [object]
    while waiting:
        one = waiting.pop()
        found: list[type] = type.__subclasses__(one)
        for kind in found:
            if id(kind) not in seen:
                seen.add(id(kind))
                waiting.append(kind)
                yield kind
