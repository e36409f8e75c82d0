"""`wait_for`: wait until a query on the log returns a new row."""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
from pydantic import Field

from codriver.errors import refused
from codriver.log.output_log import LogQuery
from codriver.net.fair_threads import NoTurnError
from codriver.tools.answers.answer_images import image_collector
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments, remove_default
from codriver.tools.calls.tool import Tool
from codriver.tools.log_rows import fit_newest, row_budgets
from codriver.tools.query_inputs import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver.log.output_log import OutputLog
    from codriver.log.query_sources import GrowingSource
    from codriver.tools.calls.call import Call
    from codriver_datalog.solve import Cut, QueryAnswer

T = TypeVar("T")

STOPPING_CHECK_INTERVAL_S = 0.5
"""Interval for checking whether the server is stopping, in seconds. No log entry announces that."""
COALESCING_S = 0.05
"""Seconds after a new line in which further lines are collected before the query runs again."""
MIN_TURN_TIMEOUT_S = 5.0
"""Minimum time in seconds that a call waits for its turn to query, even beyond the call's time limit."""
MAX_NOTES = 5
"""Maximum number of notes in an answer."""
MAX_COMPARED_ROWS = 100_000
"""Maximum number of rows that are compared: a hundred times the log's default."""


class WaitArguments(Arguments):
    """Arguments of `wait_for`: the query, the line after which rows are new, and the time limit."""

    query: str = Field(description="As in repl_output_log.")
    inputs: list[Input] = Field(default_factory=list, json_schema_extra={UNLISTED_KEY: True})
    since: int | None = Field(None, ge=0)
    timeout_ms: int = Field(25_000, ge=0, le=600_000, json_schema_extra=remove_default)
    limit: int = Field(100, ge=1, le=10_000, json_schema_extra={UNLISTED_KEY: True})
    max_text_bytes: int | None = Field(None, ge=1024, le=16 * 2**20, json_schema_extra={UNLISTED_KEY: True})


async def wait_for(call: Call, arguments: WaitArguments) -> Answer:
    """Wait until a query has new rows, and return them. If none are found in time, the answer reports that."""
    wait = _Wait(call, arguments)
    with call.services.waits.count_query(call.client), ExitStack() as following:
        for source in wait.sources.values():
            following.enter_context(source.subscribe(wait.on_growth))
        return await wait.run()


class _Wait:
    """A single call of `wait_for`. It sleeps until the log grows, and then runs its query on the new entries.

    Clients take turns: the queries of all waits share one budget. See `codriver.net.fair_threads`.
    """

    def __init__(self, call: Call, arguments: WaitArguments) -> None:
        self._call = call
        self._arguments = arguments
        self.sources: dict[str, OutputLog | GrowingSource] = {"the log": call.services.log}
        """Growing logs that the query reads, by their names in notes."""
        for name, (_, store) in call.services.log.sources.growing.items():
            if any(name in text for text in (arguments.query, *arguments.inputs) if isinstance(text, str)):
                self.sources[name] = store
        self._grown = anyio.Event()
        self._started = anyio.current_time()
        self._deadline = self._started + arguments.timeout_ms / 1000
        self._reported_at = self._started
        self._rested = self._started
        self._seen = 0
        """Last line that the query has covered."""
        self._known: Sequence[int] = ()
        """Sorted digests of the known rows."""
        self._gap = False
        """Whether lines were evicted before the query could read them."""
        self._notes: list[str] = []

    def on_growth(self, _line: int) -> None:
        """Wake up the task that is waiting, because a log has grown."""
        self._grown.set()

    @property
    def _last_line(self) -> int:
        """Return the number of the last line in all logs."""
        return max(source.last_line or 0 for source in self.sources.values())

    async def run(self) -> Answer:
        """Wait until the query has a new row or the time is up.

        Raises:
            RefusedError: the query is invalid, its first result is too large, or waits remember too many rows.
        """
        last_line = self._last_line
        since = self._arguments.since
        self._seen = last_line if since is None else min(since, last_line)
        try:
            cut, self._known = await self._run_query(self._seen, _digests)
            if cut is not None:
                why = (
                    "the query takes too long"
                    if cut == "time"
                    else f"the query has too many rows (at most {MAX_COMPARED_ROWS}) or too much text"
                )
                raise refused(
                    "bad-query",
                    f"wait_for cannot use this query, because new rows could not be recognized: {why}",
                    hint="Narrow the query: find only ?line, or add :output/category, :output/who or "
                    ":output/evaluation.",
                )
            with self._call.services.waits.count_rows(self._call.client, len(self._known)):
                return await self._watch()
        except NoTurnError as crowded:
            return self._crowded_out_answer(crowded.ahead)

    async def _watch(self) -> Answer:
        """Run the query whenever a log has grown, until there is a new row or the time is up."""
        limit = self._arguments.limit
        while True:
            rows, cut = await self._find_new_rows()
            if rows:
                return self._answer("found", await self._fit_rows(rows), "rows" if len(rows) > limit else cut)
            if self._is_stopping:
                return self._answer("server-stopping", [], None)
            if anyio.current_time() >= self._deadline:
                self._notes.append(
                    f"no new row within {self._arguments.timeout_ms} ms. To continue, pass since: {self._seen}"
                )
                return self._answer("timed-out", [], cut)
            await self._sleep()

    def _crowded_out_answer(self, ahead: int) -> Answer:
        """Return the answer for a client whose turn to run the query did not come in time."""
        if self._is_stopping:
            return self._answer("server-stopping", [], None)
        self._notes.append(
            f"entries after line {self._seen} were not queried in time, because all waits share one budget and "
            f"{ahead} others were ahead. To continue, pass since: {self._seen}, with a quicker query or fewer waits "
            "at once"
        )
        return self._answer("timed-out", [], "time")

    @property
    def _is_stopping(self) -> bool:
        return self._call.state.lifecycle.phase == "stopping"

    async def _find_new_rows(self) -> tuple[list[object], Cut | None]:
        """Run the query if a log has grown, and return the new rows and how the result was truncated."""
        last_line = self._last_line
        if last_line <= self._seen:
            return [], None
        self._grown = anyio.Event()
        cut, rows = await self._run_query(last_line, partial(_new_rows, self._known))
        self._note_gaps()
        self._seen = last_line
        return rows, cut

    def _note_gaps(self) -> None:
        """Add notes about lines that were evicted before the query could read them."""
        for name, source in self.sources.items():
            if source.last_evicted_line > self._seen:
                self._gap = True
                lines = f"lines {self._seen + 1} to {source.last_evicted_line} were evicted from {name}"
                self._notes = [*self._notes[-MAX_NOTES + 1 :], f"{lines}, so rows based on them may be missing"]

    async def _fit_rows(self, rows: list[object]) -> list[object]:
        """Return the newest rows that fit in an answer."""
        has_requested_bytes = self._arguments.max_text_bytes is not None
        budgets = row_budgets(self._call, "wait_for", self._arguments, self._arguments.max_text_bytes)
        images = image_collector(self._call, 0, "repl_output_log with maxImages returns it")
        bare = images.remove_from_json(rows[-self._arguments.limit :])
        work = self._call.services.work.editing
        fitted, notes, _ = await work.run(
            self._call.client, partial(fit_newest, bare, budgets, has_requested_bytes=has_requested_bytes)
        )
        self._notes += notes
        return fitted if isinstance(fitted, list) else []

    async def _sleep(self) -> None:
        """Sleep until a log has grown or the time is up. Report progress in the meantime."""
        while not self._is_stopping and (now := anyio.current_time()) < self._deadline:
            if now - self._reported_at >= self._call.services.durations.progress_s:
                self._reported_at = now
                await self._call.progress(
                    now - self._started, f"there is no new row yet, and the log is at line {self._seen}"
                )
            if not self._grown.is_set():
                with anyio.move_on_after(min(STOPPING_CHECK_INTERVAL_S, self._deadline - now)):
                    await self._grown.wait()
                    self._rested = max(self._rested, anyio.current_time() + COALESCING_S)
            elif now < self._rested:
                await anyio.sleep(min(STOPPING_CHECK_INTERVAL_S, self._rested - now, self._deadline - now))
            else:
                return

    async def _run_query(self, until: int, extract: Callable[[QueryAnswer], T]) -> tuple[Cut | None, T]:
        """Run the query when it is the client's turn.

        Returns how the result was truncated, if it was, and the result of `extract`.

        Raises:
            NoTurnError: the turn did not come in time.
        """
        services = self._call.services
        log_query = LogQuery(
            self._arguments.query, self._arguments.inputs, MAX_COMPARED_ROWS, until=until, every_row=True
        )

        def evaluate() -> tuple[Cut | None, T]:
            answer = services.query(log_query)
            return answer.cut, extract(answer)

        patience = max(self._deadline, anyio.current_time() + MIN_TURN_TIMEOUT_S)
        return await services.work.standing.run(self._call.client, evaluate, until=patience)

    def _answer(self, status: str, rows: list[object], cut: Cut | None) -> Answer:
        """Create the answer with the given rows and the notes so far."""
        return Answer(
            {
                "status": status,
                "result": rows,
                "count": len(rows),
                "lastLine": self._seen,
                "cut": cut,
                "gap": self._gap,
                "waitedMs": round((anyio.current_time() - self._started) * 1000),
                "notes": self._notes,
            },
            has_numbers=True,
        )


def _digest(row: object) -> int:
    """Return an 8-byte digest of a row."""
    return int.from_bytes(hashlib.blake2b(json.dumps(row, sort_keys=True).encode(), digest_size=8).digest())


def _digests(answer: QueryAnswer) -> Sequence[int]:
    """Return the sorted digests of an answer's rows, without duplicates."""
    return array("Q", sorted(set(map(_digest, answer.rows))))


def _new_rows(known: Sequence[int], answer: QueryAnswer) -> list[object]:
    """Return the rows whose digests are not among the known ones."""
    return [row for row in answer.rows if not _contains(known, _digest(row))]


def _contains(known: Sequence[int], digest: int) -> bool:
    """Return whether a sorted sequence contains a digest."""
    index = bisect_left(known, digest)
    return index < len(known) and known[index] == digest


TOOL = Tool(
    name="wait_for",
    title="Wait for log rows",
    description="Wait until a query of the log finds a new row. Pass lastLine of the previous answer as since.",
    arguments=WaitArguments,
    output=answer_schema(
        status={"enum": ["found", "timed-out", "server-stopping"]},
        result="array",
        count="integer",
        lastLine="integer",
        cut={"enum": [None, "rows", "time"]},
        gap="boolean",
        waitedMs="integer",
        notes=STRINGS_SCHEMA,
    ),
    run=wait_for,
    read_only=True,
    idempotent=True,
    search_hint="watch for errors, output or other agents",
)
