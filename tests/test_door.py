import os
import socket
import sys

import pytest

from codriver.door import first_bytes_verdict, is_loopback, peer_uid, token_matches

FOREIGN = [
    b"POST / HTTP/1.1\r\n",
    b"GET /",
    b"OPTIONS * HTTP/1.1",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT localhost:1 HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    b"PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n",
    b"\x00\x00",
    b"\xff\xfe{",
    b"\r\nGET / HTTP/1.0",
]


@pytest.mark.parametrize("data", FOREIGN)
def test_another_protocol_is_refused(data):
    assert first_bytes_verdict(data) == "refuse"


@pytest.mark.parametrize("data", FOREIGN)
def test_another_protocol_never_passes_however_its_bytes_come(data):
    verdicts = [first_bytes_verdict(data[:size]) for size in range(len(data) + 1)]
    assert "json" not in verdicts


@pytest.mark.parametrize("data", [b'{"jsonrpc"', b"[", b" \r\n{", b"nonsense\n", b'"text"', b"1", b"Nonsense"])
def test_json_and_what_is_only_a_mistake_pass(data):
    assert first_bytes_verdict(data) == "json"


@pytest.mark.parametrize("data", [b"", b"\n", b"P", b"POST"])
def test_too_little_to_tell_waits(data):
    assert first_bytes_verdict(data) == "wait"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback_is_known(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", ""])
def test_everything_else_is_not_loopback(host):
    assert not is_loopback(host)


def test_only_the_same_token_matches():
    assert token_matches("secret", "secret")
    assert not token_matches("secret", "secreT")
    assert not token_matches("secret", "")
    assert not token_matches("secret", "\udcff")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the user of a TCP peer")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_user_at_the_other_end_is_told(host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        listener.listen()
        with socket.create_connection(listener.getsockname()[:2]):
            accepted, _ = listener.accept()
            with accepted:
                assert peer_uid(accepted) == os.getuid()
