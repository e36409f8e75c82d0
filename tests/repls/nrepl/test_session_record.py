"""Sessions opened in the user's REPL are closed at the end or by the next server, and no others."""

import json
import stat
from contextlib import asynccontextmanager
from uuid import uuid4

import anyio
import pytest
from cutting_proxy import cutting_proxy
from real_repls import repl
from scripted_nrepl import scripted

from codriver.core.requests import Request
from codriver.repls.contract.endpoints import Endpoint
from codriver.repls.nrepl import opened_sessions
from codriver.repls.nrepl.connection import open_connection
from codriver.repls.nrepl.nrepl_adapter import connect
from codriver.repls.nrepl.opened_sessions import MAX_CLOSE_FAILURES, OpenedSessions
from codriver.repls.nrepl.session_record import MAX_REPLS, MAX_SESSIONS, SessionRecord

pytestmark = pytest.mark.anyio
TIMES = {"connect_timeout_s": 5, "op_timeout_s": 5}
FOREVER = "(do (print 1) (flush) (deref (promise)))"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state" / "repl-sessions.json"


@pytest.fixture
def record(path):
    return SessionRecord(path)


def read_record(path):
    return json.loads(path.read_text()) if path.exists() else {}


def nobody(*_):
    """Ignore all events."""


@asynccontextmanager
async def asking(endpoint):
    """Return a function that sends an nREPL server a request as another client would, and returns the fields of its
    answer.
    """
    connection = await open_connection(endpoint, nobody, timeout_s=5)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connection.read)

        async def send(op, **fields):
            messages = await connection.request(op, timeout_s=30, **fields)
            return {key: value for message in messages for key, value in message.fields.items()}

        yield send
        await connection.close()


@pytest.fixture(params=["jvm", "python"])
async def real(request):
    """Return the endpoint of a REPL whose user has a session, and a function that returns all other sessions."""
    endpoint = repl(request.param).endpoint
    async with asking(endpoint) as send:
        theirs = (await send("clone"))["new-session"]
        before = set((await send("ls-sessions"))["sessions"])
        assert theirs in before

        async def others():
            now = set((await send("ls-sessions"))["sessions"])
            assert before <= now, "somebody's own session was closed"
            return now - before

        yield endpoint, others
        await send("close", session=theirs)


async def settled(others, count):
    """Wait until there are `count` sessions."""
    with anyio.fail_after(30):
        while len(await others()) != count:
            await anyio.sleep(0.01)


async def test_sessions_are_closed_even_if_the_connection_is_cancelled(real, record, path):
    endpoint, others = real
    with anyio.CancelScope() as scope:
        async with connect(endpoint, listener=nobody, record=record) as adapter:
            await adapter.open_session("one")
            await adapter.open_session("two")
            assert len(await others()) == 3
            assert len(read_record(path)[str(endpoint)]) == 3
            scope.cancel()
            await anyio.sleep_forever()
    assert (await others(), read_record(path)) == (set(), {})


async def test_the_next_connection_closes_only_sessions_left_by_a_killed_server(real, record, path):
    endpoint, others = real
    async with asking(endpoint) as send:
        left = [(await send("clone"))["new-session"] for _ in range(3)]
        for session in left[:2]:
            await record.record_opened(str(endpoint), session)
        await record.record_opened("elsewhere:1", left[2])
    async with connect(endpoint, listener=nobody, record=SessionRecord(path)):
        await settled(others, 2)  # the session of the connection, and the one that is not recorded for this address
        assert left[2] in await others()
    assert await others() == {left[2]}
    assert read_record(path) == {"elsewhere:1": [left[2]]}
    async with asking(endpoint) as send:
        await send("close", session=left[2])


async def test_two_connections_to_one_repl_do_not_close_each_others_sessions(real, record):
    endpoint, others = real
    async with connect(endpoint, listener=nobody, record=record) as item:
        await item.open_session("mine")
        async with connect(endpoint, listener=nobody, record=record) as two:
            await two.open_session("mine")
            assert len(await others()) == 4
        assert len(await others()) == 2
    assert await others() == set()


@pytest.mark.parametrize("real", ["jvm"], indirect=True)
async def test_the_next_connection_closes_all_but_busy_sessions_of_a_broken_connection(real, record, path):
    endpoint, others = real
    with cutting_proxy(f"nrepl://{endpoint}") as (proxy, _):
        near, runs = Endpoint("127.0.0.1", proxy.port), anyio.Event()
        async with connect(near, listener=lambda *_: runs.set(), record=record) as adapter:
            await adapter.open_session("busy")
            idle = set(read_record(path)[str(near)])
            adapter.start_evaluation(Request("e1", FOREVER, "busy"), nobody)
            await runs.wait()
            proxy.cut()
            await adapter.wait_closed()
        async with connect(near, listener=nobody, record=record):
            await settled(others, 2)  # the session of the connection, and the one in which code runs
            idle -= set(await others())
            assert len(idle) == 1
    assert (await others(), read_record(path)) == (set(), {})


async def test_a_session_id_that_is_not_unique_is_not_recorded(record, path):
    await record.record_opened("x:1", "3")
    await record.record_opened("x:1", "user-session")
    assert read_record(path) == {}


async def test_sessions_of_processes_that_codriver_started_are_not_recorded(path):
    await SessionRecord(path, is_used=lambda address: address == "x:1").record_opened("x:1", str(uuid4()))
    assert read_record(path) == {}


@pytest.mark.parametrize("content", ["", "[]", '{"x:1": 3}', '{"x:1": ["3", null]}', "{" * 99, "\0"])
async def test_an_unreadable_record_closes_no_session(path, content):
    path.parent.mkdir()
    path.write_text(content)
    path.chmod(0o600)
    assert await SessionRecord(path).sessions_to_close("x:1", with_busy=True) == ()


async def test_a_record_writable_by_others_closes_no_session(path):
    path.parent.mkdir()
    path.write_text(json.dumps({"x:1": [str(uuid4())]}))
    path.chmod(0o666)
    assert await SessionRecord(path).sessions_to_close("x:1", with_busy=True) == ()


async def test_the_record_is_private_and_limited_in_size(record, path):
    for number in range(MAX_REPLS + 2):
        await record.record_opened(f"x:{number}", str(uuid4()))
    for _ in range(MAX_SESSIONS + 2):
        await record.record_opened("x:1000", str(uuid4()))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert (len(read_record(path)), len(read_record(path)["x:1000"])) == (MAX_REPLS, MAX_SESSIONS)
    assert "x:0" not in read_record(path)


async def test_an_unwritable_record_does_not_affect_evaluations(tmp_path):
    (tmp_path / "state").write_text("a file where the folder should be")
    record = SessionRecord(tmp_path / "state" / "repl-sessions.json")
    clone = {"clone": [{"new-session": str(uuid4()), "status": ["done"]}]}
    async with scripted(clone) as server:
        async with connect(server.endpoint, listener=nobody, record=record, **TIMES):
            assert server.seen("clone")
        assert server.seen("close")


async def close_sessions(record, closing, monkeypatch, **durations):
    """Return how many of six sessions a server that closes them this way was asked to close, and how many stay
    recorded.
    """
    for name, value in durations.items():
        monkeypatch.setattr(opened_sessions, name, value)
    async with scripted({"close": closing}) as server, anyio.create_task_group() as tasks:
        connection = await open_connection(server.endpoint, nobody, timeout_s=60)
        tasks.start_soon(connection.read)
        opened = OpenedSessions("x:1", record)
        for _ in range(6):
            server.answers["clone"] = [{"new-session": str(uuid4()), "status": ["done"]}]
            await opened.clone(connection, timeout_s=60)
        await opened.close_all(None, busy=())
        await connection.close()
    return len(server.seen("close")), len(await record.sessions_to_close("x:1", with_busy=True))


async def test_closing_all_sessions_waits_for_a_busy_server(record, monkeypatch):
    closed = {"status": ["done", "session-closed"]}
    assert opened_sessions.CLOSE_TIMEOUT_S > 0.35
    assert await close_sessions(record, [0.35, closed], monkeypatch, CLOSE_TIMEOUT_S=60) == (6, 0)


async def test_a_hung_server_does_not_receive_a_close_request_for_every_session(record, monkeypatch):
    assert await close_sessions(record, [], monkeypatch, CLOSE_TIMEOUT_S=0.05) == (MAX_CLOSE_FAILURES, 6)
