"""Directories that only the user may read, including the directories above them."""

import os
import stat

import pytest
from live_server import serving

from codriver.files.private_directories import make_private_directory


@pytest.fixture(autouse=True)
def _usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_missing_parent_directories_are_created_private_too(tmp_path):
    tmp_path.chmod(0o755)
    make_private_directory(tmp_path / "a" / "b" / "c")
    make_private_directory(tmp_path / "a" / "b" / "c")
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    assert mode(tmp_path) == 0o755


def test_state_directories_are_made_private_but_not_their_parent_directories(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    place = tmp_path / "state" / "codriver" / "workspaces" / "w"
    place.mkdir(parents=True)
    make_private_directory(place)
    assert [mode(folder) for folder in (place, place.parent, place.parents[1])] == [0o700] * 3
    assert mode(tmp_path / "state") == 0o755


def test_a_symlinked_state_directory_keeps_its_permissions(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "state" / "codriver").mkdir(parents=True)
    (tmp_path / "state" / "codriver" / "workspaces").symlink_to(elsewhere)
    make_private_directory(tmp_path / "state" / "codriver" / "workspaces" / "w")
    assert (mode(elsewhere), mode(elsewhere / "w")) == (0o755, 0o700)


def test_a_file_in_place_of_a_directory_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    for name in ("a", "a/b"):
        with pytest.raises(NotADirectoryError):
            make_private_directory(tmp_path / name)


def test_all_directories_of_a_servers_user_state_are_private(tmp_path):
    state = tmp_path / "state" / "codriver"
    (state / "workspaces").mkdir(parents=True)
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        client.call("list_sessions")
        found = [state, *(path for path in state.rglob("*") if path.is_dir())]
        assert {str(path): oct(mode(path)) for path in found if mode(path) != 0o700} == {}
