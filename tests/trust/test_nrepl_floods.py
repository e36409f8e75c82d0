"""The memory used by the longest strings of an nREPL server, and how long they delay others."""

import json
import sys

import pytest
from anyio.from_thread import start_blocking_portal
from live_server import serving
from scripted_nrepl import scripted

from trust.test_kernel_floods import MAX_MIB, MAX_TIMES_LONGER, MIN_S, peak_mib, pings

CHARACTERS = 1 << 27

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc, which only Linux has")


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    """Run a server that is connected to a REPL with long answers."""
    text = "begins" + "v" * CHARACTERS + "ends"
    answers = {("eval", part): [{key: text}, {"status": ["done"]}] for part, key in KEYS.items()}
    folder = tmp_path_factory.mktemp("long")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(scripted(answers)) as repl,
        serving(folder, "--repl", "none", "--nrepl", str(repl.endpoint.port)) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    """Return a client of a server without a REPL."""
    with serving(tmp_path_factory.mktemp("idle"), "--repl", "none") as running, running.client() as client:
        yield client


KEYS = {"result": "value", "stdout": "out", "stderr": "err"}


@pytest.mark.parametrize("part", KEYS)
def test_only_head_and_tail_of_an_endless_string_are_retained(live, idle, part):
    with live.client() as client, live.client() as other:
        evaluation = client.begin_call("evaluate_code", code=part, timeoutMs=600_000)
        here, elsewhere = pings(client, other, idle)
        answer = client.answer(evaluation)["result"]["structuredContent"]
        assert answer["status"] == "done"
        assert "bytes of the REPL's output were dropped" in json.dumps(answer["notes"])
        requested = {"evaluationId": answer["evaluationId"], "part": part}
        head = other.call("get_evaluation", **requested, **{"from": 0, "length": 100})
        tail = other.call("get_evaluation", **requested, **{"from": head["totalCharacters"] - 100, "length": 100})
        assert head["text"].startswith("begins")
        assert tail["text"].endswith("ends")
        assert peak_mib(live) <= MAX_MIB
        assert here <= MAX_TIMES_LONGER * max(elsewhere, MIN_S)
