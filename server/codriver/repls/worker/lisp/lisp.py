"""The dialect `lisp`: Basilisp, evaluated form by form. Namespaces are Basilisp's own."""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import itertools
import os
import re
import sys

from ..basics.dialect import (
    MAX_COMPLETIONS,
    MAX_LISTED_NAMES,
    Dialect,
    NamespaceMissingError,
    first_doc_line,
    name_matcher,
    value_kind,
)
from ..basics.error_report import (
    add_position,
    common_error_fields,
    error_summary,
    format_trace,
    is_library_file,
    set_phase,
)
from ..basics.frame_spaces import FRAME_OP, error_frames, failed_test_frames
from ..basics.plain_values import BRACKETS, PlainPrinter
from ..basics.print_limits import print_limits, requested_print_limits
from ..basics.source_files import Sources, source_lines
from .loaded_namespaces import LispLoaded
from .undo_records import LispUndoRecords
from .value_parts import LispValues, print_string

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Iterator
    from typing import Any

    from ..basics.frame_spaces import FrameSpace
    from ..basics.jobs import Job

MAX_PRINTED_ELEMENTS = 10_000
"""Maximum number of elements that are printed if the request has no limit, because sequences may be infinite."""
DATA_LENGTH, DATA_LEVEL = 50, 5
"""Maximum length and depth of an error's printed data."""
MAX_DATA_CHARACTERS = 4000
"""Maximum number of characters printed from an error's data."""
MAX_SOURCE_LINES = 2000
"""Maximum number of lines of a definition to return."""


INSTALLED_DIRECTORIES = {"site-packages", "dist-packages"}
MAX_COMPILATION_NS = 10 * 10**9
"""The assumed maximum duration of a compilation, in nanoseconds.

Code compiled this long after its source was written cannot be from an older version of the source.
"""
ARITY_NAME_PATTERN = re.compile(r"__arity(\d+|_rest)$")
"""Matches the end of the name of a function that implements one arity. Source: Basilisp's `compiler/generator.py`."""
ARITIES_PARAMETER = "multi_arity_args"
"""The name of the first parameter of the functions with which Basilisp selects an arity."""


class Lisp(Dialect):
    """The dialect of a worker that evaluates Basilisp."""

    expands = True
    reports_loaded = True
    is_lisp = True
    runs_concurrently = True

    def __init__(self) -> None:
        super().__init__()
        self.roots = [os.getcwd()]
        _warm_up()
        compiler, multifn, obj, reader, runtime, symbol = (
            importlib.import_module("basilisp.lang." + name)
            for name in ("compiler", "multifn", "obj", "reader", "runtime", "symbol")
        )
        self._compiler, self._reader, self._runtime, self._symbol = compiler, reader, runtime, symbol
        importlib.import_module("basilisp.main").init()
        importlib.import_module("basilisp.core")
        _ignore_cached_code(importlib.import_module("basilisp.importer").BasilispImporter)
        obj.lrepr.register(str)(print_string)
        lang = importlib.import_module("basilisp.lang.vector"), importlib.import_module("basilisp.lang.interfaces")
        self._values = LispValues(lang[1].ICounted, lang[0].vector, runtime.lrepr)
        self.plain_printer = self._plain_printer()
        self._sources = Sources()
        self.undo_records = self._undo_records = LispUndoRecords(runtime.Namespace, multifn.MultiFunction)
        modules = ("basilisp.lang." + name for name in ("keyword", "map", "util"))
        self._loaded = LispLoaded(*map(importlib.import_module, modules))
        self._numbers = itertools.count(1)
        self._core, self._in_ns = self.find("basilisp.core"), symbol.symbol("in-ns")
        names = ("*ns*", "*1", "*2", "*3", "*e", "*out*", "*err*", "*in*", "*print-length*", "*print-level*")
        self._vars = {name: self._core_var(name) for name in names}
        self._limits = {name: self._vars[name].value for name in names[-2:]}
        """The print limits when Basilisp started. If they differ later, the user has set them."""
        self.home = runtime.Namespace.get_or_create(symbol.symbol("user"))
        with runtime.bindings({self._vars["*ns*"]: self.home}):
            context = compiler.CompilerContext(filename="<eval>")
            for form in reader.read_str("(ns user (:use [basilisp.repl :only [doc source]]))", runtime.resolve_alias):
                compiler.compile_and_exec_form(form, context, self.home)

    def list_loaded(self, root: str, known: str) -> dict[str, Any]:
        return self._loaded.describe_loaded_code(list(self._runtime.Namespace.ns_cache().values()), root, known)

    def versions(self) -> dict[str, str]:
        from importlib import metadata

        python = ".".join(map(str, sys.version_info[:3]))
        return {"basilisp": metadata.version("basilisp"), "python": python}

    def display_name(self, namespace: Any) -> str:
        return str(namespace.name)

    def create_session_namespace(self) -> Any:
        """Return the first namespace. Sessions share all namespaces, as on the JVM."""
        return self.home

    def _core_var(self, name: str) -> Any:
        """Return the var with this name in Basilisp's core."""
        return self._runtime.Var.find_safe(self._symbol.symbol(name, ns="basilisp.core"))

    def capture_streams(self) -> None:
        for name, stream in (("*out*", sys.stdout), ("*err*", sys.stderr), ("*in*", sys.stdin)):
            self._vars[name].bind_root(stream)
        # Output is sent shortly anyway, with many lines per message.
        self._core_var("*flush-on-newline*").bind_root(False)  # noqa: FBT003  # the value of a var

    def find(self, name: object) -> Any:
        return self._runtime.Namespace.get(self._symbol.symbol(name)) if name else None

    def _refer_core(self, namespace: Any) -> None:
        """Refer Basilisp's core in a namespace created by `in-ns`, because Basilisp itself only refers `ns` in it."""
        if namespace.find(self._in_ns) is None:
            if len(namespace.refers) <= 1:
                namespace.refer_all(self._core)
            namespace.add_refer(self._in_ns, self._core.find(self._in_ns))

    def evaluate(self, job: Job) -> None:
        message, session = job.message, job.session
        is_load = message["op"] == "load-file"
        namespace = session.namespace
        if message.get("ns") and not is_load:
            namespace = self.find(message["ns"])
            if namespace is None:
                name = message["ns"]
                raise NamespaceMissingError(f"there is no namespace {name!r}: require it first")
            self._refer_core(namespace)
        frame = None
        if message["op"] == FRAME_OP:
            number = message.get("frame")
            frames = [] if session.error is None else error_frames(self._innermost_error(session.error))
            spaces = session.spaces
            if message.get("test"):
                frames, spaces = failed_test_frames(session.id)
            frame = spaces.space_for_frame(number if isinstance(number, int) else -1, frames)
            namespace = self._find_namespace(frame.around) or namespace
        bound = dict(zip(("*1", "*2", "*3"), session.last))
        bound.update({"*ns*": namespace, "*e": session.error})
        bound.update({"*out*": sys.stdout, "*err*": sys.stderr, "*in*": sys.stdin})
        before = {name: session.limits.get(name, self._vars[name].value) for name in self._limits}
        bound.update(before)
        with self._runtime.bindings({self._vars[name]: value for name, value in bound.items()}):
            if message["op"] == "macroexpand":
                self._expand(job)
            else:
                with self._undo_records.record_evaluation(job):
                    self._run(job, frame, is_load=is_load)
            now = {name: self._vars[name].value for name in before}
            session.limits.update({name: value for name, value in now.items() if value != before[name]})

    def _find_namespace(self, names: dict[str, Any]) -> Any:
        """Return the namespace whose module has this dictionary, or None for a Python module."""
        spaces = self._runtime.Namespace.ns_cache().values()
        return next((space for space in spaces if space.module.__dict__ is names), None)

    def _in_frame(self, form: Any, frame: FrameSpace) -> tuple[Any, list[object]]:
        """Wrap a form in a function whose parameters are a frame's local variables.

        Return the form of the function, and the values of the variables.
        """
        local_values = {name: value for key, value in frame.locals.items() if (name := self.source_name(key))}
        lists, vectors = (importlib.import_module("basilisp.lang." + name) for name in ("list", "vector"))
        symbol = self._symbol.symbol
        return lists.l(symbol("fn*"), vectors.v(*map(symbol, local_values)), form), list(local_values.values())

    def _run(self, job: Job, frame: FrameSpace | None, *, is_load: bool) -> None:
        message, session = job.message, job.session
        source = message["file" if is_load else "code"]
        job.file = message.get("file-path" if is_load else "file") or f"<eval {next(self._numbers)}>"
        line = 1 if is_load else job.positive_int_field("line")
        # Basilisp counts columns from 0.
        start = {"init_line": line, "init_column": 0 if is_load else job.positive_int_field("column") - 1}
        self._sources.store(job.file, "\n" * (line - 1) + source)
        context = self._compiler.CompilerContext(filename=job.file)
        value, job.form = None, 1
        for number, form in enumerate(self._reader.read_str(source, self._runtime.resolve_alias, **start), 1):
            code, values = (form, []) if frame is None else self._in_frame(form, frame)
            value = self._compiler.compile_and_exec_form(code, context, self._vars["*ns*"].value)
            value = value if frame is None else value(*values)
            now = self._vars["*ns*"].value
            self._refer_core(now)
            if not is_load:
                self.stored_values.send_value(job, value, *self._format_value(job, value, now))
                session.last[:] = [value, *session.last[:2]]
                for name, last_value in zip(("*1", "*2", "*3"), session.last):
                    self._vars[name].set_value(last_value)
                if not message.get("ns") and frame is None:
                    session.namespace = now
            job.form = number + 1
        if is_load:
            self.stored_values.send_value(job, value, *self._format_value(job, value, session.namespace))

    def _format_value(self, job: Job, value: object, namespace: Any) -> tuple[str, str, str]:
        """Return the printed value, the name of its namespace, and a description of what was omitted."""
        text, cut = self.print_value(value, job)
        return text, self.display_name(namespace), cut

    def print_value(self, value: Any, job: Job, start: int = 0, path: tuple[object, ...] = ()) -> tuple[str, str]:
        """Print a value. The limits apply only to this value, so output from the code itself is never truncated."""
        chosen = []
        requested = requested_print_limits(job)
        for name, limit, default in zip(self._limits, requested, print_limits(job)):
            now = job.session.limits.get(name, self._vars[name].value)
            chosen.append(now if limit is None and now != self._limits[name] else default)
        length, depth = (item if isinstance(item, int) else None for item in chosen)
        length = length or MAX_PRINTED_ELEMENTS
        bound = {self._vars["*print-length*"]: length, self._vars["*print-level*"]: depth}
        try:
            with self._runtime.bindings(bound):
                text = self._runtime.lrepr(self._values.slice_of_value(value, start, length) if start else value)
                is_cut = "..." in text or (depth is not None and "#" in text)
                return text, self._values.cut(value, length, depth, start, path) if is_cut else ""
        except Exception as error:
            set_phase(error, "print")
            raise

    def get_part(self, value: Any, path: list[object]) -> Any:
        return self._values.get_part(value, path)

    def _expand(self, job: Job) -> None:
        """Expand a form by one step, until it is no longer a macro call, or including all inner forms.

        The request specifies how far to expand it.
        """
        expander = job.message.get("expander")
        form = next(iter(self._reader.read_str(job.message["code"], self._runtime.resolve_alias)), None)
        if expander == "macroexpand-all":
            expand = importlib.import_module("basilisp.walk").macroexpand_all
        else:
            expand = self._core_var("macroexpand-1" if expander == "macroexpand-1" else "macroexpand").value
        job.send({"expansion": self._runtime.lrepr(expand(form))})

    def complete(self, prefix: str, namespace: Any) -> list[dict[str, str]]:
        # For `a/b`, complete names in the namespace or module `a`, which may be an alias.
        owner, slash, start = prefix.partition("/")
        if owner and slash:
            return self._complete_in(owner, start, namespace)
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            loaded = {str(name) + "/" for name in self._runtime.Namespace.ns_cache() if str(name).startswith(prefix)}
            found = sorted({*namespace.complete(prefix), *(loaded if prefix else ())})[:MAX_COMPLETIONS]
            return [{"candidate": name, **self._kind(self._resolve(name, namespace))} for name in found]

    def _complete_in(self, owner: str, start: str, namespace: Any) -> list[dict[str, str]]:
        symbol = self._symbol.symbol(owner)
        home = namespace.aliases.val_at(symbol) or self.find(owner)
        if home is not None:
            is_in_namespace = home is namespace
            of_home = {
                str(name.name): var for name, var in home.interns.items() if is_in_namespace or not var.is_private
            }
            kinds = {name: self._kind(var) for name, var in of_home.items() if name.startswith(start)}
        else:
            module = builtins if owner == "python" else self._imported_module(symbol, namespace)
            names = sorted(vars(module)) if module is not None else ()
            names = [name for name in names if name.startswith(start) and (start[:1] == "_" or name[:1] != "_")]
            kinds = {name: {"type": value_kind(vars(module)[name], name)} for name in names}
        return [{"candidate": owner + "/" + name, **kinds[name]} for name in sorted(kinds)[:MAX_COMPLETIONS]]

    @staticmethod
    def _imported_module(symbol: object, namespace: Any) -> Any:
        """Return the Python module that a namespace imports under this name, or None."""
        return namespace.imports.val_at(namespace.import_aliases.val_at(symbol) or symbol)

    def lookup(self, name: str, namespace: Any) -> dict[str, Any] | None:
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            var = self._resolve(name, namespace)
        if var is None:
            return None
        info: dict[str, Any] = {"name": str(var.name), **self._kind(var)}
        meta = {str(key.name): item for key, item in (var.meta or {}).items()}
        info.update({key: meta.get(key) for key in ("doc", "file", "line")})
        if isinstance(meta.get("col"), int):
            info["column"] = meta["col"] + 1
        if meta.get("arglists") is not None:
            info["arglists-str"] = "\n".join(self._runtime.lrepr(args) for args in meta["arglists"])
        if info["type"] in ("macro", "var"):
            info.update({"macro": "true"} if info["type"] == "macro" else self._values.describe_value(var.value))
        return {key: item for key, item in info.items() if isinstance(item, (str, int))}

    def source(self, name: str, namespace: Any) -> tuple[str, str, int] | None:
        found = self.lookup(name, namespace) or {}
        file, line = found.get("file"), found.get("line")
        if not isinstance(file, str) or not isinstance(line, int):
            return None
        text = "".join(source_lines(file)[line - 1 : line - 1 + MAX_SOURCE_LINES])
        return (text, file, line) if text else None

    def names(self, limit: str, namespace: Any) -> dict[str, Any] | None:
        if "*" in limit:
            found = self._matching(limit, namespace)
        else:
            home = self.find(limit) or namespace.aliases.val_at(self._symbol.symbol(limit))
            if home is None:
                return None
            found = ((name, var) for name, var in self._vars_by_name(home) if not var.is_private)
        listed = list(itertools.islice(found, MAX_LISTED_NAMES))
        return {"rows": [self._row(name, var) for name, var in listed], "omitted": sum(1 for _ in found)}

    @staticmethod
    def _vars_by_name(home: Any) -> list[tuple[str, Any]]:
        return sorted((str(name.name), var) for name, var in home.interns.items())

    def _matching(self, pattern: str, namespace: Any) -> Iterator[tuple[str, Any]]:
        """Yield the matching namespaces and vars by name, starting with `namespace` and ending with Basilisp's own."""
        is_match, is_qualified = name_matcher(pattern), "/" in pattern
        all_of_them = [(self.display_name(item), item) for item in self._runtime.Namespace.ns_cache().values()]
        for name, home in sorted(
            all_of_them, key=lambda item: (item[1] is not namespace, item[0][:9] == "basilisp.", item[0])
        ):
            if is_match(name):
                yield name, home
            for local_values, var in self._vars_by_name(home):
                full = name + "/" + local_values
                if (home is namespace or not var.is_private) and is_match(full if is_qualified else local_values):
                    yield full, var

    def _row(self, name: str, var: Any) -> dict[str, str]:
        """Describe a var or a namespace as a row."""
        meta = {str(key.name): item for key, item in (var.meta or {}).items()}
        is_space = isinstance(var, self._runtime.Namespace)
        row = {"name": name, "type": "namespace" if is_space else self._kind(var)["type"], "doc": meta.get("doc")}
        row["args"] = " ".join(map(self._runtime.lrepr, meta.get("arglists") or ()))
        return {key: text if key != "doc" else first_doc_line(text) for key, text in row.items() if text}

    def _kind(self, var: Any) -> dict[str, str]:
        if var is None:
            return {"type": "namespace"}
        is_macro = any(str(key.name) == "macro" and item for key, item in (var.meta or {}).items())
        kind = "macro" if is_macro else "function" if self._values.is_function(var.value) else "var"
        return {"type": kind, "ns": self.display_name(var.ns)}

    def _resolve(self, name: str, namespace: Any) -> Any:
        owner, slash, last = name.rpartition("/")
        symbol = self._symbol.symbol(last, ns=owner) if slash and owner else self._symbol.symbol(name)
        with contextlib.suppress(Exception):
            return self._runtime.resolve_var(symbol, namespace)
        return None

    def describe_failure(self, error: BaseException, job: Job) -> tuple[dict[str, Any], str]:
        innermost = self._innermost_error(error)
        parts, frames = common_error_fields(innermost, self._error_summary)
        if isinstance(innermost, self._reader.SyntaxError):
            parts.update(type=type(innermost).__name__, phase="read", message=innermost.message)
            self._locate(parts, job.file, innermost.line, innermost.col)
        elif isinstance(innermost, self._compiler.CompilerException):
            parts.update(type=type(innermost).__name__, phase="compile", message=str(innermost.msg))
            if innermost.__cause__ is not None:
                parts["message"] += ": " + str(innermost.__cause__)
            data = {str(key.name): item for key, item in innermost.data.items()}
            self._locate(parts, data.get("file"), data.get("line"), data.get("col"))
        else:
            add_position(parts, [frame for frame in frames if not is_library_file(frame.filename)])
            parts.pop("column", None)  # it refers to Python code that Basilisp generated
        local_values = [frame for frame in frames if not is_library_file(frame.filename)]
        kind, message, file = parts["type"], parts["message"], parts.get("file")
        where = f" ({file}:{parts.get('line')})" if file else ""
        lines = [f"{kind}{where}: {message}{_error_data(parts)}", *format_trace(local_values)]
        lines += [
            f"{part['relation']}: {part['type']}: {part['message']}{_error_data(part)}"
            for part in parts.get("chain", ())
        ]
        return parts, "\n".join(lines) + "\n"

    def name_for_recording(self, code: types.CodeType, module: str, name: str) -> tuple[str, str]:
        """Return the namespace and name of a function. The name is empty for evaluated forms and inner functions."""
        if name.startswith("__") or "<locals>" in name or code.co_varnames[:1] == (ARITIES_PARAMETER,):
            return module, ""
        demunge = importlib.import_module("basilisp.lang.util").demunge
        return demunge(module), demunge(ARITY_NAME_PATTERN.sub("", name))

    def source_name(self, name: str) -> str:
        """Return the name that a local variable has in the source. Basilisp munges names and adds numbers to them."""
        local_values = re.sub(r"_\d+$", "", name)
        if local_values[:1] in "._" or not local_values:
            return ""
        return str(importlib.import_module("basilisp.lang.util").demunge(local_values))

    def _plain_printer(self) -> PlainPrinter:
        """Create a printer for plain Lisp values. Sequences are not plain, because accessing one may compute it."""
        names = ("vector", "map", "set", "list", "keyword", "symbol")
        modules = (importlib.import_module("basilisp.lang." + name) for name in names)
        vectors, maps, sets, lists, keywords, symbols = modules
        local_values = int, float, complex, bool, type(None), str, bytes, keywords.Keyword, symbols.Symbol
        brackets = {
            vectors.PersistentVector: ("[", "]"),
            maps.PersistentMap: ("{", "}"),
            sets.PersistentSet: ("#{", "}"),
            lists.PersistentList: ("(", ")"),
        }
        return PlainPrinter(dict.fromkeys(local_values, self._runtime.lrepr), {**BRACKETS, **brackets}, (" ", " "))

    def _error_summary(self, error: BaseException) -> dict[str, Any]:
        """Return the type, message and data of an error.

        The data of an `ExceptionInfo` is printed within limits.
        """
        words = error_summary(error)
        innermost: Any = error
        if type(error).__name__ == "ExceptionInfo":
            limits = {self._vars["*print-length*"]: DATA_LENGTH, self._vars["*print-level*"]: DATA_LEVEL}
            with self._runtime.bindings(limits):
                data = self._runtime.lrepr(innermost.data)[:MAX_DATA_CHARACTERS]
            words.update(type="ExceptionInfo", message=str(innermost.message), data=data)
        return words

    def _innermost_error(self, error: BaseException) -> Any:
        """Return the innermost compiler error. The outer ones only describe macro expansion."""
        wrapper = self._compiler.CompilerException
        while isinstance(error, wrapper) and isinstance(error.__cause__, wrapper):
            error = error.__cause__
        return error

    @staticmethod
    def _locate(parts: dict[str, Any], file: object, line: object, column: object) -> None:
        """Add the known parts of a position to the fields of an error."""
        position = {"file": file, "line": line, "column": column + 1 if isinstance(column, int) else None}
        parts.update({key: value for key, value in position.items() if value is not None})


def _error_data(parts: dict[str, Any]) -> str:
    """Return an error's data as a suffix for its message, with a leading space, or "" if it has no data."""
    return " " + parts["data"] if "data" in parts else ""


def _cache_path(file: str) -> str:
    """Return the path of the file in which Basilisp caches compiled code."""
    return os.path.splitext(importlib.util.cache_from_source(file))[0] + ".lpyc"


def _ignore_cached_code(importer: Any) -> None:
    """Ignore cached code for project files unless it was written well after its source.

    Basilisp compares only seconds and sizes, and a quick edit may change neither. For a file that is too recent, the
    lowest four bytes of its time in nanoseconds replace the seconds.
    """
    original = importer.path_stats

    def path_stats(loader: Any, path: str) -> dict[str, Any]:
        stats: dict[str, Any] = original(loader, path)
        with contextlib.suppress(OSError, NotImplementedError):
            source, compiled = os.stat(path), os.stat(_cache_path(path))
            newest = max(source.st_mtime_ns, source.st_ctime_ns)
            is_installed = not INSTALLED_DIRECTORIES.isdisjoint(path.split(os.sep))
            if not is_installed and compiled.st_mtime_ns <= newest + MAX_COMPILATION_NS:
                return {**stats, "mtime": newest & 0xFFFFFFFF}
        return stats

    importer.path_stats = path_stats


def _warm_up() -> None:
    """Make Basilisp cache its compiled core, because compiling it takes about 20 s."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # This prevents Basilisp from generating unused Python source for every form.
    os.environ.setdefault("BASILISP_EMIT_GENERATED_PYTHON", "false")
    found = importlib.util.find_spec("basilisp")
    if found is None or not found.submodule_search_locations:
        return
    core = os.path.join(found.submodule_search_locations[0], "core.lpy")
    if sys.pycache_prefix is None and not os.access(os.path.dirname(core), os.W_OK):
        # The environment belongs to another user, so this user gets a separate cache.
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        sys.pycache_prefix = os.path.join(caches, "codriver", "pycache")
    if not os.path.exists(_cache_path(core)):
        words = "codriver-worker: on its first start, Basilisp compiles its core for about 20 seconds\n"
        sys.stderr.write(words)
        sys.stderr.flush()
