"""Python within a running program: its `__main__` is the first module, and its hooks, streams and loop stay its own.

An evaluation gets its own output, all other output passes by. A context variable identifies the evaluation; its asyncio
tasks inherit the variable, its threads do not. Child processes and C code print to the program's own descriptors.
"""

from __future__ import annotations

import ast
import builtins
import contextvars
import io
import sys
import threading

from ..basics.connections import start_thread
from ..python.images import Figures
from ..python.module_loads import is_loaded
from ..python.python import CO_COROUTINE, Python, on_loop
from .standard_streams import In, Out, Output
from .thread_interrupts import raise_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    import types
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from ..basics.jobs import Job, Shield

CANCELLED_S = 0.5
"""The time for a cancellation of awaited code, before the code counts as one that never lets its loop go on."""


class AppFigures(Figures):
    """The figures of a program: it shows them itself, and draws on them meanwhile."""

    def __init__(self) -> None:
        self._send = None
        self._displayed = []

    def send_all(self, value: object = None) -> None:
        """Send nothing."""

    def show_later(self, _value: object) -> bool:
        """False: every value has its image at once."""
        return False


class AppPython(Python):
    """Evaluates Python in the modules of its program. `loop`: the program's own, if it has one."""

    has_hooks = False

    def __init__(self, roots: list[str], loop: asyncio.AbstractEventLoop | None) -> None:
        super().__init__(roots, sys.modules["__main__"], AppFigures())
        self.loop = loop
        self._loaded.begin()
        start_thread(self._loaded.serve)

    def end(self) -> None:
        """End the thread that follows the program's imports."""
        self._loaded.end()

    def run(self, code: types.CodeType, space: dict[str, Any], job: Job, *, wants_loop: bool) -> object:
        """Run code; code that awaits or needs a loop runs on the program's own, if that runs. See `Python`."""
        is_async = bool(code.co_flags & CO_COROUTINE)
        if not (is_async or (wants_loop and "asyncio" in sys.modules)):
            return super().run(code, space, job, wants_loop=wants_loop)
        loop = self.loop if self.loop is not None and not self.loop.is_closed() else loop_of_main_thread()
        if loop is None or not loop.is_running():
            return self._run_on_session_loop(code, space, job)
        return _await_on_loop(loop, eval(code, space) if is_async else on_loop(code, space), job)

    def _run_on_session_loop(self, code: types.CodeType, space: dict[str, Any], job: Job) -> object:
        """Run code on the session's own loop, whose wait an interrupt ends."""
        import asyncio

        session = job.session
        # An abandoned evaluation still runs on its thread.
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
        # `gettext.install` puts a translation there, which a name of the module would hide.
        if not hasattr(builtins, "_"):
            super()._store(value, module)

    def module_of(self, path: str) -> str | None:
        """See `Python`. The program's own file is `__main__`, unless it was imported under its name as well."""
        name = super().module_of(path)
        return "__main__" if is_loaded("__main__", path) and not is_loaded(name, path) else name

    def runs(self, node: ast.AST, file: str) -> bool:
        """See `Python`."""
        return not (is_loaded("__main__", file) and isinstance(node, ast.stmt) and _starts_program(node))

    def _parse(self, source: str, file: str, line: int = 1) -> list[ast.stmt]:
        body = super()._parse(source, file, line)
        return [node for node in body if not _starts_program(node)] if is_loaded("__main__", file) else body


def loop_of_main_thread() -> asyncio.AbstractEventLoop | None:
    """The event loop that runs on the main thread, by the frames that run it; None without one.

    Servers such as uvicorn import the application before their loop runs.
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
    """Whether a statement is `if __name__ == "__main__": …`, which ran at the program's start."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    sides = [node.test.left, *node.test.comparators]
    names = {getattr(side, "id", getattr(side, "value", None)) for side in sides}
    return names == {"__name__", "__main__"}


def _await_on_loop(loop: asyncio.AbstractEventLoop, awaited: Coroutine[Any, Any, object], job: Job) -> object:
    """Await on a loop that runs on another thread; an interrupt cancels it there."""
    import asyncio

    task: list[tuple[int, Any]] = []
    finished = threading.Event()

    async def known() -> object:
        task.append((threading.get_ident(), asyncio.current_task()))
        try:
            return await awaited
        finally:
            finished.set()

    future = asyncio.run_coroutine_threadsafe(known(), loop)
    job.wake = future.cancel
    try:
        error = future.exception()
        if error is None:
            return future.result()
    except BaseException:
        with job.shield:
            future.cancel()
            if task and not finished.wait(CANCELLED_S):
                _end_endless(loop, *task[0])
                finished.wait(CANCELLED_S)
        if job.is_interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        job.wake = None
    raise error


def _end_endless(loop: asyncio.AbstractEventLoop, thread: int, task: object) -> None:
    """Cancel a task that never lets its loop go on: it is the running one there."""
    import asyncio

    if asyncio.current_task(loop) is task:
        raise_in(thread, asyncio.CancelledError)


JOB: contextvars.ContextVar[Job | None] = contextvars.ContextVar("codriver_job", default=None)


class Nowhere(io.TextIOBase):
    """The stream of a program without one, as under `pythonw`."""

    def write(self, text: str) -> int:
        """See `io.TextIOBase`."""
        return len(text)


class Bytes(io.RawIOBase):
    """`sys.stdout.buffer` within an evaluation."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def write(self, data: Any) -> int:
        """See `io.RawIOBase`."""
        self._write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)


class CapturedOut(Out):
    """Standard output or error within an evaluation."""

    def __init__(self, stream: str, printed: Callable[[str, str], None], flush: Callable[[], None]) -> None:
        self._stream = stream
        self._printed = printed
        self._flush = flush
        self.name = f"<std{stream}>"
        self.buffer = Bytes(self.write)  # type: ignore[assignment]  # elsewhere it is the descriptor's

    def fileno(self) -> int:
        """See `io.TextIOBase`."""
        raise io.UnsupportedOperation("fileno")


class WokenIn(In):
    """Standard input within an evaluation: an interrupt ends the wait for it."""

    def _request_input(self) -> str:
        job = self._current_job()
        if job is None:
            return ""
        job.wake = lambda: job.session.input.put("")
        try:
            return super()._request_input()
        finally:
            job.wake = None


class Router:
    """`sys.stdout`, `sys.stderr` or `sys.stdin`: `captured` within an evaluation, elsewhere the former stream."""

    def __init__(self, before: Any, captured: Any, current_job: Callable[[], Job | None]) -> None:
        self.before = before
        self._outside = Nowhere() if before is None else before
        self.captured = captured
        self._current_job = current_job

    def _current(self) -> Any:
        return self._outside if self._current_job() is None else self.captured

    def write(self, text: str) -> Any:
        """See `io.TextIOBase`."""
        return self._current().write(text)

    def flush(self) -> Any:
        """See `io.TextIOBase`."""
        return self._current().flush()

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._current(), name)


class RoutedOutput(Output):
    """The standard streams of a program with a REPL in it, which stay its own until something is evaluated."""

    def __init__(self, shield: Shield) -> None:
        super().__init__(shield, CapturedOut)
        self._in = WokenIn(self.current_job)

    def capture_process(self) -> None:
        """Nothing: the process is the program's."""

    def begin(self, job: Job) -> None:
        """See `Output`."""
        JOB.set(job)
        self.capture_streams()

    def begin_concurrent(self, job: Job) -> None:
        """See `Output`."""
        self.begin(job)

    def capture_streams(self) -> None:
        """Put our routers before the program's present streams."""
        for name, captured in self._captured().items():
            now = getattr(sys, name)
            if not isinstance(now, Router) or now.captured is not captured:
                setattr(sys, name, Router(now, captured, self.current_job))

    def give_back(self) -> None:
        """Give the program its streams back, unless others were put before them since."""
        for name, captured in self._captured().items():
            now = getattr(sys, name)
            if isinstance(now, Router) and now.captured is captured:
                setattr(sys, name, now.before)

    def _captured(self) -> dict[str, object]:
        return {"stdout": self._out, "stderr": self._err, "stdin": self._in}

    def current_job(self) -> Job | None:
        """The evaluation of the running code; None for the program's own."""
        return None if self.is_child else JOB.get()
