"""The Python dialect for a running program, whose hooks, streams and event loop are left alone.

Evaluations start in the program's `__main__`. A context variable identifies the evaluation. It is inherited by asyncio
tasks but not by threads.
"""

from __future__ import annotations

import ast
import builtins
import sys
import threading

from ..basics.connections import start_thread
from ..python.images import Figures
from ..python.module_loads import is_loaded
from ..python.python import COROUTINE_FLAG, Python, evaluate_on_loop
from .thread_interrupts import raise_in_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import types
    from collections.abc import Coroutine
    from typing import Any

    from ..basics.jobs import Job

CANCEL_GRACE_S = 0.5
"""Seconds that cancelled code has to end before it counts as blocking its event loop."""


class AppFigures(Figures):
    """Figures in a running program, which displays them itself and may be drawing on them at the same time."""

    def __init__(self) -> None:
        self._send = None
        self._displayed = []

    def send_all(self, value: object = None) -> None:
        """Do nothing, because the program displays its figures itself."""

    def send_later(self, _value: object) -> bool:
        """Return False, because the image of every value is sent immediately."""
        return False


class AppPython(Python):
    """The Python dialect for evaluating in the modules of a running program.

    `loop` is the program's event loop, if it has one.
    """

    has_hooks = False

    def __init__(self, roots: list[str], loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(roots, sys.modules["__main__"], AppFigures())
        self.loop = loop
        self._loaded.start_recording()
        start_thread(self._loaded.follow_loads)

    def end(self) -> None:
        """Stop the thread that tracks the program's imports."""
        self._loaded.stop_recording()

    def run(self, code: types.CodeType, space: dict[str, Any], job: Job, *, wants_loop: bool) -> object:
        """Run code. If it awaits or needs an event loop, use the program's loop if that is running."""
        is_async = bool(code.co_flags & COROUTINE_FLAG)
        if not (is_async or (wants_loop and "asyncio" in sys.modules)):
            return super().run(code, space, job, wants_loop=wants_loop)
        loop = self.loop if self.loop is not None and not self.loop.is_closed() else loop_of_main_thread()
        if loop is None or not loop.is_running():
            return self._run_on_session_loop(code, space, job)
        return _await_on_loop(loop, eval(code, space) if is_async else evaluate_on_loop(code, space), job)

    def _run_on_session_loop(self, code: types.CodeType, space: dict[str, Any], job: Job) -> object:
        """Run code on the session's event loop, so that an interrupt can wake the loop."""
        import asyncio

        session = job.session
        # A loop that is still running belongs to an abandoned evaluation.
        if session.loop is None or session.loop.is_closed() or session.loop.is_running():
            session.loop = asyncio.new_event_loop()
            session.made_tasks.follow(session.loop)
        loop = session.loop
        job.wake = lambda: loop.call_soon_threadsafe(lambda: None)
        try:
            return super().run(code, space, job, wants_loop=True)
        finally:
            job.wake = None

    def _display(self, value: object, job: Job, *, with_images: bool) -> tuple[str, str]:
        return self._print(value, job, with_images=with_images)

    def _store(self, value: object, module: types.ModuleType) -> None:
        # `gettext.install` puts a translation function there. A name in the module would hide it.
        if not hasattr(builtins, "_"):
            super()._store(value, module)

    def module_of(self, path: str) -> str | None:
        """Return the name of the module that a file defines.

        For the program's file, this is `__main__`, unless the file was also imported under its own name.
        """
        name = super().module_of(path)
        return "__main__" if is_loaded("__main__", path) and not is_loaded(name, path) else name

    def should_run(self, node: ast.AST, file: str) -> bool:
        """Return whether loading a file runs a statement. The statement that starts the program is skipped."""
        return not (is_loaded("__main__", file) and isinstance(node, ast.stmt) and _starts_program(node))

    def _parse(self, source: str, file: str, line: int = 1) -> list[ast.stmt]:
        body = super()._parse(source, file, line)
        return [node for node in body if not _starts_program(node)] if is_loaded("__main__", file) else body


def loop_of_main_thread() -> asyncio.AbstractEventLoop | None:
    """Return the event loop running on the main thread, or None.

    It is found in the thread's stack, because servers such as uvicorn import the application before their loop runs.
    """
    if "asyncio" not in sys.modules:
        return None
    import asyncio

    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001  # no other way to them
    while frame is not None:
        holder = frame.f_locals.get("self") if frame.f_code.co_name in ("run_forever", "run") else None
        for found in (holder, getattr(holder, "_loop", None)):
            if isinstance(found, asyncio.AbstractEventLoop) and found.is_running():
                return found
        frame = frame.f_back
    return None


def _starts_program(node: ast.stmt) -> bool:
    """Return whether a statement has the form `if __name__ == "__main__": …`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    names = {getattr(side, "id", getattr(side, "value", None)) for side in sides}
    return names == {"__name__", "__main__"}


def _await_on_loop(loop: asyncio.AbstractEventLoop, awaited: Coroutine[Any, Any, object], job: Job) -> object:
    """Run a coroutine on another thread's event loop, and return its result. An interrupt cancels the coroutine."""
    import asyncio
    import concurrent.futures

    task: list[tuple[int, Any]] = []
    finished = threading.Event()

    async def known() -> object:
        task.append((threading.get_ident(), asyncio.current_task()))
        try:
            return await awaited
        finally:
            finished.set()

    # An interrupt only cancels the future. Raised at a random place, it could leave the coroutine running on the loop.
    with job.shield:
        future = asyncio.run_coroutine_threadsafe(known(), loop)
        job.wake = future.cancel
        if job.shield.is_late:  # the interrupt came before there was a future to cancel
            future.cancel()
        try:
            error = future.exception()
        except concurrent.futures.CancelledError as cancelled:
            error = cancelled
            if task and not finished.wait(CANCEL_GRACE_S):
                _cancel_blocking_task(loop, *task[0])
                finished.wait(CANCEL_GRACE_S)
        finally:
            job.wake = None
    if error is None:
        return future.result()
    if job.is_interrupted:
        raise KeyboardInterrupt from None
    raise error


def _cancel_blocking_task(loop: asyncio.AbstractEventLoop, thread: int, task: object) -> None:
    """Cancel a task that is blocking its event loop by raising an exception in the loop's thread."""
    import asyncio

    if asyncio.current_task(loop) is task:
        raise_in_thread(thread, asyncio.CancelledError)
