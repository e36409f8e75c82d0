"""`repl_output_log`: what passed through the REPLs, by whoever."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from codriver.log.output_log import Category, Question
from codriver.tools.answer_budget import Images, shorten
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
    who: str | None = None
    limit: int = Field(100, ge=1, le=10_000)
    max_images: int = Field(0, ge=0, le=100)
    max_text_bytes: int | None = MAX_TEXT_BYTES


async def repl_output_log(call: Call, arguments: LogArguments) -> Answer:
    """Entities of the log, by filters or by a query."""
    log, work = call.services.log, call.services.work
    if arguments.query is None:
        entries = log.entries(
            since=arguments.since, category=arguments.category, who=arguments.who, limit=arguments.limit
        )
        result: object = [entry.to_json() for entry in entries]
        count, cut = len(entries), None
    else:
        asked = Question(arguments.query, arguments.inputs, arguments.limit)
        answer = await work.queries.run(call.client, partial(call.services.query, asked))
        result, count, cut = answer.result, answer.count, answer.cut
    images = Images(min(arguments.max_images, call.services.settings.max_images), "ask with maxImages")
    taken = images.out_of_json(result)
    max_bytes = arguments.max_text_bytes or call.services.settings.max_text_bytes
    shown, note = await work.texts.run(call.client, partial(shorten, taken, max_bytes))
    fields = {"result": shown, "count": count, "firstLine": log.first_line, "lastLine": log.last_line, "cut": cut}
    return Answer(fields if note is None else {**fields, "notes": [note]}, images=tuple(images.taken))


_LINE: Final = {"anyOf": [{"type": "integer"}, {"type": "null"}]}

TOOLS = (
    Tool(
        name="repl_output_log",
        title="REPL output log",
        description=(
            "What passed through the REPLs, by whoever. Filter by since, category, who, or query: "
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
