"""The adapter contract: values, output and failures of evaluations, on each REPL. See `repls.adapter_contract`."""

import re

import pytest
from evaluations import evaluate
from refusals import refused_as

from codriver.core.print_limits import NO_PRINT_LIMITS, PrintLimits
from codriver.core.requests import Form, Request
from codriver.repls.contract.events import NAMESPACE_MISSING_TYPE, Value, ValueStored
from repls.adapter_contract import ELEMENT, ON_THE_JVM, WORDS, adapter, evaluation, needs, printed, values

pytestmark = pytest.mark.anyio


async def test_an_evaluation_returns_its_value(name):
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(WORDS[name].add))
        assert (ending.status, values(events)) == ("done", [WORDS[name].three])
        assert {identity for identity, _ in events} == {"e"}


async def test_every_form_returns_a_value_and_output_arrives_in_order(name):
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].add, WORDS[name].say, WORDS[name].add))
        assert values(events)[::2] == [WORDS[name].three] * 2 or values(events) == [WORDS[name].three] * 2
        kinds = "".join("v" if isinstance(event, Value) else "o" for _, event in events)
        assert kinds[0] == "v"
        assert kinds[-1] == "v"
        assert "o" in kinds
        assert printed(events).strip() == "hi"


async def test_the_first_failing_form_stops_the_rest_and_its_number_is_reported(name):
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


async def test_an_unknown_name_is_reported_with_the_type_of_the_error(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(opened, evaluation("nosuchname"))
        assert WORDS[name].unknown_type in ending.failure.type
        assert "nosuchname" in ending.failure.message


async def test_unreadable_code_is_an_error_and_the_session_still_works(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(opened, Request("e", WORDS[name].broken))
        assert ending.status == "failed"
        assert ending.failure.message
        assert (await evaluate(opened, evaluation(WORDS[name].add))).status == "done"


async def test_characters_of_all_kinds_round_trip(name):
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].text))
        (value,) = values(events)
        decoded = value.encode("ascii").decode("unicode_escape") if value.isascii() else value
        assert decoded.removeprefix(ELEMENT).strip("\"'") == "ж😀"


async def test_a_long_value_is_returned_completely(name):
    if WORDS[name].long is None:
        pytest.skip("this server cuts long values itself")
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(WORDS[name].long))
        assert len(values(events)[-1].removeprefix(ELEMENT)) == 1_000_002


async def test_print_limits_are_applied_if_the_profile_supports_them(name):
    async with adapter(name) as (opened, events):
        needs(opened, "print-limits")
        await evaluate(
            opened, evaluation("list(range(99))" if name == "python" else "(range 99)"), PrintLimits(max_length=5)
        )
        assert "..." in values(events)[-1]
        await evaluate(opened, evaluation(WORDS[name].long), PrintLimits(max_value_bytes=500))
        assert len(values(events)[-1]) <= 600
        assert [event for _, event in events if isinstance(event, Value)][-1].truncated


async def test_each_evaluation_is_printed_with_its_own_limits(name):
    async with adapter(name) as (opened, events):
        needs(opened, "print-limits")
        code = "list(range(99))" if name == "python" else "(range 99)"
        five = PrintLimits(max_length=5, max_value_bytes=1000)
        for limits, is_cut in [
            (five, True),
            (five, True),
            (NO_PRINT_LIMITS, False),
            (NO_PRINT_LIMITS, False),
            (five, True),
        ]:
            await evaluate(opened, evaluation(code), limits)
            assert ("98" not in values(events)[-1]) == is_cut
        await evaluate(opened, evaluation(WORDS[name].long), five)
        assert len(values(events)[-1]) <= 1000
        await opened.open_session("other")
        await evaluate(opened, evaluation(code, session="other"), NO_PRINT_LIMITS)
        assert "98" in values(events)[-1]


async def test_an_unknown_namespace_is_refused_and_nothing_runs(name):
    words = WORDS[name]
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(words.say, namespace="no.such.place"))
        assert ending.status == "failed"
        assert values(events) == []
        events.clear()
        await evaluate(opened, evaluation(words.add))
        assert values(events) == [words.three]


@pytest.mark.parametrize("form", ["(ns not.there.yet)", '(ns ^:dev not.there.yet "Docs" (:require [clojure.set]))'])
@pytest.mark.parametrize("name", ["jvm", "basilisp", "nbb"])
async def test_a_namespace_created_by_the_first_form_is_accepted(name, form):
    form = form.replace("clojure.set", "basilisp.set") if name == "basilisp" else form
    async with adapter(name) as (opened, events):
        for _ in range(2):
            events.clear()
            ending = await evaluate(opened, evaluation(form, "(def a 1)", "(str *ns*)", namespace="not.there.yet"))
            assert ending.status == "done", ending
            assert values(events)[-1] == '"not.there.yet"'
        events.clear()
        await evaluate(opened, evaluation("(str *ns*)"))
        await evaluate(opened, evaluation("not.there.yet/a"))
        assert values(events) == ['"user"', "1"]
        other = await evaluate(opened, evaluation("(ns not.there.either)", "1", namespace="not.there.at.all"))
        assert (other.status, other.failure.type) == ("failed", NAMESPACE_MISSING_TYPE)


@pytest.mark.parametrize(
    ("name", "core", "form"),
    [
        ("jvm", "clojure.core", "(clojure.core/ns qualified)"),
        ("jvm", "clojure.core", "(in-ns 'entered)"),
        ("jvm", "clojure.core", "; a part of it\n(clojure.core/in-ns (quote entered-too))"),
        ("basilisp", "basilisp.core", "(basilisp.core/ns qualified)"),
        ("basilisp", "basilisp.core", "(in-ns 'entered)"),
    ],
)
async def test_a_namespace_is_created_by_any_form_that_enters_it(name, core, form):
    namespace = re.findall(r"[\w-]+", form)[-1]
    async with adapter(name) as (opened, events):
        ending = await evaluate(opened, evaluation(form, f"({core}/str {core}/*ns*)", namespace=namespace))
        assert (ending.status, values(events)[-1]) == ("done", f'"{namespace}"')


@pytest.mark.parametrize("form", ["(clojure.core/ns other)", "(in-ns 'other)"])
async def test_nbb_enters_a_namespace_only_by_a_plain_ns_form(form):
    async with adapter("nbb") as (opened, _):
        ending = await evaluate(opened, evaluation(form, "1", namespace="other"))
        assert (ending.status, ending.failure.type) == ("failed", NAMESPACE_MISSING_TYPE)


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
async def test_a_namespace_argument_applies_to_only_one_evaluation(name, code, value):
    namespace = value.strip('"')
    async with adapter(name) as (opened, events):
        await evaluate(opened, evaluation(f"(require '{namespace})"))
        events.clear()
        await evaluate(opened, evaluation(code, namespace=namespace))
        await evaluate(opened, evaluation(code))
        assert values(events) == [value, '"user"']


@pytest.mark.parametrize("name", sorted(ON_THE_JVM))
async def test_an_error_is_reported_with_the_position_of_its_form(name):
    async with adapter(name) as (opened, _):
        ending = await evaluate(opened, Request("e", "(no-such 1)", forms=(Form("(no-such 1)", 5, 3),)))
        assert (ending.failure.line, ending.failure.column) == (5, 3)


@pytest.mark.parametrize("name", ["nbb"])
async def test_a_request_that_would_break_the_server_is_not_sent(name):
    async with adapter(name) as (opened, events):
        with refused_as("request-unsafe", match="not ASCII"):
            await evaluate(opened, Request("e", '"' + "ж" * 20_000 + '"'))
        await evaluate(opened, Request("e", '"' + "ж" * 7_000 + '"'))
        await evaluate(opened, Request("e", '"' + "x" * 300_000 + '"'))
        assert [len(value) for value in values(events)] == [7_002, 300_002]


async def test_print_limits_set_by_the_user_override_defaults():
    async with adapter("jvm") as (opened, events):
        defaults, requested = PrintLimits(max_length=5), PrintLimits(max_length=5, is_length_explicit=True)
        for limits in (defaults, requested):
            await evaluate(opened, evaluation("(range 9)"), limits)
        await evaluate(opened, evaluation("(set! *print-length* 2)", "(set! *print-level* 1)"), defaults)
        events.clear()
        for limits in (defaults, requested):
            await evaluate(opened, evaluation("(map inc (range 9))", "(vec (range 9))", "[[1]]"), limits)
        reported = [event.text for _, event in events if isinstance(event, Value)]
        assert reported == ["(1 2 ...)", "[0 1 ...]", "[#]", "(1 2 3 4 5 ...)", "[0 1 2 3 4 ...]", "[#]"]
        kept = [event.cut for _, event in events if isinstance(event, ValueStored)]
        assert kept == ["more than 2", "7 of 9 elements", "more than 5", "4 of 9 elements"]


async def test_a_thread_death_is_reported_as_an_error():
    async with adapter("jvm") as (opened, events):
        for code in ("(throw (ThreadDeath.))", "(do (println 1) (.stop (Thread/currentThread)))"):
            for after in ((), (WORDS["jvm"].add,)):
                ending = await evaluate(opened, evaluation(code, *after))
                assert (ending.status, ending.failure.type) == ("failed", "java.lang.ThreadDeath")
                assert "the evaluation's thread was stopped" in ending.failure.message
        assert values(events) == []
        assert (await evaluate(opened, evaluation("(/ 1 0)"))).failure.type == WORDS["jvm"].type
        assert (await evaluate(opened, evaluation("#?(:cljs 1)"))).status == "done"


async def test_a_thrown_value_that_is_not_an_error_is_printed():
    async with adapter("nbb") as (opened, _):
        for code, message in [
            ('(throw "out of stock")', '"out of stock"'),
            ('(do (defn f [] (throw {:a "1"}))\n(f))', '{:a "1"}'),
            ("(throw 42)", "42"),
            ('(js/Promise.reject "late")', "late"),
        ]:
            ending = await evaluate(opened, evaluation(code))
            assert (ending.failure.type, ending.failure.message) == ("Error", message)


async def test_switching_namespaces_does_not_change_the_last_value_variables_of_nbb():
    async with adapter("nbb") as (opened, events):
        await evaluate(opened, evaluation("(ns shelf)", "(ns user)", "41"))
        await evaluate(opened, evaluation("42", namespace="shelf"))
        events.clear()
        await evaluate(opened, evaluation("[*1 *2]"))
        assert values(events) == ["[42 41]"]


async def test_a_thousand_evaluations_neither_fail_nor_lose_definitions():
    depth = "(count (take-while some? (iterate (fn [^ClassLoader l] (.getParent l)) (clojure.lang.RT/baseLoader))))"
    async with adapter("jvm") as (opened, events):
        await evaluate(opened, evaluation("(defrecord Point [x])", "(defn point [x] (->Point x))"))
        ending = await evaluate(opened, evaluation(*["(+ 1 2)"] * 1000))
        assert ending.status == "done"
        await evaluate(opened, evaluation("*1", "(:x (point 5))", "(instance? Point (Point. 1))", depth))
        *kept, loaders = values(events)[-4:]
        assert kept == ["3", "5", "true"]
        assert int(loaders) < 500
