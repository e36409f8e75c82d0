"""Follow evaluations and test runs that a command started, until they finish."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from codriver.commands.terminal import UNFINISHED_STATUSES, convert_field_errors, echo
from codriver.errors import CodriverError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from codriver.commands.terminal import WaitingLine
    from codriver.net.client import Connection

POLL_INTERVAL_S: Final = 0.3
"""Interval at which a running evaluation is checked. Most finish before the first check."""
MIN_CALL_TIMEOUT_MS: Final = 100
"""The shortest timeout that the server accepts."""
MAX_START_WAIT_S: Final = 300.0
"""Maximum additional time to wait for a REPL that is starting."""
ONLY_RETRYING: Final = {"waiting": True}
"""The result of `FollowedEvaluation.phases` if all REPLs have failed to connect for known reasons and are retried."""
MAX_TEST_RUN_S: Final = 600
"""The longest timeout that `codriver test` accepts."""
CALLER_NAME: Final = "codriver-cli"
"""The caller name under which test runs are logged."""
STREAM_NAMES: Final = ("stdout", "stderr")
UNANSWERED_INPUT_STATUS: Final = "interrupted-for-input"
"""The status of an evaluation that was interrupted because it was waiting for input that nobody could type."""


@dataclass(slots=True)
class FollowedEvaluation:
    """A call that evaluates code. The command follows it until it finishes or `timeout_s` seconds have passed.

    `printed_counts` contains the number of printed characters by stream.
    """

    connection: Connection
    timeout_s: float
    phases: Callable[[], dict[str, bool]]
    """Returns, for each phase that a REPL is in, whether a REPL in this phase has a note with the reason."""
    waiting: WaitingLine
    printed_counts: dict[str, int]

    def await_answer(self, tool: str, arguments: dict[str, Any], first: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the tool, print output as it is received, and return the answer at the end.

        The call ends when the evaluation finishes or times out. `first` is the answer to a call that was made earlier.
        Ctrl-C and SIGTERM also interrupt the evaluation.
        """
        deadline = time.monotonic() + self.timeout_s
        first_ms = max(MIN_CALL_TIMEOUT_MS, int(min(self.timeout_s, POLL_INTERVAL_S) * 1000))
        answer = self.connection.call(tool, {**arguments, "timeoutMs": first_ms}) if first is None else first
        if answer.get("status") not in UNFINISHED_STATUSES or "evaluationId" not in answer:
            return answer
        evaluation = str(answer["evaluationId"])
        latest, phases = deadline + MAX_START_WAIT_S, dict[str, bool]()
        with _interrupting_on_exit(self.connection, evaluation):
            while answer.get("status") in UNFINISHED_STATUSES:
                now = time.monotonic()
                if answer["status"] == "needs-input":
                    self._print_output(evaluation)
                    if not sys.stdin.isatty() or not (line := self._read_line()):
                        _interrupt(self.connection, evaluation)
                        return {**answer, "status": UNANSWERED_INPUT_STATUS}
                    self.connection.call("send_input", {"evaluationId": evaluation, "text": line.rstrip("\n")})
                    deadline += time.monotonic() - now
                elif answer["status"] == "queued" and now < latest and "starting" in (phases := self.phases()):
                    deadline = max(deadline, now + self.timeout_s)
                elif now > deadline or (answer["status"] == "queued" and phases == ONLY_RETRYING):
                    break
                answer = self._poll(evaluation)
        return self.connection.call("get_evaluation", {"evaluationId": evaluation, "maxImages": 0})

    def _poll(self, evaluation: str) -> dict[str, Any]:
        """Wait a moment, print new output, and return the state of the evaluation."""
        arguments = {"evaluationId": evaluation, "waitMs": int(POLL_INTERVAL_S * 1000)}
        answer = self.connection.call(
            "get_evaluation", {**arguments, "part": "stdout", "from": self.printed_counts["stdout"]}
        )
        self._print_text("stdout", answer)
        self._print_output(evaluation, "stderr")
        return answer

    def _print_output(self, evaluation: str, *streams: str) -> None:
        for stream in streams or STREAM_NAMES:
            arguments = {"evaluationId": evaluation, "part": stream, "from": self.printed_counts[stream]}
            self._print_text(stream, self.connection.call("get_evaluation", arguments))

    def _print_text(self, stream: str, answer: dict[str, Any]) -> None:
        with convert_field_errors("get_evaluation"):
            text = str(answer.get("text", ""))
        if text:
            echo(text, err=stream == "stderr", end="")
            self.printed_counts[stream] += len(text)

    def _read_line(self) -> str:
        """Read a line that a person types. It is empty at the end of input."""
        with self.waiting.hidden():
            return sys.stdin.readline()


@dataclass(slots=True)
class FollowedTestRun:
    """A call of `run_tests`, which the command follows until it finishes, for up to `timeout_s` seconds.

    With `is_quiet`, the output of the tests is not printed.
    """

    connection: Connection
    timeout_s: float
    is_quiet: bool
    printed_characters: int = 0
    """The number of characters of output that have been printed."""
    _progress: str = field(default="", init=False)

    def progress_text(self) -> str:
        """Return a description of the progress, to display while waiting."""
        return self._progress

    def await_answer(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the tests and return the answer with all results.

        A timeout, Ctrl-C and SIGTERM interrupt the tests.
        """
        deadline = time.monotonic() + self.timeout_s
        self._progress, self.printed_characters = "starting the tests", 0
        first_ms = max(MIN_CALL_TIMEOUT_MS, int(min(self.timeout_s, POLL_INTERVAL_S) * 1000))
        given = {**arguments, "timeoutMs": first_ms, "report": True, "who": CALLER_NAME}
        answer = self.connection.call("run_tests", given)
        if answer.get("status") not in UNFINISHED_STATUSES or "evaluationId" not in answer:
            return answer
        named: dict[str, Any] = {"evaluationId": str(answer["evaluationId"]), "report": True}
        with _interrupting_on_exit(self.connection, named["evaluationId"]):
            while answer.get("status") in UNFINISHED_STATUSES:
                self._process_update(answer)
                if time.monotonic() > deadline:
                    return self._interrupt_run(named)
                answer = self.connection.call("get_evaluation", {**named, "waitMs": int(POLL_INTERVAL_S * 1000)})
        return answer

    def _process_update(self, answer: dict[str, Any]) -> None:
        """Print new output and update the progress."""
        with convert_field_errors("run_tests"):
            printed = str(answer.get("stdout", ""))
            done = answer.get("finished", answer.get("tests"))
            if done is not None:
                of = f" of {answer['of']}" if answer.get("of") else ""
                failed = int(answer["failed"]) + int(answer.get("errors", 0))
                self._progress = f"tests: {done}{of}" + (f", {failed} failed" if failed else "")
            elif answer["status"] == "queued":
                self._progress = f"the tests are waiting: {'; '.join(answer.get('notes', ())).partition(';')[0]}"
        if not self.is_quiet and len(printed) > self.printed_characters:
            echo(printed[self.printed_characters :], end="")
            self.printed_characters = len(printed)

    def _interrupt_run(self, named: dict[str, Any]) -> dict[str, Any]:
        """Interrupt a run that took too long, and return the answer about it."""
        interruption = self.connection.call("interrupt_evaluation", {"evaluationId": named["evaluationId"]})
        answer = self.connection.call("get_evaluation", named)
        is_unknown = "tests" in answer and "stoppedIn" not in answer
        message = f"the tests did not finish within {self.timeout_s:g} s, and were interrupted if the REPL supports it"
        message += ", in an unknown test" if is_unknown else ""
        return {
            **answer,
            "ok": False,
            "reason": "timed-out",
            "message": message,
            "hint": overlong_run_hint(self.timeout_s),
            "notes": interruption.get("notes", []),
        }


def overlong_run_hint(timeout_s: float) -> str:
    """Return what to do if tests did not finish within `timeout_s` seconds."""
    return "run fewer tests" if timeout_s >= MAX_TEST_RUN_S else "pass a longer --timeout, or run fewer tests"


def _interrupt(connection: Connection, evaluation: str) -> None:
    with suppress(CodriverError, OSError):  # it has finished, or the server has stopped
        connection.call("interrupt_evaluation", {"evaluationId": evaluation})


@contextmanager
def _interrupting_on_exit(connection: Connection, evaluation: str) -> Iterator[None]:
    """Interrupt an evaluation or a test run if the command is terminated, so that others do not wait for it."""

    def end(number: int, _frame: object) -> None:
        sys.exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        _interrupt(connection, evaluation)
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
