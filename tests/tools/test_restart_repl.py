"""REPLs restarted through a real server."""

import os
import signal
import sys

import pytest
from cutting_proxy import cutting_proxy
from jsonschema import validate
from live_server import serving, until
from real_repls import repl

from codriver.tools.manifest import BY_NAME


def ask(client, **arguments):
    """The answer, which fits its output schema."""
    answer = client.call("restart_repl", **arguments)
    validate(answer, BY_NAME["restart_repl"].output)
    return answer


def test_a_restart_forgets_and_raises_the_generation(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        first = client.call("evaluate_code", code="import os; kept = 1; os.getpid()")
        answer = ask(client, who="tester", timeoutMs=60_000)
        assert (answer["ok"], answer["phase"], answer["sessionKey"]) == (True, "connected", "py")
        assert answer["generation"] == first["generation"] + 1
        assert any("gone" in note for note in answer["notes"])
        assert client.call("evaluate_code", code="kept")["error"]["class"] == "NameError"
        assert client.call("evaluate_code", code="import os; os.getpid()")["result"] != first["result"]
        said = [row["text"] for row in client.call("repl_output_log", category=["otherOutput"])["result"]]
        assert any("tester asked for it" in text for text in said)


def test_a_missing_environment_is_told_once_and_not_at_each_restart(tmp_path):
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        first = client.call("evaluate_code", code="1")
        (note,) = [note for note in first["notes"] if "no environment of its own" in note]
        assert client.call("get_evaluation", evaluationId=first["evaluationId"])["notes"] == [note]
        ask(client, timeoutMs=60_000)
        assert note not in client.call("evaluate_code", code="2")["notes"]
        assert note in other.call("evaluate_code", code="3")["notes"]
        assert [note in live.run("eval", "4").stderr for _ in range(2)] == [True, False]


def restart_notes(answer):
    return [note for note in answer.get("notes", ()) if "since your last answer" in note]


def evaluated(client, code):
    """The notes on restarts in the answer, which does not wait for the REPL in vain."""
    return restart_notes(client.call("evaluate_code", code=code, replSessionKey="py", timeoutMs=60_000))


def test_who_defined_something_is_told_once_that_another_restarted_the_repl(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        assert evaluated(client, "kept = 1") == evaluated(other, "1") == []
        old = client.call("evaluate_code", code="kept", replSessionKey="py")
        ask(other, who="bob", replSessionKey="py", timeoutMs=60_000)
        note = "py was started anew since your last answer (bob asked for it): what was defined in it is gone"
        assert evaluated(client, "kept") == [note]
        looked = client.call("get_evaluation", evaluationId=old["evaluationId"])
        assert (looked["generation"], restart_notes(looked)) == (1, [])
        assert evaluated(client, "2") == []
        told = other.call("evaluate_code", code="3", who="bob", replSessionKey="py")
        assert restart_notes(told) == [], "it asked for it, and was told then"
        with live.client() as newcomer:
            assert evaluated(newcomer, "4") == []


def test_who_defined_something_is_told_why_its_repl_ended(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        assert evaluated(other, "1") == []
        pid = int(client.call("evaluate_code", code="import os; os.getpid()", replSessionKey="py")["result"])
        os.kill(pid, signal.SIGKILL)
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the next process")
        for caller in (client, other):
            (note,) = evaluated(caller, "2")
            assert "SIGKILL" in note, note
            assert "what was defined in it is gone" in note


def test_a_repl_of_others_that_is_connected_anew_may_be_another_process(tmp_path):
    with (
        cutting_proxy(f"nrepl://{repl('python').endpoint}") as (proxy, _),
        serving(tmp_path, "--nrepl", f"py={proxy.port}", "--repl", "none") as live,
        live.client() as client,
    ):
        until(lambda: client.call("list_sessions")["sessions"], "the REPL")
        assert evaluated(client, "kept = 1") == []
        proxy.cut()
        until(lambda: client.call("list_sessions")["sessions"][0]["generation"] == 2, "the next connection")
        (note,) = evaluated(client, "kept")
        assert "py was connected anew since your last answer (" in note
        assert "in a new process, what was defined is gone" in note


def test_what_ran_is_told_that_its_repl_was_restarted(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        began = client.call("evaluate_code", code="while True: pass", timeoutMs=1000)
        assert began["status"] == "running"
        assert ask(client, timeoutMs=60_000)["phase"] == "connected"
        ended = client.call("get_evaluation", evaluationId=began["evaluationId"])
        assert ended["status"] in ("lost", "interrupted")
        assert any("restart" in note for note in ended["notes"])


def test_tests_asked_for_during_a_restart_wait_for_it(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client, live.client() as other:
        (live.workspace / "test_small.py").write_text("def test_one(): assert 1 + 1 == 2\n")
        until(lambda: "run_tests" in client.tools(), "the REPL")
        restarting = other.begin_call("restart_repl", timeoutMs=60_000)
        answer = client.call("run_tests", timeoutMs=60_000)
        assert (answer["ok"], answer.get("passed")) == (True, 1), answer
        assert other.answer(restarting)["result"]["structuredContent"]["phase"] == "connected"


@pytest.mark.parametrize("key", [None, "repl"])
def test_a_repl_that_was_given_up_can_be_restarted(tmp_path, key):
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

        def given_up():
            (row,) = client.call("list_sessions")["sessions"]
            return row["key"] if row["phase"] == "stopped" else None

        found = until(given_up, "the REPL to be given up")
        assert "restart_repl" in client.tools()
        assert client.call("evaluate_code", code="1")["ok"] is False
        works.touch()
        answer = ask(client, timeoutMs=60_000, **({"replSessionKey": found} if key else {}))
        assert (answer["ok"], answer.get("phase")) == (True, "connected"), answer
        assert client.call("evaluate_code", code="1 + 1", replSessionKey=answer["sessionKey"])["result"] == "2"


def test_a_repl_of_somebody_else_is_left_alone(tmp_path):
    address = repl("python").endpoint
    with serving(tmp_path, "--nrepl", f"theirs={address}", "--repl", "none") as live, live.client() as client:
        until(lambda: "symbol_info" in client.tools(), "the REPL's tools")
        assert "restart_repl" not in client.tools()
        answer = ask(client)
        assert (answer["reason"], answer["capability"]) == ("capability-missing", "restart")
        assert "--repl" in answer["hint"]
    with serving(tmp_path, "--nrepl", f"theirs={address}", "--repl", "python") as live, live.client() as client:
        until(lambda: "restart_repl" in client.tools(), "the tools of our own REPL")
        until(lambda: client.call("list_sessions")["count"] == 2, "both REPLs")
        assert ask(client)["reason"] == "ambiguous-session"
        assert ask(client, replSessionKey="nobody")["reason"] == "unknown-session"
        answer = ask(client, replSessionKey="theirs")
        assert (answer["reason"], answer["capability"]) == ("capability-missing", "restart")
