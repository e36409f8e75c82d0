"""Jupyter: kernels, and notebooks whose cells run in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature, Options
from codriver.features.jupyter.settings import KERNELS

if TYPE_CHECKING:
    from codriver.server_hooks import ServerHooks
    from codriver.setup.doctor_checks import FeatureChecks


def _server() -> ServerHooks:
    from codriver.features.jupyter import hooks  # noqa: PLC0415  # a command reads only the declaration

    return hooks.SERVER


def _doctor() -> FeatureChecks:
    from codriver.features.jupyter.doctor_checks import CHECKS  # noqa: PLC0415  # as above

    return CHECKS


FEATURE = Feature(
    "jupyter",
    server=_server,
    options=(Options("serve", "codriver.features.jupyter.serve_options"),),
    settings=(KERNELS,),
    doctor=_doctor,
)
