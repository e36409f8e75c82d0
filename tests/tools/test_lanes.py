"""Lanes over a real server: each client has a session of its own if the REPL runs sessions concurrently."""

from contextlib import nullcontext

import pytest
from live_server import serving, until, until_connected, user_settings_file
from real_repls import fresh, repl
from untimed import untimed

LOOP = {"jvm": "(while true)", "hy": "(while True (setv z 1))"}
KEYS = {"jvm": "clj", "hy": "hy"}
PRINTS = {
    "jvm": '(dotimes [_ 40] (println "%s") (Thread/sleep 10))',
    "hy": '(for [_ (range 40)] (print "%s") (.sleep (__import__ "time") 0.01))',
}


@pytest.fixture(scope="module", params=["jvm", "hy"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def live(kind, tmp_path_factory):
    folder = tmp_path_factory.mktemp("lanes")
    user_settings_file(folder).write_text("goneClientGraceMs = 100\n")
    # hy-nrepl has hung here twice after other tests had used the same server, so this module has its own.
    with (
        fresh("hy") if kind == "hy" else nullcontext(repl(kind)) as server,
        serving(folder, "--repl", "none", "--nrepl", str(server.endpoint.port)) as running,
    ):
        with running.client() as first:
            until_connected(first)
        yield running


@pytest.fixture
def pair(live):
    with live.client(name="alpha") as alpha, live.client(name="beta") as beta:
        yield alpha, beta


def rows(client):
    (row,) = client.call("list_sessions")["sessions"]
    return {item["key"]: item for item in row.get("lanes", ())}


def test_sessions_of_clients_share_definitions_but_not_the_last_error(pair, kind):
    alpha, beta = pair
    defined = alpha.call("evaluate_code", code="(defn shared [] 41)")
    # The name of the client may still belong to a lane that is being closed.
    assert defined["sessionKey"].startswith(f"{KEYS[kind]}/alpha")
    assert beta.call("evaluate_code", code="(shared)")["result"] == "41"
    assert alpha.call("evaluate_code", code="(/ 1 0)")["ok"] is False
    assert alpha.call("stacktrace")["count"]
    assert beta.call("stacktrace")["notes"] == ["no error has happened in this session"]


def test_an_endless_loop_of_one_client_does_not_block_another_client(live, pair, kind):
    alpha, beta = pair
    beta.call("evaluate_code", code="1")
    endless = alpha.call("evaluate_code", code=LOOP[kind], timeoutMs=300)
    beside = beta.call("evaluate_code", code="(+ 1 2)")
    assert (endless["status"], beside["result"]) == ("running", "3")
    assert "alpha" in beside["otherWhosSinceLast"]
    assert live.run("eval", "(+ 1 3)").stdout.strip() == "4"
    assert rows(beta)[endless["sessionKey"]]["running"]["evaluationId"] == endless["evaluationId"]
    retained = beta.call("interrupt_evaluation", replSessionKey=KEYS[kind])
    assert endless["evaluationId"] in retained["notes"][0]
    behind = alpha.call("evaluate_code", code="5", timeoutMs=300)
    assert (behind["reason"], behind["evaluationId"]) == ("busy", endless["evaluationId"])
    alpha.call("interrupt_evaluation", evaluationId=endless["evaluationId"])
    assert alpha.call("evaluate_code", code="5")["result"] == "5"


def test_concurrent_evaluations_print_to_their_own_caller(pair, kind):
    """Without Codriver's fix, hy-nrepl sends the output to the other caller, or to none."""
    callers = dict(zip("ab", pair, strict=True))
    calls = {name: item.begin_call("evaluate_code", code=PRINTS[kind] % name) for name, item in callers.items()}
    for name, item in callers.items():
        answer = item.answer(calls[name])["result"]["structuredContent"]
        assert (answer["status"], answer["stdout"].split()) == ("done", [name] * 40)


def test_printing_in_two_lanes_alternately_does_not_crash_the_repl(pair, kind):
    """If hy-nrepl frees the stream that `print` is using, the process crashes within some hundred evaluations."""
    for _ in range(150 if kind == "hy" else 10):
        calls = [(item, item.begin_call("evaluate_code", code='(print "hello" "there")')) for item in pair]
        for element, call in calls:
            answer = element.answer(call)["result"]["structuredContent"]
            assert (answer["status"], answer.get("stdout", "").strip()) == ("done", "hello there"), answer
    assert [item.call("evaluate_code", code="1")["generation"] for item in pair] == [1, 1]


def test_sessions_of_clients_are_listed_only_if_others_exist_besides_the_callers_own(live, kind):
    with live.client(name="gamma") as gamma:
        gamma.call("evaluate_code", code="1")
        until(lambda: not rows(gamma), "the lanes of clients that left to end")
        lean = gamma.call("evaluate_code", code="2", detail=False)
        assert untimed(lean) == {"ok": True, "result": "2"}
        with live.client(name="delta") as delta:
            delta.call("evaluate_code", code="1", who="helper")
            lanes = rows(gamma)
            assert lanes.keys() == {f"{KEYS[kind]}/gamma", f"{KEYS[kind]}/helper"}
            assert [lanes[f"{KEYS[kind]}/helper"][name] for name in ("client", "who")] == ["delta", "helper"]


def test_the_answer_to_the_first_evaluation_of_a_client_includes_no_extra_notes(live):
    with live.client(name="quiet") as quiet:
        assert quiet.call("evaluate_code", code="1")["notes"] == []


def test_each_client_has_its_own_namespace_and_a_key_selects_the_shared_session(tmp_path):
    file, address = user_settings_file(tmp_path), str(repl("jvm").endpoint.port)
    with (
        serving(tmp_path, "--repl", "none", "--nrepl", address) as live,
        live.client(name="alpha") as alpha,
        live.client(name="beta") as beta,
    ):
        until_connected(alpha)
        alpha.call("evaluate_code", code="(ns lanes.alpha) (defn only-here [x] x)")
        assert alpha.call("symbol_info", symbol="only-here")["ns"] == "lanes.alpha"
        assert beta.call("symbol_info", symbol="only-here")["reason"] == "unknown-symbol"
        assert beta.call("evaluate_code", code="(str *ns*)")["result"] == '"user"'
        alpha.call("evaluate_code", code="42", replSessionKey="clj")
        assert beta.call("evaluate_code", code="*1", replSessionKey="clj")["result"] == "42"
        file.write_text("lanes = false\n")
        until(lambda: beta.call("evaluate_code", code="1")["sessionKey"] == "clj", "the setting to count")
        alpha.call("evaluate_code", code="43")
        assert beta.call("evaluate_code", code="*1")["result"] == "43"


def test_each_conversation_of_a_client_has_its_own_session(tmp_path):
    with serving(tmp_path, "--repl", "none", "--nrepl", str(repl("jvm").endpoint.port)) as live:
        with live.client(name="codex-like") as client:
            until_connected(client)

            def evaluated(code, conversation):
                requested = {"name": "evaluate_code", "arguments": {"code": code, "detail": True}}
                line = client.request("tools/call", {**requested, "_meta": {"sessionId": conversation}})
                return line["result"]["content"][0]["text"]

            assert '"clj/codex-like"' in evaluated("1", "first")
            assert '"clj/codex-like-2"' in evaluated("2", "second")
        with live.client(name="codex-like") as again:
            requested = {"name": "evaluate_code", "arguments": {"code": "*1"}}
            answer = again.request("tools/call", {**requested, "_meta": {"sessionId": "second"}})
            assert '"result":"2"' in answer["result"]["content"][0]["text"]
