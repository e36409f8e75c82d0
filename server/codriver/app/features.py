"""List the optional features, and combine their declarations.

If the import of a feature fails, the program stops with the traceback, because a feature that silently disappears would
be worse.
"""

from __future__ import annotations

from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anyio.abc import TaskGroup

    from codriver.core.actions import AddRepl
    from codriver.editing.file_languages import ApplyText
    from codriver.feature import Feature
    from codriver.log.event_logs import EventLog
    from codriver.repls.contract.evaluation_extensions import AdapterHooks
    from codriver.repls.kinds import ReplKind
    from codriver.repls.launch.recipes import Launch
    from codriver.server_hooks import Part, Prompt, Request, ResourceFamily, ServerHooks
    from codriver.settings.model import Settings
    from codriver.setup.doctor_checks import FeatureChecks
    from codriver.setup.init import FindProject
    from codriver.tools.calls.call import CallHooks, Services
    from codriver.tools.calls.tool import Manifest

NAMES: Final = (
    "applications", "jupyter", "traces", "try_code", "clojuredocs", "warm_tests", "export", "handoff", "page", "run",
)  # fmt: skip
"""The packages in `codriver.features`, in the order in which clients see their tools.

Removing a name removes the feature.
"""
EXTENDED: Final = frozenset({"call", "serve", "watch"})
"""The base commands that features may extend with options.

Other commands start faster, because they do not import the features' declarations.
"""


@cache
def features() -> tuple[Feature, ...]:
    """Return the declarations of all features whose required features are available."""
    found: tuple[Feature, ...] = tuple(import_module(f"codriver.features.{name}").FEATURE for name in NAMES)
    return tuple(feature for feature in found if set(feature.requires) <= set(NAMES))


@cache
def server_hooks() -> tuple[ServerHooks, ...]:
    """Import and return the server hooks of all features, in the order of `NAMES`."""
    return tuple(feature.server() for feature in features())


def resources() -> tuple[ResourceFamily, ...]:
    """Return the resources that features provide."""
    return tuple(resource for hooks in server_hooks() for resource in hooks.resources)


def prompts() -> tuple[Prompt, ...]:
    """Return the prompts that features provide."""
    return tuple(prompt for hooks in server_hooks() for prompt in hooks.prompts)


def feature_parts() -> tuple[Part[Any], ...]:
    """Return the declarations of the state that features store for the lifetime of a server."""
    return tuple(part for hooks in server_hooks() for part in hooks.parts)


def port_requests() -> tuple[Request, ...]:
    """Return features' requests that commands can send to the server's port instead of speaking MCP."""
    return tuple(request for hooks in server_hooks() for request in hooks.requests)


def feature_durations() -> Mapping[str, float]:
    """Return the durations that features declare, in seconds, by name."""
    return {name: seconds for feature in features() for name, seconds in feature.durations}


def event_logs() -> tuple[EventLog, ...]:
    """Return the event logs that features add."""
    return tuple(log for feature in features() for log in feature.logs)


@cache
def option_modules(command: str) -> tuple[str, ...]:
    """Return the modules that add options to a base command."""
    if command not in EXTENDED:
        return ()
    return tuple(options.module for feature in features() for options in feature.options if options.command == command)


@cache
def manifest() -> Manifest:
    """Return the manifest of all tools, with the arguments that features add."""
    from codriver.skills.library import EDITING_SKILL  # noqa: PLC0415  # commands only need the declarations
    from codriver.tools.manifest import create_manifest  # noqa: PLC0415  # as above

    every = server_hooks()
    return create_manifest(
        tuple(tool for hooks in every for tool in hooks.tools),
        tuple(added for hooks in every for added in hooks.added_arguments),
        call_hooks(),
        (
            (EDITING_SKILL, "balance_brackets"),
            *((guide.skill, guide.tool) for hooks in every for guide in hooks.guides),
        ),
    )


@cache
def call_hooks() -> CallHooks:
    """Return the combined hooks of all features for tool calls."""
    from codriver.tools.calls.hooks import merge_hooks  # noqa: PLC0415  # as above

    return merge_hooks(tuple(hooks.calls for hooks in server_hooks()))


@cache
def adapter_hooks() -> AdapterHooks:
    """Return the combined hooks of all features for REPL adapters."""
    from codriver.repls.contract.evaluation_extensions import AdapterHooks  # noqa: PLC0415  # as above

    every = [hooks.adapters for hooks in server_hooks()]
    return AdapterHooks(
        reply_fields={key: name for hooks in every for key, name in hooks.reply_fields.items()},
        around={kind: make for hooks in every for kind, make in hooks.around.items()},
        capabilities=tuple(capability for hooks in every for capability in hooks.capabilities),
        companions=tuple(companion for hooks in every for companion in hooks.companions),
    )


def repl_kinds() -> Mapping[ReplKind, Launch]:
    """Return the kinds of REPLs that features add, with the functions that start them."""
    return {kind: launch for feature in features() for kind, launch in feature.repl_kinds}


def named_repls(settings: Settings, environ: Mapping[str, str]) -> tuple[AddRepl, ...]:
    """Return the REPLs that features' settings name."""
    return tuple(found for hooks in server_hooks() for named in hooks.named_repls for found in named(settings, environ))


def check_settings(settings: Settings, environ: Mapping[str, str]) -> None:
    """Check features' settings before a server starts.

    Raises:
        StartError: a server cannot start with these settings.
    """
    for hooks in server_hooks():
        for check in hooks.checks:
            check(settings, environ)


def doctor_checks() -> tuple[FeatureChecks, ...]:
    """Return the checks that features add to `codriver doctor`."""
    return tuple(feature.doctor() for feature in features() if feature.doctor is not None)


def project_finders() -> tuple[FindProject, ...]:
    """Return features' functions for finding a project for `codriver init`."""
    return tuple(feature.project for feature in features() if feature.project is not None)


def languages() -> Mapping[str, tuple[str, ...]]:
    """Return the languages that features' tools support, with the suffixes of their files."""
    return {name: suffixes for hooks in server_hooks() for name, suffixes in hooks.languages}


def edit_languages() -> Mapping[str, ApplyText]:
    """Return the functions that edit files in features' languages, by file suffix."""
    return {suffix: apply for hooks in server_hooks() for suffix, apply in hooks.edit_languages}


def connecting_program_variables() -> Mapping[str, str]:
    """Return the environment variables by which programs with REPLs are recognized, with advice on starting each."""
    return {repls.variable: repls.start_advice for hooks in server_hooks() for repls in hooks.accepted}


def attach_features(services: Services, tasks: TaskGroup) -> None:
    """Create the state of all features, and connect it to the log and the REPLs of a server."""
    from codriver.repls.nrepl.nrepl_adapter import connect_accepted  # noqa: PLC0415  # commands only need the declarations

    for part in feature_parts():
        services.parts[part.kind] = part.create(services, tasks)
    every = server_hooks()
    reports = {
        report.name: partial(report.receive, services.part(report.part)) for hooks in every for report in hooks.reports
    }
    services.repls.set_report_listeners(reports)
    for hooks in every:
        for connectors in hooks.connectors:
            for protocol, connector in connectors.create(services.part(connectors.part)).items():
                services.repls.set_connector(protocol, connector, connectors.silence)
        for repls in hooks.accepted:
            accept = partial(repls.accept, services.part(repls.part))
            connect = partial(connect_accepted, accept=accept, hooks=adapter_hooks())
            services.repls.set_connector(repls.protocol, connect)
    added = tuple((source, services.part(kind)) for hooks in every for source, kind in hooks.query_sources)
    services.log.sources = services.log.sources.with_sources(added)
