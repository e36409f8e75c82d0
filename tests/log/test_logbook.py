"""The writer of the log: a single entry point that redacts secrets."""

from contextlib import asynccontextmanager

import anyio
import pytest

from codriver.core.effects import AppendEntry
from codriver.log.evaluation_transcripts import Transcripts
from codriver.log.history import History
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.logbook import Logbook
from codriver.log.redaction import Redactor

SECRET = "sk-Tr4vel-light-0042"
MARK = "<<redacted:TRIP_TOKEN>>"
redactor = Redactor({"TRIP_TOKEN": SECRET})


@pytest.fixture
def transcripts():
    return Transcripts(stored=2, max_bytes=2**20, max_stream_bytes=2**20, redactor=redactor)


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.json")


@pytest.fixture
def logbook(history, transcripts):
    limits = {"max_entities": 100, "max_bytes": 2**20}
    return Logbook(history, transcripts, history, next_line=5, redactor=redactor, **limits)


def test_a_transcript_records_the_line_numbers_of_its_entries(logbook, transcripts):
    transcript = transcripts.open("e1")
    logbook.perform(
        AppendEntry("evaluatedCode", "(run)", who="me", ns="user", session_key="clj", evaluation="e1", now=7)
    )
    logbook.record(Entry(UNASSIGNED_LINE, "evaluationOutput", "told", 8, evaluation="e1"))
    logbook.record(Entry(UNASSIGNED_LINE, "otherOutput", "by the way", 9))
    logbook.record(Entry(UNASSIGNED_LINE, "evaluationResults", "1", 9, evaluation="forgotten"))
    assert (transcript.first_line, transcript.last_line) == (5, 6)
    first = logbook.log.entries()[0]
    assert (first.text, first.timestamp, first.who, first.namespace) == ("(run)", 7, "me", "user")
    assert (first.session_key, first.evaluation) == ("clj", "e1")


def test_only_evaluated_code_is_added_to_the_history(logbook, history):
    logbook.record(Entry(UNASSIGNED_LINE, "otherOutput", "by the way", 9))
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(run)", 9))
    assert history.usage()["entities"] == 1
    assert logbook.history is history


def test_recorded_entries_are_redacted_in_log_and_history(logbook, history):
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", f'(log "{SECRET}")', 1, who=SECRET, namespace=SECRET))
    (entry,) = logbook.log.entries()
    assert (entry.text, entry.who, entry.namespace) == (f'(log "{MARK}")', MARK, MARK)
    assert SECRET not in str(history.snapshot().records)
    assert MARK in str(history.snapshot().records)


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_output_without_an_evaluation_redacts_a_secret_split_across_chunks(logbook, cut):
    assert logbook.redact_chunk("r1", "out", "token " + SECRET[:cut]) == "token "
    assert logbook.redact_chunk("r1", "out", SECRET[cut:] + "\n") == MARK + "\n"


def test_background_output_is_redacted_separately_for_each_repl_and_stream(logbook):
    chunks = [("r1", "out"), ("r1", "err"), ("r2", "out")]
    assert [logbook.redact_chunk(*source, SECRET[:9]) for source in chunks] == ["", "", ""]
    assert logbook.flush_chunks("r1") == [("out", SECRET[:9]), ("err", SECRET[:9])]
    assert logbook.flush_chunks("r1") == []
    assert logbook.redact_chunk("r1", "out", SECRET[9:]) == SECRET[9:]
    assert logbook.redact_chunk("r2", "out", SECRET[9:]) == MARK


def test_entries_of_a_caller_are_found_by_its_redacted_name(logbook):
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "1", 1, who=SECRET))
    name = logbook.log.redact(SECRET)
    assert name == MARK
    assert len(logbook.log.entries(who=name)) == 1


@asynccontextmanager
async def telling(logbook):
    """Record when it is notified of a growing log, starting after all earlier notifications."""
    received = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(logbook.run, lambda: received.append(logbook.log.entity_count))
        with anyio.fail_after(30):
            await until(lambda: received)
            received.clear()
            yield received
        tasks.cancel_scope.cancel()


async def until(condition):
    while not condition():
        await anyio.sleep(0.001)


@pytest.mark.anyio
async def test_growth_of_the_log_is_notified_once_for_a_batch(logbook):
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "before", 1))
    async with telling(logbook) as reported:
        logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "1", 1))
        logbook.record(Entry(UNASSIGNED_LINE, "evaluationResults", "1", 1))
        await until(lambda: reported)
        assert reported == [3]
        logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "2", 1))
        await until(lambda: reported[1:])
        assert reported == [3, 4]


@pytest.mark.anyio
async def test_no_client_is_notified_after_notifications_have_stopped(logbook):
    async with telling(logbook) as reported:
        logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(run)", 1))
        timer = logbook._notification._timer
    assert timer.cancelled()
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(run)", 1))
    assert reported == []


@pytest.mark.anyio
async def test_deferred_entries_are_redacted_with_the_secrets_known_when_they_were_recorded(logbook):
    logbook.add_sensitive_strings("r1", [("pw", "hunter2-hunter2")])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(logbook.run, lambda: None)
        await anyio.wait_all_tasks_blocked()
        logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", '(login "hunter2-hunter2")', 1))
        logbook.add_sensitive_strings("r1", [("pw", f"another secret {number}") for number in range(1000)])
        assert [entry.text for entry in logbook.log.entries()] == ['(login "<<redacted:pw>>")']
        logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", '(login "another secret 999")', 1))
        logbook.remove_sensitive_strings("r1")
        assert logbook.log.entries()[-1].text == '(login "<<redacted:pw>>")'
        tasks.cancel_scope.cancel()
