"""`activity`: list what callers did in the workspace, newest first."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from codriver.core.evaluation_sessions import is_session_or_lane
from codriver.core.evaluations import EXTERNAL_CALLER, TEST_JOBS_REPL
from codriver.core.log_facts import EDIT_KIND, TESTS_KIND, UNDO_KIND, decode_facts
from codriver.errors import refused, truncate
from codriver.tools.answers.answer_budget import default_budget, fit_rows
from codriver.tools.calls.answer import ROWS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import Arguments, remove_default
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from codriver.core.evaluations import Evaluation
    from codriver.log.log_entries import Entry
    from codriver.tools.calls.call import Call


Kind = Literal["code", "edits", "tests", "failures", "output"]

MAX_CODE_CHARACTERS: Final = 300
"""Maximum number of characters in the code, result and error of an event. `get_evaluation` returns them in full."""
MAX_OUTPUT_CHARACTERS: Final = 400
"""Maximum number of characters in the output of an event."""
MAX_DIFF_CHARACTERS: Final = 1500
"""Maximum number of characters in one file's diff in an event."""
SECONDS_BY_UNIT: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
"""Number of seconds in each unit of a duration."""
DURATION_PATTERN: Final = re.compile(r"(\d+)\s*([smhd])[a-z]*(?:\s+ago)?", re.IGNORECASE)
"""Matches a duration, such as `20m` or `2 hours ago`."""
TIME_OF_DAY_PATTERN: Final = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?")
"""Matches a time of day, with or without seconds."""
EVENT_NAMES: Final[Mapping[str, str]] = MappingProxyType({EDIT_KIND: "edit", UNDO_KIND: "undo", TESTS_KIND: "tests"})
"""Names of events in answers, by the kind of the event's log entry."""
OMITTED_RUN_DETAILS: Final = frozenset({"passedAgain", "paths", "isPartial", "stopped", "purpose"})
"""Details of test runs that are omitted from answers."""
HUMAN_CALLERS: Final = frozenset({"human", EXTERNAL_CALLER})
"""Callers that are people: those with their own client, and those who use a REPL without this server."""


class ActivityArguments(Arguments):
    """Arguments of `activity`: filters by time, caller, file and text."""

    by: str | None = Field(None, description='For activity and jobs: "others", "me", "human" or a name.')
    since: str | None = Field(None, description='"20m", "2d", "09:30", "yesterday".')
    kind: Kind | None = None
    file: str | None = Field(None, description="Edits and loads of this file.")
    text: str | None = Field(None, description="Text that the entry contains.")
    repl_session_key: str | None = None
    """Key of a session or REPL. If given, only its code, loads and output are listed."""
    limit: int = Field(20, ge=1, le=500, json_schema_extra=remove_default)


@dataclass(slots=True)
class ActivityEvent:
    """One event of the activity: an evaluation with its outcome, an edit, a test run, or a line of output."""

    kind: str
    at_ms: int
    line: int
    who: str = ""
    client: str | None = None
    session: str = ""
    evaluation: str = ""
    code: str = ""
    file: str = ""
    results: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    failure: str = ""
    """How the evaluation failed, if this server still knows it."""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        """Return whether the code raised an error or a test failed."""
        has_failures = bool(self.facts.get("failed") or self.facts.get("errors"))
        return has_failures or bool(self.failure) or (bool(self.errors) and not self.results)

    def searchable_strings(self) -> Iterable[str]:
        """Yield all of the event's strings that can be searched."""
        yield from (self.code, self.file, self.failure, *self.results, *self.errors, *self.output)
        for row in self.facts.get("files", ()):
            yield from (row.get("file", ""), row.get("diff", ""))
        yield from map(str, self.facts.get("failures", ()))

    def is_about_file(self, name: str) -> bool:
        """Return whether the event is about a file whose path is `name` or ends with `/name`."""
        files = [self.file, *(row.get("file", "") for row in self.facts.get("files", ()))]
        suffix = f"/{name.removeprefix('./').lstrip('/')}"
        return any(f"/{file}".endswith(suffix) for file in files if file)

    def row(self, now_ms: int) -> dict[str, object]:
        """Return the event as a JSON object for an answer. `now_ms` is the current time in epoch milliseconds."""
        row: dict[str, object] = {"at": format_time(self.at_ms, now_ms), "who": self.who or None, "kind": self.kind}
        if self.code:
            row["code"] = truncate(self.code, MAX_CODE_CHARACTERS)
        row |= {"file": self.file or None, "session": self.session or None, "evaluationId": self.evaluation or None}
        if self.failure:
            row["error"] = truncate(self.failure, MAX_CODE_CHARACTERS)
        elif self.results:
            row["result"] = truncate(self.results[-1], MAX_CODE_CHARACTERS)
        elif self.errors:
            row["error"] = truncate("".join(self.errors).strip(), MAX_CODE_CHARACTERS)
        if self.output:
            row["output"] = truncate("".join(self.output), MAX_OUTPUT_CHARACTERS)
        files = self.facts.get("files", ())
        if files:
            row["files"] = [
                {**file, "diff": truncate(file["diff"], MAX_DIFF_CHARACTERS)} if "diff" in file else file
                for file in files
            ]
        row |= {name: value for name, value in self.facts.items() if name != "files"}
        return {name: value for name, value in row.items() if value is not None}


async def activity(call: Call, arguments: ActivityArguments) -> Answer:
    """Return the events selected by the arguments, newest first. Nothing is evaluated."""
    now_ms = call.services.now()
    since_ms = None if arguments.since is None else parse_time(arguments.since, now_ms)
    read = partial(_read_entries, call, since_ms)
    events = await call.services.work.queries.run(call.client, lambda: read_events(read()))
    for event in events:
        known = call.state.evaluations.get(event.evaluation)
        if known is not None and known.is_finished and known.status != "done":
            event.failure = call.services.log.redact(known.failure.message) if known.failure else known.status
    who = call.who(arguments.who)
    found = [event for event in reversed(events) if _matches(call, event, arguments, who, since_ms)]
    rows, note, _ = fit_rows([event.row(now_ms) for event in found[: arguments.limit]], default_budget(call))
    fields: dict[str, object] = {"events": rows, "count": len(rows)}
    if len(found) > len(rows):
        fields["omitted"] = len(found) - len(rows)
    notes = [note] if note else []
    if not found:
        notes.append("no entry matches. To list everything that is still stored, call again without arguments")
    if notes:
        fields["notes"] = notes
    return Answer(fields)


def _read_entries(call: Call, since_ms: int | None) -> Sequence[Entry]:
    """Return this server's log entries, and those of earlier servers if they are needed too."""
    log = call.services.log
    entries = log.entries()
    if entries and since_ms is not None and entries[0].timestamp <= since_ms:
        return entries
    return [*call.services.remembered(), *entries]


def read_events(entries: Iterable[Entry]) -> list[ActivityEvent]:
    """Convert log entries to events in the order of the log. All entries of an evaluation are one event."""
    events: list[ActivityEvent] = []
    evaluations: dict[tuple[str | None, str], ActivityEvent] = {}
    for entry in entries:
        kind = EVENT_NAMES.get(entry.kind or "")
        if kind is not None:
            known = {name: fact for name, fact in decode_facts(entry).items() if name not in OMITTED_RUN_DETAILS}
            evaluation = str(known.pop("job", entry.evaluation or ""))
            events.append(
                ActivityEvent(kind, entry.timestamp, entry.line, entry.who or "", evaluation=evaluation, facts=known)
            )
            continue
        if entry.session_key == TEST_JOBS_REPL:
            continue  # the entry about the end of the run has its facts
        if entry.evaluation is None:
            if entry.category in ("otherOutput", "otherErrorOutput") and entry.text.strip():
                event = ActivityEvent(
                    "output", entry.timestamp, entry.line, entry.who or "", session=entry.session_key or ""
                )
                event.output.append(entry.text)
                events.append(event)
            continue
        named = (entry.run, entry.evaluation)
        if named not in evaluations:
            started = ActivityEvent("code", entry.timestamp, entry.line, entry.who or "", evaluation=entry.evaluation)
            started.session = entry.session_key or ""
            evaluations[named] = started
            events.append(started)
        _add_entry(evaluations[named], entry)
    return events


def _add_entry(event: ActivityEvent, entry: Entry) -> None:
    """Add a log entry to the event of its evaluation."""
    match entry.category:
        case "evaluatedCode" if entry.file is not None:
            event.file, event.code = entry.file, ""
        case "evaluatedCode":
            event.code = event.code or entry.text
        case "evaluationResults":
            event.results.append(entry.text)
        case "evaluationErrorOutput":
            event.errors.append(entry.text)
        case "evaluationOutput":
            event.output.append(entry.text)


def _matches(call: Call, event: ActivityEvent, arguments: ActivityArguments, who: str, since_ms: int | None) -> bool:
    """Return whether the arguments select an event."""
    if since_ms is not None and event.at_ms < since_ms:
        return False
    kinds = {"code": ("code",), "edits": ("edit", "undo"), "tests": ("tests",), "output": ("output", "code")}
    if arguments.kind == "failures" and not event.is_failure:
        return False
    if arguments.kind in kinds and event.kind not in kinds[arguments.kind]:
        return False
    if arguments.kind == "output" and not event.output:
        return False
    if arguments.kind is None and event.kind == "output":
        return False  # the server's own lines and the REPLs' prints are listed only if they are requested
    if arguments.by is not None and not _is_by(call, event, arguments.by, who):
        return False
    if arguments.file is not None and not event.is_about_file(arguments.file):
        return False
    if arguments.repl_session_key is not None and not is_session_or_lane(event.session, arguments.repl_session_key):
        return False
    return arguments.text is None or any(arguments.text in text for text in event.searchable_strings())


def _is_by(call: Call, event: ActivityEvent, by: str, who: str) -> bool:
    """Return whether an event was caused by `by`: `me`, `others`, `human` or the name of a caller.

    `who` is the caller that `me` refers to.
    """
    evaluation = call.state.evaluations.get(event.evaluation)
    is_of_caller = event.who == who if evaluation is None else belongs_to(call, who, evaluation)
    match by:
        case "me":
            return is_of_caller
        case "others":
            return bool(event.who) and not is_of_caller
        case "human":
            return event.who in HUMAN_CALLERS
        case _:
            return event.who == by


def belongs_to(call: Call, who: str, evaluation: Evaluation) -> bool:
    """Return whether an evaluation belongs to a caller, even if the caller has reconnected since."""
    is_back = evaluation.who == who and evaluation.client not in call.state.clients
    return is_back or call.belongs_to(evaluation, who)


def parse_time(text: str, now_ms: int) -> int:
    """Convert a description of a time to epoch milliseconds.

    The text is a duration before now such as `20m` or `2h`, a time of day such as `09:30`, `today` or `yesterday`. A
    time of day refers to its most recent occurrence in the server's time zone.

    Raises:
        RefusedError: the text does not describe a time.
    """
    given = text.strip()
    if ago := DURATION_PATTERN.fullmatch(given):
        return now_ms - int(ago[1]) * SECONDS_BY_UNIT[ago[2].lower()] * 1000
    today = time.localtime(now_ms / 1000)
    hours = minutes = seconds = 0
    days = {"today": 0, "yesterday": 1}.get(given.lower())
    if days is None:
        clock = TIME_OF_DAY_PATTERN.fullmatch(given)
        hours, minutes, seconds = (int(part or 0) for part in clock.groups()) if clock else (24, 0, 0)
        if hours > 23 or minutes > 59 or seconds > 59:
            raise refused(
                "bad-arguments",
                f"since cannot be {text!r}",
                hint='Give a duration such as "20m" or "1d", a time of day such as "09:30", "today" or "yesterday".',
            )
        days = 0
    at = time.mktime((today.tm_year, today.tm_mon, today.tm_mday - days, hours, minutes, seconds, 0, 0, -1))
    at_ms = int(at * 1000)
    return at_ms if at_ms <= now_ms else at_ms - SECONDS_BY_UNIT["d"] * 1000


def format_time(at_ms: int, now_ms: int) -> str:
    """Format a time as `14:02:11` if it is today, and otherwise with its date, in the server's time zone."""
    at, now = time.localtime(at_ms / 1000), time.localtime(now_ms / 1000)
    is_today = (at.tm_year, at.tm_yday) == (now.tm_year, now.tm_yday)
    return time.strftime("%H:%M:%S" if is_today else "%Y-%m-%d %H:%M:%S", at)


ACTIVITY: Final = Tool(
    name="activity",
    title="What was done in the workspace",
    description="What was done in this workspace, newest first.",
    arguments=ActivityArguments,
    output=answer_schema(events=ROWS_SCHEMA, count="integer"),
    run=activity,
    read_only=True,
    idempotent=True,
)
"""The tool, which is not listed to clients, because `status` calls it."""
