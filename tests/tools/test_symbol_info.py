"""What REPLs know about the code in them, through a real server."""

import json
import sys
from urllib.parse import quote

import pytest
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until_connected
from real_repls import repl

DEFINITIONS = '''
def area(width, height=1):
    """The area of a rectangle."""
    return width * height
'''
LISP = '(ns shapes.core)\n\n(defn area\n  "The area of a rectangle."\n  ([w] (area w w))\n  ([w h] (* w h)))\n'


pytestmark = pytest.mark.served("python", "lisp")


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        for name, file, text in (("py", "shapes.py", DEFINITIONS), ("lpy", "shapes.lpy", LISP)):
            (live.workspace / file).write_text(text)
            loaded = client.call("load_file", filePath=file, replSessionKey=name, timeoutMs=120_000)
            assert loaded["ok"], loaded
    return live


def ask(client, tool, **arguments):
    """Return the answer, which must match its output schema."""
    answer = client.call(tool, **arguments)
    validate(answer, BY_NAME[tool].output)
    return answer


def test_a_python_function_is_described_with_its_location(client):
    info = ask(client, "symbol_info", symbol="area", namespace="shapes", replSessionKey="py")
    assert (info["name"], info["ns"], info["sessionKey"]) == ("area", "shapes", "py")
    assert info["doc"] == "The area of a rectangle."
    assert info["arglists"] == ["(width, height=1)"]
    assert (info["file"], info["line"]) == ("shapes.py", 2)


def test_a_lisp_function_is_described_with_its_location(client):
    info = ask(client, "symbol_info", symbol="area", namespace="shapes.core", replSessionKey="lpy")
    assert (info["name"], info["ns"], info["doc"]) == ("area", "shapes.core", "The area of a rectangle.")
    assert info["arglists"] == ["[w]", "[w h]"]
    assert (info["file"], info["line"], info["column"]) == ("shapes.lpy", 3, 1)


def test_a_macro_is_distinguished_from_a_function(client):
    assert ask(client, "symbol_info", symbol="when", replSessionKey="lpy")["macro"] is True
    assert "macro" not in ask(client, "symbol_info", symbol="map", replSessionKey="lpy")


@pytest.mark.parametrize("key", ["py", "lpy"])
def test_an_unknown_symbol_is_refused_with_a_suggestion(client, key):
    answer = ask(client, "symbol_info", symbol="no-such-thing", replSessionKey=key)
    assert (answer["ok"], answer["reason"]) == (False, "unknown-symbol")
    assert "complete_symbol" in answer["hint"]


def test_a_lookup_evaluates_nothing_and_keeps_the_last_value(client):
    client.call("evaluate_code", code="'before'", replSessionKey="py")
    info = ask(client, "symbol_info", symbol="__import__('os').getcwd()", replSessionKey="py")
    assert info["reason"] == "unknown-symbol"
    assert client.call("evaluate_code", code="_", replSessionKey="py")["result"] == "'before'"


def test_a_symbol_is_described_while_the_session_is_busy(live, client):
    gate = live.workspace / "gate"
    code = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"
    began = client.call("evaluate_code", code=code, timeoutMs=1000, replSessionKey="py")
    assert began["status"] == "running"
    assert ask(client, "symbol_info", symbol="len", replSessionKey="py")["ok"]
    gate.touch()
    ended = client.call("get_evaluation", evaluationId=began["evaluationId"], waitMs=20_000)
    assert ended["status"] == "done"


@pytest.mark.parametrize(("key", "prefix", "namespace"), [("py", "ar", "shapes"), ("lpy", "ar", "shapes.core")])
def test_names_are_completed_in_their_namespace(client, key, prefix, namespace):
    answer = ask(client, "complete_symbol", prefix=prefix, namespace=namespace, replSessionKey=key)
    assert "area" in [row["candidate"] for row in answer["completions"]]
    assert answer["count"] == len(answer["completions"])
    elsewhere = ask(client, "complete_symbol", prefix=prefix, replSessionKey=key)
    assert "area" not in [row["candidate"] for row in elsewhere["completions"]]


def test_a_long_list_of_completions_is_truncated_and_counted(client):
    answer = ask(client, "complete_symbol", prefix="s", replSessionKey="lpy", limit=3)
    assert answer["count"] == 3
    assert answer["omitted"] > 3


def test_a_prefix_without_completions_returns_an_empty_list(client):
    answer = ask(client, "complete_symbol", prefix="zzz-no-such", replSessionKey="lpy")
    assert (answer["ok"], answer["completions"], answer["count"]) == (True, [], 0)


def test_a_macro_is_expanded_once_or_fully(client):
    once = ask(client, "macroexpand", code="(when-not a b)", replSessionKey="lpy")
    assert once["expansion"].startswith("(if ")
    threaded = "(-> a (when b))"
    assert "->" in ask(client, "macroexpand", code=threaded, replSessionKey="lpy")["expansion"]
    full = ask(client, "macroexpand", code=threaded, full=True, replSessionKey="lpy")
    assert full["expansion"].startswith("(if ")


def test_a_form_that_cannot_be_read_is_refused_with_a_reason(client):
    answer = ask(client, "macroexpand", code="(when a", replSessionKey="lpy")
    assert (answer["ok"], answer["reason"]) == (False, "evaluation-failed")


def test_macroexpand_is_refused_for_python(client):
    answer = ask(client, "macroexpand", code="1 + 1", replSessionKey="py")
    assert (answer["ok"], answer["reason"], answer["capability"]) == (False, "capability-missing", "macroexpand")


def test_a_tool_that_no_repl_supports_is_not_listed_and_a_call_suggests_a_suitable_repl(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        until_connected(client)
        assert "complete_symbol" in client.tools()
        assert "macroexpand" not in client.tools()
        answer = ask(client, "macroexpand", code="(when a b)")
        assert (answer["reason"], answer["capability"]) == ("capability-missing", "macroexpand")
        assert answer["hint"]


def test_without_a_repl_no_lookup_tool_is_listed(tmp_path):
    with serving(tmp_path, "--repl", "none") as live, live.client(name="opencode") as client:
        assert not {"symbol_info", "complete_symbol", "macroexpand"} & set(client.tools())
        assert ask(client, "symbol_info", symbol="map")["reason"] == "capability-missing"


def test_the_first_call_waits_for_the_starting_repl(tmp_path):
    with serving(tmp_path, "--repl", "python") as live, live.client() as client:
        assert ask(client, "symbol_info", symbol="len")["ok"]
    with serving(tmp_path / "other", "--repl", "python") as live, live.client() as client:
        (live.workspace / "test_one.py").write_text("def test_one(): assert True")
        assert client.call("run_tests", timeoutMs=60_000)["ok"]


def test_a_call_during_a_slow_start_suggests_calling_again(tmp_path):
    slow = f"{sys.executable} -c 'import time; time.sleep(60)'"
    with serving(tmp_path, "--repl", slow) as live, live.client() as client:
        answer = ask(client, "run_tests", timeoutMs=500)
        assert answer["reason"] == "capability-missing"
        assert "is starting. Call again" in answer["hint"]


def read(client, *parts):
    """Return the answer to reading the symbol with these parts as a resource."""
    uri = "codriver://symbol/" + "/".join(quote(part, safe="") for part in parts)
    return client.request("resources/read", {"uri": uri})


@pytest.mark.parametrize(
    ("key", "namespace", "symbol"),
    [("lpy", "shapes.core", "area"), ("lpy", "shapes.core", "/"), ("lpy", "user", "basilisp.core/some?"),
     ("py", "shapes", "area")],
)  # fmt: skip
def test_a_symbol_is_a_resource_with_percent_encoded_parts(client, key, namespace, symbol):
    (content,) = read(client, key, namespace, symbol)["result"]["contents"]
    requested = ask(client, "symbol_info", symbol=symbol, namespace=namespace, replSessionKey=key)
    assert requested.pop("ok")
    assert (content["mimeType"], json.loads(content["text"])) == ("application/json", requested)


def test_an_unknown_symbol_is_not_a_resource(client):
    for parts in (("lpy", "user", "no-such"), ("nobody", "user", "map"), ("lpy", "user"), ("py", "user", "a", "b")):
        error = read(client, *parts)["error"]
        assert error["code"] == -32002
        assert error["message"]
    broken = client.request("resources/read", {"uri": "codriver://symbol/lpy/user/%ff"})["error"]
    assert (broken["code"], "percent-encoded" in broken["message"]) == (-32602, True)


def test_the_symbol_resource_is_listed_as_a_template(client):
    templates = client.request("resources/templates/list")["result"]["resourceTemplates"]
    uris = [template["uriTemplate"] for template in templates]
    assert "codriver://symbol/{replSessionKey}/{namespace}/{symbol}" in uris


@pytest.mark.parametrize("name", ["jvm", "nbb", "basilisp"])
def test_a_real_repl_describes_its_core_functions(tmp_path, name):
    with serving(tmp_path, "--nrepl", f"r={repl(name).endpoint}", "--repl", "none") as live, live.client() as client:
        until_connected(client)
        info = ask(client, "symbol_info", symbol="map")
        assert info["name"] == "map"
        assert info["ns"].endswith(".core")
        assert any("coll" in args for args in info["arglists"])
        found = ask(client, "complete_symbol", prefix="map-ind")["completions"]
        assert "map-indexed" in [row["candidate"] for row in found]
        expanded = ask(client, "macroexpand", code="(when a b)", full=True)["expansion"]
        assert expanded.startswith("(if a")
