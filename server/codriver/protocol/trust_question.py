"""The question to the human behind a client whether the project's own interpreter may run, asked beside an answer.

The question is an elicitation by a form, for clients that declare to show forms. It is asked once a client, after an
answer from an interpreter that stands in for the project's own. Nothing waits for its answer, and only the exact word
counts: a client that declines, says nothing or sends the form back unchanged grants nothing. A client without a
handshake can be asked only by the answer to a call: such a client is asked when its agent wants the REPL started anew,
and then calls again.

The question is about an interpreter of Python alone. The REPL of any other language that a project starts runs a
command with the project's files (`clojure` reads `deps.edn`, Leiningen runs `project.clj`), and a yes never grants
commands: only `codriver trust` does, which the answer of such a REPL names.

Source: MCP 2025-06-18, elicitation; 2025-11-25, modes of it; 2026-07-28, requests that take several rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.actions import AddServerLine, RestartRepl
from codriver.core.values import PYTHON
from codriver.net.task_set import TaskSet
from codriver.protocol.calls import as_json
from codriver.protocol.error_messages import CALL, CAPABILITIES_KEY, is_stateless, meta_of, responses_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Tool

ASK: Final = "elicitation/create"
CANCELLED: Final = "notifications/cancelled"
PREFIX: Final = "codriver-trust-"
"""The prefix of these requests' ids."""
NO, YES = "no", "this once"
LOOK_S: Final = 0.05
MOST_ASKED: Final = 256
"""Clients, by name, that are remembered as asked; beyond these nobody is asked any more."""


class TrustQuestions:
    """The questions of one server to its clients. Lives as long as the server."""

    tool = "restart_repl"
    """The tool by which an agent asks for another REPL than the stand-in."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._asked: set[str] = set()
        """The names of the clients that were asked."""
        self._open: dict[tuple[str, str], anyio.Event] = {}
        """By client and id: the event that is set by the answer."""
        self._answers: dict[tuple[str, str], object] = {}
        self._required: dict[str, str] = {}
        """By client: the interpreter that the answer to its call asked for."""
        self._tasks = TaskSet()

    async def end(self) -> None:
        """Ask no more, as the server stops."""
        await self._tasks.end()

    def consider(self, client: ClientSession, tool: Tool) -> None:
        """Ask this client, just answered, if it can be asked and has not been yet."""
        if client.name in self._asked or not tool.needs or len(self._asked) >= MOST_ASKED:
            return
        if _standing_in(self._services):
            self._asked.add(client.name)
            self._tasks.start(self._ask(client))

    async def required(self, client: ClientSession, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the question in place of the answer to a call of `tool` with these parameters; None to run the call.

        Only a stateless call, whose parameters may answer an earlier question, is asked in this way.
        """
        services = self._services
        if not is_stateless(CALL, params) or services.grants is None:
            return None
        responses = responses_of(params)
        wanted = self._required.pop(client.id, None)
        if wanted is not None and responses is not None:
            self._conclude(client, wanted, responses.get(ASK))
            return None
        capabilities = meta_of(params).get(CAPABILITIES_KEY)
        is_able = isinstance(capabilities, dict) and takes_forms(capabilities.get("elicitation"))
        if not is_able or client.name in self._asked or len(self._asked) >= MOST_ASKED or not _standing_in(services):
            return None
        wanted = await anyio.to_thread.run_sync(services.grants.pending_interpreter)
        if wanted is None:
            return None
        self._asked.add(client.name)
        self._required[client.id] = wanted
        asked = {ASK: {"method": ASK, "params": question(wanted)}}
        return {"resultType": "input_required", "inputRequests": asked, "requestState": PREFIX + client.id}

    def take(self, client: ClientSession, message: Mapping[str, Any]) -> bool:
        """Take in the answer to a question of ours; true if it is one, also if it comes late."""
        identity = message.get("id")
        if not isinstance(identity, str) or not identity.startswith(PREFIX) or "method" in message:
            return False
        if (event := self._open.pop((client.id, identity), None)) is not None:
            self._answers[client.id, identity] = message.get("result")
            event.set()
        return True

    async def _ask(self, client: ClientSession) -> None:
        services = self._services
        wanted = (
            await anyio.to_thread.run_sync(services.grants.pending_interpreter) if services.grants is not None else None
        )
        if wanted is None or client.has_left:
            return
        identity = f"{PREFIX}{client.id}"
        key = (client.id, identity)
        answered = self._open[key] = anyio.Event()
        client.outbox.put(_line(id=identity, method=ASK, params=question(wanted)))
        with anyio.move_on_after(services.durations.question_s) as silence:
            await answered.wait()
        if silence.cancelled_caught and self._open.pop(key, None) is not None:
            reason = "it was not answered in time, which is no"
            client.outbox.offer(_line(method=CANCELLED, params={"requestId": identity, "reason": reason}))
        if self._conclude(client, wanted, self._answers.pop(key, None)):
            await self._start_anew()

    def _conclude(self, client: ClientSession, wanted: str, result: object) -> bool:
        """Keep and log the human's answer; true for a yes."""
        is_yes = says_yes(result)
        said = f"the user of {client.name} {'lets' if is_yes else 'does not let'} {wanted} run here"
        self._services.core.report(
            AddServerLine(f"{said}{', until this server ends' if is_yes else ''}", who=client.name)
        )
        if is_yes and self._services.grants is not None:
            self._services.grants.give(wanted)
        return is_yes

    async def _start_anew(self) -> None:
        """Have the REPLs that are in started again with the project's own interpreter, each when it is idle."""
        services = self._services
        while any(one.repl == repl.id for repl in _standing_in(services) for one in services.core.state.unfinished()):
            await anyio.sleep(LOOK_S)
        why = "the user allowed the project's own interpreter"
        services.core.report(*(RestartRepl(repl.id, why) for repl in _standing_in(services)))


def question(python: str) -> dict[str, Any]:
    """Return the parameters of the elicitation."""
    message = (
        f"Codriver evaluates this project's code in another Python than the project's own, as nobody has accepted the "
        f"folder. May it run {python}, until this server ends? The REPL is then started anew, and what was "
        "defined in it is gone. Nothing else is granted, and nothing is kept: `codriver trust` accepts the folder."
    )
    choice = {"type": "string", "title": "Run the project's own interpreter", "enum": [NO, YES]}
    schema = {"type": "object", "properties": {"answer": choice}, "required": ["answer"]}
    return {"message": message, "requestedSchema": schema}


def says_yes(result: object) -> bool:
    """Return true of an elicitation's result that is the exact yes, and nothing else."""
    return isinstance(result, dict) and (result.get("action"), result.get("content")) == ("accept", {"answer": YES})


def takes_forms(elicitation: object) -> bool:
    """True of a client that declares elicitation and can show a form: a declaration without modes includes forms."""
    return isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)


def _standing_in(services: Services) -> list[Repl]:
    """Our Pythons that are in for the project's own until the user lets the project's run."""
    waiting = services.core.state.waiting_for_trust()
    return [repl for repl in waiting if repl.awaits_trust and repl.dialect == PYTHON]


def _line(**message: object) -> bytes:
    return as_json({"jsonrpc": "2.0", **message}).encode() + b"\n"
