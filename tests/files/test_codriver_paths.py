"""Where Codriver keeps its files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codriver.files import codriver_paths


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("XDG_CONFIG_HOME", codriver_paths.config_directory),
        ("XDG_STATE_HOME", codriver_paths.state_directory),
        ("XDG_CACHE_HOME", codriver_paths.cache_directory),
    ],
)
def test_an_xdg_variable_sets_the_directory(monkeypatch, tmp_path, variable, folder):
    monkeypatch.setenv(variable, str(tmp_path))
    assert folder() == tmp_path / "codriver"


def test_a_relative_xdg_variable_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert codriver_paths.config_directory().is_absolute()
    assert "here" not in codriver_paths.config_directory().parts


@pytest.mark.skipif(sys.platform != "linux", reason="the convention of one platform")
def test_without_variables_linux_uses_the_xdg_defaults(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert codriver_paths.relay_directory() == tmp_path / ".config" / "codriver"
    assert codriver_paths.user_settings_file() == tmp_path / ".config" / "codriver" / "codriver.toml"


def test_the_port_file_is_where_clients_look_for_it():
    assert codriver_paths.port_file(Path("/w")) == Path("/w/.calva/mcp-server/port")


def test_the_relay_file_has_a_fixed_location(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert codriver_paths.relay_file() == tmp_path / "codriver" / "codriver_relay.py"


@pytest.mark.parametrize("name", ["skills", "wrapper-config"])
def test_shipped_directories_are_found_next_to_the_package_and_inside_it(monkeypatch, tmp_path, name):
    assert any(codriver_paths.shipped_directory(name).iterdir())
    package = tmp_path / "codriver"
    (package / "data" / name).mkdir(parents=True)
    monkeypatch.setattr(codriver_paths, "__file__", str(package / "files" / "paths.py"))
    assert codriver_paths.shipped_directory(name) == package / "data" / name


def test_workspaces_of_the_same_name_have_separate_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = (codriver_paths.workspace_state_directory(tmp_path / parent / "app") for parent in ("a", "b"))
    assert first != second
    assert first.name.startswith("app-")


def test_a_workspace_reached_by_a_symlink_has_the_same_state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    by_link, itself = (codriver_paths.workspace_state_directory(tmp_path / name) for name in ("link", "real"))
    assert by_link == itself


@pytest.mark.parametrize("name", ["проект", "...", "a b/../../c", "x" * 200])
def test_any_workspace_name_becomes_one_short_directory_name(monkeypatch, tmp_path, name):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = codriver_paths.workspace_state_directory(tmp_path / name)
    assert folder.parent == tmp_path / "codriver" / "workspaces"
    assert len(folder.name) < 60


def test_getting_the_path_of_a_directory_creates_nothing(monkeypatch, tmp_path):
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    (
        codriver_paths.user_settings_file(),
        codriver_paths.cache_directory(),
        codriver_paths.workspace_state_directory(tmp_path / "w"),
    )
    assert list(tmp_path.iterdir()) == []


def test_importing_codriver_paths_does_not_import_platformdirs():
    code = "import sys, codriver.files.codriver_paths; sys.exit('platformdirs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=60, check=False).returncode == 0
