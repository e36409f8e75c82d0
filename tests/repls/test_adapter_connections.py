"""The adapter contract: how connections start and end, on each REPL. See `repls.adapter_contract`."""

from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from evaluations import evaluate
from ports import closed_port

from codriver.errors import ReplDisconnectedError
from codriver.repls.contract.adapter import (
    NotAReplError,
    ReplUnreachableError,
)
from repls.adapter_contract import (
    MEMORY,
    NAMES,
    ON_THE_JVM,
    WORDS,
    adapter,
    evaluation,
    fresh,
    operation_calls,
    printed,
    shared,
    values,
)

pytestmark = pytest.mark.anyio

CHATTY = {
    "python": "import time\nfor _ in range(300): print('x' * 5000); time.sleep(0.005)",
    # To a stream that it holds: `print` of Python 3.13.0 borrows sys.stdout, and crashes when hy-nrepl replaces that
    # for the next evaluation. Source: CPython issue 130163.
    "hy": '(let [out (. (__import__ "sys") stdout)] (for [_ (range 300)] (.write out (+ (* "x" 5000) "\\n")) '
    '(.sleep (__import__ "time") 0.005)))',
    "deno": "for (let i = 0; i < 300; i++) { console.log('x'.repeat(5000)) }",
    "ir": "for (i in 1:300) { cat(strrep('x', 5000), '\\n') }",
    MEMORY: f'(print-often 300 "{"x" * 5000}")',
}

CHATTY |= dict.fromkeys(("ipykernel", "xpython"), CHATTY["python"])


@asynccontextmanager
async def again(name, running):
    """Return the adapter for a REPL that is still running code; a single-threaded one answers nobody meanwhile."""
    deadline = anyio.current_time() + 60
    async with AsyncExitStack() as stack:
        opened = None
        while opened is None:
            try:
                opened = await stack.enter_async_context(adapter(name, address=running.address))
            except (ReplUnreachableError, NotAReplError):
                assert running.is_running()
                if anyio.current_time() > deadline:
                    raise
        yield opened


async def test_a_repl_that_prints_while_it_is_disconnected_survives(name):
    code = CHATTY.get(name, f'(doseq [_ (range 300)] (println "{"x" * 5000}"))')
    running = shared(name)
    async with adapter(name) as (opened, events):
        opened.start_evaluation(evaluation(code), lambda _: None)
        with anyio.fail_after(60):
            while not printed(events):
                await anyio.lowlevel.checkpoint()
    async with again(name, running) as (opened, events):
        with anyio.fail_after(60):
            await evaluate(opened, evaluation(WORDS[name].add))
        assert values(events) == [WORDS[name].three]
    assert running.is_running()


async def test_a_repl_that_dies_during_an_evaluation_is_a_lost_connection(name):
    words = WORDS[name]
    with fresh(name) as running:
        async with adapter(name, address=running.address) as (opened, _):
            with anyio.fail_after(60), pytest.raises(ReplDisconnectedError):
                await evaluate(opened, evaluation(words.kill))
            assert await opened.wait_closed()
            with pytest.raises(ReplDisconnectedError):
                await evaluate(opened, evaluation(words.add))
            for capability in ("complete", "lookup", "macroexpand"):
                if capability in opened.profile.capabilities:
                    with pytest.raises(ReplDisconnectedError):
                        await operation_calls(opened, "main")[capability]()
            await opened.close_session("main")
            assert await opened.dump_threads() is None


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ON_THE_JVM - {"jvm"}])
async def test_disconnecting_ends_every_evaluation(name):
    if (wait := WORDS[name].wait) is None:
        pytest.skip("this language cannot wait")
    endings = []
    running = shared(name)
    async with adapter(name) as (opened, _):
        opened.start_evaluation(evaluation(wait.format(2), identity="one"), endings.append)
        opened.start_evaluation(evaluation(WORDS[name].add, identity="two"), endings.append)
    first, second = endings
    # Some servers end code that runs in a closed session, and report this, each with its own message.
    assert isinstance(first, ReplDisconnectedError) or first.status in {"interrupted", "failed"}
    assert isinstance(second, ReplDisconnectedError)
    assert await opened.wait_closed()
    async with again(name, running):
        pass


@pytest.mark.parametrize("name", ["python", MEMORY])
async def test_a_port_without_a_listener_is_reported(name):
    address = "memory://nobody" if name == MEMORY else f"127.0.0.1:{closed_port()}"
    with pytest.raises(ReplUnreachableError, match="nothing is listening at this address"):
        async with adapter(name, address=address):
            pass


async def test_an_unknown_host_is_reported():
    with pytest.raises(ReplUnreachableError, match=r"no REPL could be reached at no-such-host\.invalid:1"):
        async with adapter("none", address="no-such-host.invalid:1"):
            pass


async def test_an_error_raised_by_the_caller_is_not_wrapped():
    with pytest.raises(LookupError, match="mine"):
        async with adapter("basilisp"):
            raise LookupError("mine")


async def test_a_server_that_does_not_speak_nrepl_is_reported():
    async def answer(stream):
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(NotAReplError, match="invalid bencode"):
            async with adapter("none", address=f"127.0.0.1:{port}"):
                pass
        tasks.cancel_scope.cancel()
