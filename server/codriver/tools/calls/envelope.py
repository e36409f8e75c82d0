"""One envelope for every answer, and the one place where errors become answers.

Every word that an answer's `reason` can be stands here, those of an application's seam among them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, get_args

from pydantic import ValidationError

from codriver.errors import Reason, RefusedError, ReplDisconnectedError, refused
from codriver.tools.calls.base import Answer, Call, Tool
from codriver.tools.calls.gate import await_search, await_start, refusal

if TYPE_CHECKING:
    from codriver.tools.calls.base import Arguments, Json


logger = logging.getLogger(__name__)


async def run(tool: Tool, call: Call, arguments: Json) -> Answer:
    """The answer of the tool, if it can be used now. Whatever the tool, its caller has to be named well.

    Raises:
        RefusedError: it cannot, or will not.
    """
    core = call.services.core
    if tool.needs and core.state.life.is_searching:
        await await_search(core)
    obstacle = refusal(tool, core.state, call.services.live.settings)
    if obstacle is not None:
        obstacle = await await_start(tool, core, call.services.live.settings, call.services.durations.repl_start_s)
    if obstacle is not None:
        raise obstacle
    given = parse(tool, arguments)
    if given.who is not None:
        call.note_name(given.who)
    return await tool.run(call, given)


async def answer(tool: Tool, call: Call, arguments: Json) -> Answer:
    """The tool's answer in the envelope, whatever happens; only a cancelled call gives none."""
    try:
        given = await run(tool, call, arguments)
        if given.is_bare:
            return given
        fields = {"ok": given.ok, **given.fields}
        return Answer(
            fields, given.ok, given.images, given.has_numbers, handed_out=given.handed_out, shows_told=given.shows_told
        )
    except RefusedError as error:
        fields = {"reason": error.reason, "message": error.message, "hint": error.hint, **error.details}
    except ReplDisconnectedError as error:
        hint = "it is tried again by itself: look at list_sessions, and check what was done before you repeat it"
        fields = {"reason": "repl-disconnected", "message": str(error), "hint": hint}
    except Exception as error:
        logger.exception("the tool %s failed", tool.name)
        message = f"{tool.name} failed inside codriver: {type(error).__name__}"
        hint = "this is a fault of codriver: server_health counts it, and the server's log has the details"
        fields = {"reason": "internal-error", "message": message, "hint": hint}
    return Answer({"ok": False, **fields}, ok=False)


def parse(tool: Tool, arguments: Json) -> Arguments:
    """The arguments as the tool's own type.

    Raises:
        RefusedError: they do not fit, with every problem by argument.
    """
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        problems = [
            {
                "argument": ".".join(map(str, problem["loc"])) or "arguments",
                "problem": problem["msg"].removeprefix("Value error, "),
            }
            for problem in found
        ]
        known: dict[str, list[str]] = {}
        for problem in found:
            known |= _names_around(tool, problem["loc"])
        lines = "; ".join(f"{problem['argument']}: {problem['problem']}" for problem in problems)
        raise refused(
            "bad-arguments",
            f"{tool.name} cannot use these arguments: {lines}",
            hint="; ".join(f"{words} {', '.join(names) or 'none'}" for words, names in known.items()),
            details={"problems": problems},
        ) from error


def _names_around(tool: Tool, place: tuple[str | int, ...]) -> dict[str, list[str]]:
    """The arguments that can stand beside the one at this place, by the words for that place."""
    within: Any = tool.schema
    found = {f"the arguments of {tool.name} are:": list(within.get("properties", {}))}
    for depth, step in enumerate(place):
        if isinstance(step, int):
            within = within.get("items", {})
            if names := within.get("properties"):
                found = {f"each of {'.'.join(map(str, place[:depth]))} takes": list(names)}
        else:
            within = within.get("properties", {}).get(step, {})
    return found


SEAM_REASONS: Final = frozenset(
    {
        "no-such-accessor",
        "accessor-failed",
        "no-frame-resolved",
        "ambiguous-frame",
        "no-such-frame",
        "path-not-found",
        "no-such-epoch",
        "band-missing",
        "read-only-frame",
        "no-dispatch",
        "not-an-event-vector",
        "handler-failed",
        "during-drain",
        "unknown-epoch",
        "non-ok-record",
        "schema-mismatch",
        "missing-handler",
        "version-mismatch",
        "no-such-predicate",
        "unknown-topic",
        "too-many-subscriptions",
        "not-enabled",
    }
)
"""The closed list: every word by which a seam refuses."""

REASONS: Final = frozenset(get_args(Reason)) | SEAM_REASONS
"""The closed list: every word that an answer's `reason` can be."""
