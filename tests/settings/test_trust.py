"""What a workspace's settings may grant: nothing, until the user has accepted exactly these settings."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import forked
import posix_only
import pytest
from accepted import accept
from live_server import serving

from codriver.app.features import repl_kinds
from codriver.app.workspace_settings import load_workspace_settings
from codriver.files import toml_file
from codriver.files.codriver_paths import workspace_state_directory
from codriver.repls.kinds import kinds_by_word
from codriver.repls.launch.recipes import RecipeError, find_recipe
from codriver.settings import acceptance_records
from codriver.settings.layers import SettingsError, SettingsReloader, withheld_message
from codriver.settings.model import Settings, name_in_files

GRANTING = [
    ("repl", ["sh -c 'touch /tmp/x'"]),
    ("repl", ["/ws/.venv/bin/python"]),
    ("repl", ["./python"]),
    ("nrepl", ["192.0.2.1:7888"]),
    ("nrepl", ["clj=example.org:7888"]),
    ("nrepl", ["[2001:db8::1]:7888"]),
    ("host", "0.0.0.0"),
    ("host", "192.0.2.1"),
    ("auto_start_mcp_server", True),
    ("require_token", False),
    ("allow_edits_outside_workspace", True),
    ("allow_edits_of_client_files", True),
    ("allow_sensitive_reads", True),
    ("enable_mcp_repl_evaluation", True),
    ("watch", True),
    ("skill_sources", ["workspace"]),
    ("port_files", ["../elsewhere/.nrepl-port"]),
    ("port_files", ["/home/other/.nrepl-port"]),
]
HARMLESS = [
    *(("repl", [word]) for word in kinds_by_word(repl_kinds())),
    ("repl", ["none"]),
    ("nrepl", ["7888"]),
    ("nrepl", ["clj=localhost:7888"]),
    ("nrepl", ["[::1]:7888", "127.0.0.2:7889"]),
    ("enable_mcp_repl_evaluation", False),
    ("require_token", True),
    ("port_files", ["sub/.nrepl-port"]),
    ("max_depth", 9),
    ("mcp_socket_server_port", 0),
]


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def write_setting(workspace, name, value, file="codriver.toml"):
    """Write one setting into the workspace's file."""
    text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
    if isinstance(value, list):
        text = "[" + ", ".join('"' + item.replace('"', '\\"') + '"' for item in value) + "]"
    head = "[tool.codriver]\n" if file == "pyproject.toml" else ""
    (workspace / file).write_text(f"{head}{name_in_files(name)} = {text}\n")


def run(*words, cwd, **more):
    """Run a complete command line without the environment variables of these tests."""
    if not more:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("CODRIVER_TESTS")}
        return forked.run(words, env=environ, cwd=cwd)
    command = [sys.executable, "-m", "codriver", *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=60, check=False, **more)


@pytest.mark.parametrize("file", ["codriver.toml", "pyproject.toml"])
@pytest.mark.parametrize(("name", "value"), GRANTING)
def test_a_setting_that_grants_access_takes_effect_only_once_accepted(workspace, name, value, file):
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "codriver" / "codriver.toml"
    user.parent.mkdir(parents=True)
    user.write_text("enableMcpReplEvaluation = false\nrequireToken = true\n")
    before = getattr(load_workspace_settings(workspace, environ={}).settings, name)
    write_setting(workspace, name, value, file)
    loaded = load_workspace_settings(workspace, environ={})
    assert getattr(loaded.settings, name) == before
    assert len(loaded.withheld) == 1
    assert (loaded.withheld[0].source, loaded.withheld[0].setting) == (str(workspace / file), name_in_files(name))
    accept(workspace)
    loaded = load_workspace_settings(workspace, environ={})
    expected = tuple(value) if isinstance(value, list) else value
    assert (getattr(loaded.settings, name), loaded.withheld) == (expected, ())


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_a_harmless_workspace_setting_takes_effect_at_once(workspace, name, value):
    write_setting(workspace, name, value)
    loaded = load_workspace_settings(workspace, environ={})
    expected = tuple(value) if isinstance(value, list) else value
    assert (getattr(loaded.settings, name), loaded.withheld) == (expected, ())


@pytest.mark.parametrize(("name", "value"), GRANTING)
def test_the_users_own_settings_take_effect_at_once(workspace, name, value):
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "codriver"
    user.mkdir(parents=True)
    write_setting(user, name, value)
    loaded = load_workspace_settings(workspace, environ={})
    expected = tuple(value) if isinstance(value, list) else value
    assert (getattr(loaded.settings, name), loaded.withheld) == (expected, ())
    (user / "codriver.toml").unlink()
    assert getattr(load_workspace_settings(workspace, environ={}, overrides={name: value}).settings, name) == expected


def test_only_list_items_that_grant_access_are_withheld(workspace):
    write_setting(workspace, "repl", ["python", "sh -c x", "bb"])
    loaded = load_workspace_settings(workspace, environ={})
    assert loaded.settings.repl == ("python", "bb")
    assert loaded.withheld[0].value == ("sh -c x",)


def test_a_value_already_granted_by_the_user_needs_no_acceptance(workspace):
    write_setting(workspace, "watch", value=True)
    environ = {"CODRIVER_WATCH": "true"}
    user = Path(os.environ["XDG_CONFIG_HOME"]) / "codriver"
    user.mkdir(parents=True)
    write_setting(user, "watch", value=True)
    assert load_workspace_settings(workspace, environ=environ).withheld == ()


def test_every_repl_name_allowed_in_a_workspace_has_a_start_command():
    output = [_answer_to(word) for word in kinds_by_word(repl_kinds())]
    assert "no command" in _answer_to("no-such-word")
    assert not [text for text in output if "no command" in text]


def _answer_to(word):
    """Return the command of the recipe for a name if nothing is installed, or why there is none."""
    try:
        return find_recipe(word, Path("/nowhere"), {"PATH": "/nowhere"}, added_kinds=repl_kinds()).command[0]
    except RecipeError as error:
        return str(error)


@pytest.mark.parametrize("file", ["codriver.toml", "pyproject.toml"])
def test_a_changed_value_needs_acceptance_and_the_message_shows_the_accepted_value(workspace, file):
    write_setting(workspace, "host", "192.0.2.1", file)
    accept(workspace)
    assert load_workspace_settings(workspace, environ={}).settings.host == "192.0.2.1"
    write_setting(workspace, "host", "0.0.0.0", file)
    loaded = load_workspace_settings(workspace, environ={})
    assert loaded.settings.host == Settings().host
    (retained,) = loaded.withheld
    message = withheld_message(retained)
    assert 'host = "0.0.0.0" is ignored, because it was changed. The accepted value is "192.0.2.1"' in message
    write_setting(workspace, "host", "192.0.2.1", file)
    assert load_workspace_settings(workspace, environ={}).withheld == ()


def test_an_added_value_needs_acceptance_while_accepted_ones_stay_in_effect(workspace):
    write_setting(workspace, "repl", ["sh -c x"])
    accept(workspace)
    (workspace / "codriver.toml").write_text('repl = ["sh -c x", "sh -c y"]\nwatch = true\n')
    loaded = load_workspace_settings(workspace, environ={})
    assert (loaded.settings.repl, loaded.settings.watch) == (("sh -c x",), False)
    changed, added = map(withheld_message, loaded.withheld)
    assert 'repl = ["sh -c y"] is ignored, because it was changed. The accepted value is ["sh -c x"]' in changed
    assert "watch = true is ignored, because it was added after you accepted" in added


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_harmless_settings_never_affect_an_acceptance(workspace, name, value):
    write_setting(workspace, "watch", value=True, file="pyproject.toml")
    accept(workspace)
    write_setting(workspace, name, value)
    loaded = load_workspace_settings(workspace, environ={})
    expected = tuple(value) if isinstance(value, list) else value
    assert (loaded.settings.watch, getattr(loaded.settings, name), loaded.withheld) == (True, expected, ())
    assert acceptance_records.environment_acceptance(workspace).is_given


def test_only_values_that_grant_access_are_stored_in_the_acceptance(workspace):
    (workspace / "codriver.toml").write_text('toolset = "full"\nrepl = ["python", "sh -c x"]\nwatch = true\n')
    accept(workspace)
    assert dict(acceptance_records.read_record(workspace).settings) == {"repl": ("sh -c x",), "watch": (True,)}


def test_an_unreadable_settings_file_suspends_the_acceptance_of_settings_and_environment(workspace):
    write_setting(workspace, "watch", value=True)
    accept(workspace)
    (workspace / "codriver.toml").rename(workspace.parent / "moved.toml")
    (workspace / "codriver.toml").symlink_to(workspace.parent / "moved.toml")
    with pytest.raises(SettingsError, match=r"codriver\.toml"):
        load_workspace_settings(workspace, environ={})
    acceptance = acceptance_records.environment_acceptance(workspace)
    assert not acceptance.is_given
    assert str(workspace / "codriver.toml") in acceptance.lapsed


def test_a_workspace_stays_accepted_until_it_is_forgotten(workspace):
    assert not acceptance_records.is_accepted(workspace)
    accept(workspace)
    assert acceptance_records.is_accepted(workspace)
    assert acceptance_records.revoke_acceptance(workspace)
    assert not acceptance_records.revoke_acceptance(workspace)
    assert not acceptance_records.is_accepted(workspace)


def test_an_acceptance_covers_one_workspace(workspace, tmp_path):
    write_setting(workspace, "watch", value=True)
    accept(workspace)
    other = tmp_path / "other"
    other.mkdir()
    write_setting(other, "watch", value=True)
    assert not acceptance_records.is_accepted(other)
    folder = next((tmp_path / "state" / "codriver" / "workspaces").iterdir())
    folder.rename(workspace_state_directory(other))
    assert not acceptance_records.is_accepted(other)
    assert not load_workspace_settings(other, environ={}).settings.watch


def test_the_acceptance_record_is_private_and_outside_the_workspace(workspace, tmp_path):
    accept(workspace)
    record = next((tmp_path / "state").rglob(acceptance_records.ACCEPTANCE_FILE))
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize("shape", ["writable", "pipe", "no-json", "other-json", "link"])
def test_an_unreadable_acceptance_record_suspends_both_acceptances_and_is_reported(workspace, tmp_path, shape):
    write_setting(workspace, "watch", value=True)
    accept(workspace)
    record = next((tmp_path / "state").rglob(acceptance_records.ACCEPTANCE_FILE))
    if shape == "writable":
        record.chmod(0o666)
    elif shape == "no-json":
        record.write_text("[" * 10_000)
    elif shape == "other-json":
        record.write_text(json.dumps({"workspace": str(workspace), "environments": [{}], "settings": {"watch": True}}))
    else:
        record.unlink()
        posix_only.make_pipe(record) if shape == "pipe" else record.symlink_to("/dev/zero")
    acceptance = acceptance_records.environment_acceptance(workspace)
    assert (acceptance.is_given, str(record) in acceptance.lapsed) == (False, True)
    loaded = load_workspace_settings(workspace, environ={})
    assert not loaded.settings.watch
    assert str(record) in withheld_message(loaded.withheld[0])
    checked = run("config", "check", cwd=workspace)
    assert checked.returncode == 1
    assert str(record) in checked.stdout


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 50_000) + " = 1",
        f"[{'.'.join('a' * 50_000)}]",
        f"[[{'. '.join('a' * 30_000)}]]",
        f"a = {{{'.'.join(['b'] * 50_000)} = 1}}",
        f'a = ["""b"""", {{{".".join(["b"] * 50_000)} = 1}}]',
        '# "\n' + ".".join(['"a"'] * 20_000) + " = 1",
        "x = [" + "[" * 100_000,
        'x = "' + '\\"' * 200_000,
        "x = '''" + "''x" * 100_000,
        "x = 1" + "0" * 100_000,
        "x" * (toml_file.MAX_FILE_BYTES + 1),
    ],
    ids=["key", "table", "array", "inline", "quotes", "comment", "nesting", "escapes", "literal", "number", "size"],
)
def test_a_file_designed_to_slow_the_parser_down_is_refused_quickly(workspace, text):
    (workspace / "codriver.toml").write_text(text)
    before = os.times().user
    with pytest.raises(SettingsError, match="cannot be read"):
        load_workspace_settings(workspace, environ={})
    assert os.times().user - before < 5  # of the processor, whatever else the machine does


def test_dots_in_strings_comments_and_numbers_are_not_counted_as_nested_keys():
    dots = "." * 500
    numbers = ", ".join(["1.5"] * 500)
    text = f'# {dots}\na = "{dots}"\nb = \'{dots}\'\nc = """{dots}"""\nd = [{numbers}]\ne.f.g = 1\n'
    assert set(toml_file.parse_toml(text)) == {"a", "b", "c", "d", "e"}


@pytest.mark.parametrize("name", ["codriver.toml", "pyproject.toml"])
@pytest.mark.parametrize("shape", ["pipe", "zero", "ptmx", "outside", "folder"])
def test_a_settings_file_that_is_not_a_regular_file_in_the_workspace_is_refused(workspace, tmp_path, name, shape):
    file = workspace / name
    (tmp_path / "outside.toml").write_text("watch = true\n")
    match shape:
        case "pipe":
            posix_only.make_pipe(file)
        case "folder":
            file.mkdir()
        case _:
            file.symlink_to({"zero": "/dev/zero", "ptmx": "/dev/ptmx", "outside": tmp_path / "outside.toml"}[shape])
    with pytest.raises(SettingsError) as caught:
        load_workspace_settings(workspace, environ={})
    assert str(file) in str(caught.value)


def test_a_settings_link_within_the_workspace_is_followed(workspace):
    (workspace / "etc").mkdir()
    (workspace / "etc" / "real.toml").write_text("maxDepth = 9\n")
    (workspace / "codriver.toml").symlink_to("etc/real.toml")
    assert load_workspace_settings(workspace, environ={}).settings.max_depth == 9


def test_a_link_in_the_users_own_settings_is_followed(workspace, tmp_path):
    (tmp_path / "dotfiles.toml").write_text("maxDepth = 9\n")
    (tmp_path / "config" / "codriver").mkdir(parents=True)
    (tmp_path / "config" / "codriver" / "codriver.toml").symlink_to(tmp_path / "dotfiles.toml")
    assert load_workspace_settings(workspace, environ={}).settings.max_depth == 9


def test_a_running_server_applies_acceptance_at_every_reload(workspace):
    reloader = SettingsReloader(
        workspace, environ={}, overrides={}, loaded=load_workspace_settings(workspace, environ={})
    )
    write_setting(workspace, "watch", value=True)
    news = reloader.check()
    assert not news.settings.watch
    assert "is ignored" in news.warnings[0]
    assert "codriver trust" in news.warnings[0]
    assert len(reloader.withheld) == 1
    accept(workspace)
    news = reloader.check()
    assert news.settings.watch
    assert reloader.withheld == ()
    acceptance_records.revoke_acceptance(workspace)
    assert reloader.check().settings.watch is Settings().watch


def test_the_trust_command_can_accept_list_and_remove_workspaces(workspace):
    write_setting(workspace, "repl", ["sh -c x"])
    checked = run("config", "check", cwd=workspace)
    assert checked.returncode == 1
    assert "sh -c x" in checked.stdout
    whole = f"`codriver trust --workspace {workspace}`"
    assert whole in checked.stdout
    assert whole in run("config", "show", cwd=workspace).stderr
    done = run("trust", cwd=workspace)
    assert done.returncode == 0, done.stderr
    assert "sh -c x" in done.stdout
    assert run("config", "check", cwd=workspace).returncode == 0
    assert run("trust", "--list", cwd=workspace).stdout == f"{workspace}\n"
    write_setting(workspace, "repl", ["sh -c y"])
    assert 'The accepted value is ["sh -c x"]' in run("config", "check", cwd=workspace).stdout
    assert 'The accepted value is ["sh -c x"]' in " ".join(run("doctor", "-q", cwd=workspace).stdout.split())
    assert run("trust", "--list", cwd=workspace).stdout == f"{workspace}\n"
    assert "no longer accepted" in run("trust", "--remove", cwd=workspace).stdout
    assert run("trust", "--list", cwd=workspace).returncode == 0


def test_config_show_and_doctor_name_ignored_values_and_the_command_that_accepts_them(workspace):
    write_setting(workspace, "host", "0.0.0.0")
    for command in (["config", "show"], ["doctor"]):
        done = run(*command, cwd=workspace)
        output = done.stdout + done.stderr
        assert 'host = "0.0.0.0" is ignored' in output
        assert "codriver trust" in output


def test_init_accepts_the_workspace_it_sets_up(workspace):
    (workspace / "deps.edn").write_text("{}")
    assert run("init", "--client", "claude-code", cwd=workspace).returncode == 0
    assert acceptance_records.is_accepted(workspace)


def test_init_accepts_the_repl_it_writes_itself(workspace):
    (workspace / "package.json").write_text('{"dependencies": {"nbb": "1"}}')
    (workspace / "node_modules" / ".bin").mkdir(parents=True)
    (workspace / "node_modules" / ".bin" / "nbb").write_text("")
    run("init", "--client", "claude-code", cwd=workspace)
    assert load_workspace_settings(workspace, environ={}).settings.repl == ("nbb",)


def test_init_does_not_accept_granting_settings_that_were_already_there(workspace):
    write_setting(workspace, "repl", ["sh -c x"])
    done = run("init", "--client", "claude-code", cwd=workspace)
    assert not acceptance_records.is_accepted(workspace)
    assert "sh -c x" in done.stderr
    assert "codriver trust" in done.stderr


def test_init_accepts_nothing_in_a_dry_run_or_a_removal(workspace):
    for option in ("--dry-run", "--remove"):
        run("init", "--client", "claude-code", option, cwd=workspace)
        assert not acceptance_records.is_accepted(workspace)


def test_no_command_runs_a_program_that_an_unaccepted_checkout_names(workspace, tmp_path):
    trace = tmp_path / "trace"
    (workspace / "codriver.toml").write_text(f"autoStartMCPServer = true\nrepl = [\"sh -c 'touch {trace}'\"]\n")
    done = run("tools", cwd=workspace)
    assert done.returncode == 3, done.stderr
    assert not trace.exists()


def test_only_a_clients_first_answer_names_the_ignored_settings(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "codriver.toml").write_text('host = "0.0.0.0"\n')
    with serving(tmp_path, "--repl", "none") as live:
        assert "is ignored" in live.greeting
        output = live.process.stdout.readline()
        assert "127.0.0.1" in output
        for _ in range(2):
            with live.client() as client:
                first, second = (client.call("list_sessions") for _ in range(2))
                assert any("codriver trust" in note and "0.0.0.0" in note for note in first["notes"])
                assert not any("codriver trust" in note for note in second.get("notes", ()))
