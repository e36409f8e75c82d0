"""`connect_repl`: a REPL listening on this machine becomes a session if it belongs to the same user."""

import other_user
import pytest
from real_repls import repl
from tools_in_memory import serving

from codriver.errors import RefusedError
from codriver.tools.connect_repl import loopback_address

pytestmark = pytest.mark.served("python")


def test_connecting_to_a_listening_repl_creates_a_session_that_calls_can_select(client):
    endpoint = repl("hy").address
    connected = client.call("connect_repl", address=endpoint.replace("127.0.0.1", "localhost"))
    assert (connected["ok"], connected["dialect"]) == (True, "hy"), connected
    key = connected["sessionKey"]
    assert client.call("evaluate_code", code="(+ 1 2)", replSessionKey=key)["result"] == "3"
    assert client.call("connect_repl", address=endpoint)["sessionKey"] == key
    assert client.call("evaluate_code", code="1 + 1", replSessionKey="py")["result"] == "2"


def test_a_session_key_given_when_connecting_names_the_new_session(client):
    endpoint = repl("basilisp").address
    connected = client.call("connect_repl", address=endpoint, replSessionKey="words")
    assert (connected["ok"], connected["sessionKey"]) == (True, "words"), connected
    assert client.call("evaluate_code", code="(+ 1 2)", replSessionKey="words")["result"] == "3"
    refused = client.call("connect_repl", address="localhost:1", replSessionKey="a/b")
    assert refused["reason"] == "bad-arguments"


def test_a_session_key_restricts_the_default_evaluation_to_that_session(client):
    key = client.call("connect_repl", address=repl("hy").address)["sessionKey"]
    client.call("evaluate_code", code="(+ 20 1)", replSessionKey=key)
    client.call("evaluate_code", code="30 + 1", replSessionKey="py")
    assert client.call("get_evaluation")["result"] == "31"
    assert client.call("get_evaluation", replSessionKey=key)["result"] == "21"
    assert "in the session nowhere" in client.call("get_evaluation", replSessionKey="nowhere")["message"]
    client.call("evaluate_code", code="input()", replSessionKey="py", timeoutMs=2000)
    assert client.call("send_input", text="7", replSessionKey=key)["reason"] == "bad-arguments"
    assert client.call("send_input", text="7", replSessionKey="py")["result"] == "'7'"


def test_nothing_is_sent_to_a_closed_port_or_another_users_port(client):
    known = [row["key"] for row in client.call("list_sessions")["sessions"]]
    (port,) = other_user.free_ports(1)
    refused = client.call("connect_repl", address=f"localhost:{port}")
    assert (refused["reason"], ("nothing is listening at this address") in refused["message"]) == (
        "repl-unreachable",
        True,
    )
    assert "Start an nREPL server" in refused["hint"]
    with other_user.listening(port) as received:
        refused = client.call("connect_repl", address=f"localhost:{port}")
        assert (refused["reason"], "another user" in refused["message"]) == ("repl-unreachable", True)
        assert received() == b""
    assert [row["key"] for row in client.call("list_sessions")["sessions"]] == known


@pytest.mark.parametrize(
    "text", ["7888", "localhost:7888", "127.0.0.1:7888", "nrepl://localhost:7888", " localhost:07888 "]
)
def test_all_spellings_of_a_local_port_are_the_same_address(text):
    assert loopback_address(text).rpartition(":")[2] == "7888"


@pytest.mark.parametrize("text", ["", "example.org:7888", "192.168.1.2:7888", "localhost:0", "localhost:70000", "a:b"])
def test_addresses_on_other_machines_are_refused(text):
    with pytest.raises(RefusedError) as refused:
        loopback_address(text)
    assert "ask your human" in (refused.value.hint or "")


def test_connect_repl_is_unavailable_if_evaluation_is_disabled(tmp_path):
    with serving(tmp_path, settings={"enable_mcp_repl_evaluation": False}) as live, live.client() as client:
        assert client.call("connect_repl", address="localhost:7888")["reason"] == "switched-off"
