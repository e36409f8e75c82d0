"""The list of features, and their declarations merged into what the base needs.

A feature whose import fails stops the program with its traceback: a feature that vanishes silently is worse than none.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import TaskGroup

    from codriver.feature import Feature
    from codriver.repls.contract.extras import AdapterHooks
    from codriver.server_hooks import Part, Prompt, Request, ResourceFamily, ServerHooks
    from codriver.tools.calls.call import CallHooks, Services
    from codriver.tools.calls.tool import Manifest

NAMES: Final = ("traces", "try_code", "clojuredocs", "warm_tests", "export", "handoff", "page", "run")
"""The packages in `codriver.features`, in the order in which clients see their tools. A name that is taken out of this
list takes the feature away."""
EXTENDED: Final = frozenset({"watch"})
"""The commands of the base whose options features extend, so that no other command reads the declarations."""


@cache
def features() -> tuple[Feature, ...]:
    """Return the declarations of all features whose required features are listed too."""
    found: tuple[Feature, ...] = tuple(import_module(f"codriver.features.{name}").FEATURE for name in NAMES)
    return tuple(one for one in found if set(one.requires) <= set(NAMES))


@cache
def server_hooks() -> tuple[ServerHooks, ...]:
    """Import and return what each feature adds to a server, in the order of the list."""
    return tuple(one.server() for one in features())


def resources() -> tuple[ResourceFamily, ...]:
    """Return the resources that features serve."""
    return tuple(one for hooks in server_hooks() for one in hooks.resources)


def prompts() -> tuple[Prompt, ...]:
    """Return the prompts that features add."""
    return tuple(one for hooks in server_hooks() for one in hooks.prompts)


def parts() -> tuple[Part[Any], ...]:
    """Return the declarations of all state that features keep for the life of a server."""
    return tuple(part for hooks in server_hooks() for part in hooks.parts)


def requests() -> tuple[Request, ...]:
    """Return the requests that commands make at the server's port."""
    return tuple(request for hooks in server_hooks() for request in hooks.requests)


def durations() -> Mapping[str, float]:
    """Return the waits of all features by name, in seconds."""
    return {name: seconds for one in features() for name, seconds in one.durations}


@cache
def option_modules(command: str) -> tuple[str, ...]:
    """Return the modules whose options extend a command of the base."""
    if command not in EXTENDED:
        return ()
    return tuple(options.module for one in features() for options in one.options if options.command == command)


@cache
def manifest() -> Manifest:
    """Return all tools: the base's, with the arguments that features add, and those of the features."""
    from codriver.tools.manifest import manifest_with  # noqa: PLC0415  # commands read only the declarations

    every = server_hooks()
    return manifest_with(
        tuple(tool for hooks in every for tool in hooks.tools),
        tuple(added for hooks in every for added in hooks.added_arguments),
        tuple(call_hooks().parts),
    )


@cache
def call_hooks() -> CallHooks:
    """Return what all features add to calls of the base's tools."""
    from codriver.tools.calls.hooks import merged  # noqa: PLC0415  # as above

    return merged(tuple(hooks.calls for hooks in server_hooks()))


@cache
def adapter_hooks() -> AdapterHooks:
    """Return what all features add to the adapters of REPLs."""
    from codriver.repls.contract.extras import AdapterHooks  # noqa: PLC0415  # as above

    every = [hooks.adapters for hooks in server_hooks()]
    return AdapterHooks(
        reply_fields={key: name for hooks in every for key, name in hooks.reply_fields.items()},
        around={kind: make for hooks in every for kind, make in hooks.around.items()},
        capabilities=tuple(one for hooks in every for one in hooks.capabilities),
    )


def attach(services: Services, tasks: TaskGroup) -> None:
    """Make the parts of all features, and connect them with the log and the REPLs of a server."""
    from codriver.repls.nrepl.nrepl_adapter import connect_accepted  # noqa: PLC0415  # commands read the declarations

    for part in parts():
        services.parts[part.kind] = part.make(services, tasks)
    every = server_hooks()
    reports = {one.name: partial(one.take, services.part(one.part)) for hooks in every for one in hooks.reports}
    services.repls.listen(reports)
    for repls in (one for hooks in every for one in hooks.accepted):
        accept = partial(repls.accept, services.part(repls.part))
        services.repls.connect_by(repls.protocol, partial(connect_accepted, accept=accept, hooks=adapter_hooks()))
    added = tuple((source, services.part(kind)) for hooks in every for source, kind in hooks.query_sources)
    services.log.sources = services.log.sources.with_sources(added)
