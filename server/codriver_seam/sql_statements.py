"""Record the SQL statements of SQLAlchemy engines as events."""

from __future__ import annotations

import sys
import time

from .recording import application_position, emit, note_error, seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


MAX_SQL_CHARACTERS = 200
"""Maximum length of an SQL statement in an event."""


def watch_sqlalchemy(engine: Any) -> None:
    """Record the statements of an SQLAlchemy engine as events, with duration and errors but without parameters."""
    sqlalchemy = sys.modules.get("sqlalchemy")
    if seam.session_id is None or sqlalchemy is None:
        return
    event = sqlalchemy.event
    for name, listener in (
        ("before_cursor_execute", _on_execute),
        ("after_cursor_execute", _record_statement),
        ("handle_error", _on_error),
    ):
        if not event.contains(engine, name, listener):
            event.listen(engine, name, listener)


def _on_execute(connection: Any, cursor: Any, statement: Any, parameters: Any, context: Any, many: Any) -> None:  # noqa: PLR0913, PLR0917, RUF100
    """Store the start time of a statement."""
    del connection, cursor, statement, parameters, many
    context.codriver_seam_started_at = time.perf_counter()


def _record_statement(connection: Any, cursor: Any, statement: Any, parameters: Any, context: Any, many: Any) -> None:  # noqa: PLR0913, PLR0917, RUF100
    """Record a completed SQL statement with its duration as an event."""
    del connection, parameters, many
    ms = round((time.perf_counter() - context.codriver_seam_started_at) * 1000, 3)
    # Few drivers know the number of rows before they are read.
    rows = {"rows": cursor.rowcount} if cursor.rowcount >= 0 else {}
    words = _shorten(statement)
    at = application_position(sys._getframe(1))  # noqa: SLF001  # there is no public API for frames
    emit("sql", words.split(" ", 1)[0].lower(), source="sqlalchemy", ms=ms, sql=words, **rows, at=at)


def _shorten(statement: str) -> str:
    return " ".join(statement[: 2 * MAX_SQL_CHARACTERS].split())[:MAX_SQL_CHARACTERS]


def _on_error(context: Any) -> None:
    """Record the exception of a failed statement."""
    note_error(context.original_exception, source="sqlalchemy", sql=_shorten(context.statement or ""))
