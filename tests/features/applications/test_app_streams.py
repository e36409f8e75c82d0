"""Streams of application events: renewed while both ends exist, and ended with their client."""

import contextlib
import json

import anyio
import pytest
from worker_client import Repl

from codriver.core.actions import AddRepl, ClientConnected, ClientDisconnected, ReplConnected, ReplLost, RestartRepl
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.state import Lifecycle, Origin, State
from codriver.features.applications.app_log import AppLog
from codriver.features.applications.app_streams import AppStream, AppStreams
from codriver.features.applications.seam import Seam
from codriver.log.output_log import OutputLog
from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.repls.nrepl.nrepl_adapter import connect
from codriver.settings.model import Settings

pytestmark = pytest.mark.anyio

PROFILE = Profile(dialect="python", capabilities={"evaluate": Capability("eval"), "seam": Capability("x")})
FIRST = AppStream("s1-a", "r1", 1, "c1", "ann", "error")
SECOND = AppStream("s2-a", "r1", 1, "c2", "bob", "trace")


class Server:
    """A core with two clients, a REPL, and an application that has the streams named in `existing`."""

    def __init__(self, tasks):
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(EFFECTS, [].append),
        )
        self.core.report(ClientConnected("c1"), ClientConnected("c2"))
        self.core.report(AddRepl("r1", "py", Origin("address", "x:1"), "x:1"), ReplConnected("r1", PROFILE, "x:1"))
        self.log = AppLog(OutputLog().allocate_line)
        self.existing = {FIRST.id, SECOND.id}
        self.queries = []
        self.streams = AppStreams(self.core, self.log, tasks, self.query)

    async def query(self, repl, accessor, arguments):
        await anyio.lowlevel.checkpoint()
        self.queries.append((repl, accessor, json.loads(arguments)))
        return json.dumps({"ok": True, "subs": [{"id": item} for item in self.existing]})

    async def until(self, holds):
        with anyio.fail_after(30):
            while not holds():
                await anyio.lowlevel.checkpoint()

    @property
    def renewals(self):
        return [arguments["renew"] for _, accessor, arguments in self.queries if accessor == "subscriptions"]

    @property
    def ended(self):
        """Return the streams that were ended in the application."""
        return [arguments["subId"] for _, accessor, arguments in self.queries if accessor == "unsubscribe"]

    @property
    def endings(self):
        return [row["text"] for row in self.log.entries(limit=10)]


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr("codriver.features.applications.app_streams.RENEWAL_INTERVAL_S", 0)
    async with anyio.create_task_group() as tasks:
        yield Server(tasks)
        tasks.cancel_scope.cancel()


async def test_a_stream_is_renewed_until_the_application_reports_it_as_unknown(server):
    server.streams.start(FIRST)
    await server.until(lambda: len(server.renewals) >= 3)
    assert server.renewals[0] == [FIRST.id]
    assert server.streams.active() == [FIRST]
    server.existing.clear()
    await server.until(lambda: server.endings)
    assert server.streams.active() == []
    [text] = server.endings
    assert text == (
        "s1-a (error) of ann ended because the application ended the stream. Call watch_app again once the "
        "application is running"
    )


@pytest.mark.parametrize(("topic", "op"), [("error", "error"), ("trace", "stream"), ("calls", "call")])
async def test_the_end_of_a_stream_is_recorded_as_an_event_of_its_topic(server, topic, op):
    server.streams.start(AppStream("s1", "r1", 1, "c1", "ann", topic))
    server.core.report(ReplLost("r1", "gone"))
    [row] = server.log.entries(limit=10)
    assert (row["op"], row["name"]) == (op, "stream-over")
    assert row["text"] == (
        f"s1 ({topic}) of ann ended because the REPL py is lost (gone). Call watch_app again once the application is "
        "running"
    )


async def test_a_stream_ends_with_its_connection_and_is_not_restored_after_a_reconnect(server):
    server.streams.start(FIRST)
    server.core.report(ReplLost("r1", "gone"))
    assert len(server.endings) == 1
    server.core.report(ReplConnected("r1", PROFILE, "x:1"))
    assert server.streams.active() == []
    server.queries.clear()
    await anyio.wait_all_tasks_blocked()
    assert server.queries == []


async def test_a_restart_ends_only_streams_of_a_restartable_repl(server):
    server.streams.start(FIRST)
    server.core.report(RestartRepl("r1", "for a test"))
    assert server.streams.active() == [FIRST]
    server.core.report(AddRepl("r2", "own", Origin("process", "python")), ReplConnected("r2", PROFILE, "x:2"))
    server.streams.start(AppStream("s1-b", "r2", 1, "c1", "ann", "fx"))
    server.core.report(RestartRepl("r2", "for a test"))
    assert server.endings == [
        "s1-b (fx) of ann ended because the REPL own restarts. Call watch_app again once the application is running"
    ]
    assert server.streams.active() == [FIRST]


async def test_a_disconnected_client_ends_only_its_own_streams(server):
    server.streams.start(FIRST)
    server.streams.start(SECOND)
    server.core.report(ClientDisconnected("c1"))
    assert server.streams.active() == [SECOND]
    await server.until(lambda: server.ended)
    assert (server.ended, server.endings) == ([FIRST.id], [])


async def test_a_stream_that_starts_after_its_client_disconnected_is_ended(server):
    server.streams.start(FIRST)
    server.core.report(ClientDisconnected("c2"))
    server.streams.start(SECOND)
    assert server.streams.active() == [FIRST]
    await server.until(lambda: server.ended)
    assert server.ended == [SECOND.id]


async def test_a_stopped_stream_is_not_renewed(server):
    server.streams.start(FIRST)
    server.streams.remove(FIRST)
    await anyio.wait_all_tasks_blocked()
    assert server.queries == []


async def test_the_core_is_observed_only_while_there_are_event_streams(server):
    assert server.core._observers == ()
    server.streams.start(FIRST)
    server.streams.start(SECOND)
    assert len(server.core._observers) == 1
    server.core.report(ClientDisconnected("c1"), ClientDisconnected("c2"))
    assert server.core._observers == ()


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    with contextlib.closing(Repl(tmp_path_factory.mktemp("app"))) as repl:
        repl.connect()
        repl.evaluate("import codriver_seam as seam; seam.install(True)")
        repl.socket.close()
        yield repl


async def test_an_application_in_a_worker_answers_renewals_and_ends_streams(server, worker):
    hooks = AdapterHooks(companions=(Seam.attach,))
    async with connect(Endpoint("127.0.0.1", worker.port), listener=lambda *_: None, hooks=hooks) as adapter:
        seam = adapter.companion(Seam)
        assert seam is not None

        async def query(_repl, accessor, arguments):
            server.queries.append((_repl, accessor, json.loads(arguments)))
            return await seam.call(accessor, arguments)

        server.streams._query = query
        answer = json.loads(await seam.call("subscribe", json.dumps({"topic": "fx", "leaseS": 600})))
        stream = AppStream(answer["subId"], "r1", 1, "c1", "ann", "fx")
        server.streams.start(stream)
        await server.until(lambda: len(server.renewals) >= 2)
        assert server.streams.active() == [stream]
        await seam.call("unsubscribe", json.dumps({"subId": stream.id}))
        await server.until(lambda: server.endings)
        assert server.streams.active() == []
