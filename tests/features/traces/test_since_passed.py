"""Failed tests that passed before an edit are compared with a run of the previous files, after the answer was sent."""

import pytest
from live_server import until

pytestmark = pytest.mark.served("python")

PRICES = "def rebate(amount):\n    return 0.9 if amount > 10 else 1\n\n\n"
PRICES += "def price(item, amount):\n    return item['price'] * amount * rebate(amount)\n"
TESTS = "import prices\n\n\ndef test_price():\n    assert prices.price({'price': 2}, 20) == 36.0\n"
DIFFERENCE = "since it passed: prices.rebate(20) 0.9 -> 0.8"


@pytest.fixture
def prices(client, live):
    """Return the module, whose test passed."""
    (live.workspace / "prices.py").write_text(PRICES)
    (live.workspace / "test_prices.py").write_text(TESTS)
    assert run(client)["ok"]
    return live.workspace / "prices.py"


def run(client):
    return client.call("run_tests", paths=["test_prices.py"], timeoutMs=60_000)


def edit(client, old, new, **given):
    return client.call("edit_files", edits=[{"filePath": "prices.py", "oldText": old, "newText": new}], **given)


def notes(client, failed):
    answer = client.call("get_evaluation", evaluationId=failed["evaluationId"])
    return [note for note in answer.get("notes", ()) if note.startswith("since it passed")]


def test_a_later_answer_names_the_first_call_that_an_edit_changed(client, prices):
    assert edit(client, "0.9", "0.8")["ok"]
    failed = run(client)
    assert not any("since it passed" in note for note in failed.get("notes", ()))
    until(lambda: notes(client, failed) == [DIFFERENCE], "the difference")
    assert "0.8" in prices.read_text()


def test_tests_run_by_an_edit_are_also_compared(client, prices):
    failed = edit(client, "0.9", "0.8", test=["test_prices.py"])
    assert failed["reason"] == "tests-failed"
    until(lambda: notes(client, failed) == [DIFFERENCE], "the difference")


def test_a_new_test_run_does_not_wait_for_the_comparison_of_an_earlier_run(client, prices):
    assert edit(client, "0.9", "0.8")["ok"]
    assert not run(client)["ok"]
    assert edit(client, "0.8", "0.9")["ok"]
    assert run(client)["ok"]
