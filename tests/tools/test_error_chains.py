"""Chains of errors, through real servers: each link has its message, its data and its own frames."""

import pytest
from live_server import serving, until_connected
from real_repls import repl

SOURCE = """\
def low(order):
    return order["cents"]


def middle(order):
    try:
        return low(order)
    except KeyError as error:
        raise ValueError("no order") from error


def high(order):
    try:
        return middle(order)
    except ValueError:
        failure = OSError("by the way")
        failure.add_note("order 7")
        raise failure


def together(order):
    try:
        high(order)
    except OSError as error:
        raise ExceptionGroup("many", [error, TypeError("t")]) from None


def deep(n):
    return 1 + deep(n - 1) if n else low({})


def even(n):
    return odd(n - 1) if n else low({})


def odd(n):
    return even(n - 1)
"""
LISP = """\
(ns shop)
(defn low [] (throw (ex-info "low" {:a 1})))
(defn high [] (try (low) (catch python/Exception e (throw (ex-info "high" {:b [2]}) e))))
(defn deep [n] (if (= n 0) (low) (inc (deep (dec n)))))
"""
CLOJURE = """\
(ns shop.core)
(defn low [& xs] (throw (Exception. "inner")))
(defn high []
  (try
    (apply low [1 2])
    (catch Exception e
      (throw (ex-info "wrapped" {:k 1} e)))))
(defn deep [n] (if (zero? n) (throw (ex-info "deep" {:n 0})) (inc (deep (dec n)))))
"""

pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    (live.workspace / "orders.py").write_text(SOURCE)
    (live.workspace / "shop.lpy").write_text(LISP)
    with live.client() as client:
        for key, file in (("py", "orders.py"), ("lpy", "shop.lpy")):
            loaded = client.call("load_file", filePath=file, replSessionKey=key, timeoutMs=120_000)
            assert loaded["ok"], loaded
    return live


def failing(client, code, key="py", **more):
    namespace = {"namespace": "orders"} if key == "py" else {}
    answer = client.call("evaluate_code", code=code, replSessionKey=key, detail=False, **namespace, **more)
    assert not answer["ok"]
    assert "stderr" not in answer, "what the error says once more"
    return answer["error"], client.call("stacktrace", **({"replSessionKey": key} if key else {}))


def lines_of(trace):
    return [frame["line"] for frame in trace["frames"]]


def test_python_errors_include_causes_and_notes(client):
    error, trace = failing(client, "high({})")
    assert error.pop("source").splitlines()[-1].startswith(">18 ")
    assert error == {
        "class": "OSError",
        "message": "by the way",
        "notes": ["order 7"],
        "trace": ["orders.py:18 in high"],
        "locals": "order={}, failure=OSError('by the way')",
        "causes": ["ValueError: no order (orders.py:9 in middle)", "KeyError: 'cents' (orders.py:2 in low)"],
    }
    assert (trace["class"], lines_of(trace)[:1], trace["added"]) == ("OSError", [18], ["order 7"])
    assert [(item["relation"], item["class"], lines_of(item)) for item in trace["chain"]] == [
        ("context", "ValueError", [9, 14]),
        ("cause", "KeyError", [2, 7]),
    ]
    assert not any("text" in frame for frame in trace["frames"])


def test_python_errors_include_the_members_of_a_group(client):
    error, trace = failing(client, "together({})")
    assert error["members"] == [
        "OSError: by the way (order 7) (orders.py:18 in high)",
        "context of member 1: ValueError: no order (orders.py:9 in middle)",
        "cause of member 1: KeyError: 'cents' (orders.py:2 in low)",
        "TypeError: t",
    ]
    assert "causes" not in error
    assert [item["relation"] for item in trace["chain"]][:1] == ["member 1"]


def test_recursive_frames_are_folded(client):
    error, trace = failing(client, "deep(500)")
    assert error["trace"] == ["orders.py:2 in low", "orders.py:29 in deep … 501 times"]
    assert [frame.get("repeated") for frame in trace["frames"]][:2] == [None, "501 times"]
    error, _ = failing(client, "even(100)")
    assert error["trace"][1:3] == ["orders.py:33 in even", "orders.py:37 in odd … these 2 frames, 50 times"]


def test_lisp_errors_include_causes_and_their_data(client):
    error, trace = failing(client, "(shop/high)", "lpy")
    assert error == {
        "class": "ExceptionInfo",
        "message": "high",
        "data": "{:b [2]}",
        "trace": ["shop.lpy:3 in high"],
        "causes": ["ExceptionInfo: low {:a 1} (shop.lpy:2 in low)"],
    }
    assert [(item["relation"], item["data"], lines_of(item)) for item in trace["chain"]] == [
        ("cause", "{:a 1}", [2, 3])
    ]
    error, _ = failing(client, "(shop/deep 300)", "lpy")
    assert error["trace"] == ["shop.lpy:2 in low", "shop.lpy:4 in deep … 301 times"]


def test_clojure_errors_include_the_wrapping_exceptions(tmp_path):
    with serving(tmp_path, "--nrepl", f"clj={repl('jvm').endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        (live.workspace / "core.clj").write_text(CLOJURE)
        assert client.call("load_file", filePath="core.clj")["ok"]
        error, trace = failing(client, "(shop.core/high)", None)
        assert (error["class"], error["message"]) == ("java.lang.Exception", "inner")
        assert error["wrappedBy"] == ["clojure.lang.ExceptionInfo: wrapped {:k 1} (core.clj:7 in shop.core/high)"]
        assert [(frame["function"], frame["line"]) for frame in trace["frames"][:2]] == [
            ("shop.core/low", 2), ("shop.core/high", 5)
        ]  # fmt: skip
        (link,) = trace["chain"]
        assert (link["class"], link["data"], lines_of(link)) == ("clojure.lang.ExceptionInfo", "{:k 1}", [7])
        error, trace = failing(client, "(shop.core/deep 300)", None)
        assert error["data"] == "{:n 0}"
        assert [frame.get("repeated") for frame in trace["frames"][:2]] == ["301 times", None]


def test_nbb_errors_include_causes_and_data(tmp_path):
    with serving(tmp_path, "--nrepl", f"n={repl('nbb').endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        code = '(throw (ex-info "wrapped" {:k 1} (js/TypeError. "inner")))'
        error = client.call("evaluate_code", code=code, detail=False)["error"]
        assert (error["class"], error["message"], error["data"]) == ("ExceptionInfo", "wrapped", "{:k 1}")
        assert error["causes"] == ["TypeError: inner"]


LOCALS = """\
def pay(order, token):
    key = __import__("os").environ["SHOP_API_KEY"]
    note = "x" * 100 + key
    return order["cents"] / order["pieces"]
"""


def test_locals_are_included_on_request_short_and_without_secrets(tmp_path, monkeypatch):
    secret = "correct-horse-battery-staple" * 10
    monkeypatch.setenv("SHOP_API_KEY", secret)
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        (live.workspace / "pay.py").write_text(LOCALS)
        assert client.call("load_file", filePath="pay.py", timeoutMs=120_000)["ok"]
        call = "pay({'cents': 5, 'pieces': 0}, 't')"
        assert not client.call("evaluate_code", code=call, namespace="pay")["ok"]
        assert "locals" not in client.call("stacktrace")["frames"][0]
        (frame, *_) = client.call("stacktrace", locals=True)["frames"]
        assert frame["function"] == "pay"
        assert frame["locals"].keys() == {"order", "key", "note"}, "the token is left out"
        assert frame["locals"]["order"] == "{'cents': 5, 'pieces': 0}"
        assert frame["locals"]["key"] == "'<<redacted:SHOP_API_KEY>>'"
        assert len(frame["locals"]["note"]) == 120
        assert "correct" not in str(frame)
        client.call("evaluate_code", code="import json\njson.loads('{')")
        notes = client.call("stacktrace", locals=True)["notes"]
        assert any(note.startswith("no function of the project has locals here") for note in notes)
        assert client.call("evaluate_code", code="s, idx", frame=0)["result"] == "('{', 0)"
