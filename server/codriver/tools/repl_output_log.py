"""`repl_output_log`: what passed through the REPLs, by whoever."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from codriver.log.output_log import Category, Question
from codriver.tools.answer_budget import Images, budget, budget_asked, fit, shorten
from codriver.tools.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema

_SCALARS: Final = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_COLLECTION: Final = {"type": "array", "items": {"anyOf": _SCALARS}}

# Any JSON is taken; the schema names what `:in` binds most often, as there are clients that refuse a tool with an empty
# one.
Input = Annotated[Any, WithJsonSchema({"anyOf": [*_SCALARS, _COLLECTION]})]

MAX_TEXT_BYTES: Any = Field(None, ge=1024, le=16 * 2**20)


class LogArguments(Arguments):
    """Arguments of `repl_output_log`."""

    query: str | None = Field(
        None,
        description="Datalog over :output/line, category, text, timestamp, who, ns, repl-session-key, evaluation; "
        "$history, $memory: earlier runs.",
    )
    inputs: list[Input] = Field(default_factory=list, description="For :in.")
    since: int | None = Field(None, description="Log line.")
    category: list[Category] | None = None
    by: str | None = None
    limit: int = Field(100, ge=1, le=10_000)
    max_images: int = Field(0, ge=0, le=100)
    max_text_bytes: int | None = MAX_TEXT_BYTES


async def repl_output_log(call: Call, arguments: LogArguments) -> Answer:
    """Entities of the log, by filters or by a query."""
    log, work = call.services.log, call.services.work
    if arguments.query is None:
        entries = log.entries(
            since=arguments.since, category=arguments.category, who=arguments.by, limit=arguments.limit
        )
        result: object = [entry.to_json() for entry in entries]
        count, cut = len(entries), None
    else:
        asked = Question(arguments.query, arguments.inputs, arguments.limit)
        answer = await work.queries.run(call.client, partial(call.services.query, asked))
        result, count, cut = answer.result, answer.count, answer.cut
    images = Images(min(arguments.max_images, call.services.settings.max_images), "ask with maxImages")
    taken = images.out_of_json(result)
    max_bytes = row_budget(call, "repl_output_log", arguments, arguments.max_text_bytes)
    shown, notes, omitted = await work.texts.run(call.client, partial(fit_newest, taken, max_bytes))
    if omitted:
        count, cut = count - omitted, cut or "rows"
    fields = {"result": shown, "count": count, "firstLine": log.first_line, "lastLine": log.last_line, "cut": cut}
    fields = {**fields, "notes": notes} if notes else fields
    return Answer(fields, images=tuple(images.taken), has_numbers=True)


def row_budget(call: Call, tool: str, arguments: Arguments, asked: int | None) -> int:
    """The bytes of an answer with rows: more where a limit is named, or bytes are."""
    if asked or "limit" in arguments.model_fields_set:
        return budget_asked(call, tool, asked)
    return budget(call)


def fit_newest(result: object, max_bytes: int) -> tuple[object, list[str], int]:
    """The result, of a list the newest rows that fit; notes on what that leaves out, and how many rows it does."""
    if not isinstance(result, list):
        shown, note = shorten(result, max_bytes)
        return shown, [note] if note else [], 0
    rows, note, omitted = fit(result, max_bytes, newest=True)
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
            notes=TEXTS,
        ),
        run=repl_output_log,
        read_only=True,
        idempotent=True,
        is_core=True,
    ),
)
