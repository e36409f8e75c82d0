"""A machine policy turns off the page, evaluation or edits, and nothing that a user sets overrides it."""

import json
import subprocess
import sys

import pytest
from live_server import WAIT_S, environ, serving

from codriver.app.workspace_settings import load_workspace_settings, settings_model
from codriver.settings import machine_policy
from codriver.settings.layers import SettingsReloader, setting_rows
from codriver.settings.machine_policy import POLICY_KEYS, read_policy

HAS_PAGE = "enable_page" in settings_model().model_fields
SETTINGS = (*(("enable_page",) if HAS_PAGE else ()), "enable_mcp_repl_evaluation", "enable_edits")

UNDER_POLICY = """
import sys
from pathlib import Path
from codriver.settings import machine_policy
policy = Path(sys.argv.pop(1))
machine_policy.policy_file = lambda: policy
from codriver.commands.cli import main
main()
"""
"""Codriver on a machine whose policy is a file that tests may write."""


@pytest.fixture
def policy(tmp_path, monkeypatch):
    """Set the machine's policy for this process."""
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    file = tmp_path / "etc" / "policy.toml"
    file.parent.mkdir()
    monkeypatch.setattr(machine_policy, "policy_file", lambda: file)
    return file


@pytest.mark.parametrize(
    ("text", "off"),
    [
        (None, ()),
        ("", ()),
        ("page = true\nevaluation = true\nedits = true\n", ()),
        ("page = false\n", ("page",)),
        ("evaluation = false\nedits = false\n", ("evaluation", "edits")),
    ],
)
def test_a_policy_turns_off_what_it_names(policy, text, off):
    if text is not None:
        policy.write_text(text)
    assert (read_policy(policy).off, read_policy(policy).error) == (off, None)


@pytest.mark.parametrize(
    "text", ["evaluation", "evaluations = false\n", "page = 0\n", "page = 'false'\n", "[page]\n", "\xff"]
)
def test_an_invalid_policy_turns_off_everything(policy, text):
    policy.write_bytes(text.encode("latin-1"))
    assert read_policy(policy).off == POLICY_KEYS
    assert read_policy(policy).error


def test_a_policy_that_is_a_directory_turns_off_everything(policy):
    policy.mkdir()
    assert read_policy(policy).off == POLICY_KEYS


def test_the_policy_file_is_in_a_system_directory():
    if sys.platform == "linux":
        assert str(machine_policy.policy_file()) == "/etc/codriver/policy.toml"
    assert machine_policy.policy_file().is_absolute()


def test_no_other_layer_overrides_the_policy(policy, tmp_path):
    policy.write_text("page = false\nevaluation = false\nedits = false\n")
    user = tmp_path / "config" / "codriver"
    user.mkdir(parents=True)
    (user / "codriver.toml").write_text("enablePage = true\nenableEdits = true\n")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    environment = {f"CODRIVER_{name.upper()}": "true" for name in SETTINGS}
    loaded = load_workspace_settings(workspace, environ=environment, overrides=dict.fromkeys(SETTINGS, True))
    assert [getattr(loaded.settings, name) for name in SETTINGS] == [False] * len(SETTINGS)
    assert [loaded.settings.policy_path(name) for name in SETTINGS] == [str(policy)] * len(SETTINGS)
    assert ("enableEdits", "false", f"machine ({policy})") in setting_rows(loaded)


def test_a_policy_takes_effect_at_once_in_a_running_server(policy, tmp_path):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    reloader = SettingsReloader(
        workspace, environ={}, overrides={}, loaded=load_workspace_settings(workspace, environ={})
    )
    assert reloader.settings.enable_edits
    policy.write_text("edits = false\n")
    news = reloader.check()
    assert (news.settings.enable_edits, news.settings.policy_path("enable_edits")) == (False, str(policy))
    policy.unlink()
    assert reloader.check().settings.enable_edits


def codriver(tmp_path, policy, *words):
    command = [sys.executable, "-c", UNDER_POLICY, str(policy), *words]
    given = {"env": environ(tmp_path), "cwd": tmp_path / "workspace", "capture_output": True, "text": True}
    return subprocess.run(command, check=False, timeout=WAIT_S, **given)


@pytest.mark.parametrize("is_there", [True, False], ids=["turned off", "not turned off"])
def test_tools_commands_the_page_and_the_doctor_obey_the_policy_and_name_its_file(tmp_path, is_there):
    policy = tmp_path / "policy.toml"
    if is_there:
        policy.write_text("page = false\nevaluation = false\nedits = false\n")
    with serving(tmp_path, "--repl", "none") as live:  # for its folders and its clients' environment
        live.run("stop")
    (live.workspace / "app.py").write_text("x = 1\n")
    given = {"env": live.environ, "stdout": subprocess.PIPE, "text": True, "cwd": live.workspace}
    serve = [sys.executable, "-c", UNDER_POLICY, str(policy), "serve", "--port", "0", "--repl", "python"]
    edit = {"edits": [{"filePath": "app.py", "oldText": "x = 1", "newText": "x = 2"}], "who": "tester"}
    with subprocess.Popen(serve, **given) as server:
        try:
            assert "listens" in server.stdout.readline()
            refusals = {
                tool: json.loads(live.run("call", tool, json.dumps(arguments)).stdout)
                for tool, arguments in (("evaluate_code", {"code": "1+2", "timeoutMs": 60_000}), ("edit_files", edit))
            }
            page = live.run("watch", "--web")
            doctor = codriver(tmp_path, policy, "doctor")
        finally:
            live.run("stop")
    output = [*(answer.get("message", "") for answer in refusals.values()), " ".join(doctor.stdout.split())]
    output += [page.stdout + page.stderr] if HAS_PAGE else []
    assert [str(policy) in words for words in output] == [is_there] * len(output), output
    assert [answer["ok"] for answer in refusals.values()] == [not is_there] * 2
    assert [answer.get("reason") for answer in refusals.values()] == ["switched-off" if is_there else None] * 2
    assert (live.workspace / "app.py").read_text() == ("x = 1\n" if is_there else "x = 2\n")


def test_doctor_reports_an_invalid_policy(tmp_path):
    (tmp_path / "workspace").mkdir()
    policy = tmp_path / "policy.toml"
    policy.write_text("evaluations = false\n")
    done = codriver(tmp_path, policy, "doctor", "--json")
    (check,) = [check for check in json.loads(done.stdout)["checks"] if check["area"] == "policy"]
    assert (check["state"], done.returncode) == ("wrong", 1)
    assert check["text"].startswith(f"{policy} is invalid, so it disables page, evaluation and edits on this machine: ")
    assert check["text"].endswith("but contains evaluations")
