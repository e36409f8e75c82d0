"""Namespaces for evaluating code in a frame of an error.

A namespace merges globals and locals, so that comprehensions and lambdas see both in every version of Python. It exists
for as long as the error is stored, so later code in the same frame sees earlier assignments. The frame's locals do not
change. Assigning to an existing global changes it in its module.
"""

from __future__ import annotations

import ast
import itertools
import sys
import types

from .error_report import is_worker_file, is_worker_or_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

_ABSENT = object()
FRAME_OP = "codriver/frame"
"""The op that evaluates in the frame with the number `frame`. If `test` is set, it is a frame of the last failed test.
"""
FAILED_TEST_MODULE = "_codriver_red_test"
"""The module in which the program that runs tests stores the last failure's frames."""
NO_CLASS_MESSAGE = (
    "super() needs arguments here, because the code is not part of the method: pass the class and the object"
)
NO_AWAIT_MESSAGE = (
    "await is not possible in a frame, because its event loop no longer runs: evaluate the code without frame"
)


class FrameError(Exception):
    """Raised when a frame does not exist, or when code cannot be evaluated in it."""

    __module__ = "builtins"  # reported like Python's own errors


class FrameSpace:
    """The namespace for evaluating code in one frame of an error."""

    def __init__(self, frame: types.FrameType, number: int) -> None:
        code, is_module = frame.f_code, frame.f_locals is frame.f_globals
        self._number = number
        self.around = frame.f_globals
        """The names of the frame's module."""
        self._local_names = () if is_module else (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        self.locals: dict[str, Any] = {} if is_module else dict(frame.f_locals)
        self._hides = {*self._local_names, *self.locals}
        """The names that hide globals in the frame. These are its locals, including unbound ones."""
        self._seen = {name: value for name, value in list(self.around.items()) if name not in self._hides}
        """The globals as of the last update of the namespace."""
        self.names: dict[str, Any] = self.around if is_module else {**self._seen, **self.locals}
        self._functions: dict[str, Any] = {"locals": self._locals, "vars": self._vars, "dir": self._dir}
        """Replacements for builtin functions that would otherwise also return the globals of the frame."""
        if not is_module:
            self.names = {**self._functions, **self.names}

    def _locals(self) -> dict[str, Any]:
        """Return the local variables of the frame, and the names that were assigned in it since."""
        return {
            name: value
            for name, value in self.names.items()
            if name in self._hides
            or not (name in self._seen or name == "__builtins__" or value is self._functions.get(name))
        }

    def _vars(self, *objects: Any) -> dict[str, Any]:
        """Return the attributes of an object, or the local variables of the frame."""
        return vars(*objects) if objects else self._locals()

    def _dir(self, *objects: Any) -> list[str]:
        """Return the names of an object's attributes, or of the frame's local variables."""
        return dir(*objects) if objects else sorted(self._locals())

    def prepare(self, codes: Iterable[types.CodeType]) -> None:
        """Update the namespace before running code.

        Raises:
            FrameError: the code uses local variables, but the frame was cleared.
        """
        if self._local_names and not self.locals and (gone := self._first_local_used(codes)):
            words = f"{gone} is not available: frame {self._number} was cleared and has no locals"
            raise FrameError(words)
        if self.names is self.around:
            return
        for name, value in list(self.around.items()):
            if name not in self._hides and self.names.get(name, _ABSENT) is self._seen.get(name, _ABSENT):
                self.names[name] = self._seen[name] = value

    def write_back(self) -> None:
        """Write changed globals back to their module. New names stay in this namespace."""
        if self.names is self.around:
            return
        for name, before in list(self._seen.items()):
            now = self.names.get(name, before)
            if now is not before and name in self.around:
                self.around[name] = self._seen[name] = now

    def _first_local_used(self, codes: Iterable[types.CodeType]) -> str:
        """Return the first of the frame's local variables that the code uses, or ""."""
        waiting = list(codes)
        named: set[str] = set()
        while waiting:
            item = waiting.pop()
            named.update(item.co_names)
            waiting += [value for value in item.co_consts if isinstance(value, types.CodeType)]
        return next((name for name in self._local_names if name in named and name not in self.names), "")


class FrameSpaces:
    """The namespaces for the frames of one error, by frame number."""

    def __init__(self) -> None:
        self._of: dict[int, FrameSpace] = {}

    def space_for_frame(self, number: int, frames: list[types.FrameType]) -> FrameSpace:
        """Return the namespace for a frame, creating it on first use.

        Raises:
            FrameError: there is no error, or it has fewer frames.
        """
        if not frames:
            raise FrameError("there is no frame to evaluate in, because no error with frames has occurred")
        if not 0 <= number < len(frames):
            raise FrameError(f"there is no frame {number}: the error has {len(frames)} frames, and 0 is the innermost")
        if number not in self._of:
            self._of[number] = FrameSpace(frames[number], number)
        return self._of[number]


def error_frames(
    error: BaseException | None, is_left_out: Callable[[str, int, str], bool] = lambda *_: False
) -> list[types.FrameType]:
    """Return the frames of an error as they are reported, innermost first and without those of the worker.

    `is_left_out` receives a file, line and function, and returns whether to omit the frame.
    """
    if error is None:
        return []
    rest = itertools.dropwhile(lambda item: is_worker_or_loop(item[0].f_code.co_filename), _walk(error.__traceback__))
    frames = [
        frame
        for frame, line in rest
        if not is_worker_file(frame.f_code.co_filename)
        and not is_left_out(frame.f_code.co_filename, line, frame.f_code.co_name)
    ]
    return frames[::-1]


def _walk(trace: types.TracebackType | None) -> Iterator[tuple[types.FrameType, int]]:
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def failed_test_frames(owner: str) -> tuple[list[types.FrameType], FrameSpaces]:
    """Return the frames of the last run's first failed test, and the namespaces for them in the session `owner`."""
    stored: Any = sys.modules.get(FAILED_TEST_MODULE)
    frames: list[types.FrameType] = getattr(stored, "frames", [])
    spaces: dict[str, FrameSpaces] = getattr(stored, "spaces", {})
    return frames, spaces.setdefault(owner, FrameSpaces())


def check_frame_code(tree: ast.AST) -> None:
    """Check that code can be evaluated in a frame.

    Raises:
        FrameError: the code would have to run inside the frame itself, as with `await` or `super()`.
    """
    for node in _nodes_outside_functions(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super":
            if not node.args:
                raise FrameError(NO_CLASS_MESSAGE)
        elif isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or getattr(node, "is_async", False):
            raise FrameError(NO_AWAIT_MESSAGE)


def _nodes_outside_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the syntax nodes that are not inside a function or class."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
