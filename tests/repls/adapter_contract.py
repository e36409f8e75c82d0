"""The contract of adapters: its REPLs, and the code for each of their languages.

The guarantees of every adapter, in `test_adapter_*.py`, are tested with nREPL and each installed server, with Jupyter
and real kernels, and with the REPL in memory.
"""

from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module

import anyio
import anyio.lowlevel
import memory_repl
import pytest
import real_kernels
import real_repls

from codriver.core.requests import Form, Request
from codriver.repls.contract.events import Output, Value
from codriver.repls.contract.queries import Complete, LastError, Lookup
from codriver.repls.kinds import NREPL_PROTOCOL, split_address
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl

CONNECTORS = {NREPL_PROTOCOL: connect_nrepl, memory_repl.PROTOCOL: memory_repl.connect}
MEMORY = "memory"
# A shell has no values, and the contract is expressed in values: see `jupyter/test_real_kernels.py`.
KERNELS = tuple(name for name in real_kernels.NAMES if name != "bash")
NAMES = (*real_repls.NAMES, *KERNELS, MEMORY)

ELEMENT = "[1] "
"""What R prints before a vector's first element."""


@dataclass(frozen=True)
class Words:
    """The code for the contract in one language."""

    add: str = "(+ 1 2)"
    three: str = "3"
    say: str = '(println "hi")'
    fail: str = "(/ 1 0)"
    message: str = "zero"
    type: str = "ZeroDivisionError"
    text: str = '"ж😀"'
    define: str = "(def {0} {1})"
    long: str | None = '(apply str (repeat 1000000 "x"))'
    wait: str | None = None
    """Waits for N seconds."""
    forever: str | None = None
    known: str = "map"
    begun: str = "ma"
    """The beginning of a name, to be `completed`."""
    completed: str = "map"
    unknown_type: str = "CompilerException"
    late: str | None = None
    """Prints `late` from a thread, after the evaluation."""
    broken: str = "(+ 1"
    kill: str | None = None
    read: str = "input()"


JS = {"fail": '(throw (js/Error. "zero"))', "type": "Error", "unknown_type": "Error"}

LISP = Words(
    define="(def {0} {1})",
    long='(.ljust "" 1000000 "x")',
    wait='(.sleep (python/__import__ "time") {0})',
    forever="(loop [] (recur))",
    kill='(.kill (python/__import__ "os") (.getpid (python/__import__ "os")) 9)',
    message="0",
)

JVM = Words(
    type="java.lang.ArithmeticException",
    unknown_type="java.lang.RuntimeException",
    wait="(Thread/sleep (* 1000 {0}))",
    forever="(loop [] (recur))",
    late='(future (Thread/sleep 200) (println "late"))',
    kill="(.halt (Runtime/getRuntime) 9)",
)

ON_THE_JVM = {"jvm", "leiningen", "tools.nrepl"}

PYTHON = Words(
    add="1 + 2",
    say='print("hi")',
    fail="1 / 0",
    define="{0} = {1}",
    long='"x" * 1000000',
    wait="import time; time.sleep({0})",
    forever="while True: pass",
    unknown_type="NameError",
    broken="(1 +",
    late="import threading; threading.Timer(0.2, print, ['late']).start()",
    kill="import os; os.kill(os.getpid(), 9)",
)

WORDS = {
    "python": PYTHON,
    # Output from its threads is attributed to whichever cell ran last, but an asyncio task's output stays with its
    # cell.
    "ipykernel": replace(
        PYTHON,
        late="import asyncio\n"
        "async def later(): await asyncio.sleep(0.2); print('late')\n"
        "task = asyncio.ensure_future(later())",
    ),
    "xpython": replace(PYTHON, late=None),
    "deno": Words(
        add="1 + 2",
        say='console.log("hi")',
        fail='throw new TypeError("zero")',
        type="TypeError",
        define="globalThis.{0} = {1}",
        long=None,  # Deno itself truncates it
        forever="while (true) {}",
        unknown_type="ReferenceError",
        broken="(1 +",
        kill="Deno.kill(Deno.pid, 'SIGKILL')",
        read='prompt("")',
        begun="globalThis.Mat",
        completed="globalThis.Math",
    ),
    "ir": Words(
        add="1L + 2L",
        three="[1] 3",
        say='cat("hi\\n")',
        fail='stop("zero")',
        type="ERROR",
        define="{0} <- {1}",
        long='strrep("x", 1000000)',
        wait="Sys.sleep({0})",
        forever="while (TRUE) {}",
        unknown_type="ERROR",
        broken="(1 +",
        kill="tools::pskill(Sys.getpid(), 9)",
        read='given <- readline(""); given',
        known="matrix",
        begun="matr",
        completed="matrix",
    ),
    "lisp": LISP,
    "basilisp": LISP,
    **dict.fromkeys(ON_THE_JVM, JVM),
    "hy": Words(
        say='(print "hi")',
        define="(setv {0} {1})",
        long='(* "x" 1000000)',
        wait='(.sleep (__import__ "time") {0})',
        unknown_type="NameError",
        kill='(.kill (__import__ "os") (.getpid (__import__ "os")) 9)',
    ),
    "nbb": Words(
        **JS,
        wait="(js/Promise. (fn [done] (js/setTimeout done (* 1000 {0}))))",
        late='(js/setTimeout (fn [] (println "late")) 200)',
        kill="(js/process.kill js/process.pid 9)",
    ),
    MEMORY: Words(
        known="println",
        unknown_type="NameError",
        long='(repeat "x" 1000000)',
        wait="(sleep {0})",
        forever="(wait)",
        late='(print-later 0.1 "late")',
        kill="(exit)",
    ),
}


def connector(protocol):
    """Return the connector of a protocol. The one for kernels is imported only if the feature exists."""
    if protocol in CONNECTORS:
        return CONNECTORS[protocol]
    return import_module("codriver.features.jupyter.kernels.jupyter_adapter").connect_jupyter


@asynccontextmanager
async def adapter(name, *, address=None):
    events = []
    protocol, place = split_address(address or shared(name).address)
    async with connector(protocol)(
        place,
        listener=lambda identity, event: events.append((identity, event)),
        workspace=None,
        is_remote=False,
    ) as opened:
        yield opened, events


def shared(name):
    """Return the running REPL that all tests share."""
    if name in real_kernels.NAMES:
        return real_kernels.kernel(name)
    return memory_repl.repl() if name == MEMORY else real_repls.repl(name)


def fresh(name):
    """Return a running REPL for a test that breaks it."""
    if name in real_kernels.NAMES:
        return real_kernels.fresh(name)
    return memory_repl.fresh() if name == MEMORY else real_repls.fresh(name)


def forms(*texts):
    return tuple(Form(text, line, 1) for line, text in enumerate(texts, 1))


def evaluation(*texts, identity="e", **options):
    return Request(identity, "\n".join(texts), forms=forms(*texts), **options)


def values(events):
    return [event.text for _, event in events if isinstance(event, Value)]


def printed(events, stream="out"):
    return "".join(event.text for _, event in events if isinstance(event, Output) and event.stream == stream)


async def until(condition):
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.01)


def needs(opened, capability):
    if capability not in opened.profile.capabilities:
        pytest.skip(f"no {capability}: the refusal is tested by another test")


def operation_calls(opened, session):
    """Return an operation for each capability."""
    return {
        "interrupt": lambda: opened.interrupt(session),
        "stdin": lambda: opened.send_input("x\n", session),
        "complete": lambda: opened.query(Complete("ma", session=session)),
        "lookup": lambda: opened.query(Lookup("map", session=session)),
        "macroexpand": lambda: opened.macroexpand("(when 1 2)", None, session),
        "test": lambda: opened.run_tests(None, None, session),
        "stacktrace": lambda: opened.query(LastError(session=session)),
    }
