"""Basilisp in the worker."""

import os

import pytest
from live_server import until
from worker_client import text, texts, wait_for_input_request, wait_for_output


def test_lisp_can_be_interrupted_at_a_prompt(lisp):
    running = lisp.send("eval", code="(read-line)")
    until(lambda: wait_for_input_request(lisp, running), "the prompt")
    lisp.send("interrupt")
    assert "interrupted" in lisp.answer(running)[-1]["status"]
    assert texts(lisp.evaluate("(+ 1 1)"), "value") == ["2"]


def test_lisp_returns_unicode_values_and_switches_its_namespace(lisp):
    messages = lisp.evaluate('(str "h\u00e9" \\😀) (in-ns \'other) *ns*')
    assert texts(messages, "value")[0] == '"hé😀"'
    assert texts(messages, "value")[-1] == "other"
    assert texts(lisp.evaluate("(in-ns 'user) *ns*"), "value") == ["user", "user"]


@pytest.mark.parametrize("code", ["(in-ns 'bare) (str 2)", "(ns few (:refer-basilisp :only [str])) (str 2)"])
def test_lisp_can_switch_back_from_every_namespace(lisp, code):
    assert texts(lisp.evaluate(code), "value")[-1] == '"2"'
    assert texts(lisp.evaluate("(in-ns 'user) (+ 1 1)"), "value") == ["user", "2"]


def test_lisp_evaluates_in_a_namespace_created_by_in_ns(lisp):
    lisp.evaluate("(do (in-ns 'made) (in-ns 'user))")
    assert texts(lisp.evaluate("(inc 1)", ns="made"), "value") == ["2"]


@pytest.mark.parametrize("code", ["(loop [] (recur))", "(count (range))"])
def test_lisp_can_be_interrupted(lisp, code):
    running = lisp.send("eval", code='(println "begun") ' + code)
    until(lambda: wait_for_output(lisp, running), "the code to run")
    lisp.send("interrupt")
    assert "interrupted" in lisp.answer(running)[-1]["status"]
    assert texts(lisp.evaluate("(+ 1 1)"), "value") == ["2"]


def test_lisp_sends_many_lines_in_few_messages(lisp):
    messages = lisp.evaluate("(dotimes [n 2000] (println n))")
    assert text(messages, "out") == "".join(f"{n}\n" for n in range(2000))
    assert len(messages) < 200


def test_lisp_prints_infinite_sequences_up_to_a_default_limit(lisp):
    (value,) = texts(lisp.evaluate("(range)"), "value")
    assert value.startswith("(0 1 2 ")
    assert value.endswith(" 9999 ...)")


def test_lisp_prints_infinite_sequences_up_to_the_given_limit(lisp):
    options = {"nrepl.middleware.print/options": {"print-length": 3}}
    assert texts(lisp.evaluate("(range)", **options), "value") == ["(0 1 2 ...)"]


def test_lisp_does_not_truncate_text_printed_by_code(lisp):
    options = {"nrepl.middleware.print/options": {"print-length": 3}}
    for limits in ({}, options):
        messages = lisp.evaluate("(def many (vec (range 20000))) (println (count (pr-str many)))", **limits)
        assert text(messages, "out") == f"{len(' '.join(map(str, range(20000)))) + 2}\n"


def test_lisp_errors_include_their_phase_and_position(lisp):
    (read,) = texts(lisp.evaluate("(+ 1"), "codriver/error")
    assert read["phase"] == "read"
    (compiled,) = texts(lisp.evaluate("\n(no-such-thing)"), "codriver/error")
    assert (compiled["phase"], compiled["line"], compiled["column"]) == ("compile", 2, 2)
    (within,) = texts(lisp.evaluate("(let [x\n 1]\n (no-such-thing x))"), "codriver/error")
    assert (within["line"], within["message"]) == (3, "unable to resolve symbol 'no-such-thing' in this context")
    (ran,) = texts(lisp.evaluate('(throw (ex-info "sad" {}))'), "codriver/error")
    assert (ran["phase"], ran["message"]) == ("execution", "sad")


def test_lisp_supports_macro_expansion_completion_and_lookup(lisp):
    (expansion,) = texts(lisp.ask("macroexpand", code="(when a b)"), "expansion")
    assert expansion.startswith("(if a")
    (found,) = texts(lisp.ask("completions", prefix="map-ind"), "completions")
    assert "map-indexed" in [item["candidate"] for item in found]
    (info,) = texts(lisp.ask("lookup", sym="map"), "info")
    assert (info["ns"], "doc" in info) == ("basilisp.core", True)


def test_lisp_remembers_its_last_values(lisp):
    lisp.evaluate("41")
    assert texts(lisp.evaluate("(inc *1)"), "value") == ["42"]


def test_a_reload_within_the_second_of_an_edit_uses_the_new_source(lisp, tmp_path):
    lisp.evaluate(f"(import sys) (.insert sys/path 0 {str(tmp_path)!r})".replace("'", '"'))
    for number in range(10):
        file = tmp_path / f"quick{number}.lpy"
        file.write_text(f"(ns quick{number})\n(def rate 1)\n")
        stamp = int(file.stat().st_mtime)
        lisp.evaluate(f"(require 'quick{number})")
        file.write_text(f"(ns quick{number})\n(def rate 2)\n")
        os.utime(file, (stamp, stamp))
        answer = lisp.evaluate(f"(require 'quick{number} :reload) quick{number}/rate")
        assert texts(answer, "value")[-1:] == ["2"], answer
    lisp.evaluate("(.pop sys/path 0)")
