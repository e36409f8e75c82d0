"""The gate: the tools on offer now, and a call through it to its one envelope, in which errors become answers.

Listing and calling ask the same question here, as clients cache lists. The closed list of all words for an answer's
`reason` is here, those of an application's seam among them.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import anyio
from pydantic import ValidationError

from codriver.core.state import TRUST
from codriver.core.values import LISP, PYTHON
from codriver.errors import Reason, RefusedError, ReplDisconnectedError, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.repls.kinds import JUPYTER
from codriver.settings.model import Settings, spelled
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.argument_reading import (
    Place,
    Problem,
    Reader,
    fields_of,
    has_unusual_path,
    model_at,
    name_meant,
    nearest,
    path_reader,
)
from codriver.tools.calls.arguments import Arguments, Given, Json

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.core.dispatch import Core
    from codriver.core.state import State
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.tool import Tool


G = TypeVar("G", bound=Given)

LOOK_S = 0.02
SHORT_WAIT_MS = 100
SEARCH_S = 10.0
"""The first search for REPLs takes a second at most, on a disk that answers."""


def switched_off_by(tool: str, name: str, settings: Settings, outcome: str = "") -> RefusedError:
    """Return the refusal of a tool that the setting `name`, or the machine's policy, has switched off."""
    setting, policy = spelled(name), settings.policy_of(name)
    if policy is not None:
        return refused(
            "switched-off",
            f"{tool} is switched off on this machine by {policy}{outcome}",
            hint="only an administrator of this machine can switch it on, by that file",
        )
    return refused(
        "switched-off",
        f"{tool} is switched off by the setting {setting} of this workspace{outcome}",
        hint=f"only the user can switch it on, by {setting} = true: `codriver config show` tells where it is set",
    )


async def await_languages(core: Core) -> None:
    """Wait until the workspace's files were inspected: only then the useful tools are known."""
    with anyio.move_on_after(SEARCH_S):
        while core.state.languages_of_files is None:
            await anyio.sleep(LOOK_S)


async def await_search(core: Core) -> None:
    """Wait until the first search for REPLs has finished: only then the usable tools are known."""
    with anyio.move_on_after(SEARCH_S):
        while core.state.lifecycle.is_searching:
            await anyio.sleep(LOOK_S)


async def await_start(tool: Tool, core: Core, settings: Settings, most_s: float) -> RefusedError | None:
    """The refusal of a tool that no connected REPL can serve, once the starting ones had `most_s` to connect."""
    with anyio.move_on_after(most_s):
        while isinstance(obstacle := refusal(tool, core.state, settings), CapabilityMissingError):
            is_coming = any(repl.is_coming and repl.phase != "waiting" for repl in core.state.repls.values())
            if not (is_coming or core.state.lifecycle.has_unread_port_files):
                break
            await anyio.sleep(LOOK_S)
    return obstacle


def refusal(tool: Tool, state: State, settings: Settings) -> RefusedError | None:
    """Return the reason why `tool` cannot be used now; None for one that can."""
    if obstacle := switched_off(tool, settings):
        return obstacle
    if tool.needs and not state.has_any(tool.needs) and not state.capabilities().intersection(tool.needs):
        wanted = tool.needs[0]
        is_any = any(repl.phase == "connected" for repl in state.repls.values())
        message = None if is_any else f"no REPL is connected, and {tool.name} needs one"
        return CapabilityMissingError(wanted, _provider(wanted, state, settings), message=message)
    return None


def switched_off(tool: Tool, settings: Settings, *, by: str = "") -> RefusedError | None:
    """The refusal of a `tool` that is switched off; `by`: the act that would do the same, and did nothing."""
    if tool.setting is None or getattr(settings, tool.setting):
        return None
    return switched_off_by(by or tool.name, tool.setting, settings, ": nothing was written" if by else "")


def check_may_edit(act: str, settings: Settings) -> None:
    """Refuse an act that would write files of the workspace, where edits are switched off.

    Raises:
        RefusedError: edits are switched off.
    """
    if not settings.enable_edits:
        raise switched_off_by(act, "enable_edits", settings)


def on_offer(
    tools: tuple[Tool, ...], state: State, settings: Settings, *, lists_again: bool = True
) -> tuple[Tool, ...]:
    """Return the tools to list now, in the given order: the usable ones, for the workspace's languages.

    The tools of a REPL that is being restarted stay. A client that is not known to list again also gets the tools
    that a REPL would make usable, as long as none is connected or one is still to come: it would never see them
    otherwise. Until then a call of one is refused. A tool of another language still answers calls: the call may create
    the first file of that language.
    """
    languages, promised = state.languages(), state.promised()
    spoken = (tool for tool in tools if not tool.languages or languages.intersection(tool.languages))
    spoken = (tool if tool.elsewhere is None or LISP in languages else tool.elsewhere for tool in spoken)
    repls = state.repls.values()
    are_known = any(repl.phase == "connected" for repl in repls) and not any(repl.is_coming for repl in repls)

    def may_be_listed(tool: Tool) -> bool:
        obstacle = refusal(tool, state, settings)
        if not isinstance(obstacle, CapabilityMissingError):
            return obstacle is None
        # An application is seldom there, and its tools are dear.
        return bool(promised.intersection(tool.needs)) or (
            not (lists_again or are_known) and obstacle.capability != "seam"
        )

    return tuple(filter(may_be_listed, spoken))


def _provider(capability: str, state: State, settings: Settings) -> str:
    """Return the way to a capability that no connected REPL has, in words."""
    ways = {
        repl.profile.missing[capability]
        for repl in state.repls.values()
        if repl.profile and capability in repl.profile.missing
    }
    if ways:
        return "; ".join(sorted(ways))
    is_of_kernels = capability == "cells"
    coming = ", ".join(
        repl.key
        for repl in state.repls.values()
        if repl.is_coming
        # A REPL that failed is started again, and may well fail again: the reason is told.
        and not (repl.phase == "waiting" and repl.note)
        and (not is_of_kernels or repl.origin.text.startswith("jupyter"))
    )
    if is_of_kernels and not coming:
        return f"a Jupyter kernel has it: {to_have_kernel(state)}"
    if coming:
        return f"the REPL {coming} is starting: call again when list_sessions shows it connected"
    gone = "; ".join(
        f"{repl.key}: {repl.note}"
        for repl in state.repls.values()
        if repl.phase in ("stopped", "waiting") and repl.note
    )
    if waiting := [repl.note for repl in state.repls.values() if repl.note and TRUST in repl.note]:
        return "; ".join(waiting)
    why = f" ({gone})" if gone else ""
    start = "start one (its port file is found within a second)"
    if settings.repl or why:
        return f"no connected REPL has it{why}: {start}, or see status"
    return f"no connected REPL has it: {to_name_one(state)}, or {start}"


def to_have_kernel(state: State, kernelspec: str = "") -> str:
    """Return the words for adding a Jupyter kernel to this server, next to the REPLs that it has started."""
    started = [repl.origin.text for repl in state.repls.values() if repl.owned and not repl.is_stand_in]
    wanted = ", ".join(f"'{words}'" for words in (*started, f"{JUPYTER}:{kernelspec}" if kernelspec else JUPYTER))
    return f"put repl = [{wanted}] in codriver.toml and have the user run codriver trust: a running server starts it"


def to_name_one(state: State) -> str:
    """Return the words for naming a REPL in the settings: the one that the files call for, else Python's."""
    repl = state.repl_of_files or ("" if LISP in state.languages() else PYTHON)
    trusted = " and have the user run `codriver trust`" if state.repl_needs_trust else ""
    is_known = f", or have the user run `codriver init`, which has {repl} started" if state.repl_of_files else ""
    return f"put repl = ['{repl}'] in codriver.toml{trusted}{is_known}" if repl else "name one as repl in codriver.toml"


logger = logging.getLogger(__name__)


async def run(tool: Tool, call: Call, arguments: Json) -> Answer:
    """The answer of the tool, if it can be used now. For any tool, its caller's name has to be valid.

    Raises:
        RefusedError: the tool cannot be used now, or refuses.
    """
    core = call.services.core
    if tool.needs and core.state.lifecycle.is_searching:
        await await_search(core)
    if tool.added and not tool.own_names.issuperset(arguments):
        call, arguments = with_added(tool, call, arguments)
    given = None
    if tool.needs and call.services.hooks.before and not switched_off(tool, call.services.live.settings):
        given = await parsed(tool, call, arguments)
        for prepare in call.services.hooks.before:
            await prepare(call, tool.name, getattr(given, "repl_session_key", None))
    obstacle, waited_ms = refusal(tool, core.state, call.services.live.settings), 0
    if obstacle is not None:
        given = given or await parsed(tool, call, arguments)
        began = anyio.current_time()
        most_ms = call.wait_ms(getattr(given, "timeout_ms", None))
        obstacle = await await_start(tool, core, call.services.live.settings, most_ms / 1000)
        waited_ms = round((anyio.current_time() - began) * 1000)
    if obstacle is not None:
        raise obstacle
    given = given or await parsed(tool, call, arguments)
    if given.who is not None:
        call.note_name(given.who)
    if waited_ms > SHORT_WAIT_MS and isinstance(limit := getattr(given, "timeout_ms", 0), int) and limit:
        # The caller's limit is that of the whole call.
        given = given.model_copy(update={"timeout_ms": max(limit - waited_ms, SHORT_WAIT_MS)})
    return await tool.run(call, given)


async def answer(tool: Tool, call: Call, arguments: Json) -> Answer:
    """Return the tool's answer in the envelope, whatever happens; only a cancelled call gives none."""
    try:
        given = await run(tool, call, arguments)
        if given.is_bare:
            return given
        fields = {"ok": given.ok, **given.fields, **await _unrecorded(call)}
        return Answer(
            fields,
            given.ok,
            given.images,
            given.has_numbers,
            handed_out=given.handed_out,
            shows_sensitive=given.shows_sensitive,
        )
    except RefusedError as error:
        fields = {"reason": error.reason, "message": error.message, "hint": error.hint, **error.details}
        fields |= await _unrecorded(call)
    except ReplDisconnectedError as error:
        hint = "it is tried again by itself: look at list_sessions, and check what was done before you repeat it"
        fields = {"reason": "repl-disconnected", "message": str(error), "hint": hint}
    except Exception as error:
        logger.exception("the tool %s failed", tool.name)
        message = f"{tool.name} failed inside codriver: {type(error).__name__}"
        hint = "this is a fault of codriver: server_health counts it, and the server's log has the details"
        fields = {"reason": "internal-error", "message": message, "hint": hint}
    return Answer({"ok": False, **fields}, ok=False)


async def _unrecorded(call: Call) -> dict[str, object]:
    """The field that says that code of this call's evaluations is not in the history's file; none if it is."""
    history = call.services.history
    if history.is_recorded(call.evaluations) or await history.await_recorded(call.evaluations):
        return {}
    return {"recorded": False}


def with_added(tool: Tool, call: Call, arguments: Json) -> tuple[Call, Json]:
    """Return the call with the arguments that features add to the tool, validated, and the tool's own arguments.

    Raises:
        RefusedError: an added argument does not fit.
    """
    added: dict[type, Any] = {}
    own = dict(arguments)
    for model in tool.added:
        fields = fields_of(model)
        given = {name: own.pop(name) for name in arguments if name_meant(model, name) in fields and name in own}
        if given:
            added[model] = _validated(tool, model, given, str)
    return (call.with_added(added), own) if added else (call, arguments)


async def parsed(tool: Tool, call: Call, arguments: Json) -> Arguments:
    """Return the arguments as the tool's own type, their files read as those of the workspace.

    Raises:
        RefusedError: as `parse` says.
    """
    if not has_unusual_path(tool.arguments, arguments):
        return parse(tool, arguments)
    path_of = path_reader(call.services.workspace)
    return await call.services.work.files.run(call.client, partial(parse, tool, arguments, path_of))


def parse(tool: Tool, arguments: Json, path_of: Callable[[str], str] = str) -> Arguments:
    """Return the arguments as the tool's own type.

    Raises:
        RefusedError: the arguments do not fit; every problem is reported by argument.
    """
    return _validated(tool, tool.arguments, arguments, path_of)


def _validated(tool: Tool, model: type[G], arguments: Json, path_of: Callable[[str], str]) -> G:
    reader = Reader(path_of)
    read = reader.read(model, arguments)
    if reader.problems:
        raise _bad_arguments(tool, reader.problems)
    try:
        return model.model_validate(read)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        raise _bad_arguments(tool, [_problem(tool, one["loc"], one["type"], one["msg"]) for one in found]) from error


def _problem(tool: Tool, place: Place, kind: str, message: str) -> Problem:
    if kind == "extra_forbidden":
        model, _ = model_at(tool.arguments, place)
        models = (model, *tool.added) if len(place) == 1 else (model,)
        near = next(filter(None, (nearest(one, str(place[-1])) for one in models)), None)
        return Problem(place, "there is no such argument" + (f": is {near} meant?" if near else ""))
    if kind == "too_short" and place and isinstance(place[-1], str):
        return Problem((*place, 0), "the list is empty: give at least one")
    return Problem(place, message.removeprefix("Value error, "))


def _bad_arguments(tool: Tool, problems: list[Problem]) -> RefusedError:
    """Return the refusal that names each problem, and every argument that can be given where there is one."""
    known: dict[str, list[str]] = {}
    for problem in problems:
        model, place = model_at(tool.arguments, problem.place)
        words = f"each of {'.'.join(map(str, place))} takes" if place else f"the arguments of {tool.name} are:"
        added = () if place else [name for one in tool.added for name in fields_of(one)]
        known[words] = [*fields_of(model), *added]
    rows = [
        {"argument": ".".join(map(str, problem.place)) or "arguments", "problem": problem.text} for problem in problems
    ]
    lines = "; ".join(f"{row['argument']}: {row['problem']}" for row in rows)
    return refused(
        "bad-arguments",
        f"{tool.name} cannot use these arguments: {lines}",
        hint="; ".join(f"{words} {', '.join(names) or 'none'}" for words, names in known.items()),
        details={"problems": rows},
    )


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
