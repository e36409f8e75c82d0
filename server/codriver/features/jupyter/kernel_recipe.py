"""Recipes for starting Jupyter kernels."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from codriver.errors import install_command
from codriver.features.jupyter.kernels.connection_files import CODRIVER_PREFIX
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.kernelspecs import (
    KernelSpecError,
    find_kernelspec,
    kernel_command,
    kernel_directories,
)
from codriver.features.jupyter.kernels.started_kernels import (
    prepare_connection_file,
    remove_connection_file,
    shut_down_kernel,
)
from codriver.repls.launch.recipes import SLOW_START_TIMEOUT_S, AddressFile, Recipe, RecipeError, repl_environ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.kinds import ReplKind
    from codriver.repls.launch.recipes import Project

IPYKERNEL_MODULE: Final = "ipykernel_launcher"
PACKAGES_BY_MODULE: Final[Mapping[str, str]] = {IPYKERNEL_MODULE: "ipykernel", "xpython_launcher": "xeus-python"}
"""Packages to install for a kernel, by the module that starts it. The two names may differ."""


def launch_kernel(kind: ReplKind, repl: str, project: Project) -> Recipe:
    """Return the recipe for starting a Jupyter kernel.

    `repl` is `jupyter:` followed by the name of a kernelspec. If it is just `jupyter`, the recipe starts IPython's
    kernel in the project's interpreter.

    Raises:
        RecipeError: jupyter_client is not installed, or the kernelspec is missing or invalid.
    """
    if find_spec("jupyter_client") is None:
        raise RecipeError(repl, f"jupyter_client is not installed. Run {install_command('jupyter')}")
    interpreter = project.interpreter()
    _, has_spec, spec_name = repl.partition(":")
    name = f"{CODRIVER_PREFIX}{os.getpid()}-{repl.replace(':', '-')}.json"
    file = runtime_directory(project.environ) / name
    added: dict[str, str] = {}
    note = f"Python code is evaluated by IPython in {interpreter.path} ({interpreter.whose})"
    command: tuple[str, ...] = (interpreter.path, "-m", IPYKERNEL_MODULE, "-f", str(file))
    if has_spec:
        try:
            spec = find_kernelspec(spec_name, kernel_directories(interpreter.path, project.environ))
            command, added = kernel_command(spec, file, python=interpreter.path, environ=project.environ)
        except KernelSpecError as error:
            raise RecipeError(repl, str(error)) from error
        note = f"the kernel was started from {spec.directory}"
    is_in_python = command[0] == interpreter.path
    module = command[command.index("-m") + 1] if is_in_python and "-m" in command[:-1] else ""
    package = PACKAGES_BY_MODULE.get(module, module)
    remedy = (
        f"{interpreter.path} has no {package}. Run `pip install {package}` in that environment ({interpreter.whose})"
    )
    return Recipe(
        command,
        {**_kernel_environ(project.environ), **added},
        start_timeout_s=SLOW_START_TIMEOUT_S,
        protocol=kind.protocol,
        notes=(note,),
        caution=interpreter.caution if is_in_python else None,
        remark=interpreter.remark if is_in_python else None,
        address_file=AddressFile(file, prepare_connection_file, remove_connection_file, shut_down_kernel),
        remedies=((f"No module named {module}", remedy),) if module else (),
    )


def _kernel_environ(environ: Mapping[str, str]) -> dict[str, str]:
    # Jupyter Server passes these variables to its kernels. They do not apply to a kernel that Codriver starts.
    environment = {name: value for name, value in repl_environ(environ).items() if not name.startswith("JPY_")}
    # Without this variable, debugpy prints a warning when a kernel starts.
    return {**environment, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
