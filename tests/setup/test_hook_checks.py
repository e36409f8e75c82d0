"""`codriver doctor` runs installed hooks with recorded inputs, and nothing else that a file names."""

import json
import sys
from pathlib import Path

import pytest
from live_server import serving

from codriver.net import client as command_client
from codriver.net.relay_install import install_relay, shipped_relay_directory
from codriver.setup.change_plan import apply_change
from codriver.setup.client_hooks import known_hooks, plan_hooks
from codriver.setup.clients import known_clients
from codriver.setup.doctor_checks import check_hooks
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch
from codriver_relay.hook import EVENT_NAMES_BY_CLIENT


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("doctor"), "--repl", "none") as running:
        install_relay(shipped_relay_directory(), running.folder / "codriver_relay.py")
        yield running


@pytest.fixture
def environment(live):
    return Environment(live.folder, "linux", {"PATH": "/usr/bin:/bin", "HOME": str(live.folder)})


@pytest.fixture
def launch(live):
    return Launch(Path(sys.executable), live.folder / "codriver_relay.py", live.workspace)


def connect_tools(live):
    def asking(tool, arguments):
        with command_client.connect(live.workspace, name="codriver-doctor") as connection:
            return connection.call(tool, arguments)

    return asking


def checks(live, launch, environment):
    return list(check_hooks(launch, environment, connect_tools(live)))


@pytest.mark.parametrize("name", list(known_hooks()))
def test_each_installed_hook_is_run_and_its_time_and_answer_are_reported(live, launch, environment, name):
    assert checks(live, launch, environment) == []
    changes = plan_hooks([known_clients()[name]], launch, environment)
    for change in changes:
        apply_change(change)
    try:
        (check,) = checks(live, launch, environment)
        assert (check.area, check.state) == ("hooks", "ok"), check
        for event in EVENT_NAMES_BY_CLIENT[name]:
            assert f"{event} " in check.text
        assert check.text.count(" ms {") == len(EVENT_NAMES_BY_CLIENT[name])
    finally:
        for change in changes:
            change.file.unlink()
    with live.client() as client:
        query = "[:find ?text :where [?e :output/who ?who] [?e :output/text ?text]]"
        texts = str(client.call("repl_output_log", query=query)["result"])
    assert " edited " not in texts


def test_a_modified_hook_command_is_not_run(live, launch, environment):
    mark = live.folder / "ran"
    command = f"touch '{mark}'; codriver-hook gemini edited"
    file = live.workspace / ".gemini" / "settings.json"
    file.parent.mkdir(exist_ok=True)
    group = {"hooks": [{"type": "command", "command": command}]}
    file.write_text(json.dumps({"hooks": {"AfterTool": [group], "SessionStart": [group]}}))
    try:
        (check,) = checks(live, launch, environment)
        assert (check.state, check.fix) == ("note", "codriver init --hooks --client gemini")
        assert not mark.exists()
    finally:
        file.unlink()


def test_a_hook_whose_program_is_missing_is_reported_as_an_error(live, launch, environment, tmp_path):
    lost = Launch(launch.python, tmp_path / "codriver_relay.py", launch.workspace)
    (change,) = plan_hooks([known_clients()["qwen"]], lost, environment)
    apply_change(change)
    try:
        (check,) = checks(live, lost, environment)
        assert check.state == "wrong"
        assert "exited with status 2" in check.text
    finally:
        change.file.unlink()
