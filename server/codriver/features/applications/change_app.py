"""The tool `change_app`: send an event to an application or set its state. Each change is an evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.print_limits import NO_PRINT_LIMITS
from codriver.core.requests import Request
from codriver.features.applications import seam_providers
from codriver.features.applications.inspect_app import format_change
from codriver.features.applications.seam import SEAM_CAPABILITY
from codriver.features.applications.seam_answers import app_repl, parse_answer, refusal_answer, with_restart_note
from codriver.features.applications.seam_notation import read_string
from codriver.log.evaluation_transcripts import read_transcripts
from codriver.tools.answers.answer_budget import default_budget, fit_rows
from codriver.tools.answers.evaluation_answers import describe_evaluation
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.answer import STRINGS_SCHEMA, Answer, answer_schema
from codriver.tools.calls.arguments import WaitMs  # noqa: TC001  # pydantic evaluates the annotation
from codriver.tools.calls.evaluation_waits import wait_for_evaluation
from codriver.tools.calls.session_choice import Target, caller_lane, check_working_tree, resolve_session
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.submission import submit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.features.applications.seam_providers import Provider
    from codriver.tools.calls.call import Call

WORKER_PROVIDER: Final = "codriver"
"""Name of the seam provider that Codriver's worker uses."""
REPLACED_FIELDS: Final = frozenset({"result", "values"})
"""Fields of an evaluation that the answer omits, because it contains the seam's own result instead."""


class ChangeAppArguments(Evaluating):
    """Arguments of `change_app`: the operation, and its event, epoch or state."""

    CHOOSES_SESSION: ClassVar[bool] = True

    what: Literal["dispatch", "restore", "reset"]
    event: str | None = Field(None, description="For dispatch: ['order/add', 3].")
    sync: bool = Field(default=False, description="Handle at once, return changes.")
    epoch_id: int | None = Field(None, description="Of restore.")
    value: str | None = Field(None, description="For reset: the new state, a literal.")
    frame: str | None = None
    timeout_ms: WaitMs | None = None
    repl_session_key: str | None = None


async def change_app(call: Call, arguments: ChangeAppArguments) -> Answer:
    """Change the application by evaluating code in its REPL, wait for the evaluation, and return the result."""
    who, key = call.who(arguments.who), arguments.repl_session_key
    repl = app_repl(call, key)
    if refusal := seam_providers.accessor_refusal(_provider(repl), arguments.what):
        return refusal_answer(call, refusal)
    target = resolve_session(call.state, key or repl.key)
    check_working_tree(call, target, who, key)
    if key is None:
        target = caller_lane(call, target, who)
    request = _request(call, target, who, arguments)
    submit(call, target, who, request)
    timeout_ms = call.wait_ms(arguments.timeout_ms)
    current = await wait_for_evaluation(call, request.id, timeout_ms / 1000, may_last=True)
    described = await describe_evaluation(call, current, arguments)
    if current.status != "done":
        return described
    seam_answer = parse_answer(call, await _read_answer(call, current, target.repl, arguments.what))
    evaluation_fields = {key: value for key, value in described.fields.items() if key not in REPLACED_FIELDS}
    if not seam_answer["ok"]:
        answer = refusal_answer(call, seam_answer)
        return with_restart_note(
            call, repl, replace(described, fields={**answer.fields, **evaluation_fields}, ok=False)
        )
    return with_restart_note(
        call,
        repl,
        replace(described, fields={**_change_fields(seam_answer, default_budget(call)), **evaluation_fields}),
    )


def _request(call: Call, target: Target, who: str, arguments: ChangeAppArguments) -> Request:
    evaluation_id = evaluation_queue.next_evaluation_id(call.state)
    fields = {"event", "sync", "epoch_id", "value", "frame"}
    query = arguments.model_dump(by_alias=True, exclude_defaults=True, include=fields)
    origin = {"who": who, "evaluation": evaluation_id}
    provider, dialect = _provider(target.repl), target.repl.dialect
    code = seam_providers.accessor_code(provider, dialect, arguments.what, query, origin)
    subject = arguments.event or arguments.epoch_id or ""
    summary = f"{arguments.what} {subject}".strip()
    return Request(
        evaluation_id, code, target.session.name, description=summary, default_limits=NO_PRINT_LIMITS, who=who
    )


def _provider(repl: Repl) -> Provider:
    """Return the provider of the seam in a REPL."""
    support = repl.profile.capabilities.get(SEAM_CAPABILITY) if repl.profile else None
    return seam_providers.find_provider(support.op if support and support.adapted else WORKER_PROVIDER, repl.dialect)


async def _read_answer(call: Call, evaluation: Evaluation, repl: Repl, accessor: str) -> str:
    """Return the result of calling an accessor, parsed from the string literal that the evaluation returned."""
    transcript = call.services.transcripts.get(evaluation.id)
    assert transcript is not None  # noqa: S101  # the evaluation has just finished
    [location] = transcript.values()[-1:]
    printed = await read_transcripts(lambda: transcript.result.read(location.start, location.stop).text, transcript)
    return seam_providers.read_answer(_provider(repl), accessor, read_string(repl.dialect, printed))


def _change_fields(answer: Mapping[str, Any], max_bytes: int) -> dict[str, object]:
    """Convert the result of a change to fields of the tool's answer, with the changes formatted as lines."""
    fields = {key: value for key, value in answer.items() if key not in ("ok", "origin", "changes", "count", "eventId")}
    if "changes" in answer:
        lines, note, omitted = fit_rows([format_change(row) for row in answer["changes"]], max_bytes)
        fields |= {"changes": lines, "count": len(answer["changes"])}
        if note or omitted:
            fields["omitted"] = omitted
    return fields


TOOL = Tool(
    name="change_app",
    title="Change the app",
    description="Send the app an event, or restore or replace its state. If refused, nothing changed.",
    arguments=ChangeAppArguments,
    output=answer_schema(changes=STRINGS_SCHEMA, epochId="integer", undoneBy="integer", mode="string"),
    run=change_app,
    needs=(SEAM_CAPABILITY,),
    is_default=True,
    is_rare=True,
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    search_hint="dispatch an event, restore or reset state",
)
