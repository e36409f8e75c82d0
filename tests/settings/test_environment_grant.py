"""The environment grant ends when somebody else controls what is in the environment, and at nothing else."""

import contextlib
import os
import shutil
import sys

import forked
import pytest
from accepted import accept
from linked_tree import git
from live_server import RELAY, WAIT_S, Relayed, environ
from other_user import needs_root

from codriver.repls.launch.recipes import find_recipe
from codriver.settings import acceptance_records

OTHER_USER = 65534


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


def make_environment(workspace, name=".venv"):
    python = workspace / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o700)
    return python


@pytest.fixture
def workspace(tmp_path):
    """Create a project in a git repository, with an environment that git ignores."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    (folder / ".gitignore").write_text(".venv\n")
    make_environment(folder)
    git("init", str(folder))
    git("-C", str(folder), "add", ".")
    return folder


def track(workspace, tmp_path):
    git("-C", str(workspace), "add", "--force", ".venv")


def track_one_file(workspace, tmp_path):
    git("-C", str(workspace), "add", "--force", ".venv/bin/python")


def link_out(workspace, tmp_path):
    (workspace / ".venv").rename(tmp_path / "elsewhere")
    (workspace / ".venv").symlink_to(tmp_path / "elsewhere")


def link_to_tracked(workspace, tmp_path):
    (workspace / ".venv").rename(workspace / "tools")
    (workspace / ".venv").symlink_to("tools")
    git("-C", str(workspace), "add", "tools")


def give_away(workspace, tmp_path):
    os.chown(workspace / ".venv", OTHER_USER, OTHER_USER)


CHANGES = [
    pytest.param(track, "git now tracks .venv", id="tracked"),
    pytest.param(track_one_file, "git now tracks .venv", id="a file tracked"),
    pytest.param(link_out, ".venv is now a link out of the workspace", id="a link out"),
    pytest.param(link_to_tracked, "git now tracks .venv", id="a link to tracked files"),
    pytest.param(give_away, ".venv now belongs to another user", id="another user's", marks=needs_root),
]


def run(*words, cwd):
    env = {name: value for name, value in os.environ.items() if not name.startswith(("CODRIVER_", "VIRTUAL_ENV"))}
    return forked.run(words, env=env, cwd=cwd)


def chosen_python(workspace):
    """Return the interpreter that a server started by a client uses, and what it says about it."""
    made = find_recipe("python", workspace, {"PATH": ""}, acceptance_of=acceptance_records.environment_acceptance)
    return made.command[0], made.caution


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_the_acceptance_lapses_when_someone_else_provides_the_environment(workspace, tmp_path, change, reason):
    accept(workspace)
    assert chosen_python(workspace) == (str(workspace / ".venv/bin/python"), None)
    change(workspace, tmp_path)
    python, caution = chosen_python(workspace)
    assert python == sys.executable
    assert reason in caution
    assert f"ask your human to run: codriver trust (in {workspace})" in caution
    for command in (("config", "check"), ("doctor", "-q")):
        done = run(*command, cwd=workspace)
        assert done.returncode == 1 or command[0] == "doctor"
        assert reason in " ".join(done.stdout.split()), done.stdout
    assert reason in run("trust", "--list", cwd=workspace).stdout


@pytest.mark.parametrize(("change", "reason"), CHANGES)
def test_accepting_the_workspace_again_accepts_a_changed_environment(workspace, tmp_path, change, reason):
    change(workspace, tmp_path)
    accept(workspace)
    assert chosen_python(workspace) == (str(workspace / ".venv/bin/python"), None)


def rebuild(workspace):
    shutil.rmtree(workspace / ".venv")
    make_environment(workspace)


def link_within(workspace):
    (workspace / ".venv").rename(workspace / ".environment")
    (workspace / ".venv").symlink_to(".environment")


@pytest.mark.parametrize(
    "change",
    [
        rebuild,
        link_within,
        lambda workspace: (workspace / "codriver.toml").write_text('toolset = "full"\n'),
        lambda workspace: (workspace / "codriver.toml").write_text('host = "0.0.0.0"\n'),
        lambda workspace: (workspace / "pyproject.toml").write_text("[tool.codriver]\nwatch = true\n"),
        lambda workspace: (workspace / ".venv/bin/extra").write_text(""),
        lambda workspace: git("-C", str(workspace), "add", "."),
    ],
    ids=["rebuilt", "moved within", "harmless setting", "granting setting", "project setting", "package", "git add"],
)
def test_ordinary_changes_do_not_revoke_the_grant(workspace, change):
    accept(workspace)
    change(workspace)
    assert chosen_python(workspace) == (str(workspace / ".venv/bin/python"), None)


def test_an_environment_created_after_the_acceptance_is_covered(workspace):
    shutil.rmtree(workspace / ".venv")
    accept(workspace)
    make_environment(workspace)
    assert chosen_python(workspace) == (str(workspace / ".venv/bin/python"), None)


def test_an_environment_that_git_tracks_after_the_acceptance_is_not_covered(workspace, tmp_path):
    shutil.rmtree(workspace / ".venv")
    accept(workspace)
    make_environment(workspace)
    track(workspace, tmp_path)
    assert chosen_python(workspace)[0] == sys.executable


def test_an_environment_in_another_directory_is_not_covered(workspace):
    accept(workspace)
    shutil.rmtree(workspace / ".venv")
    other = make_environment(workspace, "venv")
    python, caution = chosen_python(workspace)
    assert python == sys.executable
    assert (
        f"{other} is in none of the accepted environments (.venv), and `codriver trust` accepts another one" in caution
    )
    assert "none of the accepted environments" in run("config", "check", cwd=workspace).stdout


def test_accepting_the_workspace_accepts_the_environment_named_by_the_python_setting(workspace):
    other = make_environment(workspace, "tools/env")
    (workspace / "codriver.toml").write_text('python = "tools/env/bin/python"\n')
    accept(workspace)
    made = find_recipe(
        "python",
        workspace,
        {"PATH": ""},
        acceptance_of=acceptance_records.environment_acceptance,
        python="tools/env/bin/python",
    )
    assert made.command[0] == str(other)
    assert [state.path for state in acceptance_records.read_record(workspace).environments] == ["tools/env"]


@contextlib.contextmanager
def relayed(workspace, env):
    """Return a client whose relay starts the server, as with a plain entry."""
    port_file = str(workspace / ".calva" / "mcp-server" / "port")
    try:
        with Relayed([sys.executable, "-I", "-S", RELAY, port_file, "--start"], env, folder=workspace) as client:
            yield client
    finally:
        forked.run(("stop",), env=env, cwd=workspace, timeout=WAIT_S)


def test_the_first_answer_says_why_the_acceptance_lapsed(workspace, tmp_path):
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    assert forked.run(("trust",), env=env, cwd=workspace).returncode == 0
    (workspace / "codriver.toml").write_text('toolset = "full"\n')
    with relayed(workspace, env) as client:
        answer = client.call("evaluate_code", code="1+2", timeoutMs=WAIT_S * 1000)
        assert answer["result"] == "3"
        assert "codriver trust" not in str(answer)
    track(workspace, tmp_path)
    with relayed(workspace, env) as client:
        answer = client.call("evaluate_code", code="1+2", timeoutMs=WAIT_S * 1000)
        assert answer["result"] == "3"
        (note,) = [note for note in answer["notes"] if "codriver trust" in note]
        assert "because the acceptance has lapsed (git now tracks .venv)" in note
