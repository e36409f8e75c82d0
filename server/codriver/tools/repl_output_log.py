"""`repl_output_log`: read or query what passed through the REPLs, whoever caused it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import Field, WithJsonSchema

from codriver.log.logbook import APP_EVENT
from codriver.log.output_log import APP_SCHEMA, SCHEMA, Category, LogQuery
from codriver.tools.answers.answer_budget import images_for
from codriver.tools.calls.answer import TEXTS, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED, Arguments, unsaid_default
from codriver.tools.calls.client_traits import traits_of
from codriver.tools.calls.tool import Tool
from codriver.tools.log_rows import Fitted, Fitting, fit_newest, row_budgets
from codriver.tools.query_inputs import Input

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from codriver.tools.calls.call import Call
    from codriver_datalog.entity_store import Value

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
    """Return entities of the log, by filters or by a query."""
    log, work = call.services.log, call.services.work
    # As of the moment at which the log is read: a reader that goes on from these lines misses no later one.
    lines = {"firstLine": log.first_line, "lastLine": log.last_line, **_of_apps(call, arguments)}
    if arguments.query is None:
        entries = _entries(call, arguments)
        result: object = entries
        count, cut = len(entries), None
    else:
        asked = LogQuery(arguments.query, arguments.inputs, arguments.limit)
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
    shown, notes, omitted = await work.editing.run(call.client, partial(fitted, taken))
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
    """Return entities for a model that asks by filters, fitted into an answer by `fitted`."""
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
    """Return true for the value of a load and the line with a REPL's address: other rows say as much."""
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
    if arguments.query is not None or not app_log.stored:
        return {}
    if arguments.category is None:
        count = app_log.count(since=arguments.since, who=arguments.by)
        return {"appEvents": count} if count else {}
    if APP_EVENT not in arguments.category:
        return {}
    lines = [line for one in (log, app_log) for line in (one.first_line, one.last_line) if line]
    return {"firstLine": min(lines), "lastLine": max(lines)}


_LINE: Final = {"anyOf": [{"type": "integer"}, {"type": "null"}]}

TOOL = Tool(
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
)
