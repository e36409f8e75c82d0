"""Stack frames without repetition: calls on the JVM, recursion, and frames shared by a chain of errors."""

from codriver.repls.contract.stack_frames import (
    call_start_indexes,
    clojure_function_name,
    fold_repeated_frames,
    format_frame,
    parse_frame,
    unshared_frames,
)
from codriver.repls.contract.stack_trace_values import StackFrame


def frames(*names):
    return [StackFrame(f"{name} (a.py:{number})", "a.py", number, name) for number, name in enumerate(names)]


def test_repeated_frames_of_a_recursive_call_are_folded_into_one_with_a_count():
    deep = parse_frame("f (a.py:3)", ())
    reported = fold_repeated_frames([*[deep] * 987, parse_frame("main (a.py:9)", ())])
    assert [format_frame(frame) for frame in reported] == ["f (a.py:3) … 987 times", "main (a.py:9)"]
    assert fold_repeated_frames([deep, deep]) == (deep, deep), "twice is no recursion to speak of"


def test_mutually_recursive_calls_are_folded():
    reported = fold_repeated_frames([*frames("even", "odd") * 40, *frames("main")])
    assert [format_frame(frame) for frame in reported] == [
        "even (a.py:0)",
        "odd (a.py:1) … these 2 frames, 40 times",
        "main (a.py:0)",
    ]


def test_a_folded_frame_is_parsed_with_its_repeat_count():
    assert parse_frame("f (a b.py:3) … 4 times", ()) == StackFrame("f (a b.py:3)", "a b.py", 3, "f", repeated="4 times")
    assert parse_frame("no frame", ("no",)) == StackFrame("no frame", tooling=True)


def test_the_jvm_frames_of_one_clojure_call_are_merged():
    reported = [
        ("shop$f", "invokeStatic"),
        ("shop$f", "doInvoke"),
        ("clojure.lang.RestFn", "applyTo"),
        ("clojure.core$apply", "invokeStatic"),
        ("clojure.core$apply", "invoke"),
        ("shop$f", "invokeStatic"),  # another arity of the function, because it is static again
        ("shop$f", "invokeStatic"),
        ("shop$f", "invoke"),
        ("shop$g$fn__12", "invoke"),
        ("shop$g$fn__12", "invoke"),  # a nested function that calls itself
        ("java.lang.Thread", "run"),
    ]
    assert call_start_indexes(reported) == [0, 3, 5, 6, 8, 9, 10]


def test_frames_name_functions_as_in_the_source():
    assert clojure_function_name("shop.big_orders$is_late_QMARK_", "invokeStatic") == "shop.big-orders/is-late?"
    assert clojure_function_name("java.lang.Thread", "run") == "java.lang.Thread/run"


def test_frames_shared_with_the_cause_of_an_error_are_omitted():
    inner, outer = frames("a", "b", "main"), frames("c", "b", "main")
    assert unshared_frames(outer, inner) == (outer[0],)
    assert unshared_frames(inner, inner) == (inner[0],), "never none"
