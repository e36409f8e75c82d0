"""REPLs restarted through a real server."""

import os
import signal
import sys
import threading

import posix_only
import pytest
from all_tools import BY_NAME
from cutting_proxy import cutting_proxy
from jsonschema import validate
from live_server import serving, until, until_connected
from real_repls import fresh, repl


def restart(client, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call("restart_repl", **arguments)
    validate(answer, BY_NAME["restart_repl"].output)
    return answer


def test_a_restart_clears_definitions_and_increments_the_generation(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        first = client.call("evaluate_code", code="import os; kept = 1; os.getpid()")
        answer = restart(client, who="tester", timeoutMs=60_000)
        assert (answer["ok"], answer["phase"], answer["sessionKey"]) == (True, "connected", "py")
        assert answer["generation"] == first["generation"] + 1
        assert any("gone" in note for note in answer["notes"])
        assert client.call("evaluate_code", code="kept")["error"]["class"] == "NameError"
        assert client.call("evaluate_code", code="import os; os.getpid()")["result"] != first["result"]
        answers = [row["text"] for row in client.call("repl_output_log", category=["otherOutput"])["result"]]
        assert any("tester called restart_repl" in text for text in answers)


def test_an_interrupt_with_restart_restarts_an_idle_or_running_session(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        client.call("evaluate_code", code="kept = 1")
        answer = client.call("interrupt_evaluation", replSessionKey="py", restart=True)
        validate(answer, BY_NAME["interrupt_evaluation"].output)
        assert (answer["ok"], answer["phase"]) == (True, "connected")
        assert any("definitions are gone" in note for note in answer["notes"])
        assert client.call("evaluate_code", code="kept")["error"]["class"] == "NameError"
        running = client.call("evaluate_code", code="import time; kept = 2; time.sleep(600)", timeoutMs=100)
        answer = client.call("interrupt_evaluation", evaluationId=running["evaluationId"], restart=True)
        assert (answer["ok"], answer["phase"]) == (True, "connected")
        assert client.call("evaluate_code", code="kept")["error"]["class"] == "NameError"


def test_a_test_run_has_no_repl_that_could_be_restarted(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        (live.workspace / "test_shop.py").write_text("def test_a(): pass\n")
        run = client.call("run_tests", timeoutMs=60_000)
        refused = client.call("interrupt_evaluation", evaluationId=run["evaluationId"], restart=True)
        assert (refused["ok"], refused["reason"]) == (False, "bad-arguments")
        assert "Omit restart" in refused["hint"]


def test_the_first_answer_after_a_restart_includes_the_generation(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client(name="dora") as dora:
        dora.call("evaluate_code", code="'before'")
        assert dora.call("restart_repl")["ok"]
        answer = dora.call("evaluate_code", code="7+7", detail=False, timeoutMs=60_000)
        assert (answer["result"], answer["generation"]) == ("14", 2)
        assert dora.call("evaluate_code", code="7+8", detail=False) == {"ok": True, "result": "15"}


def test_a_broken_environment_is_reported_once_per_caller_not_per_restart(tmp_path):
    python = tmp_path / "workspace" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/nowhere/python")
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        first = client.call("evaluate_code", code="1")
        (note,) = [note for note in first["notes"] if "is broken" in note]
        assert client.call("get_evaluation", evaluationId=first["evaluationId"])["notes"] == []
        restart(client, timeoutMs=60_000)
        assert note not in client.call("evaluate_code", code="2")["notes"]
        assert note in other.call("evaluate_code", code="3")["notes"]
        assert [note in live.run("eval", "4").stderr for _ in range(2)] == [True, False]


def restart_notes(answer):
    return [note for note in answer.get("notes", ()) if "since your last answer" in note]


def evaluated(client, code):
    """Return the notes about restarts in the answer to code, with enough time for the REPL to start."""
    return restart_notes(client.call("evaluate_code", code=code, replSessionKey="py", timeoutMs=60_000))


def test_a_caller_with_definitions_is_notified_once_if_another_caller_restarts_the_repl(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        assert evaluated(client, "kept = 1") == evaluated(other, "1") == []
        old = client.call("evaluate_code", code="kept", replSessionKey="py")
        # Two windows of the same agent application have the same client name.
        restart(other, replSessionKey="py", timeoutMs=60_000)
        note = "py was restarted since your last answer (bare called restart_repl), so its definitions are gone"
        assert evaluated(client, "kept") == [note]
        looked = client.call("get_evaluation", evaluationId=old["evaluationId"])
        assert (looked["generation"], restart_notes(looked)) == (1, [])
        assert evaluated(client, "2") == []
        assert evaluated(other, "3") == [], "it asked for it, and was told then"


def test_a_caller_without_definitions_is_not_notified_of_a_restart(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as newcomer:
        old = client.call("evaluate_code", code="kept = 1", replSessionKey="py")
        restarting = client.begin_call("restart_repl", replSessionKey="py", timeoutMs=60_000)
        assert evaluated(newcomer, "2") == [], "it may have been queued for the next process"
        client.answer(restarting)
        looked = newcomer.call("get_evaluation", evaluationId=old["evaluationId"])
        assert (looked["generation"], restart_notes(looked)) == (1, [])
        assert evaluated(newcomer, "3") == []


def test_a_caller_that_ends_a_repl_process_is_notified_only_of_the_exit(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        assert evaluated(client, "kept = 1") == []
        restart(other, replSessionKey="py", timeoutMs=60_000)
        reported = evaluated(client, "import os; os._exit(3)")
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 3, "the next process")
        (note,) = reported + evaluated(client, "4")
        assert "the process ended with status 3" in note


@pytest.mark.skipif(sys.platform == "win32", reason="there is no watchdog")
def test_a_process_exit_is_reported_as_the_reason_even_if_the_watchdog_notices_it_late(tmp_path):
    assert sys.platform != "win32"
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        watchdog = int(client.call("evaluate_code", code="import os; os.getpgrp()")["result"])
        os.kill(watchdog, signal.SIGSTOP)
        late = threading.Timer(2, os.kill, (watchdog, signal.SIGCONT))
        late.start()
        reported = evaluated(client, "os._exit(3)")
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the next process")
        (note,) = reported + evaluated(client, "4")
        late.join()
        assert "the process ended with status 3" in note


def test_each_caller_is_notified_once_even_if_its_session_changes_after_a_reconnect(tmp_path):
    with (
        fresh("hy") as server,
        cutting_proxy(f"nrepl://{server.endpoint}") as (proxy, _),
        serving(tmp_path, "--nrepl", f"hy={proxy.port}", "--repl", "none") as live,
        live.client() as first,
        live.client() as second,
    ):
        until_connected(first)
        lanes = [item.call("evaluate_code", code="1")["sessionKey"] for item in (first, second)]
        proxy.cut()
        until(lambda: first.call("list_sessions")["sessions"][0]["generation"] == 2, "the next connection")
        answers = [item.call("evaluate_code", code="2") for item in (second, first)]
        assert [answer["sessionKey"] for answer in answers] == lanes, "the names of lanes go by who comes first"
        assert [len(restart_notes(answer)) for answer in answers] == [1, 1]


def test_a_caller_with_definitions_is_notified_why_its_repl_ended(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        assert evaluated(other, "1") == []
        pid = int(client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="py")["result"])
        posix_only.kill(pid)
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the next process")
        for caller in (client, other):
            (note,) = evaluated(caller, "2")
            assert "SIGKILL" in note, note
            assert "its definitions are gone" in note


def test_a_reconnected_external_repl_may_be_reported_as_a_new_process(tmp_path):
    with (
        cutting_proxy(f"nrepl://{repl('python').endpoint}") as (proxy, _),
        serving(tmp_path, "--nrepl", f"py={proxy.port}", "--repl", "none") as live,
        live.client() as client,
    ):
        until_connected(client)
        assert evaluated(client, "kept = 1") == []
        proxy.cut()
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the next connection")
        (note,) = evaluated(client, "kept")
        assert "py was reconnected since your last answer (" in note
        assert "It is a new process, without the previous definitions" in note


def test_a_repl_whose_port_file_was_recreated_counts_as_a_new_repl(tmp_path):
    with cutting_proxy(f"nrepl://{repl('python').endpoint}") as (proxy, _):
        file = tmp_path / "workspace" / ".nrepl-port"
        file.parent.mkdir()
        file.write_text(str(proxy.port))
        with serving(tmp_path, "--repl", "none") as live, live.client(name="opencode") as client:
            until_connected(client)
            assert restart_notes(client.call("evaluate_code", code="kept = 1")) == []
            proxy.refuse()
            file.unlink()
            proxy.cut()
            until(lambda: not client.call("list_sessions")["sessions"], "the REPL to be forgotten")
            proxy.refuse(is_refusing=False)
            file.write_text(str(proxy.port))
            until_connected(client)
            answer = client.call("evaluate_code", code="kept", timeoutMs=60_000)
            (note,) = restart_notes(answer)
            assert "was reconnected since your last answer" in note


def test_a_running_evaluation_reports_that_its_repl_was_restarted(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert client.call("evaluate_code", code="1", timeoutMs=60_000)["ok"]
        began = client.call("evaluate_code", code="import time\nwhile True: time.sleep(0.01)", timeoutMs=300)
        assert began["status"] == "running"
        assert restart(client, timeoutMs=60_000)["phase"] == "connected"
        ended = client.call("get_evaluation", evaluationId=began["evaluationId"])
        assert ended["status"] in ("lost", "interrupted")
        assert any("restart" in note for note in ended["notes"])


@pytest.mark.parametrize("key", [None, "repl"])
def test_a_repl_that_failed_to_start_can_be_restarted(tmp_path, key):
    works = tmp_path / "workspace" / "works"
    script = tmp_path / "workspace" / "starter.py"
    script.parent.mkdir()
    worker = f"{sys.executable} -m codriver.repls.worker --dialect python"
    script.write_text(
        "import os, sys\n"
        f"if not os.path.exists({str(works)!r}): sys.exit('not today')\n"
        f"os.execvp({sys.executable!r}, {worker.split()!r})\n"
    )
    with serving(tmp_path, "--repl", f"{sys.executable} {script}") as live, live.client() as client:

        def stopped_key():
            (row,) = client.call("list_sessions")["sessions"]
            return row["key"] if row["phase"] == "stopped" else None

        found = until(stopped_key, "the REPL to be given up")
        assert "restart_repl" in client.tools()
        assert client.call("evaluate_code", code="1")["ok"] is False
        works.touch()
        answer = restart(client, timeoutMs=60_000, **({"replSessionKey": found} if key else {}))
        assert (answer["ok"], answer.get("phase")) == (True, "connected"), answer
        assert client.call("evaluate_code", code="1 + 1", replSessionKey=answer["sessionKey"])["result"] == "2"


def test_an_external_repl_cannot_be_restarted(tmp_path):
    address = repl("python").endpoint
    with serving(tmp_path, "--nrepl", f"theirs={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        assert "restart_repl" not in client.tools()
        answer = restart(client)
        assert (answer["reason"], answer["capability"]) == ("capability-missing", "restart")
        assert "--repl" in answer["hint"]
    with serving(tmp_path, "--nrepl", f"theirs={address}", "--repl", "python") as live, live.client() as client:
        until_connected(client, 2)
        assert restart(client)["reason"] == "ambiguous-session"
        assert restart(client, replSessionKey="nobody")["reason"] == "unknown-session"
        answer = restart(client, replSessionKey="theirs")
        assert (answer["reason"], answer["capability"]) == ("capability-missing", "restart")
