"""Jupyter: kernels, and notebooks whose cells run in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.feature import Feature, Options
from codriver.features.jupyter.kernel_kind import KERNEL_KIND
from codriver.features.jupyter.settings import KERNELS_SETTING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.repls.kinds import ReplKind
    from codriver.repls.launch import recipes
    from codriver.repls.launch.projects import Project
    from codriver.server_hooks import ServerHooks
    from codriver.setup.doctor_checks import FeatureChecks


def _server() -> ServerHooks:
    from codriver.features.jupyter import hooks  # noqa: PLC0415  # a command reads only the declaration

    return hooks.SERVER


def _doctor() -> FeatureChecks:
    from codriver.features.jupyter.doctor_checks import CHECKS  # noqa: PLC0415  # as above

    return CHECKS


def _launch(kind: ReplKind, words: str, project: recipes.Project) -> recipes.Recipe:
    from codriver.features.jupyter.kernel_recipe import launch_kernel  # noqa: PLC0415  # as above

    return launch_kernel(kind, words, project)


def _project(workspace: Path, environ: Mapping[str, str]) -> Project | None:
    from codriver.features.jupyter.notebook_project import notebook_project  # noqa: PLC0415  # as above

    return notebook_project(workspace, environ)


FEATURE = Feature(
    "jupyter",
    server=_server,
    options=(Options("serve", "codriver.features.jupyter.serve_options"),),
    settings=(KERNELS_SETTING,),
    doctor=_doctor,
    repl_kinds=((KERNEL_KIND, _launch),),
    project=_project,
)
