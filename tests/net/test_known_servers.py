"""The notes that servers leave about themselves: who is listed, and whose notes are ignored."""

import json
import os
import subprocess
import sys

import forked
import posix_only
import pytest
from live_server import WAIT_S, environ, until

from codriver.files.codriver_paths import server_directory, workspace_state_directory
from codriver.net.known_servers import NOTE_NAME, noted_workspaces, query_all_servers, remove_note, write_note


@pytest.fixture(autouse=True)
def _state(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "some workspace"
    folder.mkdir()
    return folder


def test_no_workspace_is_listed_if_no_state_is_stored():
    assert noted_workspaces() == ()


def test_a_workspace_is_listed_until_it_is_forgotten(workspace):
    write_note(workspace)
    write_note(workspace)
    assert noted_workspaces() == (workspace,)
    assert posix_only.has_mode(workspace_state_directory(workspace) / NOTE_NAME, 0o600)
    remove_note(workspace)
    remove_note(workspace)
    assert noted_workspaces() == ()


def test_the_record_of_a_deleted_workspace_is_removed(workspace):
    write_note(workspace)
    workspace.rmdir()
    assert noted_workspaces() == ()
    assert not (workspace_state_directory(workspace) / NOTE_NAME).exists()


@pytest.mark.parametrize("how", ["of another", "a link", "open to others", "too long", "relative", "no path"])
def test_a_workspace_record_that_no_server_wrote_is_ignored(workspace, tmp_path, how):
    place = workspace_state_directory(workspace) / NOTE_NAME
    place.parent.mkdir(parents=True)
    texts = {"of another": os.fsencode(tmp_path), "too long": b"/x" * 8192, "relative": b"some", "no path": b"\0"}
    if how == "a link":
        (tmp_path / "elsewhere").write_bytes(os.fsencode(workspace))
        posix_only.make_link(place, tmp_path / "elsewhere")
    else:
        place.write_bytes(texts.get(how, os.fsencode(workspace)))
        if how == "open to others":
            posix_only.set_mode(place, 0o666)
        else:
            place.chmod(0o600)
    assert noted_workspaces() == ()


def test_a_server_whose_files_were_removed_is_not_reported_as_killed(workspace):
    write_note(workspace)
    (known,) = query_all_servers("codriver-status")
    assert known.why.endswith("was removed or cannot be read, so it is unknown whether the server is running")


def test_a_workspace_whose_server_was_killed_is_reported(workspace):
    write_note(workspace)
    lock = server_directory(workspace) / "lock"
    lock.parent.mkdir(parents=True, mode=0o700)
    lock.touch(mode=0o600)
    (known,) = query_all_servers("codriver-status")
    assert (known.workspace, known.health) == (workspace, None)
    assert known.why == "the server ended unexpectedly"


def command(*words, env):
    # The server is started as a new process, because it must outlive the process that starts it.
    if "--detach" in words:
        done = subprocess.run(
            [sys.executable, "-m", "codriver", *words], env=env, capture_output=True, text=True, timeout=WAIT_S,
            check=False,
        )  # fmt: skip
    else:
        done = forked.run([str(word) for word in words], env=env, timeout=WAIT_S)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_all_servers_of_a_user_are_listed_including_killed_ones(tmp_path, workspace):
    env, second = environ(tmp_path), tmp_path / "second"
    second.mkdir()
    for folder in (workspace, second):
        status, _, text = command("serve", "--detach", "--port", "0", "--repl", "none", "-w", folder, env=env)
        assert status == 0, text
    status, listed, text = command("status", "--all", env=env)
    assert (status, text) == (0, "")
    first_line, second_line = listed.splitlines()
    assert second_line.startswith(f"{workspace}  port ")
    assert first_line.startswith(f"{second}  port ")
    assert "; REPLs: none; clients: none; up " in first_line
    found = json.loads(command("status", "--all", "--json", env=env)[1])
    assert (found["ok"], found["count"], found["leftOut"]) == (True, 2, [])
    pids = {server["workspace"]: server["pid"] for server in found["servers"]}
    posix_only.kill(pids[str(second)])
    # A killed process stops listening shortly before its lock is released.
    until(lambda: "ended unexpectedly" in command("status", "--all", env=env)[2], "the end of the one that was killed")
    status, listed, text = command("status", "--all", env=env)
    assert (status, text) == (0, f"left out: {second}: the server ended unexpectedly\n")
    assert command("stop", "-w", workspace, env=env)[0] == 0
    status, listed, text = command("status", "--all", env=env)
    assert (status, listed) == (3, "no codriver server of yours is running\n")
    assert str(workspace) not in text
