"""A flood of small messages is merged without changing its content, and does not delay others."""

from itertools import count, groupby, pairwise

import anyio
import pytest
from evaluations import evaluate
from hypothesis import given
from hypothesis import strategies as st
from scripted_nrepl import scripted

from codriver.core.requests import Form, Request
from codriver.errors import ReplDisconnectedError
from codriver.net import cooperative_turns
from codriver.net.tcp_transport import TcpTransport
from codriver.repls.contract.events import Output, Value
from codriver.repls.nrepl.connection import DECODED_SLICE_BYTES, NreplConnection, join_output
from codriver.repls.nrepl.nrepl_adapter import connect
from codriver.wire.bencode import encode

LINES = 20_000
PIECES = 40

OUTPUT = st.builds(
    lambda stream, text, identity, session: {stream: text, "id": identity, "session": session},
    st.sampled_from(["out", "err"]),
    st.text("ab\n", max_size=3),
    st.sampled_from(["1", "2"]),
    st.sampled_from(["s", "t"]),
)
OTHER = st.sampled_from(
    [
        {"id": "1", "value": "3"},
        {"id": "1", "out": "x", "status": ["done"]},
        {"id": "1", "out": "x", "err": "y"},
        {"id": "1", "out": b"\xe6"},
        {"out": "nobody's"},
        [],
        7,
    ]
)


def address(value):
    """Return the evaluation and stream that an output belongs to; None for other messages."""
    if not isinstance(value, dict) or {"out", "err"}.isdisjoint(value) or len(value.keys() - {"id", "session"}) != 1:
        return None
    stream = "out" if "out" in value else "err"
    return (stream, value.get("id"), value.get("session")) if isinstance(value[stream], str) else None


def spoken(values):
    """Return the values in order, with the texts of consecutive output merged."""
    received = []
    for whose, run in groupby(values, address):
        texts = list(run)
        received += texts if whose is None else [(whose, "".join([value[whose[0]] for value in texts]))]
    return received


@given(st.lists(OUTPUT | OTHER, max_size=30))
def test_adjacent_output_messages_are_merged_without_changing_their_content(values):
    found = list(join_output(values))
    assert spoken(found) == spoken(values)
    assert len(found) == len(spoken(values))


def test_merging_output_does_not_modify_the_original_messages():
    first, second = {"id": "1", "out": "a"}, {"id": "1", "out": "b"}
    assert list(join_output([first, second])) == [{"id": "1", "out": "ab"}]
    assert (first, second) == ({"id": "1", "out": "a"}, {"id": "1", "out": "b"})


@pytest.mark.anyio
async def test_other_tasks_run_while_a_flood_of_output_is_received_without_loss():
    texts = [f"line {number}\n" for number in range(LINES)]
    flood = b"".join([encode({"out": text}) for text in texts])
    events, turns = [], []

    async def count_turns():
        while True:
            turns.append(len(events))
            await anyio.lowlevel.checkpoint()

    async with (
        scripted({("eval", "flood"): [flood, {"value": "nil"}, {"status": ["done"]}]}) as server,
        connect(server.endpoint, listener=lambda _, event: events.append(event)) as adapter,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(count_turns)
        with anyio.fail_after(60):
            ending = await evaluate(adapter, Request("e", "flood", forms=(Form("flood", 1, 1),)))
        tasks.cancel_scope.cancel()
    assert ending.status == "done"
    assert isinstance(events[-1], Value)
    output = [event for event in events if isinstance(event, Output)]
    assert "".join(event.text for event in output) == "".join(texts)
    # One read of the socket returns far more than a tenth of the flood.
    assert len({seen for seen in turns if 0 < seen < len(events)}) > 10, "nobody had a turn before all was filed"


@pytest.mark.anyio
async def test_the_time_limit_for_handling_messages_spans_several_received_chunks(monkeypatch):
    looks = count()
    monkeypatch.setattr(cooperative_turns, "perf_counter", lambda: next(looks) * cooperative_turns.MAX_TURN_S / 5)
    transport, filed, seen = TcpTransport(), [], []
    connection = NreplConnection(transport, filed.append)
    # So little of each chunk is parsed between two checks of the clock that the chunk ends before the turn does.
    messages = DECODED_SLICE_BYTES * 2 // 1000
    for _ in range(PIECES):
        transport.on_bytes(encode({"value": "x" * 1000}) * messages)
    transport.lost(None)

    async def count_turns():
        while len(filed) < PIECES * messages:
            seen.append(len(filed))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as tasks_here:
        tasks_here.start_soon(count_turns)
        await connection.read()
    assert len(filed) == PIECES * messages
    longest = max(after - before for before, after in pairwise([0, *seen, len(filed)]))
    assert longest <= 4 * messages, f"{longest} of {len(filed)} messages were filed in one turn"


@pytest.mark.anyio
async def test_complete_messages_before_invalid_bytes_are_still_handled():
    texts = [f"line {number}\n" for number in range(500)]
    broken = b"".join([encode({"out": text}) for text in texts]) + b"x"
    events = []
    async with (
        scripted({("eval", "broken"): [broken]}) as server,
        connect(server.endpoint, listener=lambda _, event: events.append(event)) as adapter,
    ):
        with anyio.fail_after(60), pytest.raises(ReplDisconnectedError):
            await evaluate(adapter, Request("e", "broken", forms=(Form("broken", 1, 1),)))
    assert "".join(event.text for event in events) == "".join(texts)
