"""Applications: let agents inspect, change and watch the application that runs in a REPL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Command, Feature, Options
from codriver.features.applications.event_log import APP_EVENTS
from codriver.features.applications.settings import SENSITIVE_READS_SETTING

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks
    from codriver.setup.doctor_checks import FeatureChecks


def _server() -> ServerHooks:
    from codriver.features.applications import hooks  # noqa: PLC0415  # a command reads only the declaration

    return hooks.SERVER


def _doctor() -> FeatureChecks:
    from codriver.features.applications.seam_checks import CHECKS  # noqa: PLC0415  # as above

    return CHECKS


FEATURE = Feature(
    "applications",
    server=_server,
    commands=(Command("seam", "codriver.features.applications.seam_command"),),
    options=(Options("call", "codriver.features.applications.call_options"),),
    settings=(SENSITIVE_READS_SETTING,),
    doctor=_doctor,
    logs=(APP_EVENTS,),
)
