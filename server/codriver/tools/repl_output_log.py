"""`repl_output_log` and `wait_for`: the past and the coming texts of the REPLs, whoever caused them.

`wait_for` waits until a query over the log has a new row.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_left
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args

import anyio
from pydantic import Field, WithJsonSchema

from codriver.errors import refused
from codriver.log.logbook import APP_EVENT
from codriver.log.output_log import APP_SCHEMA, SCHEMA, Category, Question
from codriver.net.fair_threads import NoTurnError
from codriver.tools.answers.answer_budget import FLOODS, budget, budget_asked, fit, images_for, overviewed, shorten
from codriver.tools.answers.answer_texts import FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES
from codriver.tools.calls.base import (
    TEXTS,
    UNLISTED,
    Answer,
    Arguments,
    Call,
    Tool,
    answer_schema,
    traits_of,
    unsaid_default,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from codriver.log.logbook import AppLog
    from codriver.log.output_log import OutputLog
    from codriver_datalog.entity_store import Value
    from codriver_datalog.solve import Cut, QueryAnswer


_SCALARS: Final = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_COLLECTION: Final = {"type": "array", "items": {"anyOf": _SCALARS}}

# Any JSON is taken; the schema names the most frequent bindings of `:in`, as some clients refuse a tool with an empty
# schema.
Input = Annotated[Any, WithJsonSchema({"anyOf": [*_SCALARS, _COLLECTION]})]

# The answer that begins to watch an application tells the seventh category: nobody else needs it.
AnyCategory = Annotated[
    Category | Literal["appEvent"], WithJsonSchema({"enum": list(get_args(Category)), "type": "string"})
]

IN_TEXT: Final = frozenset(APP_SCHEMA.attributes) - frozenset(SCHEMA.attributes)
"""Attributes of an event that its text tells, too: a model need not read them twice, and a query gives them."""


SESSION: Final = "repl-session-key"
OF_EVALUATION: Final = frozenset({"who", "timestamp", "ns", SESSION})
"""Attributes that an evaluation's entities have in common, as far as a model cares."""
PRINTED: Final = frozenset({"evaluationOutput", "evaluationErrorOutput"})
LISTENS: Final = "nREPL server started on port "
"""The beginning of the line by which a REPL's process tells its address."""
SEVERAL_ROWS: Final = 5
"""For so many rows, an overview shows the beginnings of floods; a reader asks for one of them whole."""
MANY_ROWS: Final = 10
"""For so many rows, the beginnings of all long texts are shown."""

Fitted: TypeAlias = tuple[object, list[str], int]
"""A cut result, with notes on the parts left out, and the number of rows left out."""
Fitting: TypeAlias = "Callable[[object], Fitted]"


FACTS: Final = frozenset({"kind", "data"})
"""Attributes that only queries name: an entity's text tells the same to a reader."""


class LogArguments(Arguments):
    """Arguments of `repl_output_log`."""

    query: str | None = Field(
        None,
        description="Datalog: [:find ?l ?t :where [?e :output/line ?l] [?e :output/text ?t]]; category, timestamp, "
        "who, ns, repl-session-key, evaluation. $history, $memory: earlier runs. inputs: of :in.",
    )
    inputs: list[Input] = Field(default_factory=list, json_schema_extra={UNLISTED: True})
    since: int | None = Field(None, description="Log line.")
    category: list[AnyCategory] | None = None
    by: str | None = None
    limit: int = Field(100, ge=1, le=10_000, json_schema_extra=unsaid_default)
    max_images: int = Field(0, ge=0, le=100, json_schema_extra={UNLISTED: True})
    max_text_bytes: int | None = Field(None, ge=1024, le=16 * 2**20, json_schema_extra={UNLISTED: True})
    """The answers that leave out images, or shorten texts, name these."""


async def repl_output_log(call: Call, arguments: LogArguments) -> Answer:
    """Entities of the log, by filters or by a query."""
    log, work = call.services.log, call.services.work
    # As of the moment at which the log is read: a reader that goes on from these lines misses no later one.
    lines = {"firstLine": log.first_line, "lastLine": log.last_line, **_of_apps(call, arguments)}
    if arguments.query is None:
        entries = _entries(call, arguments)
        result: object = entries
        count, cut = len(entries), None
    else:
        asked = Question(arguments.query, arguments.inputs, arguments.limit)
        answer = await work.queries.run(call.client, partial(call.services.query, asked))
        result, count, cut = answer.result, answer.count, answer.cut
    gone = _gone(call, arguments, count)
    images = images_for(call, arguments.max_images, "ask with maxImages")
    taken = images.out_of_json(result)
    budgets = row_budgets(call, "repl_output_log", arguments, arguments.max_text_bytes)
    fitted: Fitting = partial(fit_newest, budgets=budgets, is_asked=arguments.max_text_bytes is not None)
    if arguments.query is None and not traits_of(call.client_name).wants_detail:
        sessions = sum(len(repl.sessions) for repl in call.state.repls.values())
        fitted = partial(_fit_lean, fitted, has_one_session=sessions == 1)
    shown, notes, omitted = await work.texts.run(call.client, partial(fitted, taken))
    if omitted:
        count, cut = count - omitted, cut or "rows"
    if arguments.query is None and isinstance(shown, list):
        count = len(shown)
    notes = [*gone, *notes]
    fields = {"result": shown, "count": count, **lines, "cut": cut, **({"notes": notes} if notes else {})}
    return Answer(fields, images=tuple(images.taken), has_numbers=True)


def _entries(call: Call, arguments: LogArguments) -> Sequence[dict[str, Value]]:
    """The newest entities that pass the filters, in line order: with applications' events if asked for."""
    since, who, limit, category = arguments.since, arguments.by, arguments.limit, arguments.category
    of_log = call.services.log.entries(since=since, category=category, who=who, limit=limit)
    found = [{name: value for name, value in entry.to_json().items() if name not in FACTS} for entry in of_log]
    if category is None or APP_EVENT not in category:
        return found
    of_apps = call.services.app_log.entries(since=since, who=who, limit=limit)
    if not traits_of(call.client_name).wants_detail:
        of_apps = [{name: value for name, value in event.items() if name not in IN_TEXT} for event in of_apps]
    return sorted([*found, *of_apps], key=lambda entity: entity["line"])[-limit:]


def _fit_lean(fitted: Fitting, found: list[dict[str, Any]], *, has_one_session: bool) -> Fitted:
    """Entities for a model that asks by filters, fitted into an answer by `fitted`."""
    rows = _joined(found)
    shown, notes, omitted = fitted(_lean_rows(rows, has_one_session=has_one_session))
    if omitted and isinstance(shown, list):  # the first entity of an evaluation may be among these
        whole = [row | cut for row, cut in zip(rows[omitted:], shown, strict=True)]
        shown = _lean_rows(whole, has_one_session=has_one_session)
    return shown, notes, omitted


def _joined(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows, with an evaluation's output of one go in one row, and without a load's text and value."""
    joined: list[dict[str, Any]] = []
    loads = {row.get("evaluation") for row in rows if "file" in row}
    for row in rows:
        before = joined[-1] if joined and joined[-1].get("evaluation") == row.get("evaluation") else {}
        if before.get("category") == row["category"] in PRINTED:
            joined[-1] = before | {"text": before["text"] + row["text"]}
        elif "file" not in row and not _is_known(row, loads):  # the file has its text
            joined.append(row)
    return joined


def _is_known(row: dict[str, Any], loads: Collection[object]) -> bool:
    """True for the value of a load and the line with a REPL's address: other rows say as much."""
    if row["category"] == "evaluationResults":
        return row.get("evaluation") in loads
    return "evaluation" not in row and row["text"].startswith(LISTENS)


def _lean_rows(rows: list[dict[str, Any]], *, has_one_session: bool) -> list[dict[str, Any]]:
    """The rows, with the place in the first of each evaluation, and the time in the first of each second.

    The session is left out if there is no other; of evaluations also the caller and the namespace that were told last.
    """
    told: set[object] = set()
    lean = []
    second, last = -1, dict[str, object]()
    for row in rows:
        evaluation = row.get("evaluation")
        known = OF_EVALUATION if evaluation in told else frozenset({SESSION} if has_one_session else ())
        if row["timestamp"] // 1000 == second:
            known |= {"timestamp"}
        elif "timestamp" not in known:
            second = row["timestamp"] // 1000
        given = {name: row[name] for name in ("who", "ns") if evaluation is not None and row.get(name) is not None}
        known |= {name for name, value in given.items() if last.get(name) == value}
        last |= given
        lean.append({name: value for name, value in row.items() if name not in known})
        if evaluation is not None:
            told.add(evaluation)
    return lean


def _gone(call: Call, arguments: LogArguments, count: int) -> list[str]:
    """The note on evicted entities that may have answered the question: a query, a filter, or an old line.

    `count`: the number of rows found. A filter that found as many as it was to give misses no older ones.
    """
    log, since = call.services.log, arguments.since
    is_short = count < arguments.limit and any((arguments.category, arguments.by))
    is_chosen = arguments.query is not None or since is not None or is_short
    if not log.evicted or not is_chosen or (since or 0) >= log.last_evicted_line:
        return []
    return [f"{log.evicted} entities up to line {log.last_evicted_line} have left the log: $history has their code"]


def _of_apps(call: Call, arguments: LogArguments) -> dict[str, int | None]:
    """The fields on events of applications: the lines of both logs if events are shown, else their number."""
    log, app_log = call.services.log, call.services.app_log
    if arguments.query is not None or not app_log.kept:
        return {}
    if arguments.category is None:
        count = app_log.count(since=arguments.since, who=arguments.by)
        return {"appEvents": count} if count else {}
    if APP_EVENT not in arguments.category:
        return {}
    lines = [line for one in (log, app_log) for line in (one.first_line, one.last_line) if line]
    return {"firstLine": min(lines), "lastLine": max(lines)}


def row_budgets(call: Call, tool: str, arguments: Arguments, asked: int | None) -> tuple[int, int]:
    """The bytes of an answer with rows, and the bytes if rows would be left out although the caller names a limit.

    A caller that names a limit asks for rows, and not for long texts in them; a caller that asks for bytes gets them.
    """
    if asked:
        most = budget_asked(call, tool, asked)
        return most, most
    least = budget(call)
    return least, budget_asked(call, tool) if "limit" in arguments.model_fields_set else least


def _is_flood(rows: Sequence[object], max_bytes: int) -> bool:
    """True if most of the rows' text is left out in any case, so that nobody reads it here: see `FLOODS`."""
    return sum(len(str(row)) for row in rows) > (FLOODS + 1) * max_bytes


def fit_newest(result: object, budgets: tuple[int, int], *, is_asked: bool = False) -> Fitted:
    """The result, for a list its newest rows that fit; notes on the parts left out, and the number of rows left out.

    `budgets`: see `row_budgets`. Unless the caller asked for so many bytes (`is_asked`), as much of a flood is shown as
    in an evaluation's answer, and the beginning of a long text among many rows.
    """
    least, most = budgets
    if not isinstance(result, list):
        shown, note = shorten(result, most)
        return shown, [note] if note else [], 0
    if not is_asked and _is_flood(result, least):
        least = min(least, FLOOD_HEAD_BYTES + FLOOD_TAIL_BYTES)
    rows, note, omitted = fit(result, least, newest=True)
    if note and not is_asked and len(result) >= SEVERAL_ROWS:
        result, note = overviewed(result, is_of_all=len(result) >= MANY_ROWS)
        rows, more, omitted = fit(result, least, newest=True)
        note = more or note
    if omitted and most > least:
        rows, more, omitted = fit(result, most, newest=True)
        note = more or note
    notes = [note] if note else []
    if omitted:
        notes.append(f"{omitted} rows before these are left out: name a limit for more of them, or ask by line")
    return rows, notes, omitted


_LINE: Final = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


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
    """The rows that the query gains, as soon as it gains one, or word that it gained none in time."""
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
        """Ask about all that comes, until a row is new or the wait is over."""
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
        return self._call.state.life.phase == "stopping"

    async def _gained(self) -> tuple[list[object], Cut | None]:
        """The new rows, if the log grew since the query was last asked."""
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
        """The newest rows, within the bounds of an answer."""
        asked = self._arguments.max_text_bytes is not None
        budgets = row_budgets(self._call, "wait_for", self._arguments, self._arguments.max_text_bytes)
        images = images_for(self._call, 0, "repl_output_log with maxImages gives it")
        bare = images.out_of_json(rows[-self._arguments.limit :])
        work = self._call.services.work.texts
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
        asked = Question(self._arguments.query, self._arguments.inputs, MAX_ROWS, until=until, every_row=True)

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
    """A digest that tells a row from any other, in eight bytes however long its texts."""
    return int.from_bytes(hashlib.blake2b(json.dumps(row, sort_keys=True).encode(), digest_size=8).digest())


def _digests(answer: QueryAnswer) -> Sequence[int]:
    return array("Q", sorted(set(map(_digest, answer.rows))))


def _new_rows(known: Sequence[int], answer: QueryAnswer) -> list[object]:
    return [row for row in answer.rows if not _is_among(known, _digest(row))]


def _is_among(known: Sequence[int], digest: int) -> bool:
    place = bisect_left(known, digest)
    return place < len(known) and known[place] == digest


TOOLS = (
    Tool(
        name="repl_output_log",
        other_names=("clojure_repl_output_log",),
        title="REPL output log",
        description="What passed through the REPLs. by: a who.",
        arguments=LogArguments,
        output=answer_schema(
            result={"anyOf": [{"type": kind} for kind in ("array", "object", "string", "number", "boolean", "null")]},
            count="integer",
            firstLine=_LINE,
            lastLine=_LINE,
            cut={"enum": [None, "rows", "time"]},
            appEvents="integer",
            notes=TEXTS,
        ),
        run=repl_output_log,
        read_only=True,
        idempotent=True,
        is_core=True,
    ),
    Tool(
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
    ),
)
