"""The tool `inspect_app`: read the state, events and failures of the application in a REPL."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from codriver.errors import format_count
from codriver.features.applications.app_log import shorten_paths
from codriver.features.applications.seam import SEAM_CAPABILITY, require_seam
from codriver.features.applications.seam_answers import app_repl, parse_answer, refusal_answer, with_restart_note
from codriver.features.applications.settings import SENSITIVE_READS_SETTING
from codriver.tools.answers.answer_budget import default_budget, fit_rows
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.gate import switched_off_error
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.features.applications.seam_answers import SeamAnswer
    from codriver.tools.calls.call import Call

NO_EVENTS_MESSAGE: Final = (
    "there are no events yet. To record some, call watch_logging(), watch_threads() or a similar function"
)
"""Note for an empty list of events. Nothing is recorded at first if the seam is installed in a running application."""


class InspectAppArguments(Arguments):
    """Arguments of `inspect_app`: what to read, the frame and path, and filters."""

    CHOOSES_SESSION: ClassVar[bool] = True

    what: Literal["health", "state", "diff", "epochs", "trace", "issues", "handlers", "machines"] = "health"
    frame: str | None = Field(None, description="If several.")
    path: str | None = Field(None, description="user.name or ['user', 0]. With epochs: who changed it.")
    epoch_id: int | None = Field(None, description="For diff (newest).")
    id: str | None = Field(None, description="For handlers, machines.")
    filter: dict[str, Any] | None = Field(
        None,
        description="For events: opType operation frame eventId severity origin dispatchId since sinceMs between …",
    )
    limit: int = Field(50, ge=1, le=2000)
    include_large: bool = False
    include_sensitive: bool = False
    start: int | None = Field(None, alias="from", ge=0, description="For long state.")
    repl_session_key: str | None = None


async def inspect_app(call: Call, arguments: InspectAppArguments) -> Answer:
    """Query the application in a REPL, and return the result formatted as lines."""
    shows_sensitive = arguments.include_sensitive
    if shows_sensitive and not call.services.live.settings.value_of(SENSITIVE_READS_SETTING):
        raise switched_off_error("includeSensitive", SENSITIVE_READS_SETTING.name, call.services.live.settings)
    repl = app_repl(call, arguments.repl_session_key)
    max_bytes = default_budget(call)
    query = arguments.model_dump(by_alias=True, exclude_none=True, exclude={"what", "repl_session_key", "who"})
    seam = require_seam(call.services.repls, repl.id)
    text = await seam.call(arguments.what, json.dumps({**query, "maxChars": max_bytes}))
    seam_answer = parse_answer(call, text, shows_sensitive=shows_sensitive)
    seam_answer = _check_path_support(arguments, seam_answer) or seam_answer
    answer = (
        Answer(_answer_fields(call, arguments.what, seam_answer, max_bytes))
        if seam_answer["ok"]
        else refusal_answer(call, seam_answer)
    )
    return with_restart_note(call, repl, replace(answer, shows_sensitive=shows_sensitive))


def _check_path_support(arguments: InspectAppArguments, answer: SeamAnswer) -> SeamAnswer | None:
    """Return a refusal if the seam ignored `path` and returned all epochs."""
    if arguments.what != "epochs" or not arguments.path or all("changes" in row for row in answer.get("epochs", [])):
        return None
    hint = (
        "This application's seam cannot select epochs by path. List the epochs without path, then request the "
        "diff of one by its epochId."
    )
    return {"ok": False, "reason": "band-missing", "hint": hint}


def _answer_fields(call: Call, kind: str, answer: SeamAnswer, max_bytes: int) -> dict[str, object]:
    """Convert the result of a query to fields of the tool's answer, with the rows formatted as lines."""
    hidden = ("ok", *_OMITTED_HEALTH_FIELDS) if kind == "health" else ("ok", *_ROW_FIELDS)
    fields = {key: value for key, value in answer.items() if key not in hidden and value not in (0, "", [])}
    if kind == "state":
        if "total" in fields:
            next_start = answer["from"] + len(answer["value"])
            continuation = f". To continue, pass from: {next_start}" if next_start < answer["total"] else ""
            fields["notes"] = [f"{len(answer['value'])} of {answer['total']} characters{continuation}"]
            del fields["total"]
        return fields
    if kind not in _ROW_FORMATS:
        return fields
    key, line_of = _ROW_FORMATS[kind]
    rows = answer[key].items() if isinstance(answer[key], dict) else answer[key]
    lines = [line_of(row) for row in rows]
    if kind in _QUERIES_WITH_LOCATIONS:
        lines = [shorten_paths(line, call.services.workspace) for line in lines]
    fitted, note, omitted = fit_rows(lines, max_bytes, newest=True)
    # Fields about all rows follow the lines.
    result_fields: dict[str, object] = {"lines": fitted, "count": len(fitted)}
    result_fields |= {name: value for name, value in fields.items() if name != "count"}
    if result_fields.get("total") == len(fitted):
        del result_fields["total"]
    if kind in _EVENT_QUERIES and answer.get("lastId") == 0:
        result_fields["notes"] = [NO_EVENTS_MESSAGE]
    if note or omitted:
        left_out = format_count(omitted, "older line is", "older lines are")
        result_fields["notes"] = [note or f"{left_out} omitted: filter the lines, or pass a smaller limit"]
    return result_fields


def format_change(row: SeamAnswer) -> str:
    """Format a change of the application's state as one line."""
    old_value, new_value = row.get("before"), row.get("after")
    return f"{row['op']} {row['path']}: " + " -> ".join(
        [value for value in (old_value, new_value) if value is not None]
    )


def _epoch_line(row: SeamAnswer) -> str:
    origin = "" if row["origin"] == "app" else f" by={row['origin']}"
    time = datetime.fromtimestamp(row["time"], UTC).strftime("%H:%M:%S")
    cause = f" d{row['dispatchId']}" if row.get("dispatchId") else ""
    duration = f" {row['ms']:.3g}ms" if row.get("ms") is not None else ""
    line = f"{row['epochId']} {row['eventId']} {row['outcome']}{cause}{duration} {time}{origin}"
    changes = row.get("changes", [])
    return line + " ".join([f" {format_change(change)}" for change in changes[:1]]) + _and_more(len(changes) - 1)


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _handler_line(row: SeamAnswer) -> str:
    doc = f": {row['doc']}" if row.get("doc") else ""
    location = f" {row['file']}:{row['line']}" if row.get("file") else ""
    return f"{row['kind']} {row['id']}{location}{doc}"


def _machine_line(row: tuple[str, SeamAnswer]) -> str:
    return f"{row[0]}: {row[1]['state']}"


def _unchanged(row: str) -> str:
    return row


_ROW_FORMATS: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "diff": ("changes", format_change),
    "epochs": ("epochs", _epoch_line),
    "trace": ("lines", _unchanged),
    "issues": ("lines", _unchanged),
    "handlers": ("handlers", _handler_line),
    "machines": ("machines", _machine_line),
}
"""Maps each kind of query to the field of the result that contains the rows, and the function that formats a row."""
_OMITTED_HEALTH_FIELDS: Final = frozenset({"contract", "enabled", "installedMs", "language"})
"""Fields of `health` that agents do not need."""
_EVENT_QUERIES: Final = frozenset({"trace", "issues"})
_QUERIES_WITH_LOCATIONS: Final = _EVENT_QUERIES | {"handlers"}
_ROW_FIELDS: Final[Sequence[str]] = ("changes", "epochs", "lines", "handlers", "machines")


TOOL = Tool(
    name="inspect_app",
    title="Inspect the app",
    description="Read the app state, changes, events, failures, handlers. First: health, issues.",
    arguments=InspectAppArguments,
    output=answer_schema(lines=STRINGS_SCHEMA, value="string", count="integer", notes=STRINGS_SCHEMA),
    run=inspect_app,
    needs=(SEAM_CAPABILITY,),
    is_default=True,
    is_rare=True,
    read_only=True,
    idempotent=True,
    search_hint="application state, trace of events, time travel",
)
