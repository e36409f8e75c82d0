"""A yes to the project's own interpreter holds for that one, with the settings as they were, and is written nowhere."""

import pytest

from codriver.settings import trust
from codriver.settings.trust import Grants

PYTHON = "/project/.venv/bin/python"


@pytest.fixture
def grants(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return Grants(workspace, lambda: PYTHON), workspace


def test_it_allows_the_interpreter_that_was_asked_for_and_no_other(grants, tmp_path):
    given, _ = grants
    assert given.wanted() == PYTHON
    assert not given.allows(PYTHON)
    given.give(PYTHON)
    assert given.allows(PYTHON)
    assert not given.allows("/project/other/bin/python")
    assert not list(tmp_path.glob("state/**/*"))


def test_settings_that_change_take_it_back_and_comments_do_not(grants):
    given, workspace = grants
    given.wanted()
    given.give(PYTHON)
    (workspace / "codriver.toml").write_text("# nothing\n")
    assert given.allows(PYTHON)
    (workspace / "codriver.toml").write_text('python = "evil"\n')
    assert not given.allows(PYTHON)


def test_it_holds_for_the_settings_as_they_were_when_the_human_was_asked(grants):
    given, workspace = grants
    given.wanted()
    (workspace / "codriver.toml").write_text('toolset = "lean"\n')
    given.give(PYTHON)
    assert not given.allows(PYTHON)


def test_nothing_is_asked_where_the_workspace_is_accepted(grants):
    given, workspace = grants
    trust.accept(workspace, trust.read_tables(workspace))
    assert given.wanted() is None
