"""The adapter contract: loading, queries and tests, on each REPL. See `repls.adapter_contract`."""

from contextlib import nullcontext, suppress
from typing import Any

import pytest
from evaluations import evaluate
from refusals import refused_as

from codriver.errors import RefusedError
from codriver.repls import dialects
from codriver.repls.contract.adapter import (
    CapabilityMissingError,
    EvaluationFailedError,
)
from codriver.repls.contract.queries import Complete, LastError, ListNames, Lookup
from repls.adapter_contract import (
    KERNELS,
    ON_THE_JVM,
    WORDS,
    adapter,
    evaluation,
    fresh,
    needs,
    operation_calls,
    shared,
    values,
)

pytestmark = pytest.mark.anyio


async def test_loading_a_file_does_not_change_the_current_namespace(name, tmp_path):
    words = WORDS[name]
    lispy = name in {*ON_THE_JVM, "lisp", "basilisp", "nbb"}
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


async def test_symbol_lookup_returns_documentation(name):
    async with adapter(name) as (opened, _):
        needs(opened, "lookup")
        symbol = await opened.query(Lookup(WORDS[name].known))
        assert symbol.name == WORDS[name].known
        assert len(symbol.doc) > 20


async def test_looking_up_an_unresolvable_symbol_returns_none(name):
    async with adapter(name) as (opened, _):
        needs(opened, "lookup")
        assert await opened.query(Lookup("nosuchsymbol")) is None


async def test_completions_start_with_the_prefix(name):
    async with adapter(name) as (opened, _):
        needs(opened, "complete")
        found = [item.candidate for item in await opened.query(Complete(WORDS[name].begun))]
        assert WORDS[name].completed in found


async def completed(opened, prefix, namespace):
    return {item.candidate for item in await opened.query(Complete(prefix, namespace=namespace))}


QUALIFIED = {
    "jvm": ("(ns shop (:require [clojure.string :as str]))", {"str/jo": "str/join", "Math/ab": "Math/abs"}),
    "nbb": ("(ns shop (:require [clojure.string :as str]))", {"str/jo": "str/join", "js/parseF": "js/parseFloat"}),
    "basilisp": (
        "(ns shop (:require [basilisp.string :as str]) (:import os [collections :as coll]))",
        {"str/jo": "str/join", "os/getc": "os/getcwd", "coll/Cou": "coll/Counter", "python/le": "python/len"},
    ),
}

QUALIFIED["lisp"] = QUALIFIED["basilisp"]


@pytest.mark.parametrize("name", QUALIFIED)
async def test_completions_are_found_in_the_given_namespace(name):
    home, expected = QUALIFIED[name]
    async with adapter(name) as (opened, _):
        private = "(defn- hidden-one [] 0)"
        await evaluate(opened, evaluation("(ns orders)", "(defn total-sum! [] 1)", "(def stock 2)", private))
        assert {"orders/total-sum!", "orders/stock"} <= await completed(opened, "orders/", "orders")
        ending = await evaluate(opened, evaluation(home))
        assert ending.status == "done"
        # The namespace is neither required nor aliased here. It is loaded, so its full name is enough.
        assert await completed(opened, "orders/", "shop") == {"orders/total-sum!", "orders/stock"}
        assert await completed(opened, "orders/to", "shop") == {"orders/total-sum!"}
        assert await completed(opened, "nosuch/", "shop") == set()
        for prefix, candidate in expected.items():
            found = await completed(opened, prefix, "shop")
            assert candidate in found
            assert all(item.startswith(prefix) for item in found)
        everything = await completed(opened, "str/", "shop")
        assert {"str/join", "str/split"} <= everything
        assert all(item.startswith("str/") and item != "str/" for item in everything)
        # An alias is not confused with another alias that starts with it.
        assert await completed(opened, "st/", "shop") == set()
        # If all sessions share one namespace, the next test must find the one that it expects.
        await evaluate(opened, evaluation("(ns user)"))


@pytest.mark.parametrize(("name", "code", "prefix", "candidate"), [
    ("python", "import os.path", "os.pa", "os.path"),
    ("python", "import os.path", "os.path.", "os.path.join"),
    ("hy", "(import os)", "os.pa", "os.path"),
    ("hy", "(import os)", "os.path.", "os.path.join"),
])  # fmt: skip
async def test_completions_after_a_dot_come_from_the_name_before_it(name, code, prefix, candidate):
    async with adapter(name) as (opened, _):
        await evaluate(opened, evaluation(code))
        assert candidate in await completed(opened, prefix, None)


async def test_clojure_completion_without_a_completion_op_includes_namespaces():
    async with adapter("jvm") as (opened, events):
        await evaluate(
            opened, evaluation("(ns orders)", "(defn total-sum [] 1)", "(ns shop (:require [orders :as o]))")
        )
        for prefix, candidate in (("o/", "o/total-sum"), ("orders/to", "orders/total-sum"), ("map-in", "map-indexed")):
            await evaluate(opened, evaluation(dialects.CLOJURE.program_code("complete", name=prefix, ns="shop")))
            rows: Any = dialects.CLOJURE.read(values(events)[-1])
            assert candidate in [row["candidate"] for row in rows]


async def test_a_form_is_expanded_once_or_fully(name):
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


async def test_the_stack_trace_of_the_last_error_is_available(name):
    async with adapter(name) as (opened, _):
        if "stacktrace" not in opened.profile.capabilities:
            with pytest.raises(CapabilityMissingError):
                await opened.query(LastError())
            return
        # A kernel retains its last error for all clients, including later ones.
        assert name in KERNELS or await opened.query(LastError()) is None
        await evaluate(opened, evaluation(WORDS[name].fail))
        trace = await opened.query(LastError())
        assert WORDS[name].type in trace.type
        assert any(frame.tooling for frame in trace.frames) or name in {"python", *KERNELS}
        assert any(not frame.tooling for frame in trace.frames)


async def test_a_missing_capability_is_refused_with_its_hint(name):
    async with adapter(name) as (opened, _):
        operations = operation_calls(opened, "main")
        missing = [capability for capability in operations if capability not in opened.profile.capabilities]
        for capability in missing:
            with pytest.raises(CapabilityMissingError) as refused:
                await operations[capability]()
            assert refused.value.hint == opened.profile.missing[capability]


async def test_the_process_and_the_directory_of_a_repl_are_reported(name):
    running = shared(name)
    async with adapter(name) as (opened, _):
        assert opened.profile.process_id
        assert opened.profile.project_root == str(running.folder.resolve())


async def test_clojure_test_results_list_failures_first():
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
        with refused_as("unknown-namespace"):
            await opened.run_tests("no.such.suite", None)


@pytest.mark.parametrize("name", ["basilisp", "lisp"])
async def test_basilisp_test_results_list_failures_first(name):
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


@pytest.mark.parametrize("name", ["basilisp", "lisp"])
async def test_basilisp_programs_are_compiled_only_once(name):
    kept = '(python/len (python/vars (.get (.-modules (python/__import__ "sys")) "_codriver_forms")))'
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation("(ns suite.once (:require [basilisp.test :refer [deftest]]))", "(deftest a)"))
        for test in ("a", None):
            assert (await opened.run_tests("suite.once", test)).tests == 1
            await evaluate(opened, evaluation(kept))
        once, again = values(events)[-2:]
        assert again == once


@pytest.mark.parametrize("name", ["jvm", "nbb", "basilisp", "lisp"])
async def test_queries_do_not_change_the_callers_last_values(name):
    # The last values of nbb are shared by all clients.
    with fresh(name) if name == "nbb" else nullcontext(shared(name)) as running:
        async with adapter(name, address=running.address) as (opened, events):
            await evaluate(opened, evaluation("[*1 *2 *3 *e]"))
            assert values(events) == ["[nil nil nil nil]"]
            await evaluate(opened, evaluation("41", "42", "43"))
            await opened.macroexpand("(when 1 2)", None)
            await opened.query(ListNames("map"))
            await opened.query(Lookup("map"))
            await opened.query(Complete("ma"))
            with suppress(RefusedError):
                await opened.run_tests("no.such.suite", None)
            events.clear()
            await evaluate(opened, evaluation("[*1 *2 *3 *e]"))
            assert values(events) == ["[43 42 41 nil]"]
