"""A REPL that has become unreachable is detected, even if the connection to something in between is alive."""

from contextlib import asynccontextmanager

import anyio
import pytest
import real_repls
from evaluations import evaluate
from scripted_nrepl import scripted

from codriver.core.requests import Request
from codriver.errors import ReplDisconnectedError
from codriver.repls.nrepl.heartbeat import Heartbeat
from codriver.repls.nrepl.nrepl_adapter import connect

pytestmark = pytest.mark.anyio
QUICK = Heartbeat(silence_s=0.05, answer_s=0.2)
PATIENT = Heartbeat(silence_s=0.05, answer_s=20)
"""For a REPL that is to be kept, however late its answers come."""
VALUE, DONE = {"value": "3", "ns": "user"}, {"status": ["done"]}


@asynccontextmanager
async def watched(endpoint, beat=QUICK, listener=lambda _evaluation, _event: None):
    with anyio.fail_after(60):
        async with connect(endpoint, listener=listener, beat=beat) as opened:
            yield opened


class Tunnel:
    """Forwards bytes to a REPL until it is told to drop them."""

    def __init__(self, endpoint):
        self.endpoint = endpoint
        self.swallows = False
        self.port = None

    async def serve(self, client):
        repl = await anyio.connect_tcp(self.endpoint.host, self.endpoint.port)
        async with client, repl, anyio.create_task_group() as tasks:
            tasks.start_soon(self.pump, client, repl, tasks.cancel_scope)
            tasks.start_soon(self.pump, repl, client, tasks.cancel_scope)

    async def pump(self, source, target, scope):
        try:
            async for data in source:
                if not self.swallows:
                    await target.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        scope.cancel()


@asynccontextmanager
async def tunnel(endpoint):
    made = Tunnel(endpoint)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        made.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, made.serve)
        yield made
        tasks.cancel_scope.cancel()


async def test_a_silent_repl_is_pinged_and_kept_while_it_answers():
    async with scripted() as server, watched(server.endpoint, PATIENT) as opened:
        while len(server.seen("describe")) < 4:
            await anyio.sleep(0.01)
        assert opened._main.connection.cause is None


async def test_a_repl_that_stops_answering_is_lost_with_a_reason():
    async with scripted() as server, watched(server.endpoint) as opened:
        server.answers["describe"] = []
        assert "no longer answers" in await opened.wait_closed()
        with pytest.raises(ReplDisconnectedError, match="silent for"):
            await evaluate(opened, Request("e", "code"))


async def test_a_single_threaded_repl_is_not_pinged_while_it_works():
    requests = []

    def listener(_evaluation, _event):
        requests.append(len(server.seen("describe")))

    async with (
        scripted({("eval", "code"): [1, VALUE, DONE]}) as server,
        watched(server.endpoint, PATIENT, listener) as opened,
        anyio.create_task_group() as tasks,
    ):

        async def go_silent():
            while not any(request.get("code") == "code" for request in server.seen("eval")):
                await anyio.lowlevel.checkpoint()
            server.answers["describe"] = []
            requests.append(len(server.seen("describe")))

        tasks.start_soon(go_silent)
        assert (await evaluate(opened, Request("e", "code"))).status == "done"
        assert requests[0] == requests[1], "it was asked while it worked"


async def test_a_broken_tunnel_is_detected_and_its_evaluation_reported_as_lost():
    async with (
        tunnel(real_repls.repl("python").endpoint) as way,
        watched(real_repls.Endpoint("127.0.0.1", way.port), Heartbeat(0.2, 1.0)) as opened,
    ):
        way.swallows = True
        with pytest.raises(ReplDisconnectedError, match="no longer answers"):
            await evaluate(opened, Request("e", "import time\ntime.sleep(30)"))


async def test_a_busy_repl_behind_a_working_tunnel_is_kept():
    async with (
        tunnel(real_repls.repl("python").endpoint) as way,
        watched(real_repls.Endpoint("127.0.0.1", way.port), Heartbeat(0.1, 5.0)) as opened,
    ):
        assert (await evaluate(opened, Request("e", "import time\ntime.sleep(1)"))).status == "done"
        assert opened._main.connection.cause is None


def test_the_defaults_detect_a_silent_repl_within_half_a_minute():
    assert Heartbeat().silence_s + Heartbeat().answer_s < 30
