"""Read kernelspecs, which describe how to start kernels, without Jupyter's own packages.

A kernelspec is a directory `kernels/NAME` with a `kernel.json`. Its command may start with `python`, which Jupyter
replaces with the interpreter that the kernelspec was installed for. Codriver uses the project's interpreter, never the
one that runs Codriver.

Source: jupyter_client, "Making kernels for Jupyter", section "Kernel specs".
"""

from __future__ import annotations

import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.jupyter_paths import data_directory
from codriver.files import FileRules, Links

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SPEC_RULES: Final = FileRules(Links.ANY, 64 * files.KIBIBYTE)
"""Limits for reading a specification. Links are allowed, because the files of an environment may be links. A separate
check decides whether the program may be started.
"""

_NAME_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]+")
_PYTHON_PROGRAM: Final = re.compile(r"python[0-9.]*")
_PLACEHOLDER: Final = re.compile(r"\{(connection_file|resource_dir|prefix)\}")


class KernelSpecError(CodriverError):
    """Raised when a kernelspec cannot be used. The message is a clause that can follow a colon."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernelspec. Placeholders in `argv` and `env` are not yet replaced."""

    name: str
    directory: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    language: str = ""


def kernel_directories(python: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the directories to search for kernelspecs, starting with the one in the interpreter's environment."""
    listed = [Path(part) for part in environ.get("JUPYTER_PATH", "").split(os.pathsep) if part]
    environment_data = Path(python).parent.parent / "share" / "jupyter"
    directories = (
        environment_data,
        *listed,
        data_directory(environ),
        Path("/usr/local/share/jupyter"),
        Path("/usr/share/jupyter"),
    )
    return tuple(dict.fromkeys(directory / "kernels" for directory in directories))


def kernel_names(directories: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of all kernelspecs in these directories, sorted alphabetically."""
    names: set[str] = set()
    for directory in directories:
        try:
            names.update(path.name for path in directory.iterdir() if (path / "kernel.json").is_file())
        except OSError:
            continue
    return tuple(sorted(names))


def find_kernelspec(name: str, directories: Sequence[Path]) -> KernelSpec:
    """Return the kernelspec with this name from the first directory that has one.

    Raises:
        KernelSpecError: the kernelspec does not exist or cannot be read.
    """
    for directory in directories if _NAME_PATTERN.fullmatch(name) else ():
        path = directory / name / "kernel.json"
        try:
            data = files.read(path, SPEC_RULES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise KernelSpecError(f"{path} cannot be read: {error.strerror}") from error
        return _parse_kernelspec(name, path, data)
    names = ", ".join(kernel_names(directories)) or "none"
    raise KernelSpecError(f"there is no kernelspec {name!r}. Available: {names}")


def _parse_kernelspec(name: str, path: Path, data: bytes) -> KernelSpec:
    try:
        spec = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise KernelSpecError(f"{path} is not valid JSON ({error})") from error
    argv, env = (spec.get("argv"), spec.get("env") or {}) if isinstance(spec, dict) else (None, {})
    if not (isinstance(argv, list) and argv and all(isinstance(part, str) for part in argv)):
        raise KernelSpecError(f"{path} has no `argv`, a list of strings with the command")
    if not (isinstance(env, dict) and all(isinstance(value, str) for value in env.values())):
        raise KernelSpecError(f"{path} has an `env` that is not an object whose values are strings")
    return KernelSpec(name, path.parent, tuple(argv), env, str(spec.get("language", "")))


def kernel_command(
    spec: KernelSpec, connection_file: Path, *, python: str, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the command that starts a kernel, and the environment variables to add.

    `python` is the project's interpreter.

    Raises:
        KernelSpecError: the kernel's program does not exist.
    """
    replacements = {
        "connection_file": str(connection_file),
        "resource_dir": str(spec.directory),
        "prefix": str(Path(python).parent.parent),
    }
    program, *arguments = (_PLACEHOLDER.sub(lambda match: replacements[match[1]], part) for part in spec.argv)
    env = {name: Template(value).safe_substitute(environ) for name, value in spec.env.items()}
    return (_find_program(spec, program, python, environ), *arguments), env


def _find_program(spec: KernelSpec, program: str, python: str, environ: Mapping[str, str]) -> str:
    if _PYTHON_PROGRAM.fullmatch(program):
        return python
    path = os.pathsep.join([str(Path(python).parent), environ.get("PATH", os.defpath)])
    executable = shutil.which(program, path=path)
    if executable is None:
        raise KernelSpecError(f"the program {program!r} in {spec.directory / 'kernel.json'} could not be found")
    return executable
