"""Introspection of real kernels: each answers in its own way, and a busy one as far as it can."""

import json
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
import pytest
import real_kernels
from evaluations import evaluate
from refusals import refused_as

from codriver.core import requests
from codriver.core.requests import TEST_SESSION, Request
from codriver.features.jupyter.kernels import python_queries
from codriver.features.jupyter.kernels.jupyter_adapter import connect_jupyter
from codriver.features.jupyter.kernels.kernel import Kernel, open_kernel
from codriver.features.jupyter.kernels.zmq_channel import open_zmq
from codriver.repls.contract.adapter import CapabilityMissingError, EvaluationFailedError
from codriver.repls.contract.events import Output, Value
from codriver.repls.contract.queries import Complete, Drift, FindSource, LastError, ListNames, Lookup, Restore
from codriver.repls.contract.symbols import SyntaxIssue

pytestmark = pytest.mark.anyio
PYTHONS = ("ipykernel", "xpython")


@asynccontextmanager
async def connected(kernel, listener=lambda _evaluation, _event: None):
    path = kernel.address.partition("://")[2]
    async with connect_jupyter(path, listener=listener, workspace=kernel.folder, is_remote=False) as adapter:
        yield adapter


@pytest.fixture
async def adapter(name):
    async with connected(real_kernels.kernel(name)) as opened:
        yield opened


python_kernels = pytest.mark.parametrize("name", PYTHONS)
ipykernel = pytest.mark.parametrize("name", ["ipykernel"])


def load(kernel, name, text, identity="load", **fields):
    path = kernel.folder / name
    path.write_text(text)
    return Request(identity, text, kind="load-file", file=str(path), **fields)


@python_kernels
async def test_a_python_kernel_describes_symbols_like_the_embedded_worker(adapter):
    code = "import json\ndef area(r, n=2):\n    'Of a circle.'\n    return r * n\nradius = [1, 2]"
    assert (await evaluate(adapter, Request("define", code))).status == "done"
    area = await adapter.query(Lookup("area"))
    assert (area.doc, area.arglists, area.namespace) == ("Of a circle.", ("(r, n=2)",), "__main__")
    assert area.file.startswith("In[")
    assert (await adapter.query(Lookup("radius", namespace="__main__"))).extra["value"] == "[1, 2]"
    assert (await adapter.query(Lookup("json.dumps"))).file.endswith("json/__init__.py")
    assert await adapter.query(Lookup("nobody")) is None
    assert (await adapter.query(FindSource("area"))).text.startswith("def area")
    names = [symbol.name for symbol in (await adapter.query(ListNames("user"))).listed]
    assert {"area", "radius"} <= set(names)
    assert not {"In", "Out", "exit", "get_ipython"} & set(names)
    assert "json.dumps" in [symbol.name for symbol in (await adapter.query(ListNames("json.dump*"))).listed]
    assert await adapter.query(ListNames("no.such.module")) is None


@python_kernels
async def test_completions_include_the_kernels_own_and_other_modules(adapter):
    await evaluate(adapter, Request("define", "import json\nwidth_of_it = 1"))
    assert [completion.candidate for completion in await adapter.query(Complete("json.dum"))] == [
        "json.dump",
        "json.dumps",
    ]
    assert "width_of_it" in [completion.candidate for completion in await adapter.query(Complete("width_of"))]
    assert [completion.candidate for completion in await adapter.query(Complete("dum", namespace="json"))] == [
        "dump",
        "dumps",
    ]
    assert await adapter.query(Complete("nothing_begins_so")) == ()
    assert "%timeit" in [completion.candidate for completion in await adapter.query(Complete("%timei"))]
    assert "'a'.upper" in [completion.candidate for completion in await adapter.query(Complete("'a'.upp"))]


@python_kernels
async def test_ipython_completes_without_jedi(name):
    """The first completion by Jedi may take longer than a query may."""
    events = []
    async with connected(real_kernels.kernel(name), lambda _evaluation, event: events.append(event)) as adapter:
        await evaluate(adapter, Request("define", "import sys\ncounts = {'key one': 1}"))
        for prefix, candidate in [("counts['key", "counts['key one"), ("[1].app", "[1].append")]:
            assert candidate in [completion.candidate for completion in await adapter.query(Complete(prefix))]
        events.clear()
        parsed_files = "len(getattr(sys.modules.get('parso.cache'), 'parser_cache', ()))"
        await evaluate(adapter, Request("check", parsed_files))
        assert [event.text for event in events if isinstance(event, Value)] == ["0"]


READABLE = ["x = 1", "%time 1", "!true", "x?", "await f()", "def f():\n    return 1", "%%bash\nls", ""]
UNREADABLE = [("a b", 1, 3), ("x = 1\ny = = 2", 2, 5), ("def f(", 1, 6), ("%time 1\nfor i in 1", 2, 11)]


@python_kernels
async def test_a_python_kernel_parses_ipython_syntax_and_reports_error_positions(adapter):
    for code in READABLE:
        assert await adapter.check_syntax(code) is None, code
    for code, line, column in UNREADABLE:
        issue = await adapter.check_syntax(code)
        assert (issue.type, issue.line, issue.column) == ("SyntaxError", line, column), code


@python_kernels
async def test_a_file_is_loaded_under_its_path(adapter, name):
    kernel = real_kernels.kernel(name)
    request = load(kernel, "circles.py", "'Circles.'\n\ndef radius():\n    return 1 / 0\n\nradius()\n")
    failure = (await evaluate(adapter, request)).failure
    assert (failure.type, failure.file, failure.line) == ("ZeroDivisionError", request.file, 4)
    trace = await adapter.query(LastError(80))
    assert [frame.text for frame in trace.frames] == [f"radius ({request.file}:4)", f"<module> ({request.file}:6)"]
    assert not any(frame.tooling for frame in trace.frames)
    assert (await adapter.query(Lookup("radius"))).line == 3
    failure = (await evaluate(adapter, load(kernel, "broken.py", "x = 1\ny = = 2\n"))).failure
    assert (failure.type, failure.phase, failure.line) == ("SyntaxError", "read", 2)
    assert failure.trace == (f"<module> ({failure.file}:2)",)


@python_kernels
async def test_a_file_of_an_imported_module_is_loaded_into_that_module(name):
    kernel, events = real_kernels.kernel(name), []
    async with connected(kernel, lambda _evaluation, event: events.append(event)) as adapter:
        (kernel.folder / "loaded_once.py").write_text("def sides():\n    return 3\n")
        await evaluate(adapter, Request("use", "from loaded_once import sides"))
        request = load(kernel, "loaded_once.py", "def sides():\n    return 4\n", undo_id="batch")
        assert (await evaluate(adapter, request)).status == "done"
        assert [event.text for event in events if isinstance(event, Value)] == [
            f"<module 'loaded_once' from {request.file!r}>"
        ]
        assert {event.kind for event in await adapter.query(Drift(kernel.folder))} <= {"renewed"}
        assert await adapter.query(Drift(kernel.folder)) == ()
        await evaluate(adapter, Request("held", "sides()"))
        assert events[-1].text == "4"
        assert await adapter.query(Restore("batch")) == ()
        await evaluate(adapter, Request("look", "sides()"))
        assert events[-1].text == "3"


@python_kernels
async def test_the_last_error_includes_its_chain_and_plain_locals(adapter):
    code = (
        "def inner(n, password, odd):\n    return 1 / n\n"
        "def outer():\n    try:\n        inner(0, 'hidden', object())\n"
        "    except ZeroDivisionError as error:\n        raise ValueError('wrapped') from error\nouter()"
    )
    assert (await evaluate(adapter, Request("fail", code))).status == "failed"
    trace = await adapter.query(LastError(80))
    (cause,) = trace.chain
    assert (trace.type, trace.message, cause.type, cause.relation) == (
        "ValueError", "wrapped", "ZeroDivisionError", "cause",
    )  # fmt: skip
    assert cause.frames[0].function == "inner"
    assert cause.frames[0].locals == {"n": "0", "odd": "<object>"}
    assert not (await adapter.query(LastError())).chain[0].frames[0].locals


FAILING = (
    "class Odd:\n    def __repr__(self):\n        print('looked at')\n        return 'odd'\n\n"
    "def half(n, token, odd, long, whole, name='a', last=1):\n    return whole / n\n"
)


@python_kernels
async def test_a_failure_includes_the_first_plain_locals_of_its_frame(name, monkeypatch):
    """Plain and complete, without secret names and without running user code, as in the embedded Python."""
    monkeypatch.setattr(python_queries, "LOCALS_TIMEOUT_S", 60)
    kernel, events = real_kernels.kernel(name), []
    async with connected(kernel, lambda _evaluation, event: events.append(event)) as adapter:
        await evaluate(adapter, Request("define", FAILING))
        failed = await evaluate(adapter, Request("fail", "half(0, 'hidden', Odd(), 'x' * 61, [1])"))
        assert failed.failure.locals == ("n=0", "whole=[1]", "name='a'")
        assert (await evaluate(adapter, Request("flat", "n = 0\n1 / n"))).failure.locals == ()
        await evaluate(adapter, load(kernel, "thirds.py", "def third(n):\n    return 3 / n\n"))
        request = load(kernel, "uses_thirds.py", "third(0)\n")
        assert (await evaluate(adapter, request)).failure.locals == ("n=0",)
        assert "looked at\n" not in [event.text for event in events if isinstance(event, Output)]


@ipykernel
async def test_reading_locals_needs_another_request_only_after_an_error_in_a_function(adapter, monkeypatch):
    """A value needs no additional message, nor does an error of the cell itself, which has no locals."""
    sent, post = [], Kernel.post

    def recording_post(*args, **fields):
        sent.append(args[2])
        return post(*args, **fields)

    await evaluate(adapter, Request("define", FAILING))
    await evaluate(adapter, Request("bring-in", "half(0, 1, 2, 3, 4)"))
    monkeypatch.setattr(Kernel, "post", recording_post)
    for identity, code, count in (("good", "1 + 1", 1), ("flat", "1 / 0", 1), ("deep", "half(0, 1, 2, 3, 4)", 2)):
        sent.clear()
        await evaluate(adapter, Request(identity, code))
        assert sent == ["execute_request"] * count, code


HOOK_OF_ANOTHER_CLIENT = """\
def fail_next(*_):
    import sys
    try:
        half(0, 1, 2, 3, '4')
    except TypeError as error:
        for name in {"last_exc", "last_value"} & set(dir(sys)):
            setattr(sys, name, error)

def mine(n):
    raise ValueError(n)

get_ipython().events.register("post_execute", fail_next)
"""


@ipykernel
async def test_locals_of_another_clients_error_are_not_reported(adapter, monkeypatch):
    monkeypatch.setattr(python_queries, "LOCALS_TIMEOUT_S", 60)
    await evaluate(adapter, Request("define", FAILING))
    assert (await evaluate(adapter, Request("hook", HOOK_OF_ANOTHER_CLIENT))).status == "done"
    try:
        assert (await evaluate(adapter, Request("fail", "mine(1)"))).failure.locals == ()
    finally:
        await evaluate(adapter, Request("unhook", "get_ipython().events.unregister('post_execute', fail_next)"))


CASES = (
    "import asyncio, unittest\n\n\nclass Cases(unittest.TestCase):\n"
    "    def test_loop(self):\n        asyncio.run(asyncio.sleep(0))\n\n"
    "    def test_wrong(self):\n        print('looking')\n        self.assertEqual(1, 2)\n"
)


@ipykernel
async def test_tests_run_in_the_kernel_and_may_start_their_own_event_loop(name):
    kernel, events = real_kernels.kernel(name), []
    (kernel.folder / "kernel_cases.py").write_text(CASES)
    async with connected(kernel, lambda evaluation, event: events.append((evaluation, event))) as adapter:
        selection = requests.TestSelection("kernel_cases")
        ending = await evaluate(adapter, Request("run", "tests", kind="run-tests", tests=selection))
        assert (ending.status, ending.failure.type) == ("failed", "tests-failed")
        printed = "".join(event.text for _, event in events if isinstance(event, Output))
        assert "looking" in printed
        report = json.loads(next(event.text for _, event in events if isinstance(event, Value)))
        assert (report["tests"], report["passed"], report["failed"]) == (2, 1, 1)
        wrong = report["results"][0]
        assert (wrong["test"], wrong["line"]) == ("Cases.test_wrong", 10)
        run = await adapter.run_tests("kernel_cases", "Cases.test_loop")
        assert (run.tests, run.passed) == (1, 1)
        with refused_as("unknown-namespace"):
            await adapter.run_tests("no_such_cases", None)
        with pytest.raises(EvaluationFailedError, match="no test"):
            await adapter.run_tests("kernel_cases", "no_such_test")


@asynccontextmanager
async def running(adapter, code, **fields):
    """Run code in the background, and continue once it has printed `begun`."""
    async with anyio.create_task_group() as tasks:
        endings = []

        async def run():
            endings.append(await evaluate(adapter, Request("busy", code, **fields)))

        tasks.start_soon(run)
        yield endings


async def printed(events, text):
    with anyio.fail_after(60):
        while not any(isinstance(event, Output) and text in event.text for _, event in events):
            await anyio.sleep(0.01)


SPIN = "def spin(wanted):\n    print('begun')\n    while wanted: pass\nspin(True)"


@ipykernel
async def test_a_busy_kernel_with_subshells_answers_and_reports_its_stack(name):
    kernel, events = real_kernels.kernel(name), []
    async with (
        connected(kernel, lambda evaluation, event: events.append((evaluation, event))) as adapter,
        running(adapter, SPIN) as endings,
    ):
        await printed(events, "begun")
        assert (await adapter.query(Lookup("spin"))).arglists == ("(wanted)",)
        assert "spin" in [completion.candidate for completion in await adapter.query(Complete("spi"))]
        assert (await adapter.check_syntax("a b")).line == 1
        dump = await adapter.dump_threads()
        assert "in spin\n    while wanted: pass" in dump.user
        assert "zmq" not in dump.whole
        assert (await adapter.interrupt()).outcome != "idle"
    assert [ending.status for ending in endings] == ["interrupted"]


@ipykernel
async def test_subshells_are_deleted_after_use(name):
    kernel, events = real_kernels.kernel(name), []
    async with (
        connected(kernel, lambda evaluation, event: events.append((evaluation, event))) as adapter,
        running(adapter, SPIN),
    ):
        await printed(events, "begun")
        assert await adapter.dump_threads() is not None
        await adapter.interrupt()
    async with open_kernel(partial(open_zmq, str(kernel.file)), on_foreign=lambda _message: None) as opened:
        reply = await opened.request("list_subshell_request", {}, socket="control", timeout_s=30)
        assert reply.content["subshell_id"] == []


@ipykernel
async def test_an_interrupted_test_run_reports_what_passed(name):
    kernel, events = real_kernels.kernel(name), []
    start_file = kernel.folder / "begun"
    endless = f"import time; open({str(start_file)!r}, 'w').close(); time.sleep(600)"
    (kernel.folder / "endless_cases.py").write_text(CASES.replace("self.assertEqual(1, 2)", endless))
    fields = {"kind": "run-tests", "tests": requests.TestSelection("endless_cases")}
    async with connected(kernel, lambda evaluation, event: events.append((evaluation, event))) as adapter:
        async with running(adapter, "tests", **fields) as endings:
            with anyio.fail_after(60):
                while not start_file.exists():
                    await anyio.sleep(0.01)
            assert (await adapter.interrupt(TEST_SESSION)).outcome != "idle"  # it may end at any time
        (ending,) = endings
        assert ending.status == "interrupted"
        report = json.loads(next(event.text for _, event in events if isinstance(event, Value)))
        assert (report["passed"], report["stopped"]["test"]) == (1, "Cases.test_wrong")
        assert (await adapter.interrupt(TEST_SESSION)).outcome == "idle"


@ipykernel
async def test_a_queued_test_run_can_be_cancelled(name):
    kernel, events = real_kernels.kernel(name), []
    async with (
        connected(kernel, lambda evaluation, event: events.append((evaluation, event))) as adapter,
        running(adapter, SPIN),
    ):
        await printed(events, "begun")
        request = Request("tests", "tests", kind="run-tests", tests=requests.TestSelection("kernel_cases"))
        endings = []
        adapter.start_evaluation(request, endings.append)
        await anyio.wait_all_tasks_blocked()
        assert (await adapter.interrupt(TEST_SESSION)).outcome == "interrupted"
        assert [ending.status for ending in endings] == ["interrupted"]
        assert (await adapter.interrupt()).outcome == "interrupted"


@pytest.mark.parametrize("name", ["xpython"])
async def test_a_busy_kernel_without_subshells_refuses_queries_with_an_explanation(name, monkeypatch):
    monkeypatch.setattr("codriver.features.jupyter.kernels.kernel_queries.BUSY_TIMEOUT_S", 0.05)
    kernel, events = real_kernels.kernel(name), []
    code = "print('begun', flush=True)\nimport os, time\nwhile not os.path.exists('go.on'): time.sleep(0.01)"
    (kernel.folder / "go.on").unlink(missing_ok=True)
    async with (
        connected(kernel, lambda evaluation, event: events.append((evaluation, event))) as adapter,
        running(adapter, code) as endings,
    ):
        await printed(events, "begun")
        with refused_as("repl-busy", match="xeus-python cannot answer queries in the meantime"):
            await adapter.query(Lookup("spin"))
        assert await adapter.dump_threads() is None
        (kernel.folder / "go.on").touch()
    assert [ending.status for ending in endings] == ["done"]


OTHER_LANGUAGES = {
    "ir": ("mean", "mean", "stop('no')", "f <- function(x", SyntaxIssue("the code is incomplete")),
    "bash": ("ech", "echo", "false", "fi)", None),
    "deno": ("conso", "console", "null.x", "function f(", SyntaxIssue("the code is incomplete")),
}


@pytest.mark.parametrize("name", OTHER_LANGUAGES)
async def test_kernels_of_other_languages_answer_what_their_protocol_supports(adapter, name):
    prefix, candidate, failing_code, invalid_code, issue = OTHER_LANGUAGES[name]
    assert candidate in [item.candidate for item in await adapter.query(Complete(prefix))]
    assert await adapter.check_syntax(invalid_code) == issue
    failure = (await evaluate(adapter, Request("fail", failing_code))).failure
    trace = await adapter.query(LastError())
    assert (trace.type, trace.message) == (failure.type, failure.message)
    if name == "ir":
        assert "arithmetic mean" in (await adapter.query(Lookup("mean"))).doc.lower()
        assert await adapter.query(Lookup("nobody.has.this")) is None
    else:
        with pytest.raises(CapabilityMissingError):
            await adapter.query(Lookup(candidate))
    unsupported_calls = (
        partial(adapter.run_tests, None, None),
        *(partial(adapter.query, item) for item in (Drift("/"), Restore("batch"))),
    )
    for call in unsupported_calls:
        with pytest.raises(CapabilityMissingError):
            await call()
    assert await adapter.query(ListNames("*")) is None
    assert (await adapter.query(FindSource(candidate)), await adapter.dump_threads()) == (None, None)
