"""The hooks that add programs started by `codriver run` to a running server."""

from __future__ import annotations

from typing import Final

from codriver.features.run.programs import RUN_PROTOCOL, Programs, connect_before_call, find_programs
from codriver.server_hooks import AcceptedRepls, Part, ServerHooks
from codriver.tools.calls.call import CallHooks

SERVER: Final = ServerHooks(
    parts=(Part(Programs, lambda services, _tasks: Programs(services), run=Programs.follow),),
    accepted=(AcceptedRepls(RUN_PROTOCOL, Programs, Programs.accept),),
    calls=CallHooks(before=(connect_before_call,), sessions=(find_programs,)),
)
