import contextlib
import socket
import ssl
import subprocess
import threading
from functools import partial
from uuid import uuid4

import anyio
import pytest
from jupyter_servers import TOKEN, jupyter_server, kernel_gateway
from needs import program
from refusals import refused_as

from codriver.features.jupyter.kernels import server_api
from codriver.features.jupyter.kernels.http_exchange import HttpExchange
from codriver.features.jupyter.kernels.named_kernels import TokenSource
from codriver.features.jupyter.kernels.server_api import (
    KernelNotFoundError,
    ServerAnswerError,
    ServerApi,
    TokenRefusedError,
)
from codriver.repls.contract.adapter import ReplUnreachableError

pytestmark = pytest.mark.anyio
SOURCE = TokenSource(variable="T")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with jupyter_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def api(base, token=TOKEN, source=SOURCE):
    return ServerApi(base, source, {"T": token})


def error_text(error):
    return f"{error} {error.hint} {error.details} {error!r}"


@pytest.mark.slow
async def test_a_kernel_can_be_started_listed_interrupted_restarted_and_deleted(server):
    calls = api(server.base)
    started = await calls.start("python3", {"KERNEL_SIZE": "small"})
    assert started.spec == "python3"
    assert started.id in {kernel.id for kernel in await calls.kernels()}
    assert (await calls.kernel(started.id)).connections == 0
    await calls.restart(started.id)  # an interrupt would end a starting kernel, so this waits for its answer
    await calls.interrupt(started.id)
    await calls.delete(started.id)
    assert started.id not in server.kernels()
    for call in (calls.kernel, calls.interrupt, calls.restart):
        with pytest.raises(KernelNotFoundError, match="does not have this kernel: HTTP 404"):
            await call(started.id)
    await calls.delete(started.id)


@pytest.mark.slow
async def test_sessions_of_a_server_name_notebooks_and_their_kernels(server):
    session_model = {"path": "work/a.ipynb", "name": "a", "type": "notebook", "kernel": {"name": "python3"}}
    opened = server.call("POST", "/api/sessions", session_model)[1]
    (session,) = await api(server.base).sessions()
    assert (session.path, session.kernel.id) == ("work/a.ipynb", opened["kernel"]["id"])
    server.call("DELETE", f"/api/sessions/{opened['id']}")


@pytest.mark.slow
@pytest.mark.parametrize("token", ["wrong-4711-wrong", None])
async def test_a_wrong_or_missing_token_is_reported_with_its_source(server, token):
    calls = api(server.base, token) if token else ServerApi(server.base, TokenSource(), {})
    for call in (calls.kernels, calls.sessions, lambda: calls.kernel(str(uuid4())), lambda: calls.start("ir", {})):
        with pytest.raises(TokenRefusedError, match="token") as raised:
            await call()
        assert ("the variable T" if token else "tokenFile or tokenEnv") in raised.value.hint
        assert "4711" not in error_text(raised.value)


@pytest.mark.slow
async def test_the_error_for_an_unknown_kernelspec_includes_the_status_of_the_server(server):
    with pytest.raises(ServerAnswerError, match="refused the request: HTTP 50"):
        await api(server.base).start("cobol", {})


@pytest.mark.slow
async def test_a_kernel_gateway_that_does_not_list_kernels_is_reported_with_a_hint(tmp_path):
    with kernel_gateway(tmp_path) as gateway:
        calls = api(gateway.base)
        for listing in (calls.kernels, calls.sessions):
            with pytest.raises(TokenRefusedError, match="does not list its kernels") as raised:
                await listing()
            assert "use the kernel's id" in raised.value.hint
        started = await calls.start("python3", {})
        assert (await calls.kernel(started.id)).spec == "python3"
        await calls.delete(started.id)


async def test_an_unreadable_token_is_reported_before_anything_is_sent():
    with refused_as("repl-unreachable", match="the variable T: the variable was not set"):
        await ServerApi("http://127.0.0.1:9", SOURCE, {}).kernels()


@contextlib.contextmanager
def answering(answer):
    """Run a server that sends every client the same bytes, and return what it received."""
    requests = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        requests.append(connection.recv(65536))
                        answer(connection) if callable(answer) else connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(10)


async def test_a_redirect_is_not_followed_with_the_token():
    with answering(b"") as (target, target_requests):
        redirect = f"HTTP/1.1 302 Found\r\nLocation: {target}/login\r\nContent-Length: 0\r\n\r\n".encode()
        with answering(redirect) as (base, requests), pytest.raises(ServerAnswerError) as refused:
            await api(base).kernels()
    assert "is not running" in str(refused.value)
    assert not isinstance(refused.value, TokenRefusedError)  # JupyterHub can start the server again
    assert f"Authorization: token {TOKEN}".encode() in requests[0]
    assert target_requests == []


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (b"", "RemoteDisconnected|does not respond like a Jupyter Server"),
        (b"SSH-2.0-OpenSSH\r\n", "does not respond like a Jupyter Server"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n<html></h>", "something other than JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"[" * 100_000, "something other than JSON"),
        (b"HTTP/1.1 424 F\r\nContent-Length: 0\r\n\r\n", "HTTP 424"),
        (b'HTTP/1.1 500 F\r\nContent-Length: 21\r\n\r\n{"message":"\\u001b[2J"', "refused the request: HTTP 500"),
        (b'HTTP/1.1 500 F\r\nContent-Length: 23\r\n\r\n{"message":"\\u001b[2J"}', r"HTTP 500 \(\\x1b\[2J\)"),
    ],
)
async def test_a_server_that_is_not_jupyter_is_refused_with_an_explanation(answer, cause):
    with (
        answering(answer) as (base, _),
        pytest.raises((ReplUnreachableError, ServerAnswerError), match=cause) as raised,
    ):
        await api(base).kernels()
    assert TOKEN not in error_text(raised.value)


async def test_malformed_list_entries_are_skipped():
    body = b'[3, null, {"id": 7, "connections": "x"}, {"id": "a-1", "name": "ir"}]'
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) as (base, _):
        assert [(kernel.id, kernel.spec, kernel.connections) for kernel in await api(base).kernels()] == [
            ("7", "", 0),
            ("a-1", "ir", 0),
        ]
    with answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]") as (base, _):
        assert (await api(base).kernel("a-1")).id == ""


async def test_an_oversized_answer_is_not_buffered(monkeypatch):
    monkeypatch.setattr(server_api, "HttpExchange", partial(HttpExchange, max_bytes=1000))
    with answering(b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 5000) as (base, _), pytest.raises(ReplUnreachableError):
        await api(base).kernels()


async def test_a_server_that_answers_byte_by_byte_times_out():
    is_finished = threading.Event()

    def drip(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            while not is_finished.wait(0.05):
                connection.sendall(b" ")

    with answering(drip) as (base, _):
        calls = ServerApi(base, SOURCE, {"T": TOKEN}, timeout_s=0.3)
        with anyio.fail_after(60), pytest.raises(ReplUnreachableError, match="did not respond to GET /api/kernels"):
            await calls.kernels()
        is_finished.set()


async def test_an_unreachable_server_is_explained():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ReplUnreachableError, match="nothing is listening at this address"):
        await api(f"http://127.0.0.1:{port}").kernels()
    with pytest.raises(ReplUnreachableError, match="the host name cannot be resolved"):
        await api("http://no-such-host.invalid").kernels()


@pytest.fixture
def certificate(tmp_path):
    """Create a certificate that no authority signed, with its key."""
    openssl = program("openssl", install="install the package openssl")
    path = tmp_path / "own.pem"
    arguments = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost -days 1"
    subprocess.run(
        [openssl, *arguments.split(), "-keyout", tmp_path / "key", "-out", tmp_path / "certificate"],
        capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    path.write_bytes((tmp_path / "key").read_bytes() + (tmp_path / "certificate").read_bytes())
    return path


async def test_an_untrusted_certificate_ends_a_call_before_the_token_is_sent(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    received = []

    def serve(listener):
        connection, _ = listener.accept()
        secure = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with contextlib.suppress(OSError), secure:
            received.append(secure.recv(65536))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with pytest.raises(ReplUnreachableError, match="certificate is not trusted"):
            await api(f"https://127.0.0.1:{listener.getsockname()[1]}").kernels()
        thread.join(10)
    assert not any(received)
