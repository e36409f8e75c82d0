"""The last error of a session, through a real server."""

import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until_connected
from real_repls import repl

from codriver.tools.stacktrace import error_from_row

PYTHON = "import json\n\ndef outer(text):\n    return json.loads(text)\n"
LISP = "(ns deep.core)\n(defn inner [x] (/ 1 x))\n(defn outer [x] (inner x))\n"


pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        for key, file, text in (("py", "deep.py", PYTHON), ("lpy", "deep.lpy", LISP)):
            (live.workspace / file).write_text(text)
            loaded = client.call("load_file", filePath=file, replSessionKey=key, timeoutMs=120_000)
            assert loaded["ok"], loaded
            # Before the first error there is no stack trace to report.
            trace = get_stacktrace(client, replSessionKey=key)
            assert (trace["ok"], trace["frames"], trace["count"]) == (True, [], 0)
            assert trace["notes"]
    return live


def get_stacktrace(client, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call("stacktrace", **arguments)
    validate(answer, BY_NAME["stacktrace"].output)
    return answer


def test_the_stack_trace_of_a_python_error_includes_the_project_frames(client):
    assert not client.call("evaluate_code", code="outer('{')", namespace="deep", replSessionKey="py")["ok"]
    trace = get_stacktrace(client, replSessionKey="py")
    assert trace["class"].endswith("JSONDecodeError")
    assert "Expecting property name" in trace["message"]
    inner = trace["frames"][0]
    assert (inner["function"], inner["file"], inner["line"]) == ("outer", "deep.py", 4)
    assert trace["source"] == " 3 def outer(text):\n>4     return json.loads(text)"
    assert trace["omitted"] > 0
    whole = get_stacktrace(client, replSessionKey="py", whole=True)
    assert whole["count"] == trace["count"] + trace["omitted"]
    assert "json/decoder.py" in whole["frames"][0]["file"]


def test_the_source_is_left_out_if_the_file_has_changed_since_the_error(live, client):
    (live.workspace / "fixed.py").write_text("def half(n):\n    return 1 / n\n")
    assert not client.call("evaluate_code", code="import fixed\nfixed.half(0)", replSessionKey="py")["ok"]
    assert ">2     return 1 / n" in get_stacktrace(client, replSessionKey="py")["source"]
    edit = {"filePath": "fixed.py", "oldText": "1 / n", "newText": "n / 2"}
    assert client.call("edit_files", edits=[edit], load=True, replSessionKey="py")["ok"]
    assert "source" not in get_stacktrace(client, replSessionKey="py")


def test_the_stack_trace_of_a_lisp_error_includes_the_project_frames(client):
    assert not client.call("evaluate_code", code="(deep.core/outer 0)", replSessionKey="lpy")["ok"]
    trace = get_stacktrace(client, replSessionKey="lpy")
    assert trace["class"] == "ZeroDivisionError"
    assert [frame["line"] for frame in trace["frames"][:2]] == [2, 3]
    assert (trace["frames"][0]["file"], "source" in trace) == ("deep.lpy", False)


def test_a_clojure_error_includes_its_data(tmp_path):
    address = repl("jvm").endpoint
    with serving(tmp_path, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        (live.workspace / "deep.clj").write_text('(ns deep.core)\n(defn fail []\n  (throw (ex-info "no" {:a 1})))\n')
        assert client.call("load_file", filePath="deep.clj")["ok"]
        client.call("evaluate_code", code='(try (deep.core/fail) (catch Exception e (throw (Exception. "why" e))))')
        trace = get_stacktrace(client)
        assert (trace["class"], trace["message"], trace["data"]) == ("clojure.lang.ExceptionInfo", "no", "{:a 1}")
        assert (trace["frames"][0]["file"], trace["frames"][0]["line"]) == ("deep.clj", 3)
        assert get_stacktrace(client, whole=True)["count"] == trace["count"] + trace["omitted"]


def test_a_repl_without_stack_traces_refuses_the_request(tmp_path):
    address = repl("nbb").endpoint
    with serving(tmp_path, "--nrepl", f"n={address}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        assert "stacktrace" not in client.tools()
        answer = get_stacktrace(client)
        assert (answer["reason"], answer["capability"]) == ("capability-missing", "stacktrace")


FAILED_TESTS = {
    "AssertionError: assert 1 == 2": ("AssertionError", "assert 1 == 2"),
    "java.lang.ArithmeticException: Divide by zero": ("java.lang.ArithmeticException", "Divide by zero"),
    '(not (= "a: b" "c"))': ("fail", '(not (= "a: b" "c"))'),
    "(not (every? [#error {:cause 1}]))": ("fail", "(not (every? [#error {:cause 1}]))"),
    "AssertionError": ("AssertionError", ""),
}


@pytest.mark.parametrize("actual", FAILED_TESTS)
def test_a_failed_lisp_assertion_is_not_mistaken_for_a_class_name(actual):
    assert error_from_row({"outcome": "fail", "actual": actual}) == FAILED_TESTS[actual]
