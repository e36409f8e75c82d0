"""Cancelling a call or the whole server at any await leaves no task, socket, file or process behind."""

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections import Counter
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import anyio
import pytest
from alike import rounds
from live_server import WAIT_S, Bare, until
from mcp.shared.exceptions import MCPError

from codriver.app import features, serve
from codriver.app.workspace_settings import load_workspace_settings
from codriver.protocol import calls
from codriver.settings.durations import durations_from_environment
from codriver.tools.calls import gate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="counts open files and processes in /proc"),
]


class Stepped:
    """An awaitable that counts how often something waits for it, and calls `then` at number `at`."""

    def __init__(self, awaitable, at, then):
        self.inner, self.at, self.then, self.steps = awaitable, at, then, 0

    def __await__(self):
        inner = self.inner.__await__()
        step = lambda: next(inner)  # noqa: E731  # what goes on next is one of three
        while True:
            try:
                waited_for = step()
            except StopIteration as done:
                return done.value
            self.steps += 1
            if self.steps == self.at:
                self.then()
            try:
                value = yield waited_for
            except BaseException as error:  # noqa: BLE001  # whatever is thrown in goes on inwards
                step = partial(inner.throw, error)
            else:
                step = partial(inner.send, value)


def children():
    """Return the live child processes, except REPLs that other tests share."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == os.getpid() and fields[0] != "Z":
                found.add(int(stat.parent.name))
    return found - SHARED


SHARED = set()


@pytest.fixture(autouse=True)
def _leave_shared_processes_out():
    SHARED.clear()
    SHARED.update(children())


def files():
    """Return what is open here, by kind. Pipes and sockets only differ by number, which is meaningless, so they are
    counted.
    """
    kinds = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            kinds.append(str(link.readlink()).partition(":")[0])
    return sorted(kinds)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    for name in ("CONFIG", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def run_server(workspace):
    """Run `serve.run` in a new event loop."""
    options = serve.ServeOptions(workspace, {"mcp_socket_server_port": 0, "repl": ("python",)})
    loaded = load_workspace_settings(workspace, environ=os.environ, overrides=options.overrides)
    await serve._run(options, loaded, durations_from_environment({}, features.feature_durations()))


LOOPS = ["asyncio", *(["uvloop"] if find_spec("uvloop") else [])]


@pytest.fixture(params=LOOPS)
def loop(request):
    """Return each event loop that a server may use. Each ran before, because the first of a kind opens what stays
    open.
    """
    options = {"use_uvloop": request.param == "uvloop"}
    anyio.run(anyio.sleep, 0, backend_options=options)
    return options


class Inside:
    """A server in this process, as seen by a thread that acts as its client."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.cancel_at = 0
        self.steps = 0
        self.port_file = workspace / ".calva" / "mcp-server" / "port"

    def client(self):
        until(self.port_file.exists, "the server to start")
        port = int(self.port_file.read_text())
        return Bare(socket.create_connection(("127.0.0.1", port), timeout=WAIT_S))

    def resource_counts(self):
        """Return counts of what the server holds now."""
        tasks = anyio.from_thread.run_sync(lambda: len(asyncio.all_tasks()))
        return Counter(files()) + Counter({"task": tasks, "process": len(children())})


def play(workspace, monkeypatch, loop, client):
    """Run a server in this thread and `client` in another one, until that has ended."""
    inside, real = Inside(workspace), gate.answer_call

    async def answer(tool, call, arguments):
        with anyio.CancelScope() as scope:
            stepped = Stepped(real(tool, call, arguments), inside.cancel_at, scope.cancel)
            try:
                return await stepped
            finally:
                inside.steps = stepped.steps
        raise MCPError(-32000, "cancelled by the test")

    async def both():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_server, workspace)
            try:
                await anyio.to_thread.run_sync(client, inside)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(calls, "answer_call", answer)
    anyio.run(both, backend_options=loop)


CALLS = {
    "evaluate_code": {"code": "import time\ntime.sleep(0.02)\nprint('x')\n1"},
    "isolated evaluate_code": {"code": "import time\ntime.sleep(0.02)\n1", "isolate": True},
    "endless evaluate_code": {"code": "while True: pass", "timeoutMs": 1000, "onTimeout": "interrupt"},
    "load_file": {"filePath": "shop.py"},
    "list_sessions": {},
    "server_health": {},
    "repl_output_log": {"query": "[:find ?t :where [_ :output/text ?t]]"},
    "symbol_info": {"symbol": "len"},
    "complete_symbol": {"prefix": "le"},
    "edit_files": {"edits": [{"type": "create", "filePath": "new.clj", "content": "(def a 1)\n", "overwrite": True}]},
}


QUICK = ("list_sessions", "server_health", "symbol_info", "complete_symbol")
"""These await nothing, or what may be there before a cancellation arrives."""


@pytest.mark.parametrize("name", CALLS)
def test_a_call_cancelled_at_any_await_leaves_nothing_behind(workspace, monkeypatch, loop, name):
    (workspace / "shop.py").write_text("def price():\n    return 10\n")
    cancelled = []

    def client(inside):
        with inside.client() as watcher, inside.client() as caller:
            until(lambda: watcher.call("evaluate_code", code="1")["ok"], "the REPL")
            # Once without, as the first call of a kind may open what stays; the second code opens the history's file.
            assert watcher.call("evaluate_code", code="6 * 7")["result"] == "42"
            params = {"name": name.rpartition(" ")[2], "arguments": CALLS[name]}
            caller.request("tools/call", params)
            before = inside.resource_counts()
            for at in range(1, 200):
                inside.cancel_at = at
                answer = caller.request("tools/call", params)
                inside.cancel_at = 0
                cancelled.append("error" in answer)
                until(lambda: inside.resource_counts() <= before, f"all that a call held when cancelled at await {at}")
                counted = watcher.call("server_health")["evaluations"]
                assert (counted["queued"], counted["running"]) == (0, 0)
                assert watcher.call("evaluate_code", code="6 * 7")["result"] == "42"
                if inside.steps < at and "result" in answer:
                    break
            else:
                raise AssertionError("the call did not come to its end")

    play(workspace, monkeypatch, loop, client)
    assert not cancelled[-1]
    assert name in QUICK or any(cancelled)
    assert sorted(p.name for p in workspace.iterdir() if p.suffix not in (".clj", ".py")) == [".calva"]


# The whole server


def cancelled_after(workspace, loop, steps):
    """Run a server and cancel it after so many turns of the loop; return whether it had announced its address."""

    async def main():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_server, workspace)
            for _ in range(steps):
                await asyncio.sleep(0)
            # Later moments are reached by what is there, as the loop may turn thousands of times until then.
            is_up = (workspace / ".calva" / "mcp-server" / "port").exists()
            tasks.cancel_scope.cancel()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return is_up

    return anyio.run(main, backend_options=loop)


def test_a_server_cancelled_at_any_point_of_its_start_leaves_nothing_behind(workspace, loop):
    before = files()
    seen = set()
    for steps in (*range(0, 60, rounds(1, 3)), *range(60, 2000, rounds(97, 194))):
        seen.add(cancelled_after(workspace, loop, steps))
        until(lambda: not children(), f"the processes of a server cancelled after {steps} turns to end")
        until(lambda: files() == before, "the threads to close what they look at")
        folder = workspace / ".calva" / "mcp-server"
        assert not (folder / "port").exists()
        assert {path.name for path in folder.glob("*")} <= {"lock", ".gitignore"}
    assert seen == {False, True}


def test_a_second_stop_signal_during_shutdown_leaves_nothing_behind(workspace, loop):
    """The second signal arrives during the shutdown: it is harmless, and clients are still answered."""
    before = files()
    for turns in range(0, 60, rounds(4, 12)):

        def client(inside, turns=turns):
            with inside.client() as caller:
                until(lambda: "evaluate_code" in caller.tools(), "the REPL")
                call = caller.begin_call("evaluate_code", code="while True: pass", timeoutMs=60_000)
                with inside.client() as watcher:
                    until(lambda: watcher.call("server_health")["evaluations"]["running"], "the loop to run")

                async def stop_twice():
                    os.kill(os.getpid(), signal.SIGTERM)
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    os.kill(os.getpid(), signal.SIGTERM)

                anyio.from_thread.run(stop_twice)
                answer = caller.answer(call)["result"]["structuredContent"]
                assert answer["status"] in ("interrupted", "lost"), json.dumps(answer)

        async def main(client=client):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run_server, workspace)
                await anyio.to_thread.run_sync(client, Inside(workspace))

        anyio.run(main, backend_options=loop)
        until(lambda: not children(), "the REPL to end")
        until(lambda: files() == before, "the threads to close what they look at")
