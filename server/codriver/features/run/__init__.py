"""`codriver run`: provide a REPL in any Python program without changing the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Command, Feature

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks
    from codriver.setup.doctor_checks import FeatureChecks


def _server() -> ServerHooks:
    from codriver.features.run import hooks  # noqa: PLC0415  # a command only reads the declaration

    return hooks.SERVER


def _doctor() -> FeatureChecks:
    from codriver.features.run.doctor_checks import CHECKS  # noqa: PLC0415  # as above

    return CHECKS


FEATURE = Feature(
    "run",
    server=_server,
    commands=(Command("run", "codriver.features.run.command"),),
    doctor=_doctor,
    durations=(("program_connects_s", 10.0),),
)
