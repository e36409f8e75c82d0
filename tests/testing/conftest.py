"""Environments with other versions of Python and pytest."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import needs
import pytest


def pythons(version):
    """Return the paths where a version of Python may be: on PATH, and where pyenv and uv install theirs."""
    yield shutil.which(f"python{version}")
    for folder, pattern in ((".pyenv/versions", version), (".local/share/uv/python", f"cpython-{version}")):
        yield from sorted((Path.home() / folder).glob(f"{pattern}.*/bin/python{version}"))


def runs(python):
    return python is not None and subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Create an environment: `environment("3.12", "pytest==8.*")` returns the path of its Python."""

    @cache
    def make(version, *packages):
        uv = needs.program("uv", install="https://docs.astral.sh/uv/")
        python = next(filter(runs, pythons(version)), None)
        if python is None:
            needs.do_without(f"Python {version} is not installed: uv python install {version}", is_expected=False)
        folder = tmp_path_factory.mktemp(f"python{version}-")
        subprocess.run([uv, "venv", "-q", "--python", python, folder / ".venv"], check=True)
        python = folder / ".venv" / "bin" / "python"
        subprocess.run([uv, "pip", "install", "-q", "--python", python, *packages], check=True)
        return str(python)

    return make


@pytest.fixture(scope="session")
def monitored_python(environment):
    """Return a Python with `sys.monitoring`, pytest and xdist."""
    return sys.executable if sys.version_info >= (3, 12) else environment("3.12", "pytest", "pytest-xdist")
