"""The app log: events of applications next to the output log, with shared line numbers and its own limits, as
`$app`.
"""

import threading

import anyio
import pytest

from codriver.errors import RefusedError
from codriver.features.applications.app_log import APP_SCHEMA, APP_SOURCE, AppEvent, AppLog
from codriver.log.evaluation_transcripts import Transcripts
from codriver.log.event_store import DEFAULT_MAX_EVENTS
from codriver.log.history import History
from codriver.log.log_entries import ENTRY_SCHEMA, UNASSIGNED_LINE, Entry
from codriver.log.logbook import Logbook
from codriver.log.memory import Memory
from codriver.log.output_log import LogQuery, OutputLog
from codriver.log.redaction import Redactor
from codriver.log.run_recorder import RunRecorder

CODE = "evaluatedCode"
SECRET = "sk-Tr4vel-light-0042"
MARK = "<<redacted:TRIP_TOKEN>>"
REDACTOR = Redactor({"TRIP_TOKEN": SECRET})
CAUSED = """[:find ?l ?t :in $ $app ?me
  :where [?e :output/who ?me] [?e :output/evaluation ?id] [?e :output/category "evaluatedCode"]
         [$app ?a :output/evaluation ?id] [$app ?a :output/text ?t] [$app ?a :output/line ?l]]"""


@pytest.fixture
def log():
    return OutputLog(next_line=5)


@pytest.fixture
def app(log):
    return app_log_of(log)


def app_log_of(log, **options):
    """Return an app log that queries to this log can read."""
    app = AppLog(log.allocate_line, **options)
    log.sources = log.sources.with_sources([(APP_SOURCE, app)])
    return app


@pytest.fixture
def history(tmp_path):
    return History(tmp_path / "history.json")


@pytest.fixture
def logbook(history):
    return logbook_of(history)


def logbook_of(history, next_line=5):
    transcripts = Transcripts(stored=2, max_bytes=2**20, max_stream_bytes=2**20, redactor=REDACTOR)
    limits = {"max_entities": 100, "max_bytes": 2**20}
    return Logbook(history, transcripts, history, next_line=next_line, redactor=REDACTOR, **limits)


def event(text="1 fx db/write", timestamp=7, **known):
    return AppEvent(text, timestamp, **known)


def query_result(log, app, query, *inputs):
    return log.query(query, inputs=inputs).result


def test_both_logs_share_one_line_counter(log, app):
    given = [log.append(Entry(UNASSIGNED_LINE, CODE, "1", 1)), app.record(event()), app.record(event())]
    given.append(log.append(Entry(UNASSIGNED_LINE, CODE, "2", 2)))
    assert given == [5, 6, 7, 8]
    assert ([entry.line for entry in log.entries()], [entry["line"] for entry in app.entries(limit=9)]) == (
        [5, 8],
        [6, 7],
    )
    assert (app.first_line, app.last_line, app.entity_count, app.stored) == (6, 7, 2, 2)


def test_an_event_has_only_known_attributes(app):
    app.record(event())
    app.record(event("2 event", 8, op="event", name="count/add", frame="app", cause=86, ms=0.25, app_id=342,
                     who="ann", evaluation="e1", session_key="python"))  # fmt: skip
    assert app.entries(limit=9) == [
        {"line": 5, "category": "appEvent", "text": "1 fx db/write", "timestamp": 7},
        {
            "line": 6,
            "category": "appEvent",
            "text": "2 event",
            "timestamp": 8,
            "who": "ann",
            "repl-session-key": "python",
            "evaluation": "e1",
            "op": "event",
            "name": "count/add",
            "frame": "app",
            "cause": 86,
            "ms": 0.25,
            "app-id": 342,
        },
    ]


def test_one_query_can_join_an_evaluation_with_its_events(log, app):
    for number in range(3):
        log.append(
            Entry(UNASSIGNED_LINE, CODE, f"add {number}", 1, who="ann" if number else "bob", evaluation=f"e{number}")
        )
    app.record(event("3 fx by ann", evaluation="e1", who="ann"))
    app.record(event("4 fx by bob", evaluation="e0", who="bob"))
    app.record(event("5 fx of the app's own"))
    assert query_result(log, app, CAUSED, "ann") == [[8, "3 fx by ann"]]


@pytest.mark.parametrize(
    ("clause", "found"),
    [
        ('[$app ?e :output/op "error"]', [7]),
        ("[$app ?e :output/cause 86]", [6, 7]),
        ("[$app ?e :output/ms ?ms] [(> ?ms 0.5)]", [7]),
        ('[$app ?e :output/frame "app"]', [6]),
        ("[$app ?e] [(missing? $app ?e :output/op)]", [5]),
    ],
)
def test_events_are_found_by_their_own_attributes(log, app, clause, found):
    app.record(event())
    app.record(event(op="fx", cause=86, ms=0.25, frame="app"))
    app.record(event(op="error", cause=86, ms=1.5))
    assert query_result(log, app, f"[:find [?e ...] :in $ $app :where {clause}]") == found


@pytest.mark.parametrize(
    "where",
    [
        "[?e :output/op ?op]",
        "[?e :output/line ?l] [?e :output/op ?op]",
        '[?e :output/category ?c] [?e :output/op ?op] [?f :output/category ?c] [?f :output/who "ann"]',
        '[?e :output/who "ann"] [?e :output/cause ?op]',
        "[?f :output/evaluation ?id] [?e :output/evaluation ?id] [?e :output/name ?op]",
    ],
)
def test_log_entities_lack_the_attributes_of_events(log, app, where):
    log.append(Entry(UNASSIGNED_LINE, CODE, "1", 1, who="ann", evaluation="e1"))
    app.record(event(op="fx"))
    assert query_result(log, app, f"[:find ?e ?op :in $ $app :where {where}]") == []
    absent = '[:find ?e . :where [?e :output/line] (not [?e :output/op "fx"])]'
    assert query_result(log, app, absent) == 5
    assert (
        query_result(log, app, '[:find ?o . :where [?e :output/line] [(get-else $ ?e :output/op "none") ?o]]') == "none"
    )


def test_pulls_support_attributes_of_both_logs(log, app):
    log.append(Entry(UNASSIGNED_LINE, CODE, "1", 1))
    app.record(event(op="fx"))
    pattern = '[:output/line [:output/op :default "none"]]'
    assert query_result(log, app, f"[:find (pull ?e {pattern}) . :where [?e :output/line]]") == {
        "id": 5,
        "line": 5,
        "op": "none",
    }
    pulled = query_result(log, app, f"[:find (pull $app ?e {pattern}) . :in $ $app :where [$app ?e :output/line]]")
    assert pulled == {"id": 6, "line": 6, "op": "fx"}
    given = "[:find (pull $app ?e ?p) . :in $ $app ?p :where [$app ?e :output/line]]"
    assert query_result(log, app, given, "[:output/op]") == {"id": 6, "op": "fx"}


@pytest.mark.parametrize("wrong", ["[?e :output/nope]", "[?e :output/line] [(missing? $ ?e :output/nope)]"])
def test_an_unknown_attribute_error_lists_event_attributes_only_if_events_are_queried(log, app, wrong):
    for sources, is_included in (("$", False), ("$ $app", True)):
        with pytest.raises(RefusedError) as error:
            log.query(f"[:find ?e :in {sources} :where {wrong}]")
        expected = str(error.value)
        assert ":output/notebook" in expected
        assert (":output/op" in expected) == is_included


def test_a_rule_can_query_events(log, app):
    app.record(event(op="error"))
    rules = '[[(failed ?e) [?e :output/op "error"]]]'
    assert query_result(log, app, "[:find [?e ...] :in $ $app % :where ($app failed ?e)]", rules) == [5]


def test_triples_of_events_include_their_attributes(log, app):
    app.record(event(op="fx"))
    found = query_result(log, app, "[:find [?a ...] :in $ $app :where [$app 5 ?a ?v]]")
    assert sorted(found) == [":output/category", ":output/line", ":output/op", ":output/text", ":output/timestamp"]


def test_a_query_that_names_the_app_log_is_refused_if_there_is_no_app_log(log):
    with pytest.raises(RefusedError, match=r"or `\$memory`, found \$app"):
        log.query("[:find ?e :in $ $app :where [$app ?e :output/line]]")


def test_a_query_up_to_a_line_excludes_later_events(log, app):
    for _ in range(3):
        app.record(event())
    query = "[:find [?e ...] :in $ $app :where [$app ?e :output/line]]"
    assert log.query(query, until=6).result == [5, 6]


def test_a_flood_of_events_evicts_nothing_from_the_log(log, app):
    log.append(Entry(UNASSIGNED_LINE, CODE, "the oldest", 1))
    for _ in range(DEFAULT_MAX_EVENTS + 50):
        app.record(event())
    assert [entry.text for entry in log.entries()] == ["the oldest"]
    assert (app.entity_count, app.stored, app.first_line, app.last_evicted_line) == (
        DEFAULT_MAX_EVENTS,
        DEFAULT_MAX_EVENTS + 50,
        56,
        55,
    )
    assert (log.evicted_count, log.last_evicted_line) == (0, 4)


def test_events_are_evicted_if_their_total_size_is_too_large(log):
    app = AppLog(log.allocate_line, max_bytes=10_000)
    for _ in range(10):
        app.record(event("x" * 3000))
    assert (app.entity_count, app.text_bytes <= 10_000, app.last_evicted_line) == (2, True, 12)


def test_event_texts_are_redacted_and_shortened_to_a_single_line(log):
    app = AppLog(log.allocate_line, redact=lambda text: text.replace("s3cret", "***"))
    app.record(event("a\n\x1b[2J s3cret", op="s3cret", name="n" * 999, frame="s3cret", cause="s3cret", who="s3cret"))
    app.record(event("y" * 9000 + "s3cret", ms=float("nan")))
    first, second = app.entries(limit=2)
    assert first["text"] == r"a\n\x1b[2J ***"
    assert [first[name] for name in ("op", "frame", "cause", "who")] == ["***"] * 4
    assert len(str(first["name"])) < 350
    assert len(str(second["text"])) < 4100
    assert "ms" not in second


def test_the_newest_events_are_listed_by_line_and_caller(app):
    for number in range(6):
        app.record(event(str(number), who="ann" if number % 2 else None))
    assert [entry["text"] for entry in app.entries(since=6, limit=2)] == ["4", "5"]
    assert [entry["text"] for entry in app.entries(who="ann", limit=9)] == ["1", "3", "5"]
    assert (app.count(), app.count(since=6), app.count(since=6, who="ann")) == (6, 4, 2)


def test_listeners_are_notified_of_each_event_while_they_listen(app, caplog):
    received = []

    def failing(line):
        raise RuntimeError(line)

    with app.subscribe(received.append), app.subscribe(failing):
        app.record(event())
    app.record(event())
    assert received == [5]
    assert "line 5" in caplog.text


def test_threads_recording_in_both_logs_never_use_the_same_line_number(log, app):
    seen, go = [], threading.Barrier(4)

    def fill(record):
        go.wait()
        seen.extend([record() for _ in range(500)])

    recorders = [lambda: app.record(event()), lambda: log.append(Entry(UNASSIGNED_LINE, CODE, "x", 1))] * 2
    threads = [threading.Thread(target=fill, args=(recorder,)) for recorder in recorders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == list(range(5, 2005))


def test_dropped_events_are_counted(app):
    app.count_dropped(37)
    app.count_dropped(3)
    assert (app.stored, app.dropped) == (0, 40)


def test_the_log_attributes_come_first_and_are_unchanged():
    assert APP_SCHEMA.attributes[: len(ENTRY_SCHEMA.attributes)] == ENTRY_SCHEMA.attributes
    assert not {"op", "cause"} & set(ENTRY_SCHEMA.attributes)


def test_application_events_are_queried_with_the_log_and_redacted(logbook, history):
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(run)", 1, evaluation="e1"))
    app = app_log_of(logbook.log, redact=logbook.log.redact)
    app.record(event(f"1 fx {SECRET}", evaluation="e1"))
    query = "[:find ?c ?t :in $ $app :where [?e :output/text ?c] [$app ?a :output/text ?t]]"
    assert logbook.query(LogQuery(query, (), 10)).result == [["(run)", f"1 fx {MARK}"]]
    assert history.usage()["entities"] == 1


def test_no_later_run_of_the_server_reuses_the_line_number_of_an_event(tmp_path):
    history = History(tmp_path / "history.json")
    log = logbook_of(history, history.load().next_line).log
    line = app_log_of(log, follower=history.record_used_line).record(event())
    history.close()
    assert History(tmp_path / "history.json").load().next_line == line + 1


@pytest.mark.anyio
async def test_application_events_do_not_notify_clients_of_log_updates(logbook):
    app = app_log_of(logbook.log)
    async with anyio.create_task_group() as tasks:
        is_notified = anyio.Event()
        tasks.start_soon(logbook.run, is_notified.set)
        with anyio.fail_after(30):
            await is_notified.wait()
        while logbook._notification._timer is not None:
            await anyio.sleep(0.001)
        app.record(event())
        assert logbook._notification._timer is None
        logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(run)", 1))
        assert logbook._notification._timer is not None
        tasks.cancel_scope.cancel()


def test_application_events_do_not_cause_the_stored_log_to_be_rewritten(logbook, tmp_path):
    memory = Memory(tmp_path / "memory")
    recorder = RunRecorder(memory, logbook.log, session="s", started_ms=0, max_runs=lambda: 5)
    logbook.record(Entry(UNASSIGNED_LINE, "evaluatedCode", "(run)", 1))
    recorder._write_run(None)
    memory.delete_runs(memory.run_ids())
    app_log_of(logbook.log).record(event())
    recorder._write_run(None)
    assert not memory.run_ids()
    logbook.record(Entry(UNASSIGNED_LINE, "evaluationResults", "1", 1))
    recorder._write_run(None)
    assert [entry.text for entry in memory.entries(*memory.run_ids())] == ["(run)", "1"]
