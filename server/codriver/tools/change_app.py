"""`change_app`: an event, an earlier state or another one for the application in a REPL, as an evaluation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import Field

from codriver.core import evaluation_queue
from codriver.core.values import NO_LIMITS, Request
from codriver.log.transcripts import read
from codriver.repls.seam import seam_providers
from codriver.tools.acts.submission import begin
from codriver.tools.answers.answer_budget import budget, fit
from codriver.tools.answers.evaluation_answers import describe
from codriver.tools.answers.lean_answers import Evaluating
from codriver.tools.calls.base import TEXTS, Answer, Call, Tool, answer_schema
from codriver.tools.calls.evaluation_waits import wait
from codriver.tools.calls.session_choice import Target, check_tree, in_lane, resolve
from codriver.tools.inspect_app import SEAM, app_repl, change_line, read_told, refused, with_news_of_app

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.repls.seam.seam_providers import Provider

OURS: Final = "codriver"
"""The provider of which Codriver's worker tells."""
OUT: Final = frozenset({"result", "values"})
"""The fields of an evaluation in whose place those of the seam's answer stand."""


class ChangeArguments(Evaluating):
    """Arguments of `change_app`."""

    what: Literal["dispatch", "restore", "reset"]
    event: str | None = Field(None, description="Of dispatch: ['order/add', 3].")
    sync: bool = Field(default=False, description="Handle it at once, tell the changes.")
    epoch_id: int | None = Field(None, description="Of restore.")
    value: str | None = Field(None, description="Of reset: the new state, a literal.")
    frame: str | None = None
    timeout_ms: int | None = Field(None, ge=100, le=600_000)
    repl_session_key: str | None = None


async def change_app(call: Call, arguments: ChangeArguments) -> Answer:
    """Ask the seam for the change, wait, and say what came of it."""
    who, key = call.who(arguments.who), arguments.repl_session_key
    repl = app_repl(call, key)
    if lacking := seam_providers.refusal(_provider(repl), arguments.what):
        return refused(call, lacking)
    target = resolve(call.state, key or repl.key)
    check_tree(call, target, who, key)
    if key is None:
        target = in_lane(call, target, who)
    request = _request(call, target, who, arguments)
    begin(call, target, who, request)
    timeout_ms = arguments.timeout_ms or call.services.settings.evaluate_timeout_ms
    current = await wait(call, request.id, timeout_ms / 1000, may_last=True)
    described = await describe(call, current, arguments, max_images=0, max_bytes=budget(call))
    if current.status != "done":
        return described
    told = read_told(call, await _value(call, current, target.repl, arguments.what))
    about = {key: value for key, value in described.fields.items() if key not in OUT}
    if not told["ok"]:
        answer = refused(call, told)
        return with_news_of_app(call, repl, replace(described, fields={**answer.fields, **about}, ok=False))
    return with_news_of_app(call, repl, replace(described, fields={**_shown(told, budget(call)), **about}))


def _request(call: Call, target: Target, who: str, arguments: ChangeArguments) -> Request:
    identity = evaluation_queue.next_id(call.state)
    given = {"event", "sync", "epoch_id", "value", "frame"}
    asked = arguments.model_dump(by_alias=True, exclude_defaults=True, include=given)
    origin = {"who": who, "evaluation": identity}
    provider, dialect = _provider(target.repl), target.repl.dialect
    code = seam_providers.form(provider, dialect, arguments.what, asked, origin)
    what = arguments.event or arguments.epoch_id or ""
    said = f"{arguments.what} {what}".strip()
    return Request(identity, code, target.session.name, description=said, default_limits=NO_LIMITS)


def _provider(repl: Repl) -> Provider:
    """The seam's provider in a REPL, by which its code is written."""
    support = repl.profile.capabilities.get(SEAM) if repl.profile else None
    return seam_providers.provider_of(support.op if support and support.adapted else OURS, repl.dialect)


async def _value(call: Call, evaluation: Evaluation, repl: Repl, accessor: str) -> str:
    """The text that the seam answered: the only value of the evaluation, printed as a string."""
    transcript = call.services.transcripts.get(evaluation.id)
    assert transcript is not None  # noqa: S101  # it has just ended
    [place] = transcript.values()[-1:]
    printed = await read(lambda: transcript.result.read(place.start, place.stop).text, transcript)
    return seam_providers.answer(_provider(repl), accessor, seam_providers.unquoted(repl.dialect, printed))


def _shown(told: Mapping[str, Any], most: int) -> dict[str, object]:
    """The seam's answer with the changes in lines."""
    fields = {key: value for key, value in told.items() if key not in ("ok", "origin", "changes", "count", "eventId")}
    if "changes" in told:
        lines, note, omitted = fit([change_line(row) for row in told["changes"]], most)
        fields |= {"changes": lines, "count": len(told["changes"])}
        if note or omitted:
            fields["omitted"] = omitted
    return fields


TOOLS = (
    Tool(
        name="change_app",
        title="Change the app",
        description="Send the app an event, restore an epoch's state, or reset it. Refused: nothing changed.",
        arguments=ChangeArguments,
        output=answer_schema(changes=TEXTS, epochId="integer", undoneBy="integer", mode="string"),
        run=change_app,
        needs=(SEAM,),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        search_hint="dispatch an event, restore or reset state",
    ),
)
