"""Late answers of a REPL to a finished evaluation are logged and change no result."""

import contextlib

import pytest
from anyio.from_thread import start_blocking_portal
from live_server import serving, until, until_connected
from scripted_nrepl import scripted

DONE = {"status": ["done"]}


def value(text):
    return {"value": text, "ns": "user"}


@pytest.mark.parametrize(
    "steps",
    [
        [(value("1"), DONE, value("2"))],
        [(value("1"), DONE, {"ex": "late"}, value("2"), {"status": ["eval-error", "done"]})],
        [(value("1"), {"status": ["done", "done"]}, DONE, value("2"))],
        [value("1"), DONE, 0.2, value("2")],
    ],
    ids=["in the same packet", "with a failure", "after two ends", "later"],
)
def test_a_late_value_is_logged_and_not_in_the_result(tmp_path, steps):
    answers = {("eval", "(f)"): steps}
    with contextlib.ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        server = stack.enter_context(portal.wrap_async_context_manager(scripted(answers)))
        live = stack.enter_context(serving(tmp_path, "--nrepl", f"n={server.endpoint}", "--repl", "none"))
        with live.client() as client:
            until_connected(client)
            answer = client.call("evaluate_code", code="(f)")
            assert (answer["ok"], answer["status"], answer["result"]) == (True, "done", "1")
            assert "values" not in answer
            late = until(lambda: logged(client, answer["evaluationId"], "otherOutput"), "the late value")
            assert late == ["a value was received after the evaluation had finished, so it is not in the result: 2"]
            assert logged(client, answer["evaluationId"], "evaluationResults") == ["1"]
            again = client.call("get_evaluation", evaluationId=answer["evaluationId"])
            assert (again["status"], again["result"]) == ("done", "1")


def logged(client, evaluation, category):
    rows = client.call("repl_output_log", category=[category])["result"]
    return [row["text"] for row in rows if row.get("evaluation") == evaluation]
