"""The tool `watch_calls`: record the calls to a function while the program is running."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, ClassVar, Final
from uuid import uuid4

from pydantic import Field

from codriver.errors import refused
from codriver.features.traces.call_watches import WATCH_OP, CallWatch, CallWatches
from codriver.repls.contract.adapter import CapabilityMissingError
from codriver.tools.calls.answer import Answer, answer_schema
from codriver.tools.calls.arguments import Arguments
from codriver.tools.calls.session_choice import choose_session
from codriver.tools.calls.tool import Tool
from codriver.wire.untrusted import mapping_or_empty

if TYPE_CHECKING:
    from codriver.tools.calls.call import Call

DEFAULT_CALL_LIMIT: Final = 50
"""Number of calls after which a watch ends by default."""
MAX_CALL_LIMIT: Final = 1000
"""Maximum limit that a caller may specify."""
WATCHED_CALLS_QUERY: Final = (
    '[:find ?l ?t :in $ $calls :where [$calls ?e :output/watch "%s"] [$calls ?e :output/line ?l] '
    "[$calls ?e :output/text ?t]]"
)
"""Query for `wait_for` that matches the calls recorded by a watch."""
BAD_ARGUMENTS_HINT: Final = (
    "pass the name of a function in a loaded module, and use only its arguments in the condition"
)
UNSUPPORTED_MESSAGE: Final = "watch_calls needs Codriver's embedded REPL or an ipykernel, with Python 3.12 or later"


class WatchCallsArguments(Arguments):
    """Arguments of `watch_calls`: the function, the condition, and the number of calls to record."""

    CHOOSES_SESSION: ClassVar[bool] = True

    function: str = Field(description="module.function or module.Class.method.")
    condition: str = Field("", description="Python over the arguments: n > 3.")
    limit: int = Field(DEFAULT_CALL_LIMIT, ge=0, le=MAX_CALL_LIMIT, description="0: stop.")
    repl_session_key: str | None = None


async def watch_calls(call: Call, arguments: WatchCallsArguments) -> Answer:
    """Start watching the calls to a function.

    If the limit is 0, end the caller's watches for the function instead.
    """
    who = call.who(arguments.who)
    repl = choose_session(call, arguments.repl_session_key, who).repl
    watches = call.services.part(CallWatches)
    if arguments.limit == 0:
        active = watches.find(repl.id, who, arguments.function)
        for watch in active:
            await watches.end(watch)
        return Answer({"existed": bool(active)})
    if repl.dialect != "python":
        raise CapabilityMissingError("trace", message=UNSUPPORTED_MESSAGE)
    since = call.services.log.next_line - 1
    watch = CallWatch(uuid4().hex, repl.id, repl.generation, call.client, who, arguments.function)
    query = {"function": arguments.function, "condition": arguments.condition, "limit": arguments.limit}
    watches.add(watch)
    try:
        fields = {"watch": watch.id, "args": json.dumps(query)}
        answer = mapping_or_empty(json.loads(await call.services.repls.adapter(repl.id).call_op(WATCH_OP, fields)))
    except CapabilityMissingError:
        watches.forget(watch)
        raise CapabilityMissingError("trace", message=UNSUPPORTED_MESSAGE) from None
    except BaseException:
        watches.forget(watch)
        raise
    if "refused" in answer:
        watches.forget(watch)
        if answer["refused"] == "capability-missing":
            raise CapabilityMissingError("trace", message=str(answer["message"]))
        raise refused("bad-arguments", str(answer["message"]), hint=BAD_ARGUMENTS_HINT)
    watches.end_if_disconnected(watch)
    location = str(answer.get("at")).replace(f"{call.services.workspace}/", "")
    return Answer({"at": location, "since": since, "query": WATCHED_CALLS_QUERY % watch.id})


TOOL: Final = Tool(
    name="watch_calls",
    title="Watch calls",
    description="Record calls to a Python function in the log's $calls while the program runs. Then call wait_for.",
    arguments=WatchCallsArguments,
    output=answer_schema(at="string", since="integer", query="string", existed="boolean"),
    run=watch_calls,
    needs=("evaluate",),
    setting="enable_mcp_repl_evaluation",  # a condition is code
    search_hint="logpoints: arguments, result and caller of calls",
)
