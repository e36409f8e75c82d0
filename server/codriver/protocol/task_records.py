"""One task: a tool's call whose client does not wait for its answer, and what the client is told of it.

A task follows the evaluation that its call began. Source: MCP 2025-11-25, tasks, and the extension
`io.modelcontextprotocol/tasks` of 2026-07-28, whose words for the same things differ a little.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import anyio

from codriver.core.values import HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.core.values import Evaluation
    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.calls import Answered

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

ID_BYTES = 16
"""128 random bits: nobody guesses one."""
POLL_MS = 1000
ANSWER = "text"
"""The name of what is typed, in an answer to a question for input."""


@dataclass(eq=False, slots=True)
class Task:
    """A call that goes on by itself, for as long as its client may ask for it."""

    client: ClientSession
    ttl_ms: int
    takes_input: bool
    """Whether the client can ask its user for input. Else the call ends where the code wants some."""
    fails: bool
    """Whether an answer that tells of an error makes the task a failed one, as 2025-11-25 has it."""
    now: Callable[[], int]
    on_change: Callable[[Task], None]
    """Called whenever `status` is another, once the client knows of the task."""
    id: str = field(default_factory=lambda: secrets.token_hex(ID_BYTES))
    is_detached: bool = False
    """Whether the client knows of the task, and its call is answered: then nothing ends with the call."""
    status: TaskStatus = "working"
    words: str = ""
    """How it stands, for people and models."""
    evaluation: str | None = None
    question: int = 0
    """The number of the last question for input. Each has a number of its own."""
    heard: int = 0
    """The length of what the code had printed when it was last given input."""
    answered: Answered | None = None
    """The call's answer, once it is over."""
    fault: dict[str, Any] | None = None
    """Or the JSON-RPC error that is its answer."""
    created_ms: int = field(init=False)
    updated_ms: int = field(init=False)
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def __post_init__(self) -> None:
        self.created_ms = self.updated_ms = self.now()

    @property
    def is_over(self) -> bool:
        """Whether its status stays as it is."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def is_answered(self) -> bool:
        """Whether its call is over, too."""
        return self.answered is not None or self.fault is not None

    @property
    def bytes(self) -> int:
        """The size of its answer, about."""
        given = self.answered
        return 0 if given is None else len(given.text) + sum(len(image.data) for image in given.images)

    @property
    def key(self) -> str:
        """The name of the last question."""
        return f"input-{self.question}"

    async def wait_changed(self) -> None:
        """Wait until anything of it is another."""
        await self._changed.wait()

    def note(self, evaluation: Evaluation) -> None:
        """Follow the evaluation that the call waits for."""
        self.evaluation = evaluation.id
        if self.is_over:
            return
        if evaluation.status == "needs-input" and self.takes_input:
            if self.status != "input_required":
                self.question += 1
                self._become("input_required", f"evaluation {evaluation.id} waits for input")
        elif self.status == "input_required" or not self.words:
            state = "is running" if evaluation.status in HELD else "is queued"
            self._become("working", f"evaluation {evaluation.id} {state}: get_evaluation tells more")

    def say(self, words: str) -> None:
        """Tell how far it is."""
        if self.status == "working":
            self.words, self.updated_ms = words, self.now()

    def end(self, answered: Answered) -> None:
        """The call gave its answer."""
        self.answered = answered
        if not self.is_over:
            is_failed = self.fails and not answered.ok
            self._become("failed" if is_failed else "completed", "" if answered.ok else _reason(answered))
        self._wake()

    def fail(self, error: dict[str, Any]) -> None:
        """The call failed by a fault of ours, or was given up."""
        self.fault = error
        if not self.is_over:
            self._become("failed", str(error["message"]))
        self._wake()

    def cancel(self) -> None:
        """Its client wants it no more. Its call may take a little longer."""
        self._become("cancelled", "cancelled by its client")

    def _become(self, status: TaskStatus, words: str) -> None:
        is_news = status != self.status
        self.status, self.words, self.updated_ms = status, words, self.now()
        self._wake()
        if is_news and self.is_detached:
            self.on_change(self)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def older(self) -> dict[str, Any]:
        """The task as 2025-11-25 tells it."""
        return {**self._about(), "ttl": self.ttl_ms, "pollInterval": POLL_MS}

    def newer(self) -> dict[str, Any]:
        """The task as the extension tells it, without what `newer_in_detail` adds."""
        return {**self._about(), "ttlMs": self.ttl_ms, "pollIntervalMs": POLL_MS}

    def newer_in_detail(self, result: Callable[[Answered], dict[str, Any]], prompt: str) -> dict[str, Any]:
        """The task as the extension tells it, with its result, its error or its question."""
        told = self.newer()
        if self.status == "input_required":
            told["inputRequests"] = {self.key: {"method": "elicitation/create", "params": self.asked(prompt)}}
        elif self.status == "completed" and self.answered is not None:
            told["result"] = result(self.answered)
        elif self.status == "failed":
            told["error"] = self.fault
        return told

    def asked(self, prompt: str) -> dict[str, Any]:
        """The question for input, as an elicitation by a form."""
        form = {"type": "object", "properties": {ANSWER: {"type": "string", "title": "Input"}}, "required": [ANSWER]}
        printed = f" It printed: {prompt}" if prompt else ""
        message = f"The code of evaluation {self.evaluation} waits for a line of input.{printed}"
        return {"mode": "form", "message": message, "requestedSchema": form}

    def _about(self) -> dict[str, Any]:
        about = {"taskId": self.id, "status": self.status, "statusMessage": self.words}
        times = {"createdAt": _time(self.created_ms), "lastUpdatedAt": _time(self.updated_ms)}
        return {key: value for key, value in (about | times).items() if value}


def _reason(answered: Answered) -> str:
    """Why the tool did not do what was asked, in its own words."""
    fields = json.loads(answered.text)
    error = fields.get("error")
    said = fields.get("message") or (error.get("message") if isinstance(error, dict) else None)
    return str(said or fields.get("reason", ""))


def _time(epoch_ms: int) -> str:
    return datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat(timespec="milliseconds")
