"""Settings that change while a server runs."""

import pytest
from accepted import accept
from linked_tree import git

from codriver.app.workspace_settings import load_workspace_settings, settings_model
from codriver.settings.layers import RESTART_COMMAND, SettingsReloader
from codriver.settings.model import GROWING_LISTS, RESTART_SETTINGS, Settings


@pytest.fixture
def workspace(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "codriver").mkdir(parents=True)
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def reloader(workspace):
    def reloader(environ=None, overrides=None):
        loaded = load_workspace_settings(workspace, environ=environ or {}, overrides=overrides)
        return SettingsReloader(workspace, environ=environ or {}, overrides=overrides or {}, loaded=loaded)

    return reloader


def test_unchanged_files_are_not_reloaded(workspace, reloader):
    (workspace / "codriver.toml").write_text("maxDepth = 3\n")
    assert reloader().check() is None


def test_a_reloadable_setting_takes_effect_at_once_and_its_origin_is_reported(workspace, reloader):
    subject = reloader()
    (workspace / "codriver.toml").write_text("maxDepth = 3\n")
    update = subject.check()
    assert update.settings.max_depth == 3
    assert update.changes == (f"setting maxDepth = 3 from workspace ({workspace / 'codriver.toml'}) takes effect now",)
    assert update.warnings == ()
    assert subject.check() is None
    (workspace / "codriver.toml").unlink()
    update = subject.check()
    assert update.settings == settings_model()()
    assert update.changes == ("setting maxDepth = 7 from default takes effect now",)


def test_a_setting_that_needs_a_restart_is_reported_once(workspace, reloader):
    subject = reloader()
    (workspace / "codriver.toml").write_text("mcpSocketServerPort = 7\nmaxDepth = 3\n")
    update = subject.check()
    assert (update.settings.mcp_socket_server_port, update.settings.max_depth) == (1664, 3)
    assert any("mcpSocketServerPort = 7" in line and RESTART_COMMAND in line for line in update.changes)
    (workspace / "codriver.toml").write_text("mcpSocketServerPort = 7\nmaxDepth = 44\n")
    assert [line.split(" ")[1] for line in subject.check().changes] == ["maxDepth"]
    (workspace / "codriver.toml").write_text("mcpSocketServerPort = 1664\nmaxDepth = 44\n")
    assert subject.check().changes == ()


def test_added_repls_take_effect_at_once_and_removed_ones_at_a_restart(workspace, reloader):
    (workspace / "codriver.toml").write_text('repl = ["python"]\nnrepl = ["1234"]\n')
    subject = reloader()
    (workspace / "codriver.toml").write_text('repl = ["python", "lisp"]\nnrepl = []\n')
    update = subject.check()
    assert (update.settings.repl, update.settings.nrepl) == (("python", "lisp"), ("1234",))
    assert any(line.endswith(": lisp was added") for line in update.changes)
    left = "1234 remains in use until a restart: codriver stop && codriver serve"
    assert any(line.endswith(left) for line in update.changes)
    (workspace / "codriver.toml").write_text('repl = ["lisp"]\nnrepl = ["1234"]\n')
    update = subject.check()
    assert (update.settings.repl, update.settings.nrepl) == (("python", "lisp"), ("1234",))
    assert [line.partition(": ")[2] for line in update.changes] == [
        "python remains in use until a restart: codriver stop && codriver serve", "no entry was added or removed",
    ]  # fmt: skip


def test_an_invalid_file_changes_nothing_until_it_is_fixed(workspace, reloader):
    (workspace / "codriver.toml").write_text("maxDepth = 3\n")
    subject = reloader()
    (workspace / "codriver.toml").write_text("maxDepth = 'deep'\n")
    update = subject.check()
    assert update.settings.max_depth == 3
    assert "maxDepth" in update.warnings[0]
    assert "a whole number from 1 to 1000" in update.warnings[0]
    (workspace / "codriver.toml").write_text("maxDepth = 5\n")
    assert subject.check().settings.max_depth == 5


def test_an_unknown_setting_is_reported_once(workspace, reloader):
    subject = reloader()
    (workspace / "codriver.toml").write_text("maxDept = 3\n")
    assert "did you mean maxDepth" in subject.check().warnings[0]
    (workspace / "codriver.toml").write_text("maxDept = 3\nmaxLength = 3\n")
    assert subject.check().warnings == ()


def test_layers_with_higher_precedence_still_take_effect_after_a_reload(workspace, reloader):
    subject = reloader(environ={"CODRIVER_MAX_DEPTH": "9"}, overrides={"max_length": 8})
    (workspace / "codriver.toml").write_text("maxDepth = 3\nmaxLength = 3\n")
    update = subject.check()
    assert (update.settings.max_depth, update.settings.max_length, update.changes) == (9, 8, ())


def test_the_settings_that_need_a_restart_exist():
    assert set(Settings.model_fields) >= RESTART_SETTINGS >= GROWING_LISTS


def test_a_running_server_notices_when_the_workspace_or_its_main_checkout_is_accepted(workspace, reloader, tmp_path):
    git("init", str(workspace))
    git("-C", str(workspace), "commit", "--allow-empty", "-m", "first")
    linked = tmp_path / "linked"
    git("-C", str(workspace), "worktree", "add", str(linked))
    subject = SettingsReloader(
        linked, environ={}, overrides={}, loaded=load_workspace_settings(linked, environ={}, overrides=None)
    )
    assert subject.check() is None
    for folder in (workspace, linked):
        accept(folder)
        assert subject.check().accepted
        assert subject.check() is None
