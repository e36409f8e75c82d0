"""The hooks that add applications to a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.features.applications import change_app, inspect_app, watch_app
from codriver.features.applications.app_event_recorder import AppEventRecorder
from codriver.features.applications.app_log import APP_SOURCE, AppLog
from codriver.features.applications.app_streams import AppStreams
from codriver.features.applications.event_frames import EVENTS_REPORT
from codriver.features.applications.seam import CAPABILITY, SEAM_CAPABILITY, SEAM_OP, Seam, SeamSessions, require_seam
from codriver.features.applications.seam_answers import LastApplications
from codriver.features.applications.seam_setup import is_seam_package
from codriver.features.applications.session_rows import query_applications
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.server_hooks import Guide, Part, Report, ServerHooks
from codriver.skills.library import LIVE_APP_SKILL
from codriver.tools.calls.call import CallHooks

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.tools.calls.call import Services

EVENTS_FIELD: Final = "codriver/app-events"
"""The field of worker messages that contains frames of events."""


def _log(services: Services, _tasks: TaskGroup) -> AppLog:
    log = services.log
    return AppLog(log.allocate_line, redact=log.redact, follower=services.history.record_used_line)


def _recorder(services: Services, tasks: TaskGroup) -> AppEventRecorder:
    return AppEventRecorder(services.core, services.part(AppLog), tasks, services.workspace)


def _streams(services: Services, tasks: TaskGroup) -> AppStreams:
    async def query(repl: str, accessor: str, arguments: str) -> str:
        return await require_seam(services.repls, repl).call(accessor, arguments)

    return AppStreams(services.core, services.part(AppLog), tasks, query)


SERVER: Final = ServerHooks(
    tools=(inspect_app.TOOL, change_app.TOOL, watch_app.TOOL),
    parts=(
        Part(SeamSessions, lambda services, _tasks: SeamSessions(services.core, services.repls)),
        Part(LastApplications, lambda _services, _tasks: LastApplications()),
        Part(AppLog, _log),
        Part(AppEventRecorder, _recorder),
        Part(AppStreams, _streams),
    ),
    calls=CallHooks(sessions=(query_applications,), loadable=(is_seam_package,)),
    adapters=AdapterHooks(
        reply_fields={EVENTS_FIELD: EVENTS_REPORT, SEAM_OP: SEAM_CAPABILITY},
        capabilities=(CAPABILITY,),
        companions=(Seam.attach,),
    ),
    reports=(
        Report(EVENTS_REPORT, AppEventRecorder, AppEventRecorder.receive),
        Report(SEAM_CAPABILITY, SeamSessions, SeamSessions.receive),
    ),
    guides=(Guide(LIVE_APP_SKILL, inspect_app.TOOL.name),),
    query_sources=((APP_SOURCE, AppLog),),
)
