"""Files of tests that an edit is unlikely to break run after its answer, unless the edit is to be reverted."""

import pytest
from live_server import until

from codriver.tools.acts.affected_tests import LATER_LABEL

pytestmark = pytest.mark.served("python")

PRICE = "def half(n):\n    return n // 2\n\n\ndef label(n):\n    return str(n)\n"
HERE = "import price\n\n\ndef test_half():\n    assert price.half(4) == 2\n"
FAR = (
    "import price\n\n\ndef test_label():\n    assert price.label(2) == '2'\n\n\n"
    "def test_other():\n    assert price.half(1) == 1\n"
)


@pytest.fixture
def workspace(client, live):
    """Return the workspace, in which only the tests named after the module have run."""
    for name, text in (("price", PRICE), ("test_price", HERE), ("test_far", FAR)):
        (live.workspace / f"{name}.py").write_text(text)
    assert client.call("run_tests", paths=["test_price.py"], timeoutMs=60_000)["ok"]
    return live.workspace


def edit(client, old, new, **arguments):
    change = {"filePath": "price.py", "oldText": old, "newText": new}
    return client.call("edit_files", edits=[change], load=True, test=["affected"], **arguments)


def notes(client):
    return client.call("evaluate_code", code="1").get("notes", [])


def test_an_edit_waits_only_for_likely_tests_and_the_next_answer_names_what_it_broke(client, workspace):
    answer = edit(client, "return str(n)", "return repr(n) + '.'")
    assert (answer["ok"], answer["tests"]["passed"]) == (True, 1), answer
    assert answer["chosen"].endswith(f"1 {LATER_LABEL}"), answer
    found = []
    until(lambda: found.extend(note for note in notes(client) if "broke" in note) or found, "the broken test")
    assert found == ["your edit of price.py broke test_far.py::test_label: passed before, run after the answer"]
    assert "repr(n)" in (workspace / "price.py").read_text()


def test_an_edit_that_may_be_reverted_waits_for_all_tests(client, workspace):
    answer = edit(client, "return str(n)", "return repr(n) + '.'", onFailure="restore", limitMs=50_000)
    assert (answer["ok"], "restored" in answer) == (False, True), answer
    assert LATER_LABEL not in answer["chosen"]
    assert (workspace / "price.py").read_text() == PRICE


def test_a_requested_run_ends_the_later_tests(client, workspace):
    (workspace / "test_far.py").write_text("import price, time\n\n\ndef test_slow():\n    time.sleep(60)\n")
    assert client.call("run_tests", paths=["test_price.py"], timeoutMs=60_000)["ok"]
    answer = edit(client, "return n // 2", "return int(n / 2)")
    assert answer["ok"], answer
    assert client.call("run_tests", paths=["test_price.py"], timeoutMs=30_000)["passed"] == 1


def test_without_likely_tests_an_edit_waits_for_all_that_import_the_file(client, workspace):
    (workspace / "lone.py").write_text("def lone():\n    return 1\n")
    (workspace / "test_alone.py").write_text("import lone\n\n\ndef test_lone():\n    assert lone.lone() == 1\n")
    change = {"filePath": "lone.py", "oldText": "return 1", "newText": "return 2"}
    answer = client.call("edit_files", edits=[change], test=["affected"], onFailure="restore")
    assert (answer["ok"], "restored" in answer) == (False, True), answer
