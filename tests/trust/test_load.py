"""Load: many clients at once, some of them misbehaving. Nobody is blocked, nothing is lost, and memory stays
bounded.
"""

import sys

import pytest
from alike import rounds

from trust.client_load import Plan, run

HIGHEST_KIB = 256 * 1024
"""The bound: 80 MiB for the program, 16 MiB of log and 64 MiB of what evaluations said, at most; and for each client
that does not read 8 MiB of answers and 1 MiB of notifications, and some more for what one answer takes. Six such
clients are here. Measured: 130 MiB."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="reads a process's memory from /proc"),
]


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    found = run(tmp_path_factory.mktemp("load"), Plan(seconds=rounds(5.0, 0.8)))
    sys.stdout.write(found.report())  # shown with a failure
    return found


def test_every_evaluation_is_answered_correctly_under_load(seen):
    assert seen.clients_most == 252
    assert seen.sent > 1010
    assert seen.right == seen.sent


def test_a_thousand_queued_evaluations_run_once_each_and_in_order(seen):
    assert seen.queue_seen == 1000
    assert sorted(place for order in seen.queue_order for place in order) == list(range(1, 1001))
    assert all(order == sorted(order) for order in seen.queue_order)


def test_a_hundred_thousand_lines_can_all_be_fetched(seen):
    assert seen.long_text


def test_a_client_that_never_reads_is_throttled_and_loses_no_answer(seen):
    assert seen.flood_held_up
    assert seen.flood_answered == seen.flood_sent + 2  # the handshake's two came before


def test_the_counters_of_the_server_add_up(seen):
    health = seen.health
    log, rows = health["log"], {row["name"]: row for row in health["clients"]}
    assert health["evaluations"]["accepted"] == seen.sent + 3  # the two before, and the one that held the queue
    assert (health["evaluations"]["queued"], health["evaluations"]["running"]) == (0, 0)
    assert log["lastLine"] == log["entities"] + log["evicted"]
    assert log["firstLine"] == log["evicted"] + 1
    for name, calls in seen.calls.items():
        assert rows[name]["calls"] == calls
        assert name == "watcher" or (rows[name]["openRequests"], rows[name]["queued"]) == (0, 0)


def test_only_clients_that_do_not_read_lose_notifications_and_the_losses_are_counted(seen):
    dropped = {row["name"]: row["droppedNotifications"] for row in seen.health["clients"]}
    message = {name: seen.updates[name] + dropped[name] for name in dropped if name != "watcher"}
    listening = {number for name, number in message.items() if not name.startswith("evaluates")}
    assert len(listening) == 1
    assert all(number >= min(listening) > 50 for number in message.values())  # who evaluates is told of that at once
    lost = {name for name, number in dropped.items() if number}
    assert {name for name in lost if not name.startswith(("rude", "floods"))} == set()
    assert {f"rude-{number}" for number in range(5)} <= lost


def test_memory_stays_within_its_bound_and_no_socket_is_left_open(seen):
    assert seen.rss_highest < HIGHEST_KIB
    assert seen.clients_after == 1
    # Fewer is well: what the start had open may be closed by now.
    left = "\n".join(seen.files_after)
    assert len(seen.files_after) <= seen.files_before, f"{seen.files_before} were open before, and now:\n{left}"
