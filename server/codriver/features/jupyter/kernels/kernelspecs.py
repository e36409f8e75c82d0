"""Kernelspecs: how to start a kernel, read without Jupyter's own packages.

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
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SPEC_RULES: Final = Rules(Links.ANY, 64 * files.KIBIBYTE)
"""Environments may be made of links; the recipe decides whether a program may be started."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PYTHON: Final = re.compile(r"python[0-9.]*")
_PLACEHOLDER: Final = re.compile(r"\{(connection_file|resource_dir|prefix)\}")


class KernelSpecError(CodriverError):
    """A kernelspec cannot be used. The message is a clause that goes on after a colon."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernelspec. `argv` and `env` are those of its file, with placeholders."""

    name: str
    directory: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    language: str = ""


def kernel_directories(python: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the directories of kernelspecs, first those of the interpreter's own environment."""
    named = [Path(part) for part in environ.get("JUPYTER_PATH", "").split(os.pathsep) if part]
    of_environment = Path(python).parent.parent / "share" / "jupyter"
    directories = (
        of_environment,
        *named,
        data_directory(environ),
        Path("/usr/local/share/jupyter"),
        Path("/usr/share/jupyter"),
    )
    return tuple(dict.fromkeys(directory / "kernels" for directory in directories))


def kernel_names(directories: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of all kernelspecs, in alphabetical order."""
    names: set[str] = set()
    for directory in directories:
        try:
            names.update(path.name for path in directory.iterdir() if (path / "kernel.json").is_file())
        except OSError:
            continue
    return tuple(sorted(names))


def find_kernelspec(name: str, directories: Sequence[Path]) -> KernelSpec:
    """Return the first kernelspec of that name.

    Raises:
        KernelSpecError: the kernelspec is missing or unreadable.
    """
    for directory in directories if _NAME.fullmatch(name) else ():
        path = directory / name / "kernel.json"
        try:
            data = files.read(path, SPEC_RULES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise KernelSpecError(f"{path} cannot be read: {error.strerror}") from error
        return _read(name, path, data)
    known = ", ".join(kernel_names(directories)) or "none at all"
    raise KernelSpecError(f"there is no kernelspec {name!r}; there are: {known}")


def _read(name: str, path: Path, data: bytes) -> KernelSpec:
    try:
        spec = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise KernelSpecError(f"{path} is no JSON ({error})") from error
    argv, env = (spec.get("argv"), spec.get("env") or {}) if isinstance(spec, dict) else (None, {})
    if not (isinstance(argv, list) and argv and all(isinstance(part, str) for part in argv)):
        raise KernelSpecError(f"{path} has no `argv`, the list of the words of a command")
    if not (isinstance(env, dict) and all(isinstance(value, str) for value in env.values())):
        raise KernelSpecError(f"{path} has an `env` that is no object of texts")
    return KernelSpec(name, path.parent, tuple(argv), env, str(spec.get("language", "")))


def command_of(
    spec: KernelSpec, connection_file: Path, *, python: str, environ: Mapping[str, str]
) -> tuple[tuple[str, ...], dict[str, str]]:
    """The command of a kernel and the environment variables that it adds. `python`: the project's interpreter.

    Raises:
        KernelSpecError: the kernel's program is missing.
    """
    replacements = {
        "connection_file": str(connection_file),
        "resource_dir": str(spec.directory),
        "prefix": str(Path(python).parent.parent),
    }
    program, *rest = (_PLACEHOLDER.sub(lambda found: replacements[found[1]], part) for part in spec.argv)
    env = {name: Template(value).safe_substitute(environ) for name, value in spec.env.items()}
    return (_program(spec, program, python, environ), *rest), env


def _program(spec: KernelSpec, program: str, python: str, environ: Mapping[str, str]) -> str:
    if _PYTHON.fullmatch(program):
        return python
    path = os.pathsep.join([str(Path(python).parent), environ.get("PATH", os.defpath)])
    found = shutil.which(program, path=path)
    if found is None:
        raise KernelSpecError(f"its program {program!r} is not there; {spec.directory / 'kernel.json'} names it")
    return found
