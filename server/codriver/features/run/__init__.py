"""`codriver run`: provide a REPL in any Python program without changing the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Command, Feature

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks


def _server() -> ServerHooks:
    from codriver.features.run import hooks  # noqa: PLC0415  # a command only reads the declaration

    return hooks.SERVER


FEATURE = Feature(
    "run",
    server=_server,
    commands=(Command("run", "codriver.features.run.command"),),
    durations=(("program_connects_s", 10.0),),
)
