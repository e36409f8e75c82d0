"""Rare cases of the protocol: batches, lone surrogates, errors without an id, byte order marks."""

import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from live_server import RELAY, Relayed

from codriver.protocol.lone_surrogates import has_lone_surrogates, replace_lone_surrogates

BOM = b"\xef\xbb\xbf"
ABOUT = {"protocolVersion": "2026-07-28", "clientInfo": {"name": "modern", "version": "1"}, "clientCapabilities": {}}
META = {f"io.modelcontextprotocol/{key}": value for key, value in ABOUT.items()}
VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]


pytestmark = pytest.mark.served("memory")


@pytest.fixture(params=["client", "relay"])
def reach(live, request):
    """Return a function that connects to the server directly or through the relay, without a handshake."""
    connected = []

    def reached():
        relay = [sys.executable, "-I", "-S", RELAY, str(live.port_file)]
        is_direct = request.param == "client"
        item = live.client(handshake=False) if is_direct else Relayed(relay, live.environ, handshake=False)
        connected.append(item)
        return item

    yield reached
    for item in connected:
        item.close()


def line(identity, method, **params):
    return {"jsonrpc": "2.0", "id": identity, "method": method, "params": params}


def shake_hands(client, version):
    who = {"name": "corner", "version": "1"}
    client.send(line(0, "initialize", protocolVersion=version, capabilities={}, clientInfo=who))
    answer = client.receive()
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    return answer["result"]


def evaluate(identity, code):
    return line(identity, "tools/call", name="evaluate_code", arguments={"code": code, "who": "me"})


# Batches


def test_a_batch_is_answered_by_a_batch_in_the_protocol_version_with_batches(reach):
    client = reach()
    shake_hands(client, "2025-03-26")
    client.send(
        [
            line(1, "ping"),
            evaluate("b", "(+ 40 2)"),
            {"jsonrpc": "2.0", "method": "notifications/none"},
            line(3, "no/such"),
        ]
    )
    answers = client.receive()
    assert isinstance(answers, list)
    by_id = {answer["id"]: answer for answer in answers}
    assert by_id.keys() == {1, "b", 3}
    assert by_id[1]["result"] == {}
    assert by_id["b"]["result"]["structuredContent"]["result"] == "42"
    assert by_id[3]["error"]["code"] == -32601


def test_invalid_messages_in_a_batch_are_answered_in_the_batch(reach):
    client = reach()
    shake_hands(client, "2025-03-26")
    client.send(
        [1, line(1, "ping"), {"id": 2}, line(3, "initialize", protocolVersion="2025-03-26"), {"jsonrpc": "2.0"}]
    )
    answers = client.receive()
    assert sorted((answer["id"] or 0, answer.get("error", {}).get("code", 0)) for answer in answers) == [
        (0, -32600), (0, -32600), (1, 0), (2, -32600), (3, -32600),
    ]  # fmt: skip


def test_a_batch_of_notifications_gets_no_answer(reach):
    client = reach()
    shake_hands(client, "2025-03-26")
    client.send([{"jsonrpc": "2.0", "method": "notifications/none"}] * 2)
    client.send(line(9, "ping"))
    assert client.receive() == {"jsonrpc": "2.0", "id": 9, "result": {}}


@pytest.mark.parametrize(("batch", "words"), [([], "at least one"), ([1] * 5000, "5000 messages")])
def test_an_empty_or_oversized_batch_gets_one_error(reach, batch, words):
    client = reach()
    shake_hands(client, "2025-03-26")
    client.send(batch)
    answer = client.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert words in answer["error"]["message"]


def test_a_batch_is_answered_without_its_cancelled_call(reach):
    client = reach()
    shake_hands(client, "2025-03-26")
    client.send([line(1, "ping"), evaluate(2, "(sleep 60)")])
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
    assert client.receive() == [{"jsonrpc": "2.0", "id": 1, "result": {}}]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version != "2025-03-26"])
def test_a_batch_is_refused_in_other_protocol_versions(reach, version):
    client = reach()
    shake_hands(client, version)
    client.send([line(1, "ping")])
    error = client.receive()["error"]
    assert error["code"] == -32600
    assert "only MCP 2025-03-26" in error["message"]


# Errors without an id


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("bad", [b"no json", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"1"])
def test_an_error_without_a_request_has_the_id_field_of_the_version(live, version, bad):
    with live.client(handshake=False) as client:
        shake_hands(client, version)
        client.write(bad + b"\n")
        answer = client.receive()
        assert "error" in answer
        assert ("id" in answer) == (version < "2025-11-25")
        assert answer.get("id") is None


def test_an_error_without_a_request_has_no_id_without_a_handshake(live):
    with live.client(handshake=False) as client:
        client.write(b"no json\n")
        assert client.receive()["id"] is None, "as JSON-RPC has it, as long as no version is known"
        client.send(line(1, "server/discover", _meta=META))
        assert "result" in client.receive()
        client.write(b"no json\n")
        assert client.receive().keys() == {"jsonrpc", "error"}


# Halves of character pairs


def test_a_lone_surrogate_in_an_argument_is_refused(reach):
    client = reach()
    shake_hands(client, "2025-11-25")
    for half in (b"\\ud83d", b"\\uDE00", b"\\ude00\\ud83d"):
        client.write(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"evaluate_code",'
            b'"arguments":{"code":"\\"a' + half + b'b\\"","who":"me"}}}\n'
        )
        error = client.receive()["error"]
        assert error["code"] == -32602
        assert "half of a surrogate pair" in error["message"]
    client.write(
        b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"evaluate_code",'
        b'"arguments":{"code":"\\"\\ud83d\\ude00\\"","who":"me"},"_meta":{"x":"\\ud83d"}}}\n'
    )
    assert client.receive()["result"]["structuredContent"]["result"] == '"\U0001f600"'


@pytest.mark.parametrize("method", ["ping", "no/such", "tools/call"])
def test_an_id_with_a_lone_surrogate_is_returned_unchanged(reach, method):
    client = reach()
    shake_hands(client, "2025-11-25")
    params = {"name": "list_sessions", "arguments": {}} if method == "tools/call" else {}
    for identity in ("\ud800", "a\udfff", "\ud800"):
        client.send(line(identity, method, **params))
        assert client.receive()["id"] == identity


def test_a_call_whose_id_has_a_lone_surrogate_can_be_cancelled(reach):
    client = reach()
    shake_hands(client, "2025-11-25")
    client.send(evaluate("\ud800", "(sleep 60)"))
    client.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "\ud800"}})
    client.send(evaluate(2, '(str "after " "it")'))
    answer = client.receive()
    while answer.get("id") != 2:
        assert answer.get("id") != "\ud800"
        answer = client.receive()
    assert answer["result"]["structuredContent"]["result"] == '"after it"'


@given(text=st.text() | st.text('\\"u\ud83d\ude00\ud800a', max_size=20), upper=st.booleans())
@example(text="\\\ud800", upper=True)
def test_only_lone_surrogates_are_replaced(text, upper):
    line = json.dumps({"text": text}).encode()
    if upper:
        line = line.replace(b"\\ud", b"\\uD").replace(b'{"text"', b'{"text"')
    read = json.loads(line)["text"]
    expected = "".join("\ufffd" if 0xD800 <= ord(char) < 0xE000 else char for char in read)
    assert json.loads(replace_lone_surrogates(line))["text"] == expected
    assert has_lone_surrogates(line) == (expected != read)


# What comes before the first message


@pytest.mark.parametrize("by_byte", [False, True])
def test_a_byte_order_mark_before_the_first_line_is_ignored(reach, by_byte):
    client = reach()
    data = BOM + json.dumps(line(1, "ping")).encode() + b"\n"
    for piece in [data[i : i + 1] for i in range(len(data))] if by_byte else [data]:
        client.write(piece)
    assert client.receive() == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_byte_order_mark_on_a_later_line_is_invalid_json(live):
    with live.client() as client:
        client.write(BOM + json.dumps(line(1, "ping")).encode() + b"\n")
        assert client.receive()["error"]["code"] == -32700


# Introductions


def test_initialize_and_discover_declare_the_same_list_changed_capabilities(live):
    with live.client(handshake=False) as older, live.client(handshake=False) as newer:
        newer.send(line(1, "server/discover", _meta=META))
        for version in VERSIONS:
            reported = shake_hands(older, version)["capabilities"]
        found = newer.receive()["result"]["capabilities"]
    assert reported["prompts"] == found["prompts"] == {"listChanged": False}
    assert reported["tools"] == found["tools"]
    assert reported["resources"] == found["resources"]


@pytest.mark.parametrize("params", [None, {}, {"_meta": {}}, {"_meta": {"progressToken": 1}}])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_discover_request_without_its_envelope_is_refused_and_may_be_retried(live, params, is_known):
    with live.client(handshake=False) as client:
        if is_known:
            client.send(line(0, "server/discover", _meta=META))
            assert "result" in client.receive()
        client.send(
            {"jsonrpc": "2.0", "id": 1, "method": "server/discover", **({} if params is None else {"params": params})}
        )
        error = client.receive()["error"]
        assert error["code"] == -32602
        assert "_meta" in error["message"]
        client.send(line(2, "server/discover", _meta=META))
        assert "result" in client.receive()


# Long numbers


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_an_id_with_too_many_digits_is_named_in_the_error(live, version):
    with live.client(handshake=False) as client:
        shake_hands(client, version)
        client.write(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % (b"9" * 5000))
        error = client.receive()["error"]
        assert error["code"] == -32600
        assert "the id has 5000 digits" in error["message"]


def test_a_number_with_too_many_digits_is_refused_with_the_request_id(live):
    with live.client() as client:
        client.write(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"x":[-%s]}}\n' % (b"9" * 5000))
        answer = client.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32602)
        assert "5000 digits" in answer["error"]["message"]
        client.write(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}\n' % (b"9" * 4300))
        assert client.receive()["id"] == int("9" * 4300)


# Errors that name a line


@pytest.mark.parametrize(
    "odd",
    [b"{cut", b'"x"', b'{"jsonrpc":"2.0","id":8,"method":"ping"', b'{"jsonrpc":"2.0","id":8.5,"method":"ping"}',
     b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b'{"jsonrpc":"2.0","id":8,"method":"\xff"}', b"[]",
     b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"8" * 5000)],
)  # fmt: skip
@pytest.mark.parametrize("pad", [b"", b" " * 70_000], ids=["short", "long"])
def test_an_error_without_an_id_names_the_line(reach, odd, pad):
    client = reach()
    shake_hands(client, "2025-06-18")
    for number in (3, 5):
        client.write(b" \r\n" + pad + odd + b"\n" + json.dumps(line(number, "ping")).encode() + b"\n")
        answers = [client.receive(), client.receive()]
        (refused,) = [answer for answer in answers if "error" in answer]
        assert (refused["id"], refused["error"]["data"]) == (None, {"line": number}), answers
