"""The form, class, position and trace that a failed evaluation reports, through a real server."""

import pytest
from live_server import serving, until_connected
from real_repls import repl

LISP = "(ns {0})\n(defn f [] (/ 1 0))\n\n{1}\n"


pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        for key in ("py", "lpy"):
            assert client.call("evaluate_code", code="1", replSessionKey=key, timeoutMs=120_000)["ok"]
    return live


@pytest.fixture(scope="module")
def jvm(tmp_path_factory):
    address = repl("jvm").endpoint
    folder = tmp_path_factory.mktemp("jvm")
    with serving(folder, "--nrepl", f"clj={address}", "--repl", "none") as running, running.client() as client:
        until_connected(client)
        yield running, client


def failure(client, tool="evaluate_code", **arguments):
    answer = client.call(tool, **arguments)
    assert answer["reason"] == "evaluation-failed", answer
    return answer["error"]


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("x = 1\n\ny = (\n  1 / 0)\nz = 1", 2),
        ("f = lambda: 1 / 0\nx = [1,\n f()]", 2),
        ("a = 1; 1 / 0", 2),
        ("1\n2\nreturn 3", 3),
        ("1 / 0", 1),
    ],
)
def test_a_python_failure_includes_the_number_of_its_statement(client, code, form):
    assert failure(client, code=code, replSessionKey="py")["form"] == form


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("def f():\n  return 1 / 0\n\nf()\n", 2),
        ("import os\n\nif True:\n  pass\n  1 / 0\n", 2),
        ("x = 1\n\n@1 / 0\ndef f(): pass\n", 2),
        ("x = 1\nreturn 2\n", 2),
        ("x = 1; 1 / 0\n", None),
    ],
)
def test_the_failure_of_a_python_file_includes_the_number_of_its_statement(live, client, text, form):
    (live.workspace / "failing.py").write_text(text)
    assert failure(client, "load_file", filePath="failing.py", replSessionKey="py").get("form") == form


@pytest.mark.parametrize(("last", "form"), [("(f)", 3), ("(defn h [] (zork 1))", 3), ("1 (\\zork)", 4)])
def test_the_failure_of_a_lisp_file_includes_the_number_of_its_form(live, client, last, form):
    (live.workspace / "places.lpy").write_text(LISP.format("places", last))
    assert failure(client, "load_file", filePath="places.lpy", replSessionKey="lpy")["form"] == form


@pytest.mark.parametrize(
    ("code", "own"),
    [("(defn h [] (zork 1))", []), ("(defn f [] (/ 1 0))\n(defn g [] (f))\n(g)", ["f", "g"])],
)
def test_a_lisp_stack_trace_is_reduced_to_user_frames_unless_requested_whole(client, code, own):
    error = failure(client, code=code, replSessionKey="lpy")
    named = [frame.partition(" ")[0] for frame in error.get("trace", [])]
    assert named[: len(own)] == own
    assert not any("basilisp/" in frame for frame in error.get("trace", []))
    whole = client.call("stacktrace", replSessionKey="lpy", whole=True)
    assert any("basilisp/" in frame["file"] for frame in whole["frames"])


@pytest.mark.parametrize(("key", "code"), [("py", "1"), ("lpy", "1 2")])
def test_all_repls_report_an_unknown_namespace_in_the_same_way(client, key, code):
    answer = client.call("evaluate_code", code=code, namespace="nope.x", replSessionKey=key)
    assert_no_namespace(answer)


def assert_no_namespace(answer):
    assert answer["error"] == {
        "class": "namespace-not-found",
        "message": "nothing was evaluated, because there is no namespace 'nope.x'. Load or require it first",
    }
    assert answer.get("ns") == "user"
    assert "nothing was evaluated" in answer["hint"]


@pytest.mark.parametrize(("key", "code"), [("py", "import json"), ("lpy", "; nothing")])
def test_the_first_answer_names_the_namespace_even_without_a_value(tmp_path, key, code):
    with serving(tmp_path, "--repl", {"py": "python", "lpy": "lisp"}[key]) as live, live.client() as client:
        answer = client.call("evaluate_code", code=code, timeoutMs=120_000)
        assert (answer["ok"], answer["ns"]) == (True, "user")
        answer = client.call("evaluate_code", code=code, isolate=True)
        assert answer["ns"].startswith("user")


def test_an_answer_names_the_requested_namespace_even_without_a_value(client):
    client.call("evaluate_code", code="import json", replSessionKey="py")
    assert client.call("evaluate_code", code="pass", namespace="json", replSessionKey="py")["ns"] == "json"


def test_the_jvm_never_reports_a_namespace_that_does_not_exist(jvm):
    _, client = jvm
    client.call("evaluate_code", code="1")
    assert_no_namespace(client.call("evaluate_code", code="1 2", namespace="nope.x"))
    assert client.call("evaluate_code", code="(str *ns*)")["ns"] == "user"


@pytest.mark.parametrize(
    ("code", "place"), [("\\zzz", (1, 1, 1)), ("1 2 :a/", (3, 1, 5)), ("1\n (foo\n :a/)", (2, 3, 4))]
)
def test_a_jvm_read_error_points_into_the_code(jvm, code, place):
    error = failure(jvm[1], code=code)
    assert (error["form"], error["line"]) == place[:2]
    assert error["column"] >= place[2]
    lines = code.splitlines()
    assert error["column"] <= len(lines[error["line"] - 1]) + 1


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ("(defn h [] (zork 1))", "java.lang.RuntimeException"),
        ('(defmacro m [] (throw (ex-info "bad" {}))) (m)', "clojure.lang.ExceptionInfo"),
        ("(\\zork)", "java.lang.RuntimeException"),
    ],
)
def test_a_clojure_file_that_fails_to_load_names_the_original_exception(jvm, last, kind):
    live, client = jvm
    (live.workspace / "places.clj").write_text(LISP.format("places", last))
    error = failure(client, "load_file", filePath="places.clj")
    assert error["class"] == kind
    assert error["line"] == 4
    assert error["form"] == (4 if "defmacro" in last else 3)


def test_each_arity_of_a_jvm_function_is_listed_separately(jvm):
    assert jvm[1].call("symbol_info", symbol="map")["arglists"][:2] == ["[f]", "[f coll]"]
