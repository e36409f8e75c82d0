"""The tool `watch_calls` in a live server: calls in the log, stops, limits and refusals."""

import sys

import pytest
import tools_in_memory
from all_tools import BY_NAME
from jsonschema import validate
from live_server import serving, until
from needs import interpreter

SHOP = """
def total(prices, rate=1):
    return sum(prices) * rate

def login(user, note):
    raise ValueError(note)
"""
STATE = "import sys, shop; [sys.monitoring.get_tool(n) for n in range(6)]"


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    repls = ("--repl", "python", "--repl", "lisp", "--python", interpreter("python3.12"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHOP_TOKEN", "s3cr3t-t0ken")
        with serving(tmp_path_factory.mktemp("watched"), *repls) as running:
            (running.workspace / "shop.py").write_text(SHOP)
            yield running


@pytest.fixture
def client(live):
    with live.client() as connected:
        evaluate(connected, "import shop")
        yield connected


def evaluate(client, code):
    return client.call("evaluate_code", code=code, replSessionKey="py").get("result")


def watch(client, function="shop.total", **arguments):
    answer = client.call("watch_calls", function=function, replSessionKey="py", **arguments)
    validate(answer, BY_NAME["watch_calls"].output)
    assert answer["ok"], answer
    return answer


def texts(client, watched):
    """Return the entries of a watch."""
    result = client.call("repl_output_log", query=watched["query"])["result"]
    return [text for _, text in sorted(result)]


def ended(client, watched):
    """Wait until a watch has ended, and return its entries."""
    until(lambda: any("the watch ended" in text for text in texts(client, watched)), "the watch ends")
    return texts(client, watched)


def test_matching_calls_become_entries_of_the_log(client):
    watched = watch(client, condition="len(prices) > 1")
    assert watched["at"] == "shop.py:2"
    evaluate(client, "[shop.total([1]), shop.total([1, 2], rate=3)]")
    waited = client.call("wait_for", query=watched["query"], since=watched["since"], timeoutMs=20_000)
    assert waited["ok"], waited
    assert watch(client, limit=0) == {"ok": True, "existed": True}
    entry, end = ended(client, watched)
    assert entry.startswith("total(prices=[1, 2], rate=3) returned 9 in ")
    assert end == "shop.total: the watch ended: a caller ended it"
    assert evaluate(client, STATE) == str([None] * 6)


def test_a_watch_ends_at_its_limit(client):
    watched = watch(client, limit=2)
    evaluate(client, "[shop.total([n]) for n in range(4)]")
    assert [text.partition(" in ")[0] for text in ended(client, watched)] == [
        "total(prices=[0], rate=1) returned 0",
        "total(prices=[1], rate=1) returned 1",
        "shop.total: the watch ended: the maximum number of calls was reached",
    ]
    assert watch(client, limit=0)["existed"] is False


def test_known_secrets_are_redacted(client):
    watched = watch(client, "shop.login", limit=1)
    evaluate(client, "import os\ntry: shop.login('ann', 'it is ' + 's3cr3t-' + 't0ken')\nexcept ValueError: pass")
    entry, _ = ended(client, watched)
    assert "raised ValueError(" in entry
    assert "s3cr3t" not in entry


def test_a_watch_ends_when_its_client_disconnects(live, client):
    with live.client() as leaving:
        watched = watch(leaving)
        assert "codriver watch_calls" in evaluate(client, STATE)
    until(lambda: evaluate(client, STATE) == str([None] * 6), "monitoring ends")
    assert [text for text in texts(client, watched) if "returned" in text] == []


def test_two_clients_can_watch_one_function(live, client):
    with live.client() as other:
        mine, theirs = watch(client, condition="rate == 1", who="a"), watch(other, condition="rate == 2", who="b")
        evaluate(client, "shop.total([1]), shop.total([1], 2)")
        watch(client, limit=0, who="a")
        watch(other, limit=0, who="b")
        assert len([text for text in ended(client, mine) if "returned 1 " in text]) == 1
        assert len([text for text in ended(client, theirs) if "returned 2 " in text]) == 1


@pytest.mark.parametrize(
    ("arguments", "reason", "message"),
    [
        ({"function": "shop.missing"}, "bad-arguments", "shop has no missing"),
        ({"function": "shop.total", "condition": "price > 1"}, "bad-arguments", "the condition uses price"),
        ({"function": "f", "replSessionKey": "lpy"}, "capability-missing", "Python 3.12 or later"),
    ],
)
def test_functions_that_cannot_be_watched_are_refused(client, arguments, reason, message):
    answer = client.call("watch_calls", **{"replSessionKey": "py", **arguments})
    assert (answer["ok"], answer["reason"]) == (False, reason)
    assert message in answer["message"]


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="needs a Python without sys.monitoring")
def test_earlier_versions_of_python_lack_the_capability_to_watch_calls(tmp_path):
    with serving(tmp_path, "--repl", "python", "--python", sys.executable) as running, running.client() as client:
        assert evaluate(client, "1") == "1"
        answer = client.call("watch_calls", function="json.dumps", replSessionKey="py")
    assert (answer["ok"], answer["reason"]) == (False, "capability-missing")
    assert "sys.monitoring, which requires Python 3.12 or later" in answer["message"]


def test_watching_calls_is_refused_if_evaluation_is_disabled(tmp_path):
    """A condition is code that runs in the program."""
    with tools_in_memory.serving(tmp_path, settings={"enable_mcp_repl_evaluation": False}) as served:
        with served.client() as caller:
            refused = caller.call("watch_calls", function="os.getcwd", condition="1")
        assert (refused["ok"], refused["reason"]) == (False, "switched-off")
