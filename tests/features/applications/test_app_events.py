"""Events of applications in the answers of the log tools. They never crowd out log entries."""

from types import SimpleNamespace

import anyio
import anyio.lowlevel
import pytest

from codriver.core.state import State
from codriver.features.applications.app_log import APP_SOURCE, AppEvent, AppLog
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog
from codriver.net.fair_threads import WorkThreads
from codriver.settings.durations import Durations
from codriver.settings.model import Settings
from codriver.tools.calls.call import Call
from codriver.tools.ledgers.standing_queries import QueryLimits
from codriver.tools.repl_output_log import LogArguments, repl_output_log
from codriver.tools.wait_for import WaitArguments, wait_for

pytestmark = pytest.mark.anyio

ERRORS = (
    '[:find ?l ?t :in $ $app :where [$app ?e :output/op "error"] [$app ?e :output/line ?l] [$app ?e :output/text ?t]]'
)
RESULTS = '[:find ?l :where [?e :output/category "evaluationResults"] [?e :output/line ?l]]'
CAUSED = """[:find ?l ?t :in $ $app ?me :where [?e :output/who ?me] [?e :output/evaluation ?id]
  [?e :output/category "evaluatedCode"] [$app ?a :output/evaluation ?id] [$app ?a :output/line ?l]
  [$app ?a :output/text ?t]]"""


class Logs:
    """Both logs, and what a call that reads them needs of a server."""

    def __init__(self, next_line=1, max_events=2000):
        self.log = OutputLog(next_line=next_line)
        self.app_log = AppLog(self.log.allocate_line, max_events=max_events)
        self.log.sources = self.log.sources.with_sources([(APP_SOURCE, self.app_log)])
        self.asked = []
        self.core = SimpleNamespace(state=State())
        self.live = SimpleNamespace(settings=Settings())
        self.work = WorkThreads()
        self.waits = QueryLimits()
        self.durations = Durations()

    def query(self, requested):
        self.asked.append(requested.until)
        return self.log.query(
            requested.text, inputs=requested.inputs, limit=requested.limit, until=requested.until,
            every_row=requested.every_row,
        )  # fmt: skip

    def append(self, category, text="text", **known):
        return self.log.append(Entry(UNASSIGNED_LINE, category, text, 0, **known))

    def record_event(self, text="1 fx db/write", **known):
        return self.app_log.record(AppEvent(text, 0, **known))

    async def listed(self, client="bare", **given):
        arguments = LogArguments.model_validate(given)
        return (await repl_output_log(Call(self, "c1", client, None), arguments)).fields

    async def awaited(self, query, **given):
        arguments = WaitArguments.model_validate({"query": query, "timeoutMs": 60_000, **given})
        with anyio.fail_after(60):
            return (await wait_for(Call(self, "c1", "bare", None), arguments)).fields


def lines(answer):
    return [item["line"] for item in answer["result"]]


async def test_an_unfiltered_listing_only_counts_application_events():
    logs = Logs()
    logs.append("evaluatedCode", who="ann")
    assert "appEvents" not in await logs.listed()
    for number in range(3):
        logs.record_event(who="ann" if number else None)
    answer = await logs.listed()
    assert (lines(answer), answer["appEvents"], answer["firstLine"], answer["lastLine"]) == ([1], 3, 1, 1)
    assert (await logs.listed(since=2))["appEvents"] == 2
    assert (await logs.listed(by="ann"))["appEvents"] == 2
    assert "appEvents" not in await logs.listed(since=4)
    assert "appEvents" not in await logs.listed(query=RESULTS)
    assert "appEvents" not in await logs.listed(category=["evaluatedCode"])


@pytest.mark.parametrize(
    "requested", [{}, {"query": "[:find [?l ...] :where [_ :output/line ?l]]"}], ids=["rows", "query"]
)
async def test_continuing_from_the_last_line_of_an_answer_misses_nothing(requested):
    logs, answers = Logs(), []
    logs.append("evaluationResults", "1")

    async def listing():
        answers.append(await logs.listed(limit=10_000, **requested))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listing)
        while not answers:
            await anyio.lowlevel.checkpoint()
            logs.append("evaluationResults", "1")
    [answer] = answers
    assert answer["lastLine"] <= max(lines(answer) if not requested else answer["result"])


async def test_events_listed_by_category_are_in_line_order_with_other_entries():
    logs = Logs()
    for number in range(3):
        logs.append("evaluatedCode", str(number))
        logs.record_event(f"event {number}", op="fx", who="ann")
    logs.append("evaluationResults", "1")
    answer = await logs.listed(category=["appEvent"])
    assert (lines(answer), answer["firstLine"], answer["lastLine"]) == ([2, 4, 6], 1, 7)
    assert lines(await logs.listed(category=["appEvent", "evaluatedCode"])) == [1, 2, 3, 4, 5, 6]
    assert lines(await logs.listed(category=["appEvent", "evaluatedCode"], limit=2)) == [5, 6]
    assert lines(await logs.listed(category=["appEvent"], since=2, limit=1)) == [6]
    assert lines(await logs.listed(category=["appEvent"], by="bob")) == []


async def test_a_lean_answer_omits_event_fields_that_repeat_the_text_of_the_event():
    logs = Logs()
    logs.record_event(
        "342 fx db/write app d86 0.25ms", op="fx", name="db/write", frame="app", cause=86, ms=0.25, app_id=342
    )
    lean = {"line": 1, "category": "appEvent", "text": "342 fx db/write app d86 0.25ms", "timestamp": 0}
    parts = {"op": "fx", "name": "db/write", "frame": "app", "cause": 86, "ms": 0.25, "app-id": 342}
    assert (await logs.listed(category=["appEvent"]))["result"] == [lean]
    assert (await logs.listed("codriver-log", category=["appEvent"]))["result"] == [lean | parts]
    query = "[:find (pull $app ?e [*]) . :in $ $app :where [$app ?e :output/line]]"
    assert (await logs.listed(query=query))["result"] == {"id": 1, **lean, **parts}


async def test_waiting_for_an_event_ends_when_it_is_logged():
    logs = Logs()
    logs.append("evaluatedCode")
    answers = []

    async def wait():
        answers.append(await logs.awaited(ERRORS))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not logs.asked:
            await anyio.sleep(0.01)
        logs.record_event(op="fx")
        line = logs.record_event("2 error", op="error")
    assert answers[0]["result"] == [[line, "2 error"]]
    assert (answers[0]["status"], answers[0]["lastLine"], answers[0]["gap"]) == ("found", line, False)


async def test_the_since_argument_covers_both_logs_without_duplicates():
    logs = Logs()
    logs.append("evaluatedCode", who="ann", evaluation="e1")
    first = logs.record_event("1 fx", evaluation="e1")
    answer = await logs.awaited(CAUSED, inputs=["ann"], since=0)
    assert (answer["result"], answer["lastLine"]) == ([[first, "1 fx"]], first)
    logs.append("evaluationResults", evaluation="e1")
    second = logs.record_event("2 fx", evaluation="e1")
    answer = await logs.awaited(CAUSED, inputs=["ann"], since=answer["lastLine"])
    assert (answer["result"], answer["lastLine"]) == ([[second, "2 fx"]], second)
    assert (await logs.awaited(CAUSED, inputs=["ann"], since=second, timeoutMs=0))["status"] == "timed-out"


async def test_wait_for_supports_rules_that_query_events():
    logs = Logs()
    rules = '[[(failed ?l) [$app ?e :output/op "error"] [$app ?e :output/line ?l]]]'
    logs.record_event(op="error")
    answer = await logs.awaited("[:find ?l :in $ $app % :where (failed ?l)]", inputs=[rules], since=0)
    assert answer["result"] == [[1]]


async def test_waiting_for_the_log_alone_ignores_events_and_reports_no_gap():
    logs = Logs(max_events=10)
    logs.append("evaluatedCode")
    answers = []

    async def wait():
        answers.append(await logs.awaited(RESULTS))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        while not logs.asked:
            await anyio.sleep(0.01)
        for _ in range(50):
            logs.record_event()
        line = logs.append("evaluationResults")
    assert (answers[0]["result"], answers[0]["gap"], answers[0]["notes"]) == ([[line]], False, [])
    assert logs.asked == [1, line]


async def test_events_between_log_lines_do_not_count_as_a_gap():
    logs = Logs()
    for _ in range(20):
        logs.record_event()
    line = logs.append("evaluationResults")
    answer = await logs.awaited(RESULTS, since=0)
    assert (answer["result"], answer["gap"]) == ([[line]], False)


async def test_evicted_events_are_reported_as_a_gap_to_a_caller_waiting_for_events():
    logs = Logs(max_events=10)
    line = logs.append("evaluatedCode")
    for _ in range(15):
        logs.record_event(op="error")
    answer = await logs.awaited(ERRORS, since=line)
    assert (answer["gap"], answer["notes"]) == (
        True,
        ["lines 2 to 6 were evicted from $app, so rows based on them may be missing"],
    )
    assert not (await logs.awaited(ERRORS, since=answer["lastLine"], timeoutMs=0))["gap"]


async def test_lines_of_an_earlier_run_are_reported_as_a_gap_in_the_log():
    logs = Logs(next_line=100)
    logs.append("evaluationResults")
    answer = await logs.awaited(RESULTS, since=50)
    assert answer["gap"]
    assert "lines 51 to 99 were evicted from the log" in answer["notes"][0]


def test_server_health_counts_events_if_there_are_any():
    logs = Logs(max_events=2)
    assert logs.app_log.usage() == {}
    for _ in range(3):
        logs.record_event()
    logs.app_log.count_dropped(37)
    reported = logs.app_log.usage()
    assert reported["bytes"] > 0
    assert {**reported, "bytes": 0} == {
        "firstLine": 2, "lastLine": 3, "entities": 2, "bytes": 0, "kept": 3, "dropped": 37,
    }  # fmt: skip
