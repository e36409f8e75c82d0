"""Record requests to web applications as events, for WSGI, ASGI and Flask.

Enabling this twice has no effect. Flask is found among the loaded modules and never imported.
"""

from __future__ import annotations

import contextlib
import sys
import time

from .recording import add_facts, cause, describe_handler, emit, latest_failure, note_error, seam

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from .recording import Json

ROUTE_KIND = "route"
"""The kind of handlers for requests."""
REQUEST_FACTS_KEY = "codriver_seam.request"
"""The key for facts about a request in its WSGI environment."""
IMPLICIT_METHOD_PREFIXES = ("HEAD ", "OPTIONS ")
"""Prefixes of the names of routes whose methods frameworks add automatically."""
_ASGI_WATCH_CALL = "app = seam.watch_asgi(app)"
FRAMEWORK_WATCH_CALLS = {"flask": "seam.watch_flask(app)", "fastapi": _ASGI_WATCH_CALL, "starlette": _ASGI_WATCH_CALL}
"""The call that records requests to a web framework, by the framework's module."""


def watch_hint(gives: str) -> Json:
    """Return a hint on how to watch the loaded web framework, or {} if none is loaded.

    `gives` describes what watching it achieves, for example "lists the routes".
    """
    calls = [call for name, call in FRAMEWORK_WATCH_CALLS.items() if name in sys.modules]
    return {"hint": f"{calls[0]} {gives}"} if calls else {}


@contextlib.contextmanager
def _recorded_request(method: str, path: str, source: str) -> Iterator[dict[str, Any]]:
    """Record a request as one event when the context ends. Events during the request get its dispatch id.

    The caller sets `status` and `route` in the yielded dict. The route is the path as the handler declares it.
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
        route, status = _handler_name(method, facts["route"]) if "route" in facts else None, facts["status"]
        failure = latest_failure(number) if status >= 500 else None
        if failure is not None:
            add_facts(failure, handler_id=route, status=status)
        # A recorded exception already reports the failure. This event adds the duration.
        kind = "error" if status >= 500 and failure is None else "http"
        emit(kind, method, source=source, event_id=path, handler_id=route, ms=ms, status=status)
        cause.reset(token)


class _Wsgi:
    """A wrapper around a WSGI application that records its requests."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self._inner = inner

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        with _recorded_request(environ.get("REQUEST_METHOD", "?"), environ.get("PATH_INFO", "?"), "wsgi") as facts:

            def start(status: str, headers: Any, *more: Any) -> Any:
                facts["status"] = int(status.split(" ", 1)[0])
                # Flask sets this for the duration of the request.
                facts.update(_route_field(environ.get("werkzeug.request")))
                return start_response(status, headers, *more)

            environ[REQUEST_FACTS_KEY] = facts
            return self._inner(environ, start)


def _route_field(request: Any) -> dict[str, str]:
    """Return the route of a Flask request as a field, or {} if there is none."""
    rule = getattr(request, "url_rule", None)
    return {} if rule is None else {"route": rule.rule}


def watch_wsgi(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a WSGI application so that each request is recorded when its response starts."""
    return app if seam.session_id is None or isinstance(app, _Wsgi) else _Wsgi(app)


def watch_flask(app: Any) -> None:
    """Record requests to a Flask application, and the exceptions that Flask turns into responses."""
    flask = sys.modules.get("flask")
    if seam.session_id is None or flask is None or isinstance(app.wsgi_app, _Wsgi):
        return
    app.wsgi_app = _Wsgi(app.wsgi_app)

    def failed(_sender: Any, exception: BaseException, **_more: Any) -> None:
        note_error(exception, source="flask", event_id=flask.request.path)
        # In debug mode no response reports the route.
        flask.request.environ.get(REQUEST_FACTS_KEY, {}).update(_route_field(flask.request))

    flask.got_request_exception.connect(failed, app, weak=False)
    seam.routes.append(lambda: _flask_handlers(app))


def _flask_handlers(app: Any) -> list[Json]:
    """Return a description of the handler for each route of a Flask application."""
    rules = [(rule.methods, rule.rule, app.view_functions.get(rule.endpoint)) for rule in app.url_map.iter_rules()]
    return _route_handlers(rules)


class _Asgi:
    """A wrapper around an ASGI application that records its requests."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def _route_field(self, endpoint: Any) -> dict[str, str]:
        """Return the route of an endpoint as a field, or {} if the application does not have the endpoint."""
        routes = getattr(self._inner, "routes", ()) if endpoint is not None else ()
        return next(({"route": route.path} for route in routes if getattr(route, "endpoint", None) is endpoint), {})

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope.get("type") != "http":
            await self._inner(scope, receive, send)
            return
        with _recorded_request(scope.get("method", "?"), scope.get("path", "?"), "asgi") as facts:

            async def note(message: dict[str, Any]) -> None:
                if message.get("type") == "http.response.start":
                    facts["status"] = message["status"]
                    facts.update(self._route_field(scope.get("endpoint")))
                await send(message)

            await self._inner(scope, receive, note)


def watch_asgi(app: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an ASGI application, such as FastAPI or Starlette, so that its requests are recorded."""
    if seam.session_id is None or isinstance(app, _Asgi):
        return app
    if hasattr(app, "routes"):
        seam.routes.append(lambda: _asgi_handlers(app))
    return _Asgi(app)


def _asgi_handlers(app: Any) -> list[Json]:
    """Return a description of the handler for each route of an ASGI application."""
    routes = [(getattr(route, "methods", None), route.path, getattr(route, "endpoint", None)) for route in app.routes]
    return _route_handlers(routes)


def _route_handlers(routes: Iterable[tuple[Any, str, Any]]) -> list[Json]:
    """Return a description of the handler for each method and path, except methods that frameworks add themselves."""
    named = [
        (_handler_name(method, path), function)
        for methods, path, function in routes
        for method in sorted(methods or ())
    ]
    rows = [
        describe_handler(ROUTE_KIND, name, function)
        for name, function in named
        if not name.startswith(IMPLICIT_METHOD_PREFIXES)
    ]
    return [row for row in rows if row]


def _handler_name(method: str, path: str) -> str:
    return f"{method} {path}"
