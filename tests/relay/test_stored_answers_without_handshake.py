"""Clients without a handshake are also answered from the cache, and their streams report a different list."""

import contextlib
import json
import os
import sys

import anyio
import anyio.to_thread
import posix_only
import pytest
from live_server import WAIT_S, until
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import SubscriptionLost, ToolsListChanged
from mcp_types import Implementation

from relay.cold_server import CLIENT, GREETING, INITIALIZE, QUESTION, TOOLS, rewrite, stored_entry
from relay.relay_process import LIST_CHANGED, RELAY, answer, request

META = "io.modelcontextprotocol/"
ENVELOPE = {META + "protocolVersion": "2026-07-28", META + "clientInfo": CLIENT, META + "clientCapabilities": {}}
DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete", "ttlMs": 0}
LISTED = {**TOOLS, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
KEPT = {"protocol": "2026-07-28", "greeting": DISCOVERED, "tools": LISTED}
DISCOVER = request("first", "server/discover", _meta=ENVELOPE)
LIST = request(7, "tools/list", _meta={**ENVELOPE, "progressToken": 1, META + "logLevel": "debug"})
LIST_AGAIN = {**QUESTION, "id": "codriver-relay-stateless-list", "params": {"_meta": ENVELOPE}}
LISTEN = request("listen-1", "subscriptions/listen", _meta=ENVELOPE, notifications={"toolsListChanged": True})


def listed(cold):
    """Return a relay whose client was answered while there is no server."""
    relay = cold.relay()
    relay.send(DISCOVER, LIST)
    assert relay.receive() == answer("first", DISCOVERED)
    assert relay.receive() == answer(7, LISTED)
    return relay


def queried_server(cold):
    """Return the new server, which the relay asks for its list as the client would."""
    peer = cold.serve()
    assert peer.read() == LIST_AGAIN
    return peer


def acknowledged(stream, **notifications):
    about = {"notifications": notifications, "_meta": {META + "subscriptionId": stream}}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": about}


def changed(stream):
    return {**LIST_CHANGED, "params": {"_meta": {META + "subscriptionId": stream}}}


ACKNOWLEDGED = acknowledged("listen-1", toolsListChanged=True)
FEWER = answer("codriver-relay-stateless-list", {**LISTED, "tools": TOOLS["tools"][:1]})
OTHERS = {
    "another list": FEWER,
    "an error": {"jsonrpc": "2.0", "id": "codriver-relay-stateless-list", "error": {"code": -32603, "message": "no"}},
    "another shape": answer("codriver-relay-stateless-list", {"tools": None}),
}


def test_a_client_without_a_handshake_is_answered_immediately(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    relay.send(request(8), LISTEN)
    peer = queried_server(cold)
    assert [peer.read(), peer.read()] == [request(8), LISTEN]
    peer.send(answer("codriver-relay-stateless-list", LISTED), ACKNOWLEDGED, answer(8))
    assert [relay.receive(), relay.receive()] == [ACKNOWLEDGED, answer(8)]


def test_a_client_can_list_tools_without_a_discover_request(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = cold.relay()
    relay.send(LIST)
    assert relay.receive() == answer(7, LISTED)
    queried_server(cold)


def test_a_client_without_a_cached_answer_waits_for_the_server(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = cold.relay()
    relay.send(LIST)
    peer = cold.serve()
    assert peer.read() == LIST
    peer.send(answer(7, TOOLS))
    assert relay.receive() == answer(7, TOOLS)


@pytest.mark.parametrize("left_out", ["protocolVersion", "clientInfo", "clientCapabilities"])
def test_a_request_with_incomplete_client_information_is_left_to_the_server(cold, monkeypatch, left_out):
    cold.store(monkeypatch, **KEPT)
    relay = cold.relay()
    item = request(7, "tools/list", _meta={name: text for name, text in ENVELOPE.items() if name != META + left_out})
    relay.send(item)
    assert cold.serve().read() == item


def test_a_tool_list_answered_from_the_cache_has_no_cache_lifetime(cold, monkeypatch):
    lasting = {"ttlMs": 3_600_000}
    cold.store(monkeypatch, **{**KEPT, "greeting": {**DISCOVERED, **lasting}, "tools": {**LISTED, **lasting}})
    listed(cold)


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_an_open_stream_is_notified_if_the_tool_list_differs(cold, monkeypatch, other):
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    relay.send(LISTEN)
    peer = queried_server(cold)
    assert peer.read() == LISTEN
    peer.send(ACKNOWLEDGED, other, answer(8))
    assert [relay.receive(), relay.receive(), relay.receive()] == [ACKNOWLEDGED, changed("listen-1"), answer(8)]


def test_a_stream_opened_later_is_notified_once_of_a_different_list(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    peer = queried_server(cold)
    peer.send(FEWER, answer(8))
    assert relay.receive() == answer(8)
    streams = [{**LISTEN, "id": identity} for identity in ("\u00e9", 3, 4)]
    relay.send(*streams)
    assert [peer.read() for _ in streams] == streams
    reported = [acknowledged("\u00e9", resourcesListChanged=True)]
    reported += [acknowledged(identity, toolsListChanged=True) for identity in (3, 4)]
    peer.send(*reported, answer(9))
    assert [relay.receive() for _ in range(5)] == [*reported[:2], changed(3), reported[2], answer(9)]


def test_a_closed_stream_is_not_notified(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    relay.send(LISTEN)
    peer = queried_server(cold)
    assert peer.read() == LISTEN
    peer.send(ACKNOWLEDGED)
    assert relay.receive() == ACKNOWLEDGED
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "listen-1"}}
    relay.send(cancelled)
    assert peer.read() == cancelled
    peer.send(FEWER, answer(8))
    assert relay.receive() == answer(8)


def test_a_client_that_listed_again_is_not_notified(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    peer = queried_server(cold)
    peer.send(FEWER, answer(8))
    assert relay.receive() == answer(8)
    relay.send(LIST, LISTEN)
    assert [peer.read(), peer.read()] == [LIST, LISTEN]
    peer.send(ACKNOWLEDGED, answer(9))
    assert [relay.receive(), relay.receive()] == [ACKNOWLEDGED, answer(9)]


def test_the_cached_tool_list_is_compared_with_the_next_server_if_the_first_is_lost(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    queried_server(cold).close()
    peer = cold.accept()
    assert peer.read() == LIST_AGAIN
    relay.send(LISTEN)
    assert peer.read() == LISTEN
    peer.send(FEWER, ACKNOWLEDGED)
    assert [relay.receive(), relay.receive()] == [ACKNOWLEDGED, changed("listen-1")]


def test_clients_with_and_without_a_handshake_are_answered_from_the_cache(cold, monkeypatch):
    cold.store(monkeypatch)
    cold.store(monkeypatch, **KEPT)
    relay = listed(cold)
    relay.send(INITIALIZE)
    assert relay.receive() == answer("first", GREETING)
    relay.send(request(9, "tools/list"), {**LIST, "id": 10})
    assert [relay.receive(), relay.receive()] == [answer(9, TOOLS), answer(10, LISTED)]
    peer = cold.serve()
    assert peer.read() == INITIALIZE
    peer.send(answer("first", GREETING))
    assert [peer.read(), peer.read()] == [QUESTION, LIST_AGAIN]
    peer.send(answer("codriver-relay-list", {"tools": []}), answer("codriver-relay-stateless-list", LISTED), answer(8))
    assert [relay.receive(), relay.receive()] == [LIST_CHANGED, answer(8)]


def test_a_handshake_is_answered_while_a_probe_waits(cold, monkeypatch):
    cold.store(monkeypatch)
    relay = cold.relay()
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "first"}}
    relay.send(DISCOVER, cancelled, {**INITIALIZE, "id": 2})
    assert relay.receive() == answer(2, GREETING)


MISTAKEN = {
    "what a handshake is answered": {"greeting": GREETING},
    "no greeting": {"greeting": None},
    "no list": {"tools": [1, 2]},
}


@pytest.mark.parametrize("mistake", MISTAKEN.values(), ids=MISTAKEN)
def test_an_invalid_cached_answer_is_ignored(cold, monkeypatch, mistake):
    cold.store(monkeypatch, **{**KEPT, **mistake})
    relay = cold.relay()
    relay.send(DISCOVER)
    assert cold.serve().read() == DISCOVER


def test_a_handshake_is_not_answered_from_the_cache_of_a_client_without_one(cold, monkeypatch):
    cold.store(monkeypatch, **KEPT)
    relay = cold.relay()
    initialize = request("first", "initialize", protocolVersion="2026-07-28", capabilities={}, clientInfo=CLIENT)
    relay.send(initialize)
    assert cold.serve().read() == initialize


# With a real server and the Python SDK's client


def connect(gated, mode):
    """Connect that client through its own relay, which starts a server that waits at the gate. `mode` is its
    protocol.
    """
    relay = StdioServerParameters(
        command=sys.executable,
        args=["-I", "-S", str(RELAY), str(gated.port_file), "--start"],
        env={name: value for name, value in os.environ.items() if not name.startswith("CODRIVER_")} | gated.environment,
    )
    return Client(relay, mode=mode, client_info=Implementation(**CLIENT))


async def number_listed(client):
    return len((await client.list_tools()).tools)


async def store_once(gated):
    """Cache the list of a server with its REPL for a client that never discovers; return the file and its tools."""
    async with connect(gated, "2026-07-28") as client, anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.to_thread.run_sync, gated.open)
        await client.call_tool("evaluate_code", {"code": "1+2"})  # waits for the REPL, which adds tools
        number = await number_listed(client)
        lists = gated.port_file.parents[3] / "state" / "codriver" / "lists"

        def complete_files():
            return [file for file in lists.glob("*.json") if len(stored_entry(file)["tools"]["tools"]) == number]

        await anyio.to_thread.run_sync(until, complete_files, "the kept list")
    (file,) = complete_files()
    return file, number


async def correct_incomplete_list(gated):
    """Check that an incomplete list with a lifetime of an hour is corrected, even if the server is killed."""
    file, number = await store_once(gated)
    gated.stop()
    item, true = stored_entry(file), stored_entry(file)["tools"]["tools"]
    rewrite(file, clients=[{**item, "tools": {**item["tools"], "tools": true[:2], "ttlMs": 3_600_000}}])
    async with connect(gated, "auto") as client:
        assert client.session.protocol_version == "2026-07-28"
        assert await number_listed(client) == 2
        await anyio.to_thread.run_sync(gated.open)
        with contextlib.suppress(SubscriptionLost):
            async with client.listen(tools_list_changed=True) as stream:
                assert await anext(stream) == ToolsListChanged()
                while await number_listed(client) != number:  # its REPL has not started yet
                    assert await anext(stream) == ToolsListChanged()
                await anyio.to_thread.run_sync(
                    until, lambda: stored_entry(file)["tools"]["tools"] == true, "the true list"
                )
                posix_only.kill(json.loads(gated.port_file.with_name("server.json").read_text())["pid"])
                async for _ in stream:  # until the connection is lost
                    pass
        assert await number_listed(client) == number
        await anyio.to_thread.run_sync(gated.open)
        answered = await client.call_tool("evaluate_code", {"code": "1+2"})
        assert answered.structured_content["result"] == "3"


@pytest.mark.slow
def test_the_sdk_client_lists_tools_before_there_is_a_server_and_is_updated_later(gated):
    async def bounded():
        with anyio.fail_after(WAIT_S):
            await correct_incomplete_list(gated)

    anyio.run(bounded)
