"""Streams of an application in an external REPL: frames arrive as late output and become events."""

import json
from contextlib import asynccontextmanager

import anyio
import pytest
from real_repls import fresh

import codriver_seam
from codriver.core.requests import Request
from codriver.features.applications.event_frames import EVENTS_REPORT
from codriver.features.applications.seam import Seam
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.repls.contract.events import Ending, FeatureReport, Output
from codriver.repls.nrepl.connection import MAX_LINGERING_REQUESTS
from codriver.repls.nrepl.nrepl_adapter import connect

pytestmark = pytest.mark.anyio

INSTALL = {
    "basilisp": "(do (import codriver_seam) (codriver_seam/install true))",
    "hy": "(do (import codriver_seam) (codriver_seam.install True))",
}
EMIT = {
    "basilisp": '(.emit (python/__import__ "codriver_seam") "fx" "%s")',
    "hy": '(.emit (__import__ "codriver_seam") "fx" "%s")',
}
PRINT = {"basilisp": '(do (.write *out* "%s") (flush))', "hy": '(print "%s" :end "")'}


@pytest.fixture(scope="module", params=["basilisp", "hy"])
def server(request):
    with fresh(request.param) as running:
        yield running


HOOKS = AdapterHooks(companions=(Seam.attach,))


class Hearing:
    """Records what a listener receives: event lines and printed output."""

    def __init__(self):
        self.lines, self.printed, self.frames = [], "", []
        self._news = anyio.Event()

    def __call__(self, _evaluation, event):
        if isinstance(event, FeatureReport) and event.name == EVENTS_REPORT:
            frame = json.loads(event.text)
            self.frames.append(frame)
            self.lines += [row["line"] for row in frame["events"]]
        elif isinstance(event, Output):
            self.printed += event.text
        self._news.set()

    async def until(self, holds):
        with anyio.fail_after(60):
            while not holds():
                self._news = anyio.Event()
                await self._news.wait()


@asynccontextmanager
async def connected(server):
    hearing = Hearing()
    async with connect(server.endpoint, listener=hearing, hooks=HOOKS) as adapter:
        for request in (
            Request("1", "", file=codriver_seam.__file__, kind="load-file"),
            Request("2", INSTALL[server.name]),
        ):
            assert (await evaluate(adapter, request)).status == "done"
        yield adapter, hearing


async def evaluate(adapter, request):
    over, endings = anyio.Event(), []

    def ended(how):
        endings.append(how)
        over.set()

    adapter.start_evaluation(request, ended)
    with anyio.fail_after(60):
        await over.wait()
    assert isinstance(endings[0], Ending), endings
    return endings[0]


async def query(adapter, accessor, **arguments):
    return json.loads(await adapter.companion(Seam).call(accessor, json.dumps(arguments)))


def second_words(hearing):
    return [line.split()[2] for line in hearing.lines]


async def test_events_are_received_throughout_a_subscription_even_during_other_requests(server):
    async with connected(server) as (adapter, hearing):
        answer = await query(adapter, "subscribe", topic="fx")
        assert answer["ok"], answer
        await evaluate(adapter, Request("3", EMIT[server.name] % "first"))
        await hearing.until(lambda: second_words(hearing) == ["first"])
        # Basilisp's server takes ten times as long for each.
        for _ in range(MAX_LINGERING_REQUESTS + 10 if server.name == "hy" else 20):
            await query(adapter, "health")
        await evaluate(adapter, Request("4", EMIT[server.name] % "second"))
        await hearing.until(lambda: second_words(hearing) == ["first", "second"])
        assert hearing.printed == ""
        assert {frame["sub"] for frame in hearing.frames} == {answer["subId"]}
        assert (await query(adapter, "unsubscribe", subId=answer["subId"]))["existed"] is True
        assert (await query(adapter, "subscriptions"))["count"] == 0
        await evaluate(adapter, Request("5", EMIT[server.name] % "third"))
        assert second_words(hearing) == ["first", "second"]


async def test_an_event_frame_printed_by_the_program_itself_is_ordinary_output(server):
    async with connected(server) as (adapter, hearing):
        answer = await query(adapter, "subscribe", topic="error")
        frame = json.dumps({"sub": answer["subId"], "events": []}).replace('"', '\\"')
        await evaluate(adapter, Request("3", PRINT[server.name] % ("\\u001e" + frame + "\\n")))
        await hearing.until(lambda: "\x1e{" in hearing.printed)
        assert hearing.frames == []
        await query(adapter, "unsubscribe", subId=answer["subId"])


async def test_a_refused_subscription_leaves_nothing_behind(server):
    async with connected(server) as (adapter, _):
        refused = await query(adapter, "subscribe", topic="nonsense")
        assert refused["reason"] == "unknown-topic"
        assert (await query(adapter, "subscriptions"))["count"] == 0


async def test_the_subscriptions_of_a_disconnected_client_are_forgotten(server):
    async with connected(server) as (adapter, _):
        assert (await query(adapter, "subscribe", topic="fx", leaseS=1))["ok"]
    async with connected(server) as (adapter, hearing):
        with anyio.fail_after(60):
            while (await query(adapter, "subscriptions"))["count"]:
                await evaluate(adapter, Request("3", EMIT[server.name] % "anybody"))
        assert hearing.frames == []
