"""Clear library caches that depend on changed names, using the libraries' public functions."""

from __future__ import annotations

import sys

from .live_functions import LRU_CACHE_TYPE
from .stored_attributes import instance_dict_of, module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any


def clear_url_caches(modules: Iterable[str], has_changed: Callable[[str, str], bool]) -> None:
    """Make Django resolve URLs again if the `urlpatterns` of one of these modules have changed."""
    urls: Any = sys.modules.get("django.urls")
    if urls is not None and any(has_changed(name, "urlpatterns") for name in modules):
        urls.clear_url_caches()


def clear_kinds_of_dependencies() -> None:
    """Make FastAPI check again which dependencies are generators or asynchronous.

    Source: the functions with `lru_cache` in `dependencies/models.py` of FastAPI 0.165, which has no public function.
    """
    library: Any = sys.modules.get("fastapi.dependencies.models")
    for value in list(module_dict(library).values()) if library is not None else ():
        if type(value) is LRU_CACHE_TYPE:
            value.cache_clear()


def clear_openapi_schemas(modules: Iterable[str]) -> None:
    """Make the FastAPI applications in these modules generate their OpenAPI schemas again.

    Source: `openapi_schema` in "Extending OpenAPI" of FastAPI's documentation.
    """
    library: Any = sys.modules.get("fastapi")
    kind: Any = getattr(library, "FastAPI", None)
    for name in modules if kind is not None else ():
        for value in list(module_dict(sys.modules[name]).values()) if name in sys.modules else ():
            if issubclass(type(value), kind) and value.openapi_schema is not None:
                value.openapi_schema = None


def renew_celery_applications() -> Iterator[tuple[str, str, str]]:
    """Apply changed routes and annotations of tasks to Celery applications that have used the previous ones.

    Yield the module, the name and the setting of each task that still has an annotation removed from the settings.
    Source: `Task.annotate`, `AMQP.flush_routes` and the settings `task_annotations` and `task_routes` in the
    documentation of Celery.
    """
    state: Any = sys.modules.get("celery._state")
    for application in list(state._get_active_apps()) if state is not None else ():  # noqa: SLF001  # no other way
        attributes = instance_dict_of(application) or {}
        previous = attributes.pop("annotations", None)
        if previous is not None and application.annotations != previous:
            yield from _annotate_tasks(application, previous)
        queues = attributes.get("amqp")
        if queues is not None and "router" in (instance_dict_of(queues) or {}):
            routes = _plain_routes(queues.router.routes)
            queues.flush_routes()
            if _plain_routes(queues.routes) != routes:
                queues.router = queues.Router()


def _annotate_tasks(application: Any, previous: Any) -> Iterator[tuple[str, str, str]]:
    """Set the attributes of tasks that the settings of an application annotate."""
    resolve: Any = sys.modules["celery.app.annotations"].resolve_all
    for task in list(application.tasks.values()):
        kind = type(task)
        before = {name for found in resolve(previous, kind) for name in found}
        now = {name for found in resolve(application.annotations, kind) for name in found}
        if before or now:
            kind.annotate()
        for name in sorted(before - now):
            yield str(kind.__module__), str(task.__name__), name


def _plain_routes(routes: Iterable[Any]) -> list[Any]:
    """Return routes in a form that can be compared."""
    return [getattr(route, "map", route) for route in routes]
