"""An adapter for a stream that a REPL opened: the program connects to the server, and nothing listens."""

import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

import codriver.repls.worker
from codriver.core.requests import Request
from codriver.repls.contract.adapter import ReplUnreachableError
from codriver.repls.contract.endpoints import AcceptedStream
from codriver.repls.contract.events import Value
from codriver.repls.nrepl.connection import open_connection
from codriver.repls.nrepl.nrepl_adapter import connect

WORKER = str(Path(codriver.repls.worker.__file__).parent)
PROGRAM = """\
import importlib.util, os, socket, sys, threading
spec = importlib.util.spec_from_file_location(
    "_codriver_worker", os.path.join(sys.argv[2], "__init__.py"), submodule_search_locations=[sys.argv[2]]
)
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
embedded = importlib.import_module("_codriver_worker.serving.embedded")
before = threading.active_count()
for descriptor in map(int, sys.argv[1].split(",")):
    embedded.EmbeddedRepl(os.getcwd(), None).serve_stream(socket.socket(fileno=descriptor))
    deadline = __import__("time").monotonic() + 30
    while threading.active_count() != before and __import__("time").monotonic() < deadline:
        __import__("time").sleep(0.01)
    print("threads left:", threading.active_count() - before, flush=True)
"""


@asynccontextmanager
async def program(clients):
    """Run a program that serves its REPL over several streams in turn, and return their other ends."""
    pairs = [socket.socketpair() for _ in range(clients)]
    theirs = [theirs.fileno() for _, theirs in pairs]
    words = [sys.executable, "-c", PROGRAM, ",".join(map(str, theirs)), WORKER]
    process = subprocess.Popen(  # noqa: ASYNC220  # its end is read on a thread
        words, pass_fds=theirs, stdout=subprocess.PIPE, text=True
    )
    for _, their in pairs:
        their.close()
    try:
        yield process, [AcceptedStream("a program", ours) for ours, _ in pairs]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def value_of(adapter, code, values):
    over = anyio.Event()
    adapter.start_evaluation(Request("1", code), lambda _: over.set())
    with anyio.fail_after(30):
        await over.wait()
    return values[-1]


@pytest.mark.anyio
async def test_a_connected_program_evaluates_code_and_leaves_no_thread_after_disconnecting():
    async with program(3) as (process, streams):
        for stream in streams:
            values = []

            def listen(_evaluation, event, values=values):
                if isinstance(event, Value):
                    values.append(event.text)

            async with connect(stream, listener=listen) as adapter:
                assert adapter.profile.process_id == process.pid
                assert await value_of(adapter, "import os; os.getpid()", values) == str(process.pid)
                assert await adapter.dump_threads() is not None  # another thread answers this
        out = await anyio.to_thread.run_sync(process.stdout.read)
    assert out == "threads left: 0\n" * 3


@pytest.mark.anyio
async def test_a_connection_opened_by_a_repl_can_be_used_only_once():
    ours, theirs = socket.socketpair()
    stream = AcceptedStream("a program", ours)
    connection = await open_connection(stream, lambda _: None, timeout_s=1)
    await connection.close()
    theirs.close()
    with pytest.raises(ReplUnreachableError, match="only the REPL can open another"):
        await open_connection(stream, lambda _: None, timeout_s=1)
