"""What applications add to a running server."""

from __future__ import annotations

from typing import Final

from codriver.features.applications import change_app, inspect_app, watch_app
from codriver.features.applications.seam_answers import SeenApplications
from codriver.features.applications.session_rows import look_at_applications
from codriver.server_hooks import Guide, Part, ServerHooks
from codriver.skills.library import LIVE_APP
from codriver.tools.calls.call import CallHooks

SERVER: Final = ServerHooks(
    tools=(inspect_app.TOOL, change_app.TOOL, watch_app.TOOL),
    parts=(Part(SeenApplications, lambda _services, _tasks: SeenApplications()),),
    calls=CallHooks(sessions=(look_at_applications,)),
    guides=(Guide(LIVE_APP, inspect_app.TOOL.name),),
)
