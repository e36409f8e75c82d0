"""`inspect_app`: what the application in a REPL holds, did and failed in, as its seam tells; nothing is changed."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from codriver.log.app_log import near
from codriver.settings.model import spelled
from codriver.tools.answers.answer_budget import budget, fit
from codriver.tools.calls.base import TEXTS, Answer, Arguments, Call, Tool, answer_schema
from codriver.tools.calls.gate import SwitchedOffError
from codriver.tools.calls.reasons import SEAM_REASONS
from codriver.tools.calls.session_choice import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from codriver.core.state import Repl

    Told = Mapping[str, Any]

SEAM: Final = "seam"
NO_EVENTS: Final = "no event yet; watch_logging(), watch_threads() … note some"
"""An empty list may mean that nobody looks, as where a seam was given to an application that runs."""
ANEW: Final = "the app started anew, as session %s: its former epochs, events and subscriptions are gone"


class InspectArguments(Arguments):
    """Arguments of `inspect_app`."""

    what: Literal["health", "state", "diff", "epochs", "trace", "issues", "handlers", "machines"] = "health"
    frame: str | None = Field(None, description="If several.")
    path: str | None = Field(None, description="user.name or ['user', 0]. With epochs: who changed it.")
    epoch_id: int | None = Field(None, description="Of diff (newest).")
    id: str | None = Field(None, description="Of handlers, machines.")
    filter: dict[str, Any] | None = Field(
        None, description="Of events: opType operation frame eventId severity origin dispatchId since sinceMs between …"
    )
    limit: int = Field(50, ge=1, le=2000)
    include_large: bool = False
    include_sensitive: bool = False
    start: int | None = Field(None, alias="from", ge=0, description="Of a long state.")
    repl_session_key: str | None = None


async def inspect_app(call: Call, arguments: InspectArguments) -> Answer:
    """The seam's answer, in lines."""
    shows_told = arguments.include_sensitive
    if shows_told and not call.services.settings.allow_sensitive_reads:
        raise SwitchedOffError("includeSensitive", spelled("allow_sensitive_reads"))
    repl = app_repl(call, arguments.repl_session_key)
    most = budget(call)
    asked = arguments.model_dump(by_alias=True, exclude_none=True, exclude={"what", "repl_session_key", "who"})
    answer = await call.services.repls.adapter(repl.id).ask_seam(
        arguments.what, json.dumps({**asked, "maxChars": most})
    )
    told = read_told(call, answer, shows_told=shows_told)
    told = _unanswered(arguments, told) or told
    given = Answer(_shown(call, arguments.what, told, most)) if told["ok"] else refused(call, told)
    return with_news_of_app(call, repl, replace(given, shows_told=shows_told))


def with_news_of_app(call: Call, repl: Repl, given: Answer) -> Answer:
    """An answer about an application, with a note where it is another process than this client's last answer was of."""
    now = call.state.repls.get(repl.id)
    seam = now.profile.seam if now is not None and now.profile is not None else None
    if not call.services.told.apps.is_another(call.client, repl.id, seam):
        return given
    before = given.fields.get("notes", ())
    notes = [*(before if isinstance(before, list | tuple) else ()), ANEW % seam]
    return replace(given, fields={**given.fields, "notes": notes})


def _unanswered(arguments: InspectArguments, told: Told) -> Told | None:
    """The refusal where a seam told all epochs for those that changed a part, as it knows no better."""
    if arguments.what != "epochs" or not arguments.path or all("changes" in row for row in told.get("epochs", [])):
        return None
    hint = "this seam does not tell which epochs changed a part: ask for epochs, then for the diff of one by epochId"
    return {"ok": False, "reason": "band-missing", "hint": hint}


def app_repl(call: Call, key: str | None) -> Repl:
    """The REPL that is named; without a name the only one with an application that shows itself, else the only one.

    Raises:
        RefusedError: as `resolve` says.
    """
    if key is None:
        able = [repl for repl in call.state.repls.values() if repl.profile and repl.profile.seam]
        if len(able) == 1:
            return able[0]
    return resolve(call.state, key).repl


def read_told(call: Call, text: str, *, shows_told: bool = False) -> Told:
    """The answer of a seam, without secrets: a part of it may be cut, and half of one is not known for what it is.

    With `shows_told`, what the application takes for sensitive stays.
    """
    told = call.services.transcripts.cleared(json.loads(text), shows_told=shows_told)
    assert isinstance(told, dict)  # noqa: S101  # the seam's contract
    return told


def refused(call: Call, told: Told) -> Answer:
    """The answer for what the seam refused."""
    reason = told.get("reason") if told.get("reason") in SEAM_REASONS else "accessor-failed"
    at = {"at": near(told["at"], call.services.workspace)} if "at" in told else {}
    return Answer({**{key: value for key, value in told.items() if key != "ok"}, "reason": reason, **at}, ok=False)


def _shown(call: Call, what: str, told: Told, most: int) -> dict[str, object]:
    """The answer's fields: lines where there are many of a kind."""
    hidden = ("ok", *_ABOUT) if what == "health" else ("ok", *_ROWS)
    fields = {key: value for key, value in told.items() if key not in hidden and value not in (0, "", [])}
    if what == "state":
        if "total" in fields:
            after = told["from"] + len(told["value"])
            more = f"; from {after} tells more" if after < told["total"] else ""
            fields["notes"] = [f"{len(told['value'])} of {told['total']} characters{more}"]
            del fields["total"]
        return fields
    if what not in _LINES:
        return fields
    key, line_of = _LINES[what]
    rows = told[key].items() if isinstance(told[key], dict) else told[key]
    lines = [line_of(row) for row in rows]
    if what in _PLACED:
        lines = [near(line, call.services.workspace) for line in lines]
    kept, note, omitted = fit(lines, most, newest=True)
    # What is told of all of them stands behind the lines.
    shown: dict[str, object] = {"lines": kept, "count": len(kept)}
    shown |= {name: value for name, value in fields.items() if name != "count"}
    if shown.get("total") == len(kept):
        del shown["total"]
    if what in _OF_EVENTS and told.get("lastId") == 0:
        shown["notes"] = [NO_EVENTS]
    if note or omitted:
        shown["notes"] = [note or f"{omitted} older lines are left out: filter, or ask for fewer"]
    return shown


def change_line(row: Told) -> str:
    """A change of the state in one line."""
    before, after = row.get("before"), row.get("after")
    return f"{row['op']} {row['path']}: " + " -> ".join([text for text in (before, after) if text is not None])


def _epoch_line(row: Told) -> str:
    by = "" if row["origin"] == "app" else f" by={row['origin']}"
    at = datetime.fromtimestamp(row["time"], UTC).strftime("%H:%M:%S")
    cause = f" d{row['dispatchId']}" if row.get("dispatchId") else ""
    took = f" {row['ms']:.3g}ms" if row.get("ms") is not None else ""
    line = f"{row['epochId']} {row['eventId']} {row['outcome']}{cause}{took} {at}{by}"
    changes = row.get("changes", [])
    return line + " ".join([f" {change_line(one)}" for one in changes[:1]]) + _and_more(len(changes) - 1)


def _and_more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _handler_line(row: Told) -> str:
    doc = f": {row['doc']}" if row.get("doc") else ""
    place = f" {row['file']}:{row['line']}" if row.get("file") else ""
    return f"{row['kind']} {row['id']}{place}{doc}"


def _machine_line(row: tuple[str, Told]) -> str:
    return f"{row[0]}: {row[1]['state']}"


def _same(row: str) -> str:
    return row


_LINES: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "diff": ("changes", change_line),
    "epochs": ("epochs", _epoch_line),
    "trace": ("lines", _same),
    "issues": ("lines", _same),
    "handlers": ("handlers", _handler_line),
    "machines": ("machines", _machine_line),
}
"""By what is asked for: where the seam's answer has its rows, and a row in one line."""
_ABOUT: Final = frozenset({"contract", "enabled", "installedMs", "language"})
"""What health tells for programs: it is the same in every answer to an agent, or of no use to one."""
_OF_EVENTS: Final = frozenset({"trace", "issues"})
_PLACED: Final = _OF_EVENTS | {"handlers"}
_ROWS: Final[Sequence[str]] = ("changes", "epochs", "lines", "handlers", "machines")


TOOLS = (
    Tool(
        name="inspect_app",
        title="Inspect the app",
        description="The app's state, last changes, events, failures, handlers. First: health, issues.",
        arguments=InspectArguments,
        output=answer_schema(lines=TEXTS, value="string", count="integer", notes=TEXTS),
        run=inspect_app,
        needs=(SEAM,),
        read_only=True,
        idempotent=True,
        search_hint="application state, trace of events, time travel",
    ),
)
