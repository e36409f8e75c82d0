"""Check whether a tool is available, and run a call of it, turning errors into answers.

Listing and calling use the same decision, because clients cache lists.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

import anyio
from pydantic import ValidationError

from codriver.core.profiles import LISP, PYTHON
from codriver.core.recent_repls import is_eligible, recent_repl_ids
from codriver.errors import Reason, RefusedError, ReplDisconnectedError, refused
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.settings.model import Settings, name_in_files
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.argument_reading import (
    ArgumentError,
    ArgumentReader,
    Position,
    find_model,
    has_unusual_path,
    make_path_reader,
    model_fields,
    resolve_argument_name,
    suggest_argument,
)
from codriver.tools.calls.arguments import MIN_WAIT_MS, ArgumentModel, Arguments, Json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from codriver.core.dispatch import Core
    from codriver.core.state import State
    from codriver.tools.calls.call import Call
    from codriver.tools.calls.tool import Tool


G = TypeVar("G", bound=ArgumentModel)

CHECK_INTERVAL_S = 0.02
"""Interval, in seconds, for checking the state that a call is waiting for."""
CONNECT_TIMEOUT_S = 2.0
"""Maximum time for newly found REPLs to connect before one is chosen, in seconds.

Attempts to connect to a port that does not answer take 5 s.
"""
PREPARE_INTERVAL_S = 0.1
"""Interval for checking whether a session has become available, in seconds."""
SEARCH_TIMEOUT_S = 10.0
"""Time limit for the first search for REPLs. Unless the disk hangs, a search takes at most a second."""


def switched_off_error(tool: str, name: str, settings: Settings, outcome: str = "") -> RefusedError:
    """Create the error for a tool that is switched off by the setting `name` or by a machine policy."""
    setting, policy = name_in_files(name), settings.policy_path(name)
    if policy is not None:
        return refused(
            "switched-off",
            f"{tool} is switched off on this machine by {policy}{outcome}",
            hint="Only an administrator of this machine can switch it on in that file.",
        )
    return refused(
        "switched-off",
        f"{tool} is switched off by this workspace's setting {setting}{outcome}",
        hint=f"Only the user can switch it on with {setting} = true. `codriver config show` prints where it is set.",
    )


async def await_languages(core: Core) -> None:
    """Wait until the workspace's files have been inspected.

    Which tools are listed depends on the languages of the files.
    """
    with anyio.move_on_after(SEARCH_TIMEOUT_S):
        while core.state.languages_of_files is None:
            await anyio.sleep(CHECK_INTERVAL_S)


async def await_search(core: Core) -> None:
    """Wait until the first search for REPLs has finished.

    Which tools can be used depends on the REPLs that it finds.
    """
    with anyio.move_on_after(SEARCH_TIMEOUT_S):
        while core.state.lifecycle.is_searching:
            await anyio.sleep(CHECK_INTERVAL_S)


async def await_start(tool: Tool, core: Core, settings: Settings, most_s: float) -> RefusedError | None:
    """Wait at most `most_s` seconds for a REPL that can serve a tool.

    Returns the error for the call if no such REPL has connected, and None if the tool can be used.
    """
    with anyio.move_on_after(most_s):
        while isinstance(obstacle := why_unavailable(tool, core.state, settings), CapabilityMissingError):
            is_coming = any(repl.is_awaited and repl.phase != "waiting" for repl in core.state.repls.values())
            if not (is_coming or core.state.lifecycle.has_unread_port_files):
                break
            await anyio.sleep(CHECK_INTERVAL_S)
    return obstacle


async def await_candidates(call: Call, given: Arguments) -> None:
    """Wait briefly for REPLs that are connecting for the first time, because the call may use one of them."""
    with anyio.move_on_after(CONNECT_TIMEOUT_S):
        while is_choice_open(call.state, recent_repl_ids(call.state, call.client, call.who(given.who))):
            await anyio.sleep(CHECK_INTERVAL_S)


async def await_session(call: Call, given: Arguments, key: str) -> None:
    """Wait for the session that a call names, if it may still be found.

    The call's time limit also applies to this wait. The session may be found while REPLs are searched for or connect
    for the first time, and shortly after the call, because an application may have just been started.
    """
    started = anyio.current_time()
    with anyio.move_on_after(call.wait_ms(getattr(given, "timeout_ms", None)) / 1000):
        while not call.state.has_session(key):
            lifecycle = call.state.lifecycle
            is_coming = any(repl.is_awaited and not repl.is_owned for repl in call.state.repls.values())
            is_searching = lifecycle.is_searching or lifecycle.has_unread_port_files
            if not (is_coming or is_searching) and anyio.current_time() > started + call.services.durations.found_s:
                return
            await anyio.sleep(PREPARE_INTERVAL_S)
            await prepare_repl(call, given)


async def prepare_repl(call: Call, given: Arguments) -> None:
    """Call the hooks with which features find or connect the REPL that a call needs."""
    for hook in call.services.hooks.before:
        await hook(call, given)


def is_choice_open(state: State, used: Sequence[str]) -> bool:
    """Return whether a REPL that is connecting for the first time may still be chosen.

    `used` contains the ids of the REPLs that the caller has used before.
    """
    able = [repl for repl in state.repls.values() if repl.phase != "stopped" and is_eligible(repl, used)]
    is_coming = any(repl.is_awaited and not repl.is_owned for repl in able)
    return len(able) > 1 and is_coming and not any(repl.id in used for repl in able)


def why_unavailable(tool: Tool, state: State, settings: Settings) -> RefusedError | None:
    """Return the error for calling a tool that is currently unavailable, or None if it can be used."""
    if obstacle := check_switched_off(tool, settings):
        return obstacle
    if tool.needs and not state.has_any(tool.needs) and not state.capabilities().intersection(tool.needs):
        capability = tool.needs[0]
        is_any = any(repl.phase == "connected" for repl in state.repls.values())
        message = None if is_any else f"no REPL is connected, and {tool.name} needs one"
        return CapabilityMissingError(capability, _describe_provider(tool, state, settings), message=message)
    return None


def check_switched_off(tool: Tool, settings: Settings, *, by: str = "") -> RefusedError | None:
    """Return the error for calling a tool that is switched off, or None if it is not.

    `by` is the name of the call to mention in the message, if it is not a call of this tool.
    """
    if tool.setting is None or getattr(settings, tool.setting):
        return None
    return switched_off_error(by or tool.name, tool.setting, settings, ", so nothing was written" if by else "")


def require_editing_allowed(act: str, settings: Settings) -> None:
    """Check that files in the workspace may be edited.

    Raises:
        RefusedError: editing is switched off.
    """
    if not settings.enable_edits:
        raise switched_off_error(act, "enable_edits", settings)


def tools_to_list(
    tools: tuple[Tool, ...], state: State, settings: Settings, *, lists_again: bool = True
) -> tuple[Tool, ...]:
    """Return the tools that a client should list now, in the given order.

    These are the usable tools for the workspace's languages, and those of a REPL that is restarting. If `lists_again`
    is false, the client never sees later changes to the list. It then also gets the tools that become usable when a
    REPL connects. Calls of such a tool are refused until then. Tools for other languages are not listed, but can be
    called.
    """
    languages, promised = state.languages(), state.expected_capabilities()
    spoken = (tool for tool in tools if not tool.languages or languages.intersection(tool.languages))
    spoken = (tool if tool.without_lisp is None or LISP in languages else tool.without_lisp for tool in spoken)
    repls = state.repls.values()
    are_known = any(repl.phase == "connected" for repl in repls) and not any(repl.is_awaited for repl in repls)

    def may_be_listed(tool: Tool) -> bool:
        obstacle = why_unavailable(tool, state, settings)
        if not isinstance(obstacle, CapabilityMissingError):
            return obstacle is None
        return bool(promised.intersection(tool.needs)) or (not (tool.is_rare or lists_again or are_known))

    return tuple(filter(may_be_listed, spoken))


def _describe_provider(tool: Tool, state: State, settings: Settings) -> str:
    """Describe how to get the capability that a tool needs but no connected REPL has."""
    capability, source = tool.needs[0], tool.source
    ways = {
        repl.profile.missing[capability]
        for repl in state.repls.values()
        if repl.profile and capability in repl.profile.missing
    }
    if ways:
        return "; ".join(sorted(ways))
    coming = ", ".join(
        repl.key
        for repl in state.repls.values()
        if repl.is_awaited
        # A REPL that failed is started again and may fail again, so the reason is included.
        and not (repl.phase == "waiting" and repl.note)
        and (source is None or source.may_have(repl))
    )
    if source is not None and not coming:
        return source.advice(state)
    if coming:
        return f"the REPL {coming} is starting. Call again when list_sessions lists it as connected"
    gone = "; ".join(
        f"{repl.key}: {repl.note}"
        for repl in state.repls.values()
        if repl.phase in ("stopped", "waiting") and repl.note
    )
    if waiting := [repl.note for repl in state.repls.values() if repl.note and repl.is_not_accepted]:
        return "; ".join(waiting)
    why = f" ({gone})" if gone else ""
    start = "start one, and Codriver will find it by its port file within a second"
    if settings.repl or why:
        return f"no connected REPL supports {tool.name}{why}: {start}, or see status"
    return f"no connected REPL supports {tool.name}: {describe_repl_setup(state)}, or {start}"


def describe_repl_setup(state: State) -> str:
    """Describe how to configure a REPL for the language of the workspace's files."""
    repl = state.repl_of_files or ("" if LISP in state.languages() else PYTHON)
    trusted = " and have the user run `codriver trust`" if state.repl_needs_trust else ""
    is_known = f", or have the user run `codriver init`, which configures {repl}" if state.repl_of_files else ""
    return f"set repl = ['{repl}'] in codriver.toml{trusted}{is_known}" if repl else "set repl in codriver.toml"


logger = logging.getLogger(__name__)


async def run_tool(tool: Tool, call: Call, arguments: Json) -> Answer:
    """Validate the arguments of a call, run the tool, and return its answer.

    Raises:
        RefusedError: the tool cannot be used now, or it refuses the call.
    """
    core = call.services.core
    if tool.needs and core.state.lifecycle.is_searching:
        await await_search(core)
    if tool.added and not tool.base_arguments.issuperset(arguments):
        call, arguments = with_added_arguments(tool, call, arguments)
    given, started_s = None, time.monotonic()
    if not check_switched_off(tool, call.services.live.settings):
        given = await parse_tool_arguments(tool, call, arguments)
        key: str | None = getattr(given, "repl_session_key", None)
        if tool.needs or given.chooses_session or key is not None:
            await prepare_repl(call, given)
        if key is not None and not core.state.has_session(key):
            await await_session(call, given, key)
        if given.chooses_session and len(core.state.repls) > 1:
            await await_candidates(call, given)
    obstacle = why_unavailable(tool, core.state, call.services.live.settings)
    if obstacle is not None:
        given = given or await parse_tool_arguments(tool, call, arguments)
        most_ms = call.wait_ms(getattr(given, "timeout_ms", None))
        obstacle = await await_start(tool, core, call.services.live.settings, most_ms / 1000)
    if obstacle is not None:
        raise obstacle
    given = given or await parse_tool_arguments(tool, call, arguments)
    waited_ms = round((time.monotonic() - started_s) * 1000)
    if given.who is not None:
        call.remember_name(given.who)
    if waited_ms > MIN_WAIT_MS and isinstance(limit := getattr(given, "timeout_ms", 0), int) and limit:
        # The caller's time limit applies to the whole call.
        given = given.model_copy(update={"timeout_ms": max(limit - waited_ms, MIN_WAIT_MS)})
    return await tool.run(call, given)


async def answer_call(tool: Tool, call: Call, arguments: Json) -> Answer:
    """Run a tool and return its answer with the common fields. Errors become answers, too."""
    try:
        given = await run_tool(tool, call, arguments)
        if given.is_bare:
            return given
        fields = {"ok": given.ok, **given.fields, **await _unrecorded_field(call)}
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
        fields |= await _unrecorded_field(call)
    except ReplDisconnectedError as error:
        hint = (
            "Codriver reconnects automatically. See list_sessions, and check what was done before you repeat the call."
        )
        fields = {"reason": "repl-disconnected", "message": str(error), "hint": hint}
    except Exception as error:
        logger.exception("the tool %s failed", tool.name)
        message = f"{tool.name} failed because of an internal error: {type(error).__name__}"
        hint = "This is a bug in Codriver. server_health counts it, and the server's log has the details."
        fields = {"reason": "internal-error", "message": message, "hint": hint}
    return Answer({"ok": False, **fields}, ok=False)


async def _unrecorded_field(call: Call) -> dict[str, object]:
    """Return a field for the answer if this call's code could not be written to the history file."""
    history = call.services.history
    if history.is_recorded(call.evaluations) or await history.await_recorded(call.evaluations):
        return {}
    return {"recorded": False}


def with_added_arguments(tool: Tool, call: Call, arguments: Json) -> tuple[Call, Json]:
    """Separate the arguments that features added from the tool's other arguments.

    Returns the call with the features' validated arguments, and the remaining arguments.

    Raises:
        RefusedError: an added argument is invalid.
    """
    added: dict[type, Any] = {}
    of_tool = dict(arguments)
    for model in tool.added:
        fields = model_fields(model)
        given = {
            name: of_tool.pop(name)
            for name in arguments
            if resolve_argument_name(model, name) in fields and name in of_tool
        }
        if given:
            added[model] = _validate_arguments(tool, model, given, str)
    return (call.with_added(added), of_tool) if added else (call, arguments)


async def parse_tool_arguments(tool: Tool, call: Call, arguments: Json) -> Arguments:
    """Convert arguments to the tool's model, and resolve file arguments relative to the workspace.

    Raises:
        RefusedError: see `parse_arguments`.
    """
    if not has_unusual_path(tool.arguments, arguments):
        return parse_arguments(tool, arguments)
    path_of = make_path_reader(call.services.workspace)
    return await call.services.work.files.run(call.client, partial(parse_arguments, tool, arguments, path_of))


def parse_arguments(tool: Tool, arguments: Json, path_of: Callable[[str], str] = str) -> Arguments:
    """Convert arguments to the tool's model.

    Raises:
        RefusedError: an argument is invalid. The message describes all errors.
    """
    return _validate_arguments(tool, tool.arguments, arguments, path_of)


def _validate_arguments(tool: Tool, model: type[G], arguments: Json, path_of: Callable[[str], str]) -> G:
    """Convert arguments to a model.

    Raises:
        RefusedError: an argument is invalid. The message describes all errors.
    """
    reader = ArgumentReader(path_of)
    read = reader.read(model, arguments)
    if reader.errors:
        raise _bad_arguments_error(tool, reader.errors)
    try:
        return model.model_validate(read, context=tool.added_inside)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        missing = [item["loc"] for item in found if item["type"] == "missing"]
        unknown = [item["loc"] for item in found if item["type"] == "extra_forbidden"]
        is_renamed = len(missing) == len(unknown) == 1 and missing[0][:-1] == unknown[0][:-1]
        required = str(missing[0][-1]) if is_renamed else None
        errors = [_to_argument_error(tool, item["loc"], item["type"], item["msg"], required) for item in found]
        raise _bad_arguments_error(tool, errors) from error


def _to_argument_error(tool: Tool, position: Position, kind: str, message: str, missing: str | None) -> ArgumentError:
    """Convert a pydantic error to one that helps the caller, for example by suggesting a similar name.

    `missing` is the only missing argument, if any.
    """
    if kind == "extra_forbidden":
        model, _ = find_model(tool.arguments, position)
        models = (model, *(tool.added if len(position) == 1 else tool.added_inside.get(model, ())))
        near = next(
            filter(None, (suggest_argument(candidates, str(position[-1]), missing) for candidates in models)), None
        )
        return ArgumentError(position, "there is no such argument" + (f"; did you mean {near}?" if near else ""))
    if kind == "too_short" and position and isinstance(position[-1], str):
        return ArgumentError((*position, 0), "the list is empty. Pass at least one item")
    return ArgumentError(position, message.removeprefix("Value error, "))


def _bad_arguments_error(tool: Tool, errors: list[ArgumentError]) -> RefusedError:
    """Create the error for invalid arguments. It lists the valid ones if a name is unknown."""
    known: dict[str, list[str]] = {}
    for error in errors:
        model, position = find_model(tool.arguments, error.position)
        words = f"each of {'.'.join(map(str, position))} accepts" if position else f"the arguments of {tool.name} are:"
        models = tool.added_inside.get(model, ()) if position else tool.added
        added = [name for candidate in models for name in model_fields(candidate)]
        known[words] = [*model_fields(model), *added]
    lines = "; ".join(f"{'.'.join(map(str, error.position)) or 'arguments'}: {error.text}" for error in errors)
    return refused(
        "bad-arguments",
        f"{tool.name} cannot use these arguments: {lines}",
        hint="; ".join(f"{words} {', '.join(names) or 'none'}" for words, names in known.items()),
    )


BASE_REASONS: Final = frozenset(get_args(Reason))
"""All values of `reason` in the answers of base tools."""
