"""The output log keeps entries in order, within its limits, and reports its changes."""

import logging
import sys
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codriver.log.line_numbers import MAX_UNREPORTED_LINES
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import MAX_DEFERRED_CHARACTERS, MAX_WAITING_ENTRIES, OutputLog

CODE = "evaluatedCode"
OUT = "evaluationOutput"


def filled(count, **options):
    log = OutputLog(**options)
    for number in range(count):
        log.append(Entry(UNASSIGNED_LINE, OUT, f"text {number}", number, who="ann" if number % 2 else "bob"))
    return log


def lines(entries):
    return [entry.line for entry in entries]


def test_line_numbers_increase_by_one_from_the_first():
    log = OutputLog(next_line=41)
    assert [log.append(Entry(UNASSIGNED_LINE, OUT, "x", 0)) for _ in range(3)] == [41, 42, 43]
    assert (log.first_line, log.last_line, log.next_line, log.entity_count) == (41, 43, 44, 3)


def test_an_empty_log_has_no_first_and_last_line():
    log = OutputLog(next_line=7)
    assert (log.first_line, log.last_line, log.next_line, log.entries()) == (None, None, 7, ())


def test_an_entity_has_only_known_attributes():
    log = OutputLog()
    log.append(
        Entry(UNASSIGNED_LINE, CODE, "(+ 1 2)", 5, who="ann", namespace="user", session_key="clj", evaluation="e1")
    )
    log.append(Entry(UNASSIGNED_LINE, "otherOutput", "hello", 6))
    assert [entry.to_json() for entry in log.entries()] == [
        {
            "line": 1,
            "category": CODE,
            "text": "(+ 1 2)",
            "timestamp": 5,
            "who": "ann",
            "ns": "user",
            "repl-session-key": "clj",
            "evaluation": "e1",
        },
        {"line": 2, "category": "otherOutput", "text": "hello", "timestamp": 6},
    ]


def test_the_oldest_lines_are_evicted_if_there_are_too_many():
    log = filled(25, max_entities=10)
    assert lines(log.entries()) == list(range(16, 26))
    assert (log.entity_count, log.evicted_count, log.first_line, log.last_line) == (10, 15, 16, 25)


def test_lines_are_evicted_until_the_remaining_text_fits():
    log = OutputLog(max_bytes=10)
    for text in ("aaaa", "bbbb", "ü"):  # 4 + 4 + 2 bytes
        log.append(Entry(UNASSIGNED_LINE, OUT, text, 0))
    assert (log.entity_count, log.text_bytes) == (3, 10)
    log.append(Entry(UNASSIGNED_LINE, OUT, "c", 0))
    assert (lines(log.entries()), log.text_bytes) == ([2, 3, 4], 7)


def test_an_evicted_long_text_uses_no_memory():
    log = OutputLog(max_bytes=300_000)
    texts = [str(number) * 200_000 for number in range(4)]
    alone = [sys.getrefcount(text) for text in texts]
    for number in range(len(texts)):
        log.append(Entry(UNASSIGNED_LINE, OUT, texts[number], 1, who="ann", evaluation="e1"))
    retained = [sys.getrefcount(text) for text in texts]
    assert retained[:3] == alone[:3]
    assert retained[3] > alone[3]


def test_the_newest_entry_is_kept_however_long_it_is():
    log = OutputLog(max_bytes=10)
    log.append(Entry(UNASSIGNED_LINE, OUT, "short", 0))
    log.append(Entry(UNASSIGNED_LINE, OUT, "x" * 100, 0))
    assert (lines(log.entries()), log.text_bytes) == ([2], 100)


def test_a_text_with_a_lone_surrogate_is_stored():
    log = OutputLog()
    log.append(Entry(UNASSIGNED_LINE, OUT, "\ud800", 0))
    assert log.entries()[0].text == "\ud800"


def test_appending_reports_the_added_evicted_and_retained_lines():
    reports = []
    log = OutputLog(max_entities=2, listener=reports.append)
    for text in "abc":
        log.append(Entry(UNASSIGNED_LINE, OUT, text, 9))
    assert [(r.retracted, r.first_line, r.last_line) for r in reports] == [((), 1, 1), ((), 1, 2), ((1,), 2, 3)]
    assert reports[2].added == (Entry(3, OUT, "c", 9),)


def test_a_listener_can_append_to_the_log_and_read_it():
    seen = []

    def listen(report):
        if report.last_line < 3:
            log.append(Entry(UNASSIGNED_LINE, OUT, "more", 0))
        seen.append(log.last_line)

    log = OutputLog(listener=listen)
    log.append(Entry(UNASSIGNED_LINE, OUT, "first", 0))
    assert seen == [3, 3, 3]


def test_a_failing_listener_is_logged_and_the_entity_is_kept(caplog):
    def fail(report):
        raise ValueError("no good")

    log = OutputLog(listener=fail)
    with caplog.at_level(logging.ERROR):
        assert log.append(Entry(UNASSIGNED_LINE, OUT, "kept", 0)) == 1
    assert "line 1" in caplog.text
    assert log.entity_count == 1


def test_a_text_is_redacted_before_anyone_reads_it():
    reports = []
    log = OutputLog(redact=lambda text: text.replace("secret", "***"), listener=reports.append)
    log.append(Entry(UNASSIGNED_LINE, OUT, "a secret", 0))
    assert log.entries()[0].text == reports[0].added[0].text == "a ***"


def test_the_newest_matching_entries_are_returned_in_line_order():
    log = OutputLog()
    for number in range(1, 13):
        log.append(
            Entry(
                UNASSIGNED_LINE,
                CODE if number % 3 == 0 else OUT,
                "x",
                0,
                who="ann" if number % 2 else "bob",
                evaluation=f"e{number // 4}",
                session_key="clj" if number < 7 else "bb",
            )
        )
    assert lines(log.entries(since=10)) == [11, 12]
    assert lines(log.entries(until=2)) == [1, 2]
    assert lines(log.entries(since=3, until=5)) == [4, 5]
    assert lines(log.entries(category=[CODE])) == [3, 6, 9, 12]
    assert lines(log.entries(category=(CODE, OUT), limit=2)) == [11, 12]
    assert lines(log.entries(who="bob", since=7)) == [8, 10, 12]
    assert lines(log.entries(evaluation="e1", who="ann")) == [5, 7]
    assert lines(log.entries(session_key="bb", category=[CODE])) == [9, 12]
    assert lines(log.entries(limit=3, until=10)) == [8, 9, 10]
    assert log.entries(who="nobody") == log.entries(category=[]) == log.entries(limit=0) == ()


@given(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(["ann", "bob", None])), max_size=60), st.integers(1, 12))
def test_the_log_always_contains_the_newest_entries_that_fit(appended, cap):
    log = OutputLog(max_entities=cap, max_bytes=100)
    kept = []
    for length, who in appended:
        kept.append((log.append(Entry(UNASSIGNED_LINE, OUT, "x" * length, 0, who=who)), length, who))
        while len(kept) > 1 and (len(kept) > cap or sum(length for _, length, _ in kept) > 100):
            kept.pop(0)
        assert lines(log.entries()) == [line for line, _, _ in kept]
        assert log.text_bytes == sum(length for _, length, _ in kept)
        assert lines(log.entries(who="ann")) == [line for line, _, who in kept if who == "ann"]


def test_threads_appending_concurrently_never_share_a_line():
    log = OutputLog(max_entities=100)
    given_lines = [[] for _ in range(4)]

    def work(mine):
        mine.extend(log.append(Entry(UNASSIGNED_LINE, OUT, "x", 0, who="w")) for _ in range(500))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in given_lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(line for mine in given_lines for line in mine) == list(range(1, 2001))
    assert lines(log.entries()) == lines(log.entries(who="w")) == list(range(1901, 2001))


def test_a_query_in_another_thread_sees_a_consistent_log():
    log = OutputLog(max_entities=300)
    is_over = threading.Event()

    def write():
        for number in range(6000):
            log.append(Entry(UNASSIGNED_LINE, OUT, "x", number, who="ann" if number % 3 else "bob"))
        is_over.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    while not is_over.is_set():
        every: Any = log.query("[:find [?l ...] :where [_ :output/line ?l]]").result
        both: Any = log.query("[:find ?l ?w :in $ [?w ...] :where [?l :output/who ?w]]", inputs=[["ann", "bob"]]).result
        assert every == list(range(every[0], every[0] + len(every))) if every else not every
        assert [who for _, who in both] == ["ann" if (line - 1) % 3 else "bob" for line, _ in both]
        assert [line for line, _ in both] == list(range(both[0][0], both[0][0] + len(both))) if both else not both
        seen += 1
    writer.join(30)
    assert seen > 0
    assert len(log.query("[:find ?l :where [_ :output/line ?l]]").result) == 300


def test_a_follower_is_notified_only_until_it_leaves_its_context():
    log = OutputLog()
    received = []
    with log.subscribe(received.append):
        log.append(Entry(UNASSIGNED_LINE, OUT, "in", 0))
        log.append(Entry(UNASSIGNED_LINE, OUT, "in, and could wait", 0), may_wait=True)
    log.append(Entry(UNASSIGNED_LINE, OUT, "after", 0))
    assert received == [1, 2]


READS = {
    "entries": lambda log: log.entries()[-1].line,
    "snapshot": lambda log: log.snapshot().last_line,
    "query": lambda log: log.query("[:find (max ?l) . :where [_ :output/line ?l]]").result,
    "count": lambda log: log.entity_count,
    "bytes": lambda log: log.text_bytes,
    "last line": lambda log: log.last_line,
    "evicted": lambda log: log.evicted_count + 3,
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reading_includes_deferred_entries(read):
    log = OutputLog()
    assert [log.append(Entry(UNASSIGNED_LINE, OUT, "x", 0), may_wait=True) for _ in range(3)] == [1, 2, 3]
    assert read(log) == 3


def test_deferred_entries_are_reported_together_redacted_and_evicted_normally():
    reports = []
    log = OutputLog(max_entities=2, redact=lambda text: text.replace("secret", "***"), listener=reports.append)
    for text in ("a", "b", "a secret"):
        log.append(Entry(UNASSIGNED_LINE, OUT, text, 0, who="secret"), may_wait=True)
    assert reports == []
    log.add_waiting()
    log.add_waiting()
    assert [(report.retracted, report.first_line, report.last_line) for report in reports] == [((1,), 2, 3)]
    assert [(entry.line, entry.text, entry.who) for entry in reports[0].added[1:]] == [
        (2, "b", "***"),
        (3, "a ***", "***"),
    ]
    assert log.last_evicted_line == 1


@pytest.mark.parametrize(
    "texts", [["x"] * MAX_WAITING_ENTRIES, ["x" * (MAX_DEFERRED_CHARACTERS + 1)]], ids=["many", "long"]
)
def test_large_or_many_entries_are_not_deferred(texts):
    reports = []
    log = OutputLog(listener=reports.append)
    for text in texts:
        assert not reports
        log.append(Entry(UNASSIGNED_LINE, OUT, text, 0), may_wait=True)
    assert len(reports[0].added) == len(texts)


def test_concurrent_deferred_writes_and_reads_are_complete_and_in_order():
    added, go = [], threading.Barrier(4)

    def listen(report):
        time.sleep(0)  # let another thread run here
        added.extend(report.added)

    log = OutputLog(max_entities=10_000, listener=listen)

    def fill():
        go.wait()
        for number in range(500):
            line = log.append(Entry(UNASSIGNED_LINE, OUT, "x", 0), may_wait=bool(number % 7))
            if number % 11 == 0:
                assert log.snapshot().last_line >= line

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert lines(log.entries()) == list(range(1, 2001))
    assert lines(added) == list(range(1, 2001))


def test_fewer_lines_are_deferred_than_the_history_reserves():
    assert MAX_WAITING_ENTRIES <= MAX_UNREPORTED_LINES


@pytest.mark.parametrize("until", [0, 1, 7, 15, 20, 99])
def test_a_query_can_exclude_entries_after_a_line(until):
    log = filled(20, max_entities=15)
    for query in ("[:find [?l ...] :where [?e :output/line ?l]]", BY_BOB):
        rows = log.query(query).result
        assert log.query(query, until=until).result == [line for line in rows if line <= until]


BY_BOB = '[:find [?l ...] :where [?e :output/who "bob"] [?e :output/line ?l]]'


def test_all_rows_of_a_query_for_a_single_row_can_be_requested():
    log = filled(3)
    assert log.query("[:find ?l . :where [_ :output/line ?l]]", every_row=True).result == [1, 2, 3]
    assert log.query("[:find [?l ?t] :where [?e :output/line ?l] [?e :output/text ?t]]", every_row=True).count == 3
