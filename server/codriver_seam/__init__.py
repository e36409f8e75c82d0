"""The seam of a Python application, through which agents inspect and change the application's state at run time.

An application imports this package, calls `install`, and registers its state with `frame`. Callers that evaluate code
in its process then use it through `call`. It needs only the standard library of Python 3.8 or later. Importing the
package has no effect, and without `install` only the positions of handlers are recorded.
"""

from __future__ import annotations

from .accessors import call, show
from .call_events import trace_calls
from .logging_events import watch_logging
from .recording import bind, emit, handler, install, loaded, machine, note_error, origin, predicate, seam
from .repl import start_repl
from .sql_statements import watch_sqlalchemy
from .state_frames import epoch, frame, look, sensitive_texts
from .unhandled_errors import watch_asyncio, watch_threads
from .web_requests import watch_asgi, watch_flask, watch_wsgi

TYPE_CHECKING = False
if TYPE_CHECKING:
    session_id: str | None

__all__ = [
    "bind", "call", "emit", "epoch", "frame", "handler", "install", "loaded", "look", "machine", "note_error", "origin",
    "predicate", "sensitive_texts", "session_id", "show", "start_repl", "trace_calls", "watch_asgi", "watch_asyncio",
    "watch_flask", "watch_logging", "watch_sqlalchemy", "watch_threads", "watch_wsgi",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Return `session_id`, which identifies this process's seam. It is None before `install`."""
    if name == "session_id":
        return seam.session_id
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
