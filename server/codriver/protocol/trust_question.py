"""Ask the user, through the client, whether the project's own interpreter may run.

The request is an elicitation with a form, for clients that declare support for forms. It is sent once per client, after
an answer from an interpreter that is used in place of the project's. Nothing waits for its answer, and only the exact
word counts: a client that declines, does not answer or returns the form unchanged grants nothing. A client without a
handshake can be asked only through the answer to a call. So its user is asked when the agent wants to restart the REPL,
and the client then repeats the call.

Only a Python interpreter can be allowed in this way. A project's REPL in any other language runs a command with the
project's files (`clojure` reads `deps.edn`, Leiningen runs `project.clj`), and commands can only be allowed by
`codriver trust`, which the answer of such a REPL names.

Source: MCP 2025-06-18, elicitation; 2025-11-25, its modes; 2026-07-28, requests that take several rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.actions import AddServerLine, RestartRepl
from codriver.core.profiles import PYTHON
from codriver.net.task_set import TaskSet
from codriver.protocol.calls import encode_json
from codriver.protocol.error_messages import CALL, CAPABILITIES_KEY, input_responses, is_stateless, request_meta

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Tool

ELICIT_METHOD: Final = "elicitation/create"
CANCELLED_METHOD: Final = "notifications/cancelled"
REQUEST_ID_PREFIX: Final = "codriver-trust-"
"""Prefix of the ids of requests that ask for trust."""
NO, YES = "no", "this once"
"""The answers that the user can choose from."""
CHECK_INTERVAL_S: Final = 0.05
"""Interval between checks for the user's answer, in seconds."""
MAX_QUERIED_CLIENTS: Final = 256
"""Maximum number of clients whose users are asked during the lifetime of a server."""


class TrustDecisions:
    """Asks clients' users to allow running the project's interpreter, for the lifetime of a server."""

    tool = "restart_repl"
    """Tool with which an agent requests the project's own REPL instead of the stand-in."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._elicited: set[str] = set()
        """Names of the clients that were asked."""
        self._open: dict[tuple[str, str], anyio.Event] = {}
        """Event that the answer sets, by client and id."""
        self._answers: dict[tuple[str, str], object] = {}
        self._required: dict[str, str] = {}
        """Interpreter named in the answer to each client's call."""
        self._tasks = TaskSet()

    async def stop(self) -> None:
        """Stop asking, because the server is stopping."""
        await self._tasks.end()

    def request_if_needed(self, client: ClientSession, tool: Tool) -> None:
        """Ask the user of a client that has just been answered, if this is useful and the user was not asked before."""
        if client.name in self._elicited or not tool.needs or len(self._elicited) >= MAX_QUERIED_CLIENTS:
            return
        if _substitute_repls(self._services):
            self._elicited.add(client.name)
            self._tasks.start(self._elicit(client))

    async def replacement_request(self, client: ClientSession, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the request that replaces the answer to a call of `restart_repl`, or None if the call should be run.

        Only stateless calls are answered in this way, because their parameters can contain the answer to an earlier
        request.
        """
        services = self._services
        if not is_stateless(CALL, params) or services.grants is None:
            return None
        responses = input_responses(params)
        interpreter = self._required.pop(client.id, None)
        if interpreter is not None and responses is not None:
            self._conclude(client, interpreter, responses.get(ELICIT_METHOD))
            return None
        capabilities = request_meta(params).get(CAPABILITIES_KEY)
        is_able = isinstance(capabilities, dict) and supports_forms(capabilities.get("elicitation"))
        if (
            not is_able
            or client.name in self._elicited
            or len(self._elicited) >= MAX_QUERIED_CLIENTS
            or not _substitute_repls(services)
        ):
            return None
        interpreter = await anyio.to_thread.run_sync(services.grants.pending_interpreter)
        if interpreter is None:
            return None
        self._elicited.add(client.name)
        self._required[client.id] = interpreter
        requests = {ELICIT_METHOD: {"method": ELICIT_METHOD, "params": elicitation_params(interpreter)}}
        return {
            "resultType": "input_required",
            "inputRequests": requests,
            "requestState": REQUEST_ID_PREFIX + client.id,
        }

    def accept(self, client: ClientSession, message: Mapping[str, Any]) -> bool:
        """Process a message, and return whether it answers one of these requests. Late answers are ignored."""
        identity = message.get("id")
        if not isinstance(identity, str) or not identity.startswith(REQUEST_ID_PREFIX) or "method" in message:
            return False
        if (event := self._open.pop((client.id, identity), None)) is not None:
            self._answers[client.id, identity] = message.get("result")
            event.set()
        return True

    async def _elicit(self, client: ClientSession) -> None:
        """Send an elicitation to a client, and apply the user's decision."""
        services = self._services
        interpreter = (
            await anyio.to_thread.run_sync(services.grants.pending_interpreter) if services.grants is not None else None
        )
        if interpreter is None or client.has_left:
            return
        identity = f"{REQUEST_ID_PREFIX}{client.id}"
        key = (client.id, identity)
        answered = self._open[key] = anyio.Event()
        client.outbox.put(_line(id=identity, method=ELICIT_METHOD, params=elicitation_params(interpreter)))
        with anyio.move_on_after(services.durations.question_s) as silence:
            await answered.wait()
        if silence.cancelled_caught and self._open.pop(key, None) is not None:
            reason = 'the user did not answer in time, which counts as "no"'
            client.outbox.offer(_line(method=CANCELLED_METHOD, params={"requestId": identity, "reason": reason}))
        if self._conclude(client, interpreter, self._answers.pop(key, None)):
            await self._restart_with_project_python()

    def _conclude(self, client: ClientSession, python: str, result: object) -> bool:
        """Store and log the user's decision, and return whether it is positive."""
        is_yes = is_yes_answer(result)
        summary = f"the user of {client.name} {'lets' if is_yes else 'does not let'} {python} run here"
        self._services.core.report(
            AddServerLine(f"{summary}{', until this server ends' if is_yes else ''}", who=client.name)
        )
        if is_yes and self._services.grants is not None:
            self._services.grants.allow(python)
        return is_yes

    async def _restart_with_project_python(self) -> None:
        """Restart the stand-in REPLs with the project's own interpreter as soon as they are idle."""
        services = self._services
        while any(
            evaluation.repl == repl.id
            for repl in _substitute_repls(services)
            for evaluation in services.core.state.unfinished()
        ):
            await anyio.sleep(CHECK_INTERVAL_S)
        why = "the user allowed the project's own interpreter"
        services.core.report(*(RestartRepl(repl.id, why) for repl in _substitute_repls(services)))


def elicitation_params(python: str) -> dict[str, Any]:
    """Return the parameters of the elicitation about an interpreter."""
    message = (
        f"Codriver does not evaluate this project's code in the project's own Python, because the folder has not been "
        f"accepted. May it run {python} until this server ends? The REPL is then restarted and loses its definitions. "
        "Nothing else is granted, and nothing is stored. `codriver trust` accepts the folder permanently."
    )
    choice = {"type": "string", "title": "Run the project's own interpreter", "enum": [NO, YES]}
    schema = {"type": "object", "properties": {"answer": choice}, "required": ["answer"]}
    return {"message": message, "requestedSchema": schema}


def is_yes_answer(result: object) -> bool:
    """Return whether the result of an elicitation is exactly the positive answer."""
    return isinstance(result, dict) and (result.get("action"), result.get("content")) == ("accept", {"answer": YES})


def supports_forms(elicitation: object) -> bool:
    """Return whether a client supports elicitation with forms. A declaration without modes includes forms."""
    return isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)


def _substitute_repls(services: Services) -> list[Repl]:
    """Return the Python REPLs that stand in for the project's own until the user accepts the project."""
    waiting = services.core.state.repls_awaiting_acceptance()
    return [repl for repl in waiting if repl.awaits_trust and repl.dialect == PYTHON]


def _line(**message: object) -> bytes:
    return encode_json({"jsonrpc": "2.0", **message}).encode() + b"\n"
