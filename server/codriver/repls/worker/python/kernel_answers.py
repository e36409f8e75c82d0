"""Answer requests about source, loads, tests and errors in a Python kernel.

The modules needed for this are sent to the kernel as source. User code is only run by loads and tests.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import json
import os
import re
import sys
import threading
import traceback

from ..basics.connections import start_thread
from ..basics.definition_access import ABSENT
from ..basics.error_report import (
    MAX_TEXT_FRAMES,
    common_error_fields,
    error_summary,
    is_library_file,
    is_worker_file,
    plain_frame_locals,
    user_frame_locals,
)
from ..basics.features import load_features
from ..basics.frame_spaces import FrameSpaces, check_frame_code, error_frames
from ..basics.plain_values import PYTHON_PRINTER
from ..basics.stacks import describe_failed_tasks, describe_waiting_tasks
from ..basics.undo_records import UndoRecords
from .definition_sources import find_definition
from .loaded_sources import MAX_IMMEDIATE_READS, LoadedSources
from .module_loads import ModuleLoad, is_loaded, module_name
from .python_drift import Drift
from .python_names import complete_name, describe_name, list_names, resolve_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator
    from typing import Any

HOME_MODULE = "__main__"
"""The module in which a kernel evaluates code."""
SURROUNDING_PACKAGE_PATHS = tuple(
    f"{os.sep}{name}{os.sep}" for name in ("ipykernel", "IPython", "tornado", "zmq", "xeus_python_shell")
)
"""Path components of packages whose frames surround those of user code."""
MAX_RENEWED_ROWS = 100
"""Maximum number of updated objects that are reported after a load."""
_FRAME_LINE_PATTERN = re.compile(r"^(.*? \()(.+)(:\d+\))$")
"""Matches a frame's line in a traceback, with the file name as the second group."""


class Answer:
    """A value that is displayed as ASCII JSON, regardless of the user's display settings in the kernel."""

    def __init__(self, data: object) -> None:
        self._text = json.dumps(data)

    def __repr__(self) -> str:
        return self._text

    def _repr_mimebundle_(self, **_choice: object) -> dict[str, str]:
        return {"text/plain": self._text}


class Loaded:
    """The result of loading a file that produces no value. It is displayed as the name of the module."""

    def __init__(self, name: str, path: str) -> None:
        self._text = f"<module {name!r} from {path!r}>"

    def __repr__(self) -> str:
        return self._text


class KernelAnswers:
    """The functions that answer requests in a kernel. There is one instance per kernel."""

    def __init__(self) -> None:
        self._undo_records = UndoRecords([os.getcwd()])
        self._sources = LoadedSources()
        self._sources.start_recording()
        self._drift = Drift(self._sources)
        self._renewed: list[dict[str, str]] = []
        """Rows about objects updated by the last load, until they are reported."""
        self._functions: dict[str, Callable[..., object]] = {
            "complete": self._complete,
            "ipython_complete": _ipython_completions,
            "lookup": self._lookup,
            "names": self._names,
            "source": self._source,
            "syntax": self._syntax_error_in,
            "drift": self._drift_rows,
            "edited": self._edited_modules,
            "restore": self._restore,
            "stacks": self._stacks,
            "error": self._error,
            "locals": self._locals,
            "test": self._test,
        }
        for feature in load_features():
            self._functions.update(feature.operations(self._sources.last_changed_ms))
        self._examined: tuple[BaseException, BaseException | None] | None = None
        """The error whose frames are being examined, and the last error raised by code evaluated in them."""
        self._spaces = FrameSpaces()
        self._check_after_cells()

    def _check_after_cells(self) -> None:
        """Whenever a cell ends, record the modules that a cell or thread has loaded.

        In IPython, loads are recorded before the kernel reports the end of a cell.
        """

        def check_cell(*_result: object) -> None:
            self._sources.record_names()
            self._sources.read_recent_sources(MAX_IMMEDIATE_READS)

        with contextlib.suppress(Exception):  # there are many kinds of shells
            _shell().events.register("post_run_cell", check_cell)
        start_thread(self._sources.follow_loads)

    def call(self, function: str, /, **fields: Any) -> Answer:
        """Call a function and return its result as `{"data": ...}`, or its error as `{"failed": ...}`.

        Nothing is raised, because the kernel would treat it as the user's last error.
        """
        try:
            return Answer({"data": self._functions[function](**fields)})
        except BaseException as error:
            return Answer({"failed": error_summary(error)})

    def load(self, path: str, text: str, lines: list[int] | None = None, undo_id: str = "", how: str = "") -> object:
        """Load a file: apply its changes to the loaded module, or run a file without a module in the cells' namespace.

        With `how` set to `whole`, the whole module is run again. If the previous source of a module is unknown, only
        the statements that start on one of the `lines` are run. Changes are recorded under `undo_id`. Returns the value
        of the last statement if it ran and is an expression.
        """
        __tracebackhide__ = True  # hide this frame in IPython's tracebacks
        name = module_name(path, [os.getcwd()])
        name = name if is_loaded(name, path) else None
        tree: Any = compile(text, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)  # adds no frame
        body: list[ast.stmt] = tree.body
        if lines is not None and name is not None:
            body = [node for node in body if getattr(node, "module", "") == "__future__" or node.lineno in lines]
        ending = None
        if body and isinstance(last := body[-1], ast.Expr):
            ending = compile(ast.Expression(last.value), path, "eval", dont_inherit=True)
            body = body[:-1]
        code = compile(ast.Module(body, []), path, "exec", dont_inherit=True)
        load = ModuleLoad(name, path, text, self._undo_records.record_for(undo_id), self._drift, home=_home_module())
        load.prepare()
        space = load.module.__dict__ if load.module is not None else _home_module().__dict__
        self._renewed, has_failed = [], True
        value: object = ABSENT
        try:
            steps = None if how == "whole" else load.plan_steps()
            if steps is None:
                exec(code, space)
                value = ABSENT if ending is None else eval(ending, space)
            for step in steps or ():
                found = step.act()
                value = value if found is ABSENT else found
            has_failed = False
        finally:
            load.finish(has_failed=has_failed)
        self._renewed = load.renewed[:MAX_RENEWED_ROWS]
        return Loaded(name or HOME_MODULE, path) if value is ABSENT else value

    def frame(self, code: str, number: int) -> object:
        """Evaluate code in one of the last error's frames. Return its value, or None if the code ends with a statement.

        An error in that code does not replace the error being examined.
        """
        __tracebackhide__ = True
        error = self._last_error()
        if self._examined is None or error is not self._examined[0]:
            self._spaces = FrameSpaces()
        if error is not None:
            self._examined = error, None
        try:
            return self._in_frame(code, number, error)
        except BaseException as failure:
            if error is not None:
                self._examined = error, failure
            raise

    def _in_frame(self, code: str, number: int, error: BaseException | None) -> object:
        __tracebackhide__ = True
        file = f"<frame {number}>"
        tree: Any = compile(code, file, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        check_frame_code(tree)
        space = self._spaces.space_for_frame(number, _reported_frames(error))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        body = compile(ast.Module(tree.body, []), file, "exec", dont_inherit=True)
        ending = None if last is None else compile(ast.Expression(last.value), file, "eval", dont_inherit=True)
        space.prepare([frame for frame in (body, ending) if frame is not None])
        try:
            exec(body, space.names)
            return None if ending is None else eval(ending, space.names)
        finally:
            space.write_back()

    def _last_error(self) -> BaseException | None:
        """Return the last error raised by the user's own code, or None."""
        error = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        if self._examined is not None and error is self._examined[1]:
            return self._examined[0]
        return error if isinstance(error, BaseException) else None

    def _complete(self, prefix: str, ns: str) -> object:
        module = _find_module(ns)
        return {"completions": [] if module is None else complete_name(prefix, module)}

    def _lookup(self, name: str, ns: str) -> object:
        module = _find_module(ns)
        found = None if module is None else describe_name(name, module, HOME_MODULE)
        if module is None or found is None:
            return None
        if "line" not in found and found["type"] != "module":
            position = _find_source(name, module)
            if position is not None:
                found.update(file=position[1], line=position[2])
        if "file" in found:
            found["file"] = cell_name(found["file"])
        return found

    def _names(self, name: str, ns: str) -> object:
        module, home = _find_module(ns), _home_module()
        listed = list_names(HOME_MODULE if name == "user" else name, module or home, home)
        if listed is None:
            return None
        of_home = "*" in name or name in ("user", HOME_MODULE)
        hidden = _ipython_names() if of_home else set()
        return {**listed, "rows": [row for row in listed["rows"] if row["name"] not in hidden]}

    def _source(self, name: str, ns: str) -> object:
        module = _find_module(ns)
        position = None if module is None else _find_source(name, module)
        return None if position is None else {"text": position[0], "file": cell_name(position[1]), "line": position[2]}

    def _syntax_error_in(self, code: str) -> object:
        """Return the syntax error in code as IPython would report it, or None."""
        shell = _shell()
        try:
            text = shell.transform_cell(code) if shell is not None else code
            compile(text, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except SyntaxError as error:
            kind = type(error).__name__
            return {"class": kind, "message": error.msg, "line": error.lineno or 1, "column": max(error.offset or 1, 1)}
        return None

    def _drift_rows(self, root: str, only: str) -> object:
        renewed = [] if only == "edited" else self._renewed
        if only == "old":  # as in an embedded REPL
            self._renewed = []
        return {"rows": [*renewed, *self._drift.find_differences(root, only)]}

    def _edited_modules(self, code: str) -> list[str]:
        """Describe the modules that a cell uses and whose files were edited after they were loaded."""
        try:
            tree = ast.parse(_shell().transform_cell(code))
        except (SyntaxError, ValueError, RecursionError, AttributeError):
            return []
        names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {node.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.alias)}
        return self._drift.describe_edited_modules(names, sys.modules["__main__"].__dict__)

    def _restore(self, hold: str, keep: int) -> object:
        """Undo the changes made by a batch of loads. With `keep`, keep the changes and only discard their record."""
        return {"left": self._undo_records.close_record(hold, puts_back=not keep)}

    def _stacks(self) -> str:
        """Return the failed tasks, and the stacks of all threads and tasks that are running more than kernel code."""
        titles = {thread.ident: thread.name for thread in threading.enumerate()}
        dumps = describe_failed_tasks({}) if "asyncio" in sys.modules else []
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # no public API gives the frames
            frames = _user_frames(traceback.extract_stack(frame))
            if frames and ident != threading.get_ident():
                lines = "".join(traceback.format_list(frames)[-MAX_TEXT_FRAMES:])
                dumps.append(titles.get(ident, str(ident)) + ":\n" + lines)
        if "asyncio" in sys.modules:
            dumps += describe_waiting_tasks({}, _user_frames)
        return "\n".join(dumps)

    def _error(self, characters: int) -> object:
        """Return the last error as reported by a worker. Each local variable has at most `characters` characters."""
        error = self._last_error()
        if error is None:
            return None
        parts, _ = common_error_fields(error)
        if isinstance(error, SyntaxError):
            position = cell_name(error.filename or "")
            parts.update(message=error.msg or "", file=position, line=error.lineno or 1)
        calls = _frames_around_load(error)
        for frame in (parts, *parts.get("chain", ())):
            frames = [text for text in frame.get("trace", ()) if not _surrounds_user_code(text)]
            frame["trace"] = [_with_display_name(text) for text in frames if text not in calls]
        found = user_frame_locals(error, characters, PYTHON_PRINTER, _display_name) if characters else []
        return {"error": parts, "locals": [dict(frame, frame=_with_display_name(frame["frame"])) for frame in found]}

    def _locals(self, cell: int) -> list[str]:
        """Return the names of the local variables at the position where a cell failed.

        Return [] if the last error is from another cell.
        """
        error = self._last_error()
        if error is None:
            return []
        files = {frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)}
        return (
            plain_frame_locals(error, PYTHON_PRINTER, _display_name) if f"In[{cell}]" in map(cell_name, files) else []
        )

    def _test(self, code: str, directory: str) -> object:
        """Run tests in the project's directory, outside of any event loop, and return the report."""
        with _in_directory(directory), _outside_loop():
            return json.loads(eval(code, {}))


def cell_name(file: str) -> str:
    """Return the display name of a file. For a cell, this includes its number, as in `In[1]`."""
    compiler = getattr(_shell(), "compile", None)
    with contextlib.suppress(Exception):
        words = compiler.format_code_name(file)  # type: ignore[union-attr]  # other versions of IPython raise an error
        if words:
            return str(words[-1])
    return file


def _reported_frames(error: BaseException | None) -> list[types.FrameType]:
    """Return the frames of an error that `_error` reports."""
    calls = set() if error is None else _frames_around_load(error)

    def is_left_out(file: str, line: int, name: str) -> bool:
        text = f"{name} ({file}:{line})"
        return _surrounds_user_code(text) or text in calls

    return error_frames(error, is_left_out)


def _with_display_name(text: str) -> str:
    """Replace the file name in a formatted frame with its display name."""
    match = _FRAME_LINE_PATTERN.match(text)
    return match[1] + cell_name(match[2]) + match[3] if match else text


def _surrounds_user_code(text: str) -> bool:
    """Return whether a path or a formatted frame belongs to a package that calls user code, such as ipykernel."""
    return any(name in text for name in SURROUNDING_PACKAGE_PATHS)


def _frames_around_load(error: BaseException) -> set[str]:
    """Return the formatted frames outside of Codriver's `load`, which belong to the cell that calls it."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = [position for position, frame in enumerate(frames) if is_worker_file(frame.filename)]
    return {f"{frame.name} ({frame.filename}:{frame.lineno})" for frame in frames[: inner[-1]]} if inner else set()


def _display_name(name: str) -> str:
    return name if name.isidentifier() and name[:2] != "__" else ""


def _shell() -> Any:
    """Return the kernel's shell, or None in a kernel without IPython."""
    library = sys.modules.get("IPython")
    return library.get_ipython() if library is not None else None


def _home_module() -> types.ModuleType:
    """Return the module in whose namespace cells run."""
    return getattr(_shell(), "user_module", None) or sys.modules[HOME_MODULE]


def _find_module(name: str) -> types.ModuleType | None:
    return _home_module() if name in ("", "user", HOME_MODULE) else sys.modules.get(name)


def _ipython_names() -> set[str]:
    """Return the names that IPython has added to the user's namespace and that are still unchanged."""
    hidden, space = getattr(_shell(), "user_ns_hidden", {}), _home_module().__dict__
    return {name for name, value in list(hidden.items()) if space.get(name) is value}


def _ipython_completions(prefix: str) -> dict[str, object] | None:
    """Return IPython's completions without Jedi, as the content of a `complete_reply`.

    Jedi may take more than ten seconds for the first completion in a kernel. Return None if IPython cannot do without
    it: before version 8.8, it only completes names, and runs properties.
    """
    shell = _shell()
    if not hasattr(getattr(shell, "Completer", None), "evaluation"):
        return None
    library: Any = sys.modules["IPython.core.completer"]
    # The shell's own completer may be in use in another thread.
    completer = library.IPCompleter(
        shell=shell, namespace=shell.user_ns, global_namespace=shell.user_global_ns, parent=shell, use_jedi=False
    )
    completer.custom_completers = shell.Completer.custom_completers
    completer.custom_matchers = shell.Completer.custom_matchers
    with library.provisionalcompleter():
        found = list(library.rectify_completions(prefix, completer.completions(prefix, len(prefix))))
    return {
        "matches": [completion.text for completion in found],
        "cursor_start": found[0].start if found else len(prefix),
        "metadata": {
            "_jupyter_types_experimental": [{"text": completion.text, "type": completion.type} for completion in found]
        },
    }


def _find_source(name: str, module: types.ModuleType) -> tuple[str, str, int] | None:
    """Return the source that defines a name, with its file or cell and its line."""
    value, frames, dotted = resolve_name(name, module)
    cells = getattr(getattr(_shell(), "compile", None), "_filename_map", {})
    return None if frames is None else find_definition(value, dotted, frames, reversed(list(cells)))


def _user_frames(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return the frames of user code and of the code called by it, or [] for a thread without user code."""
    inner = len(list(itertools.takewhile(lambda item: not _is_kernel(item.filename), reversed(frames))))
    user_frames = [frame for frame in frames[len(frames) - inner :] if not is_worker_file(frame.filename)]
    if not any(not is_library_file(frame.filename) for frame in user_frames):
        return []
    for frame in user_frames:
        frame.filename = cell_name(frame.filename)
    return user_frames


def _is_kernel(file: str) -> bool:
    """Return whether a file belongs to the kernel or to the worker."""
    return _surrounds_user_code(file) or is_worker_file(file)


@contextlib.contextmanager
def _in_directory(directory: str) -> Iterator[None]:
    """Change to the project's directory while the context is active, if it exists on the kernel's machine."""
    before = os.getcwd()
    if directory and os.path.isdir(directory):
        os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)


@contextlib.contextmanager
def _outside_loop() -> Iterator[None]:
    """Hide the running event loop while the context is active, so that tests can run their own."""
    import asyncio

    loop = asyncio._get_running_loop()  # noqa: SLF001
    if loop is None:
        yield
        return
    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)  # noqa: SLF001
    asyncio._set_running_loop(None)  # noqa: SLF001
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)  # noqa: SLF001
        if task is not None:
            asyncio.tasks._enter_task(loop, task)  # noqa: SLF001
