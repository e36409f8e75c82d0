"""The hook program: its query for each recorded input, the format of its answer, and that it never blocks a client."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import posix_only
import pytest
from live_server import serving, user_settings_file
from process_states import stopped

from codriver.net.relay_install import install_relay, shipped_relay_directory
from codriver_relay.hook import (
    DEADLINE_S,
    EVENT_KINDS,
    EVENT_NAMES_BY_CLIENT,
    MAX_INPUT_BYTES,
    read_deadline_s,
    render_answer,
    tool_arguments,
)

SHAPES = json.loads((Path(__file__).parent / "hook_shapes.json").read_text())
PATIENT = {"CODRIVER_HOOK_DEADLINE_S": "60"}
"""What is asked of a server may take as long as a busy machine needs."""
TOLD = {"context": "line 2", "block": "no"}


@pytest.mark.parametrize(
    ("source", "message"), [("compact", {"source": "compact"}), ("startup", {}), (["compact"], {})]
)
def test_a_hook_at_session_start_reports_whether_the_conversation_was_compacted(source, message):
    given = {"hook_event_name": "SessionStart", "source": source}
    assert tool_arguments("claude-code", "started", given) == {"event": "started", "who": "claude-code", **message}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape['client']}-{shape['event']}-{shape['about']}")
def test_each_recorded_input_produces_the_expected_query(shape):
    assert tool_arguments(shape["client"], shape["event"], shape["input"]) == shape["asked"]


@pytest.mark.parametrize("client", EVENT_NAMES_BY_CLIENT)
@pytest.mark.parametrize(
    "given",
    [None, [], 7, "x", {}, {"tool_input": []}, {"tool_input": {"file_path": 7}}, {"toolArgs": {"path": None}},
     {"tool_input": {"file_path": "x" * 5000}}, {"edits": "no", "file_path": ["a"]},
     {"hook_event_name": "Other"}],
)  # fmt: skip
def test_a_malformed_hook_input_causes_no_query_about_files(client, given):
    for event in ("edited", "writing"):
        if event in EVENT_NAMES_BY_CLIENT[client]:
            assert tool_arguments(client, event, given) is None


def test_a_stop_hook_that_already_blocked_once_sends_no_query():
    for client in ("claude-code", "codex", "qwen", "gemini", "copilot"):
        assert tool_arguments(client, "stopping", {"stop_hook_active": True}) is None
    assert tool_arguments("cursor", "stopping", {"loop_count": 1}) is None
    assert tool_arguments("cursor", "stopping", {"loop_count": 0}) == {"event": "stopping", "who": "cursor"}


def nested(name, **fields):
    return {"hookSpecificOutput": {"hookEventName": name, **fields}}


DENIED = {"permissionDecision": "deny", "permissionDecisionReason": "no"}
BLOCKED = {"decision": "block", "reason": "no"}


@pytest.mark.parametrize(
    ("client", "edited", "writing", "stopping"),
    [
        ("claude-code", nested("PostToolUse", additionalContext="line 2"), nested("PreToolUse", **DENIED), BLOCKED),
        ("codex", nested("PostToolUse", additionalContext="line 2"), nested("PreToolUse", **DENIED), BLOCKED),
        ("qwen", nested("PostToolUse", additionalContext="line 2"), nested("PreToolUse", **DENIED), BLOCKED),
        ("gemini", nested("AfterTool", additionalContext="line 2"), {"decision": "deny", "reason": "no"}, BLOCKED),
        ("copilot", {"additionalContext": "line 2"}, DENIED, BLOCKED),
        ("cursor", {"additional_context": "line 2"}, None, {"followup_message": "no"}),
        ("cline", {"cancel": False, "contextModification": "line 2"}, {"cancel": True, "errorMessage": "no"}, None),
        ("opencode", {"context": "line 2"}, {"block": "no"}, {"block": "no"}),
    ],
)
def test_each_client_gets_the_answer_in_its_own_format(client, edited, writing, stopping):
    assert render_answer(client, "edited", {"context": "line 2"}) == edited
    for event, shape in (("writing", writing), ("stopping", stopping)):
        if shape is not None:
            assert render_answer(client, event, {"block": "no"}) == shape


@pytest.mark.parametrize("client", EVENT_NAMES_BY_CLIENT)
@pytest.mark.parametrize("message", [{}, {"context": ""}, {"context": 7, "block": ["x"]}, {"ok": True, "allow": True}])
def test_an_empty_answer_stays_empty_and_never_allows_anything(client, message):
    for event in EVENT_NAMES_BY_CLIENT[client]:
        assert render_answer(client, event, message) == {}
        assert "allow" not in json.dumps(render_answer(client, event, {**TOLD, **message, "allow": True}))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Return the program as `init` installs it."""
    folder = tmp_path_factory.mktemp("installed")
    install_relay(shipped_relay_directory(), folder / "codriver_relay.py")
    return folder / "codriver_hook.py"


def run(program, folder, *words, given=b"{}", **variables):
    environ = {"PATH": os.environ["PATH"], "HOME": str(program.parent), **PATIENT, **variables}
    command = [sys.executable, "-I", "-S", str(program), *words]
    done = subprocess.run(command, cwd=folder, env=environ, input=given, capture_output=True, timeout=60, check=False)
    assert done.stderr == b""
    assert done.returncode == 0
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hook")
    user_settings_file(folder).write_text("hookGate = true\n")
    with serving(folder, "--repl", "none") as running:
        yield running


def edit_in(live, name, text):
    file = live.workspace / name
    file.write_text(text)
    return {"hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_input": {"file_path": str(file)}}


def test_the_answer_has_the_clients_format_in_any_subdirectory(program, live):
    given = edit_in(live, "core.clj", "(defn f [x]\n  (inc x)\n")
    below = live.workspace / "src" / "shop"
    below.mkdir(parents=True, exist_ok=True)
    for folder in (live.workspace, below):
        reported = run(program, folder, "qwen", "edited", given=json.dumps(given).encode())
        assert "core.clj:1:1 cannot be read" in reported["hookSpecificOutput"]["additionalContext"]
    with live.client() as client:
        query = '[:find ?text :where [?e :output/who "qwen"] [?e :output/text ?text]]'
        assert client.call("repl_output_log", query=query)["result"] == [["qwen edited core.clj"]]


def test_a_claude_code_hook_that_copilot_runs_gives_an_empty_answer(program, live):
    given = json.dumps(edit_in(live, "twice.clj", "(")).encode()
    assert run(program, live.workspace, "claude-code", "edited", given=given, COPILOT_CLI="1") == {}
    assert run(program, live.workspace, "claude-code", "edited", given=given) != {}


@pytest.mark.parametrize(
    "given", [b"", b"no json", b"[" * 100_000, b"\xff\xfe", b"null", b'{"a":' + b" " * (MAX_INPUT_BYTES + 1)],
    ids=["nothing", "text", "nested", "bytes", "null", "giant"],
)  # fmt: skip
def test_a_malformed_input_gets_an_empty_answer(program, live, given):
    assert run(program, live.workspace, "qwen", "edited", given=given) == {}


def test_a_file_outside_the_workspace_gets_an_empty_answer(program, live, tmp_path):
    (tmp_path / "outside.clj").write_text("(((")
    given = {"hook_event_name": "PostToolUse", "tool_input": {"file_path": str(tmp_path / "outside.clj")}}
    assert run(program, live.workspace, "qwen", "edited", given=json.dumps(given).encode()) == {}


@pytest.mark.parametrize("client", EVENT_NAMES_BY_CLIENT)
def test_without_a_server_the_hook_answers_nothing_and_starts_no_server(program, tmp_path, client):
    (tmp_path / "codriver.toml").write_text("autoStartMCPServer = true\n")
    for event in EVENT_KINDS:
        if event in EVENT_NAMES_BY_CLIENT[client]:
            assert run(program, tmp_path, client, event) == {}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["codriver.toml"]


def write_port_file(folder, port, mode=0o700):
    """Write a port file as a server does, or as a checkout may contain it."""
    presence = folder / ".calva" / "mcp-server"
    presence.mkdir(parents=True, mode=0o700)
    (presence / "port").write_text(str(port))
    (presence / "server.json").write_text(json.dumps({"pid": os.getpid(), "port": port, "sessionId": "s"}))
    (presence / "lock").write_text("")
    presence.chmod(mode)
    return presence


@pytest.fixture
def stranger():
    """Run another program that listens where a server is expected."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_nothing_is_sent_to_another_listener_named_by_a_checkout(program, tmp_path, stranger, mode):
    write_port_file(tmp_path, stranger.getsockname()[1], mode)
    given = json.dumps({"hook_event_name": "PostToolUse", "tool_input": {"file_path": "secret.clj"}}).encode()
    assert run(program, tmp_path, "qwen", "edited", given=given) == {}
    stranger.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        connection, _ = stranger.accept()
        with connection:
            assert connection.recv(1000) == b""


def test_the_server_of_another_workspace_is_not_queried(program, live, tmp_path):
    (tmp_path / ".calva").symlink_to(live.workspace / ".calva")
    given = json.dumps(edit_in(live, "other.clj", "(")).encode()
    assert run(program, tmp_path, "qwen", "edited", given=given) == {}
    (tmp_path / ".calva").unlink()
    write_port_file(tmp_path, live.port)
    assert run(program, tmp_path, "qwen", "edited", given=given) == {}


def test_a_hung_server_does_not_block_the_hook(program, live):
    given = json.dumps(edit_in(live, "late.clj", "(")).encode()
    with stopped(live.process.pid):
        assert run(program, live.workspace, "qwen", "edited", given=given, CODRIVER_HOOK_DEADLINE_S="1.5") == {}


@pytest.mark.parametrize("given", ["nan", "-1", "0", "inf", "soon", ""])
def test_an_invalid_deadline_falls_back_to_the_default(monkeypatch, given):
    monkeypatch.setenv("CODRIVER_HOOK_DEADLINE_S", given)
    assert read_deadline_s() == DEADLINE_S


def test_an_endless_input_does_not_block_the_hook(program, live):
    command = [sys.executable, "-I", "-S", str(program), "qwen", "edited"]
    with subprocess.Popen(command, cwd=live.workspace, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b'{"hook_event_name":')
        process.stdin.flush()
        assert process.stdout.read() == b"{}\n"
        assert process.wait(60) == 0


def test_a_pipe_in_place_of_the_port_file_does_not_block_the_hook(program, tmp_path):
    presence = write_port_file(tmp_path, 1)
    (presence / "port").unlink()
    posix_only.make_pipe(presence / "port")
    assert run(program, tmp_path, "qwen", "edited") == {}


@pytest.mark.parametrize(
    "words", [(), ("claude-code",), ("nobody", "edited"), ("cline", "stopping"), ("qwen", "x", "y")]
)
def test_a_wrong_command_line_is_reported_only_on_stderr(program, words):
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(program), *words], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"usage: codriver-hook CLIENT EVENT" in done.stderr
