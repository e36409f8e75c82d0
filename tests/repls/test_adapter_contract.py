"""The guarantees of every adapter: of nREPL's against each real server that is installed, of Jupyter's against real
kernels, and of one in memory."""

from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import anyio
import anyio.lowlevel
import memory_repl
import pytest
import real_kernels
import real_repls
from evaluations import evaluate

from codriver.app import wiring
from codriver.core.values import NO_LIMITS, Form, PrintLimits, Request
from codriver.errors import ReplDisconnectedError
from codriver.repls import dialects
from codriver.repls.contract.adapter_values import InputNeeded, Output, Value, ValueKept
from codriver.repls.contract.errors import (
    CapabilityMissingError,
    EvaluationFailedError,
    NamespaceMissingError,
    NotAnReplError,
    ReplUnreachableError,
    RequestUnsafeError,
    SessionNotOpenError,
)
from codriver.repls.kinds import split_address

pytestmark = pytest.mark.anyio

CONNECTORS = {**wiring.CONNECTORS, memory_repl.PROTOCOL: memory_repl.connect}
MEMORY = "memory"
# A shell has no values, and the contract is told in values: see `jupyter/test_real_kernels.py`.
KERNELS = tuple(name for name in real_kernels.NAMES if name != "bash")
NAMES = (*real_repls.NAMES, *KERNELS, MEMORY)


ELEMENT = "[1] "
"""What R prints before a vector's first element."""


@dataclass(frozen=True)
class Words:
    """How to say it in one language."""

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
    """How a name begins, `completed`."""
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
    # What its threads print is filed under whatever cell ran last; an asyncio task's stays where it belongs.
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
        long=None,  # Deno itself cuts it
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
    "squint": Words(
        **{**JS, "unknown_type": "ReferenceError"},
        long='(.repeat "x" 1000000)',
        kill="(js/process.kill js/process.pid 9)",
    ),
}


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@asynccontextmanager
async def adapter(name, *, address=None):
    events = []
    protocol, place = split_address(address or shared(name).address)
    async with CONNECTORS[protocol](
        place,
        listener=lambda identity, event: events.append((identity, event)),
        workspace=None,
        is_remote=False,
    ) as opened:
        yield opened, events


def shared(name):
    """The running REPL that all tests share."""
    if name in real_kernels.NAMES:
        return real_kernels.kernel(name)
    return memory_repl.repl() if name == MEMORY else real_repls.repl(name)


def fresh(name):
    """A running REPL for a test that breaks it."""
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


async def test_a_value_comes_back(name):
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(WORDS[name].add))
        assert (ending.status, values(events)) == ("done", [WORDS[name].three])
        assert {identity for identity, _ in events} == {"e"}


async def test_every_form_gives_a_value_and_output_comes_in_its_place(name):
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].add, WORDS[name].say, WORDS[name].add))
        assert values(events)[::2] == [WORDS[name].three] * 2 or values(events) == [WORDS[name].three] * 2
        if name != "squint":
            kinds = "".join("v" if isinstance(event, Value) else "o" for _, event in events)
            assert kinds[0] == "v"
            assert kinds[-1] == "v"
            assert "o" in kinds
            assert printed(events).strip() == "hi"


async def test_the_first_failing_form_stops_the_rest_and_is_named(name):
    words = WORDS[name]
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(words.add, words.fail, words.define.format("never", 1)))
        assert ending.status == "failed"
        assert words.type in ending.failure.type
        assert words.message in ending.failure.message
        assert ending.failure.form == 2
        assert ending.failure.line in {2, None}
        assert values(events) == [words.three]
        assert (await evaluate(opened, evaluation("never"))).status == "failed"


async def test_the_session_works_after_a_failure(name):
    async with adapter(name) as (opened, _):
        await evaluate(opened, evaluation(WORDS[name].fail))
        assert (await evaluate(opened, evaluation(WORDS[name].add))).status == "done"


async def test_an_unknown_name_is_an_error_with_its_type(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(opened, evaluation("nosuchname"))
        assert WORDS[name].unknown_type in ending.failure.type
        assert "nosuchname" in ending.failure.message


async def test_code_that_cannot_be_read_is_an_error_and_the_session_works(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(opened, Request("e", WORDS[name].broken))
        assert ending.status == "failed"
        assert ending.failure.message
        assert (await evaluate(opened, evaluation(WORDS[name].add))).status == "done"


async def test_characters_of_every_kind_survive(name):
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].text))
        (value,) = values(events)
        decoded = value.encode("ascii").decode("unicode_escape") if value.isascii() else value
        assert decoded.removeprefix(ELEMENT).strip("\"'") == "ж😀"


async def test_a_long_value_comes_whole(name):
    if WORDS[name].long is None:
        pytest.skip("this server cuts long values itself")
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].long))
        assert len(values(events)[-1].removeprefix(ELEMENT)) == 1_000_002


async def test_limits_are_honoured_where_the_profile_says_so(name):
    async with adapter(name) as (opened, events):
        needs(opened, "print-limits")
        await evaluate(
            opened, evaluation("list(range(99))" if name == "python" else "(range 99)"), PrintLimits(max_length=5)
        )
        assert "..." in values(events)[-1]
        await evaluate(opened, evaluation(WORDS[name].long), PrintLimits(max_value_bytes=500))
        assert len(values(events)[-1]) <= 600
        assert [event for _, event in events if isinstance(event, Value)][-1].truncated


async def test_each_evaluation_is_printed_to_its_own_limits_whatever_those_before_had(name):
    async with adapter(name) as (opened, events):
        needs(opened, "print-limits")
        code = "list(range(99))" if name == "python" else "(range 99)"
        five = PrintLimits(max_length=5, max_value_bytes=1000)
        for limits, is_cut in [(five, True), (five, True), (NO_LIMITS, False), (NO_LIMITS, False), (five, True)]:
            await evaluate(opened, evaluation(code), limits)
            assert ("98" not in values(events)[-1]) == is_cut
        await evaluate(opened, evaluation(WORDS[name].long), five)
        assert len(values(events)[-1]) <= 1000
        await opened.open_session("other")
        await evaluate(opened, evaluation(code, session="other"), NO_LIMITS)
        assert "98" in values(events)[-1]


async def test_a_namespace_that_does_not_exist_is_refused_and_nothing_runs(name):
    words = WORDS[name]
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(words.say, namespace="no.such.place"))
        assert ending.status == "failed"
        assert values(events) == []
        events.clear()
        await evaluate(opened, evaluation(words.add))
        assert values(events) == [words.three]


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("jvm", "(str *ns*)", '"clojure.set"'),
        ("basilisp", "(str *ns*)", '"basilisp.string"'),
        ("lisp", "(str *ns*)", '"basilisp.string"'),
        ("nbb", "(str *ns*)", '"clojure.set"'),
    ],
    ids=["jvm", "basilisp", "lisp", "nbb"],
)
async def test_a_namespace_holds_for_one_evaluation(name, code, value):
    namespace = value.strip('"')
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(f"(require '{namespace})"))
        events.clear()
        await evaluate(opened, evaluation(code, namespace=namespace))
        await evaluate(opened, evaluation(code))
        assert values(events) == [value, '"user"']


@pytest.mark.parametrize("name", sorted(ON_THE_JVM))
async def test_an_error_is_told_where_its_form_stands(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(opened, Request("e", "(no-such 1)", forms=(Form("(no-such 1)", 5, 3),)))
        assert (ending.failure.line, ending.failure.column) == (5, 3)


async def test_sessions_keep_their_state_apart_or_are_refused(name):
    async with adapter(name) as (opened, events):
        if opened.profile.isolation == "none":
            with pytest.raises(CapabilityMissingError):
                await opened.open_session("mine")
            return
        await opened.open_session("mine")
        if name in {"hy", "python", MEMORY}:
            await evaluate(opened, evaluation(WORDS[name].define.format("apart", 1), session="mine"))
            assert (await evaluate(opened, evaluation("apart"))).status == "failed"
            await evaluate(opened, evaluation(WORDS[name].define.format("common", 1)))
            is_read = (await evaluate(opened, evaluation("common", session="mine"))).status == "done"
            assert is_read is ("names are read" in opened.profile.shares)
        else:
            await evaluate(opened, evaluation("(ns apart.place)", session="mine"))
            events.clear()
            await evaluate(opened, evaluation("(str *ns*)"))
            await evaluate(opened, evaluation("(str *ns*)", session="mine"))
            assert values(events) == ['"user"', '"apart.place"']
        await opened.close_session("mine")
        await opened.close_session("mine")


async def test_a_session_that_is_not_open_is_refused(name):
    async with adapter(name) as (opened, _):
        with pytest.raises(SessionNotOpenError, match="no session 'other'"):
            await evaluate(opened, evaluation(WORDS[name].add, session="other"))


@pytest.mark.parametrize("kind", ["wait", "forever"])
async def test_an_interrupt_ends_what_runs_and_the_session_works(name, kind):
    words = WORDS[name]
    code = words.wait.format(60) if kind == "wait" and words.wait else words.forever
    async with adapter(name) as (opened, events):
        if "interrupt" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.interrupt()
            return
        if code is None or (name, kind) == ("hy", "wait"):
            pytest.skip("this server cannot be interrupted there")
        endings = []

        async def run():
            endings.append(await evaluate(opened, evaluation(words.text, code, words.add)))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: values(events))
            await anyio.sleep(0.3)
            interruption = await opened.interrupt()
        assert interruption.outcome in {"interrupted", "requested"}
        assert [ending.status for ending in endings] == ["interrupted"]
        assert words.three not in values(events)
        with anyio.fail_after(15):
            assert (await evaluate(opened, evaluation(words.add))).status == "done"


@pytest.mark.slow
async def test_a_session_whose_thread_ended_goes_on_after_an_interrupt(name):
    if name != "jvm":
        pytest.skip("code of other servers cannot end a session's thread")
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation("(in-ns 'deaf)", "(clojure.core/refer-clojure)", "(def q 42)"))
        await evaluate(opened, evaluation("(.interrupt (Thread/currentThread))"))
        endings = []
        opened.start_evaluation(evaluation("(def q 43)"), endings.append)
        with anyio.fail_after(60):
            while (await opened.interrupt()).outcome == "idle":
                await anyio.sleep(0.1)
        await until(lambda: endings)
        assert endings[0].status == "interrupted"
        await evaluate(opened, evaluation("[(str *ns*) q]"))
        assert values(events)[-1] == '["deaf" 42]'


async def test_an_interrupt_when_nothing_runs_is_idle(name):
    async with adapter(name) as (opened, _):
        needs(opened, "interrupt")
        assert (await opened.interrupt()).outcome == "idle"


async def test_input_that_code_waits_for_is_asked_for_and_given(name):
    async with adapter(name) as (opened, events):
        if "stdin" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.send_input("x\n")
            return
        read = (
            "(read-line)" if name in {*ON_THE_JVM, "lisp", MEMORY} else "(input)" if name == "hy" else WORDS[name].read
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(evaluate, opened, evaluation(read))
            await until(lambda: any(isinstance(event, InputNeeded) for _, event in events))
            await opened.send_input("ж in\n")
        assert values(events)[-1].removeprefix(ELEMENT).strip("\"'") in {"ж in", "\\u0436 in"}
        assert {identity for identity, _ in events} == {"e"}


async def test_output_that_comes_late_belongs_to_its_evaluation(name):
    if WORDS[name].late is None:
        pytest.skip("this server loses the output of threads")
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].late, identity="cause"))
        await evaluate(opened, evaluation(WORDS[name].add, identity="other"))
        await until(lambda: "late" in printed(events))
        assert [identity for identity, event in events if isinstance(event, Output) and "late" in event.text] == [
            "cause"
        ]


async def test_a_file_is_loaded_and_later_code_stays_where_it_was(name, tmp_path):
    words = WORDS[name]
    lispy = name in {*ON_THE_JVM, "lisp", "basilisp", "nbb", "squint"}
    lines = ["(ns loaded.place)"] if lispy else []
    lines += [words.define.format("loaded", 41), words.add]
    file = tmp_path / "loaded.txt"
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(*lines, file=str(file), kind="load-file"))
        assert ending.status == "done"
        assert values(events)[-1] == words.three
        events.clear()
        if name in {*ON_THE_JVM, "basilisp", "nbb", "lisp"}:
            await evaluate(opened, evaluation("(str *ns*)"))
            assert values(events) == ['"user"']


async def test_symbols_are_known_with_their_documentation(name):
    if name == "squint":
        pytest.skip("squint looks up what the user defined, and forgets its documentation")
    async with adapter(name) as (opened, _):
        needs(opened, "lookup")
        symbol = await opened.lookup(WORDS[name].known, None)
        assert symbol.name == WORDS[name].known
        assert len(symbol.doc) > 20


async def test_a_symbol_that_does_not_resolve_is_none(name):
    async with adapter(name) as (opened, _):
        needs(opened, "lookup")
        assert await opened.lookup("nosuchsymbol", None) is None


async def test_completions_begin_with_what_was_typed(name):
    async with adapter(name) as (opened, _):
        needs(opened, "complete")
        if name == "squint":
            assert await opened.complete("ma", None) == ()
            return
        found = [one.candidate for one in await opened.complete(WORDS[name].begun, None)]
        assert WORDS[name].completed in found


async def completed(opened, prefix, namespace):
    return {one.candidate for one in await opened.complete(prefix, namespace)}


QUALIFIED = {
    "jvm": ("(ns shop (:require [clojure.string :as str]))", {"str/jo": "str/join", "Math/ab": "Math/abs"}),
    "nbb": ("(ns shop (:require [clojure.string :as str]))", {"str/jo": "str/join", "js/parseF": "js/parseFloat"}),
    "squint": (
        '(ns shop (:require [clojure.string :as str] ["fs" :as fs]))',
        {"str/jo": "str/join", "fs/readFileS": "fs/readFileSync", "js/Mat": "js/Math"},
    ),
    "basilisp": (
        "(ns shop (:require [basilisp.string :as str]) (:import os [collections :as coll]))",
        {"str/jo": "str/join", "os/getc": "os/getcwd", "coll/Cou": "coll/Counter", "python/le": "python/len"},
    ),
}
QUALIFIED["lisp"] = QUALIFIED["basilisp"]


@pytest.mark.parametrize("name", QUALIFIED)
async def test_completions_are_found_in_the_namespace_that_is_named(name):
    home, expected = QUALIFIED[name]
    async with adapter(name) as (opened, _):
        private = [] if name == "squint" else ["(defn- hidden-one [] 0)"]
        await evaluate(opened, evaluation("(ns orders)", "(defn total-sum! [] 1)", "(def stock 2)", *private))
        assert {"orders/total-sum!", "orders/stock"} <= await completed(opened, "orders/", "orders")
        ending = await evaluate(opened, evaluation(home))
        assert ending.status == "done"
        # Neither required nor aliased here: it is loaded, and its full name is enough.
        assert await completed(opened, "orders/", "shop") == {"orders/total-sum!", "orders/stock"}
        assert await completed(opened, "orders/to", "shop") == {"orders/total-sum!"}
        assert await completed(opened, "nosuch/", "shop") == set()
        for prefix, candidate in expected.items():
            found = await completed(opened, prefix, "shop")
            assert candidate in found
            assert all(one.startswith(prefix) for one in found)
        everything = await completed(opened, "str/", "shop")
        assert {"str/join", "str/split"} <= everything
        assert all(one.startswith("str/") and one != "str/" for one in everything)
        # An alias is no other that begins with it.
        assert await completed(opened, "st/", "shop") == set()
        # Where one namespace is everybody's, the next test finds the one that it expects.
        await evaluate(opened, evaluation("(ns user)"))


@pytest.mark.parametrize(("name", "code", "prefix", "candidate"), [
    ("python", "import os.path", "os.pa", "os.path"),
    ("python", "import os.path", "os.path.", "os.path.join"),
    ("hy", "(import os)", "os.pa", "os.path"),
    ("hy", "(import os)", "os.path.", "os.path.join"),
])  # fmt: skip
async def test_completions_are_found_in_what_is_named_before_the_dot(name, code, prefix, candidate):
    async with adapter(name) as (opened, _):
        await evaluate(opened, evaluation(code))
        assert candidate in await completed(opened, prefix, None)


async def test_where_clojure_has_no_op_for_completion_its_own_question_knows_namespaces_too():
    async with adapter("jvm") as (opened, events):
        await evaluate(
            opened, evaluation("(ns orders)", "(defn total-sum [] 1)", "(ns shop (:require [orders :as o]))")
        )
        for prefix, candidate in (("o/", "o/total-sum"), ("orders/to", "orders/total-sum"), ("map-in", "map-indexed")):
            await evaluate(opened, evaluation(dialects.CLOJURE.expression("complete", name=prefix, ns="shop")))
            rows: Any = dialects.CLOJURE.read(values(events)[-1])
            assert candidate in [row["candidate"] for row in rows]


async def test_a_form_is_expanded_once_or_wholly(name):
    async with adapter(name) as (opened, _):
        if "macroexpand" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.macroexpand("(when 1 2)", None)
            return
        assert (await opened.macroexpand("(when 1 2)", None)).startswith("(if 1")
        assert "(when" in await opened.macroexpand("(when 1 (when 2 3))", None)
        if name in ON_THE_JVM:
            assert "(when" not in await opened.macroexpand("(when 1 (when 2 3))", None, full=True)
        with pytest.raises(EvaluationFailedError):
            await opened.macroexpand("(when", None)


async def test_the_stack_of_the_last_error_is_told(name):
    async with adapter(name) as (opened, _):
        if "stacktrace" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.last_stacktrace()
            return
        # A kernel keeps its last error for all its clients, and for those that come.
        assert name in KERNELS or await opened.last_stacktrace() is None
        await evaluate(opened, evaluation(WORDS[name].fail))
        trace = await opened.last_stacktrace()
        assert WORDS[name].type in trace.type
        assert any(frame.tooling for frame in trace.frames) or name in {"python", *KERNELS}
        assert any(not frame.tooling for frame in trace.frames)


async def test_a_caller_that_stops_waiting_stops_nothing(name):
    words = WORDS[name]
    if words.wait is None:
        pytest.skip("this language cannot wait")
    async with adapter(name) as (opened, events):
        with anyio.move_on_after(0.1):
            await evaluate(opened, evaluation(words.wait.format(6), words.add, identity="left"))
        assert values(events) == []
        await evaluate(opened, evaluation(words.add, identity="next"))
        order = [identity for identity, event in events if isinstance(event, Value) and event.text == words.three]
        assert order == ["left", "next"]


@pytest.mark.parametrize("name", ["jvm", "basilisp", MEMORY])
async def test_questions_are_answered_while_code_runs(name):
    async with adapter(name) as (opened, events), anyio.create_task_group() as tasks:
        tasks.start_soon(evaluate, opened, evaluation(WORDS[name].text, WORDS[name].wait.format(20)))
        await until(lambda: values(events))
        with anyio.fail_after(15):
            assert await opened.macroexpand("(when 1 2)", None)
            if name == "jvm":
                assert await opened.lookup("map", None)
                dump = await opened.stacks()
                assert "Thread.sleep" in dump.whole
                assert "user$eval" in dump.own
                assert "clojure.lang" not in dump.own
        tasks.cancel_scope.cancel()


CHATTY = {
    "python": "import time\nfor _ in range(300): print('x' * 5000); time.sleep(0.005)",
    # To a stream that it holds: `print` of Python 3.13.0 borrows sys.stdout, and crashes when hy-nrepl replaces that
    # for the next evaluation. Source: CPython issue 130163.
    "hy": '(let [out (. (__import__ "sys") stdout)] (for [_ (range 300)] (.write out (+ (* "x" 5000) "\\n")) '
    '(.sleep (__import__ "time") 0.005)))',
    # What it prints in a loop goes elsewhere.
    "squint": WORDS["squint"].long,
    "deno": "for (let i = 0; i < 300; i++) { console.log('x'.repeat(5000)) }",
    "ir": "for (i in 1:300) { cat(strrep('x', 5000), '\\n') }",
    MEMORY: f'(print-often 300 "{"x" * 5000}")',
}


CHATTY |= dict.fromkeys(("ipykernel", "xpython"), CHATTY["python"])


@asynccontextmanager
async def again(name, running):
    """The adapter for a REPL that goes on with what it was told; one of a single thread answers nobody meanwhile."""
    deadline = anyio.current_time() + 60
    async with AsyncExitStack() as stack:
        opened = None
        while opened is None:
            try:
                opened = await stack.enter_async_context(adapter(name, address=running.address))
            except (ReplUnreachableError, NotAnReplError):
                assert running.is_running()
                if anyio.current_time() > deadline:
                    raise
        yield opened


async def test_a_repl_that_is_left_while_it_speaks_lives_on(name):
    code = CHATTY.get(name, f'(doseq [_ (range 1000)] (println "{"x" * 5000}"))')
    with fresh(name) as running:
        async with adapter(name, address=running.address) as (opened, events):
            opened.start_evaluation(evaluation(code), lambda _: None)
            with anyio.fail_after(60):
                while not (printed(events) or name == "squint"):
                    await anyio.lowlevel.checkpoint()
        async with again(name, running) as (opened, events):
            with anyio.fail_after(60):
                await evaluate(opened, evaluation(WORDS[name].add))
            assert values(events) == [WORDS[name].three]
        assert running.is_running()


async def test_a_repl_that_dies_in_mid_evaluation_is_a_lost_connection(name):
    words = WORDS[name]
    with fresh(name) as running:
        async with adapter(name, address=running.address) as (opened, _):
            with anyio.fail_after(20), pytest.raises(ReplDisconnectedError):
                await evaluate(opened, evaluation(words.kill))
            assert await opened.wait_closed()
            with pytest.raises(ReplDisconnectedError):
                await evaluate(opened, evaluation(words.add))
            for capability in ("complete", "lookup", "macroexpand"):
                if capability in opened.profile.capabilities:
                    with pytest.raises(ReplDisconnectedError):
                        await asked(opened, "main")[capability]()
            await opened.close_session("main")
            assert await opened.stacks() is None


def asked(opened, session):
    """By capability, an operation that asks for it."""
    return {
        "interrupt": lambda: opened.interrupt(session),
        "stdin": lambda: opened.send_input("x\n", session),
        "complete": lambda: opened.complete("ma", None, session),
        "lookup": lambda: opened.lookup("map", None, session),
        "macroexpand": lambda: opened.macroexpand("(when 1 2)", None, session),
        "test": lambda: opened.run_tests(None, None, session),
        "stacktrace": lambda: opened.last_stacktrace(session),
    }


async def test_what_the_profile_does_not_name_is_refused_with_its_line_on_what_would_help(name):
    async with adapter(name) as (opened, _):
        operations = {**asked(opened, "main"), "clojuredocs": lambda: opened.clojuredocs("clojure.core/map")}
        missing = [capability for capability in operations if capability not in opened.profile.capabilities]
        for capability in missing:
            with pytest.raises(CapabilityMissingError) as refused:
                await operations[capability]()
            assert refused.value.hint == opened.profile.missing[capability]


async def test_every_operation_refuses_a_session_that_is_not_open_and_closing_it_is_harmless(name):
    async with adapter(name) as (opened, _):
        for capability, operation in asked(opened, "other").items():
            if capability in opened.profile.capabilities:
                with pytest.raises(SessionNotOpenError):
                    await operation()
        assert await opened.stacks("other") is None
        await opened.close_session("other")


async def test_the_main_session_cannot_be_closed(name):
    async with adapter(name) as (opened, events):
        await opened.close_session("main")
        await evaluate(opened, evaluation(WORDS[name].add))
        assert values(events) == [WORDS[name].three]


async def test_a_second_evaluation_of_a_session_waits_for_the_first(name):
    words, endings = WORDS[name], []
    async with adapter(name) as (opened, events):
        opened.start_evaluation(evaluation(words.add, words.text, identity="first"), endings.append)
        await evaluate(opened, evaluation(words.add, identity="second"))
        assert len(endings) == 1
        assert [identity for identity, event in events if isinstance(event, Value)] == ["first", "first", "second"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ON_THE_JVM - {"jvm"}])
async def test_leaving_tells_every_evaluation_its_end(name):
    if (wait := WORDS[name].wait) is None:
        pytest.skip("this language cannot wait")
    endings = []
    with fresh(name) as running:
        async with adapter(name, address=running.address) as (opened, _):
            opened.start_evaluation(evaluation(wait.format(60), identity="one"), endings.append)
            opened.start_evaluation(evaluation(WORDS[name].add, identity="two"), endings.append)
        first, second = endings
        # Some servers end what runs in a session that is closed, and say so, each in its own words.
        assert isinstance(first, ReplDisconnectedError) or first.status in {"interrupted", "failed"}
        assert isinstance(second, ReplDisconnectedError)
        assert await opened.wait_closed()


async def test_the_process_and_the_folder_are_known(name):
    running = shared(name)
    async with adapter(name) as (opened, _):
        assert opened.profile.process_id
        assert opened.profile.project_root == str(running.folder.resolve())


@pytest.mark.parametrize("name", ["nbb", "squint"])
async def test_a_request_that_would_break_the_server_is_not_sent(name):
    async with adapter(name) as (opened, events):
        with pytest.raises(RequestUnsafeError, match="not ASCII"):
            await evaluate(opened, Request("e", '"' + "ж" * 20_000 + '"'))
        await evaluate(opened, Request("e", '"' + "ж" * 7_000 + '"'))
        await evaluate(opened, Request("e", '"' + "x" * 300_000 + '"'))
        assert [len(value) for value in values(events)] == [7_002, 300_002]


async def test_tests_run_with_the_failing_ones_first():
    async with adapter("jvm") as (opened, _):
        await evaluate(
            opened,
            evaluation(
                "(ns suite.core (:require [clojure.test :refer [deftest is testing]]))",
                "(deftest good (is (= 1 1)) (is true))",
                '(deftest bad (testing "ctx" (is (= {:a 1} {:a 2}) "msg")))',
                "(deftest broken (println :noise) (is (/ 1 0)))",
                file="suite.clj",
            ),
        )
        run = await opened.run_tests("suite.core", None)
        assert (run.tests, run.passed, run.failed, run.errors) == (3, 2, 1, 1)
        assert [(result.test, result.outcome) for result in run.results] == [
            ("broken", "error"),
            ("bad", "fail"),
            ("good", "pass"),
            ("good", "pass"),
        ]
        assert run.results[1].message == "ctx: msg"
        assert run.results[1].line == 3
        assert run.results[1].actual == "(not (= {:a 1} {:a 2}))"
        assert run.results[0].line == 4
        assert "java.lang.ArithmeticException: Divide by zero" in run.results[0].actual
        assert ":noise" in run.output
        assert (await opened.run_tests("suite.core", "good")).tests == 1
        with pytest.raises(EvaluationFailedError, match="no test nosuch"):
            await opened.run_tests("suite.core", "nosuch")
        with pytest.raises(NamespaceMissingError):
            await opened.run_tests("no.such.suite", None)


@pytest.mark.parametrize("name", ["basilisp", "lisp"])
async def test_tests_of_basilisp_run_with_the_failing_ones_first(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(
            opened,
            evaluation(
                "(ns suite.lpy (:require [basilisp.test :refer [deftest is testing]]))",
                "(deftest good (is (= 1 1)))",
                '(deftest bad (testing "ctx" (is (= 1 2) "msg")))',
                "(deftest broken (is (/ 1 0)))",
            ),
        )
        assert ending.status == "done"
        run = await opened.run_tests("suite.lpy", None)
        assert [(result.test, result.outcome) for result in run.results] == [
            ("broken", "error"),
            ("bad", "fail"),
            ("good", "pass"),
        ]
        assert (run.tests, run.passed, run.failed, run.errors) == (3, 1, 1, 1)
        assert (run.results[1].message, run.results[1].actual) == ("ctx: msg", "2")
        assert (await opened.run_tests("suite.lpy", "good")).tests == 1
        with pytest.raises(EvaluationFailedError, match="no test nosuch"):
            await opened.run_tests("suite.lpy", "nosuch")


async def test_limits_that_the_user_has_set_win_over_those_that_nobody_asked_for():
    with fresh("jvm") as running:
        async with adapter("jvm", address=running.address) as (opened, events):
            defaults, asked = PrintLimits(max_length=5), PrintLimits(max_length=5, length_is_asked=True)
            for limits in (defaults, asked):
                await evaluate(opened, evaluation("(range 9)"), limits)
            await evaluate(opened, evaluation("(set! *print-length* 2)", "(set! *print-level* 1)"), defaults)
            events.clear()
            for limits in (defaults, asked):
                await evaluate(opened, evaluation("(map inc (range 9))", "(vec (range 9))", "[[1]]"), limits)
            told = [event.text for _, event in events if isinstance(event, Value)]
            assert told == ["(1 2 ...)", "[0 1 ...]", "[#]", "(1 2 3 4 5 ...)", "[0 1 2 3 4 ...]", "[#]"]
            kept = [event.cut for _, event in events if isinstance(event, ValueKept)]
            assert kept == ["more than 2", "7 of 9 elements", "more than 5", "4 of 9 elements"]


async def test_what_ends_by_a_thread_death_is_an_error():
    async with adapter("jvm") as (opened, events):
        for code in ("(throw (ThreadDeath.))", "(do (println 1) (.stop (Thread/currentThread)))"):
            for after in ((), (WORDS["jvm"].add,)):
                ending = await evaluate(opened, evaluation(code, *after))
                assert (ending.status, ending.failure.type) == ("failed", "java.lang.ThreadDeath")
                assert "its thread was stopped" in ending.failure.message
        assert values(events) == []
        assert (await evaluate(opened, evaluation("(/ 1 0)"))).failure.type == WORDS["jvm"].type
        assert (await evaluate(opened, evaluation("#?(:cljs 1)"))).status == "done"


async def test_a_thrown_value_that_is_no_error_is_told_as_it_is_printed():
    async with adapter("nbb") as (opened, _):
        for code, message in [
            ('(throw "out of stock")', '"out of stock"'),
            ('(do (defn f [] (throw {:a "1"}))\n(f))', '{:a "1"}'),
            ("(throw 42)", "42"),
            ('(js/Promise.reject "late")', "late"),
        ]:
            ending = await evaluate(opened, evaluation(code))
            assert (ending.failure.type, ending.failure.message) == ("Error", message)


@pytest.mark.parametrize("name", ["jvm", "nbb", "basilisp", "lisp"])
async def test_asking_leaves_the_callers_last_values_alone(name):
    with fresh(name) as running:
        async with adapter(name, address=running.address) as (opened, events):
            await evaluate(opened, evaluation("[*1 *2 *3 *e]"))
            assert values(events) == ["[nil nil nil nil]"]
            await evaluate(opened, evaluation("41", "42", "43"))
            await opened.macroexpand("(when 1 2)", None)
            await opened.names("map", None)
            await opened.lookup("map", None)
            await opened.complete("ma", None)
            with suppress(NamespaceMissingError, EvaluationFailedError):
                await opened.run_tests("no.such.suite", None)
            events.clear()
            await evaluate(opened, evaluation("[*1 *2 *3 *e]"))
            assert values(events) == ["[43 42 41 nil]"]


async def test_a_namespace_that_is_given_takes_no_place_among_nbbs_last_values():
    async with adapter("nbb") as (opened, events):
        await evaluate(opened, evaluation("(ns shelf)", "(ns user)", "41"))
        await evaluate(opened, evaluation("42", namespace="shelf"))
        events.clear()
        await evaluate(opened, evaluation("[*1 *2]"))
        assert values(events) == ["[42 41]"]


async def test_evaluations_neither_fail_nor_forget_after_thousands_of_them():
    depth = "(count (take-while some? (iterate (fn [^ClassLoader l] (.getParent l)) (clojure.lang.RT/baseLoader))))"
    async with adapter("jvm") as (opened, events):
        await evaluate(opened, evaluation("(defrecord Point [x])", "(defn point [x] (->Point x))"))
        ending = await evaluate(opened, evaluation(*["(+ 1 2)"] * 3000))
        assert ending.status == "done"
        await evaluate(opened, evaluation("*1", "(:x (point 5))", "(instance? Point (Point. 1))", depth))
        *kept, loaders = values(events)[-4:]
        assert kept == ["3", "5", "true"]
        assert int(loaders) < 500


async def test_closed_sessions_are_closed_on_the_server_too():
    async with adapter("jvm") as (watcher, events):
        count = evaluation("(count @@(resolve 'nrepl.middleware.session/sessions))")
        await evaluate(watcher, count)
        async with adapter("jvm") as (opened, _):
            await opened.open_session("mine")
            await opened.macroexpand("(when 1 2)", None)
            await evaluate(watcher, count)
        await evaluate(watcher, count)
        before, during, after = (int(value) for value in values(events))
        assert (during, after) == (before + 3, before)


@pytest.mark.parametrize("name", ["python", MEMORY])
async def test_nothing_listens_is_said(name):
    address = "memory://nobody" if name == MEMORY else f"127.0.0.1:{real_repls._free_port()}"
    with pytest.raises(ReplUnreachableError, match="nothing listens there"):
        async with adapter(name, address=address):
            pass


async def test_a_host_that_does_not_exist_is_said():
    with pytest.raises(ReplUnreachableError, match=r"no REPL could be reached at no-such-host\.invalid:1"):
        async with adapter("none", address="no-such-host.invalid:1"):
            pass


async def test_an_error_of_the_caller_comes_out_as_it_is():
    with pytest.raises(LookupError, match="mine"):
        async with adapter("basilisp"):
            raise LookupError("mine")


async def test_not_an_nrepl_server_is_said():
    async def answer(stream):
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, answer)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        with pytest.raises(NotAnReplError, match="no bencode"):
            async with adapter("none", address=f"127.0.0.1:{port}"):
                pass
        tasks.cancel_scope.cancel()
