"""A run of tests that a command waits for: how many of how many are over, and what they print, as it comes."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from codriver.commands.answer_reading import NOT_ENDED, reading
from codriver.commands.running.running_evaluation import LEAST_MS, LOOK_S
from codriver.commands.terminal import say
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from codriver.net.client import Connection

WHO: Final = "codriver-cli"


@dataclass(slots=True)
class RunningTests:
    """One call of `run_tests`, followed to its end or for `timeout_s`. `is_quiet`: what tests print is not said."""

    connection: Connection
    timeout_s: float
    is_quiet: bool
    told: int = 0
    """The characters of output that were said."""
    _stands: str = field(default="", init=False)

    def words(self) -> str:
        """The standing of the run, for the line of a terminal."""
        return self._stands

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to the call, with every result. What runs longer than its time is interrupted.

        Ctrl-C ends the tests too.
        """
        deadline = time.monotonic() + self.timeout_s
        self._stands, self.told = "the tests begin", 0
        first_ms = max(LEAST_MS, int(min(self.timeout_s, LOOK_S) * 1000))
        given = {**asked, "timeoutMs": first_ms, "report": True, "again": False, "who": WHO}
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
            with suppress(CodriverError, OSError):  # it is over, or the server is gone
                self.connection.call("interrupt_evaluation", {"evaluationId": named["evaluationId"]})
            raise
        return answer

    def _note(self, answer: dict[str, Any]) -> None:
        """Say what the tests printed, and note how many are over."""
        with reading("run_tests"):
            printed = str(answer.get("stdout", ""))
            if "tests" in answer:
                of = f" of {answer['of']}" if answer.get("of") else ""
                red = int(answer["failed"]) + int(answer["errors"])
                self._stands = f"tests: {answer['tests']}{of}" + (f", {red} red" if red else "")
            elif answer["status"] == "queued":
                self._stands = f"the tests wait: {'; '.join(answer.get('notes', ())).partition(';')[0]}"
        if not self.is_quiet and len(printed) > self.told:
            say(printed[self.told :], end="")
            self.told = len(printed)

    def _timed_out(self, named: dict[str, Any]) -> dict[str, Any]:
        """The answer about a run that is ended, as its time is over."""
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
