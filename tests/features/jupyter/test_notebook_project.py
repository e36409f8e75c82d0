"""Directories of notebooks, for which a kernel is suggested."""

import shutil
import sys
from pathlib import Path

import forked
import pytest
from live_server import environ

from codriver.features.jupyter.notebook_project import notebook_project

NOTEBOOK = '{{"cells": [], "metadata": {metadata}, "nbformat": 4, "nbformat_minor": 5}}'


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def write(workspace, files):
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)


@pytest.fixture
def with_kernel(workspace):
    """Create an environment of the workspace in which ipykernel is installed."""
    write(workspace, {".venv/lib/python3.12/site-packages/ipykernel_launcher.py": ""})
    (workspace / ".venv" / "bin").mkdir()
    (workspace / ".venv" / "bin" / "python").symlink_to(sys.executable)
    return workspace


@pytest.mark.parametrize(
    ("files", "is_one"),
    [
        ({"a.ipynb": NOTEBOOK.format(metadata="{}")}, True),
        ({"deep/er/a.ipynb": NOTEBOOK.format(metadata='{"kernelspec": {"language": "python"}}'), "x.csv": ""}, True),
        ({"a.ipynb": "", "requirements.txt": "pandas\n"}, True),
        ({"a.ipynb": NOTEBOOK.format(metadata='{"language_info": {"name": "R"}}')}, False),
        ({"a.ipynb": "", "helpers.py": ""}, False),
        ({"a.ipynb": "", "main.js": ""}, False),
        ({"x.csv": ""}, False),
    ],
)
def test_a_directory_of_notebooks_gets_a_kernel_if_one_is_installed(with_kernel, files, is_one):
    write(with_kernel, files)
    found = notebook_project(with_kernel, {"PATH": ""})
    assert (found is not None and found.repl == "jupyter") == is_one
    shutil.rmtree(with_kernel / ".venv" / "lib")
    assert notebook_project(with_kernel, {"PATH": ""}) is None


def test_a_link_to_a_notebook_outside_the_directory_is_not_followed(with_kernel, tmp_path):
    (tmp_path / "outside.ipynb").write_text(NOTEBOOK.format(metadata='{"language_info": {"name": "R"}}'))
    (with_kernel / "a.ipynb").symlink_to(tmp_path / "outside.ipynb")
    assert notebook_project(with_kernel, {"PATH": ""}) is not None
    assert Path(with_kernel / "a.ipynb").read_text()


def test_refusing_to_evaluate_in_an_unaccepted_project_has_its_own_exit_status(tmp_path, workspace):
    (workspace / "codriver.toml").write_text("repl = ['jupyter']\n")
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    try:
        done = forked.run(("eval", "--start", "1 + 1"), env=env, cwd=workspace, timeout=120)
    finally:
        forked.run(("stop",), env=env, cwd=workspace)
    assert done.returncode == 7, done
    assert done.stderr.startswith("nothing was run, because "), done
    assert f"`codriver trust --workspace {workspace}`" in done.stderr
