"""Red tests that were green before an act, a load or a redefinition: compared in forks, unasked, after the answer."""

import sys

import pytest
from live_server import until

pytestmark = [
    pytest.mark.served("python"),
    pytest.mark.skipif(sys.platform != "linux", reason="forks of a live Python are made on Linux alone"),
]

PRICES = "import os\nseen = []\n\n\ndef rebate(amount):\n    return 0.9 if amount > 10 else 1\n\n\n"
PRICES += "def price(item, amount):\n    seen.append(os.getpid())\n    return item['price'] * amount * rebate(amount)\n"
TESTS = "import prices\n\n\ndef test_price():\n    assert prices.price({'price': 2}, 20) == 36.0\n\n\n"
TESTS += "def test_few():\n    assert prices.price({'price': 2}, 2) == 4\n"
SAID = "since it was green: prices.rebate(20) 0.9 -> 0.8"


@pytest.fixture(scope="module")
def live(live):
    with live.client() as client:
        until(lambda: "try_code" in client.tools(), "the REPL's tools")
        answer = client.call("try_code", candidates=[{"label": "a", "code": "1"}])
        if "filesAreNotShielded" in answer:
            pytest.skip(f"files cannot be shielded here: {answer['filesAreNotShielded']}")
    return live


@pytest.fixture
def prices(client, live):
    """The prices, loaded as they were written first, and their tests, which were green."""
    (live.workspace / "prices.py").write_text(PRICES)
    (live.workspace / "test_prices.py").write_text(TESTS)
    loaded = client.call("load_file", filePath="prices.py", whole=True)
    assert loaded["ok"], loaded
    assert run(client)["ok"]
    return live.workspace / "prices.py"


def run(client, **given):
    return client.call("run_tests", namespace="test_prices.py", again=False, **given)


def edit(client, old, new, **given):
    edits = [{"filePath": "prices.py", "oldText": old, "newText": new}]
    return client.call("edit_files", edits=edits, load=True, **given)


def told(client, red):
    """The notes of the run once the comparison is over."""
    answer = client.call("get_evaluation", evaluationId=red["evaluationId"])
    return [note for note in answer.get("notes", ()) if note.startswith("since it was green")]


def value(client, code):
    answer = client.call("evaluate_code", code=code)
    assert answer["ok"], answer
    return answer.get("result"), answer.get("notes", [])


def test_the_call_that_an_act_changed_is_told_unasked_by_the_run(client, prices):
    assert edit(client, "0.9", "0.8")["ok"]
    red = run(client)
    assert not any("since it was green" in note for note in red.get("notes", ()))
    until(lambda: told(client, red) == [SAID], "the difference")
    assert len(SAID.encode()) <= 200


def test_it_is_told_by_the_next_answer_of_who_ran_them_once(client, prices):
    assert edit(client, "0.9", "0.8")["ok"]
    run(client)
    notes = []

    def is_told():
        notes.extend(client.call("edit_files", edits=NOTHING).get("notes", ()))
        return SAID in notes

    (prices.parent / "notes.py").write_text("")
    until(is_told, "the difference")
    assert value(client, "1")[1] == []


NOTHING = [{"type": "create", "filePath": "notes.py", "code": "", "overwrite": True}]


def test_tests_of_an_act_are_compared_as_well(client, prices):
    red = edit(client, "0.9", "0.8", test=["test_prices.py"])
    assert not red["ok"]
    until(lambda: told(client, red) == [SAID], "the difference")


def test_nothing_of_it_is_done_in_the_repl_nor_in_files(client, prices):
    assert edit(client, "0.9", "0.8")["ok"]
    red = run(client)
    now = prices.read_text()
    until(lambda: told(client, red), "the difference")
    assert prices.read_text() == now
    assert value(client, "import prices\nlen(prices.seen), len({*prices.seen, prices.os.getpid()})")[0] == "(4, 1)"


def silent(client, red):
    """Whether nothing is told: another red test, which is compared later, is."""
    assert edit(client, "else 1", "else 3")["ok"]
    later = run(client, test="test_few")
    until(lambda: told(client, later), "the difference of the later run")
    return told(client, red) == []


@pytest.mark.parametrize("loads", [True, False])
def test_what_was_edited_elsewhere_is_compared_with_what_was_loaded(client, prices, loads):
    prices.write_text(PRICES.replace("0.9", "0.8"))
    if loads:
        assert client.call("load_file", filePath="prices.py")["ok"]
    red = run(client)
    until(lambda: told(client, red) == [SAID], "the difference")


def test_what_was_evaluated_is_compared_with_what_the_file_defines(client, prices):
    code = "def rebate(amount):\n    return 0.8 if amount > 10 else 1"
    assert client.call("evaluate_code", code=code, namespace="prices")["ok"]
    red = run(client, load=False)
    until(lambda: told(client, red) == [SAID], "the difference")
    assert client.call("evaluate_code", code="import prices; prices.rebate(20)")["result"] == "0.8"


def test_a_red_test_is_not_compared_where_nothing_was_defined_since(client, prices):
    value(client, "import os")
    body = "def test_env():\n    assert not prices.os.environ.get('PRICES')\n"
    (prices.parent / "test_prices.py").write_text(f"{TESTS}\n\n{body}")
    assert run(client, test="test_env")["ok"]
    value(client, "os.environ['PRICES'] = 'dear'")
    try:
        assert silent(client, run(client, test="test_env"))
    finally:
        value(client, "del os.environ['PRICES']")


def test_a_rerun_that_ends_otherwise_says_nothing(client, prices):
    value(client, "import prices\nprices.pid = prices.os.getpid()")
    body = "(0.8 if os.getpid() == pid else 0.9)"
    assert edit(client, "0.9", body)["ok"]
    assert silent(client, run(client, test="test_price"))


def test_it_ends_where_something_else_is_evaluated(client, prices):
    value(client, "import prices, time\nprices.pid, prices.time = prices.os.getpid(), time")
    go = prices.parent / "go"
    waits = f"[time.sleep(0.01) for _ in iter(lambda: os.getpid() == pid or os.path.exists({str(go)!r}), True)]"
    assert edit(client, "0.9", f"[0.8, {waits}][0]")["ok"]
    red = run(client, test="test_price")
    assert value(client, "1 + 1")[0] == "2"
    go.touch()
    assert silent(client, red)
