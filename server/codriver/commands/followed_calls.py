"""Calls that a command follows to their end: evaluations, and runs of tests."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from codriver.commands.terminal import NOT_ENDED, reading, say
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codriver.commands.terminal import Waiting
    from codriver.net.client import Connection

LOOK_S: Final = 0.3
"""How often a running evaluation is looked at; most are over before the first look."""
LEAST_MS: Final = 100
"""The shortest wait that the server takes."""
MOST_START_S: Final = 300.0
"""How long a REPL that starts is waited for beyond the time of the evaluation."""
FAILED_TO_COME: Final = {"waiting": True}
"""The phases of a REPL that is not connected or on its way, for a known reason: it is tried again and again."""
STREAMS: Final = ("stdout", "stderr")
UNANSWERED: Final = "interrupted-for-input"
"""The status of an evaluation that was interrupted because it reads input and nobody can type."""


@dataclass(slots=True)
class Running:
    """One call of a tool that evaluates, followed to its end or for `timeout_s`; `told` counts characters by stream."""

    connection: Connection
    timeout_s: float
    phases: Callable[[], dict[str, bool]]
    """The phases of REPLs, each with whether a REPL says why it is in that phase."""
    waiting: Waiting
    told: dict[str, int]

    def answer(self, tool: str, arguments: dict[str, Any], first: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to the call, at the end or when the time has finished. Output until then is said.

        `first`: the first answer to a call that was made earlier. Ctrl-C, or the end of this command by a signal, ends
        the evaluation too.
        """
        deadline = time.monotonic() + self.timeout_s
        first_ms = max(LEAST_MS, int(min(self.timeout_s, LOOK_S) * 1000))
        answer = self.connection.call(tool, {**arguments, "timeoutMs": first_ms}) if first is None else first
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
        """Return the standing of the evaluation after a moment; its output in that time is said."""
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
        """Return the line that a person types; blank at the end of input."""
        with self.waiting.away():
            return sys.stdin.readline()

    def _interrupt(self, evaluation: str) -> None:
        with suppress(CodriverError, OSError):  # the evaluation is over, or the server is gone
            self.connection.call("interrupt_evaluation", {"evaluationId": evaluation})

    @contextmanager
    def _ending(self, evaluation: str) -> Iterator[None]:
        """Let the end of this command end the evaluation, which would hold its session until somebody notices."""

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


WHO: Final = "codriver-cli"


@dataclass(slots=True)
class RunningTests:
    """One call of `run_tests`, followed to its end or for `timeout_s`. `is_quiet`: the output of tests is not said."""

    connection: Connection
    timeout_s: float
    is_quiet: bool
    told: int = 0
    """The characters of output that were said."""
    _stands: str = field(default="", init=False)

    def words(self) -> str:
        """Return the standing of the run, for the line of a terminal."""
        return self._stands

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to the call, with every result. A run longer than its time is interrupted.

        Ctrl-C ends the tests too.
        """
        deadline = time.monotonic() + self.timeout_s
        self._stands, self.told = "the tests begin", 0
        first_ms = max(LEAST_MS, int(min(self.timeout_s, LOOK_S) * 1000))
        given = {**asked, "timeoutMs": first_ms, "report": True, "who": WHO}
        answer = self.connection.call("run_tests", given)
        if answer.get("status") not in NOT_ENDED or "evaluationId" not in answer:
            return answer
        named = {"evaluationId": str(answer["evaluationId"]), "report": True}
        try:
            while answer.get("status") in NOT_ENDED:
                self._note(answer)
                if time.monotonic() > deadline:
                    return self._timed_out(named)
                answer = self.connection.call("get_evaluation", {**named, "waitMs": int(LOOK_S * 1000)})
        except KeyboardInterrupt:
            with suppress(CodriverError, OSError):  # the run is over, or the server is gone
                self.connection.call("interrupt_evaluation", {"evaluationId": named["evaluationId"]})
            raise
        return answer

    def _note(self, answer: dict[str, Any]) -> None:
        """Say the output of the tests, and note the number of finished tests."""
        with reading("run_tests"):
            printed = str(answer.get("stdout", ""))
            done = answer.get("finished", answer.get("tests"))
            if done is not None:
                of = f" of {answer['of']}" if answer.get("of") else ""
                failed = int(answer["failed"]) + int(answer.get("errors", 0))
                self._stands = f"tests: {done}{of}" + (f", {failed} failed" if failed else "")
            elif answer["status"] == "queued":
                self._stands = f"the tests wait: {'; '.join(answer.get('notes', ())).partition(';')[0]}"
        if not self.is_quiet and len(printed) > self.told:
            say(printed[self.told :], end="")
            self.told = len(printed)

    def _timed_out(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the answer about a run that is ended as its time has finished."""
        did = self.connection.call("interrupt_evaluation", {"evaluationId": named["evaluationId"]})
        answer = self.connection.call("get_evaluation", named)
        is_unknown = "tests" in answer and "stoppedIn" not in answer
        where = ", in no test that the REPL knows of" if is_unknown else ""
        ended = f"the tests did not end within {self.timeout_s:g} s and were interrupted where the REPL can{where}"
        hint = "give a longer --timeout, or run fewer tests"
        return {
            **answer,
            "ok": False,
            "reason": "timed-out",
            "message": ended,
            "hint": hint,
            "notes": did.get("notes", []),
        }
