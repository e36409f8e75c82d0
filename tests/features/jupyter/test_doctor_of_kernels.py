"""What the doctor reports about kernels."""

import json
import re
import socket
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from codriver.app.features import doctor_checks
from codriver.errors import StartError, install_command
from codriver.features.jupyter import doctor_checks as kernel_checks
from codriver.setup.doctor import diagnose
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "app"
    folder.mkdir()
    return folder


@pytest.fixture
def machine(tmp_path):
    return Environment(tmp_path / "home", "linux", {"PATH": ""})


def no_server(_tool, _arguments):
    raise StartError("no server runs here")


def repls_of(workspace, machine):
    launch = Launch(Path(sys.executable), workspace / "relay", workspace)
    report = diagnose(launch, no_server, machine, lambda *_: None, of_features=doctor_checks())
    return [check for check in report.checks if check.area == "REPLs"]


@pytest.mark.parametrize("is_installed", [True, False])
def test_notebook_kernels_are_listed_without_a_server_and_with_a_command_to_use_them(
    workspace, machine, monkeypatch, is_installed
):
    monkeypatch.setattr(kernel_checks, "_has_jupyter", lambda: is_installed)
    path = machine.home / "run" / "kernel-1.json"
    path.parent.mkdir(parents=True)
    path.touch(mode=0o600)
    notebook = workspace.resolve() / "a.ipynb"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        path.write_text(json.dumps({"ip": "127.0.0.1", "shell_port": port, "jupyter_session": str(notebook)}))
        machine = replace(machine, variables={"JUPYTER_RUNTIME_DIR": str(path.parent)})
        (note,) = repls_of(workspace, machine)
    assert note.text == f"the kernel of {notebook} is running, found by {path}"
    assert note.fix == ("codriver serve connects to this kernel" if is_installed else install_command("jupyter"))


def test_the_page_named_in_the_install_command_also_describes_pipx():
    (page,) = re.findall(r"docs/\S+\.md", install_command("jupyter"))
    text = Path(__file__).parents[3].joinpath(page).read_text()
    assert "pipx" in text
    assert "jupyter" in text


def test_the_suggested_fix_for_a_stopped_kernel_is_to_remove_its_file():
    gone = {"key": "a-ipynb", "kind": "kernel", "phase": "stopped", "origin": "/run/k.json"}
    assert kernel_checks.suggest_kernel_fix(gone) == "rm /run/k.json, if its kernel has ended"
    assert kernel_checks.suggest_kernel_fix({**gone, "kind": "process"}) is None
