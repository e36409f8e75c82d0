"""Wrappers that record calls on the JVM: they hold a lease, and disappear if nobody renews it."""

import json
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from evaluations import evaluate
from lent_servers import POLL_S
from real_repls import repl

from codriver.core.requests import MAIN_SESSION, Request
from codriver.features.traces.nrepl_recording import PROGRAMS_BY_DIALECT, CallTraces
from codriver.features.traces.recording_request import RUN_REPLY_FIELD, RUN_REPORT, RecordingRequest
from codriver.repls import dialects
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.repls.contract.events import FeatureReport, Value
from codriver.repls.nrepl.nrepl_adapter import connect

pytestmark = pytest.mark.anyio

DEFINED = "(do (ns leased.shop) (defn price [x] (* 2 x)) (def begun (promise)) (def gate (promise)) (in-ns 'user))"
IS_PLAIN = '(.startsWith (.getName (class @(resolve (symbol "leased.shop/price")))) "leased.shop$price")'
IS_GONE = "(nil? (find-ns 'codriver.traces))"
LEASE_S = 2.0
"""Which a JVM on a busy machine does not lose unheard."""
KILLED = """
import sys
sys.path[:0] = {paths!r}
import anyio
from functools import partial
from codriver.core.requests import Request
from codriver.features.traces.recording_request import RecordingRequest
from codriver.features.traces.nrepl_recording import CallTraces
from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.repls.nrepl.nrepl_adapter import connect

hooks = AdapterHooks(around={{RecordingRequest: partial(CallTraces, lease_s=3)}})

async def main():
    async with connect(Endpoint.parse(sys.argv[1]), listener=lambda *_: None, hooks=hooks) as adapter:
        code = "(do (leased.shop/price 1) (deliver leased.shop/begun 1) (Thread/sleep 600000))"
        adapter.start_evaluation(Request("e1", code, extensions=(RecordingRequest(()),)), lambda _: None)
        await anyio.sleep_forever()

anyio.run(main)
"""


class Client:
    """An adapter, and the events it reported."""

    def __init__(self, adapter, events):
        self.adapter, self.events, self.number = adapter, events, 0

    async def value(self, code, trace=None, session=MAIN_SESSION):
        """Return the printed value of code."""
        self.number += 1
        request = Request(
            f"e{self.number}", code, session=session, extensions=() if trace is None else (RecordingRequest(trace),)
        )
        await evaluate(self.adapter, request)
        return [item.text for evaluation, item in self.events if evaluation == request.id and isinstance(item, Value)][
            -1
        ]

    async def becomes_true(self, code):
        with anyio.fail_after(60):
            while await self.value(code) != "true":
                await anyio.sleep(POLL_S)

    def runs(self):
        """Return the calls of each reported run with arguments, result and error, or why there are none."""
        reported = [json.loads(item.text) for _, item in self.events if isinstance(item, FeatureReport)]
        return [run.get("refused") or [call[5:8] for call in run["calls"]] for run in reported]


def killable(address):
    paths = [path for path in sys.path if Path(path, "codriver").is_dir()]
    return subprocess.Popen([sys.executable, "-c", KILLED.format(paths=paths), address])


@asynccontextmanager
async def client(lease_s=60.0):
    events = []
    endpoint = repl("jvm").endpoint
    hooks = AdapterHooks({RUN_REPLY_FIELD: RUN_REPORT}, {RecordingRequest: partial(CallTraces, lease_s=lease_s)})
    async with connect(endpoint, listener=lambda *message: events.append(message), hooks=hooks) as adapter:
        found = Client(adapter, events)
        await found.value(DEFINED)
        yield found
        await found.value("(remove-ns 'leased.shop)")


async def test_wrappers_disappear_when_their_server_is_killed_and_the_lease_expires():
    async with client() as item:
        server = killable(repl("jvm").address)
        try:
            assert await item.value("@leased.shop/begun") == "1"
            assert await item.value(IS_PLAIN) == "false"
        finally:
            server.kill()
            server.wait(60)
        await item.becomes_true(IS_PLAIN)
        await item.becomes_true(IS_GONE)


async def test_the_lease_is_renewed_during_a_run_and_then_everything_is_removed():
    async with client(LEASE_S) as item:
        assert await item.value(f"(do (Thread/sleep {1250 * LEASE_S:.0f}) (leased.shop/price 4))", ()) == "8"
        assert item.runs() == [[[["4"], "8", None]]]
        assert await item.value(IS_PLAIN) == "true"
        await item.becomes_true(IS_GONE)
        assert await item.value("(leased.shop/price 1)", ()) == "2"
        assert item.runs()[1:] == [[[["1"], "2", None]]]


async def test_two_concurrent_runs_share_wrappers_but_not_calls():
    async with client() as item, anyio.create_task_group() as tasks:
        await item.adapter.open_session("other")
        tasks.start_soon(item.value, "(do (deliver leased.shop/begun 1) @leased.shop/gate (leased.shop/price 1))", ())
        code = "(do @leased.shop/begun (leased.shop/price 2) (deliver leased.shop/gate 1) (leased.shop/price 3))"
        assert await item.value(code, ("leased.shop",), "other") == "6"
    assert sorted(item.runs(), key=len) == [[[["1"], "2", None]], [[["2"], "4", None], [["3"], "6", None]]]


async def test_a_definition_restored_during_a_run_loses_its_wrapper():
    def step(name):
        return dialects.CLOJURE.program_code("restore", hold="h1", step=name)

    async with client() as item:
        await item.adapter.open_session("other")
        await item.value(f"(do (require 'clojure.java.io) {dialects.CLOJURE.program_code('hold')})")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(item.value, "(do (deliver leased.shop/begun 1) @leased.shop/gate)", ())
            changed = "(intern 'leased.shop 'price (fn [x] x))"
            code = f"(do @leased.shop/begun {step('before')} {changed} {step('after')} (deliver leased.shop/gate 1) 1)"
            assert await item.value(code, None, "other") == "1"
        assert await item.value(step("restore")) == '"[]"'
        assert await item.value(f"[{IS_PLAIN} (leased.shop/price 4)]") == "[true 8]"


async def test_direct_linking_is_refused_with_an_explanation():
    async with client() as item:
        await item.value('(System/setProperty "clojure.compiler.direct-linking" "true")')
        try:
            assert await item.value("(leased.shop/price 4)", ()) == "8"
        finally:
            await item.value('(System/clearProperty "clojure.compiler.direct-linking")')
        (refused,) = item.runs()
        assert "direct linking" in refused


async def test_a_watched_var_is_not_wrapped():
    async with client() as item:
        await item.value("(add-watch #'leased.shop/price :w (fn [& _] (deliver leased.shop/begun :watched)))")
        assert await item.value("(leased.shop/price 4)", ()) == "8"
        assert (item.runs(), await item.value("(realized? leased.shop/begun)")) == ([[]], "false")


async def test_the_clojure_programs_compile_without_reflection():
    async with client() as item:
        await item.value("(remove-ns 'codriver.traces)")
        code = json.dumps(dialects.CLOJURE.fill_program(PROGRAMS_BY_DIALECT["clojure"]["install"]))
        binding = "[*err* said *warn-on-reflection* true]"
        text = f"(let [said (java.io.StringWriter.)] (binding {binding} (eval (read-string {code}))) (str said))"
        assert await item.value(text) == '""'
        await item.value("(remove-ns 'codriver.traces)")
