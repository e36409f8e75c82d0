"""Compare the project's loaded modules with their current files.

The source that was loaded is compared with that in the file, statement by statement. Live objects are only used to find
names that were rebound since the load, and objects that remain from previous loads. No user code is run.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
import types

from ..basics.definition_access import ABSENT, INSTALLED_DIRECTORIES, defining_module_name, is_class, qualified_name
from .bound_names import DEFINITION, BoundNames, assignment_pattern, code_file, is_evaluated
from .deferred_reports import DeferredReports
from .holders import find_holder_paths, is_in_use
from .import_stamps import file_stamp, read_file
from .load_records import MAX_PARSED_BYTES
from .loaded_sources import LoadedSources
from .module_text import Text
from .remembered_names import changed_names
from .renewal import PreviousClosures, is_same_code
from .statements import PARSE_ERRORS, SourceText, compare, difference_rows, imported_names
from .stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any, Dict, Tuple

    from .import_stamps import Stamp
    from .load_records import Load
    from .remembered_names import RememberedValue

    Row = Dict[str, str]
    Differing = Tuple[str, str, str]

AFFECTING_KINDS = ("edited", "missing", "gone", "deleted", "unparsable")
"""Kinds of differences that affect other code using the module."""
MAX_EDITED_NAMES = 5
"""Maximum number of edited names that are listed for a module."""
MAX_SEARCHED_INSTANCES = 20
"""Maximum number of instances of one class whose references are searched for."""
REDEFINED, GONE, MISSING = "redefined", "gone", "missing"
"""Kinds of differences: a name has a different value, is no longer in the file, or has no value in the REPL."""
OLD, INSTANCES, CLOSURES, UNBOUND = "old", "instances", "closures", "unbound"
"""Kinds of leftovers from a previous load.

They are an object that still has a name in another module, instances of a class, closures of a function, and an
imported name that no longer exists in its module.
"""


class Drift:
    """Finds differences between the project's loaded modules and their files.

    Results are cached until the file or module changes.
    """

    def __init__(self, sources: LoadedSources | None = None) -> None:
        self.sources = sources or LoadedSources()
        self.closures = PreviousClosures()
        self.deferred = DeferredReports()
        self._compared: dict[str, tuple[object, Stamp | None, list[Differing]]] = {}
        """For each module, the load and file stamp that were compared, and the result."""
        self._is_within: dict[tuple[str, str], bool] = {}

    def find_differences(self, root: str, only: str = "") -> list[Row]:
        """Return a row for each difference, with `module`, `name`, `kind`, and the `file` of the live code.

        `of` is the part that differs, a number, or, for an old object, the name of the new one. Differences between the
        sources also have the `path` of the module's file.

        `only` restricts the rows: `old` to leftovers from previous loads, and `edited` to these and differences between
        the sources.
        """
        self.sources.record_new_loads()
        self.sources.read_recent_sources()
        modules = self._modules_in(root)
        found: list[Row] = []
        replaced: list[tuple[str, str, object]] = []
        for name, (module, load) in modules.items():
            differences = [] if only == OLD else self._differences_from_file(name, load)
            found += [{**_row(name, attribute, kind, of=of), "path": load.file} for attribute, kind, of in differences]
            if not only:
                found += self._rebound_rows(name, module, load, replaced)
        found += self._old_names(modules, replaced)
        found += self._unbound_imports(modules)
        for owner, name, count in self.closures.count_outdated(
            {name: (entry[0], entry[1].file) for name, entry in modules.items()}
        ):
            found.append(_row(owner.__name__, name, CLOSURES, of=str(count)))
        return [*found, *self._old_instances(modules)]

    def is_edited(self, name: str) -> bool:
        """Return whether the file of a module has been edited since the module was loaded."""
        load = self.sources.loads.get(name)
        return load is not None and bool(self._differences_from_file(name, load))

    def is_another_edited(self, module: str) -> bool:
        """Return whether the file of another module was edited since that module was loaded."""
        return any(name != module and self.is_edited(name) for name in list(self.sources.loads))

    def _modules_in(self, root: str) -> dict[str, tuple[types.ModuleType, Load]]:
        """Return the loaded modules whose files are below a directory, except for installed packages in it."""
        found = {}
        seen: set[int] = set()
        for name, load in sorted(self.sources.loads.items(), key=_is_alias):
            if id(load) in seen:
                continue
            seen.add(id(load))
            if (root, load.file) not in self._is_within:
                self._is_within[root, load.file] = _is_project(os.path.realpath(load.file), os.path.realpath(root))
            module = sys.modules.get(name)
            if self._is_within[root, load.file] and module is not None and load.module() is module:
                found[name] = module, load
        return found

    def _differences_from_file(self, name: str, load: Load) -> list[Differing]:
        """Return the name, kind and part of each difference between the loaded source of a module and its file."""
        try:
            stamp = file_stamp(os.stat(load.file))
        except OSError:
            stamp = None
            if _is_in_archive(load.file):
                return []
        if stamp is not None and stamp == load.stamp:
            return []
        compared = self._compared.get(name)
        if compared is not None and compared[0] is load and compared[1] == stamp and stamp is not None:
            return compared[2]
        found = [(os.path.basename(load.file), "deleted", "")] if stamp is None else self._compare(load)
        self._compared[name] = load, stamp, found
        return found

    def _compare(self, load: Load) -> list[Differing]:
        """Compare the loaded source of a module with its file, and return the differences."""
        file_name = os.path.basename(load.file)
        found, loaded = read_file(load.file), load.data
        if found is None or loaded is None:
            return [] if load.is_rewritten else [(file_name, "unknown", "")]
        stamp, now = found
        if now == loaded:
            load.stamp = stamp
            return []
        if len(now) > MAX_PARSED_BYTES or len(loaded) > MAX_PARSED_BYTES:
            return [(file_name, "edited", "")]
        try:
            text = SourceText(now, load.file)
        except PARSE_ERRORS as error:
            line = getattr(error, "lineno", None)
            of = f"{getattr(error, 'msg', None) or type(error).__name__}" + (f", line {line}" if line else "")
            return [(file_name, "unparsable", of)]
        try:
            return list(difference_rows(compare(SourceText(loaded, load.file), text)))
        except PARSE_ERRORS:
            return [(file_name, "unknown", "")]

    def _rebound_rows(
        self, name: str, module: types.ModuleType, load: Load, replaced: list[tuple[str, str, object]]
    ) -> Iterator[Row]:
        """Yield rows for names that were rebound since the load.

        Their previous functions and classes are added to `replaced`.
        """
        if load.is_rewritten:
            return
        different = changed_names(module_dict(module), load.left)
        bound = load.bound_names() if different else None
        for attribute, (value, compared) in different.items():
            if compared is None or bound is None:
                if value is not ABSENT and is_evaluated(value):
                    is_known = compared is not None or (bound is not None and attribute in bound.kinds)
                    yield _row(name, attribute, REDEFINED if is_known else GONE, code_file(value))
                continue
            if compared is not None and _is_module_value(value, attribute, load):
                continue
            if (
                attribute not in bound.kinds
                or attribute in bound.rebound
                or self._is_rebound_by_project(attribute, value, compared, bound)
            ):
                continue
            if bound.kinds[attribute] == DEFINITION and compared is not None and compared.live_object() is not None:
                replaced.append((name, attribute, compared.live_object()))
            file = "" if value is ABSENT else code_file(value)
            yield _row(name, attribute, MISSING if value is ABSENT else REDEFINED, file if file != load.file else "")

    def _is_rebound_by_project(self, name: str, value: object, compared: Any, bound: Any) -> bool:
        """Return whether the project's own functions may have rebound a name that does not refer to a definition."""
        if bound.kinds[name] == DEFINITION or (value is not ABSENT and is_evaluated(value)):
            return False
        attribute = name.rpartition(".")[2]
        if attribute in bound.rebound or ("." in name and compared.was_none):
            return True
        pattern = assignment_pattern(attribute)
        encoded = attribute.encode()
        for load in list(self.sources.loads.values()):
            data = b"" if load.is_rewritten else load.data or b""
            if encoded in data and pattern.search(data.decode("utf-8", "replace")):
                return True
        return False

    def _old_names(
        self, modules: dict[str, tuple[types.ModuleType, Load]], replaced: list[tuple[str, str, object]]
    ) -> Iterator[Row]:
        """Yield rows for names that refer to an object from a previous load of another module.

        Objects without a newer version are ignored.
        """
        previous = [(home, attribute, reference()) for home, attribute, reference in self.sources.previous]
        known = {id(value): (home, attribute) for home, attribute, value in (*previous, *replaced) if value is not None}
        if not known:
            return
        loaded = [module for module, _ in modules.values()]
        main = sys.modules.get("__main__")
        for module in [*loaded, *([main] if main is not None and main not in loaded else [])]:
            space = module_dict(module)
            for name, value in list(space.items()):
                of = known.get(id(value))
                if of is None or (space.get("__name__"), name) == of or _is_still_named(value):
                    continue
                if space.get("__name__") == of[0] and not (is_class(value) or type(value) is types.FunctionType):
                    continue  # the previous value was selected from another name's value
                home = sys.modules.get(of[0])
                if home is not None and module_dict(home).get(of[1], value) is not value:
                    yield _row(str(space.get("__name__")), str(name), OLD, of=".".join(of))

    def _old_instances(self, modules: dict[str, tuple[types.ModuleType, Load]]) -> Iterator[Row]:
        """Yield rows for replaced classes that still have instances."""
        previous: dict[int, tuple[str, str]] = {}
        live = []
        for home, name, reference in self.sources.previous:
            kind = reference()
            if kind is not None and is_class(kind) and home in modules:
                live.append(kind)
                if module_dict(modules[home][0]).get(name, kind) is not kind:
                    previous[id(kind)] = home, name
        if not previous:
            return
        live_of: dict[int, list[object]] = {key: [] for key in previous}
        for candidate in gc.get_objects():
            key = id(type(candidate))
            if key in live_of:
                live_of[key].append(candidate)
        del live
        for key, instances in live_of.items():
            # Libraries that generate methods, such as attrs, keep a copy of a module's names as it was before.
            is_used = len(instances) > MAX_SEARCHED_INSTANCES or any(is_in_use(instance) for instance in instances)
            if instances and is_used:
                holders = ", ".join(find_holder_paths(instances[:MAX_SEARCHED_INSTANCES]))
                yield {
                    **_row(*previous[key], INSTANCES, of=str(len(instances))),
                    **({"held": holders} if holders else {}),
                }

    def dependents(self, file: str) -> list[tuple[str, str]]:
        """Return the names and files of modules that import a file's module, directly or indirectly.

        Imported modules come before those that import them.
        """
        sources: dict[str, Text] = {}
        for name, load in list(self.sources.loads.items()):
            module, data = sys.modules.get(name), load.data
            if module is None or data is None or load.is_rewritten or load.module() is not module:
                continue
            try:
                sources[name] = Text(name, module, load.file, SourceText(data, load.file))
            except PARSE_ERRORS:
                continue
        first = next(
            (name for name, text in sources.items() if os.path.realpath(text.file) == os.path.realpath(file)), ""
        )
        direct = {
            name: [other for other in text.imported_names if other in sources and other != name]
            for name, text in sources.items()
        }
        found = {first} if first else set()
        is_growing = bool(found)
        while is_growing:
            more = {name for name, others in direct.items() if name not in found and not found.isdisjoint(others)}
            found |= more
            is_growing = bool(more)
        ordered: dict[str, None] = {}

        def visit(name: str, above: frozenset[str]) -> None:
            if name in found and name not in ordered and name not in above:
                for other in direct[name]:
                    visit(other, above | {name})
                ordered.setdefault(name)

        for name in sources:
            visit(name, frozenset())
        return [(name, sources[name].file) for name in ordered if name != first]

    def describe_edited_modules(self, names: Iterable[str], space: Mapping[str, object]) -> list[str]:
        """Describe the modules that code with these names uses and whose files were edited since they were loaded.

        Only the files of these modules are checked. No user code runs.
        """
        homes: dict[str, None] = {}
        for name in names:
            value = space.get(name)
            if issubclass(type(value), types.ModuleType):
                home = str(module_dict(value).get("__name__"))
                homes.update(dict.fromkeys([home, *(f"{home}.{item}" for item in names)]))
            elif type(value) is types.FunctionType or is_class(value):
                homes[str(defining_module_name(value))] = None
        found = []
        if homes:
            self.sources.record_new_loads()
        for home in homes:
            load = self.sources.find_known_load(home)
            if load is not None and load.module() is sys.modules.get(home):
                edited = [
                    attribute
                    for attribute, kind, _ in self._differences_from_file(home, load)
                    if kind in AFFECTING_KINDS
                ]
                more = f" and {len(edited) - MAX_EDITED_NAMES} more" if len(edited) > MAX_EDITED_NAMES else ""
                found += [
                    home + " was edited since its load (" + ", ".join(edited[:MAX_EDITED_NAMES]) + more + ")"
                ] * bool(edited)
        return found

    def rebound_names(self, name: str) -> dict[str, RememberedValue | None]:
        """Return the names in a module that were rebound since its load, with their previous values.

        Names in classes are dotted.
        """
        load = self.sources.find_load(name)
        module = load.module() if load is not None else None
        if load is None or module is None:
            return {}
        found = {row["name"] for row in self._rebound_rows(name, module, load, []) if row["kind"] != GONE}
        return {
            attribute: compared
            for attribute, (_, compared) in changed_names(module_dict(module), load.left).items()
            if attribute in found
        }

    def sources_of_rebound_modules(self, evaluated: str) -> dict[str, bytes]:
        """Return the loaded source, by file, of each module with a rebound name that the evaluated code mentions."""
        words = set(re.findall(r"\w+", evaluated))
        found: dict[str, bytes] = {}
        for name, load in list(self.sources.loads.items()) if words else ():
            data = load.data if name.rpartition(".")[2] in words else None
            if data is not None and any(
                words.issuperset(attribute.split(".")) for attribute in self.rebound_names(name)
            ):
                found[load.file] = data
        return found

    def find_importers(self, module: str, names: Collection[str]) -> Iterator[tuple[str, str, str]]:
        """Yield the modules that import one of these names from a module, with the local and the original name."""
        last, encoded = module.rpartition(".")[2].encode(), [b"import *", *(item.encode() for item in names)]
        for name, load in list(self.sources.loads.items()):
            data = load.data or b""
            is_near = last in data or b"from ." in data
            has_names = is_near and any(item in data for item in encoded)
            if name != module and has_names and load.module() is sys.modules.get(name):
                for source, imported, attribute in _parse_imports(data, name, load.file):
                    if source == module and imported == "*":
                        yield from ((name, each, each) for each in names)
                    elif source == module and imported in names:
                        yield name, attribute, imported

    def _unbound_imports(self, modules: dict[str, tuple[types.ModuleType, Load]]) -> Iterator[Row]:
        """Yield rows for imports of names that a module no longer defines, which would fail in a new process."""
        gone: dict[str, set[str]] = {}
        for name, (module, load) in modules.items():
            names = {
                attribute
                for attribute, kind, _ in self._differences_from_file(name, load)
                if kind == GONE and "." not in attribute
            } | load.gone
            names = {item for item in names - {"*"} if f"{name}.{item}" not in sys.modules}
            if names and "__getattr__" not in module_dict(module):
                gone[name] = names - _names_bound_in_file(load.file, names)
        if not gone:
            return
        for name, (_, load) in modules.items():
            found = read_file(load.file)
            data = found[1] if found is not None else b""
            if not any(item.encode() in data for names in gone.values() for item in names):
                continue
            for source, imported, attribute in _parse_imports(data, name, load.file):
                if imported in gone.get(source, ()):
                    yield _row(name, attribute, UNBOUND, of=source + "." + imported)


def _parse_imports(data: bytes, name: str, file: str) -> Iterator[tuple[str, str, str]]:
    """Yield the names that a source imports, like `imported_names`, or nothing if it cannot be parsed."""
    try:
        tree = ast.parse(data, file)
    except PARSE_ERRORS:
        return
    yield from imported_names(tree, name, is_package=os.path.basename(file) == "__init__.py")


def _is_in_archive(file: str) -> bool:
    """Return whether a path is inside a file, like that of a module in a zip archive."""
    parent = os.path.dirname(file)
    while parent != os.path.dirname(parent) and not os.path.exists(parent):
        parent = os.path.dirname(parent)
    return os.path.isfile(parent)


def _is_module_value(value: object, name: str, load: Load) -> bool:
    """Return whether a value is the function that the loaded source defines under its name, as after undoing a mock."""
    if type(value) is not types.FunctionType or value.__code__.co_filename != load.file or value.__qualname__ != name:
        return False
    data = load.data
    if data is None:
        return False
    codes = [compile(data, load.file, "exec", dont_inherit=True)]
    for code in codes:
        codes += [const for const in code.co_consts if type(const) is types.CodeType]
    return any(code.co_name == value.__code__.co_name and is_same_code(code, value.__code__) for code in codes)


def _is_still_named(value: object) -> bool:
    """Return whether a class or function is still bound to its own name. If so, other names for it are just aliases."""
    if not (is_class(value) or type(value) is types.FunctionType):
        return False
    home = sys.modules.get(str(defining_module_name(value)))
    return home is not None and module_dict(home).get(qualified_name(value)) is value


def _is_alias(item: tuple[str, Load]) -> bool:
    """Return whether a module was imported under a name other than its own."""
    module = item[1].module()
    return module is not None and module_dict(module).get("__name__") != item[0]


def _names_bound_in_file(file: str, names: set[str]) -> set[str]:
    """Return the given names that a file binds, or all of them if that is unknown."""
    found = read_file(file)
    try:
        bound = BoundNames(SourceText(found[1] if found is not None else b"", file).tree)
    except PARSE_ERRORS:
        return names
    return names if "*" in bound.kinds else names.intersection(bound.kinds)


def _is_project(file: str, root: str) -> bool:
    return file.startswith(root.rstrip(os.sep) + os.sep) and not any(
        part in INSTALLED_DIRECTORIES for part in file.split(os.sep)
    )


def _row(module: str, name: str, kind: str, file: str = "", of: str = "") -> Row:
    row = {"module": module, "name": name, "kind": kind, "file": file, "of": of}
    return {key: text for key, text in row.items() if text}
