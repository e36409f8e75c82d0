"""Write the events of a run with `unittest`, or with Django's runner, which is based on it.

Results are read from calls to `TestResult`, so that a runner may have its own result class. Only the result that a
runner creates counts, because tests of test tools create others. Django's processes for parallel tests send their
results to the first process, whose result receives them again. Copies of the process write no events.
"""

from __future__ import annotations

import sys
import time
import traceback
import unittest

from .failures import describe_error, executed_functions_getter, frame_values, shorten_middle
from .parsed_files import ParsedFiles
from .secret_values import SecretValues

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .event_file import EventFile

    Case = Any  # a test, or the stand-in for the failed setup of a class or module

    Values = dict[str, Any]

NO_DEBUGGER_MESSAGE = (
    "a debugger was started, but a test run has no terminal. Remove breakpoint() or set_trace(), and evaluate code "
    "in a frame of the failure instead"
)


def attach(events: EventFile, request: Mapping[str, Any], modules: Mapping[str, Any]) -> None:
    """Make unittest's runner write its results as events."""
    recorders = [modules[name].recorder(options) for name, options in request["recorders"]]
    listener = Listener(events, recorders, request.get("keeper"))
    runner: Any = unittest.TextTestRunner
    plain_make, plain_run = runner._makeResult, runner.run

    def make_result(self: Any) -> Any:
        result = plain_make(self)
        if listener.result is None:
            listener.result = result
        return result

    def run(self: Any, test: Any) -> Any:
        if listener.is_running:
            return plain_run(self, test)
        listener.is_running = True
        listener.write_collected(test)
        try:
            return plain_run(self, test)
        except KeyboardInterrupt as error:
            listener.write_interruption(error)
            raise
        finally:
            listener.write_end()

    runner._makeResult, runner.run = make_result, run
    for name in ("startTest", "stopTest", "addSuccess", "addError", "addFailure", "addSkip", "addExpectedFailure",
                 "addUnexpectedSuccess", "addSubTest"):  # fmt: skip
        wrap_result_method(name, listener)
    sys.breakpointhook = fail_on_debugger


def fail_on_debugger(*_given: object, **_named: object) -> None:
    """Raise an error in a test that starts a debugger, because the debugger would wait for input."""
    raise RuntimeError(NO_DEBUGGER_MESSAGE)


def wrap_result_method(name: str, listener: Listener) -> None:
    """Make a method of `unittest.TestResult` call the listener's method of the same name first."""
    kind: Any = unittest.TestResult
    plain, report = getattr(kind, name), getattr(listener, name)

    def method(self: Any, *given: Any, **named: Any) -> Any:
        if self is listener.result:
            report(*given, **named)
        return plain(self, *given, **named)

    method.__name__, method.__qualname__, method.__doc__ = name, plain.__qualname__, plain.__doc__
    setattr(kind, name, method)


def tests_in_suite(suite: Any) -> list[Case]:
    """Return the tests in a suite and in the suites that it contains."""
    found: list[Case] = []
    try:
        parts = list(suite)
    except TypeError:
        return [suite]
    for part in parts:
        found += tests_in_suite(part)
    return found


class Listener:
    """Writes an event for each call that `unittest` makes to the result of a run."""

    def __init__(self, events: EventFile, recorders: list[Any], keeper: Any) -> None:
        self.events, self.recorders, self.keeper = events, recorders, keeper
        self.executed = executed_functions_getter(recorders)
        self.parsed = ParsedFiles()
        self.secrets = SecretValues(events)
        self.result: Any = None
        self.is_running = False
        self.count = 0
        self.counts: dict[str, int] = {}
        self.running: Case = None
        self.outcome = "passed"
        self.failures: list[Values] = []
        self.reason = ""
        self.started = 0.0

    def write_collected(self, suite: Any) -> None:
        """Write the ids of the tests that will run, and start the recorders."""
        self.secrets.report_all()
        names = [test_name(test) for test in tests_in_suite(suite)]
        self.count = len(names)
        self.events.write("collected", count=self.count, deselected=0, nodeids=names)
        for recorder in self.recorders:
            recorder.start()

    def write_end(self) -> None:
        """Write the data of the recorders and the end of the run."""
        for recorder in self.recorders:
            self.events.write("recorded", recorder=recorder.name, **recorder.finish())
        self.events.write("finished", status=None, counts=dict(self.counts, collected=self.count))

    def write_interruption(self, error: BaseException) -> None:
        """Write the test and the stack at which the run was interrupted."""
        nodeid = test_name(self.running) if self.running is not None else ""
        self.events.write("interrupted", nodeid=nodeid, frames=frame_values(error.__traceback__), reason="")

    def startTest(self, test: Case) -> None:  # noqa: N802  # unittest's name
        """Write an event about the start of a test."""
        self.running, self.outcome, self.failures, self.reason = test, "passed", [], ""
        self.started = time.perf_counter()
        name = test_name(test)
        self.events.write("started", nodeid=name)
        for recorder in self.recorders:
            recorder.record_test(name, test_location(test)[0] or "", ())
            recorder.set_context("test", name)

    def stopTest(self, test: Case) -> None:  # noqa: N802  # unittest's name
        """Write the outcome of a test."""
        if self.running is not None:  # a test that is skipped as a whole does not start, from Python 3.12.1 on
            self.running = None
            for recorder in self.recorders:
                recorder.set_context("", "")
            self.secrets.report_environment()
            self.write(test, time.perf_counter() - self.started)

    def write(self, test: Case, seconds: float, *, is_collector: bool = False) -> None:
        """Write the outcome of a test, or of the setup of a class or a module."""
        name = {"error": "errors"}.get(self.outcome, self.outcome)
        self.counts[name] = self.counts.get(name, 0) + 1
        file, line = test_location(test)
        self.events.add(
            "test",
            nodeid=test_name(test),
            outcome=self.outcome,
            seconds=round(seconds, 6),
            failures=self.failures,
            reason=shorten_middle(self.reason, 1000),
            file=file,
            line=line,
            collector=is_collector,
        )

    def record_failure(self, test: Case, outcome: str, error: Any, part: str = "") -> None:
        """Record the failure of a test or a subtest. A failure outside of a test is written immediately."""
        kind, value, trace = error
        failure: Values = {"type": getattr(kind, "__name__", ""), "frames": [], "chain": []}
        if isinstance(value, BaseException) and trace is not None:
            failure = describe_error(value, trace, self.executed(), self.parsed)
            if self.keeper is not None:
                self.keeper.store_first(test_name(test), trace)
        message = "".join(traceback.format_exception_only(kind, value)).strip()
        text = "".join(traceback.format_exception(kind, value, trace)) if trace is not None else message
        failure.update(phase="call", message=shorten_middle(message), text=shorten_middle(text), sections=[], part=part)
        is_test = self.running is not None
        if not is_test:
            self.outcome, self.failures, self.reason = outcome, [failure], ""
            self.write(test, 0.0, is_collector=True)
            return
        self.failures.append(failure)
        if self.outcome != "error":
            self.outcome = outcome

    def addSuccess(self, test: Case) -> None:  # noqa: N802  # unittest's name
        """Do nothing, because a test passes unless something else is recorded."""

    def addError(self, test: Case, err: Any) -> None:  # noqa: N802  # unittest's name
        """Record an error."""
        self.record_failure(test, "error", err)

    def addFailure(self, test: Case, err: Any) -> None:  # noqa: N802  # unittest's name
        """Record a failed assertion."""
        self.record_failure(test, "failed", err)

    def addSkip(self, test: Case, reason: str) -> None:  # noqa: N802  # unittest's name
        """Record that a test, or all tests in a class or a module, were skipped."""
        self.outcome, self.reason = "skipped", reason
        if self.running is None:
            self.failures = []
            self.write(test, 0.0, is_collector=not hasattr(test, "_testMethodName"))

    def addExpectedFailure(self, test: Case, err: Any) -> None:  # noqa: N802  # unittest's name
        """Record an expected failure."""
        self.outcome = "xfailed"

    def addUnexpectedSuccess(self, test: Case) -> None:  # noqa: N802  # unittest's name
        """Record an unexpected success, which makes the run fail."""
        self.outcome = "xpassed"

    def addSubTest(self, test: Case, subtest: Case, err: Any) -> None:  # noqa: N802  # unittest's name
        """Record a failed subtest."""
        if err is not None:
            is_failure = issubclass(err[0], test.failureException)
            self.record_failure(test, "failed" if is_failure else "error", err, subtest._subDescription())


def test_name(test: Case) -> str:
    """Return the name that selects this test in another run."""
    identity: Callable[[], object] = getattr(test, "id", lambda: str(test))
    return str(identity())


def test_location(test: Case) -> tuple[str | None, int | None]:
    """Return the file and the first line of a test, or None for each if it is not known."""
    method = getattr(test, getattr(test, "_testMethodName", ""), None)
    while hasattr(method, "__wrapped__"):
        method = method.__wrapped__  # type: ignore[union-attr]  # as functools sets it
    code = getattr(getattr(method, "__func__", method), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code is not None else (None, None)
