"""Fixes tried side by side in forks of the embedded Python, and one of them kept."""

import json
import sys

import pytest
from live_server import until
from real_repls import repl

pytestmark = [
    pytest.mark.served("python"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks of a live Python are tried on Linux alone"),
]

SHOP = "rate = 1\nsold = []\n\n\ndef price(n):\n    sold.append(n)\n    return n + rate\n"
TESTS = "import shop\n\n\ndef test_double():\n    assert shop.price(4) == 8\n\n\n"
TESTS += "def test_nothing():\n    assert shop.price(0) == 0\n"
DOUBLE, PLUS, SYNTAX = "n * 2", "n + 4", "n +"


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        until(lambda: "try_code" in client.tools(), "the REPL's tools")
    return live


@pytest.fixture
def shop(client, live):
    """The shop, loaded as it was written first."""
    (live.workspace / "shop.py").write_text(SHOP)
    (live.workspace / "test_shop.py").write_text(TESTS)
    loaded = client.call("load_file", filePath="shop.py", whole=True)
    assert loaded["ok"], loaded
    value(client, "import shop; shop.sold.clear()")
    return live.workspace / "shop.py"


def value(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer.get("result")


def with_price(body):
    return {"type": "text", "filePath": "shop.py", "oldText": "n + rate", "newText": body}


def candidate(label, body):
    return {"label": label, "edits": [with_price(body)]}


def row(answer, label):
    return next(one for one in answer["candidates"] if one["label"] == label)


def test_edits_are_tried_in_files_and_definitions_and_none_is_done(client, shop):
    answer = client.call(
        "try_code", candidates=[candidate("double", DOUBLE), candidate("plus", PLUS)], test=["test_shop.py"]
    )
    assert answer["ok"], answer
    assert row(answer, "double") == {"label": "double", "outcome": "passed", "passed": "2 of 2 tests"}
    plus = row(answer, "plus")
    assert (plus["outcome"], plus["passed"]) == ("failed", "1 of 2 tests")
    assert "test_nothing: AssertionError: assert 4 == 0" in plus["error"]
    assert answer["differs"] == ["test_shop.py/test_nothing: pass in double; fail in plus"]
    assert shop.read_text() == SHOP
    assert value(client, "shop.price(1), shop.sold") == "(2, [1])"


def test_code_is_tried_with_what_it_gives_and_prints(client, shop):
    answer = client.call(
        "try_code",
        candidates=[
            {"label": "more", "code": "print('x' * 400)\nshop.sold.append(7)\nshop.sold"},
            {"label": "wrong", "code": "def broken(n):\n    return n / 0\nbroken(1)"},
        ],
    )
    more, wrong = answer["candidates"]
    assert (more["outcome"], more["value"]) == ("passed", "[7]")
    assert len(more["stdout"].encode()) <= 300 + len("…".encode())
    assert (wrong["outcome"], "ZeroDivisionError: division by zero" in wrong["error"]) == ("failed", True)
    assert value(client, "shop.sold") == "[]"


def test_a_check_that_is_false_fails_and_one_without_a_value_passes(client, shop):
    answer = client.call(
        "try_code",
        candidates=[{"label": "three", "code": "shop.rate = 3"}, {"label": "four", "code": "shop.rate = 4"}],
        check="shop.price(1) == 5",
    )
    assert [(one["outcome"], one["value"]) for one in answer["candidates"]] == [("failed", "False"), ("passed", "True")]
    answer = client.call("try_code", candidates=[{"label": "a", "code": "x = 1"}], check="assert x == 1")
    assert answer["candidates"][0]["outcome"] == "passed"
    assert value(client, "shop.rate, 'x' in globals()") == "(1, False)"


def test_the_first_green_is_done_in_the_repl_and_in_its_file(client, shop):
    answer = client.call(
        "try_code",
        candidates=[candidate("plus", PLUS), candidate("double", DOUBLE)],
        test=["test_shop.py"],
        keep="first-green",
    )
    assert (answer["ok"], answer["kept"]) == (True, "double")
    assert answer["tests"] == {"passed": 2, "failed": 0, "unfinished": 0}
    assert DOUBLE in shop.read_text()
    assert value(client, "shop.price(5)") == "10"


def test_none_is_kept_that_did_not_pass(client, shop):
    for keep in ("plus", "first-green"):
        answer = client.call("try_code", candidates=[candidate("plus", PLUS)], test=["test_shop.py"], keep=keep)
        assert "kept" not in answer
        assert answer["notKept"]
    assert shop.read_text() == SHOP


def test_what_passes_in_the_fork_alone_is_taken_back(client, shop):
    value(client, "import os; shop.home = os.getpid()")
    check = "import os\nos.getpid() != shop.home and shop.price(4) == 8"
    answer = client.call("try_code", candidates=[candidate("double", DOUBLE)], check=check, keep="double")
    assert (answer["ok"], answer["notKept"], answer["reason"]) == (False, "double", "check-failed")
    assert answer["restored"]
    assert shop.read_text() == SHOP
    assert value(client, "shop.price(4)") == "5"


def test_code_that_is_kept_runs_once_in_the_repl(client, shop):
    answer = client.call(
        "try_code", candidates=[{"label": "sell", "code": "shop.sold.append(1)"}], check="shop.sold == [1]", keep="sell"
    )
    assert answer["kept"] == "sell"
    assert value(client, "shop.sold") == "[1]"


def test_an_edit_that_cannot_be_done_fails_alone(client, shop):
    answer = client.call(
        "try_code",
        candidates=[
            candidate("syntax", SYNTAX),
            {"label": "nowhere", "edits": [{"filePath": "shop.py", "oldText": "not there", "newText": ""}]},
            candidate("double", DOUBLE),
        ],
        test=["test_shop.py"],
    )
    outcomes = {one["label"]: one["outcome"] for one in answer["candidates"]}
    assert outcomes == {"syntax": "failed", "nowhere": "failed", "double": "passed"}
    assert "edits" in row(answer, "nowhere")["error"]


def test_a_new_test_and_its_child_process_see_the_edits_and_nothing_comes_out(client, shop):
    test = "import subprocess, sys, shop\n\n\ndef test_file():\n    code = 'import shop; print(shop.price(3))'\n"
    test += "    out = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, cwd='.')\n"
    test += "    assert out.stdout == '6\\n', out.stderr\n    assert 'n * 2' in open(shop.__file__).read()\n"
    edits = [with_price(DOUBLE), {"type": "create", "filePath": "test_seen.py", "code": test}]
    before = sorted(shop.parent.iterdir())
    answer = client.call("try_code", candidates=[{"label": "both", "edits": edits}], test=["test_seen.py"])
    if "filesAreNotShielded" in answer or answer.get("reason") == "cannot-try":
        pytest.skip("no user namespace may be made here")
    assert answer["candidates"][0]["outcome"] == "passed", answer
    assert sorted(shop.parent.iterdir()) == before


def test_tests_named_after_the_changed_files_are_found(client, shop):
    answer = client.call("try_code", candidates=[candidate("double", DOUBLE)], test=["affected"])
    assert answer["candidates"][0]["passed"] == "2 of 2 tests"


def test_one_that_waits_for_a_thread_of_the_repl_is_undecided(client, shop):
    held = "import threading\nlock = threading.Lock()\ndone = threading.Event()\n"
    held += "def hold():\n    with lock:\n        done.wait()\nthreading.Thread(target=hold, name='holder').start()"
    value(client, held)
    try:
        answer = client.call(
            "try_code",
            candidates=[
                {"label": "waits", "code": "def take():\n    lock.acquire()\ntake()"},
                {"label": "sleeps", "code": "import time\ntime.sleep(60)"},
                {"label": "spins", "code": "while True: pass"},
            ],
            timeoutMs=600,
        )
    finally:
        value(client, "done.set()")
    waits, sleeps, spins = answer["candidates"]
    assert (waits["outcome"], waits["threads"]) == ("undecided", ["holder"])
    assert waits["waitsAt"].endswith(":2 in take")
    assert sleeps["outcome"] == spins["outcome"] == "failed"
    assert "timed out after 600 ms" in spins["error"]


def test_each_candidate_has_an_entry_in_the_log_and_no_report(client, shop):
    line = client.call("repl_output_log", limit=1)["lastLine"]
    client.call("try_code", candidates=[{"label": "one", "code": "print(3)"}, {"label": "two", "code": "4"}])
    query = f"[:find ?l ?t :where [?e :output/line ?l] [(> ?l {line})] [?e :output/text ?t]]"
    texts = [text for _, text in sorted(client.call("repl_output_log", query=query)["result"])]
    assert [text.partition(": ")[0].partition(" ")[2] for text in texts] == ["tried one", "tried two"]


def test_an_interrupt_ends_all_and_the_repl_goes_on(client, other, shop):
    sleeps = {"label": "long", "code": "import time\ntime.sleep(60)"}
    begun = client.begin_call("try_code", candidates=[sleeps], timeoutMs=60_000)
    until(lambda: "try_code long" in str(other.call("list_sessions")), "the try to run")
    assert other.call("interrupt_evaluation", replSessionKey="py")["ok"]
    ended = json.loads(client.answer(begun)["result"]["content"][0]["text"])
    assert ended["reason"] == "interrupted"
    assert value(client, "1 + 1") == "2"


WRONG = {
    "two of one name": {"candidates": [{"label": "a", "code": "1"}] * 2},
    "neither code nor edits": {"candidates": [{"label": "a"}]},
    "test and check": {"candidates": [{"label": "a", "code": "1"}], "test": ["x"], "check": "1"},
    "to keep without a test": {"candidates": [{"label": "a", "code": "1"}], "keep": "a"},
    "to keep another": {"candidates": [{"label": "a", "code": "1"}], "check": "1", "keep": "b"},
}


@pytest.mark.parametrize("what", WRONG)
def test_arguments_that_contradict_one_another_are_refused(client, what):
    assert client.call("try_code", **WRONG[what])["reason"] == "bad-arguments"


def test_a_repl_that_cannot_be_forked_says_what_to_do(tmp_path):
    from live_server import serving  # noqa: PLC0415

    address = repl("jvm").endpoint
    with serving(tmp_path, "--nrepl", f"clj={address}", "--repl", "none") as live, live.client() as client:
        until(lambda: "symbol_info" in client.tools(), "the REPL's tools")
        assert "try_code" not in client.tools()
        answer = client.call("try_code", candidates=[{"label": "a", "code": "1"}])
        assert (answer["reason"], "onFailure: restore" in answer["hint"]) == ("capability-missing", True)
