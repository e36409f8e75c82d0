"""`codriver doctor`: its report on a healthy workspace, and on everything that can be wrong with one."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from accepted import accept
from application import running
from live_server import RELAY, serving, until
from other_user import NOBODY, needs_root

from codriver import __version__
from codriver.core.profiles import Capability, Profile
from codriver.core.state import Origin, Repl, State
from codriver.errors import StartError
from codriver.files.file_locks import try_lock
from codriver.net.relay_install import install_relay, shipped_relay_directory
from codriver.repls.contract.capabilities import CAPABILITIES
from codriver.repls.nrepl.probe import missing_capability_hint
from codriver.settings import acceptance_records
from codriver.setup.change_plan import apply_change, plan_entries
from codriver.setup.clients import known_clients
from codriver.setup.doctor import diagnose
from codriver.setup.doctor_checks import (
    SEPARATE_CHECKOUT_ADVICE,
    CapabilityRow,
    Check,
    Report,
    find_obstacle,
    non_loopback_listener,
)
from codriver.setup.environment import Environment
from codriver.setup.relay_launch import Launch
from codriver.tools.session_rows import session_row
from codriver_relay.hosts import host_identity

SESSION = {
    "key": "clj", "dialect": "clojure", "phase": "connected", "generation": 2, "address": "127.0.0.1:7888",
    "versions": {"clojure": "1.11.1", "nrepl": "1.0.0"}, "isolation": "session",
    "capabilities": {
        "evaluate": {"support": "native", "op": "eval"}, "lookup": {"support": "adapted", "op": "eval"},
    },
    "missing": {"clojuredocs": "start nREPL with cider-nrepl"},
    "notes": ["It cannot be interrupted while it compiles."],
}  # fmt: skip


RECORD = {
    "pid": os.getpid(), "port": 1664, "host": "127.0.0.1", "sessionId": "x", "startedAt": "2026-01-01T00:00:00+00:00",
    "version": __version__,
}  # fmt: skip


def nobody(tool, arguments):
    raise StartError("no server answers")


@pytest.fixture
def launch(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "app").mkdir()
    relay = tmp_path / "config" / "codriver" / "codriver_relay.py"
    install_relay(shipped_relay_directory(), relay)
    return Launch(Path(sys.executable), relay, tmp_path / "app")


@pytest.fixture
def machine(tmp_path):
    return Environment(tmp_path / "home", "linux", {"PATH": ""})


@pytest.fixture
def server(launch):
    """A healthy server: its files in the workspace, and its answers, which a test may change."""
    folder = launch.workspace / ".calva" / "mcp-server"
    folder.mkdir(parents=True)
    folder.chmod(0o700)
    (folder / "port").write_text("1664")
    (folder / "server.json").write_text(json.dumps(RECORD))
    health = {
        "ok": True, "pid": os.getpid(), "host": "127.0.0.1", "port": 1664, "version": __version__, "clients": [],
        "startedAt": "2026-01-01T00:00:00+00:00", "repls": [{**SESSION, "address": f"127.0.0.1:{unused_port()}"}],
        "errors": [],
    }  # fmt: skip
    return {"server_health": health, "list_sessions": {"ok": True, "sessions": [SESSION], "count": 1}}


@pytest.fixture
def examine(launch, machine, server):
    return lambda: diagnose(launch, lambda tool, _: server[tool], machine, lambda *_: None)


def unused_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def listening(host):
    with socket.create_server((host, 0)) as listener:
        yield listener.getsockname()[1]


def of(report, area):
    return [check for check in report.checks if check.area == area]


def test_no_problem_is_reported_for_a_healthy_workspace(examine, launch, machine):
    (change,) = plan_entries([known_clients()["zed"]], launch, machine)
    apply_change(change)
    report = examine()
    assert {check.state for check in report.checks} == {"ok"}
    assert report.exit_status == 0
    text = report.to_text()
    assert text.endswith("No problems found.\n")
    assert f"ok     server       pid {os.getpid()} listens on 127.0.0.1:1664" in text
    assert f"ok     clients      Zed: {change.file}" in text
    areas = ["versions", "settings", "server", "port file", "relay", "permissions", "state", "clients", "REPLs"]
    assert [check.area for check in report.checks] == areas


def test_each_repl_has_a_row_for_each_capability(examine):
    (repl,) = examine().repls
    assert repl.rows == (
        CapabilityRow("evaluate", "works", "by eval"),
        CapabilityRow("lookup", "adapted", "by eval"),
        CapabilityRow("clojuredocs", "missing", "start nREPL with cider-nrepl"),
    )
    text = examine().to_text()
    assert "clj: clojure, clojure 1.11.1, nrepl 1.0.0, 127.0.0.1:7888 (connected, generation 2)" in text
    assert "  clojuredocs   missing  start nREPL with cider-nrepl\n" in text
    assert "  note: It cannot be interrupted while it compiles.\n" in text


def test_capabilities_sent_by_the_server_are_listed_by_the_doctor(examine, server):
    profile = Profile(
        dialect="basilisp",
        versions={"basilisp": "0.5.1"},
        capabilities={"evaluate": Capability("eval"), "lookup": Capability("eval", adapted=True)},
        missing={"interrupt": "the server has no op `interrupt`"},
        notes=("It serves one client.",),
    )
    repl = Repl("port-file:x", "lpy", Origin("port-file", ".nrepl-port"), phase="connected", profile=profile)
    row = session_row(State(repls={repl.id: repl}), repl, repl.sessions["main"])
    server["list_sessions"] = {"ok": True, "sessions": [row], "count": 1}
    (report,) = examine().repls
    assert (report.key, report.title) == ("lpy", "basilisp, basilisp 0.5.1")
    assert report.state == "connected, generation 0"
    assert report.rows == (
        CapabilityRow("evaluate", "works", "by eval"),
        CapabilityRow("lookup", "adapted", "by eval"),
        CapabilityRow("interrupt", "missing", "the server has no op `interrupt`"),
    )
    assert report.notes == ("It serves one client.",)


def test_runs_are_listed_as_warm_or_plain_with_a_reason(examine, server):
    plain = {"start": "plain", "why": "every run starts a new process"}
    warm = {"start": "warm", "python": "/py", "modules": 300, "memoryMb": 48, "hashSeed": 5, "runs": 2}
    differing = {"start": "plain", "python": "/py", "directory": "/w/b", "why": "t differs", "differences": ["t"]}
    server["list_sessions"]["testRuns"] = [plain, warm, differing]
    assert [(check.state, check.text) for check in of(examine(), "test runs")] == [
        ("ok", "plain (every run starts a new process)"),
        ("ok", "/py: warm, 300 modules imported, 48 MB, hash seed 5, 2 runs"),
        ("note", "/py in /w/b: plain (t differs); tests that differ: t"),
    ]


def test_the_json_report_has_the_same_content(examine):
    report = examine()
    data = json.loads(json.dumps(report.to_json()))
    assert data["ok"] is True
    assert [check["area"] for check in data["checks"]] == [check.area for check in report.checks]
    assert data["repls"][0]["rows"][2] == {
        "capability": "clojuredocs", "support": "missing", "detail": "start nREPL with cider-nrepl",
    }  # fmt: skip


def test_a_missing_server_is_not_an_error_and_the_command_to_start_it_is_suggested(launch, machine):
    report = diagnose(launch, nobody, machine)
    assert report.exit_status == 0
    (check,) = of(report, "server")
    assert (check.state, check.fix) == ("note", "codriver serve")
    assert report.repls == ()


def test_a_port_file_of_a_dead_server_is_reported(launch, machine, server):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(timeout=60)
    (launch.workspace / ".calva" / "mcp-server" / "server.json").write_text(json.dumps({**RECORD, "pid": gone.pid}))
    (check,) = of(diagnose(launch, nobody, machine), "port file")
    assert "left by a server that has stopped" in check.text


def test_killing_a_process_is_never_suggested_if_only_a_stale_file_names_it(launch, machine, server):
    """The record may come from a checkout and name any running process, because nobody holds the lock."""
    (check,) = of(diagnose(launch, nobody, machine), "port file")
    assert "left by a server that has stopped" in check.text
    assert "kill" not in check.fix


@pytest.fixture
def locked(launch, server):
    """Run a process that holds the workspace's lock, as a hung server does."""
    with (launch.workspace / ".calva" / "mcp-server" / "lock").open("w") as lock:
        assert try_lock(lock.fileno())
        yield


def test_a_server_that_does_not_answer_is_reported_as_an_error(launch, machine, locked):
    report = diagnose(launch, nobody, machine)
    (check,) = of(report, "server")
    assert check.state == "wrong"
    assert check.fix.startswith("codriver stop")
    assert "no server answers" in check.text
    assert report.exit_status == 1
    assert report.to_text().endswith("checks failed.\n")


@pytest.mark.skipif(not host_identity(), reason="this system has no identity of a host")
def test_a_server_on_another_host_is_named(launch, machine, server, locked):
    record = {**RECORD, "hostName": "build-2", "hostId": "another-boot net:[1]"}
    (launch.workspace / ".calva" / "mcp-server" / "server.json").write_text(json.dumps(record))
    (check,) = of(diagnose(launch, nobody, machine), "server")
    assert (check.state, check.text) == ("wrong", "this project is in use by a server on build-2")
    assert check.fix == "use the project on one host only, or make a checkout for each host"


@pytest.mark.parametrize("error", [OSError("refused"), ValueError("no JSON"), TimeoutError()])
def test_an_invalid_answer_does_not_stop_the_doctor(launch, machine, server, error, locked):
    def broken(tool, arguments):
        raise error

    (check,) = of(diagnose(launch, broken, machine), "server")
    assert (str(error) or "TimeoutError") in check.text


def test_a_refusal_by_the_server_is_reported_with_its_reason(launch, machine, server, locked):
    refused = {"ok": False, "reason": "stopping", "hint": "wait until it is gone"}
    report = diagnose(launch, lambda tool, _: refused, machine)
    assert "wait until it is gone" in of(report, "server")[0].text


@pytest.mark.parametrize(
    ("change", "area", "words"),
    [
        ({"portNote": "port 1664 was taken"}, "server", "port 1664 was taken"),
        ({"version": "0.0.1"}, "server", "runs version 0.0.1"),
        ({"host": "0.0.0.0"}, "server", "listens on 0.0.0.0, which is not a loopback address"),
        ({"port": 1700}, "port file", "has 1664, but the server listens on 1700"),
        ({"errors": [{"message": "history lost", "count": 2, "firstAt": "x"}]}, "errors", "history lost (2 times"),
        ({"repls": []}, "REPLs", "no REPL is connected"),
        ({"repls": [{"key": "bb", "phase": "stopped", "note": "it ended"}]}, "REPLs", "bb: None, stopped: it ended"),
        ({"repls": [{"key": "bb", "phase": "starting"}]}, "REPLs", "it is not connected yet"),
        ({"repls": [{"phase": "connected", "address": "10.1.2.3:7"}]}, "REPLs", "10.1.2.3 is another machine"),
    ],
)  # fmt: skip
def test_problems_that_the_server_reports_are_listed(examine, server, change, area, words):
    server["server_health"].update(change)
    found = [check for check in of(examine(), area) if words in check.text]
    assert [check.state != "ok" for check in found] == [True]


@pytest.mark.parametrize(("others", "words"), [([], "clients: none"), ([{"name": ""}, {"name": "zed"}], "clients: 2")])
def test_the_doctor_does_not_count_itself_as_a_client(examine, server, others, words):
    server["server_health"]["clients"] = [{"name": "codriver-doctor"}, *others]
    assert words in of(examine(), "server")[0].text


def test_a_missing_or_old_relay_is_reported(examine, launch):
    launch.relay.write_text("old")
    assert of(examine(), "relay")[0].state == "note"
    launch.relay.unlink()
    (check,) = of(examine(), "relay")
    assert (check.state, "codriver init" in check.fix) == ("wrong", True)


def test_a_relay_that_was_never_installed_is_reported_only_as_a_note(tmp_path, machine):
    (tmp_path / "app").mkdir()
    launch = Launch(Path(sys.executable), tmp_path / "none.py", tmp_path / "app")
    (check,) = of(diagnose(launch, lambda *_: {}, machine, lambda *_: None), "relay")
    assert (check.state, "codriver init" in check.fix) == ("note", True)


def test_all_invalid_settings_are_reported_at_once(examine, launch):
    (launch.workspace / "codriver.toml").write_text('maxDepth = 0\nwatch = "x"\nport = 1\n')
    checks = of(examine(), "settings")
    assert [check.state for check in checks] == ["wrong", "wrong", "note"]
    assert "did you mean mcpSocketServerPort?" in checks[2].text


def test_a_relay_that_does_not_reach_the_server_is_reported_as_an_error(launch, machine, server):
    report = diagnose(
        launch, lambda tool, _: server[tool], machine, lambda *_: "the process ended with status 1: no such host"
    )
    (check,) = of(report, "relay")
    assert (check.state, report.exit_status) == ("wrong", 1)
    assert "no such host" in check.text
    assert check.fix.endswith("--verbose")


def test_the_relay_is_tested_as_a_client_starts_it(tmp_path):
    with serving(tmp_path, "--repl", "none") as live:
        launch = Launch(Path(sys.executable), Path(RELAY), live.workspace)
        assert find_obstacle(launch, live.port_file) is None
        assert "cannot be started" in find_obstacle(replace(launch, python=tmp_path / "none"), live.port_file)
        assert ("the relay exited with status") in find_obstacle(
            replace(launch, relay=tmp_path / "none.py"), live.port_file
        )
        report = json.loads(live.run("doctor", "--json").stdout)
        assert [check["state"] for check in report["checks"] if check["area"] == "relay"] == ["ok"]


def test_unreadable_skills_are_reported(examine, launch, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = launch.workspace / ".codriver" / "skills" / "ours" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: ours\ndescription: How we do it.\n---\n")
    (check,) = of(examine(), "skills")
    assert check.state == "note"
    assert check.text == "ours from workspace: found, but not available to agents until you allow this source"
    assert 'skillSources = ["workspace"]' in check.fix
    (launch.workspace / "codriver.toml").write_text('skillSources = ["workspace"]\n')
    assert "codriver trust" in of(examine(), "settings")[0].text
    accept(launch.workspace)
    assert of(examine(), "skills") == []
    (launch.workspace / "codriver.toml").write_text('skillSources = ["workspace", "toolbx"]\n')
    accept(launch.workspace)
    (check,) = of(examine(), "skills")
    assert (
        check.text
        == "skillSources names toolbx, which has no skills in this workspace. The sources are codriver, workspace"
    )
    file.write_text("---\nname: ours\ndescription: How: we do it.\n---\n")
    check = of(examine(), "skills")[-1]
    assert check.text.startswith(f"left out: {file.parent}: SKILL.md has front matter that is not YAML")
    assert "in line 3" in check.text


@pytest.mark.parametrize("dialect", ["clojure", "babashka", "clojurescript", "nbb", "basilisp", "hy", "python"])
def test_advice_for_a_missing_capability_fits_the_language(dialect):
    for capability in set(CAPABILITIES) - {"evaluate", "load-file"}:
        line = missing_capability_hint(capability, dialect)
        assert line, capability
        assert "\n" not in line
        assert ("cider-nrepl" in line) <= (dialect == "clojure")


def test_a_repl_of_another_project_that_the_server_reports_is_listed(examine, server):
    at_home = {**SESSION, "kind": "port-file", "origin": "/w/.nrepl-port", "projectRoot": "/elsewhere"}
    server["list_sessions"] = {
        "ok": True,
        "sessions": [at_home, {**at_home, "key": "bb", "elsewhere": True}],
        "count": 2,
    }
    (check,) = (check for check in of(examine(), "REPLs") if "another project" in check.text)
    assert (check.state, check.text) == ("note", "bb: /w/.nrepl-port leads to a REPL in another project, /elsewhere")
    assert check.fix.startswith("rm /w/.nrepl-port")


def test_a_starting_repl_is_reported_as_starting_without_capability_rows(examine, server):
    coming = {"key": "clj", "dialect": "clojure", "phase": "starting", "generation": 0}
    server["list_sessions"] = {"ok": True, "sessions": [coming], "count": 1}
    (repl,) = examine().repls
    assert (repl.rows, repl.notes) == ((), ("the REPL's capabilities are known once it is connected",))


def test_unknown_and_invalid_settings_are_reported(examine, launch):
    file = launch.workspace / "codriver.toml"
    file.write_text("maxDepth = 3\n")
    assert of(examine(), "settings")[0].text == f"from {file}"
    file.write_text("maxDpth = 3\n")
    (check,) = of(examine(), "settings")
    assert (check.state, "did you mean maxDepth" in check.text) == ("note", True)
    file.write_text("maxDepth = 0\n")
    (check,) = of(examine(), "settings")
    assert (check.state, check.fix) == ("wrong", f"correct it in {file}")


def test_the_setup_command_is_suggested_for_a_client_without_an_entry(examine, launch):
    (launch.workspace / ".vscode").mkdir()
    (check,) = of(examine(), "clients")
    assert (check.state, check.fix) == ("note", "codriver init --client vscode")
    assert check.text == "clients without an entry: VS Code"
    (launch.workspace / ".cursor").mkdir()
    (check,) = of(examine(), "clients")
    assert (check.text, check.fix) == ("clients without an entry: VS Code, Cursor", "codriver init --client NAME")


def test_a_client_with_a_different_entry_or_a_broken_file_is_reported_as_an_error(examine, launch):
    (launch.workspace / ".mcp.json").write_text('{"mcpServers": {"codriver": {"command": "x"}}}')
    (check,) = of(examine(), "clients")
    assert (check.state, "--client claude-code --force" in check.fix) == ("wrong", True)
    (launch.workspace / ".mcp.json").write_text("{")
    assert "line 1, column 2" in of(examine(), "clients")[0].text


def test_an_entry_with_another_python_works_unless_it_is_missing(examine, launch):
    other = launch.workspace / "python"
    other.write_text("")
    entry = {"command": str(other), "args": [str(launch.relay), "port", "--start"]}
    (launch.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"codriver": entry}}))
    (check,) = of(examine(), "clients")
    assert (check.state, "starts the relay differently" in check.text) == ("note", True)
    other.unlink()
    (check,) = of(examine(), "clients")
    assert (check.state, f"{other} does not exist" in check.text) == ("wrong", True)


def test_a_path_in_an_entry_that_cannot_be_checked_counts_as_missing(examine, launch):
    """A path that is too long fails like one in a private directory of another user."""
    refused = f"/{'x' * 300}/python"
    entry = {"command": refused, "args": [str(launch.relay), "port", "--start"]}
    (launch.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": {"codriver": entry}}))
    (check,) = of(examine(), "clients")
    assert (check.state, f"{refused} does not exist" in check.text) == ("wrong", True)


def test_an_entry_in_the_users_own_configuration_file_is_sufficient(examine, launch, machine):
    apply_change(plan_entries([known_clients()["gemini"]], launch, machine, scope="user")[0])
    (check,) = of(examine(), "clients")
    assert check.state == "ok"
    assert str(machine.home) in check.text


@pytest.mark.parametrize(("name", "mode"), [(".", 0o777), ("port", 0o622), ("server.json", 0o606)])
def test_files_writable_by_others_are_reported_as_an_error(examine, launch, name, mode):
    file = launch.workspace / ".calva" / "mcp-server" / name
    file.chmod(mode)
    (check,) = of(examine(), "permissions")
    assert check.state == "wrong"
    assert check.fix.startswith("chmod go-w")


def test_a_file_in_place_of_the_server_directory_is_reported_as_an_error(launch, machine):
    (launch.workspace / ".calva").write_text("")
    (check,) = of(diagnose(launch, nobody, machine), "permissions")
    assert (check.state, "a file is in the way" in check.text) == ("wrong", True)


@pytest.mark.parametrize("end", ["ends", "is killed"])
def test_a_stopped_development_server_is_reported_only_as_a_note(tmp_path, end):
    with serving(tmp_path, "--repl", "none") as live, running(live.workspace) as program:
        until(lambda: "shop" in live.run("status").stdout, "the application")
        program.process.kill() if end == "is killed" else program.end()
        program.process.wait(60)
        until(lambda: "): connected" not in live.run("status").stdout, "its end to be seen")
        done = live.run("doctor", "--json")
        found = [check for check in json.loads(done.stdout)["checks"] if check["area"] == "REPLs"]
    assert {check["state"] for check in found} == {"note"}, found


@pytest.mark.parametrize("kind", ["port-file", "address"])
@pytest.mark.parametrize("phase", ["stopped", "waiting"])
def test_a_disconnected_external_repl_is_reported_only_as_a_note(examine, server, kind, phase):
    gone = {"key": "app", "kind": kind, "phase": phase, "note": "it hung up", "address": f"127.0.0.1:{unused_port()}"}
    server["server_health"].update(repls=[gone])
    (check,) = of(examine(), "REPLs")
    assert (check.state, "it hung up" in check.text) == ("note", True)


def test_a_stopped_repl_of_codriver_is_reported_with_the_command_that_starts_it(examine, server):
    stopped = {"key": "bb", "kind": "process", "phase": "stopped", "note": "there is no bb in PATH"}
    server["server_health"].update(repls=[stopped])
    (check,) = of(examine(), "REPLs")
    assert "there is no bb in PATH" in check.text
    assert check.fix.endswith("""codriver call restart_repl '{"replSessionKey": "bb"}'""")


def test_files_writable_by_the_users_own_group_are_accepted(examine, launch):
    (launch.workspace / ".calva" / "mcp-server" / "port").chmod(0o660)
    assert of(examine(), "permissions")[0].state == "ok"


@pytest.mark.parametrize("mode", [0o755, 0o775, 0o711])
def test_a_directory_open_to_others_is_ignored_and_reported(examine, launch, mode):
    (launch.workspace / ".calva" / "mcp-server").chmod(mode)
    (check,) = of(examine(), "permissions")
    assert (check.state, "so its content is ignored" in check.text) == ("note", True)


@needs_root
def test_a_project_of_another_user_is_reported_with_advice_that_this_user_can_follow(examine, launch, monkeypatch):
    directory = launch.workspace / ".calva" / "mcp-server"
    os.chown(directory, NOBODY, NOBODY)
    (check,) = of(examine(), "permissions")
    assert (check.text, check.fix) == (f"{directory} belongs to another user", SEPARATE_CHECKOUT_ADVICE)
    os.chown(launch.workspace, NOBODY, NOBODY)
    real = os.access
    # Nothing is unwritable for root, so the system's answer is simulated.
    monkeypatch.setattr(os, "access", lambda path, mode: path != launch.workspace and real(path, mode))
    (check,) = of(examine(), "permissions")
    assert check.text == f"{launch.workspace} belongs to another user and cannot be written by this one"
    assert check.fix == SEPARATE_CHECKOUT_ADVICE
    os.chown(launch.workspace, os.geteuid(), os.getegid())
    (check,) = of(examine(), "permissions")
    assert check.text == f"{launch.workspace} cannot be written by this user"
    assert check.fix == f"chmod u+rwx {launch.workspace}"


def test_a_server_directory_that_is_a_link_is_reported_as_an_error(examine, launch):
    folder = launch.workspace / ".calva"
    folder.rename(launch.workspace / "elsewhere")
    folder.symlink_to("elsewhere")
    (check,) = of(examine(), "permissions")
    assert (check.state, f"{folder} is a link" in check.text) == ("wrong", True)


def test_a_token_readable_by_others_is_reported_as_an_error(examine, launch):
    token = launch.workspace / ".calva" / "mcp-server" / "token"
    token.write_text("x")
    token.chmod(0o644)
    assert of(examine(), "permissions")[0].fix == f"chmod 600 {token}"
    token.chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert of(examine(), "permissions")[0].state == "ok"


@pytest.mark.parametrize(("host", "is_wide"), [("127.0.0.1", False), ("127.0.0.2", False), ("0.0.0.0", True)])
def test_a_repl_listening_beyond_loopback_is_reported(examine, server, host, is_wide):
    with listening(host) as port:
        server["server_health"]["repls"] = [{**SESSION, "address": f"127.0.0.1:{port}"}]
        found = [check for check in of(examine(), "REPLs") if "from other machines" in check.text]
        assert bool(found) is is_wide
        assert all(check.state == "wrong" and "clj" in check.text for check in found)


def test_without_a_server_repls_of_port_files_are_checked(launch, machine):
    with listening("0.0.0.0") as port:
        (launch.workspace / ".nrepl-port").write_text(f"{port}\n")
        note, wide = of(diagnose(launch, nobody, machine), "REPLs")
    assert note.text == f".nrepl-port has port {port}"
    assert wide.state == "wrong"


@pytest.mark.parametrize("written", ["free", "99999999"])
def test_without_a_server_a_dead_port_file_is_reported_with_a_fix(launch, machine, written):
    with listening("127.0.0.1") as port:
        pass
    (launch.workspace / ".nrepl-port").write_text(f"{port if written == 'free' else written}\n")
    (note,) = of(diagnose(launch, nobody, machine), "REPLs")
    assert "where nothing is listening" in note.text
    assert note.fix == "start the REPL again, or rm .nrepl-port"


def test_a_port_out_of_range_in_a_port_file_is_not_wrapped_to_a_valid_port(launch, machine):
    with listening("127.0.0.1") as port:
        (launch.workspace / ".nrepl-port").write_text(f"{port + (1 << 16)}\n")
        (note,) = of(diagnose(launch, nobody, machine), "REPLs")
    assert "where nothing is listening" in note.text


def test_without_a_server_a_python_without_the_projects_packages_is_reported(launch, machine, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (launch.workspace / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    (note,) = of(diagnose(launch, nobody, machine), "REPLs")
    assert (note.state, note.text.partition(",")[0]) == ("note", "this project has no virtual environment (.venv")
    python = launch.workspace / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    (note,) = of(diagnose(launch, nobody, machine), "REPLs")
    assert f"not in the project's own environment, because you have not accepted {launch.workspace}" in note.text
    assert note.fix == acceptance_records.accept_command(launch.workspace)
    accept(launch.workspace)
    assert of(diagnose(launch, nobody, machine), "REPLs") == []


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
def test_a_listener_on_all_ipv6_addresses_is_reported():
    try:
        listener = socket.create_server(("::", 0), family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 address; give it one to run this")
    with listener:
        assert non_loopback_listener(listener.getsockname()[1]) == "::"
    assert non_loopback_listener(unused_port()) is None


def test_a_report_ends_with_the_number_of_failed_checks_or_of_notes():
    report = Report((Check("a", "wrong", "x", "do y"), Check("bb", "note", "z")))
    assert report.to_text() == "WRONG  a   x\n           → do y\nnote   bb  z\n\n1 of 2 checks failed.\n"
    noted = Report((Check("a", "ok", "x"), Check("b", "note", "z")))
    assert noted.to_text().endswith("\n\nNo errors; 1 of 2 checks has a note.\n")
