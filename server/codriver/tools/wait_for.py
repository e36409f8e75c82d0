"""`wait_for`: wait until a query over the log has a new row."""

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
from codriver.tools.answers.answer_budget import images_for
from codriver.tools.calls.answer import TEXTS, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED, Arguments, unsaid_default
from codriver.tools.calls.tool import Tool
from codriver.tools.log_rows import fit_newest, row_budgets
from codriver.tools.query_inputs import Input

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.log.logbook import AppLog
    from codriver.log.output_log import OutputLog
    from codriver.tools.calls.call import Call
    from codriver_datalog.solve import Cut, QueryAnswer

T = TypeVar("T")

STOPPING_S = 0.5
"""How often a wait looks whether the server stops: no log entry would wake it then."""
COALESCE_S = 0.05
"""The time after a first new line within which further lines are asked about together with the first."""
PATIENCE_S = 5.0
"""How long a wait waits for its turn to ask, even if its own time is over sooner."""
MAX_NOTES = 5
APP = "$app"
MAX_ROWS = 100_000
"""The rows that are compared: a hundred times the log's, unless its setting is raised."""


class WaitArguments(Arguments):
    """Arguments of `wait_for`."""

    query: str = Field(description="As in repl_output_log.")
    inputs: list[Input] = Field(default_factory=list, json_schema_extra={UNLISTED: True})
    since: int | None = Field(None, ge=0)
    timeout_ms: int = Field(25_000, ge=0, le=600_000, json_schema_extra=unsaid_default)
    limit: int = Field(100, ge=1, le=10_000, json_schema_extra={UNLISTED: True})
    max_text_bytes: int | None = Field(None, ge=1024, le=16 * 2**20, json_schema_extra={UNLISTED: True})


async def wait_for(call: Call, arguments: WaitArguments) -> Answer:
    """Return the rows that the query gains, as soon as it gains one, or word that it gained none in time."""
    wait = _Wait(call, arguments)
    with call.services.waits.standing(call.client), ExitStack() as following:
        for source in wait.sources.values():
            following.enter_context(source.followed_by(wait.heard))
        return await wait.run()


class _Wait:
    """One wait: it sleeps while the log does not grow, and asks its query once for all entries that came meanwhile.

    It asks at its client's turn: the questions of all waits have one budget. See `codriver.net.fair_threads`.
    """

    def __init__(self, call: Call, arguments: WaitArguments) -> None:
        self._call = call
        self._arguments = arguments
        self.sources: Mapping[str, OutputLog | AppLog] = {"the log": call.services.log}
        """The growing logs that the query looks into, by the word that notes have for each."""
        if any(APP in text for text in (arguments.query, *arguments.inputs) if isinstance(text, str)):
            self.sources = {**self.sources, APP: call.services.app_log}
        self._grown = anyio.Event()
        self._began = anyio.current_time()
        self._deadline = self._began + arguments.timeout_ms / 1000
        self._told = self._began
        self._rested = self._began
        self._seen = 0
        """The line up to which the query was asked."""
        self._known: Sequence[int] = ()
        """The digests of the known rows, in rising order."""
        self._gap = False
        """Whether lines have left the log before the query could be asked about them."""
        self._notes: list[str] = []

    def heard(self, _line: int) -> None:
        """Note that a source grew."""
        self._grown.set()

    @property
    def _last_line(self) -> int:
        return max(source.last_line or 0 for source in self.sources.values())

    async def run(self) -> Answer:
        """Wait for the end, one way or the other.

        Raises:
            RefusedError: the query is invalid, its answer at the start is cut, or too much is remembered for waits
                already.
        """
        last_line = self._last_line
        since = self._arguments.since
        self._seen = last_line if since is None else min(since, last_line)
        try:
            cut, self._known = await self._ask(self._seen, _digests)
            if cut is not None:
                why = (
                    "it takes too long"
                    if cut == "time"
                    else f"it has too many rows (at most {MAX_ROWS}) or too much text"
                )
                raise refused(
                    "bad-query",
                    f"this query cannot be waited for, because its new rows cannot be told from the others: {why}",
                    hint="ask for less: find ?line alone, or name a :output/category, :output/who or "
                    ":output/evaluation",
                )
            with self._call.services.waits.remembering(self._call.client, len(self._known)):
                return await self._watch()
        except NoTurnError as crowded:
            return self._crowded_out(crowded.ahead)

    async def _watch(self) -> Answer:
        """Ask about all that comes, until a row is new or the wait has finished."""
        limit = self._arguments.limit
        while True:
            rows, cut = await self._gained()
            if rows:
                return self._answer("found", await self._shown(rows), "rows" if len(rows) > limit else cut)
            if self._stopping:
                return self._answer("server-stopping", [], None)
            if anyio.current_time() >= self._deadline:
                self._notes.append(f"no new row within {self._arguments.timeout_ms} ms: to go on, since: {self._seen}")
                return self._answer("timed-out", [], cut)
            await self._sleep()

    def _crowded_out(self, ahead: int) -> Answer:
        """Word that the time was over before this client's turn to ask."""
        if self._stopping:
            return self._answer("server-stopping", [], None)
        self._notes.append(
            f"what came after line {self._seen} was not asked about in time, as all waits share one budget and {ahead} "
            f"others waited for it too: to go on, since: {self._seen}, with a quicker query or fewer waits at once"
        )
        return self._answer("timed-out", [], "time")

    @property
    def _stopping(self) -> bool:
        return self._call.state.lifecycle.phase == "stopping"

    async def _gained(self) -> tuple[list[object], Cut | None]:
        """Return the new rows, if the log grew since the query was last asked."""
        last_line = self._last_line
        if last_line <= self._seen:
            return [], None
        self._grown = anyio.Event()
        cut, rows = await self._ask(last_line, partial(_new_rows, self._known))
        self._note_gaps()
        self._seen = last_line
        return rows, cut

    def _note_gaps(self) -> None:
        """Note which of the unasked lines have left their source."""
        for name, source in self.sources.items():
            if source.last_evicted_line > self._seen:
                self._gap = True
                lines = f"lines {self._seen + 1} to {source.last_evicted_line} have left {name}"
                self._notes = [*self._notes[-MAX_NOTES + 1 :], f"{lines}: rows made of them may be missing"]

    async def _shown(self, rows: list[object]) -> list[object]:
        """Return the newest rows, within the bounds of an answer."""
        asked = self._arguments.max_text_bytes is not None
        budgets = row_budgets(self._call, "wait_for", self._arguments, self._arguments.max_text_bytes)
        images = images_for(self._call, 0, "repl_output_log with maxImages gives it")
        bare = images.out_of_json(rows[-self._arguments.limit :])
        work = self._call.services.work.editing
        shown, notes, _ = await work.run(self._call.client, partial(fit_newest, bare, budgets, is_asked=asked))
        self._notes += notes
        return shown if isinstance(shown, list) else []

    async def _sleep(self) -> None:
        """Sleep until the log has grown and the entries with it are there, or the wait is over; tell progress."""
        while not self._stopping and (now := anyio.current_time()) < self._deadline:
            if now - self._told >= self._call.services.durations.progress_s:
                self._told = now
                await self._call.progress(now - self._began, f"no new row yet; the log is at line {self._seen}")
            if not self._grown.is_set():
                with anyio.move_on_after(min(STOPPING_S, self._deadline - now)):
                    await self._grown.wait()
                    self._rested = max(self._rested, anyio.current_time() + COALESCE_S)
            elif now < self._rested:
                await anyio.sleep(min(STOPPING_S, self._rested - now, self._deadline - now))
            else:
                return

    async def _ask(self, until: int, take: Callable[[QueryAnswer], T]) -> tuple[Cut | None, T]:
        """The cut of the query's answer, if any, and the result of `take` on the answer, at this client's turn.

        Raises:
            NoTurnError: the turn did not come in time.
        """
        services = self._call.services
        asked = LogQuery(self._arguments.query, self._arguments.inputs, MAX_ROWS, until=until, every_row=True)

        def ask() -> tuple[Cut | None, T]:
            answer = services.query(asked)
            return answer.cut, take(answer)

        patience = max(self._deadline, anyio.current_time() + PATIENCE_S)
        return await services.work.standing.run(self._call.client, ask, until=patience)

    def _answer(self, status: str, rows: list[object], cut: Cut | None) -> Answer:
        return Answer(
            {
                "status": status,
                "result": rows,
                "count": len(rows),
                "lastLine": self._seen,
                "cut": cut,
                "gap": self._gap,
                "waitedMs": round((anyio.current_time() - self._began) * 1000),
                "notes": self._notes,
            },
            has_numbers=True,
        )


def _digest(row: object) -> int:
    """Return a digest that tells a row from any other, in eight bytes however long its texts."""
    return int.from_bytes(hashlib.blake2b(json.dumps(row, sort_keys=True).encode(), digest_size=8).digest())


def _digests(answer: QueryAnswer) -> Sequence[int]:
    return array("Q", sorted(set(map(_digest, answer.rows))))


def _new_rows(known: Sequence[int], answer: QueryAnswer) -> list[object]:
    return [row for row in answer.rows if not _is_among(known, _digest(row))]


def _is_among(known: Sequence[int], digest: int) -> bool:
    place = bisect_left(known, digest)
    return place < len(known) and known[place] == digest


TOOL = Tool(
    name="wait_for",
    title="Wait for the log",
    description=("Wait until a query over the log gains a row. since: the last answer's lastLine."),
    arguments=WaitArguments,
    output=answer_schema(
        status={"enum": ["found", "timed-out", "server-stopping"]},
        result="array",
        count="integer",
        lastLine="integer",
        cut={"enum": [None, "rows", "time"]},
        gap="boolean",
        waitedMs="integer",
        notes=TEXTS,
    ),
    run=wait_for,
    read_only=True,
    idempotent=True,
    search_hint="watch for errors, output or other agents",
)
