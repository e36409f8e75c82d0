"""Every example of the skills, run as an agent would run it: on a real server, in the embedded Python and Lisp."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import skill_examples
from all_tools import BY_NAME
from live_server import WAIT_S, until_connected

LISP = "lpy"
"""The session of the examples that name none: they are Clojure, and this is the Clojure that needs no JVM."""
GUIDE = "skill://live-app/SKILL.md"
SESSIONS = {"live-app": "py"}
"""Of the skills whose examples are in another language."""


pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as bare:
        until_connected(bare, 2)
    return live


def with_session(call, arguments, session):
    takes_one = "repl_session_key" in BY_NAME[call.tool].arguments.model_fields  # which not every list says
    return {"replSessionKey": session, **arguments} if takes_one and "evaluationId" not in arguments else arguments


def run_call(client, call, answers, session=LISP):
    where = f"SKILL.md line {call.line}: {call.tool}"
    assert call.tool in BY_NAME, f"{where}: there is no such tool"
    answer = client.call(call.tool, **with_session(call, call.filled(answers), session))
    assert answer["ok"] is call.answer.get("ok", "reason" not in call.answer), f"{where}: {answer}"
    assert {key: answer.get(key) for key in call.answer} == call.answer, where
    return answer


def run_command(live, example):
    path = os.pathsep.join([str(Path(sys.executable).parent), live.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euc", example.command], cwd=live.workspace, env={**live.environ, "PATH": path, "KEY": LISP},
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"SKILL.md line {example.line}: {done.stdout}{done.stderr}"
    assert example.printed in done.stdout, f"SKILL.md line {example.line}"


@pytest.mark.parametrize("skill", skill_examples.skill_names())
def test_every_example_of_a_skill_works_as_written(live, skill):
    answers = []
    with live.client(name="example-runner") as client:
        for example in skill_examples.examples(skill):
            if isinstance(example, skill_examples.File):
                file = live.workspace / example.path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(example.text)
            elif isinstance(example, skill_examples.DisplayedFile):
                assert (live.workspace / example.path).read_text() == example.text, f"SKILL.md line {example.line}"
            elif isinstance(example, skill_examples.Command):
                run_command(live, example)
            else:
                answers.append(run_call(client, example, answers, SESSIONS.get(skill, LISP)))


def test_an_example_with_an_unknown_tool_fails(live):
    call = skill_examples.ToolCall(1, "no_such_tool", {})
    with live.client() as client, pytest.raises(AssertionError, match="there is no such tool"):
        run_call(client, call, [])


def test_an_example_with_a_different_answer_fails(live):
    call = skill_examples.ToolCall(1, "evaluate_code", {"code": "(+ 1 2)"}, {"result": "4"})
    with live.client() as client, pytest.raises(AssertionError, match="line 1: evaluate_code"):
        run_call(client, call, [])


def test_a_command_with_different_output_fails(live):
    with pytest.raises(AssertionError, match="line 7"):
        run_command(live, skill_examples.Command(7, 'codriver eval -s "$KEY" "(+ 1 2)"', "4"))


@pytest.mark.parametrize(
    "path",
    [
        "../../../etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/secret.txt", "/etc/passwd",
        "%2Fetc%2Fpasswd", "..%5c..%5csecret.txt", "SKILL.md%00.txt", "%252e%252e/secret.txt",
    ],
)  # fmt: skip
def test_files_outside_a_skill_cannot_be_read_over_the_protocol(live, path):
    (live.workspace / "secret.txt").write_text("root: a secret")
    with live.client() as client:
        answer = client.request("resources/read", {"uri": f"skill://live-repl/{path}"})
        assert "root:" not in str(answer)
        assert answer["error"]["code"] == -32002
        assert client.request("resources/read", {"uri": GUIDE})["result"]["contents"]


def test_the_guides_are_listed_and_read_over_the_protocol(live):
    with live.client() as client:
        client.call("restart_repl", replSessionKey="py")
        client.call("evaluate_code", replSessionKey="py", code="1")
        listed = [row["uri"] for row in client.request("resources/list")["result"]["resources"]]
        names = skill_examples.skill_names()
        skills = [skill["uri"] for skill in client.request("skills/list")["result"]["skills"]]
        for uri in (f"skill://{name}/SKILL.md" for name in names):
            assert (uri in listed) is (uri in skills) is (uri != GUIDE)
            (content,) = client.request("resources/read", {"uri": uri})["result"]["contents"]
            assert content["text"]


def test_the_application_guide_is_offered_once_an_application_connects(live):
    code = "import codriver_seam; codriver_seam.install(True)"
    with live.client() as client:
        client.call("restart_repl", replSessionKey="py")
        client.call("evaluate_code", replSessionKey="py", code="1")
        with live.client(name="claude-code") as before:
            assert "live-app" not in before.about["instructions"]
        client.notifications.clear()
        client.call("evaluate_code", replSessionKey="py", code=code)
        client.await_notification("notifications/resources/list_changed")
        assert GUIDE in [row["uri"] for row in client.request("resources/list")["result"]["resources"]]
        assert GUIDE in [skill["uri"] for skill in client.request("skills/list")["result"]["skills"]]
        with live.client(name="claude-code") as after:
            assert GUIDE in after.about["instructions"]


@pytest.mark.parametrize("name", ["some-client", "copilot-cli", "@cline/core"])
def test_a_client_whose_model_cannot_read_resources_gets_no_addresses(live, name):
    with live.client(name=name) as client:
        assert "skill://" not in client.about["instructions"]
        assert 'test: ["affected"]' in client.about["instructions"]
