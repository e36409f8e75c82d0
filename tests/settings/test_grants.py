"""Permission to run the project's own interpreter covers that interpreter in its own environment, and is never
saved.
"""

import pytest
from accepted import accept

from codriver.settings.interpreter_grants import InterpreterGrants


@pytest.fixture
def grants(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    python = workspace / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return InterpreterGrants(workspace, lambda: str(python)), workspace, str(python)


def test_permission_covers_only_the_interpreter_for_which_it_was_requested(grants, tmp_path):
    given, workspace, python = grants
    assert given.pending_interpreter() == python
    assert not given.allows(python)
    given.allow(python)
    assert given.allows(python)
    assert not given.allows(str(workspace / "other" / "bin" / "python"))
    assert not list(tmp_path.glob("state/**/*"))


def test_changed_settings_do_not_end_the_permission(grants):
    given, workspace, python = grants
    given.pending_interpreter()
    given.allow(python)
    (workspace / "codriver.toml").write_text('toolset = "full"\nhost = "0.0.0.0"\n')
    assert given.allows(python)


@pytest.mark.parametrize("is_given", [True, False], ids=["after the answer", "before the answer"])
def test_a_replaced_environment_ends_the_permission(grants, tmp_path, is_given):
    given, workspace, python = grants
    given.pending_interpreter()
    if is_given:
        given.allow(python)
    (workspace / ".venv").rename(tmp_path / "elsewhere")
    (workspace / ".venv").symlink_to(tmp_path / "elsewhere")
    given.allow(python)
    assert not given.allows(python)


def test_an_accepted_workspace_needs_no_permission_from_the_client(grants):
    given, workspace, _ = grants
    accept(workspace)
    assert given.pending_interpreter() is None
