"""Web applications: their requests as events, and their routes as handlers.

Each is asked for by the application, finds its library among the loaded modules and never imports one. Twice is once.
"""

from __future__ import annotations

import contextlib
import sys
import time

from .failures import add_facts, failure_in, note_error
from .recording import cause, emit, handler_row, seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .recording import Json

ROUTE = "route"
"""The kind of a handler of requests."""
TOLD = "codriver_seam.told"
"""The key, in the environment of a WSGI request, of what is told of it."""
UNASKED = ("HEAD ", "OPTIONS ")
"""The methods that libraries add to routes."""


@contextlib.contextmanager
def _request(method: str, path: str, source: str) -> Iterator[dict[str, Any]]:
    """A request, as one event when it is over; what happens in it has its dispatch id.

    `status` is to be filled in, and `route`, the path as its handler has it.
    """
    number = next(seam.dispatches)
    token = cause.set((number, frozenset()))
    told: dict[str, Any] = {"status": 500}
    began = time.perf_counter()
    try:
        yield told
    except Exception as error:
        note_error(error, source=source, event_id=path)
        raise
    finally:
        ms = round((time.perf_counter() - began) * 1000, 3)
        route, status = _name(method, told["route"]) if "route" in told else None, told["status"]
        failure = failure_in(number) if status >= 500 else None
        if failure is not None:
            add_facts(failure, handler_id=route, status=status)
        # An exception that was noted is the failure, of which this tells the time.
        kind = "error" if status >= 500 and failure is None else "http"
        emit(kind, method, source=source, event_id=path, handler_id=route, ms=ms, status=status)
        cause.reset(token)


class _Wsgi:
    """A WSGI application, whose requests are noted."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self._inner = inner

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        with _request(environ.get("REQUEST_METHOD", "?"), environ.get("PATH_INFO", "?"), "wsgi") as told:

            def start(status: str, headers: Any, *more: Any) -> Any:
                told["status"] = int(status.split(" ", 1)[0])
                # Of Flask, as long as the request lasts.
                told.update(_route_of(environ.get("werkzeug.request")))
                return start_response(status, headers, *more)

            environ[TOLD] = told
            return self._inner(environ, start)


def _route_of(request: Any) -> dict[str, str]:
    """The route of a request of Flask, if it has one."""
    rule = getattr(request, "url_rule", None)
    return {} if rule is None else {"route": rule.rule}


def watch_wsgi(app: Callable[..., Any]) -> Callable[..., Any]:
    """The WSGI application, whose requests are noted until their answer begins."""
    return app if seam.session_id is None or isinstance(app, _Wsgi) else _Wsgi(app)


def watch_flask(app: Any) -> None:
    """Note the requests of a Flask application, and the exceptions that it makes answers of."""
    flask = sys.modules.get("flask")
    if seam.session_id is None or flask is None or isinstance(app.wsgi_app, _Wsgi):
        return
    app.wsgi_app = _Wsgi(app.wsgi_app)

    def failed(_sender: Any, exception: BaseException, **_more: Any) -> None:
        note_error(exception, source="flask", event_id=flask.request.path)
        # With the debugger there is no answer in which the route is seen.
        flask.request.environ.get(TOLD, {}).update(_route_of(flask.request))

    flask.got_request_exception.connect(failed, app, weak=False)
    seam.routes.append(lambda: _of_flask(app))


def _of_flask(app: Any) -> list[Json]:
    rules = [(rule.methods, rule.rule, app.view_functions.get(rule.endpoint)) for rule in app.url_map.iter_rules()]
    return _rows(rules)


class _Asgi:
    """An ASGI application, whose requests are noted."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _route_of(self, endpoint: Any) -> dict[str, str]:
        routes = getattr(self._inner, "routes", ()) if endpoint is not None else ()
        return next(({"route": one.path} for one in routes if getattr(one, "endpoint", None) is endpoint), {})

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope.get("type") != "http":
            await self._inner(scope, receive, send)
            return
        with _request(scope.get("method", "?"), scope.get("path", "?"), "asgi") as told:

            async def note(message: dict[str, Any]) -> None:
                if message.get("type") == "http.response.start":
                    told["status"] = message["status"]
                    told.update(self._route_of(scope.get("endpoint")))
                await send(message)

            await self._inner(scope, receive, note)


def watch_asgi(app: Callable[..., Any]) -> Callable[..., Any]:
    """The ASGI application (FastAPI, Starlette), whose requests are noted."""
    if seam.session_id is None or isinstance(app, _Asgi):
        return app
    if hasattr(app, "routes"):
        seam.routes.append(lambda: _of_asgi(app))
    return _Asgi(app)


def _of_asgi(app: Any) -> list[Json]:
    routes = [(getattr(one, "methods", None), one.path, getattr(one, "endpoint", None)) for one in app.routes]
    return _rows(routes)


def _rows(routes: Iterable[tuple[Any, str, Any]]) -> list[Json]:
    """Routes as handlers, one by method, path and function, without the methods that nobody asked for."""
    named = [(_name(method, path), function) for methods, path, function in routes for method in sorted(methods or ())]
    rows = [handler_row(ROUTE, name, function) for name, function in named if not name.startswith(UNASKED)]
    return [row for row in rows if row]


def _name(method: str, path: str) -> str:
    return f"{method} {path}"
