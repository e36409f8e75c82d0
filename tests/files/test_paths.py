"""Where things are kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codriver.files import paths


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("XDG_CONFIG_HOME", paths.config_folder),
        ("XDG_STATE_HOME", paths.state_folder),
        ("XDG_CACHE_HOME", paths.cache_folder),
    ],
)
def test_an_xdg_variable_says_where(monkeypatch, tmp_path, variable, folder):
    monkeypatch.setenv(variable, str(tmp_path))
    assert folder() == tmp_path / "codriver"


def test_a_relative_xdg_variable_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert paths.config_folder().is_absolute()
    assert "here" not in paths.config_folder().parts


@pytest.mark.skipif(sys.platform != "linux", reason="the convention of one platform")
def test_without_variables_the_convention_of_the_platform_holds(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert paths.relay_folder() == tmp_path / ".config" / "codriver"
    assert paths.user_settings_file() == tmp_path / ".config" / "codriver" / "codriver.toml"


def test_the_port_file_is_where_clients_look():
    assert paths.port_file(Path("/w")) == Path("/w/.calva/mcp-server/port")


def test_the_relay_is_one_file_at_a_place_that_stays(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert paths.relay_file() == tmp_path / "codriver" / "codriver_relay.py"


@pytest.mark.parametrize("name", ["skills", "wrapper-config"])
def test_what_is_shipped_is_found_beside_the_package_and_inside_it(monkeypatch, tmp_path, name):
    assert any(paths.shipped_folder(name).iterdir())
    package = tmp_path / "codriver"
    (package / "data" / name).mkdir(parents=True)
    monkeypatch.setattr(paths, "__file__", str(package / "files" / "paths.py"))
    assert paths.shipped_folder(name) == package / "data" / name


def test_two_workspaces_of_one_name_have_two_states(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    first, second = (paths.workspace_state_folder(tmp_path / parent / "app") for parent in ("a", "b"))
    assert first != second
    assert first.name.startswith("app-")


def test_a_workspace_has_one_state_however_it_is_reached(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert paths.workspace_state_folder(tmp_path / "link") == paths.workspace_state_folder(tmp_path / "real")


@pytest.mark.parametrize("name", ["проект", "...", "a b/../../c", "x" * 200])
def test_any_workspace_name_gives_one_plain_folder_name(monkeypatch, tmp_path, name):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = paths.workspace_state_folder(tmp_path / name)
    assert folder.parent == tmp_path / "codriver" / "workspaces"
    assert len(folder.name) < 60


def test_asking_creates_nothing(monkeypatch, tmp_path):
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    paths.user_settings_file(), paths.cache_folder(), paths.workspace_state_folder(tmp_path / "w")
    assert list(tmp_path.iterdir()) == []


def test_importing_the_module_does_not_import_what_only_some_commands_need():
    code = "import sys, codriver.files.paths; sys.exit('platformdirs' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=os.environ, timeout=60, check=False).returncode == 0
