"""Record log messages as application events."""

from __future__ import annotations

import logging
import sys

from .recording import application_position, cause, emit, is_application_file, is_reading, note_error, seam


class _EventHandler(logging.Handler):
    """A logging handler that records log records as application events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Record a log record as an event."""
        if is_reading.get():
            return
        at = f"{record.pathname}:{record.lineno}"
        try:
            if record.exc_info and record.exc_info[1] is not None:
                caught = {"caught": at} if is_application_file(record.pathname) else {}
                message = record.getMessage()
                note_error(record.exc_info[1], source="logging", logger=record.name, said=message, **caught)
                return
            if not is_application_file(record.pathname):
                at = application_position(sys._getframe(1)) or at  # noqa: SLF001  # there is no public API for frames
            emit(_op_type(record), record.name, source="logging", message=record.getMessage(), at=at)
        except Exception:  # noqa: BLE001  # handle errors as other logging handlers do
            self.handleError(record)


def _op_type(record: logging.LogRecord) -> str:
    """Return the op-type of the event for a log record.

    A library's warning counts as a warning only while the application handles an event. At other times, libraries warn
    about themselves, for example when a server starts.
    """
    if record.levelno >= logging.ERROR:
        return "error"
    is_issue = record.levelno >= logging.WARNING and (is_application_file(record.pathname) or cause.get() is not None)
    return "warning" if is_issue else "log"


def watch_logging(logger: logging.Logger | None = None, level: int = logging.WARNING) -> None:
    """Record log records of at least `level` as events. They come from one logger, or from all loggers by default."""
    watched = logger or logging.getLogger()
    if seam.session_id is not None and not any(isinstance(handler, _EventHandler) for handler in watched.handlers):
        watched.addHandler(_EventHandler(level))
