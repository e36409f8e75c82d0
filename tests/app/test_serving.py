"""End to end: a real server, its own REPL, and clients, as users have them."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import get_args

import posix_only
import pytest
from all_tools import MANIFEST
from live_server import Live, serving, until, user_settings_file
from real_repls import repl

from codriver import errors
from codriver.errors import Reason
from codriver.files.codriver_paths import history_file
from codriver.repls.contract import adapter as contract_errors

pytestmark = pytest.mark.served(settings="goneClientGraceMs = 500\n")


# Evaluating


def test_an_evaluation_returns_value_output_and_log_lines(client):
    answer = client.call("evaluate_code", code="print('hé 😀')\n6 * 7", who="me", description="the answer")
    assert (answer["status"], answer["result"], answer["stdout"]) == ("done", "42", "hé 😀\n")
    lines = answer["outputLines"]
    log = client.call("repl_output_log", since=lines["first"] - 1)["result"]
    text = [(e["category"], e["text"]) for e in log if e.get("evaluation") == answer["evaluationId"]]
    assert text == [
        ("otherOutput", "the answer"),
        ("evaluatedCode", "print('hé 😀')\n6 * 7"),
        ("evaluationOutput", "hé 😀\n"),
        ("evaluationResults", "None"),
        ("evaluationResults", "42"),
    ]


def test_the_answer_about_a_failed_evaluation_includes_the_error_class_line_and_traceback(client):
    answer = client.call("evaluate_code", code="x = 1\n1 / 0")
    assert (answer["ok"], answer["reason"]) == (False, "evaluation-failed")
    assert (answer["error"]["class"], answer["error"]["line"]) == ("ZeroDivisionError", 2)
    assert "1 / 0" in answer["stderr"]


def test_nothing_runs_if_python_code_cannot_be_parsed(client):
    answer = client.call("evaluate_code", code="side_effect = 1\n(")
    assert answer["error"]["phase"] == "read"
    assert client.call("evaluate_code", code="side_effect")["error"]["class"] == "NameError"


def test_the_rest_of_truncated_values_and_output_can_be_read_in_parts(client):
    answer = client.call("evaluate_code", code="print('o' * 10_000_000)\n'v' * 10_000_000")
    assert len(answer["result"]) + len(answer["stdout"]) <= 6000
    assert answer["result"].startswith("'vvv")
    assert any("left out" in note for note in answer["notes"])
    uri = f"codriver://evaluation/{answer['evaluationId']}/result?offset=9999995&limit=100"  # behind "None"
    part = client.request("resources/read", {"uri": uri})["result"]["contents"][0]["text"]
    assert part == "v" * 11 + "'"


def test_a_timeout_limits_the_wait_and_the_result_is_fetched_later(live, client, other):
    gate = live.workspace / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n'late'"
    answer = client.call("evaluate_code", code=code, timeoutMs=1000)
    assert (answer["ok"], answer["status"]) == (True, "running")
    queued = other.call("evaluate_code", code="'next'", timeoutMs=1000)
    assert queued["status"] == "queued"
    assert any(answer["evaluationId"] in note for note in queued["notes"])
    gate.touch()
    fetched = client.call("get_evaluation", evaluationId=answer["evaluationId"], waitMs=20_000)
    assert (fetched["status"], fetched["result"]) == ("done", "'late'")
    fetched = client.call("get_evaluation", evaluationId=queued["evaluationId"], waitMs=20_000)
    assert fetched["result"] == "'next'"
    gate.unlink()


def test_an_endless_loop_is_interrupted_and_the_session_continues(client):
    answer = client.call("evaluate_code", code="while True: pass", timeoutMs=1000, onTimeout="interrupt")
    assert (answer["ok"], answer["reason"], answer["status"]) == (False, "timed-out", "interrupted")
    assert client.call("evaluate_code", code="1 + 1")["result"] == "2"


def test_another_client_can_interrupt_an_evaluation(live, client):
    with live.client(name="other") as other:
        started = client.call("evaluate_code", code="while True: pass", timeoutMs=1000)
        ended = other.call("interrupt_evaluation", evaluationId=started["evaluationId"])
        assert (ended["ok"], ended["status"]) == (True, "interrupted")


def test_uninterruptible_code_is_ended_by_a_restart_if_allowed(client):
    client.call("evaluate_code", code="kept = 1")
    answer = client.call(
        "evaluate_code", code="sum(range(10**12))", timeoutMs=100, onTimeout="interrupt", allowRestart=True
    )
    assert answer["reason"] == "timed-out"
    assert any("its definitions are lost" in note for note in answer["notes"])
    after = client.call("evaluate_code", code="kept")
    assert after["error"]["class"] == "NameError"
    assert after["generation"] == answer["generation"] + 1


def test_code_that_kills_its_repl_is_reported_and_the_repl_restarts(client):
    answer = client.call("evaluate_code", code="import os\nos._exit(3)")
    assert (answer["ok"], answer["reason"]) == (False, "repl-disconnected")
    assert "may have run" in answer["error"]["message"]
    assert client.call("evaluate_code", code="'back'", timeoutMs=30_000)["result"] == "'back'"


def test_code_that_reads_input_receives_the_text_of_send_input(client):
    answer = client.call("evaluate_code", code="input('name? ')")
    assert (answer["status"], answer["stdout"]) == ("needs-input", "name? ")
    given = client.call("send_input", evaluationId=answer["evaluationId"], text="Ada")
    assert (given["status"], given["result"]) == ("done", "'Ada'")


def test_code_waiting_for_input_blocks_the_session_only_while_its_client_is_connected(live, client):
    with live.client(name="asker") as asker:
        answer = asker.call("evaluate_code", code="input('name? ')")
        waiting = client.call("evaluate_code", code="1 + 1", timeoutMs=1000)
        assert waiting["status"] == "queued"
        [note] = [note for note in waiting["notes"] if answer["evaluationId"] in note]
        assert "is waiting for input" in note
        assert "send_input" in note
    ask = partial(client.call, "get_evaluation", evaluationId=answer["evaluationId"])
    until(lambda: ask()["status"] == "interrupted", "the end of the question")
    served = client.call("get_evaluation", evaluationId=waiting["evaluationId"], waitMs=30_000)
    assert (served["status"], served["result"]) == ("done", "2")


def test_a_command_leaves_no_pending_input_request(live, client):
    given = live.run("eval", "input('name? ')", "--timeout", "30")
    assert given.returncode == 4
    assert "standard input" in given.stderr
    assert "send_input" not in given.stderr
    assert client.call("evaluate_code", code="'free'")["result"] == "'free'"


def test_an_image_in_a_result_is_sent_as_an_image_content_block(client):
    answer = client.answer(client.begin_call("evaluate_code", code="'data:image/png;base64,AAAA tail'"))["result"]
    assert answer["structuredContent"]["result"] == "'<<image-1>> tail'"
    assert answer["content"][1] == {"type": "image", "data": "AAAA", "mimeType": "image/png"}


def test_an_image_beyond_the_limit_is_replaced_by_a_note(client):
    code = "'data:image/png;base64,' + 'A' * 16_000 + ' and data:image/gif;base64,BBBB tail'"
    answer = client.call("evaluate_code", code=code, maxImages=0)
    first, second = ("get_evaluation with part image-1 returns it", "get_evaluation with part image-2 returns it")
    assert answer["result"] == (
        f"'<<image-1 left out: image/png, 12 KB; {first}>> and <<image-2 left out: image/gif, 1 KB; {second}>> tail'"
    )
    requested = {"evaluationId": answer["evaluationId"], "maxImages": 1}
    later = client.answer(client.begin_call("get_evaluation", **requested))["result"]
    assert later["structuredContent"]["result"] == (
        f"'<<image-1>> and <<image-2 left out: image/gif, 1 KB; {second}>> tail'"
    )
    assert [part.get("mimeType") for part in later["content"]] == [None, "image/png"]
    row = client.call("repl_output_log", category=["evaluationResults"], limit=1)["result"][0]
    assert row["text"].startswith("'<<image-1 left out: image/png, 12 KB; ask with maxImages>> and <<image-2 left out")
    several = client.call("evaluate_code", code=f"{code.replace('A', 'C').replace('B', 'D')}\n{code}", maxImages=1)
    assert "<<image-1>>" in several["result"]
    assert several["values"][0].startswith("'<<image-3 left out")


def test_any_part_of_an_evaluation_can_be_requested(client):
    first = client.call("evaluate_code", code="for n in range(5): print('line', n)\n'one'")["evaluationId"]
    second = client.call("evaluate_code", code="for n in range(6): print('line', n)\n'one'")["evaluationId"]
    part = client.call("get_evaluation", evaluationId=first, part="stdout", **{"from": 7, "length": 6})
    assert (part["text"], part["next"], part["totalCharacters"]) == ("line 1", 13, 35)
    found = client.call("get_evaluation", evaluationId=first, grep="3")
    assert (found["count"], found["matches"]) == (1, [{"part": "stdout", "line": 4, "text": "line 3"}])
    changed = client.call("get_evaluation", evaluationId=second, diffWith=first)
    assert changed["same"] is False
    assert "+line 5" in changed["diff"]
    assert client.call("get_evaluation", evaluationId=first, diffWith=first)["same"] is True


def test_an_answer_names_the_callers_that_were_active_since_the_last_call(live, client):
    client.call("evaluate_code", code="1", who="first")
    client.call("evaluate_code", code="1", who="second")
    assert "second" in client.call("evaluate_code", code="1", who="first")["otherWhosSinceLast"]


def test_the_log_can_be_filtered_by_caller(client):
    for who in ("pine", "oak"):
        client.call("evaluate_code", code="'tree'", who=who)
    rows = client.call("repl_output_log", by="pine", who="oak", limit=10_000)["result"]
    assert {row["who"] for row in rows if row["category"] == "evaluatedCode"} == {"pine"}
    rows = client.call("repl_output_log", who="pine", limit=10_000)["result"]
    assert {row.get("who") for row in rows} >= {"pine", "oak"}


def test_the_caller_of_an_evaluation_is_named_only_to_other_callers(client):
    identity = client.call("evaluate_code", code="1 + 1", who="pine")["evaluationId"]
    answer = {
        who: client.call("get_evaluation", evaluationId=identity, detail=False, **({"who": who} if who else {}))
        for who in ("pine", "oak", None)
    }
    assert (answer["oak"]["who"], "who" in answer["pine"], "who" in answer[None]) == ("pine", False, False)


def test_the_first_answer_to_a_client_names_no_callers_from_before_its_connection(live, client):
    client.call("evaluate_code", code="1", who="long-ago")
    with live.client(name="newcomer") as newcomer:
        client.call("evaluate_code", code="1", who="meanwhile")
        assert newcomer.call("evaluate_code", code="1")["otherWhosSinceLast"] == ["meanwhile"]
    with live.client(name="newcomer") as again:
        assert "otherWhosSinceLast" not in again.call("evaluate_code", code="1")


def test_names_of_an_isolated_session_are_not_visible_in_other_sessions(client):
    client.call("evaluate_code", code="mine = 1", who="loner", isolate=True)
    assert client.call("evaluate_code", code="mine", who="loner", isolate=True)["result"] == "1"
    assert client.call("evaluate_code", code="mine")["error"]["class"] == "NameError"


def test_a_file_is_loaded_as_its_module(live, client):
    (live.workspace / "shop.py").write_text("def price():\n    return 10\n")
    assert client.call("load_file", filePath="shop.py")["ok"]
    assert client.call("evaluate_code", code="import shop\nshop.price()")["result"] == "10"
    assert client.call("evaluate_code", code="price()", namespace="shop")["result"] == "10"


NULL_IN_NAME = {"type": "append", "filePath": "a\0.py", "code": "x = 1"}


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("evaluate_code", {}, "bad-arguments"),
        ("evaluate_code", {"code": "1", "nonsense": 1}, "bad-arguments"),
        ("evaluate_code", {"code": "1", "who": "UI"}, "bad-who"),
        ("evaluate_code", {"code": "1", "who": " "}, "bad-who"),
        ("evaluate_code", {"code": "1", "who": "human"}, "bad-who"),
        ("evaluate_code", {"code": "1", "who": "jupyter"}, "bad-who"),
        ("evaluate_code", {"code": "1", "replSessionKey": "clj"}, "unknown-session"),
        ("get_evaluation", {"evaluationId": "x"}, "unknown-evaluation"),
        ("load_file", {"filePath": "none.py"}, "file-unreadable"),
        ("load_file", {"filePath": "a\0"}, "file-unreadable"),
        ("load_file", {"filePath": "a\0.py"}, "file-unreadable"),
        ("edit_files", {"edits": [NULL_IN_NAME]}, "edits-refused"),
        ("edit_files", {"edits": [NULL_IN_NAME], "load": True}, "edits-refused"),
        ("repl_output_log", {"query": "[:find"}, "bad-query"),
    ],
)
def test_a_refusal_has_a_known_reason_and_a_hint(client, tool, arguments, reason):
    answer = client.call(tool, **arguments)
    assert (answer["ok"], answer["reason"]) == (False, reason)
    assert answer["hint"]


def test_every_refusal_reason_in_the_table_is_used():
    """Mypy checks the opposite: each reason that is raised by name, or belongs to a class, is in the table."""
    texts = [path.read_text("utf-8") for path in Path(errors.__file__).parent.rglob("*.py") if path.name != "errors.py"]
    texts.append(Path(contract_errors.__file__).read_text("utf-8"))
    assert [reason for reason in get_args(Reason) if not any(f'"{reason}"' in text for text in texts)] == []


def test_the_log_can_be_queried_with_datalog(client):
    marker = client.call("evaluate_code", code="'a marker'")["evaluationId"]
    query = "[:find ?t . :in $ ?id :where [?e :output/evaluation ?id] [?e :output/category ?c] [?e :output/text ?t] "
    query += '[(= ?c "evaluationResults")]]'
    answer = client.call("repl_output_log", query=query, inputs=[marker])
    assert (answer["result"], answer["cut"]) == ("'a marker'", None)


def test_answers_fit_their_schemas(client):
    import jsonschema  # noqa: PLC0415

    schemas = {tool.name: tool.output for tool in MANIFEST}
    answers = {
        "evaluate_code": client.call("evaluate_code", code="1"),
        "list_sessions": client.call("list_sessions"),
        "server_health": client.call("server_health"),
        "repl_output_log": client.call("repl_output_log"),
    }
    for name, answer in answers.items():
        jsonschema.validate(answer, schemas[name])


def test_all_tool_descriptions_together_are_short(client):
    tools = client.request("tools/list")["result"]["tools"]
    assert sum(len(tool["description"]) for tool in tools) < 4 * 3000
    assert all(tool["inputSchema"]["type"] == "object" and tool["description"] for tool in tools)


# The wire


def test_a_message_received_byte_by_byte_is_answered(live):
    with live.client(handshake=False) as bare:
        data = json.dumps({"jsonrpc": "2.0", "id": "é", "method": "ping"}, ensure_ascii=False).encode() + b"\r\n"
        bare.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in data:
            bare.write(bytes([byte]))
        assert bare.answer("é")["result"] == {}


def test_two_messages_in_one_packet_and_blank_lines_are_handled(live):
    with live.client(handshake=False) as bare:
        bare.write(b'\n{"jsonrpc":"2.0","id":0,"method":"ping"}\n\r\n{"jsonrpc":"2.0","id":"0","method":"ping"}\n')
        assert {json.dumps(bare.receive()["id"]), json.dumps(bare.receive()["id"])} == {"0", '"0"'}


@pytest.mark.parametrize(
    ("line", "code", "identity"),
    [
        (b"nonsense", -32700, None),
        (b"\xff{", -32700, None),
        (b"[1]", -32600, None),
        (b"5", -32600, None),
        (b'{"jsonrpc":"2.0","id":7}', -32600, 7),
        (b'{"jsonrpc":"2.0","id":7,"error":{}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":8,"method":"no/such"}', -32601, 8),
        (b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":5}}', -32602, 9),
        (b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"none"}}', -32602, 10),
        (b'{"jsonrpc":"2.0","id":11,"method":"initialize","params":[]}', -32602, 11),
        (b'{"jsonrpc":"2.0","id":12,"method":"resources/subscribe","params":{"uri":"x://y"}}', -32002, 12),
        (b'{"jsonrpc":"2.0","id":13,"method":"resources/subscribe","params":{"uri":"skill://no"}}', -32002, 13),
        (b'{"jsonrpc":"2.0","id":14,"method":"ping","params":' + b"[" * 300 + b"]" * 300 + b"}", -32600, 14),
        (b"[" * 100_000 + b"]" * 100_000, -32600, None),
    ],
)
def test_an_invalid_request_is_answered_and_the_connection_survives(client, line, code, identity):
    client.write(line + b"\n")
    answer = client.answer(identity)
    assert (answer["error"]["code"], answer.get("id")) == (code, identity)
    assert client.request("ping")["result"] == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', "no/such"),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', "params.name is missing"),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read"}', "params is missing"),
        (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{}}', "params.uri is missing"),
        (b'{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":5}}', "params.name is wrong: "),
        (b"[" * 100_000 + b"]" * 100_000, "more than 200 levels deep"),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b"[" * 300 + b"]" * 300 + b"}",
            "more than 200 levels deep",
        ),
    ],
)
def test_an_error_response_explains_what_is_wrong(client, line, words):
    client.write(line + b"\n")
    assert words in client.answer(json.loads(line)["id"] if line.startswith(b"{") else None)["error"]["message"]


def test_a_request_before_the_handshake_is_refused_with_advice_to_send_the_handshake_first(live):
    with live.client(handshake=False) as bare:
        for method in ("tools/list", "tools/call"):
            error = bare.request(method)["error"]
            assert error["code"] == -32602
            assert "initialize first" in error["message"]
        assert "initialize" not in bare.request("no/such")["error"]["message"]
        incomplete = bare.request("initialize", {"protocolVersion": "2025-11-25"})
        assert "params.capabilities is missing" in incomplete["error"]["message"]


def test_a_client_can_subscribe_to_existing_resources(client):
    for uri in ("codriver://log", "skill://live-repl/SKILL.md", "codriver://symbol/lpy/user/map"):
        assert client.request("resources/subscribe", {"uri": uri})["result"] == {}
        assert client.request("resources/unsubscribe", {"uri": uri})["result"] == {}


def test_a_notification_is_never_answered(client):
    client.send({"jsonrpc": "2.0", "method": "no/such"})
    client.send({"jsonrpc": "2.0", "method": "no/such", "params": [1]})
    client.send({"jsonrpc": "2.0", "id": 77, "result": {}})
    assert client.answer(client.begin("ping"))["result"] == {}
    assert client.notifications == []


def test_a_line_of_five_megabytes_is_read(client):
    answer = client.call("evaluate_code", code="len('" + "x" * 5_000_000 + "')")
    assert answer["result"] == "5000000"


def test_a_ping_is_answered_while_code_runs(live, client):
    gate = live.workspace / "gate of the ping"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)\n'slow'"
    slow = client.begin_call("evaluate_code", code=code)
    fast = client.begin("ping")
    first = client.receive()
    assert first["id"] == fast
    gate.touch()
    assert client.answer(slow)["result"]["structuredContent"]["result"] == "'slow'"


def test_a_cancelled_call_interrupts_its_evaluation(client):
    identity = client.begin_call("evaluate_code", code="while True: pass")
    running = until(lambda: client.call("list_sessions")["sessions"][0].get("running"), "the loop to run")
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": identity}})
    ended = client.call("get_evaluation", evaluationId=running["evaluationId"], waitMs=20_000)
    assert ended["status"] == "interrupted"


def test_twenty_clients_are_served_concurrently(live):
    clients = [live.client(name=f"client-{n}") for n in range(20)]
    calls = [c.begin_call("evaluate_code", code=f"{n} * 2") for n, c in enumerate(clients)]
    answers = [c.answer(i)["result"]["structuredContent"] for c, i in zip(clients, calls, strict=True)]
    assert [answer["result"] for answer in answers] == [str(2 * n) for n in range(20)]
    assert {answer["who"] for answer in answers} == {f"client-{n}" for n in range(20)}
    for connected in clients:
        connected.close()


@pytest.mark.parametrize(
    "first", [b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n"]
)
def test_a_peer_that_speaks_another_protocol_is_disconnected_without_an_answer(live, first):
    body = (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evaluate_code","arguments":{"code":"1"}}}\n'
    )
    with socket.create_connection(("127.0.0.1", live.port), timeout=20) as stranger:
        stranger.sendall(first + body)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1000) == b""


# REPLs that come and go


def test_a_repl_started_later_is_found_and_every_client_is_notified(tmp_path):
    endpoint = repl("jvm").endpoint
    name = "opencode"  # is known to list again
    with serving(tmp_path, "--repl", "none") as live, live.client(name=name) as item, live.client(name=name) as two:
        assert "evaluate_code" not in item.tools()
        refused = item.call("evaluate_code", code="1")
        assert (refused["reason"], refused["capability"]) == ("capability-missing", "evaluate")
        (live.workspace / ".nrepl-port").write_text(str(endpoint.port))
        for client in (item, two):
            client.await_notification("notifications/tools/list_changed")
        until(lambda: "interrupt_evaluation" in item.tools(), "the tools of the REPL")
        answer = item.call("evaluate_code", code="(println :a) (+ 1 2)")
        assert (answer["result"], answer["stdout"], answer["sessionKey"]) == ("3", ":a\n", "clj/opencode")
        assert item.call("evaluate_code", code="(+ 1")["reason"] == "unbalanced"


def test_the_hint_about_a_missing_repl_starts_a_repl_if_it_is_followed(tmp_path):
    """Do what a user does who follows the hint and writes the line into the file it names, while the server runs."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "main.go").write_text("package main\n")
    with serving(tmp_path) as live, live.client() as client:
        refused = client.call("evaluate_code", code="1 + 2")
        line, file = re.search(r"set (.+) in ([a-z.]+),", refused["hint"]).groups()
        client.notifications.clear()
        (workspace / file).write_text(f"{line}\n")
        client.await_notification("notifications/tools/list_changed")
        until(lambda: client.call("evaluate_code", code="1 + 2").get("result") == "3", "the REPL")


@pytest.mark.parametrize("name", ["jvm", "basilisp", "nbb"])
def test_real_repls_return_values_output_errors_and_results_of_several_forms(tmp_path, name):
    with serving(tmp_path, "--nrepl", str(repl(name).endpoint.port)) as live, live.client() as client:
        until(lambda: "load_file" in client.tools(), "the REPL")
        answer = client.call("evaluate_code", code='(def x 20)\n(println "hé")\n(+ x 22)', timeoutMs=60_000)
        assert (answer["result"], answer["stdout"]) == ("42", "hé\n")
        failed = client.call("evaluate_code", code="(+ 1 1)\n(no-such-thing)\n(def y 1)")
        assert (failed["ok"], failed["reason"], failed["error"]["form"]) == (False, "evaluation-failed", 2)
        if name != "basilisp":  # whose own server prints what is not ASCII as Python would escape it
            assert client.call("evaluate_code", code='(apply str (repeat 3 "😀"))')["result"] == '"😀😀😀"'


def test_evaluating_lisp_requires_a_session_key_if_a_python_repl_is_also_running(tmp_path):
    with serving(tmp_path, "--repl", "python", "--repl", "lisp") as live, live.client() as client:
        assert client.call("evaluate_code", code="1")["reason"] == "ambiguous-session"
        lisp = client.call("evaluate_code", code="(map inc [1 2])", replSessionKey="lpy", timeoutMs=120_000)
        assert lisp["result"] == "(2 3)"
        looped = client.call(
            "evaluate_code", code="(loop [] (recur))", replSessionKey="lpy", timeoutMs=1000, onTimeout="interrupt"
        )
        assert looped["status"] == "interrupted"


# The server's life


def test_serve_prints_its_address_in_one_line(live):
    assert live.greeting.startswith(f"codriver listens on 127.0.0.1:{live.port}; port file {live.port_file}; REPLs: py")


def test_a_repl_that_cannot_be_started_is_reported_in_the_terminal_and_to_clients(tmp_path):
    user_settings_file(tmp_path).write_text('repl = ["nosuchrepl-xyz"]\n')
    with serving(tmp_path) as live:
        output = live.process.stdout.readline()
        assert output.startswith("codriver: ")
        assert "there is no command 'nosuchrepl-xyz'" in output
        with live.client() as client:
            assert "repl is stopped: `--repl nosuchrepl-xyz` cannot be started" in client.about["instructions"]
            named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", client.about["instructions"]))
            assert named <= set(client.tools())


def test_a_second_server_is_refused_with_the_pid_and_port_of_the_first(live):
    second = live.run("serve")
    assert second.returncode == 1
    assert f"pid {live.process.pid} on port {live.port}" in second.stderr


def test_a_different_port_is_used_with_a_note_if_the_requested_port_is_taken(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        requested = taken.getsockname()[1]
        with serving(tmp_path, "--repl", "none", "--port", str(requested)) as live, live.client() as client:
            assert live.port != requested
            assert str(requested) in client.call("server_health")["portNote"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_cleanly_even_while_code_runs(tmp_path, number):
    live = Live(tmp_path, "--repl", "python")
    with live.client() as client:
        identity = client.begin_call(
            "evaluate_code", code="import os\nprint(os.getpid(), flush=True)\nwhile True: pass"
        )
        pid = until(lambda: _printed(live), "the loop to run")
        live.stop(number)
        answered = client.answer(identity)["result"]["structuredContent"]
        assert answered["status"] in ("interrupted", "lost")
    assert live.process.returncode == 0
    assert not live.port_file.exists()
    until(lambda: not Path(f"/proc/{pid}").exists(), "the REPL's process to end")


def test_a_call_that_cannot_be_interrupted_is_answered_when_a_signal_stops_the_server(tmp_path):
    live = Live(tmp_path, "--repl", "python")
    stubborn = """import os, time
print(os.getpid(), flush=True)
while True:
    try: time.sleep(1)
    except BaseException: pass"""
    with live.client() as client, live.client() as behind:
        identity = client.begin_call("evaluate_code", code=stubborn, timeoutMs=60_000)
        pid = until(lambda: _printed(live), "the loop to run")
        queued = behind.begin_call("evaluate_code", code="never = 1", timeoutMs=60_000)
        with live.client() as looking:
            until(lambda: looking.call("server_health")["evaluations"]["queued"], "the second to queue")
        live.stop()
        answered = client.answer(identity)["result"]["structuredContent"]
        waited = behind.answer(queued)["result"]["structuredContent"]
    assert (answered["ok"], answered["status"], answered["reason"]) == (False, "lost", "stopping")
    assert "the server is stopping" in answered["error"]["message"]
    assert waited["status"] == "interrupted"
    assert live.process.returncode == 0
    until(lambda: not Path(f"/proc/{pid}").exists(), "the REPL's process to end")


def _printed(live):
    with live.client() as other:
        log = other.call("repl_output_log", category=["evaluationOutput"])["result"]
    return int(log[0]["text"]) if log else None


def history_text(folder):
    """Return what a server has written of the evaluated code, including the lines that it adds."""
    files = (folder / "state").rglob("eval-history.transit.json*")
    return "".join(file.read_text() for file in files if file.suffix != ".tmp")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_killed_server_leaves_no_repl_behind_and_the_next_one_starts(tmp_path):
    live = Live(tmp_path, "--repl", "python")
    with live.client() as client:
        pid = int(client.call("evaluate_code", code="import os\nos.getpid()", timeoutMs=30_000)["result"])
    until(lambda: "getpid" in history_text(tmp_path), "the history to be on disk")
    live.stop(posix_only.KILL)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the REPL's process to end")
    assert live.port_file.exists()
    with serving(tmp_path, "--repl", "none") as again, again.client() as client:
        assert client.call("server_health")["pid"] == again.process.pid
        code = "[:find ?t . :in $ $history :where [$history _ :output/text ?t]]"
        assert "getpid" in client.call("repl_output_log", query=code)["result"]


def test_an_unreadable_history_is_reported_and_remembered_as_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "workspace").mkdir()
    file = history_file(tmp_path / "workspace")
    file.parent.mkdir(parents=True)
    file.write_text("no history")
    with serving(tmp_path, "--repl", "none") as live, live.client() as client:
        (error,) = [item for item in client.call("server_health")["errors"] if item["code"] == "history"]
        assert str(file) in error["message"]
        answer = client.call("repl_output_log", category=["otherErrorOutput"])["result"]
        assert error["message"] in [entry["text"] for entry in answer]


# The command line


def test_commands_report_their_outcome_by_exit_status(live):
    assert live.run("eval", "6*7").stdout == "42\n"
    assert live.run("eval", "1/0").returncode == 1
    gate = live.workspace / "gate of the command"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    assert live.run("eval", code, "--timeout", "1").returncode == 4
    gate.touch()
    assert live.run("eval", "-", input="'from stdin'").stdout == "'from stdin'\n"
    assert json.loads(live.run("call", "list_sessions").stdout)["count"] >= 1
    assert "evaluate_code" in live.run("tools").stdout
    assert json.loads(live.run("status", "--json").stdout)["pid"] == live.process.pid
    assert "6*7" in live.run("log").stdout
    assert "6*7" in live.run("history").stdout
    assert live.run("doctor").returncode == 0


def test_commands_suggest_what_to_run_if_there_is_no_server(tmp_path):
    command = [sys.executable, "-m", "codriver", "eval", "1", "--workspace", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert "codriver serve" in done.stderr


def test_stop_ends_the_server_and_is_harmless_when_repeated(tmp_path):
    live = Live(tmp_path, "--repl", "none")
    assert "stopped" in live.run("stop").stdout
    live.process.wait(30)
    assert "no server is running" in live.run("stop").stdout
    live.process.stdout.close()


# The relay


def test_a_client_behind_the_relay_can_evaluate(live):
    with live.relay() as client:
        assert client.call("evaluate_code", code="2 + 2")["result"] == "4"


def test_a_server_restart_during_a_call_is_reported_and_recovered_from(tmp_path):
    live = Live(tmp_path, "--repl", "python")
    with live.relay() as client:
        assert client.call("evaluate_code", code="1", timeoutMs=30_000)["ok"]
        identity = client.begin_call("evaluate_code", code="while True: pass")
        until(lambda: _running(live), "the loop to run")
        until(lambda: "while True" in history_text(tmp_path), "the history to be on disk")
        live.stop(posix_only.KILL)
        answer = client.answer(identity)
        assert "may have run" in answer["error"]["message"]
        with serving(tmp_path, "--repl", "python"):
            client.await_notification("notifications/tools/list_changed")
            assert client.call("evaluate_code", code="'again'", timeoutMs=30_000)["result"] == "'again'"
            assert 'status with about: "activity"' in answer["error"]["message"]
            listed = client.call("status", about="activity")
            assert "while True: pass" in json.dumps(listed)


def _running(live):
    with live.client() as other:
        return other.call("list_sessions")["sessions"][0].get("running")
