"""Directories that an editor has open, according to its own state files."""

import json
import os
import subprocess
import sys

import pytest

from codriver.editing.vscode import find_open_editor

pytestmark = pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the directories of Linux")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "a home"


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "my project"
    folder.mkdir()
    return folder


def opened(home, state, editor="Code", process=None):
    data = home / ".config" / editor
    (data / "User" / "globalStorage").mkdir(parents=True)
    (data / "code.lock").write_text(str(os.getpid() if process is None else process))
    text = state if isinstance(state, str) else json.dumps(state)
    (data / "User" / "globalStorage" / "storage.json").write_text(text)


def find_editor(home, folder):
    return find_open_editor(folder, {"HOME": str(home)})


def test_no_editor_is_found_if_none_is_running(home, workspace):
    assert find_editor(home, workspace) is None


@pytest.mark.parametrize("editor", ["Code", "Code - Insiders", "VSCodium", "Cursor"])
def test_a_directory_of_a_running_editor_is_found(home, workspace, editor):
    opened(home, {"backupWorkspaces": {"folders": [{"folderUri": workspace.as_uri()}]}}, editor)
    assert find_editor(home, workspace) == ("VS Code" if editor.startswith("Code") else editor)
    assert find_editor(home, workspace / "sub") is not None
    assert find_editor(home, workspace.parent) is not None
    assert find_editor(home, workspace.parent / "other") is None


@pytest.mark.parametrize(
    "windows", [lambda uri: {"lastActiveWindow": {"folder": uri}}, lambda uri: {"openedWindows": [{"folder": uri}]}]
)
def test_the_directories_of_all_editor_windows_are_reported_as_open(home, workspace, windows):
    opened(home, {"windowsState": windows(workspace.as_uri())})
    assert find_editor(home, workspace) == "VS Code"


def test_directories_of_an_editor_that_exited_are_not_reported_as_open(home, workspace):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    opened(home, {"backupWorkspaces": {"folders": [{"folderUri": workspace.as_uri()}]}}, process=ended.pid)
    assert find_editor(home, workspace) is None


@pytest.mark.parametrize(
    "state",
    ["", "{", "[]", "7", {"backupWorkspaces": []}, {"backupWorkspaces": {"folders": [7, {"folderUri": 7}]}},
     {"windowsState": {"openedWindows": {"folder": "x"}}}, {"windowsState": {"lastActiveWindow": {"folder": "vscode-remote://wsl/x"}}}],
    ids=str,
)  # fmt: skip
def test_editor_state_in_an_unexpected_format_is_ignored(home, workspace, state):
    opened(home, state)
    assert find_editor(home, workspace) is None
