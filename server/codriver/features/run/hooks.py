"""The hooks that add programs started by `codriver run` to a running server."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from codriver.features.run.program_notes import running_program_notes
from codriver.features.run.program_selection import connect_before_call
from codriver.features.run.programs import RUN_PROTOCOL, Programs
from codriver.features.run.run_directory import DIRECTORY_VARIABLE
from codriver.features.run.session_rows import find_programs
from codriver.features.run.test_environments import initial_variables, serving_process_id
from codriver.server_hooks import AcceptedRepls, Part, ServerHooks
from codriver.tools.calls.call import CallHooks

SERVER: Final = ServerHooks(
    parts=(Part(Programs, lambda services, _tasks: Programs(services), run=Programs.follow),),
    accepted=(
        AcceptedRepls(
            RUN_PROTOCOL,
            Programs,
            Programs.accept,
            variable=DIRECTORY_VARIABLE,
            start_advice="start it with `codriver run --` before its command",
        ),
    ),
    calls=CallHooks(
        before=(connect_before_call,),
        sessions=(find_programs,),
        notes=(running_program_notes,),
        process_of=MappingProxyType({RUN_PROTOCOL: serving_process_id}),
        variables_of=MappingProxyType({RUN_PROTOCOL: initial_variables}),
    ),
)
