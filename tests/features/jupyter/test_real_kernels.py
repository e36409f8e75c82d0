"""Real kernels through the adapter, beyond the adapter contract: behaviour of individual kernels."""

import base64
import json
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import anyio
import anyio.abc
import pytest
import real_kernels
from evaluations import evaluate

from codriver.core.print_limits import ValuePart
from codriver.core.requests import Form, Request
from codriver.errors import ReplDisconnectedError
from codriver.features.jupyter.kernels import zmq_channel
from codriver.features.jupyter.kernels.cell_outputs import CellRuns
from codriver.features.jupyter.kernels.evaluator import NO_IDLE_MESSAGE
from codriver.features.jupyter.kernels.jupyter_adapter import connect_jupyter
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.contract.display_data import Display
from codriver.repls.contract.events import ForeignCodeFinished, ForeignCodeStarted, InputNeeded, Output, Value

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def connected(kernel):
    events = []
    async with connect_jupyter(
        str(kernel.file), listener=lambda identity, event: events.append((identity, event)), workspace=None,
        is_remote=False,
    ) as opened:  # fmt: skip
        yield opened, events


@asynccontextmanager
async def adapter(name):
    async with connected(real_kernels.kernel(name)) as both:
        yield both


def of(kind, events, identity="e"):
    return [event for who, event in events if isinstance(event, kind) and who == identity]


def printed(events, stream="out", identity="e"):
    return "".join(event.text for event in of(Output, events, identity) if event.stream == stream)


async def until(condition):
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


# ipykernel


@pytest.mark.parametrize(
    ("code", "file", "line", "trace"),
    [
        ("def g():\n    return 1/0\ndef f():\n    g()\nf()", None, 2, ["g", "f", "<module>"]),
        (
            "import json\n\njson.loads('x')",
            None,
            3,
            ["JSONDecoder.raw_decode", "JSONDecoder.decode", "loads", "<module>"],
        ),
        ("x = 1\ndef f(:", None, 2, ["<module>"]),
        ("exec(compile('\\n\\n1/0', '/ws/mod.py', 'exec'))", "/ws/mod.py", 3, ["<module>", "<module>"]),
    ],
    ids=["cell", "library", "syntax", "file"],
)
async def test_an_error_includes_its_position(code, file, line, trace):
    async with adapter("ipykernel") as (opened, _):
        failure = (await evaluate(opened, Request("e", code))).failure
        assert (failure.file, failure.line) == (file, line)
        assert [frame.partition(" ")[0] for frame in failure.trace] == trace


async def test_the_line_of_an_error_in_a_later_form_is_counted_from_the_start_of_the_code():
    forms = (Form("1", 1, 1), Form("2\n1/0", 4, 1))
    async with adapter("ipykernel") as (opened, _):
        failure = (await evaluate(opened, Request("e", "1\n\n\n2\n1/0", forms=forms))).failure
        assert (failure.form, failure.line) == (2, 5)


async def test_an_error_includes_its_causes():
    code = "try:\n    1/0\nexcept Exception as error:\n    raise ValueError('mine') from error"
    async with adapter("ipykernel") as (opened, _):
        failure = (await evaluate(opened, Request("e", code))).failure
        assert (failure.type, failure.message, failure.line) == ("ValueError", "mine", 4)
        (cause,) = failure.chain
        assert (cause.relation, cause.type, cause.message) == ("cause", "ZeroDivisionError", "division by zero")


async def test_a_failing_magic_is_a_failure_even_if_the_reply_is_ok(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("x = 1\n1/0\n")
    async with adapter("ipykernel") as (opened, _):
        ending = await evaluate(opened, Request("e", f"%run -i {path}"))
        assert (ending.status, ending.failure.file, ending.failure.line) == ("failed", str(path), 2)


async def test_stderr_and_output_of_child_processes_are_captured():
    code = "import os, sys\nprint('err', file=sys.stderr)\nos.system('echo child')"
    async with adapter("ipykernel") as (opened, events):
        await evaluate(opened, Request("e", code))
        assert printed(events, "err") == "err\n"
        await until(lambda: "child\n" in printed(events))


async def test_text_sent_to_the_pager_is_included_in_the_output():
    async with adapter("ipykernel") as (opened, events):
        await evaluate(opened, Request("e", "len?"))
        assert "number of items" in printed(events)
        assert "\x1b" not in printed(events)


async def test_displays_and_values_have_all_their_media_types():
    code = (
        "from IPython.display import HTML, Image, display\n"
        "shown = display(HTML('<b>one</b>'), display_id=True)\n"
        "shown.update(HTML('<b>two</b>'))\n"
        "Image(data=b'\\x89PNG\\r\\n', format='png')"
    )
    async with adapter("ipykernel") as (opened, events):
        await evaluate(opened, Request("e", code))
        first, second = of(Display, events)
        assert (first.bundle["text/html"], first.is_update) == ("<b>one</b>", False)
        assert (second.bundle["text/html"], second.is_update) == ("<b>two</b>", True)
        assert first.display_id == second.display_id != ""
        (value,) = of(Value, events)
        assert base64.b64decode(value.bundle["image/png"]) == b"\x89PNG\r\n"
        part = await opened.read_value("e", ValuePart(("$1", "text/html")))
        assert part.text == "<b>one</b>"


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "while True: pass",
        "import os; os.system('sleep 60')",
        "import asyncio; await asyncio.sleep(60)",
    ],
)
async def test_an_interrupt_ends_any_wait_in_python(code):
    async with adapter("ipykernel") as (opened, events), anyio.create_task_group() as tasks:
        endings = []

        async def run():
            endings.append(await evaluate(opened, Request("e", f"print('begun', flush=True)\n{code}")))

        tasks.start_soon(run)
        await until(lambda: printed(events))
        with anyio.fail_after(60):
            # An interrupt just before the call of `system` is lost: `system` ignores signals while its child runs.
            while (await opened.interrupt()).outcome == "requested":
                assert "system" in code
        await until(lambda: endings)
        assert [ending.status for ending in endings] == ["interrupted"]


@pytest.mark.parametrize("code", ["input('name? ')", "import getpass; getpass.getpass('name? ')"])
async def test_an_input_request_has_its_prompt_and_can_be_interrupted(code):
    async with adapter("ipykernel") as (opened, events), anyio.create_task_group() as tasks:
        endings = []

        async def run():
            endings.append(await evaluate(opened, Request("e", code)))

        tasks.start_soon(run)
        await until(lambda: of(InputNeeded, events))
        assert printed(events) == "name? "
        await opened.interrupt()
        await until(lambda: endings)
        assert endings[0].status == "interrupted"


async def test_early_input_lines_are_queued_and_an_empty_one_is_end_of_input():
    code = "import sys\nfirst = input()\nsecond = input()\n(first, second)"
    async with adapter("ipykernel") as (opened, events), anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, opened, Request("e", code))
        await until(lambda: of(InputNeeded, events))
        await opened.send_input("one\ntwo\n")
        await until(lambda: of(Value, events))
        assert of(Value, events)[0].text == "('one', 'two')"
        endings = []

        async def run():
            endings.append(await evaluate(opened, Request("f", "input()")))

        tasks.start_soon(run)
        await until(lambda: of(InputNeeded, events, "f"))
        await opened.send_input("")
        await until(lambda: endings)
        assert endings[0].failure.type == "EOFError"


async def test_a_flood_of_prints_is_complete():
    code = "for i in range(5_000): print(f'{i:9}', flush=True)"
    async with adapter("ipykernel") as (opened, events):
        ending = await evaluate(opened, Request("e", code))
        assert ending.status == "done"
        # A kernel does not wait for its clients: if this process does not run for seconds, output is dropped.
        if any("never came" in note or note == NO_IDLE_MESSAGE for note in ending.notes):
            numbers = list(map(int, printed(events).split()))
            assert numbers == sorted(set(numbers))
        else:
            assert printed(events) == "".join(f"{i:9}\n" for i in range(5_000))
            assert ending.notes == ()


async def test_a_value_of_ten_megabytes_is_complete():
    async with adapter("ipykernel") as (opened, events):
        await evaluate(opened, Request("e", "'x' * 10_000_000"))
        assert len(of(Value, events)[0].text) == 10_000_002


async def test_a_kernel_that_exits_is_reported_as_a_lost_connection():
    with real_kernels.fresh("ipykernel") as kernel:
        async with connected(kernel) as (opened, _):
            with anyio.fail_after(30), pytest.raises(ReplDisconnectedError, match="the kernel exited"):
                await evaluate(opened, Request("e", "import os; os._exit(7)"))
            assert "the kernel exited" in await opened.wait_closed()


async def test_the_outputs_of_a_cell_are_stored_as_in_a_notebook():
    code = "import sys\nprint('a'); print('b')\nprint('c', file=sys.stderr)\n1 + 1"
    async with adapter("ipykernel") as (opened, _):
        await evaluate(opened, Request("e", code, part="cell-7"))
        run = opened.companion(CellRuns).collect("e")
        kinds = {output["output_type"]: output for output in run.outputs}
        assert kinds["execute_result"]["data"] == {"text/plain": "2"}
        assert kinds["execute_result"]["execution_count"] == run.execution_count
        streams = {output["name"]: output["text"] for output in run.outputs if output["output_type"] == "stream"}
        assert streams == {"stdout": "a\nb\n", "stderr": "c\n"}
        assert opened.companion(CellRuns).collect("e") is None


# Another client


@pytest.mark.parametrize("name", ["ipykernel", "xpython", "deno", "ir", "bash"])
async def test_code_of_another_client_is_reported_under_its_own_id(name):
    others = {"deno": "console.log('hi'); 1 + 2", "ir": "cat('hi\\n'); 1 + 2", "bash": "echo hi"}
    code = others.get(name, "print('hi'); 1 + 2")
    kernel = real_kernels.kernel(name)
    async with connected(kernel) as (opened, events), real_kernels.human(kernel) as human:
        identity = human.execute(code)
        await until(lambda: of(ForeignCodeFinished, events, identity))
        assert of(ForeignCodeStarted, events, identity) == [ForeignCodeStarted(code)]
        assert printed(events, identity=identity) == "hi\n"
        assert of(ForeignCodeFinished, events, identity) == [ForeignCodeFinished("done")]
        if name != "bash":
            assert "3" in of(Value, events, identity)[0].text
        assert (await opened.interrupt()).outcome == "idle" if "interrupt" in opened.profile.capabilities else True


async def test_a_failing_cell_of_another_client_does_not_abort_queued_code():
    kernel = real_kernels.kernel("ipykernel")
    async with connected(kernel) as (opened, events), real_kernels.human(kernel) as human:
        identity = human.execute("import time; time.sleep(0.5); 1/0")
        human.execute("time.sleep(0.2); 1/0", stop_on_error=False)
        await until(lambda: of(ForeignCodeStarted, events, identity))
        ending = await evaluate(opened, Request("e", "6 * 7"))
        assert (ending.status, of(Value, events)[0].text) == ("done", "42")
        (other,) = of(ForeignCodeFinished, events, identity)
        assert (other.status, other.failure.type, other.failure.line) == ("failed", "ZeroDivisionError", 1)


async def test_code_that_waits_for_a_cell_of_another_client_can_be_interrupted_alone():
    kernel = real_kernels.kernel("ipykernel")
    async with (
        connected(kernel) as (opened, events),
        real_kernels.human(kernel) as human,
        anyio.create_task_group() as tasks,
    ):
        endings = []

        async def run():
            endings.append(await evaluate(opened, Request("e", "never_sent = 1")))

        identity = human.execute("import time\nfor _ in range(600): time.sleep(0.1)")
        await until(lambda: of(ForeignCodeStarted, events, identity))
        tasks.start_soon(run)
        await anyio.wait_all_tasks_blocked()
        text = await opened.interrupt()
        await until(lambda: endings)
        assert (text.outcome, endings[0].status) == ("interrupted", "interrupted")
        assert "was never sent" in text.note
        assert not of(ForeignCodeFinished, events, identity)
        assert (await opened.interrupt_others()).outcome == "interrupted"
        assert of(ForeignCodeFinished, events, identity) == [ForeignCodeFinished("interrupted")]
        assert (await opened.interrupt_others()).outcome == "idle"
        assert (await evaluate(opened, Request("f", "never_sent"))).failure.type == "NameError"


async def test_an_input_request_of_another_client_is_ignored():
    kernel = real_kernels.kernel("ipykernel")
    async with connected(kernel) as (opened, events), real_kernels.human(kernel) as human:
        identity = human.execute("input('theirs? ')", allow_stdin=True)
        await human.get_stdin_msg(timeout=30)
        await opened.send_input("ours\n")
        assert not [event for _, event in events if isinstance(event, InputNeeded)]
        human.input("theirs")
        await until(lambda: of(ForeignCodeFinished, events, identity))
        assert of(Value, events, identity)[0].text == "'theirs'"


async def test_silent_code_is_not_an_evaluation():
    kernel = real_kernels.kernel("ipykernel")
    async with connected(kernel) as (opened, events), real_kernels.human(kernel) as human:
        human.execute("1 + 1", silent=True)
        await evaluate(opened, Request("e", "2"))
        assert not [event for _, event in events if isinstance(event, ForeignCodeStarted)]


async def test_a_restart_by_another_client_ends_the_connection_and_pending_code():
    with real_kernels.fresh("ipykernel") as kernel:
        async with connected(kernel) as (opened, events), real_kernels.human(kernel) as human:
            await evaluate(opened, Request("e", "mine = 1"))
            identity = human.execute("import time; time.sleep(1)")
            await until(lambda: of(ForeignCodeStarted, events, identity))
            human.shutdown(restart=True)
            with anyio.fail_after(30), pytest.raises(ReplDisconnectedError):
                await evaluate(opened, Request("f", "mine"))
            assert await opened.wait_closed() == "another client restarted the kernel"
        kernel.start_again()
        async with connected(kernel) as (opened, _):
            assert (await evaluate(opened, Request("e", "mine"))).failure.type == "NameError"


async def test_the_connection_to_a_busy_kernel_uses_its_control_socket():
    kernel = real_kernels.kernel("ipykernel")
    async with real_kernels.human(kernel) as human:
        human.execute("print('begun', flush=True)\nimport time; time.sleep(600)")
        while (await human.get_iopub_msg(timeout=30))["msg_type"] != "stream":
            pass
        with anyio.fail_after(60):
            async with connected(kernel) as (opened, _):
                assert opened.profile.process_id == kernel.pid
        human.session.send(human.control_channel.socket, "interrupt_request", {})


# Other languages


async def test_a_kernel_that_an_interrupt_would_kill_is_not_interrupted():
    async with adapter("xpython") as (opened, _):
        with pytest.raises(CapabilityMissingError) as refused:
            await opened.interrupt()
        assert "Only a restart" in refused.value.hint


async def test_a_value_received_after_the_end_of_the_execution_is_in_the_result():
    async with adapter("deno") as (opened, events):
        for number in range(200):
            await evaluate(opened, Request("e", f"{number}"))
        assert [(value.text, value.is_late) for value in of(Value, events)] == [(str(n), False) for n in range(200)]


async def test_an_interrupt_message_keeps_deno_alive():
    async with adapter("deno") as (opened, events), anyio.create_task_group() as tasks:
        endings = []

        async def run():
            endings.append(await evaluate(opened, Request("e", "console.log('begun'); while (true) {}")))

        tasks.start_soon(run)
        await until(lambda: printed(events))
        assert (await opened.interrupt()).outcome == "interrupted"
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        assert (await evaluate(opened, Request("f", "1"))).status == "done"


# A SIGINT that reaches bash between its `echo` and the start of the next program interrupts neither. A subshell is in
# the foreground before it prints, so that the interrupt ends it whenever it comes.
@pytest.mark.parametrize("code", ["(echo begun; exec sleep 60)", "echo begun; read x"])
async def test_a_shell_command_can_be_interrupted(code):
    async with adapter("bash") as (opened, events), anyio.create_task_group() as tasks:
        endings = []

        async def run():
            endings.append(await evaluate(opened, Request("e", code)))

        tasks.start_soon(run)
        await until(lambda: printed(events))
        await opened.interrupt()
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        # bash_kernel can take the prompt that the interrupt brought for the end of what comes next. From then on it is
        # one answer behind, reads a status from the wrong one, and says of all code that it failed; but it goes on.
        ended = {(await evaluate(opened, Request(name, "echo on"))).status for name in "fg"}
        assert ended <= {"done", "failed"}


async def test_an_r_plot_is_a_display_and_an_r_value_is_the_result():
    async with adapter("ir") as (opened, events):
        await evaluate(opened, Request("e", "x <- c(1, 2); x"))
        (value,) = of(Value, events)
        assert (value.text, "text/html" in value.bundle) == ("[1] 1 2", True)
        await evaluate(opened, Request("e", "plot(1:3)"))
        (plot,) = of(Display, events)
        assert base64.b64decode(plot.bundle["image/png"]).startswith(b"\x89PNG")


async def test_a_busy_kernel_without_heartbeat_counts_as_alive():
    async with adapter("ir") as (opened, events):
        with anyio.fail_after(60):
            await evaluate(opened, Request("e", "Sys.sleep(11); 1"))
        assert of(Value, events)[0].text == "[1] 1"


ON_UVLOOP = """
import anyio, sys
sys.path.insert(0, sys.argv[2])
from evaluations import evaluate
from codriver.features.jupyter.kernels.jupyter_adapter import connect_jupyter
from codriver.core.requests import Request

async def main():
    told = []
    connect, listener = connect_jupyter, lambda identity, event: told.append(event.text)
    async with connect(sys.argv[1], listener=listener, workspace=None, is_remote=False) as opened:
        await evaluate(opened, Request("e", "print(40); 2"))
    print("".join(told))

anyio.run(main, backend_options={"use_uvloop": True})
"""


async def test_a_kernel_that_dies_behind_a_tunnel_is_detected(monkeypatch):
    """Its sockets stay open, so only its heartbeat reveals it; while it is busy, the heartbeat alone does not count."""
    monkeypatch.setattr(zmq_channel, "_is_loopback", lambda _: False)
    monkeypatch.setattr(zmq_channel, "HEARTBEAT_TIMEOUT_S", 2.0)

    async def pass_on(port, near):
        async with near:
            with suppress(OSError):
                async with await anyio.connect_tcp("127.0.0.1", port) as far, anyio.create_task_group() as tasks:
                    tasks.start_soon(copy, near, far)
                    tasks.start_soon(copy, far, near)
            await anyio.sleep_forever()

    async def copy(source, target):
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while True:
                await target.send(await source.receive())
        await anyio.sleep_forever()

    with real_kernels.fresh("ipykernel") as kernel:
        tunnel = json.loads(kernel.file.read_text())
        async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
            for name in [name for name in tunnel if name.endswith("_port")]:
                opening = anyio.create_tcp_listener(local_host="127.0.0.1")
                listener = await stack.enter_async_context(await opening)
                tasks.start_soon(listener.serve, partial(pass_on, tunnel[name]))
                tunnel[name] = listener.extra(anyio.abc.SocketAttribute.local_port)
            kernel.file.write_text(json.dumps(tunnel))
            async with connected(kernel) as (opened, events):
                await evaluate(opened, Request("e", "1"))
                assert of(Value, events)[0].text == "1"
                kernel.kill()
                with anyio.fail_after(60):
                    assert "no heartbeat" in await opened.wait_closed()
            tasks.cancel_scope.cancel()


async def test_a_kernel_also_works_on_uvloop():
    """The tests run on asyncio's own loop; a server runs on uvloop if that is installed."""
    file = str(real_kernels.kernel("ipykernel").file)
    support = str(Path(real_kernels.__file__).parent)
    done = await anyio.run_process([sys.executable, "-c", ON_UVLOOP, file, support], check=False)
    assert (done.stdout.decode().split(), done.stderr) == (["40", "2"], b"")
