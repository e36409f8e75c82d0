"""Connection files that lead to no kernel: each is reported for what it is, and none is waited for."""

import json
import os

import anyio
import anyio.abc
import pytest
import real_kernels

from codriver.features.jupyter.kernels.jupyter_adapter import connect_jupyter
from codriver.repls.contract.adapter import NotAReplError, ReplUnreachableError

pytestmark = pytest.mark.anyio

PORTS = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")


def write_file(directory, port, **fields):
    path = directory / "kernel-stale.json"
    connection_info = {**dict.fromkeys(PORTS, port), "ip": "127.0.0.1", "transport": "tcp", "key": "k", **fields}
    path.write_text(json.dumps(connection_info | {"signature_scheme": "hmac-sha256"}))
    path.chmod(0o600)
    return path


async def refusal(path, kind):
    with pytest.raises(kind) as refused:
        async with connect_jupyter(str(path), listener=lambda *_: None, workspace=None, is_remote=False):
            pass
    return str(refused.value)


async def test_a_missing_connection_file_is_reported(tmp_path):
    assert "the connection file does not exist" in await refusal(tmp_path / "kernel-1.json", ReplUnreachableError)


@pytest.mark.parametrize("text", ["", "[]", "[1]", "1", "{", '{"ip": "127.0.0.1"}', '{"shell_port": "1"}'])
async def test_a_malformed_connection_file_is_reported(tmp_path, text):
    path = tmp_path / "kernel-1.json"
    path.write_text(text)
    assert "connection file" in await refusal(path, ReplUnreachableError)


async def test_a_world_writable_connection_file_is_not_trusted(tmp_path):
    path = write_file(tmp_path, 1)
    path.chmod(0o666)
    assert "cannot be read" in await refusal(path, ReplUnreachableError)


async def test_a_connection_file_with_a_dead_port_is_reported(tmp_path):
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
    assert "nothing is listening at this address" in await refusal(write_file(tmp_path, port), ReplUnreachableError)


@pytest.mark.parametrize(
    ("greeting", "message"),
    [
        pytest.param(b"", "too busy, or another program is using its port", id="silent"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak ZeroMQ", id="another"),
    ],
)
async def test_a_connection_file_with_a_port_of_another_program_is_reported(tmp_path, greeting, message):
    async def answer(stream):
        async with stream:
            await stream.send(greeting)
            await stream.receive()

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        assert message in await refusal(write_file(tmp_path, port), NotAReplError)
        tasks.cancel_scope.cancel()


async def test_a_connection_file_with_the_key_of_another_kernel_is_reported(tmp_path):
    connection_info = json.loads(real_kernels.kernel("ipykernel").file.read_text())
    path = write_file(tmp_path, 0, **connection_info | {"key": os.urandom(8).hex()})
    assert "the connection file belongs to a different kernel" in await refusal(path, NotAReplError)
