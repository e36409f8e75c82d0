"""The shutdown of a server: steps run in reverse order of the start, each is guarded, and a second shutdown is
harmless.
"""

import functools
import logging
import os
import signal
import socket
import threading

import anyio
import anyio.to_thread
import pytest
from live_server import Bare

from codriver.app import features, shutdown
from codriver.app.live_settings import LiveSettings
from codriver.app.serve import ServeOptions, Server
from codriver.app.shutdown import Shutdown
from codriver.app.workspace_settings import load_workspace_settings
from codriver.log import history, logbook
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.net.registration import claim_workspace
from codriver.settings.durations import durations_from_environment
from codriver.settings.layers import SettingsReloader

pytestmark = pytest.mark.anyio

STEPS = (
    "report the end",
    "release the workspace",
    "remove this server from the list of servers",
    "close the history",
    "close the memory",
    "add pending entries to the log",
    "write the tool lists for relays",
    "write the record of clients",
    "remove the image files",
    "close the long texts",
    *(f"end {part.kind.__name__}" for part in features.feature_parts() if part.stop_after_repls is not None),
    "end the REPLs",
    "end the test runs",
    *(f"stop {part.kind.__name__}" for part in features.feature_parts() if part.stop_before_repls is not None),
    "disconnect the clients",
    "end the tasks",
    "send queued messages to the clients",
    "answer the open requests",
    "give up on running evaluations",
    "end the evaluations",
    "refuse callers waiting for a thread",
    "close the listener",
)


def broken():
    raise RuntimeError("broken on purpose")


async def broken_later():
    await anyio.lowlevel.checkpoint()
    broken()


@pytest.mark.parametrize("failing", ["first", "second", "third"])
@pytest.mark.parametrize("step", [broken, broken_later])
async def test_a_failing_step_is_logged_by_name_and_affects_no_other_step(failing, step, caplog):
    done, down = [], Shutdown()
    for name in ("first", "second", "third"):
        down.add(name, step if name == failing else functools.partial(done.append, name))
    await down.run()
    assert done == [name for name in ("third", "second", "first") if name != failing]
    [record] = caplog.records
    assert record.getMessage() == f"shutdown: could not {failing}; continuing with the other steps"
    assert "broken on purpose" in str(record.exc_info[1])


async def test_a_hanging_step_is_abandoned_and_the_remaining_steps_continue(monkeypatch, caplog):
    monkeypatch.setattr(shutdown, "STEP_S", 0.01)
    done, down = [], Shutdown()
    down.add("first", lambda: done.append("first"))
    down.add("second", anyio.sleep_forever)
    await down.run()
    assert done == ["first"]
    assert [record.getMessage() for record in caplog.records] == [
        "shutdown: could not second; continuing with the other steps"
    ]


async def test_a_second_shutdown_waits_for_the_first_and_repeats_nothing():
    done, down = [], Shutdown()
    pending, may_end = anyio.Event(), anyio.Event()

    async def slow():
        pending.set()
        await may_end.wait()
        done.append("slow")

    async def again():
        await down.run()
        done.append("second through")

    down.add("first", lambda: done.append("first"))
    down.add("slow", slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(down.run)
        await pending.wait()
        tasks.start_soon(again)
        await anyio.wait_all_tasks_blocked()
        may_end.set()
    await down.run()
    assert done == ["slow", "first", "second through"]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


async def served_and_stopped(workspace, failing=None, *, before=lambda _server: None, **settings):
    """Run a real server, stop it by a signal once it is reachable, and return the steps it went through.

    `before` is called with it just before; if it returns something, that is what sends the signal.
    """
    done = []
    overrides = {"repl": ("none",), "mcp_socket_server_port": 0, **settings}

    def recorded(name, step):
        async def run():
            if name == failing:
                await broken_later()
            given = step()
            if given is not None:
                await given
            done.append(name)

        return name, run

    def reached():
        server.shutdown.steps[:] = [recorded(*step) for step in server.shutdown.steps]
        if before(server) is None:
            os.kill(os.getpid(), signal.SIGTERM)

    options = ServeOptions(workspace, overrides, on_reached=reached)
    loaded = load_workspace_settings(workspace, environ={}, overrides=overrides)
    with claim_workspace(workspace / "presence", is_alive=lambda _record: False) as retained:
        async with anyio.create_task_group() as tasks:
            reloader = SettingsReloader(workspace, environ={}, overrides=overrides, loaded=loaded)
            server = Server(
                workspace,
                LiveSettings(reloader),
                retained,
                tasks,
                options,
                durations_from_environment({}, features.feature_durations()),
            )
            with anyio.fail_after(60):
                await server.run()
            assert retained.port_file.exists() == (failing == STEPS[1])
            await server.shutdown.run()
            tasks.cancel_scope.cancel()
    return done


async def test_a_server_shuts_down_in_reverse_order_of_its_start(workspace):
    done = await served_and_stopped(workspace)
    assert done == list(reversed(STEPS))


@pytest.mark.parametrize("failing", STEPS)
async def test_no_failing_step_stops_the_shutdown_of_a_server(workspace, failing, caplog):
    done = await served_and_stopped(workspace, failing)
    assert done == [name for name in reversed(STEPS) if name != failing]
    text = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert text == [f"shutdown: could not {failing}; continuing with the other steps"]


async def test_the_last_log_entries_are_saved_even_if_no_runs_are_kept(workspace, tmp_path, monkeypatch):
    monkeypatch.setattr(logbook, "NOTIFY_INTERVAL_S", 60.0)  # nothing else adds it

    def evaluate(server):
        server._parts.logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(last)", 0))

    await served_and_stopped(workspace, before=evaluate, remember_runs=0)
    (file,) = (tmp_path / "state").rglob("eval-history.transit.json")
    assert [entry.text for entry in history.read_history(file)] == ["(last)"]


async def test_clients_are_disconnected_before_repls_end_and_the_workspace_is_released(workspace):
    parted = threading.Event()

    def visit(port):
        with Bare(socket.create_connection(("127.0.0.1", port))) as client:
            os.kill(os.getpid(), signal.SIGTERM)
            while client.receive() is not None:
                pass
            parted.set()

    def send_visitor(server):
        steps = dict(server.shutdown.steps)

        async def end_repls():
            assert await anyio.to_thread.run_sync(parted.wait, 30), "the client is still connected"
            await steps["end the REPLs"]()

        server.shutdown.steps[:] = [*(steps | {"end the REPLs": end_repls}).items()]
        visitor = threading.Thread(target=visit, args=[server._core.state.lifecycle.port])
        visitor.start()
        return visitor

    assert await served_and_stopped(workspace, before=send_visitor) == list(reversed(STEPS))
