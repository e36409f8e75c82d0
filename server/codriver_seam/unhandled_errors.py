"""Record exceptions that end a thread, the program, or a task that nobody awaits."""

from __future__ import annotations

import sys
import threading

from .recording import detach_event, emit, note_error, seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def watch_threads() -> None:
    """Record exceptions that end a thread or the program. Previously installed hooks are still called."""
    if seam.session_id is None or getattr(threading.excepthook, "is_of_seam", False):
        return
    previous, previous_main = threading.excepthook, sys.excepthook

    def report_thread_error(arguments: Any) -> None:
        if arguments.exc_value is not None:
            name = arguments.thread.name if arguments.thread is not None else "?"
            note_error(arguments.exc_value, source="threading", thread=name)
        previous(arguments)
        if arguments.exc_value is not None:
            detach_event(arguments.exc_value)

    def report_main_error(kind: Any, error: BaseException, trace: Any) -> None:
        note_error(error, source="main")
        previous_main(kind, error, trace)

    report_thread_error.is_of_seam = True  # type: ignore[attr-defined]  # marks the hook as installed
    threading.excepthook, sys.excepthook = report_thread_error, report_main_error


def watch_asyncio(loop: Any) -> None:
    """Record exceptions reported to an event loop's exception handler, such as those from tasks that nobody awaits."""
    previous = loop.get_exception_handler()
    if seam.session_id is None or getattr(previous, "is_of_seam", False):
        return

    def report_error(loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            note_error(error, source="asyncio", said=context.get("message"))
        else:
            emit("error", "asyncio", source="asyncio", message=context.get("message"))
        previous(loop, context) if previous else loop.default_exception_handler(context)
        if isinstance(error, BaseException):
            # The previous handlers have logged it by now.
            detach_event(error)

    report_error.is_of_seam = True  # type: ignore[attr-defined]  # marks the handler as installed
    loop.set_exception_handler(report_error)
