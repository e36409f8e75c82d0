"""How much memory a Jupyter kernel can use in the server, and how long it can delay others.

Delays are compared side by side: a ping of this server with a ping of one without a kernel, until the flood ends.
"""

import json
import os
import select
import sys
from pathlib import Path

import pytest
import real_kernels
from alike import rounds
from live_server import serving, until
from lying_kernel import LIES, lying_kernel
from needs import do_without

MAX_MIB = 200
MAX_OF_ONE_MIB = 150
"""While one print or display comes that is larger than what is left of this: 90 were measured."""
LARGE = 1 << 27
MAX_TIMES_LONGER = 12
"""How much longer than those of an idle server the pings of the flooded one may take together. One stall of seconds, as
there was before, is more than that; the chance by which a busy machine stops one process is not."""

MIN_S = 0.2
"""The pings of the idle server count as no shorter together."""

SECONDS = rounds(4, 1.5)
FLOODS = {
    "one print": f"print('begins' + 'y' * {LARGE} + 'ends')",
    "one display": f"display({{'text/plain': 'begins' + 'a' * {LARGE} + 'ends'}}, raw=True)",
    "prints without end": f"""
import time
over = time.time() + {SECONDS}
print("begins")
while time.time() < over: print("x" * 20_000)
print("ends")
""",
    "displays without end": f"""
import time
over = time.time() + {SECONDS}
display("begins")
while time.time() < over: display({{"text/plain": "a" * (1 << 20)}}, raw=True)
display("ends")
""",
}

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc, which only Linux has")


def peak_mib(live):
    """Return the peak memory of the server so far."""
    status = Path(f"/proc/{live.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@pytest.fixture(scope="module")
def idle(tmp_path_factory):
    """Return a client of a server without a kernel."""
    with serving(tmp_path_factory.mktemp("idle"), "--repl", "none") as running, running.client() as client:
        yield client


def pings(waits, *clients):
    """Measure each client's pings in turn until the answer that `waits` waits for arrives."""
    together = [0.0] * len(clients)
    while not select.select([waits.socket], [], [], 0)[0]:
        for number, client in enumerate(clients):
            began = os.times().elapsed
            assert client.request("ping")["result"] == {}
            together[number] += os.times().elapsed - began
    return together


def tail_of(client, requested):
    """Return the last characters of a part of an evaluation."""
    last = client.call("get_evaluation", **requested, **{"from": 0, "length": 1})["totalCharacters"] - 100
    return client.call("get_evaluation", **requested, **{"from": last, "length": 100})["text"]


# A real kernel


@pytest.fixture(scope="module")
def flooded(tmp_path_factory):
    """Run a server with its own ipykernel, so that each flood follows others."""
    if packages := real_kernels.missing("ipykernel"):
        do_without(f"the kernel is not installed: {packages}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{real_kernels.VENV / 'bin'}:{os.environ['PATH']}")
        patch.setenv("JUPYTER_PATH", str(real_kernels.VENV / "share" / "jupyter"))
        with serving(tmp_path_factory.mktemp("flooded"), "--repl", "jupyter") as live:
            with live.client() as client:
                assert client.call("evaluate_code", code="1", timeoutMs=120_000)["status"] == "done"
            yield live


@pytest.mark.parametrize("flood", FLOODS)
def test_a_flood_of_kernel_output_is_truncated_without_delaying_other_clients(flooded, idle, flood):
    with flooded.client() as client, flooded.client() as other:
        most = max(peak_mib(flooded), MAX_OF_ONE_MIB) if flood.startswith("one") else MAX_MIB
        evaluation = client.begin_call("evaluate_code", code=FLOODS[flood], timeoutMs=600_000)
        here, elsewhere = pings(client, other, idle)
        answer = client.answer(evaluation)["result"]["structuredContent"]
        assert answer["status"] == "done"
        reported = json.dumps(answer)
        # Where the machine is so busy that the kernel's own socket drops messages, the answer says so.
        is_dropped = "may be missing" in reported or "messages from the kernel were lost" in reported
        # Displays that come no faster than they are read are omitted by the limit of the values alone.
        is_left_out = "bytes of output were omitted" in reported or "of values before these were dropped" in reported
        assert is_left_out or is_dropped
        part = "stdout" if "print" in flood else "result"
        requested = {"evaluationId": answer["evaluationId"], "part": part}
        head = other.call("get_evaluation", **requested, **{"from": 0, "length": 100})
        # Of hundreds of values the oldest are dropped, as of any evaluation's.
        assert head["text"].startswith("begins") or flood == "displays without end"
        # Where its stream does not get rid of its prints in 10 s, the kernel says that it is idle before they come.
        until(lambda: tail_of(other, requested).rstrip("\n'").endswith("ends") or is_dropped, "the end")
        assert other.call("evaluate_code", code="1 + 1", timeoutMs=60_000)["result"] == "2"
        assert peak_mib(flooded) <= most
        assert here <= MAX_TIMES_LONGER * max(elsewhere, MIN_S)


# A kernel that lies


@pytest.fixture
def liar(tmp_path):
    """Run a server that is connected to a kernel that sends false messages."""
    with lying_kernel(tmp_path) as kernel, serving(tmp_path, "--repl", "none", "--kernel", str(kernel.file)) as live:
        with live.client() as client:
            assert client.call("evaluate_code", code="nothing", timeoutMs=60_000)["status"] == "done"
        yield live


@pytest.mark.parametrize("lie", LIES)
def test_a_malformed_kernel_message_uses_little_memory_and_the_next_evaluation_works(liar, idle, lie):
    with liar.client() as client, liar.client() as other:
        before = peak_mib(liar)
        evaluation = client.begin_call("evaluate_code", code=lie, timeoutMs=600_000)
        here, elsewhere = pings(client, other, idle)
        answer = client.answer(evaluation)["result"]["structuredContent"]
        assert answer["status"] == "done"
        assert "internal error in Codriver" not in json.dumps(answer)
        assert client.call("evaluate_code", code="nothing", timeoutMs=60_000)["status"] == "done"
        assert peak_mib(liar) - before < 100
        assert here <= MAX_TIMES_LONGER * max(elsewhere, MIN_S)


@pytest.mark.parametrize(
    ("lie", "why"), [("deep", "more than 100 levels deep"), ("many elements", "more than 300,000 elements")]
)
def test_an_oversized_message_is_reported_with_its_reason(liar, lie, why):
    with liar.client() as client:
        answer = client.call("evaluate_code", code=lie, timeoutMs=60_000)
        assert why in json.dumps(answer["notes"])


def test_endless_documentation_from_a_kernel_is_truncated(liar, idle):
    with liar.client() as client, liar.client() as other:
        before = peak_mib(liar)
        requested = client.begin_call("symbol_info", symbol="x")
        here, elsewhere = pings(client, other, idle)
        answer = client.answer(requested)["result"]["structuredContent"]
        assert len(json.dumps(answer)) < 100_000
        assert peak_mib(liar) - before < 100
        assert here <= MAX_TIMES_LONGER * max(elsewhere, MIN_S)
