"""A REPL protocol is one connector in the table that a server is built with. Nothing else knows about it."""

import pytest

pytestmark = pytest.mark.served("memory")


def test_a_repl_of_an_added_protocol_is_found_by_its_port_file(live, client):
    (row,) = client.call("list_sessions")["sessions"]
    assert (row["key"], row["dialect"], row["address"]) == ("mem", "memory", live.repl.address)


def test_code_is_evaluated_end_to_end_through_an_added_connector(client):
    answer = client.call("evaluate_code", code='(println "hi") (def x 40) (+ x 2)', who="me")
    assert (answer["result"], answer["stdout"]) == ("42", "hi\n")
    failed = client.call("evaluate_code", code="(+ 1 2)\n(/ 1 0)", who="me")
    assert failed["error"]["class"] == "ZeroDivisionError"


def test_an_evaluation_over_an_added_connector_can_be_interrupted(client):
    began = client.call("evaluate_code", code="(wait)", timeoutMs=1000)
    assert began["status"] == "running"
    ended = client.call("interrupt_evaluation", evaluationId=began["evaluationId"])
    assert (ended["ok"], ended["status"]) == (True, "interrupted")


def test_a_missing_capability_is_refused_with_the_hint_of_its_profile(client):
    answer = client.call("run_tests", who="me")
    assert answer["hint"] == "this REPL is for tests, and runs none"
