"""The handoff is built from data: without Codriver's log messages it is the same."""

import json

import pytest
from tools_in_memory import serving

from codriver.core.checkpoints import CHECKPOINT_PREFIX
from codriver.core.log_facts import (
    CONNECTED_KIND,
    EDIT_KIND,
    FINISHED_KIND,
    LOAD_KIND,
    PURPOSE_KIND,
    TESTS_KIND,
    UNDO_KIND,
)
from codriver.features.handoff.report import LiveState, render_handoff
from codriver.features.handoff.work_story import read_story
from codriver.log.log_entries import ENTRY_SCHEMA, Entry

SHOP = "def total(prices):\n    return sum(prices) + 1\n"
TEST = "from shop import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
OTHER = "def test_other():\n    pass\n"
FILES = ["test_other.py", "test_shop.py"]
NAME = "test_shop.py::test_total"


def entries_of(client):
    """Return the log of a server, as its resource lists it."""
    found = client.request("resources/read", {"uri": "codriver://log"})["result"]["contents"][0]["text"]
    return [Entry.from_record(ENTRY_SCHEMA.record(entity)) for entity in json.loads(found)["entities"]]


def without_sentences(entries):
    """Return the entries with `…` in place of each text that neither a REPL nor a caller wrote."""
    own = [one.category.startswith("other") and one.kind not in (PURPOSE_KIND, CHECKPOINT_PREFIX) for one in entries]
    return [one._replace(text="…") if is_by_caller else one for one, is_by_caller in zip(entries, own, strict=True)]


def handoff(entries):
    return render_handoff(read_story(entries, {}), LiveState(entries[-1].timestamp), "ann")


def section(entries, title):
    return next((line.partition(": ")[2] for line in handoff(entries).splitlines() if line.startswith(title)), None)


def replace_in_shop(client, old, new, **arguments):
    edit = {"filePath": "shop.py", "oldText": old, "newText": new}
    return client.call("edit_files", edits=[edit], limitMs=60_000, **arguments)


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """Return the log of a session that produces every kind of entry: after a failed test, and at the end."""
    folder = tmp_path_factory.mktemp("handoff")
    workspace = folder / "workspace"
    workspace.mkdir()
    for name, text in (
        ("shop.py", SHOP),
        ("test_shop.py", TEST),
        ("test_other.py", OTHER),
        ("core.clj", "(def total 42)\n"),
    ):
        (workspace / name).write_text(text)
    with serving(folder) as live, live.client(name="opencode") as client:
        assert client.call("evaluate_code", code="(def price 3)", description="find the price", who="ann")["ok"]
        assert client.call("evaluate_code", code="1", description="checkpoint: found", who="ann")["ok"]
        assert client.call("load_file", filePath="core.clj", who="ann")["ok"]
        waits = {"code": "(wait)", "timeoutMs": 100, "onTimeout": "interrupt"}
        assert client.call("evaluate_code", who="ann", **waits)["status"] == "interrupted"
        run = {"paths": ["test_shop.py"], "timeoutMs": 60_000}
        ran = client.call("run_tests", who="ann", **run)
        assert ran.get("failed") == 1, ran
        failed = entries_of(client)
        assert replace_in_shop(client, " + 1", "", who="bob")["ok"]
        assert client.call("run_tests", who="bob", paths=FILES, timeoutMs=60_000)["passed"] == 2
        assert not replace_in_shop(client, "sum(prices)", "0", who="eve", test=["test_shop.py"], onFailure="restore")[
            "ok"
        ]
        return failed, entries_of(client)


def test_the_handoff_does_not_depend_on_log_messages(entries):
    failed, ended = entries
    assert {one.kind for one in ended} >= {
        CONNECTED_KIND,
        PURPOSE_KIND,
        CHECKPOINT_PREFIX,
        LOAD_KIND,
        FINISHED_KIND,
        TESTS_KIND,
        EDIT_KIND,
        UNDO_KIND,
    }
    for log in (failed, ended):
        assert handoff(without_sentences(log)) == handoff(log)
    assert section(without_sentences(ended), "Goals") == "find the price (ann)"
    assert section(without_sentences(ended), "Edited") == "shop.py (bob)"
    assert "not resolved" in section(without_sentences(ended), "Failed")


def test_a_test_that_passed_later_for_another_caller_is_not_failing(entries):
    failed, ended = entries
    assert section(failed, "Failing tests").startswith(f"{NAME} (ann ")
    assert section(ended, "Failing tests") is None
