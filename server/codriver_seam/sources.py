"""Sources of events: logging, threads, asyncio, databases, web requests and calls.

The application enables each source. A source finds its library among the loaded modules and never imports one. Enabling
a source twice has no effect. The routes of web applications are handlers.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import threading
import time

from .recording import (
    add_facts,
    application_position,
    cause,
    describe_handler,
    emit,
    is_application_file,
    is_reading,
    latest_failure,
    note_error,
    origin,
    seam,
    unmark,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import CodeType
    from typing import Any

    from .recording import Json


MAX_SQL_CHARACTERS = 200
"""Maximum length of an SQL statement in an event."""
WATCHED = "_codriver_seam"
"""The attribute that marks a shell that is already watched."""
TOOL = 4
"""The tool id for `sys.monitoring`, which no convention reserves."""


# Logging


class _Handler(logging.Handler):
    """A logging handler that records each log record as an event."""

    def emit(self, record: logging.LogRecord) -> None:
        """Record a log record."""
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
            emit(_kind_of(record), record.name, source="logging", message=record.getMessage(), at=at)
        except Exception:  # noqa: BLE001  # handle errors as other logging handlers do
            self.handleError(record)


def _kind_of(record: logging.LogRecord) -> str:
    """Return the op-type for a log record.

    A warning of a library is an issue of the application only while the application handles an event. At other times,
    libraries warn about themselves, for example when a server starts.
    """
    if record.levelno >= logging.ERROR:
        return "error"
    is_issue = record.levelno >= logging.WARNING and (is_application_file(record.pathname) or cause.get() is not None)
    return "warning" if is_issue else "log"


def watch_logging(logger: logging.Logger | None = None, level: int = logging.WARNING) -> None:
    """Record log records of at least `level` from one logger, or from all loggers."""
    watched = logger or logging.getLogger()
    if seam.session_id is not None and not any(isinstance(handler, _Handler) for handler in watched.handlers):
        watched.addHandler(_Handler(level))


# Threads and tasks


def watch_threads() -> None:
    """Record exceptions that end a thread or the program. The previous hooks are still called."""
    if seam.session_id is None or getattr(threading.excepthook, "is_of_seam", False):
        return
    previous, previous_main = threading.excepthook, sys.excepthook

    def report_thread_error(arguments: Any) -> None:
        if arguments.exc_value is not None:
            name = arguments.thread.name if arguments.thread is not None else "?"
            note_error(arguments.exc_value, source="threading", thread=name)
        previous(arguments)
        if arguments.exc_value is not None:
            unmark(arguments.exc_value)

    def report_main_error(kind: Any, error: BaseException, trace: Any) -> None:
        note_error(error, source="main")
        previous_main(kind, error, trace)

    report_thread_error.is_of_seam = True  # type: ignore[attr-defined]  # marks the hook as installed
    threading.excepthook, sys.excepthook = report_thread_error, report_main_error


def watch_asyncio(loop: Any) -> None:
    """Record what is reported to an event loop's exception handler, such as exceptions of tasks that nobody awaits."""
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
            unmark(error)

    report_error.is_of_seam = True  # type: ignore[attr-defined]  # marks the handler as installed
    loop.set_exception_handler(report_error)


# Notebook cells


def watch_cells() -> None:
    """Set the origin of the events in each cell of a Jupyter kernel to the origin in the cell's request.

    Source: IPython's callbacks `pre_run_cell` and `post_run_cell`; ipykernel's `Kernel.get_parent`.
    """
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    kernel: Any = getattr(shell, "kernel", None)
    if shell is None or not hasattr(kernel, "get_parent") or getattr(shell, WATCHED, None) is not None:
        return

    def begins(_about: object) -> None:
        metadata = (kernel.get_parent("shell") or {}).get("metadata") or {}
        named = metadata.get("codriver/origin")
        origin.set(named if isinstance(named, dict) else None)

    def ends(_about: object) -> None:
        origin.set(None)

    setattr(shell, WATCHED, begins)
    shell.events.register("pre_run_cell", begins)
    shell.events.register("post_run_cell", ends)


def watch_hy() -> None:
    """Set the origin of the events in each evaluation of hy-nrepl to the origin in its request.

    Source: hy-nrepl 1.0.4, `ops/eval.hy`: each evaluation runs in its own thread, which stores the request.
    """
    evaluation: Any = getattr(sys.modules.get("hy_nrepl.ops.eval"), "InterruptibleEval", None)
    run = getattr(evaluation, "run", None)
    if run is None or hasattr(run, WATCHED):
        return

    def run_with_origin(thread: Any) -> None:
        message = getattr(thread, "msg", None)
        named = message.get("codriver/origin") if isinstance(message, dict) else None
        origin.set(named if isinstance(named, dict) else None)
        run(thread)

    setattr(run_with_origin, WATCHED, run)
    evaluation.run = run_with_origin


# Databases


def watch_sqlalchemy(engine: Any) -> None:
    """Record an SQLAlchemy engine's statements with their duration, including failed ones, but without parameters."""
    sqlalchemy = sys.modules.get("sqlalchemy")
    if seam.session_id is None or sqlalchemy is None:
        return
    event = sqlalchemy.event
    for name, listener in (
        ("before_cursor_execute", _before),
        ("after_cursor_execute", _record_statement),
        ("handle_error", _failed),
    ):
        if not event.contains(engine, name, listener):
            event.listen(engine, name, listener)


def _before(connection: Any, cursor: Any, statement: Any, parameters: Any, context: Any, many: Any) -> None:  # noqa: PLR0913, PLR0917, RUF100
    """Store the time at which a statement starts."""
    del connection, cursor, statement, parameters, many
    context.codriver_seam_started_at = time.perf_counter()


def _record_statement(connection: Any, cursor: Any, statement: Any, parameters: Any, context: Any, many: Any) -> None:  # noqa: PLR0913, PLR0917, RUF100
    """Record a statement that has finished."""
    del connection, parameters, many
    ms = round((time.perf_counter() - context.codriver_seam_started_at) * 1000, 3)
    # Few drivers know the number of rows before they are read.
    rows = {"rows": cursor.rowcount} if cursor.rowcount >= 0 else {}
    words = _shortened(statement)
    at = application_position(sys._getframe(1))  # noqa: SLF001  # there is no public API for frames
    emit("sql", words.split(" ", 1)[0].lower(), source="sqlalchemy", ms=ms, sql=words, **rows, at=at)


def _shortened(statement: str) -> str:
    return " ".join(statement[: 2 * MAX_SQL_CHARACTERS].split())[:MAX_SQL_CHARACTERS]


def _failed(context: Any) -> None:
    """Record the exception of a statement that failed."""
    note_error(context.original_exception, source="sqlalchemy", sql=_shortened(context.statement or ""))


# Calls


def trace_calls(*functions: Callable[..., Any]) -> str:
    """Record each call of these functions when it ends, and return a description of how calls are recorded.

    From Python 3.12 on, this uses `sys.monitoring`, which does not slow down other functions. Before that, each
    function is replaced in its module, so calls through names that were imported earlier are not recorded.
    """
    if seam.session_id is None:
        return "the seam is off"
    codes = [traced.__code__ for traced in functions if hasattr(traced, "__code__")]
    if hasattr(sys, "monitoring"):
        _monitor_calls(codes)
        return "monitored"
    for function in functions:
        _wrap_in_module(function)
    return "wrapped where they are defined"


_call_starts: dict[int, float] = {}
"""The start time of each call in progress, by the id of its frame."""


def _monitor_calls(codes: list[CodeType]) -> None:
    """Record the calls of these code objects with `sys.monitoring`."""
    monitoring = sys.monitoring  # type: ignore[attr-defined, unused-ignore]  # from Python 3.12 on
    events = monitoring.events
    if monitoring.get_tool(TOOL) != __name__:
        monitoring.use_tool_id(TOOL, __name__)
        monitoring.register_callback(TOOL, events.PY_START, _started)
        monitoring.register_callback(TOOL, events.PY_RETURN, _returned)
        # Unwinding cannot be monitored for single functions. The callback returns immediately for others.
        monitoring.register_callback(TOOL, events.PY_UNWIND, _unwound)
        monitoring.set_events(TOOL, events.PY_UNWIND)
    for code in codes:
        monitoring.set_local_events(TOOL, code, events.PY_START | events.PY_RETURN)


def _started(_code: CodeType, _offset: int) -> None:
    """Store the time at which a call starts."""
    _call_starts[id(sys._getframe(1))] = time.perf_counter()  # noqa: SLF001  # there is no public API for frames


def _returned(code: CodeType, _offset: int, value: object) -> None:
    started_at = _call_starts.pop(id(sys._getframe(1)), None)  # noqa: SLF001  # as above
    if started_at is not None:
        _record_call(code, started_at, type(value).__name__)


def _unwound(code: CodeType, _offset: int, error: BaseException) -> None:
    started_at = _call_starts.pop(id(sys._getframe(1)), None) if _call_starts else None  # noqa: SLF001  # as above
    if started_at is not None:
        _record_call(code, started_at, f"raised {type(error).__name__}")


def _record_call(code: CodeType, started_at: float, result: str) -> None:
    ms = round((time.perf_counter() - started_at) * 1000, 3)
    name = getattr(code, "co_qualname", code.co_name)
    emit("call", name, source="calls", ms=ms, result=result, at=f"{code.co_filename}:{code.co_firstlineno}")


def _wrap_in_module(function: Any) -> None:
    """Replace a function in its module or class by one that records its calls."""
    owner: Any = sys.modules.get(function.__module__)
    *path, name = function.__qualname__.split(".")
    for step in path:
        owner = getattr(owner, step, None)
    if owner is None or vars(owner).get(name) is not function:
        return

    @functools.wraps(function)
    def noted(*arguments: Any, **named: Any) -> Any:
        started_at = time.perf_counter()
        try:
            value = function(*arguments, **named)
        except BaseException as error:
            _record_call(function.__code__, started_at, f"raised {type(error).__name__}")
            raise
        _record_call(function.__code__, started_at, type(value).__name__)
        return value

    setattr(owner, name, noted)


ROUTE = "route"
"""The kind of handlers for requests."""
FACTS = "codriver_seam.request"
"""The key for facts about a request in its WSGI environment."""
UNASKED = ("HEAD ", "OPTIONS ")
"""Prefixes of the names of routes whose methods frameworks add automatically."""


@contextlib.contextmanager
def _request(method: str, path: str, source: str) -> Iterator[dict[str, Any]]:
    """Record a request as one event when it ends. Events during the request get its dispatch id.

    The caller sets `status`, and `route`, which is the path as the handler declares it.
    """
    number = next(seam.dispatches)
    token = cause.set((number, frozenset()))
    facts: dict[str, Any] = {"status": 500}
    started_at = time.perf_counter()
    try:
        yield facts
    except Exception as error:
        note_error(error, source=source, event_id=path)
        raise
    finally:
        ms = round((time.perf_counter() - started_at) * 1000, 3)
        route, status = _name(method, facts["route"]) if "route" in facts else None, facts["status"]
        failure = latest_failure(number) if status >= 500 else None
        if failure is not None:
            add_facts(failure, handler_id=route, status=status)
        # A recorded exception already reports the failure. This event adds the duration.
        kind = "error" if status >= 500 and failure is None else "http"
        emit(kind, method, source=source, event_id=path, handler_id=route, ms=ms, status=status)
        cause.reset(token)


class _Wsgi:
    """A WSGI application whose requests are recorded."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self._inner = inner

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        with _request(environ.get("REQUEST_METHOD", "?"), environ.get("PATH_INFO", "?"), "wsgi") as facts:

            def start(status: str, headers: Any, *more: Any) -> Any:
                facts["status"] = int(status.split(" ", 1)[0])
                # Flask sets this for the duration of the request.
                facts.update(_route_of(environ.get("werkzeug.request")))
                return start_response(status, headers, *more)

            environ[FACTS] = facts
            return self._inner(environ, start)


def _route_of(request: Any) -> dict[str, str]:
    """Return the route of a Flask request, if it has one."""
    rule = getattr(request, "url_rule", None)
    return {} if rule is None else {"route": rule.rule}


def watch_wsgi(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a WSGI application to record its requests, from their arrival until the response starts."""
    return app if seam.session_id is None or isinstance(app, _Wsgi) else _Wsgi(app)


def watch_flask(app: Any) -> None:
    """Record the requests of a Flask application, and the exceptions that it turns into responses."""
    flask = sys.modules.get("flask")
    if seam.session_id is None or flask is None or isinstance(app.wsgi_app, _Wsgi):
        return
    app.wsgi_app = _Wsgi(app.wsgi_app)

    def failed(_sender: Any, exception: BaseException, **_more: Any) -> None:
        note_error(exception, source="flask", event_id=flask.request.path)
        # In debug mode no response reports the route.
        flask.request.environ.get(FACTS, {}).update(_route_of(flask.request))

    flask.got_request_exception.connect(failed, app, weak=False)
    seam.routes.append(lambda: _flask_handlers(app))


def _flask_handlers(app: Any) -> list[Json]:
    """Return the routes of a Flask application as handlers."""
    rules = [(rule.methods, rule.rule, app.view_functions.get(rule.endpoint)) for rule in app.url_map.iter_rules()]
    return _rows(rules)


class _Asgi:
    """An ASGI application whose requests are recorded."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _route_of(self, endpoint: Any) -> dict[str, str]:
        """Return the route of an endpoint, if the application has it."""
        routes = getattr(self._inner, "routes", ()) if endpoint is not None else ()
        return next(({"route": route.path} for route in routes if getattr(route, "endpoint", None) is endpoint), {})

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope.get("type") != "http":
            await self._inner(scope, receive, send)
            return
        with _request(scope.get("method", "?"), scope.get("path", "?"), "asgi") as facts:

            async def note(message: dict[str, Any]) -> None:
                if message.get("type") == "http.response.start":
                    facts["status"] = message["status"]
                    facts.update(self._route_of(scope.get("endpoint")))
                await send(message)

            await self._inner(scope, receive, note)


def watch_asgi(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an ASGI application, such as FastAPI or Starlette, to record its requests."""
    if seam.session_id is None or isinstance(app, _Asgi):
        return app
    if hasattr(app, "routes"):
        seam.routes.append(lambda: _asgi_handlers(app))
    return _Asgi(app)


def _asgi_handlers(app: Any) -> list[Json]:
    """Return the routes of an ASGI application as handlers."""
    routes = [(getattr(route, "methods", None), route.path, getattr(route, "endpoint", None)) for route in app.routes]
    return _rows(routes)


def _rows(routes: Iterable[tuple[Any, str, Any]]) -> list[Json]:
    """Return routes as handlers, one per method and path, without methods that frameworks add."""
    named = [(_name(method, path), function) for methods, path, function in routes for method in sorted(methods or ())]
    rows = [describe_handler(ROUTE, name, function) for name, function in named if not name.startswith(UNASKED)]
    return [row for row in rows if row]


def _name(method: str, path: str) -> str:
    """Return the name of a route's handler."""
    return f"{method} {path}"
