"""A snapshot is unaffected by later changes of its store."""

import random
import threading

import pytest

from codriver_datalog.entity_store import MAX_UNINDEXED_ENTITIES, MIN_TRIM_RECORDS, EntityStore, Schema

SCHEMA = Schema("e", ("line", "who", "text"), frozenset({"line"}), frozenset({"who"}))
WHO = 1


def add(store, first, count, who=lambda line: ("ann", "bob", "eve")[line % 3]):
    for line in range(first, first + count):
        store.add((line, who(line), "x"))


def lines_by_caller(snapshot):
    values = sorted({record[WHO] for record in snapshot.records})
    return {value: [record[0] for record in snapshot.with_value(WHO, value)] for value in values}


def expected(lines):
    return {who: [line for line in lines if line % 3 == place] for place, who in enumerate(("ann", "bob", "eve"))}


@pytest.mark.parametrize("left", [1, MIN_TRIM_RECORDS, 4 * MIN_TRIM_RECORDS, 300])
def test_an_index_includes_entities_removed_since_the_snapshot(left):
    store = EntityStore(SCHEMA)
    add(store, 0, 300)
    snapshot = store.snapshot()
    for line in range(left):
        add(store, 300 + line, 1)
        store.remove(line)
    assert lines_by_caller(snapshot) == expected(range(300))
    assert lines_by_caller(store.snapshot()) == expected(range(left, 300 + left))


def test_an_index_includes_values_removed_or_added_again_since_the_snapshot():
    store = EntityStore(SCHEMA)
    add(store, 0, 3)
    snapshot = store.snapshot()
    for line in range(3):
        store.remove(line)
    assert lines_by_caller(snapshot) == {"ann": [0], "bob": [1], "eve": [2]}
    add(store, 3, 2, who=lambda _line: "ann")
    assert lines_by_caller(snapshot) == {"ann": [0], "bob": [1], "eve": [2]}
    assert lines_by_caller(store.snapshot()) == {"ann": [3, 4]}


def test_an_index_excludes_entities_removed_before_the_snapshot():
    store = EntityStore(SCHEMA)
    add(store, 0, 9)
    for line in (4, 0, 1, 8):
        store.remove(line)
    assert lines_by_caller(store.snapshot()) == {"ann": [3, 6], "bob": [7], "eve": [2, 5]}
    add(store, 9, 3)
    store.remove(10)
    store.remove(2)
    assert lines_by_caller(store.snapshot()) == {"ann": [3, 6, 9], "bob": [7], "eve": [5, 11]}


def test_entities_are_indexed_in_batches_rather_than_all_by_one_snapshot():
    store = EntityStore(SCHEMA)
    add(store, 0, 3 * MAX_UNINDEXED_ENTITIES)
    assert len(store._unindexed) <= MAX_UNINDEXED_ENTITIES
    assert lines_by_caller(store.snapshot()) == expected(range(3 * MAX_UNINDEXED_ENTITIES))
    assert not store._unindexed


def test_an_index_handles_removals_from_the_middle():
    store = EntityStore(SCHEMA)
    add(store, 0, 9)
    snapshot = store.snapshot()
    store.remove(4)
    assert lines_by_caller(snapshot) == expected(range(9))
    assert lines_by_caller(snapshot.until(5)) == expected(range(6))
    assert lines_by_caller(store.snapshot())["bob"] == [1, 7]


def test_an_unknown_value_is_not_found():
    store = EntityStore(SCHEMA)
    add(store, 0, 3)
    assert not store.snapshot().with_value(WHO, "nobody")
    snapshot = store.snapshot()
    store.remove(0)
    assert not snapshot.with_value(WHO, "nobody")


def test_a_snapshot_can_be_read_while_another_thread_changes_the_store():
    store, lock, is_over = EntityStore(SCHEMA), threading.Lock(), threading.Event()
    add(store, 0, 300)

    def change():
        for line in range(300, 30_000):
            with lock:
                add(store, line, 1)
                store.remove(line - 300)
        is_over.set()

    writer = threading.Thread(target=change)
    writer.start()
    pick = random.Random(1)
    while not is_over.is_set():
        with lock:
            snapshot = store.snapshot()
        for _ in range(pick.randrange(20)):
            lines = [record[0] for record in snapshot.records]
            assert lines_by_caller(snapshot) == expected(lines)
    writer.join(30)
