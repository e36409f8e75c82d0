"""An evaluation that a command waits for: its output goes out as it comes, and a person at a terminal types input."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codriver.commands.answer_reading import NOT_ENDED, reading
from codriver.commands.terminal import say
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codriver.commands.terminal import Waiting
    from codriver.net.client import Connection

LOOK_S: Final = 0.3
"""How often an evaluation that goes on is looked at; most are over before the first time."""
LEAST_MS: Final = 100
"""The shortest wait that the server takes."""
MOST_START_S: Final = 300.0
"""How long a REPL that starts is waited for beyond the time that the evaluation may take."""
FAILED_TO_COME: Final = {"waiting": True}
"""The phases where no REPL is there or on its way, and why is known: it is tried again and again."""
STREAMS: Final = ("stdout", "stderr")
UNANSWERED: Final = "interrupted-for-input"
"""The status of an evaluation that was interrupted, as it reads and nobody can type."""


@dataclass(slots=True)
class Running:
    """One call of a tool that evaluates, followed to its end or for `timeout_s`; `told` counts characters by stream."""

    connection: Connection
    timeout_s: float
    phases: Callable[[], dict[str, bool]]
    """The phases in which REPLs are, each with whether one says why."""
    waiting: Waiting
    told: dict[str, int]

    def answer(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The answer to the call, at the end or when the time is over. What it prints until then is said.

        Ctrl-C, or the end of this command by a signal, ends the evaluation too.
        """
        deadline = time.monotonic() + self.timeout_s
        first_ms = max(LEAST_MS, int(min(self.timeout_s, LOOK_S) * 1000))
        answer = self.connection.call(tool, {**arguments, "timeoutMs": first_ms})
        if answer.get("status") not in NOT_ENDED or "evaluationId" not in answer:
            return answer
        evaluation = str(answer["evaluationId"])
        latest, phases = deadline + MOST_START_S, dict[str, bool]()
        with self._ending(evaluation):
            while answer.get("status") in NOT_ENDED:
                now = time.monotonic()
                if answer["status"] == "needs-input":
                    self._tell(evaluation)
                    if not sys.stdin.isatty() or not (line := self._line()):
                        self._interrupt(evaluation)
                        return {**answer, "status": UNANSWERED}
                    self.connection.call("send_input", {"evaluationId": evaluation, "text": line.rstrip("\n")})
                    deadline += time.monotonic() - now
                elif answer["status"] == "queued" and now < latest and "starting" in (phases := self.phases()):
                    deadline = max(deadline, now + self.timeout_s)
                elif now > deadline or (answer["status"] == "queued" and phases == FAILED_TO_COME):
                    break
                answer = self._look(evaluation)
        return self.connection.call("get_evaluation", {"evaluationId": evaluation, "maxImages": 0})

    def _look(self, evaluation: str) -> dict[str, Any]:
        """The standing of the evaluation after a moment; its output meanwhile is said."""
        asked = {"evaluationId": evaluation, "waitMs": int(LOOK_S * 1000)}
        answer = self.connection.call("get_evaluation", {**asked, "part": "stdout", "from": self.told["stdout"]})
        self._say("stdout", answer)
        self._tell(evaluation, "stderr")
        return answer

    def _tell(self, evaluation: str, *streams: str) -> None:
        for stream in streams or STREAMS:
            asked = {"evaluationId": evaluation, "part": stream, "from": self.told[stream]}
            self._say(stream, self.connection.call("get_evaluation", asked))

    def _say(self, stream: str, answer: dict[str, Any]) -> None:
        with reading("get_evaluation"):
            text = str(answer.get("text", ""))
        if text:
            say(text, err=stream == "stderr", end="")
            self.told[stream] += len(text)

    def _line(self) -> str:
        """The line that a person types; blank at the end of input."""
        with self.waiting.away():
            return sys.stdin.readline()

    def _interrupt(self, evaluation: str) -> None:
        with suppress(CodriverError, OSError):  # it is over, or the server is gone
            self.connection.call("interrupt_evaluation", {"evaluationId": evaluation})

    @contextmanager
    def _ending(self, evaluation: str) -> Iterator[None]:
        """Have what ends this command end the evaluation, which else would hold its session until somebody notices."""

        def end(number: int, _frame: object) -> None:
            sys.exit(128 + number)

        before = signal.signal(signal.SIGTERM, end)
        try:
            yield
        except (KeyboardInterrupt, SystemExit):
            self._interrupt(evaluation)
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
