"""Kernelspecs: the descriptions of how to start kernels, read from Jupyter's folders without Jupyter.

A kernelspec is a folder `kernels/NAME` with a `kernel.json`. Its command may be relative: `python` means the
interpreter that it was installed for, which to us is the project's, never the one that runs Codriver.

Source: jupyter_client's "Making kernels for Jupyter", section "Kernel specs".
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.errors import CodriverError
from codriver.files import Links, Rules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SPEC_RULES: Final = Rules(Links.ANY, 64 * files.KIBIBYTE)
"""Environments may be made of links; whether a program may be started is for the recipe to decide."""

_NAME: Final = re.compile(r"[A-Za-z0-9._-]+")
_PYTHON: Final = re.compile(r"python[0-9.]*")
_PLACE: Final = re.compile(r"\{(connection_file|resource_dir|prefix)\}")


class KernelSpecError(CodriverError):
    """A kernelspec cannot be used. The message is a clause that goes on after a colon."""


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernelspec. `argv` and `env` are as in its file, with their placeholders."""

    name: str
    folder: Path
    argv: tuple[str, ...]
    env: Mapping[str, str]
    language: str = ""


def data_folder(environ: Mapping[str, str]) -> Path:
    """The user's own data folder of Jupyter."""
    if given := environ.get("JUPYTER_DATA_DIR"):
        return Path(given)
    home = Path(environ.get("HOME") or Path.home())
    system = str(sys.platform)  # each branch is typed on every system
    if system == "darwin":
        return home / "Library" / "Jupyter"
    if system == "win32":
        return Path(environ.get("APPDATA") or home) / "jupyter"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "jupyter"


def kernel_folders(python: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders of kernelspecs, those of the interpreter's own environment first."""
    named = [Path(part) for part in environ.get("JUPYTER_PATH", "").split(os.pathsep) if part]
    own = Path(python).parent.parent / "share" / "jupyter"
    folders = (own, *named, data_folder(environ), Path("/usr/local/share/jupyter"), Path("/usr/share/jupyter"))
    return tuple(dict.fromkeys(folder / "kernels" for folder in folders))


def kernel_names(folders: Sequence[Path]) -> tuple[str, ...]:
    """The names of all kernelspecs, in alphabetical order."""
    names: set[str] = set()
    for folder in folders:
        try:
            names.update(path.name for path in folder.iterdir() if (path / "kernel.json").is_file())
        except OSError:
            continue
    return tuple(sorted(names))


def find_kernelspec(name: str, folders: Sequence[Path]) -> KernelSpec:
    """The first kernelspec of that name.

    Raises:
        KernelSpecError: there is none, or it cannot be read.
    """
    for folder in folders if _NAME.fullmatch(name) else ():
        path = folder / name / "kernel.json"
        try:
            data = files.read(path, SPEC_RULES)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise KernelSpecError(f"{path} cannot be read: {error.strerror}") from error
        return _read(name, path, data)
    known = ", ".join(kernel_names(folders)) or "none at all"
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
        KernelSpecError: its program is not there.
    """
    places = {
        "connection_file": str(connection_file),
        "resource_dir": str(spec.folder),
        "prefix": str(Path(python).parent.parent),
    }
    program, *rest = (_PLACE.sub(lambda found: places[found[1]], part) for part in spec.argv)
    env = {name: Template(value).safe_substitute(environ) for name, value in spec.env.items()}
    return (_program(spec, program, python, environ), *rest), env


def _program(spec: KernelSpec, program: str, python: str, environ: Mapping[str, str]) -> str:
    if _PYTHON.fullmatch(program):
        return python
    path = os.pathsep.join([str(Path(python).parent), environ.get("PATH", os.defpath)])
    found = shutil.which(program, path=path)
    if found is None:
        raise KernelSpecError(f"its program {program!r} is not there; {spec.folder / 'kernel.json'} names it")
    return found
