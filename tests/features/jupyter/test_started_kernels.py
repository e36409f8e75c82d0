"""Kernels started by a server: the command, its environment, and the file by which others find them."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from needs import modules

from codriver.app.features import repl_kinds
from codriver.features.jupyter.kernel_kind import KERNEL_KIND
from codriver.features.jupyter.kernels.connection_files import RuntimeDirectory
from codriver.features.jupyter.kernels.started_kernels import prepare_connection_file, remove_connection_file
from codriver.repls import kinds
from codriver.repls.launch.projects import NOT_ACCEPTED
from codriver.repls.launch.recipes import RecipeError, check_repl_word, find_recipe
from codriver.repls.launch.repl_discovery import _configured_command

modules("jupyter_client")


def write_spec(directory, name, spec):
    (directory / name).mkdir(parents=True)
    (directory / name / "kernel.json").write_text(json.dumps(spec))


def program(directory, name):
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text("#!/bin/sh\n")
    (directory / name).chmod(0o755)


@pytest.fixture
def workspace_and_environ(tmp_path):
    """Create a workspace with its own environment, and the variables of a machine on which nothing else is
    installed.
    """
    workspace = tmp_path / "work"
    program(workspace / ".venv" / "bin", "python")
    environ = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path), "JUPYTER_RUNTIME_DIR": str(tmp_path / "run")}
    return workspace, environ


def file_for(environ, word):
    return str(Path(environ["JUPYTER_RUNTIME_DIR"]) / f"kernel-codriver-{os.getpid()}-{word}.json")


def test_the_jupyter_option_starts_ipython_with_the_project_interpreter(workspace_and_environ):
    workspace, environ = workspace_and_environ
    kernel_recipe = find_recipe("jupyter", workspace, environ, added_kinds=repl_kinds())
    python, file = str(workspace / ".venv/bin/python"), file_for(environ, "jupyter")
    assert kernel_recipe.command == (python, "-m", "ipykernel_launcher", "-f", file)
    assert (str(kernel_recipe.address_file.path), kernel_recipe.protocol, kernel_recipe.port_file) == (
        file,
        "jupyter",
        None,
    )
    ((fragment, remedy),) = kernel_recipe.remedies
    assert fragment == "No module named ipykernel_launcher"
    assert f"{python} has no ipykernel. Run `pip install ipykernel` in that environment" in remedy


def test_a_kernelspec_of_the_project_environment_comes_first(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    environment_specs = workspace / ".venv/share/jupyter/kernels"
    write_spec(
        environment_specs, "xpython", {"argv": ["python3.11", "-m", "xpython_launcher", "-f", "{connection_file}"]}
    )
    write_spec(tmp_path / "data" / "kernels", "xpython", {"argv": ["other"]})
    environ = {**environ, "JUPYTER_DATA_DIR": str(tmp_path / "data")}
    kernel_recipe = find_recipe("jupyter:xpython", workspace, environ, added_kinds=repl_kinds())
    python, file = str(workspace / ".venv/bin/python"), file_for(environ, "jupyter-xpython")
    assert kernel_recipe.command == (python, "-m", "xpython_launcher", "-f", file)
    assert "pip install xeus-python" in kernel_recipe.remedies[0][1]


def test_variables_of_another_kernel_are_removed_from_the_environment(workspace_and_environ, tmp_path):
    workspace, environ = workspace_and_environ
    foreign_variables = {"JPY_PARENT_PID": "1", "JPY_SESSION_NAME": "a.ipynb", "PYTHONDONTWRITEBYTECODE": "1"}
    kernel_recipe = find_recipe("jupyter", workspace, {**environ, **foreign_variables}, added_kinds=repl_kinds())
    assert kernel_recipe.env == {**environ, "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    program(tmp_path / "bin", "k")
    write_spec(tmp_path / "kernels", "k", {"argv": ["k"], "env": {"PS1": "$$"}})
    kernel_recipe = find_recipe(
        "jupyter:k", workspace, {**environ, "JUPYTER_PATH": str(tmp_path)}, added_kinds=repl_kinds()
    )
    assert kernel_recipe.env["PS1"] == "$"
    assert kernel_recipe.remedies == ()


@pytest.mark.parametrize("word", ["jupyter:none", "jupyter:../k", "jupyter:"])
def test_an_unknown_kernelspec_is_refused_immediately(workspace_and_environ, word):
    workspace, environ = workspace_and_environ
    with pytest.raises(RecipeError, match=rf"`--repl {word}` cannot be started: there is no kernelspec"):
        check_repl_word(word, workspace, environ, added_kinds=repl_kinds())


@pytest.mark.parametrize("word", ["jupyter", "jupyter:k"])
def test_no_kernel_is_started_in_an_untrusted_workspace(workspace_and_environ, tmp_path, word):
    workspace, environ = workspace_and_environ
    write_spec(tmp_path / "kernels", "k", {"argv": [sys.executable]})
    environ = {**environ, "JUPYTER_PATH": str(tmp_path)}
    assert find_recipe(word, workspace, environ, added_kinds=repl_kinds()).command
    with pytest.raises(RecipeError, match="nobody has accepted this checkout: ask your human to run: codriver trust"):
        find_recipe(word, workspace, environ, acceptance_of=lambda _: NOT_ACCEPTED, added_kinds=repl_kinds())


@pytest.mark.parametrize(
    ("word", "key", "dialect"),
    [
        ("jupyter", "jup", "python"),
        ("jupyter:xpython", "jup", "python"),
        ("jupyter:ir", "r", "unknown"),
        ("jupyter:deno", "deno", "unknown"),
    ],
)
def test_the_repl_option_determines_the_key(word, key, dialect):
    configured = _configured_command(word, [KERNEL_KIND])
    assert (configured.key, configured.dialect, configured.keyed, configured.origin.text) == (key, dialect, True, word)


def test_other_option_values_with_a_colon_are_treated_as_command_lines():
    assert kinds.find_kind("python:3", [KERNEL_KIND]) is None
    assert kinds.find_kind("jupyter:ir", [KERNEL_KIND]) is kinds.find_kind(" jupyter ", [KERNEL_KIND]) is KERNEL_KIND


# The connection file


def test_a_connection_file_is_private_complete_and_stable_across_restarts(tmp_path):
    file = tmp_path / "runtime" / f"kernel-codriver-{os.getpid()}-jupyter.json"
    prepare_connection_file(file, is_first=True)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.parent.stat().st_mode & 0o777 == 0o700
    text = file.read_text()
    assert len(json.loads(text)["key"]) == 64
    prepare_connection_file(file, is_first=False)
    assert file.read_text() == text
    assert not RuntimeDirectory(file.parent).contents().kernels
    remove_connection_file(file)
    remove_connection_file(file)
    assert not file.exists()


def test_a_connection_file_without_a_kernel_is_rewritten(tmp_path):
    file = tmp_path / f"kernel-codriver-{os.getpid()}-jupyter.json"
    prepare_connection_file(file, is_first=True)
    key = json.loads(file.read_text())["key"]
    remove_connection_file(file)
    prepare_connection_file(file, is_first=False)
    assert json.loads(file.read_text())["key"] != key


def test_a_file_left_by_another_process_is_not_trusted(tmp_path):
    file, victim = tmp_path / f"kernel-codriver-{os.getpid()}-jupyter.json", tmp_path / "victim"
    victim.write_text("mine")
    file.symlink_to(victim)
    prepare_connection_file(file, is_first=True)
    assert victim.read_text() == "mine"
    assert not file.is_symlink()


def test_only_files_of_killed_servers_are_removed(tmp_path):
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    names = {
        f"kernel-codriver-{process.pid}-jupyter.json": False,
        f"kernel-codriver-{os.getppid()}-jupyter.json": True,
        "kernel-codriver-x.json": True,
        f"kernel-{process.pid}.json": True,
    }
    for name in names:
        (tmp_path / name).touch()
    prepare_connection_file(tmp_path / f"kernel-codriver-{os.getpid()}-jupyter.json", is_first=True)
    assert {name: (tmp_path / name).exists() for name in names} == names
