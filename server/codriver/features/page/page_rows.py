"""The rows of activity on the page, created from log entries and the state of evaluations.

A row represents an evaluation, or a log entry that belongs to no evaluation. An update contains only the new fields,
and the reader merges them by `id`. Entries that were in the log before the page was opened are sent newest first,
between the updates. The server therefore stores only the position of each reader, and a flood of output requires only
one text per row. A row has at most 6,000 bytes, so long texts are truncated.
"""

from __future__ import annotations

from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.core import images
from codriver.core.log_facts import FINISHED_KIND, LOAD_KIND, TESTS_KIND, decode_facts
from codriver.errors import CodriverError
from codriver.log.error_lines import error_line
from codriver.log.log_entries import Entry
from codriver.tools.answers.answer_budget import cut_to_head, cut_to_tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl, State
    from codriver.log.output_log import OutputLog
    from codriver.log.query_sources import GrowingSource
    from codriver.tools.calls.call import Services

Row = dict[str, Any]

MAX_TEXT_BYTES: Final = 1200
"""Maximum number of bytes of the code or text in one row of the page."""
MAX_RESULT_BYTES: Final = 1600
"""Maximum number of bytes of the values in one row of the page."""
MAX_OUTPUT_BYTES: Final = 1400
"""Maximum number of bytes of the output in one row of the page."""
MAX_ERROR_BYTES: Final = 800
"""Maximum number of bytes of the error in one row of the page."""
MAX_NAME_BYTES: Final = 120
"""Maximum size of `who`, `where` and other names, some of which are chosen by clients."""
MAX_UPDATE_ROWS: Final = 500
"""Maximum number of rows in an update. The rest are sent with the next one."""
IMAGE_PREFIX: Final = "data:image/"
"""Prefix of an image in a value."""
TRACEBACK_START: Final = "Traceback (most recent call last)"
"""The first line of a Python traceback."""
PAST_STATUS: Final = "past"
"""Status of an evaluation that is no longer in the server's state."""
TEST_OUTCOME_NAMES: Final = ("passed", "failed", "errors", "skipped", "xfailed", "xpassed")
OUTCOME_CATEGORIES: Final = frozenset({"evaluationResults", "evaluationErrorOutput"})
"""Categories of log entries that contain a value or an error."""


class RowReader:
    """Reads the rows of activity to send to one open page, and keeps track of which rows have been sent."""

    def __init__(self, services: Services, since: int = 0, before: int = 0) -> None:
        """Start where an earlier stream to the same page ended (`since`, `before`). Both are 0 for a new page."""
        self._services = services
        is_first = not since
        self.since = self._last_line() if is_first else since
        """The last line that was sent."""
        self.before = self.since + 1 if is_first and self.since else before
        """The first line that was sent, or 0 if all earlier lines have been sent as well."""
        self._live: Mapping[str, str] = {}
        """The last reported status of evaluations that were still running, by id."""
        self._tests: Mapping[str, Row] = {}
        self._seen: State | None = None
        self.gap = 0
        """Number of entries that were evicted from the log before they could be sent."""

    def _last_line(self) -> int:
        """Return the highest line number of all logs."""
        return max(log.last_line or 0 for log in self._logs())

    def _logs(self) -> Iterator[OutputLog | GrowingSource]:
        """Yield the server's log and the logs of features."""
        yield self._services.log
        yield from (store for _, store in self._services.log.sources.growing.values())

    def _events(self, *, since: int | None = None, until: int | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield the newest entries in the logs of features."""
        for _, store in self._services.log.sources.growing.values():
            yield from store.entries(since=since, until=until, limit=MAX_UPDATE_ROWS)

    def older_rows(self) -> list[Row]:
        """Return the newest of the earlier rows that have not been sent, or an empty list if all have been sent."""
        if not self.before:
            return []
        log, state = self._services.log, self._services.core.state
        coming: list[Entry | Mapping[str, Any]] = [
            *log.entries(until=self.before - 1, limit=MAX_UPDATE_ROWS),
            *self._events(until=self.before - 1),
        ]
        coming = sorted(coming, key=_line_of)[-MAX_UPDATE_ROWS:]
        self.before = _line_of(coming[0]) if len(coming) == MAX_UPDATE_ROWS else 0
        rows: dict[str, Row] = {}
        for item in coming:
            self._add_to_row(rows, item, state)
        return [*rows.values()]

    def _add_to_row(self, rows: dict[str, Row], item: Entry | Mapping[str, Any], state: State) -> None:
        """Add a log entry to the row that it belongs to."""
        if isinstance(item, Entry):
            self._add_entry(rows, item, state)
        else:
            rows[f"a{_line_of(item)}"] = _event_row(item)

    def changes(self, tests: Mapping[str, Row]) -> list[Row]:
        """Return the rows that have changed since the previous call, in the order of their changes.

        `tests` is the result of `running_test_progress`.
        """
        services, state = self._services, self._services.core.state
        log = services.log
        if state is self._seen and tests == self._tests and self._last_line() <= self.since:
            return []
        self._seen = state
        rows: dict[str, Row] = {}
        entries = log.entries(since=self.since)
        if entries and self.since and log.evicted_count and log.last_evicted_line > self.since:
            self.gap += 1
        coming: list[Entry | Mapping[str, Any]] = [*entries, *self._events(since=self.since)]
        for item in sorted(coming, key=_line_of):
            if len(rows) >= MAX_UPDATE_ROWS:
                self._seen = None  # checked again in any case
                break
            self.since = _line_of(item)
            self._add_to_row(rows, item, state)
        self._update_running(rows, state)
        for name, row in tests.items():
            if self._tests.get(name) != row:
                rows.setdefault(name, {"id": name}).update(row)
        self._tests = tests
        return [*rows.values()]

    def _add_entry(self, rows: dict[str, Row], entry: Entry, state: State) -> None:
        """Add an entry from the server's log to the row that it belongs to."""
        if entry.evaluation is None:
            rows[f"s{entry.line}"] = self._server_row(entry)
            return
        row = rows.setdefault(entry.evaluation, {"id": entry.evaluation})
        if "line" not in row:
            row |= {"line": entry.line, "at": entry.timestamp, **_caller_fields(entry)}
            row |= _evaluation_status(state.evaluations.get(entry.evaluation))
            if row["status"] == PAST_STATUS and (error := self._past_error(entry.evaluation)):
                row |= {"status": "failed", "error": error}
        match entry.category:
            case "evaluatedCode":
                row |= {"text": _shorten(entry.text, MAX_TEXT_BYTES), "line": entry.line, "at": entry.timestamp}
                if entry.notebook:
                    row["notebook"] = _shorten(entry.notebook, MAX_NAME_BYTES)
            case "evaluationResults":
                _add_result(row, entry.text)
            case "evaluationOutput" | "evaluationErrorOutput":
                row["newOutput"] = cut_to_tail(row.get("newOutput", "") + entry.text, MAX_OUTPUT_BYTES).text
                row["isError"] = entry.category == "evaluationErrorOutput"
            case _:
                _add_report(row, entry)

    def _past_error(self, evaluation: str) -> str:
        """Return the error of an evaluation that is no longer in the server's state, or an empty string.

        The log does not contain outcomes, so the error is derived from the last output: error output without a value,
        or a traceback after the last value.
        """
        found = [
            entry for entry in self._services.log.entries(evaluation=evaluation) if entry.category in OUTCOME_CATEGORIES
        ]
        if not found or found[-1].category != "evaluationErrorOutput":
            return ""
        text = "".join(line.text for line in found if line.category == "evaluationErrorOutput")
        has_value = any(line.category == "evaluationResults" for line in found)
        return "" if has_value and TRACEBACK_START not in text else _shorten(error_line(text), MAX_ERROR_BYTES)

    def _server_row(self, entry: Entry) -> Row:
        """Create a row for a log entry that belongs to no evaluation."""
        row = {
            "id": f"s{entry.line}", "line": entry.line, "at": entry.timestamp, **_caller_fields(entry),
            "kind": "message", "text": _shorten(entry.text, MAX_TEXT_BYTES),
        }  # fmt: skip
        if entry.category == "otherErrorOutput":
            row["status"] = "failed"
        if files := decode_facts(entry).get("files"):
            row |= {"kind": "edit", "files": len(files)}
        return row

    def _update_running(self, rows: dict[str, Row], state: State) -> None:
        """Update the status of evaluations that are running, or that were running at the last update."""
        live = {evaluation.id: evaluation.status for evaluation in state.unfinished()}
        for name in [*self._live, *live]:
            if self._live.get(name) != live.get(name):
                rows.setdefault(name, {"id": name}).update(_evaluation_status(state.evaluations.get(name)))
        for row, evaluation in ((rows[name], state.evaluations[name]) for name in live if name in rows):
            row.setdefault("where", state.evaluation_session_key(evaluation))
            if "who" not in row:
                row |= {"who": evaluation.who, "text": row.get("text", self._code_start(evaluation))}
                row.setdefault("at", self._services.now())
        self._live = live

    def _code_start(self, evaluation: Evaluation) -> str:
        """Return the start of an evaluation's code."""
        transcript = self._services.transcripts.get(evaluation.id)
        return transcript.head if transcript is not None else ""


async def running_test_progress(services: Services) -> Mapping[str, Row]:
    """Return the progress of each running test run, by evaluation.

    The fields are `done`, the number of finished tests; `total`, the number of all tests, or None if it is unknown; and
    `failures`.
    """
    found: dict[str, Row] = {}
    for evaluation in services.core.state.unfinished():
        if evaluation.is_test_job and evaluation.status == "running":
            job = services.tests.report(evaluation.id)
            if job is not None:
                counts = job.report.counts
                total = counts.collected - counts.deselected
                done = {
                    "done": len(job.report.results),
                    "total": total or None,
                    "failures": counts.failed + counts.errors,
                }
                found[evaluation.id] = done
        elif evaluation.kind == "run-tests" and evaluation.status == "running":
            with suppress(CodriverError):
                run = await services.repls.adapter(evaluation.repl).finished_tests(evaluation.id)
                if run is not None:
                    found[evaluation.id] = {"done": run.tests, "total": run.of, "failures": run.failed + run.errors}
    return found


def _line_of(item: Entry | Mapping[str, Any]) -> int:
    return item.line if isinstance(item, Entry) else int(item["line"])


def _shorten(text: str, most: int) -> str:
    """Return at most `most` bytes from the start of a string, followed by an ellipsis if it was truncated."""
    cut = cut_to_head(text, most)
    return f"{cut.text}…" if cut.omitted else text


def _caller_fields(entry: Entry) -> Row:
    """Return the fields of a row that contain the caller, the session and the namespace of an entry."""
    row = {}
    for name, value in (("who", entry.who), ("where", entry.session_key), ("ns", entry.namespace)):
        if value:
            row[name] = _shorten(value, MAX_NAME_BYTES)
    return row


def _add_result(row: Row, text: str) -> None:
    """Add a value to its row. Images are counted and omitted."""
    row["drawn"] = 0  # only the images of the last value are counted
    if IMAGE_PREFIX in text:
        row["drawn"] = len(images.DATA_URL_PATTERN.findall(text))
        row["pictures"] = row.get("pictures", 0) + row["drawn"]
        text = images.replace_image_data(text, lambda _image: "").strip()
    if text or "result" not in row:
        row["result"] = _shorten(text, MAX_RESULT_BYTES)


def _add_report(row: Row, entry: Entry) -> None:
    """Add a report about an evaluation to its row, such as the result of a test run or the loaded file."""
    facts = decode_facts(entry)
    if entry.kind == TESTS_KIND:
        names = ", ".join(map(str, facts.get("failures", ())))
        row |= {
            "kind": "tests", "text": _shorten(str(facts.get("tests", "")), MAX_TEXT_BYTES),
            "tests": sum(int(facts.get(name, 0)) for name in TEST_OUTCOME_NAMES),
            "failures": int(facts.get("failed", 0)) + int(facts.get("errors", 0)),
            "names": _shorten(names, MAX_NAME_BYTES * 4),
        }  # fmt: skip
    elif entry.kind == LOAD_KIND:
        row |= {"kind": "load", "file": _shorten(str(facts.get("file", "")), MAX_NAME_BYTES * 4)}
    elif entry.kind == FINISHED_KIND:
        row["error"] = _shorten(str(facts.get("cause", "")), MAX_ERROR_BYTES)
    elif entry.category == "otherErrorOutput":
        row["error"] = _shorten(entry.text.strip(), MAX_ERROR_BYTES)
    else:
        row["goal"] = _shorten(entry.text.strip(), MAX_NAME_BYTES * 4)


def _evaluation_status(evaluation: Evaluation | None) -> Row:
    """Return the fields of a row that contain the status of an evaluation.

    The status is `past` if the evaluation is no longer in the server's state.
    """
    if evaluation is None:
        return {"status": PAST_STATUS}
    row: Row = {"status": evaluation.status}
    if evaluation.kind == "run-tests":
        row["kind"] = "tests"
    elif evaluation.kind != "evaluate":
        row["kind"] = "load"
    if evaluation.started_at is not None:
        row["startedAt"] = evaluation.started_at
        if evaluation.finished_at is not None:
            row["ms"] = max(0, evaluation.finished_at - evaluation.started_at)
    failure = evaluation.failure
    if failure is not None:
        kind = failure.type.rpartition(".")[2]
        row["error"] = _shorten(f"{kind}: {failure.message}" if kind else failure.message, MAX_ERROR_BYTES)
    elif evaluation.status == "interrupted":
        row["error"] = _shorten(evaluation.stop_requested or "; ".join(evaluation.notes), MAX_ERROR_BYTES)
    if evaluation.notes:
        row["notes"] = len(evaluation.notes)
    return row


def _event_row(event: Mapping[str, Any]) -> Row:
    row: Row = {
        "id": f"a{event['line']}", "line": event["line"], "at": event["timestamp"], "kind": "app",
        "text": _shorten(str(event["text"]), MAX_TEXT_BYTES),
    }  # fmt: skip
    for name, key in (("who", "who"), ("repl-session-key", "where"), ("op", "op")):
        if event.get(name):
            row[key] = _shorten(str(event[name]), MAX_NAME_BYTES)
    if event.get("op") == "error":
        row["status"] = "failed"
    return row


PHASE_DESCRIPTIONS: Final = MappingProxyType(
    {"starting": "is starting", "connecting": "is connecting", "waiting": "is being retried", "stopped": "stopped"}
)
"""Descriptions of the phases of a REPL that is not connected."""


def server_header(services: Services) -> dict[str, object]:
    """Return the server's state for the page header: its clients, its REPLs, and what they are doing."""
    state = services.core.state
    clients = [str(row["name"]) for row in services.client_counters() if row["name"]]
    return {
        "repls": [_repl(state, repl) for repl in state.repls.values()],
        "clients": [_shorten(name, MAX_NAME_BYTES) for name in clients if not name.startswith("codriver-")][:32],
        "isSearching": state.lifecycle.is_searching,
        "evicted": services.log.evicted_count,
        "problems": [_shorten(latch.text, MAX_NAME_BYTES * 3) for latch in state.latches.values()][:4],
    }


def _repl(state: State, repl: Repl) -> Row:
    """Return a REPL's state as a keyword and as text, when it started, and the evaluation that keeps it busy."""
    live = [evaluation for evaluation in state.unfinished() if evaluation.repl == repl.id]
    busy = [evaluation for evaluation in live if evaluation.status != "queued"]
    about: Row = {"state": "idle", "words": "idle"}
    if busy:
        first, more = busy[0], f" and {len(busy) - 1} more" if len(busy) > 1 else ""
        needs_input = first.status == "needs-input"
        words = f"{first.who}{' has to enter input' if needs_input else ''}{more}"
        about = {"state": "asks" if needs_input else "busy", "words": words, "since": first.started_at, "id": first.id}
    elif repl.phase != "connected":
        about = {"state": "stopped" if repl.phase == "stopped" else "coming", "words": PHASE_DESCRIPTIONS[repl.phase]}
        if repl.starts and repl.phase != "stopped":
            about["since"] = repl.starts[-1]
    title = _shorten(repl.note or f"{repl.dialect}, {repl.phase}", MAX_NAME_BYTES * 2)
    return {"key": repl.key, "dialect": repl.dialect, "title": title, "queue": len(live) - len(busy), **about}
