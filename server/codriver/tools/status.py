"""`status`: one read-only tool for the current state and for past activity.

Most requests are answered by another tool, which is listed only with `toolset = "full"`. Such a request passes the same
gate and returns the same answer as a call of that tool.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from codriver.core.evaluation_sessions import is_session_or_lane
from codriver.core.profiles import PYTHON
from codriver.errors import refused, truncate
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools import (
    complete_symbol,
    list_sessions,
    macroexpand,
    restart_repl,
    server_health,
    stacktrace,
    symbol_info,
    what_changed,
)
from codriver.tools.activity import ACTIVITY, ActivityArguments, belongs_to, format_time
from codriver.tools.answers.answer_budget import cut_to_head, default_budget, fit_rows
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import UNLISTED_KEY
from codriver.tools.calls.gate import run_tool
from codriver.tools.calls.session_choice import session_in_use
from codriver.tools.calls.tool import Tool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.evaluations import Evaluation
    from codriver.errors import RefusedError
    from codriver.tools.calls.call import Call, StatusSubject


BASE_SUBJECTS: Final = ("sessions", "jobs", "activity", "error", "stale", "threads", "variables", "server")
"""Values of `about` that are always available. Features add others."""

FILE_DESCRIPTION: Final = "for activity, an edited file."
"""Description of the argument `file` for the subjects that are always available."""
MAX_CODE_CHARACTERS: Final = 120
"""Maximum number of characters in a job's code."""
MAX_JOBS: Final = 30
"""Maximum number of jobs in an answer."""
STATUS_TOOLS: Final = {
    tool.name: tool
    for tool in (
        restart_repl.TOOL,
        list_sessions.TOOL,
        server_health.TOOL,
        ACTIVITY,
        stacktrace.TOOL,
        what_changed.TOOL,
        symbol_info.TOOL,
        complete_symbol.TOOL,
        macroexpand.TOOL,
    )
}
"""Tools that `status` calls, by name."""


class StatusArguments(ActivityArguments):
    """Arguments of `status`: the subject, and filters for it."""

    about: Annotated[str, WithJsonSchema({"enum": list(BASE_SUBJECTS), "type": "string"})] = "sessions"
    file: str | None = Field(None, description=FILE_DESCRIPTION.capitalize())
    limit: int | None = Field(None, ge=1, le=500)  # type: ignore[assignment]  # each list has its own default
    start: int | None = Field(None, alias="from", ge=0, json_schema_extra={UNLISTED_KEY: True})
    whole: bool = Field(default=False, description="For error: include libraries' frames.")
    evaluation_id: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """Evaluation or test run whose error to return. Default: the last one."""


async def status(call: Call, arguments: StatusArguments) -> Answer:
    """Return the requested state or activity. Nothing is evaluated."""
    given: dict[str, Any]
    match arguments.about:
        case "sessions":
            return await _call_tool(call, "list_sessions", arguments)
        case "server":
            return await _call_tool(call, "server_health", arguments)
        case "activity":
            given = {name: getattr(arguments, name) for name in ("by", "since", "kind", "file", "text", "limit")}
            given["replSessionKey"] = arguments.repl_session_key
            return await _call_tool(call, "activity", arguments, **given)
        case "error":
            given = {"evaluationId": arguments.evaluation_id, "whole": arguments.whole, "locals": True}
            given["replSessionKey"] = arguments.repl_session_key
            return await _call_tool(call, "stacktrace", arguments, **given)
        case "stale":
            return await _call_tool(call, "what_changed", arguments, replSessionKey=arguments.repl_session_key)
        case "variables":
            return await _list_variables(call, arguments)
        case "threads":
            return await _list_threads(call, arguments)
        case "jobs":
            return _list_jobs(call, arguments)
        case subject if subject in call.services.hooks.status_subjects:
            return await call.services.hooks.status_subjects[subject].answer(call, arguments)
        case subject:
            raise _unknown_subject_error(call, subject)


def _unknown_subject_error(call: Call, subject: str) -> RefusedError:
    known = ", ".join([*BASE_SUBJECTS, *call.services.hooks.status_subjects])
    return refused("bad-arguments", f"status has no information about {subject!r}", hint=f"about is one of {known}.")


async def _call_tool(call: Call, name: str, arguments: StatusArguments, **given: Any) -> Answer:
    """Call another tool, and return its answer."""
    known = {"who": arguments.who, **given}
    return await run_tool(STATUS_TOOLS[name], call, {key: value for key, value in known.items() if value is not None})


async def _list_variables(call: Call, arguments: StatusArguments) -> Answer:
    """Return the names in the namespace of a session, each with its type or parameters."""
    target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
    space = target.session.namespace or ("__main__" if target.repl.dialect == PYTHON else "user")
    return await _call_tool(call, "symbol_info", arguments, symbol=space, replSessionKey=target.key)


async def _list_threads(call: Call, arguments: StatusArguments) -> Answer:
    """Return the current stacks of the threads and asyncio tasks in a REPL's process, without stopping it.

    Raises:
        CapabilityMissingError: the REPL cannot report its threads.
    """
    target = session_in_use(call, arguments.repl_session_key, call.who(arguments.who))
    dump = await call.services.repls.adapter(target.repl.id).dump_threads(target.session.name)
    if dump is None:
        raise CapabilityMissingError("stacks", f"the REPL {target.key} cannot report its threads")
    text = cut_to_head(call.services.log.redact(dump.whole), default_budget(call))
    fields: dict[str, object] = {"threads": text.text, "sessionKey": target.key}
    return Answer(fields | ({"notes": [f"the last {text.omitted} characters are left out"]} if text.omitted else {}))


def _list_jobs(call: Call, arguments: StatusArguments) -> Answer:
    """Return the evaluations and test runs of this server, unfinished ones first, then the newest."""
    who, state, now_ms = call.who(arguments.who), call.state, call.services.now()

    def matches(listed: Evaluation) -> bool:
        key = arguments.repl_session_key
        if key is not None and not any(is_session_or_lane(session, key) for session in call.session_keys(listed)):
            return False
        match arguments.by:
            case None:
                return True
            case "me":
                return belongs_to(call, who, listed)
            case "others":
                return not belongs_to(call, who, listed)
            case _:
                return listed.who == arguments.by

    jobs = [evaluation for evaluation in [*state.evaluations.values()][::-1] if matches(evaluation)]
    jobs.sort(key=lambda listed: listed.is_finished)
    limit = arguments.limit or MAX_JOBS
    rows, note, _ = fit_rows([_job_row(call, job, now_ms) for job in jobs[:limit]], default_budget(call))
    fields: dict[str, object] = {"jobs": rows, "count": len(rows)}
    if len(jobs) > len(rows):
        fields["omitted"] = len(jobs) - len(rows)
    return Answer(fields | ({"notes": [note]} if note else {}))


def _job_row(call: Call, evaluation: Evaluation, now_ms: int) -> dict[str, object]:
    row: dict[str, object] = {
        "evaluationId": evaluation.id,
        "status": evaluation.status,
        "who": evaluation.who,
        "session": call.state.evaluation_session_key(evaluation),
        "code": truncate(evaluation.head, MAX_CODE_CHARACTERS),
    }
    if evaluation.started_at is not None:
        row["started"] = format_time(evaluation.started_at, now_ms)
        row["seconds"] = round(((evaluation.finished_at or now_ms) - evaluation.started_at) / 1000, 1)
    if evaluation.is_background:
        row["background"] = True
    return row


DESCRIPTION_TEMPLATE: Final = (
    "Read-only. about: sessions (REPLs, kernels and applications, with users), jobs (evaluations and tests), "
    "activity (newest first: code with results, edits with diffs, test runs, failures), error (last exception or "
    "failed test: causes, numbered frames with variables), stale (files newer than loaded code), threads (stacks), "
    "variables (values), {}server."
)


def with_subjects(tool: Tool, subjects: Mapping[str, StatusSubject]) -> Tool:
    """Return the tool `status` with the subjects that features add."""
    about, file = tool.schema["properties"]["about"], tool.schema["properties"]["file"]
    described = replace(
        tool, description=DESCRIPTION_TEMPLATE.format("".join(f"{subject.summary}, " for subject in subjects.values()))
    )
    uses = [*(subject.file for subject in subjects.values()), FILE_DESCRIPTION]
    return described.with_properties(
        {
            "about": {**about, "enum": [*about["enum"], *subjects]},
            "file": {**file, "description": "; ".join(uses).capitalize()},
        }
    )


TOOL = Tool(
    name="status",
    title="Sessions, activity and errors",
    description=DESCRIPTION_TEMPLATE.format(""),
    arguments=StatusArguments,
    output=answer_schema(),
    run=status,
    read_only=True,
    idempotent=True,
    is_core=True,
)
