"""The log of a session in which callers evaluate, load, edit and test, with and without Codriver's own sentences."""

import json

from tools_in_memory import serving

from codriver.core.checkpoints import CHECKPOINT_PREFIX
from codriver.core.log_facts import PURPOSE_KIND
from codriver.log.log_entries import ENTRY_SCHEMA, Entry

SHOP = "def total(prices):\n    return sum(prices) + 1\n"
TEST = "from shop import total\n\ndef test_total():\n    assert total([1, 2]) == 3\n"
OTHER = "def test_other():\n    pass\n"
FILES = ["test_other.py", "test_shop.py"]


def entries_of(client):
    """Return the log of a server, as its resource lists it."""
    found = client.request("resources/read", {"uri": "codriver://log"})["result"]["contents"][0]["text"]
    return [Entry.from_record(ENTRY_SCHEMA.record(entity)) for entity in json.loads(found)["entities"]]


def without_sentences(entries):
    """Return the entries with `…` in place of each text that neither a REPL nor a caller wrote."""
    return [entry._replace(text="…") if _has_sentence(entry) else entry for entry in entries]


def _has_sentence(entry):
    return entry.category.startswith("other") and entry.kind not in (PURPOSE_KIND, CHECKPOINT_PREFIX)


def replace_in_shop(client, old, new, **arguments):
    edit = {"filePath": "shop.py", "oldText": old, "newText": new}
    return client.call("edit_files", edits=[edit], limitMs=60_000, **arguments)


def record_work(folder):
    """Return the log of a session that produces every kind of entry: after a failed test, and at the end."""
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
