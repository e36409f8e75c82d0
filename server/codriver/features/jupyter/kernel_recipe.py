"""The recipe for a Jupyter kernel that Codriver starts."""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from codriver.errors import install_extra
from codriver.features.jupyter.kernels.connection_files import CODRIVER_PREFIX
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.kernelspecs import (
    KernelSpecError,
    command_of,
    find_kernelspec,
    kernel_directories,
)
from codriver.features.jupyter.kernels.started_kernels import (
    prepare_connection_file,
    remove_connection_file,
    shut_down_kernel,
)
from codriver.repls.launch.recipes import SLOW_START_S, AddressFile, Recipe, RecipeError, child_environ

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.repls.kinds import Kind
    from codriver.repls.launch.recipes import Project

IPYKERNEL: Final = "ipykernel_launcher"
PACKAGES: Final[Mapping[str, str]] = {IPYKERNEL: "ipykernel", "xpython_launcher": "xeus-python"}
"""The packages of the modules that start kernels, if their names differ."""


def launch_kernel(kind: Kind, words: str, project: Project) -> Recipe:
    """A kernel: IPython's in the project's interpreter, which needs no kernelspec, or that of the named spec."""
    if find_spec("jupyter_client") is None:
        raise RecipeError(words, f"jupyter_client is not installed; run {install_extra('jupyter')}")
    found = project.interpreter()
    _, is_named, spec_name = words.partition(":")
    name = f"{CODRIVER_PREFIX}{os.getpid()}-{words.replace(':', '-')}.json"
    file = runtime_directory(project.environ) / name
    added: dict[str, str] = {}
    note = f"Python code is evaluated by IPython in {found.path} ({found.whose})"
    command: tuple[str, ...] = (found.path, "-m", IPYKERNEL, "-f", str(file))
    if is_named:
        try:
            spec = find_kernelspec(spec_name, kernel_directories(found.path, project.environ))
            command, added = command_of(spec, file, python=found.path, environ=project.environ)
        except KernelSpecError as error:
            raise RecipeError(words, str(error)) from error
        note = f"the kernel is that of {spec.directory}"
    is_in_python = command[0] == found.path
    module = command[command.index("-m") + 1] if is_in_python and "-m" in command[:-1] else ""
    package = PACKAGES.get(module, module)
    remedy = f"{found.path} has no {package}: run `pip install {package}` in that environment ({found.whose})"
    return Recipe(
        command,
        {**_kernel_environ(project.environ), **added},
        start_timeout_s=SLOW_START_S,
        protocol=kind.protocol,
        notes=(note,),
        caution=found.caution if is_in_python else None,
        remark=found.remark if is_in_python else None,
        address_file=AddressFile(file, prepare_connection_file, remove_connection_file, shut_down_kernel),
        remedies=((f"No module named {module}", remedy),) if module else (),
    )


def _kernel_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a kernel, with no word of another kernel's or of a server's, and no warning at its start."""
    environment = {name: value for name, value in child_environ(environ).items() if not name.startswith("JPY_")}
    return {**environment, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
