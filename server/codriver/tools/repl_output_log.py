"""`repl_output_log`: what passed through the REPLs, by whoever."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args

from pydantic import Field, WithJsonSchema

from codriver.log.app_log import APP_EVENT
from codriver.log.output_log import APP_SCHEMA, SCHEMA, Category, Question
from codriver.tools.answers.answer_budget import budget, budget_asked, fit, images_for, shorten
from codriver.tools.answers.answer_texts import FLOOD_HEAD_BYTES, FLOOD_TAIL_BYTES, FLOODS
from codriver.tools.calls.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema, unsaid_default
from codriver.tools.calls.client_traits import traits_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.datalog.entity_store import Value

_SCALARS: Final = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_COLLECTION: Final = {"type": "array", "items": {"anyOf": _SCALARS}}

# Any JSON is taken; the schema names what `:in` binds most often, as there are clients that refuse a tool with an empty
# one.
Input = Annotated[Any, WithJsonSchema({"anyOf": [*_SCALARS, _COLLECTION]})]

# Who has an application to watch is told of the seventh where it begins to: nobody else reads of it.
AnyCategory = Annotated[
    Category | Literal["appEvent"], WithJsonSchema({"enum": list(get_args(Category)), "type": "string"})
]

IN_TEXT: Final = frozenset(APP_SCHEMA.attributes) - frozenset(SCHEMA.attributes)
"""Attributes of an event that its text says as well: a model need not read them twice, and a query gives them."""


class LogArguments(Arguments):
    """Arguments of `repl_output_log`."""

    query: str | None = Field(
        None,
        description="Datalog over :output/line, category, text, timestamp, who, ns, repl-session-key, evaluation; "
        "$history, $memory: earlier runs.",
    )
    inputs: list[Input] = Field(default_factory=list)
    """For `:in`."""
    since: int | None = Field(None, description="Log line.")
    category: list[AnyCategory] | None = None
    by: str | None = None
    limit: int = Field(100, ge=1, le=10_000, json_schema_extra=unsaid_default)
    max_images: int = Field(0, ge=0, le=100)
    max_text_bytes: int | None = Field(None, ge=1024, le=16 * 2**20)


async def repl_output_log(call: Call, arguments: LogArguments) -> Answer:
    """Entities of the log, by filters or by a query."""
    log, work = call.services.log, call.services.work
    if arguments.query is None:
        entries = _entries(call, arguments)
        result: object = entries
        count, cut = len(entries), None
    else:
        asked = Question(arguments.query, arguments.inputs, arguments.limit)
        answer = await work.queries.run(call.client, partial(call.services.query, asked))
        result, count, cut = answer.result, answer.count, answer.cut
    images = images_for(call, arguments.max_images, "ask with maxImages")
    taken = images.out_of_json(result)
    budgets = row_budgets(call, "repl_output_log", arguments, arguments.max_text_bytes)
    fitted = partial(fit_newest, taken, budgets, is_asked=arguments.max_text_bytes is not None)
    shown, notes, omitted = await work.texts.run(call.client, fitted)
    if omitted:
        count, cut = count - omitted, cut or "rows"
    fields = {"result": shown, "count": count, "firstLine": log.first_line, "lastLine": log.last_line, "cut": cut}
    notes = [*_gone(call, arguments), *notes]
    fields = {**fields, **_of_apps(call, arguments), **({"notes": notes} if notes else {})}
    return Answer(fields, images=tuple(images.taken), has_numbers=True)


def _entries(call: Call, arguments: LogArguments) -> Sequence[dict[str, Value]]:
    """The newest entities that pass the filters, in line order: events of applications where they are asked for."""
    since, who, limit, category = arguments.since, arguments.by, arguments.limit, arguments.category
    of_log = call.services.log.entries(since=since, category=category, who=who, limit=limit)
    found = [entry.to_json() for entry in of_log]
    if category is None or APP_EVENT not in category:
        return found
    of_apps = call.services.app_log.entries(since=since, who=who, limit=limit)
    if not traits_of(call.client_name).wants_detail:
        of_apps = [{name: value for name, value in event.items() if name not in IN_TEXT} for event in of_apps]
    return sorted([*found, *of_apps], key=lambda entity: entity["line"])[-limit:]


def _gone(call: Call, arguments: LogArguments) -> list[str]:
    """The note on what has left the log and may have answered what is asked: a query, or lines from an old one on."""
    log, since = call.services.log, arguments.since
    if not log.evicted or (since is None and arguments.query is None) or (since or 0) >= log.last_evicted_line:
        return []
    return [f"{log.evicted} entities up to line {log.last_evicted_line} have left the log: $history has their code"]


def _of_apps(call: Call, arguments: LogArguments) -> dict[str, int | None]:
    """The fields on events of applications: the lines of both logs where they are shown, else how many there are."""
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
    """The bytes of an answer with rows, and those that it has where rows would be left out though a limit is named.

    Who names a limit asks for rows, and not for long texts in them; who asks for bytes gets them.
    """
    if asked:
        most = budget_asked(call, tool, asked)
        return most, most
    least = budget(call)
    return least, budget_asked(call, tool) if "limit" in arguments.model_fields_set else least


def _is_flood(rows: Sequence[object], max_bytes: int) -> bool:
    """True where most of the rows' text is left out whatever is done, so that nobody reads it here: see `FLOODS`."""
    return sum(len(str(row)) for row in rows) > (FLOODS + 1) * max_bytes


def fit_newest(result: object, budgets: tuple[int, int], *, is_asked: bool = False) -> tuple[object, list[str], int]:
    """The result, of a list the newest rows that fit; notes on what that leaves out, and how many rows it does.

    `budgets`: as `row_budgets` gives them. Unless the caller asked for so many bytes (`is_asked`), as much is shown of
    a flood as in an evaluation's answer.
    """
    least, most = budgets
    if not isinstance(result, list):
        shown, note = shorten(result, most)
        return shown, [note] if note else [], 0
    if not is_asked and _is_flood(result, least):
        least = min(least, FLOOD_HEAD_BYTES + FLOOD_TAIL_BYTES)
    rows, note, omitted = fit(result, least, newest=True)
    if omitted and most > least:
        rows, note, omitted = fit(result, most, newest=True)
    notes = [note] if note else []
    if omitted:
        notes.append(f"{omitted} rows before these are left out: name a limit for more of them, or ask by line")
    return rows, notes, omitted


_LINE: Final = {"anyOf": [{"type": "integer"}, {"type": "null"}]}

TOOLS = (
    Tool(
        name="repl_output_log",
        title="REPL output log",
        description=(
            "What passed through the REPLs. by: a who. query: "
            "[:find ?l ?t :where [?e :output/line ?l] [?e :output/text ?t]]"
        ),
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
)
