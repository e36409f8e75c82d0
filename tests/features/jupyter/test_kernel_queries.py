"""Queries that any kernel may answer: parsing their answers, and not querying while a cell runs."""

from contextlib import asynccontextmanager

import anyio
import anyio.lowlevel
import pytest
from refusals import refused_as
from scripted_channel import ScriptedChannel

from codriver.features.jupyter.kernels.kernel import open_kernel
from codriver.features.jupyter.kernels.kernel_queries import KernelQueries, read_completions, read_symbol
from codriver.features.jupyter.kernels.python_queries import is_plain_python
from codriver.repls.contract.queries import Complete, Lookup
from codriver.repls.contract.symbols import Completion, SyntaxIssue

# Recorded from ipykernel 7.4, xeus-python 0.19, IRkernel 1.3, Octave 7.3.
BUILTIN_DESCRIPTION = (
    "\x1b[31mSignature:\x1b[39m len(obj, /)\n\x1b[31mDocstring:\x1b[39m Return the number of items in a container.\n"
    "\x1b[31mType:\x1b[39m      builtin_function_or_method"
)
FUNCTION_DESCRIPTION = (
    "\x1b[31mSignature:\x1b[39m  area(r: float, n: int = 2) -> float\n\x1b[31mDocstring:\x1b[39m\nOf a circle.\n\n"
    "Note: more.\n\x1b[31mFile:\x1b[39m      /home/u/ws/mod.py\n\x1b[31mType:\x1b[39m      function"
)
R_DESCRIPTION = (
    "# Help document:\nNo documentation for 'len' in specified packages and libraries:\nyou could try '??len'\n\n"
)
OCTAVE_DESCRIPTION = (
    "'disp' is a built-in function from the file libinterp/corefcn/pr-output.cc\r\n\r\n -- disp (X)\r\n"
)


def kinds_metadata(*rows):
    return {"_jupyter_types_experimental": [{"text": text, "type": kind} for text, kind in rows]}


@pytest.mark.parametrize(
    ("prefix", "content", "expected"),
    [
        (
            "import os; os.pa",
            {
                "matches": ["pardir", "path"],
                "cursor_start": 14,
                "cursor_end": 16,
                "metadata": kinds_metadata(("pardir", "module"), ("path", "<unknown>")),
            },
            [Completion("import os; os.pardir", "module"), Completion("import os; os.path")],
        ),
        ("ech", {"matches": ["echo"], "cursor_start": 0, "metadata": {}}, [Completion("echo")]),
        ("ti", {"matches": ["%time", "time"], "cursor_start": 0}, [Completion("time")]),
        ("rep", {"matches": ["rep", "rep", "`repeat `"], "cursor_start": 0}, [Completion("rep")]),
        (
            "x",
            {"matches": ["x1"], "cursor_start": 0, "metadata": kinds_metadata(("x1", "instance"))},
            [("x1", "variable")],
        ),
        ("é.a", {"matches": ["ab"], "cursor_start": 2}, [Completion("é.ab")]),
        ("x", {}, []),
        ("x", {"matches": None, "metadata": {"_jupyter_types_experimental": [1, {"text": 2}]}}, []),
    ],
)
def test_completions_are_whole_names_with_the_given_prefix(prefix, content, expected):
    completions = Complete(prefix).read({"completions": read_completions(prefix, content)})
    assert [(completion.candidate, completion.type) for completion in completions] == [
        (completion.candidate, completion.type) if isinstance(completion, Completion) else completion
        for completion in expected
    ]


def symbol(name, text):
    return Lookup(name).read(read_symbol(name, text))


def test_an_ipython_description_is_parsed_by_its_titles():
    lookup = symbol("len", BUILTIN_DESCRIPTION)
    assert (lookup.doc, lookup.arglists) == ("Return the number of items in a container.", ("(obj, /)",))
    lookup = symbol("mod.area", FUNCTION_DESCRIPTION)
    assert (lookup.name, lookup.file, lookup.extra) == ("area", "/home/u/ws/mod.py", {"type": "function"})
    assert (lookup.doc, lookup.arglists) == ("Of a circle.\n\nNote: more.", ("(r: float, n: int = 2) -> float",))


@pytest.mark.parametrize("text", [OCTAVE_DESCRIPTION, "(car LIST) returns the first element of LIST"])
def test_a_description_without_ipython_titles_is_returned_as_documentation(text):
    assert symbol("it", text).doc == text.replace("\r\n", "\n").strip()


def test_overstruck_titles_are_read_as_plain_text():
    assert symbol("mean", "_\bM_\be_\ba_\bn\n\n     mean(x, ...)").doc == "Mean\n\n     mean(x, ...)"


@pytest.mark.parametrize("text", ["\x1b[0m\n", R_DESCRIPTION])
def test_an_empty_description_means_an_unknown_symbol(text):
    assert symbol("it", text) is None


@pytest.mark.parametrize(("code", "plain"), [("x = 1", True), ("%time x", False), ("!ls", False), ("a b", False)])
def test_plain_python_is_distinguished_from_ipython_syntax(code, plain):
    assert is_plain_python(code) is plain


@asynccontextmanager
async def queries_to(implementation):
    channel = ScriptedChannel(implementation=implementation)
    async with open_kernel(channel.open, on_foreign=lambda _message: None) as kernel:
        channel.sent.clear()
        yield channel, KernelQueries(kernel, op_timeout_s=30)


async def answer_next(channel, content):
    """Answer the query that is sent next."""
    with anyio.fail_after(30):
        while not channel.sent:
            await anyio.lowlevel.checkpoint()
    socket, kind, request, identity = channel.sent.pop()
    channel.answer(identity, kind, content, socket=socket)
    return kind, request


STATUSES = [
    ("IRkernel", "complete", None),
    ("IRkernel", "incomplete", "the code is incomplete"),
    ("IRkernel", "invalid", "the kernel cannot parse the code"),
    ("IRkernel", "unknown", None),
    ("Deno kernel", "incomplete", "the code is incomplete"),
    ("Deno kernel", "invalid", None),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("implementation", "status", "message"), STATUSES)
async def test_code_is_refused_if_a_reliable_kernel_cannot_parse_it(implementation, status, message):
    async with queries_to(implementation) as (channel, queries), anyio.create_task_group() as tasks:
        issues = []

        async def check():
            issues.append(await queries.check_syntax("if x:\n  y"))

        tasks.start_soon(check)
        assert await answer_next(channel, {"status": status}) == ("is_complete_request", {"code": "if x:\n  y\n\n"})
    assert issues == [SyntaxIssue(message) if message else None]


@pytest.mark.anyio
@pytest.mark.parametrize("implementation", ["bash_kernel", "Octave Kernel", "SoS", "a kernel of tomorrow"])
async def test_an_unreliable_kernel_is_not_queried_about_syntax(implementation):
    async with queries_to(implementation) as (channel, queries):
        assert await queries.check_syntax("fi)") is None
        assert channel.sent == []


@pytest.mark.anyio
async def test_a_kernel_without_subshells_refuses_queries_while_other_clients_use_it(monkeypatch):
    monkeypatch.setattr("codriver.features.jupyter.kernels.kernel_queries.BUSY_TIMEOUT_S", 0.05)
    async with queries_to("xeus-python") as (channel, queries):
        channel.state("busy", "theirs", session="another")
        with refused_as("repl-busy", match="is running code from another client, and xeus-python"):
            await queries.complete("x")
        assert await queries.check_syntax("a b") is None
        assert channel.sent == []


@pytest.mark.anyio
async def test_a_query_waits_for_short_executions():
    async with queries_to("xeus-python") as (channel, queries), anyio.create_task_group() as tasks:
        channel.state("busy", "theirs", session="another")
        completions = []

        async def complete():
            completions.extend(Complete("x").read(await queries.complete("x")))

        tasks.start_soon(complete)
        await anyio.lowlevel.checkpoint()
        channel.state("idle", "theirs", session="another")
        await answer_next(channel, {"matches": ["xy"], "cursor_start": 0})
    assert completions == [Completion("xy")]


@pytest.mark.anyio
async def test_a_busy_kernel_is_queried_in_a_subshell():
    async with queries_to("ipython") as (channel, queries), anyio.create_task_group() as tasks:
        channel.state("busy", "theirs", session="another")
        tasks.start_soon(queries.complete, "x")
        kind, _ = await answer_next(channel, {"status": "ok", "subshell_id": "sub-1"})
        assert kind == "create_subshell_request"
        with anyio.fail_after(30):
            while not channel.sent:
                await anyio.lowlevel.checkpoint()
        _, kind, _, identity = channel.sent.pop()
        assert (kind, channel.subshells[identity]) == ("complete_request", "sub-1")
        channel.answer(identity, kind, {"matches": []})
