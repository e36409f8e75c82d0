"""Completion of the arguments of prompts and resource templates, in every protocol version, also over the relay."""

import pytest
from live_server import until
from mcp_versions import EVERY, MODERN, speaking
from process_states import stopped

from codriver.protocol.resources import PROMPTS
from codriver.protocol.sdk.completions import KINDS, fitting

SYMBOL = "codriver://symbol/{replSessionKey}/{namespace}/{symbol}"
EVALUATION = "codriver://evaluation/{evaluationId}/{part}{?offset,limit}"
NOTHING = {"values": [], "total": 0, "hasMore": False}


@pytest.fixture(scope="module")
def live(live):
    with live.client() as first:
        until(lambda: "complete_symbol" in first.tools(), "the REPL")
        first.call("evaluate_code", code="import string\n" + "\n".join(f"many_{i:03} = {i}" for i in range(150)))
    return live


@pytest.fixture(params=[False, True], ids=["direct", "relay"], scope="module")
def relayed(request):
    return request.param


@pytest.fixture(params=EVERY, scope="module")
def client(live, request, relayed):
    with speaking(live, request.param, relayed=relayed) as one:
        yield one


def complete(client, ref, argument, value, **given):
    kind = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    context = {"context": {"arguments": given}} if given else {}
    answer = client.ask("completion/complete", ref=kind, argument={"name": argument, "value": value}, **context)
    return answer.get("completion", answer)


def test_a_client_is_told_that_there_are_completions(client):
    assert client.about["capabilities"]["completions"] == {}


def test_a_session_and_a_skill_are_completed(client):
    whole = {"values": ["py"], "total": 1, "hasMore": False}
    assert complete(client, SYMBOL, "replSessionKey", "") == whole
    assert complete(client, "explain_last_error", "session", "P") == whole
    assert complete(client, "skill://{skill}/SKILL.md", "skill", "live")["values"] == ["live-repl"]
    assert complete(client, "skill://{skill}/SKILL.md", "skill", "no such") == {
        "values": [],
        "total": 0,
        "hasMore": False,
    }


def test_a_caller_is_completed_for_the_handoff(client):
    for ref in ("handoff", "codriver://handoff{?who}"):
        assert "bare" in complete(client, ref, "who", "ba")["values"]


def test_a_symbol_is_completed_by_the_repl(client):
    for given in ({}, {"replSessionKey": "py"}, {"replSessionKey": "py", "namespace": "user"}):
        found = complete(client, SYMBOL, "symbol", "string.ascii_l", **given)
        assert found == {"values": ["string.ascii_letters", "string.ascii_lowercase"], "total": 2, "hasMore": False}
    assert complete(client, "start_repl_session", "topic", "string.hexd")["values"] == ["string.hexdigits"]
    assert complete(client, SYMBOL, "namespace", "us")["values"][0] == "user"
    assert "string" in complete(client, SYMBOL, "namespace", "stri")["values"]


def test_of_many_values_a_hundred_are_given_and_it_is_said_that_there_are_more(client):
    found = complete(client, SYMBOL, "symbol", "many_")
    assert (len(found["values"]), found["hasMore"]) == (100, True)
    assert found["values"][0] == "many_000"


def test_an_evaluation_and_a_line_of_the_log_are_completed_newest_first(client):
    done = client.call("evaluate_code", code="print(1)", detail=True)["evaluationId"]
    found = complete(client, EVALUATION, "evaluationId", "")
    assert found["values"][0] == done
    assert found["total"] >= len(found["values"])
    assert complete(client, EVALUATION, "part", "st")["values"] == ["stdout", "stderr", "stacks"]
    assert complete(client, EVALUATION, "offset", "1")["values"] == []
    lines = [int(line) for line in complete(client, "codriver://log{?since}", "since", "")["values"]]
    assert lines == sorted(lines, reverse=True)
    assert complete(client, "summarise_agents", "since", "20")["values"][0].startswith("20")


def test_what_is_not_there_is_refused_and_named(client):
    for ref, argument in (("no_such_prompt", "x"), ("codriver://nothing/{x}", "x"), (SYMBOL, "who")):
        error = complete(client, ref, argument, "")
        assert error["code"] == -32602
        assert ref in error["message"]
    assert "replSessionKey" in complete(client, SYMBOL, "who", "")["message"]


def test_a_repl_that_is_busy_is_neither_waited_for_nor_disturbed(client):
    running = client.begin("tools/call", name="evaluate_code", arguments={"code": "input('?')", "detail": True})
    waiting = client.answer(running)["structuredContent"]
    assert waiting["status"] == "needs-input"
    assert complete(client, SYMBOL, "symbol", "string.hexd")["values"] == ["string.hexdigits"]
    given = client.call("send_input", evaluationId=waiting["evaluationId"], text="now", detail=True)
    assert (given["status"], given["result"]) == ("done", "'now'")


def test_a_repl_that_does_not_answer_is_not_waited_for_long(live):
    with speaking(live, MODERN) as client:
        number = int(client.call("evaluate_code", code="import os; os.getpid()", detail=True)["result"])
        with stopped(number):
            for argument in ("symbol", "namespace"):
                found = complete(client, SYMBOL, argument, "string.hexd")
                assert (found["hasMore"], "total" in found) == (True, False)
        assert complete(client, SYMBOL, "symbol", "string.hexd")["total"] == 1


def test_a_session_that_is_not_there_has_no_symbols(client):
    assert complete(client, SYMBOL, "symbol", "st", replSessionKey="none") == NOTHING


def test_text_beyond_any_name_is_not_looked_for(client):
    assert complete(client, SYMBOL, "symbol", "x" * 100_000)["values"] == []


def test_every_argument_of_every_prompt_and_template_is_known(client):
    prompts = {(prompt.name, argument) for prompt in PROMPTS for argument, _, _ in prompt.arguments}
    listed = client.ask("resources/templates/list")["resourceTemplates"]
    assert {ref for ref, _ in KINDS} == {template["uriTemplate"] for template in listed} | {name for name, _ in prompts}
    assert prompts <= KINDS.keys()


def test_what_begins_with_the_text_comes_before_what_holds_it():
    assert fitting(["xab", "Abc", "b", "abd"], "ab") == ["Abc", "abd", "xab"]
    assert fitting(["b", "a"], "") == ["b", "a"]
