"""`repl_output_log`: read or query the log of everything that the REPLs received and printed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, get_args

from pydantic import Field, WithJsonSchema

from codriver.errors import refused
from codriver.log.log_entries import ENTRY_SCHEMA, Category
from codriver.log.output_log import LogQuery
from codriver.tools.answers.answer_images import image_collector
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY, Arguments, remove_default
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.tool import Tool
from codriver.tools.log_rows import Fitted, Fitting, fit_newest, row_budgets
from codriver.tools.query_inputs import Input

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from codriver.tools.calls.call import Call
    from codriver_datalog.entity_store import Value

BASE_CATEGORIES: Final[tuple[str, ...]] = get_args(Category)
"""Categories of entities in the log. Features' event logs add others."""
# The categories of features' logs are named where they are useful.
AnyCategory = Annotated[str, WithJsonSchema({"enum": list(BASE_CATEGORIES), "type": "string"})]

SESSION_ATTRIBUTE: Final = "repl-session-key"
"""The attribute with the key of an entity's session."""
EVALUATION_ATTRIBUTES: Final = frozenset({"who", "timestamp", "ns", SESSION_ATTRIBUTE})
"""Attributes that are the same for all entities of an evaluation, so answers contain them only once."""
PRINTED_CATEGORIES: Final = frozenset({"evaluationOutput", "evaluationErrorOutput"})
"""Categories of text printed by code."""
LISTENING_PREFIX: Final = "nREPL server started on port "
"""Start of the line in which a REPL process reports its address."""

QUERY_ONLY_ATTRIBUTES: Final = frozenset({"kind", "data"})
"""Attributes that only queries return, because the text of an entity contains the same information."""


class LogArguments(Arguments):
    """The arguments of the tool `repl_output_log`."""

    query: str | None = Field(
        None,
        description="Datalog: [:find ?l ?t :where [?e :output/line ?l] [?e :output/text ?t]]; category, timestamp, "
        "who, ns, repl-session-key, evaluation. $history, $memory: earlier runs. inputs: of :in.",
    )
    inputs: list[Input] = Field(default_factory=list, json_schema_extra={UNLISTED_KEY: True})
    since: int | None = Field(None, description="Log line.")
    category: list[AnyCategory] | None = None
    by: str | None = None
    limit: int = Field(100, ge=1, le=10_000, json_schema_extra=remove_default)
    max_images: int = Field(0, ge=0, le=100, json_schema_extra={UNLISTED_KEY: True})
    max_text_bytes: int | None = Field(None, ge=1024, le=16 * 2**20, json_schema_extra={UNLISTED_KEY: True})
    """Maximum size of the text. Answers that shorten text or omit images mention this argument or `max_images`."""


async def repl_output_log(call: Call, arguments: LogArguments) -> Answer:
    """Return the log entities that match filters, or the result of a query."""
    log, work = call.services.log, call.services.work
    _check_categories(call, arguments.category or ())
    # Read before the log, so that a caller that continues from these lines misses none.
    lines = {"firstLine": log.first_line, "lastLine": log.last_line, **_growing_source_fields(call, arguments)}
    if arguments.query is None:
        entries = _find_entities(call, arguments)
        result: object = entries
        count, cut = len(entries), None
    else:
        log_query = LogQuery(arguments.query, arguments.inputs, arguments.limit)
        answer = await work.queries.run(call.client, partial(call.services.query, log_query))
        result, count, cut = answer.result, answer.count, answer.cut
    gone = _eviction_notes(call, arguments, count)
    images = image_collector(call, arguments.max_images, "ask with maxImages")
    without_images = images.remove_from_json(result)
    budgets = row_budgets(call, "repl_output_log", arguments, arguments.max_text_bytes)
    fitted: Fitting = partial(fit_newest, budgets=budgets, has_requested_bytes=arguments.max_text_bytes is not None)
    if arguments.query is None and not find_traits(call.client_name).wants_detail:
        sessions = sum(len(repl.sessions) for repl in call.state.repls.values())
        fitted = partial(_fit_lean, fitted, has_one_session=sessions == 1)
    rows_in_answer, notes, omitted = await work.editing.run(call.client, partial(fitted, without_images))
    if omitted:
        count, cut = count - omitted, cut or "rows"
    if arguments.query is None and isinstance(rows_in_answer, list):
        count = len(rows_in_answer)
    notes = [*gone, *notes]
    fields = {"result": rows_in_answer, "count": count, **lines, "cut": cut, **({"notes": notes} if notes else {})}
    return Answer(fields, images=tuple(images.images), has_numbers=True)


def _check_categories(call: Call, categories: Sequence[str]) -> None:
    """Check that all categories exist.

    Raises:
        RefusedError: one of them does not exist.
    """
    known = (*BASE_CATEGORIES, *(source.category for source, _ in call.services.log.sources.growing.values()))
    if unknown := [category for category in categories if category not in known]:
        raise refused(
            "bad-arguments",
            f"repl_output_log cannot use these arguments: category: there is no category {unknown[0]!r}",
            hint=f"The categories are {', '.join(known)}.",
        )


def _find_entities(call: Call, arguments: LogArguments) -> Sequence[dict[str, Value]]:
    """Return the newest entities that match the filters, in the order of their lines.

    Entities of features' logs are included if their category was requested.
    """
    since, who, limit, category = arguments.since, arguments.by, arguments.limit, arguments.category
    of_log = call.services.log.entries(since=since, category=category, who=who, limit=limit)
    found = [
        {name: value for name, value in entry.to_json().items() if name not in QUERY_ONLY_ATTRIBUTES}
        for entry in of_log
    ]
    for event_log, store in call.services.log.sources.growing.values():
        if category is not None and event_log.category in category:
            of_source = store.entries(since=since, who=who, limit=limit)
            if not find_traits(call.client_name).wants_detail:
                # An entity's text has the content of the source's own attributes.
                of_source = [{name: row[name] for name in row if name in ENTRY_SCHEMA.attributes} for row in of_source]
            found = sorted([*found, *of_source], key=lambda entity: entity["line"])[-limit:]
    return found


def _fit_lean(fitted: Fitting, found: list[dict[str, Any]], *, has_one_session: bool) -> Fitted:
    """Shorten entities for an agent that uses filters, and fit them into the answer with the function `fitted`."""
    rows = _join_output(found)
    fitted_rows, notes, omitted = fitted(_lean_rows(rows, has_one_session=has_one_session))
    if omitted and isinstance(fitted_rows, list):  # the first entity of an evaluation may be among the omitted ones
        whole = [row | cut for row, cut in zip(rows[omitted:], fitted_rows, strict=True)]
        fitted_rows = _lean_rows(whole, has_one_session=has_one_session)
    return fitted_rows, notes, omitted


def _join_output(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Combine consecutive output of an evaluation into one row, and omit the code and the value of loaded files."""
    joined: list[dict[str, Any]] = []
    loads = {row.get("evaluation") for row in rows if "file" in row}
    for row in rows:
        before = joined[-1] if joined and joined[-1].get("evaluation") == row.get("evaluation") else {}
        if before.get("category") == row["category"] in PRINTED_CATEGORIES:
            joined[-1] = before | {"text": before["text"] + row["text"]}
        elif "file" not in row and not _is_redundant(row, loads):  # the text is in the file
            joined.append(row)
    return joined


def _is_redundant(row: dict[str, Any], loads: Collection[object]) -> bool:
    """Return whether other rows make a row redundant: the value of a load, or a line with the address of a REPL."""
    if row["category"] == "evaluationResults":
        return row.get("evaluation") in loads
    return "evaluation" not in row and row["text"].startswith(LISTENING_PREFIX)


def _lean_rows(rows: list[dict[str, Any]], *, has_one_session: bool) -> list[dict[str, Any]]:
    """Remove repeated information: the location within an evaluation, and the time within a second.

    The session is omitted if there is only one. The caller and the namespace are omitted if the previous evaluation had
    the same.
    """
    described: set[object] = set()
    lean = []
    second, last = -1, dict[str, object]()
    for row in rows:
        evaluation = row.get("evaluation")
        known = (
            EVALUATION_ATTRIBUTES
            if evaluation in described
            else frozenset({SESSION_ATTRIBUTE} if has_one_session else ())
        )
        if row["timestamp"] // 1000 == second:
            known |= {"timestamp"}
        elif "timestamp" not in known:
            second = row["timestamp"] // 1000
        given = {name: row[name] for name in ("who", "ns") if evaluation is not None and row.get(name) is not None}
        known |= {name for name, value in given.items() if last.get(name) == value}
        last |= given
        lean.append({name: value for name, value in row.items() if name not in known})
        if evaluation is not None:
            described.add(evaluation)
    return lean


def _eviction_notes(call: Call, arguments: LogArguments, count: int) -> list[str]:
    """Return a note if evicted entities might have matched the query or the filters.

    `count` is the number of rows found. If it equals `limit`, older entities were not requested.
    """
    log, since = call.services.log, arguments.since
    is_short = count < arguments.limit and any((arguments.category, arguments.by))
    is_chosen = arguments.query is not None or since is not None or is_short
    if not log.evicted_count or not is_chosen or (since or 0) >= log.last_evicted_line:
        return []
    return [
        (
            f"{log.evicted_count} entities up to line {log.last_evicted_line} were evicted from the log. $history "
            "still has their code"
        )
    ]


def _growing_source_fields(call: Call, arguments: LogArguments) -> dict[str, int | None]:
    """Return the fields of an answer about features' logs.

    These are the last lines of the logs whose entities are included, or else the numbers of their entities.
    """
    log, category = call.services.log, arguments.category
    fields: dict[str, int | None] = {}
    for event_log, store in call.services.log.sources.growing.values():
        if arguments.query is not None or not store.last_line:
            continue
        if category is None:
            count = store.count(since=arguments.since, who=arguments.by)
            fields |= {event_log.counted_as: count} if count else {}
        elif event_log.category in category:
            lines = [line for log_store in (log, store) for line in (log_store.first_line, log_store.last_line) if line]
            fields |= {"firstLine": min(lines), "lastLine": max(lines)}
    return fields


_LINE_SCHEMA: Final = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
"""Schema of a log line number, which may be null."""

TOOL = Tool(
    name="repl_output_log",
    other_names=("clojure_repl_output_log",),
    title="REPL output log",
    description="Read or query what was sent to the REPLs and what they printed.",
    arguments=LogArguments,
    output=answer_schema(
        result={"anyOf": [{"type": kind} for kind in ("array", "object", "string", "number", "boolean", "null")]},
        count="integer",
        firstLine=_LINE_SCHEMA,
        lastLine=_LINE_SCHEMA,
        cut={"enum": [None, "rows", "time"]},
        notes=STRINGS_SCHEMA,
    ),
    run=repl_output_log,
    read_only=True,
    idempotent=True,
    is_core=True,
)
