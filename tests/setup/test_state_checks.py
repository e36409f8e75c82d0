"""Checks of the state directory, and what the doctor reports if nothing can be stored on disk."""

import os
import shutil

import pytest

from codriver.files.codriver_paths import workspace_state_directory
from codriver.setup.doctor_checks import MIN_STATE_FREE_BYTES, check_state


@pytest.fixture
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def only(workspace):
    (check,) = check_state(workspace)
    return check


def test_an_existing_or_creatable_state_directory_is_accepted(state, tmp_path):
    check = only(tmp_path)
    assert (check.state, "will be created" in check.text) == ("ok", True)
    workspace_state_directory(tmp_path).mkdir(parents=True)
    check = only(tmp_path)
    assert (check.state, "will be created" in check.text) == ("ok", False)
    assert str(state) in check.text


def test_a_file_in_place_of_the_state_directory_is_reported(state, tmp_path):
    state.write_text("")
    check = only(tmp_path)
    assert (check.state, check.fix) == ("wrong", f"mv {state} …")
    assert "lost when the server stops" in check.text


def test_an_unwritable_state_directory_is_reported_with_the_features_that_it_disables(state, tmp_path, monkeypatch):
    """Nothing is unwritable for root, so the system's answer is simulated."""
    state.mkdir()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != state and real(path, mode))
    check = only(tmp_path)
    assert (check.state, check.fix.startswith(f"chmod u+rwx {state}")) == ("wrong", True)
    assert f"{state} cannot be written by this user: code and output are kept only in memory" in check.text


def test_a_nearly_full_disk_is_reported_in_advance(state, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 1, MIN_STATE_FREE_BYTES - 1))
    check = only(tmp_path)
    assert (check.state, check.text.startswith("64 MiB are free")) == ("wrong", True)
    assert "XDG_STATE_HOME" in check.fix
