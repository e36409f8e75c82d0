"""The Python dialect: evaluate code and files in modules, and look up names.

Clients call the home module `user`.
"""

from __future__ import annotations
import __future__

import ast
import bisect
import builtins
import contextlib
import importlib
import itertools
import os
import sys
import traceback
import types

from ..basics import sensitive_texts
from ..basics.definition_access import ABSENT
from ..basics.dialect import Dialect, NamespaceMissingError
from ..basics.displays import displayed_text
from ..basics.error_report import add_position, common_error_fields, set_phase, trim_traceback
from ..basics.frame_spaces import FRAME_OP, FrameSpace, check_frame_code, error_frames
from ..basics.print_limits import QUOTA_FIELD, print_limits, requested_print_limits
from ..basics.printing import Printer, value_text
from ..basics.source_files import Sources
from ..basics.undo_records import UndoRecords
from ..basics.value_paths import get_part
from .definition_sources import find_definition
from .follow_failures import Reporting
from .images import Figures, append_image, get_image
from .loaded_sources import MAX_IMMEDIATE_READS, LoadedSources
from .module_loads import ModuleLoad, is_loaded, module_name
from .python_drift import Drift
from .python_names import complete_name, describe_name, list_names, resolve_name
from .shared_names import SharedNames
from .statements import is_docstring
from .unimported_names import unimported_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any, Protocol

    from ..basics.jobs import Job, Session

    class LoadCheck(Protocol):
        """A description of a module before and after a load."""

        def before(self) -> None: ...  # as in `fresh.comparison`
        def after(self, names: Collection[str], code: types.CodeType | None) -> None: ...  # as in `fresh.comparison`

    class LoadComparison(Protocol):
        """A comparison of loads with a fresh import."""

        def check_load(self, name: str, file: str) -> LoadCheck | None: ...  # as in `fresh.comparison`


ORIGINAL_DISPLAYHOOK = sys.displayhook
"""The display hook at interpreter start, which some systems replace. Any other hook was set by the user."""
MAX_RENEWED_ROWS = 100
"""Maximum number of updated objects that are reported after a load."""
MAX_PARSED_CHARACTERS = 2**20
"""Maximum number of characters in a file that is parsed. A longer file is compiled as a whole.

For a file with 300,000 lines, parsing would account for 7 of the 9 s.
"""
MAX_SOURCE_LINE_CHARACTERS = 500
"""Maximum number of characters in the source line sent with a syntax error."""
COROUTINE_FLAG = 128
"""The value of `inspect.CO_COROUTINE`. It is repeated here because importing `inspect` is slow."""


class Python(Dialect):
    """The dialect of a worker that evaluates Python. `roots` are the directories of the project's modules.

    `home` is the module of the first session. If it is None, a new module is created.
    """

    has_hooks = True
    runs_concurrently = True
    reports_drift = True
    home: types.ModuleType

    def __init__(self, roots: list[str], home: types.ModuleType | None = None, figures: Figures | None = None) -> None:
        super().__init__()
        self.roots = roots
        self._figures = figures or Figures()
        self._sources = Sources()
        self._loaded = LoadedSources(reports_main=home is not None)
        self._drift = Drift(self._loaded)
        self.undo_records = UndoRecords(roots)
        self._comparison: LoadComparison | None = None
        self._renewed: list[dict[str, str]] = []
        """Rows about objects updated by the last load, until they are reported."""
        self._numbers = itertools.count(1)
        self._homes = itertools.count(2)
        self._user_values: dict[str, object] = {}
        """The value assigned to `_` in each module."""
        # Code that pickles its classes or starts processes finds them in `__main__`, so that must not be the worker's
        # module.
        self.home = home or _new_module("__main__")
        sys.modules["__main__"] = self.home

    def versions(self) -> dict[str, str]:
        return {"python": ".".join(map(str, sys.version_info[:3]))}

    def display_name(self, namespace: types.ModuleType) -> str:
        return "user" if namespace is self.home else namespace.__name__

    def create_session_namespace(self) -> types.ModuleType:
        module = _new_module(f"user{next(self._homes)}")
        # The new module can read the names in the first one, but its own assignments are separate.
        module.__dict__["__builtins__"] = SharedNames(self.home.__dict__, self._is_unshared_value)
        sys.modules[module.__name__] = module
        return module

    def _is_unshared_value(self, name: str) -> bool:
        """Return whether a name is `_` with the first module's last value, which other modules do not share."""
        stored = self._user_values.get("__main__", self)
        return name == "_" and self.home.__dict__.get("_") is stored

    def drop_session_namespace(self, namespace: types.ModuleType) -> None:
        sys.modules.pop(namespace.__name__, None)
        self._user_values.pop(namespace.__name__, None)

    def find(self, name: object) -> types.ModuleType | None:
        if name == "user":
            return self.home
        return sys.modules.get(name) if name and isinstance(name, str) else None

    def evaluate(self, job: Job) -> None:
        namespace = self.display_name(job.session.namespace)
        if job.is_concurrent:
            self._evaluate(job)  # figures drawn at this time belong to the code on the main thread
            return

        def send(text: str) -> None:
            self.stored_values.send_value(job, None, text, namespace, "")

        with self._figures.sending_figures(send, job.message.get(QUOTA_FIELD), is_partial=_is_partial(job)):
            if job.message["op"] == "load-file":
                self._load(job)
            else:
                self._evaluate(job)

    def _evaluate(self, job: Job) -> None:
        message, session = job.message, job.session
        session.made_tasks.evaluation = str(message.get("codriver/keep") or "")
        module = session.namespace
        names = module.__dict__.get("__builtins__")
        if isinstance(names, SharedNames):
            names.refresh()
        job.file = message.get("file") or f"<eval {next(self._numbers)}>"
        frame = _requested_frame(job)
        steps = self._compile(message["code"], job)
        if message.get("ns"):
            module = self.find(message["ns"]) or _import_module(message["ns"])
        if frame is not None:
            frame.prepare(code for code, _, _ in steps)
        # If the last statement is not an expression, there is no value.
        has_value = bool(steps) and steps[-1][1]
        try:
            self._run_steps(job, steps, module, frame, has_value=has_value)
        finally:
            names = {name for code, _, _ in steps for name in code.co_names}
            job.edited = self._drift.describe_edited_modules(names, module.__dict__)

    def _run_steps(
        self,
        job: Job,
        steps: list[tuple[types.CodeType, bool, bool]],
        module: types.ModuleType,
        frame: FrameSpace | None,
        *,
        has_value: bool,
    ) -> None:
        """Run compiled statements in a module or in the namespace of a frame, and send their values."""
        for number, (code, is_expression, wants_loop) in enumerate(steps, 1):
            job.form = number
            try:
                space = module.__dict__ if frame is None else frame.names
                value = self.run(code, space, job, wants_loop=wants_loop)
            finally:
                if frame is not None:
                    frame.write_back()
                self._loaded.record_names()
            is_last = number == len(steps) and not _is_partial(job)
            if is_last and not job.is_concurrent:
                self._figures.send_all(value)
            if not is_expression:
                continue
            is_later = not is_last and not job.is_concurrent and has_value and self._figures.send_later(value)
            displayed = self._display(value, job, with_images=not is_later) if has_value else None
            if value is not None and not job.is_concurrent and frame is None:
                self._store(value, module)
            if displayed is not None:
                self.stored_values.send_value(job, value, displayed[0], self.display_name(module), displayed[1])

    def run(self, code: types.CodeType, space: dict[str, Any], job: Job, *, wants_loop: bool) -> object:
        """Run code. If it awaits or needs an event loop, run it on the session's loop."""
        return _run_code(code, space, job.session, wants_loop=wants_loop)

    def _store(self, value: object, module: types.ModuleType) -> None:
        """Bind a value to `_`, unless the user has bound `_` to something else, such as a translation function."""
        before = self._user_values.get(module.__name__)
        if module.__dict__.get("_", before) is before:
            module.__dict__["_"] = self._user_values[module.__name__] = value

    def _parse(self, source: str, file: str, line: int = 1) -> list[ast.stmt]:
        # Prepend empty lines, so that all line numbers are right, including those in errors.
        text = "\n" * (line - 1) + source
        self._sources.store(file, text)
        return ast.parse(text, file).body

    def _compile(self, source: str, job: Job) -> list[tuple[types.CodeType, bool, bool]]:
        """Compile each statement in a source.

        Returns the code objects, each with flags for whether it is an expression and whether it needs an event loop.
        """
        session = job.session
        found: list[tuple[types.CodeType, bool, bool]] = []
        try:
            is_in_frame = job.message["op"] == FRAME_OP
            flags = session.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            for number, node in enumerate(self._parse(source, job.file, job.positive_int_field("line")), 1):
                job.form = number
                if is_in_frame:
                    check_frame_code(node)
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    for alias in node.names:
                        flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
                is_expression = isinstance(node, ast.Expr)
                part = ast.Expression(node.value) if isinstance(node, ast.Expr) else ast.Module([node], [])
                code = compile(part, job.file, "eval" if is_expression else "exec", flags, dont_inherit=True)
                found.append((code, is_expression, _needs_loop(node)))
        except Exception as error:
            set_phase(error, "read")
            raise
        session.flags = flags & ~ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return found

    def module_of(self, path: str) -> str | None:
        """Return the name under which a file can be imported as a module, or None."""
        return module_name(path, self.roots)

    def _load(self, job: Job) -> None:
        """Load a file into its module so that its definitions take effect.

        A file without a module runs in the session's module. Changes are recorded if the request names an undo record.
        """
        message = job.message
        path = job.file = os.path.abspath(message.get("file-path") or message.get("file-name") or "loaded.py")
        name = self.module_of(path)
        lines = message.get("codriver/lines") if is_loaded(name, path) else None
        body, last = self._compile_file(path, job, lines)
        self._renewed = []
        value: object = ABSENT
        space = job.session.namespace.__dict__
        displayed = f"<module {name or self.display_name(job.session.namespace)!r} from {path!r}>", ""
        undo = self.undo_records.record_for(message.get("codriver/hold"))
        load = ModuleLoad(name, path, message["file"], undo, self._drift, home=job.session.namespace)
        load.prepare()
        has_failed = True
        load_check = None if self._comparison is None or name is None else self._comparison.check_load(name, path)
        try:
            steps = None if message.get("codriver/how") == "whole" else load.plan_steps()
            if load_check is not None and (steps is None or steps):
                with Reporting(load.report_failure):
                    load_check.before()
            if steps is None:
                space = space if load.module is None else load.module.__dict__
                exec(body, space)
                value = ABSENT if last is None else eval(last, space)
            else:
                steps = [step for step in steps if self.should_run(step.node, path)]
                job.lines = [step.line for step in steps]
                value = [ABSENT, *[found for step in steps if (found := step.act()) is not ABSENT]][-1]
            if value is not ABSENT:
                displayed = self.print_value(value, job)
            self._figures.send_all(value)
            has_failed = False
        finally:
            with job.shield:  # the changes must be recorded even after an interrupt
                load.finish(has_failed=has_failed)
        if load_check is not None:
            with Reporting(load.report_failure):
                names = {f"{row['module']}.{row['name']}" for row in load.renewed if row["kind"] == "stays"}
                load_check.after(names, load.code)
        self._renewed = load.renewed[:MAX_RENEWED_ROWS]
        sensitive_texts.notify_seam_of_load()
        value = None if value is ABSENT else value
        self.stored_values.send_value(job, value, displayed[0], self.display_name(job.session.namespace), displayed[1])

    def should_run(self, _node: ast.AST, _file: str) -> bool:
        """Return whether a load runs this statement in a file."""
        return True

    def _compile_file(
        self, path: str, job: Job, lines: list[int] | None
    ) -> tuple[types.CodeType, types.CodeType | None]:
        """Compile a file.

        Returns its code and, separately, the code of the last statement if that is an expression with a value.

        A string on its own, such as commented-out code, is not a value. With `lines`, only the statements that start
        there are compiled. A very long file is compiled as a whole.
        """
        source = job.message["file"]
        try:
            if lines is None and len(source) > MAX_PARSED_CHARACTERS:
                self._sources.store(path, source)
                code = compile(source, path, "exec", dont_inherit=True)
                return code, None
            body = self._parse(source, path)
            if lines is not None:
                body = [node for node in body if _is_future(node) or node.lineno in lines]
            job.lines = [min([node.lineno, *(decorator.lineno for decorator in _decorators(node))]) for node in body]
            has_value = bool(body) and isinstance(body[-1], ast.Expr) and not is_docstring(body[-1])
            last = body.pop() if has_value else None
            code = compile(ast.Module(body, []), path, "exec", dont_inherit=True)
            if not isinstance(last, ast.Expr):
                return code, None
            return code, compile(ast.Expression(last.value), path, "eval", dont_inherit=True)
        except Exception as error:
            set_phase(error, "read")
            raise

    def _display(self, value: object, job: Job, *, with_images: bool) -> tuple[str, str]:
        """Return a value as text, after passing it to the user's display hook if there is one."""
        try:
            if sys.displayhook is not ORIGINAL_DISPLAYHOOK:
                sys.displayhook(value)
        except Exception as error:
            set_phase(error, "print")
            raise
        return self._print(value, job, with_images=with_images)

    def print_value(self, value: object, job: Job, start: int = 0, path: tuple[object, ...] = ()) -> tuple[str, str]:
        return self._print(value, job, start, path)

    def _print(
        self, value: object, job: Job, start: int = 0, path: tuple[object, ...] = (), *, with_images: bool = True
    ) -> tuple[str, str]:
        length, depth = print_limits(job)
        # A request for a part of a value gets the complete part, not the library's abbreviated form.
        requested = length if job.message["op"] == "codriver/value" else requested_print_limits(job)[0]
        printer = Printer(length, depth, requested)
        try:
            text = displayed_text(value, printer.print_from(value, start, path), value_text)
            text = append_image(text, get_image(value) if with_images else None, job.message.get(QUOTA_FIELD))
        except Exception as error:
            set_phase(error, "print")
            raise
        return text, printer.cuts.describe()

    def get_part(self, value: object, path: list[object]) -> object:
        return get_part(value, path)

    def complete(self, prefix: str, namespace: types.ModuleType) -> list[dict[str, str]]:
        return complete_name(prefix, namespace)

    def lookup(self, name: str, namespace: types.ModuleType) -> dict[str, Any] | None:
        found = describe_name(name, namespace, self.display_name(namespace))
        if found is not None and found["type"] == "variable":
            position = self.source(name, namespace)
            if position is not None:
                found.update(file=position[1], line=position[2])
        return found

    def source(self, name: str, namespace: types.ModuleType) -> tuple[str, str, int] | None:
        value, module, dotted = resolve_name(name, namespace)
        if module is None:
            return unimported_source(name)
        return find_definition(value, dotted, module, self._sources.newest_first())

    def names(self, pattern: str, namespace: types.ModuleType) -> dict[str, Any] | None:
        return list_names(pattern, namespace, self.home)

    def previous_sources(self, since_ms: int, evaluated: str) -> dict[str, bytes]:
        """Return the previous sources of changed files. See `Dialect.previous_sources`."""
        return {**self._drift.sources_of_rebound_modules(evaluated), **self._loaded.previous_sources(since_ms)}

    def last_changed_ms(self, code: types.CodeType, mark: int) -> int:
        """Return the time at which a load last changed a function's behavior, in milliseconds, or 0 if none has."""
        return self._loaded.last_changed_ms(code, mark)

    def create_load_comparison(self, make: Callable[[LoadedSources, list[str]], Any]) -> Any:
        self._comparison = make(self._loaded, self.roots)
        return self._comparison

    def capture_streams(self) -> None:
        """Start recording loads, because the process is now ready for user code."""
        self._loaded.start_recording()

    def before_answer(self) -> None:
        self._loaded.record_names()
        self._loaded.read_recent_sources(MAX_IMMEDIATE_READS)

    def after_answer(self) -> None:
        self._loaded.read_recent_sources()

    def dependents(self, file: str) -> list[tuple[str, str]]:
        return self._drift.dependents(file)

    def find_drift(self, root: str, only: str) -> list[dict[str, str]]:
        renewed = [] if only == "edited" else self._renewed
        if only == "old":  # the query about a load, which must not lose these rows to any other query
            self._renewed = []
        return [*renewed, *self._drift.find_differences(root, only)]

    def describe_failure(self, error: BaseException, job: Job) -> tuple[dict[str, Any], str]:
        parts, frames = common_error_fields(error)
        lines = [frame.lineno or 1 for frame in frames if (frame.filename, frame.name) == (job.file, "<module>")]
        if parts["phase"] == "read":
            parts["trace"] = []
            if isinstance(error, SyntaxError):
                lines = [error.lineno or 1]
                parts.update(message=error.msg or "", file=error.filename or job.file, line=error.lineno or 1)
                parts["column"] = error.offset or 1
                parts["source"] = (error.text or "").strip()[:MAX_SOURCE_LINE_CHARACTERS]
            text = "".join(traceback.format_exception_only(type(error), error))
        else:
            add_position(parts, frames)
            displayed = traceback.TracebackException.from_exception(error)
            trim_traceback(displayed)
            text = "".join(displayed.format())
        if job.lines and lines:
            job.form = _statement_number(lines[0], job.lines)
        if "column" in parts and (parts["file"], parts["line"]) == (job.file, job.positive_int_field("line")):
            parts["column"] += job.positive_int_field("column") - 1
        return parts, text


def _is_partial(job: Job) -> bool:
    """Return whether more requests from the same evaluation follow, in which case figures must wait."""
    return bool(job.message.get("codriver/partial"))


def _import_module(name: str) -> types.ModuleType:
    """Import a module in which code is to be evaluated. Errors that its code raises are not caught.

    Raises:
        NamespaceMissingError: there is no such module.
    """
    try:
        if all(part.isidentifier() for part in name.split(".")):
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name + ".").startswith(error.name + "."):
            raise
    raise NamespaceMissingError(f"no module {name!r} can be imported")


def _requested_frame(job: Job) -> FrameSpace | None:
    """Return the namespace for the frame that a request names, or None if it names no frame."""
    if job.message["op"] != FRAME_OP:
        return None
    session, number = job.session, job.message.get("frame")
    return session.spaces.space_for_frame(number if isinstance(number, int) else -1, error_frames(session.error))


def _new_module(name: str) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    return module


LOOP_REQUIRING_NAMES = {
    "create_task",
    "ensure_future",
    "gather",
    "shield",
    "wrap_future",
    "get_running_loop",
    "current_task",
}
"""`asyncio` functions that need a running event loop."""
LOOP_RUNNING_NAMES = {"run", "run_until_complete", "run_forever"}
"""Functions that cannot be called while an event loop is running."""


def _needs_loop(node: ast.AST) -> bool:
    """Return whether a statement itself, ignoring nested functions, calls something that needs a running event loop."""
    called = set()
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, ast.Call):
            called.add(getattr(inner.func, "attr", getattr(inner.func, "id", "")))
        if not isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting += ast.iter_child_nodes(inner)
    return not called.isdisjoint(LOOP_REQUIRING_NAMES) and called.isdisjoint(LOOP_RUNNING_NAMES)


async def evaluate_on_loop(code: types.CodeType, space: dict[str, Any]) -> object:
    """Run code without `await` while an event loop is running."""
    return eval(code, space)


def _run_code(code: types.CodeType, space: dict[str, Any], session: Session, *, wants_loop: bool) -> object:
    """Run code. If it awaits or needs an event loop, run it on the session's loop.

    Tasks started on the loop only make progress while a later statement awaits.
    """
    is_async = bool(code.co_flags & COROUTINE_FLAG)
    if not is_async and not (wants_loop and "asyncio" in sys.modules):
        return eval(code, space)
    import asyncio

    result: Any = eval(code, space) if is_async else evaluate_on_loop(code, space)

    if session.loop is None or session.loop.is_closed():
        session.loop = asyncio.new_event_loop()
        session.made_tasks.follow(session.loop)
    task = session.loop.create_task(result)
    try:
        return session.loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                session.loop.run_until_complete(task)
        raise


def _is_future(node: ast.stmt) -> bool:
    """Return whether a statement is a `__future__` import, which affects how other statements are compiled."""
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _decorators(node: ast.stmt) -> list[ast.expr]:
    """Return the decorators of a statement. They are above its reported first line."""
    found: list[ast.expr] = getattr(node, "decorator_list", [])
    return found


def _statement_number(line: int, lines: list[int]) -> int | None:
    """Return the number of the statement on a line, or None if several statements share the line.

    `lines` are the first lines of all statements.
    """
    number = bisect.bisect_right(lines, line)
    return number if number and lines.count(lines[number - 1]) == 1 else None
