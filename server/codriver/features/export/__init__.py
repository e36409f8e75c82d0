"""Export evaluations as tests or notebooks that are verified in fresh REPLs, and replay recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.feature import Command, Feature

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks

EXPORT_COMMAND: Final = "codriver.features.export.export_command"
REPLAY_COMMAND: Final = "codriver.features.export.replay_command"


def _server() -> ServerHooks:
    from codriver.features.export.prompt import SESSION_TO_TEST  # noqa: PLC0415  # a command only reads the declaration
    from codriver.server_hooks import ServerHooks  # noqa: PLC0415  # as above

    return ServerHooks(prompts=(SESSION_TO_TEST,))


FEATURE = Feature(
    "export",
    server=_server,
    requires=("jupyter",),
    commands=(Command("export", EXPORT_COMMAND), Command("replay", REPLAY_COMMAND)),
)
