"""Run recorded evaluations again in fresh REPLs, and check the documents made from them.

Evaluations and tests of a Lisp run in a REPL that is started for that run. The tests of a Python document run
like all Python tests: in a new process, with `python -m pytest FILE`.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio

from codriver.commands.repl_hooks import adapter_hooks
from codriver.commands.terminal import echo
from codriver.core.print_limits import PrintLimits
from codriver.errors import CodriverError, ReplDisconnectedError, StartError
from codriver.features.export.documents.document_weakening import FailedTest, VerifiedDocument, check_document
from codriver.features.export.documents.step_verification import (
    REPL_DIED_ERROR,
    RaisedError,
    StepRequest,
    StepResult,
    require_identical_images,
    verify_recorded,
)
from codriver.features.export.fresh_repl import FreshRepl, fresh_repl
from codriver.features.jupyter.kernel_kind import JUPYTER_PROTOCOL, KERNEL_KIND
from codriver.features.jupyter.kernel_recipe import launch_kernel
from codriver.log.control_characters import escape_to_one_line
from codriver.log.redaction import Redactor, StreamRedactor
from codriver.net import known_servers
from codriver.repls.kinds import NREPL_PROTOCOL, PYTHON_KIND, REPL_KINDS, find_kind
from codriver.repls.launch.recipes import find_recipe
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl
from codriver.repls.programs import join_python_modules
from codriver.settings import acceptance_records, machine_policy
from codriver.settings.layers import load_settings
from codriver.settings.model import Settings
from codriver.testing.plain_process import start_plain
from codriver.testing.runs import NO_TESTS_STATUS, ChosenTests, ReportBuilder, RunSpec

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.features.export.documents.document_weakening import DocumentCheck
    from codriver.features.export.documents.layout import DocumentBuilder, Format, Origin
    from codriver.features.export.documents.recordings import RecordedEvaluation, Recording
    from codriver.features.export.documents.step_verification import CheckedStep, Delivery
    from codriver.features.export.fresh_repl import EvaluationOutcome, OnOutput
    from codriver.repls.contract.adapter import Adapter, Connector
    from codriver.repls.launch.recipes import Recipe
    from codriver.testing.runs import TestFailure, TestReport

T = TypeVar("T")
SUFFIXES_BY_DIALECT: Final = {"basilisp": ".lpy", "nbb": ".cljs", "clojurescript": ".cljs", "hy": ".hy"}
"""File suffixes of documents by dialect. Other dialects use `.clj`."""
COMPLETE_LIMITS: Final = PrintLimits()
"""Print limits under which values are printed in full."""
AGENT_LIMITS: Final = PrintLimits(25, 7)
"""The default print limits in the settings, which apply to values that agents receive."""
INTERRUPTED_CODE_TIMEOUT_S: Final = 2.0
"""Time limit for code that had to be interrupted when it was recorded."""
TEST_FUNCTION_NAME: Final = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
"""Matches a test function in a Python document. The first group is its name."""
UNITTEST_MODULE: Final = "codriver_exported_tests"
"""The name of the module that runs a document's tests without pytest."""
NO_RUN_HINT: Final = "Choose --format recording"
DEFAULT_TEST_FILE: Final = "test_exported.py"
"""The file name used for a Python document that is not written to a Python file."""


def connect_kernel(address: str, **options: Any) -> AbstractAsyncContextManager[Adapter]:
    """Connect to a kernel. The adapter is large, so it is imported only when this function is called."""
    from codriver.features.jupyter.kernels.jupyter_adapter import connect_jupyter  # noqa: PLC0415  # see above

    return connect_jupyter(address, **options)


def connectors() -> Mapping[str, Connector]:
    """Return the connector for each protocol, by its name."""
    hooks = adapter_hooks()
    return {NREPL_PROTOCOL: partial(connect_nrepl, hooks=hooks), JUPYTER_PROTOCOL: partial(connect_kernel, hooks=hooks)}


@dataclass(slots=True)
class Progress:
    """Counts the evaluations that have started, to display progress. `of` is the total number."""

    started: int = 0
    of: int = 0

    def count_started(self, evaluations: Iterable[RecordedEvaluation]) -> Iterator[RecordedEvaluation]:
        """Yield the evaluations, counting each as started."""
        for evaluation in evaluations:
            self.started += 1
            yield evaluation

    def describe(self, repl: str) -> str:
        """Return a line about the progress of the run for display in a terminal."""
        if not self.started:
            return f"starting a fresh REPL ({repl}) to run the code again"
        return f"evaluation {self.started} of {self.of} runs again in a fresh REPL ({repl})"


class OutputPrinter:
    """Prints the output of a fresh run to standard error, with secrets redacted."""

    def __init__(self, clean: Redactor) -> None:
        self._streams: defaultdict[str, StreamRedactor] = defaultdict(clean.new_stream_redactor)

    def write(self, stream: str, text: str) -> None:
        """Print output from a stream. Text that may be the start of a secret is held back."""
        echo(self._streams[stream].feed(text), err=True, end="")

    def flush(self) -> None:
        """Print the text that was held back."""
        for stream in self._streams.values():
            echo(stream.flush(), err=True, end="")


@dataclass(frozen=True, slots=True)
class FreshRuns:
    """Runs recorded evaluations and documents in fresh REPLs of a workspace.

    `words` is the value of the option `--repl`, and `timeout_s` is the time limit for each evaluation.
    """

    workspace: Path
    words: str
    timeout_s: float
    is_strict: bool = False
    """Whether an image counts as reproduced only if its bytes are the same."""
    is_quiet: bool = False
    """Whether to suppress the output of the code."""
    is_chosen: bool = True
    """Whether the REPL was chosen explicitly. Otherwise, a recorded kernel that cannot be started may be replaced."""
    python: str = ""
    """The interpreter for the project's Python code. If empty, the server's interpreter or the one in the settings is
    used.
    """
    file: Path | None = None
    """The file to write the document to."""
    progress: Progress = field(default_factory=Progress)
    clean: Redactor = field(default_factory=lambda: Redactor.from_environment(os.environ))
    """Redacts secrets from the output of fresh REPLs: those in the environment, and those that applications declare."""

    def repl(
        self, on_output: OnOutput = lambda _stream, _text: None, words: str = ""
    ) -> AbstractAsyncContextManager[FreshRepl]:
        """Start a fresh REPL for the duration of the context. `on_output` is called with its output."""
        words = words or self.words
        learn = partial(self.clean.add_sensitive_strings, words)
        how = self._recipe(words)
        return fresh_repl(how, connectors(), self.workspace, timeout_s=self.timeout_s, learn=learn, on_output=on_output)

    def _recipe(self, repl: str) -> Recipe:
        """Return the recipe for the REPL selected by the value of `--repl`.

        Raises:
            StartError: evaluation is disabled on this machine, or the REPL cannot be started.
        """
        policy = machine_policy.read_policy(machine_policy.policy_file())
        if machine_policy.EVALUATION_KEY in policy.off:
            raise StartError(f"evaluation is switched off on this machine by {policy.path}")
        python = self.python or _interpreter(self.workspace)
        acceptance_of = acceptance_records.environment_acceptance
        return find_recipe(
            repl, self.workspace, os.environ, acceptance_of=acceptance_of, is_requested=True, python=python,
            added_kinds={KERNEL_KIND: launch_kernel},
        )  # fmt: skip

    async def _repl_or_replacement(self, stack: AsyncExitStack, on_output: OnOutput) -> FreshRepl:
        """Start a fresh REPL that is ended when `stack` is closed.

        If it is a kernel that cannot be started and was not requested explicitly, start Codriver's own Python REPL
        instead.

        Raises:
            StartError: the REPL cannot be started and has no replacement.
        """
        try:
            return await stack.enter_async_context(self.repl(on_output))
        except StartError as error:
            if self.is_chosen or not selects_kernel(self.words):
                raise
            echo(f"no kernel can be started, so a fresh {PYTHON_KIND.repl} runs the cells: {error}", err=True)
            return await stack.enter_async_context(self.repl(on_output, PYTHON_KIND.repl))

    async def verify(self, recording: Recording) -> tuple[CheckedStep, ...]:
        """Run the evaluations of a recording in a fresh REPL, and return the checked steps.

        The output of the code is printed to standard error unless the run is quiet.
        """
        printed = OutputPrinter(self.clean)
        async with AsyncExitStack() as stack:
            on_output: OnOutput = (lambda _stream, _text: None) if self.is_quiet else printed.write
            repl = await self._repl_or_replacement(stack, on_output)
            settings = load_settings(self.workspace, environ=os.environ, model=Settings).settings
            agent_limits = PrintLimits(settings.max_length, settings.max_depth)
            self.progress.of = len(recording.evaluations)
            delivery = _determine_delivery(recording, repl)

            async def another() -> FreshRepl:
                nonlocal repl
                repl = await self._repl_or_replacement(stack, on_output)
                return repl

            checked = await verify_in_repl(
                repl,
                recording.evaluations,
                recording.dialect,
                self.clean,
                agent_limits,
                self.progress,
                delivery,
                another,
            )
            if repl.dialect != "unknown":
                await repl.run("0")  # the application declares its sensitive values before the run and at its end
            printed.flush()
        checked_strictly = map(require_identical_images, checked) if self.is_strict else checked
        return tuple(without_secrets(check, self.clean) for check in checked_strictly)

    async def write_document(
        self, checked: Sequence[CheckedStep], dialect: str, form: Format, origin: Origin
    ) -> VerifiedDocument:
        """Create a document, and run it until it passes.

        Each run uses a new process, because a run may change values in a module. Python tests also run in reverse
        order.
        """
        requests = check_document(checked, dialect, form, origin)
        try:
            page = next(requests)
        except StopIteration as stop:
            return _checked_document(stop)
        run = self.run_python_tests if dialect == PYTHON_KIND.dialect else partial(self._run_in_repl, origin)
        return await drive_check(requests, page, run)

    async def run_python_tests(self, page: DocumentBuilder) -> tuple[FailedTest, ...]:
        """Run a Python document's tests in order, and then in reverse order. Return the failures.

        Each run uses a new process.

        Raises:
            CodriverError: pytest cannot run the tests.
        """
        tests = TEST_FUNCTION_NAME.findall(page.text)
        failed = await self._run_tests(page, tests)
        return failed if failed or len(tests) < 2 else await self._run_tests(page, tests[::-1])

    async def _run_tests(self, page: DocumentBuilder, tests: Sequence[str]) -> tuple[FailedTest, ...]:
        """Run tests in the given order, as if the document had already been written to its file."""
        file = self.file
        if file is None or file.suffix != ".py":
            file = (file.parent if file is not None else self.workspace) / DEFAULT_TEST_FILE
        report = await self._run_spec(self._pytest_spec(file, page.text, tests), len(tests))
        if report.error is not None and report.error.kind == "no-pytest":
            report = await self._run_spec(self._unittest_spec(file, page.text, tests), len(tests))
        return tuple(replace(failure, error=self.clean(failure.error)) for failure in _collect_failures(report, file))

    async def _run_spec(self, spec: RunSpec, count: int) -> TestReport:
        """Run tests in a new process and return the report. The process is interrupted after the time limit."""
        builder = ReportBuilder()
        async with start_plain(spec) as process, anyio.create_task_group() as tasks:

            async def end_overlong() -> None:
                await anyio.sleep(self.timeout_s * max(1, count))
                await process.interrupt()

            tasks.start_soon(end_overlong)
            async for event in process.events():
                builder.add(event)
            tasks.cancel_scope.cancel()
        return builder.report()

    def _pytest_spec(self, file: Path, text: str, tests: Sequence[str]) -> RunSpec:
        how = self._recipe(PYTHON_KIND.repl)
        # Random order and the cache of failures are not useful here.
        arguments = ["-p", "no:randomly", "-p", "no:cacheprovider"]
        environment = how.env
        is_accepted = acceptance_records.environment_acceptance(self.workspace).is_given
        if not is_accepted:
            # Nothing from the checkout may run unless the document itself imports it. The metadata of packages in the
            # checkout could name plugins of pytest.
            arguments += ["--noconftest", "-c", os.devnull, "--rootdir", str(self.workspace), "--import-mode=append"]
            environment = {**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        name = str(file.relative_to(self.workspace))
        return RunSpec(
            python=how.command[0],
            directory=self.workspace,
            arguments=(*arguments, name),
            environment=environment,
            is_isolated=not is_accepted,
            chosen=ChosenTests(functions=tuple(f"{name}::{test}" for test in tests)) if tests else None,
            sources={str(file): text.encode()},
        )

    def _unittest_spec(self, file: Path, text: str, tests: Sequence[str]) -> RunSpec:
        """Return the specification for a test run in an interpreter without pytest.

        The tests are loaded by a module that exists only during the run.
        """
        how = self._recipe(PYTHON_KIND.repl)
        load_tests = f"load_tests = tests_of({str(file)!r}, {list(tests)!r})"
        program = "\n".join([join_python_modules("python/exported_tests.py"), load_tests, ""])
        sources = {str(file): text.encode(), str(self.workspace / f"{UNITTEST_MODULE}.py"): program.encode()}
        return RunSpec(
            python=how.command[0],
            directory=self.workspace,
            arguments=(UNITTEST_MODULE,),
            environment=how.env,
            runner="unittest",
            is_isolated=not acceptance_records.environment_acceptance(self.workspace).is_given,
            sources=sources,
        )

    async def _run_in_repl(self, origin: Origin, page: DocumentBuilder) -> tuple[FailedTest, ...]:
        """Run a document in a new REPL and return its failures."""
        # A kernel's cells become plain Python, which has to work without a kernel.
        words = PYTHON_KIND.repl if selects_kernel(self.words) else self.words
        async with self.repl(words=words) as repl:
            return await self.run(repl, origin, page)

    async def run(self, repl: FreshRepl, origin: Origin, page: DocumentBuilder) -> tuple[FailedTest, ...]:
        """Load a Lisp test file in a REPL, run its tests, and return the failures."""
        ending = SUFFIXES_BY_DIALECT.get(repl.dialect, ".clj")
        file = self.workspace / f"{origin.name.replace('-', '_').replace('.', '/')}{ending}"
        failed = await _run_lisp(repl, page, origin, str(file))
        clean = self.clean
        return tuple(replace(failure, error=clean(failure.error)) for failure in failed)


@cache
def _interpreter(workspace: Path) -> str:
    """Return the Python interpreter of the workspace's running server, or else the one in the settings."""
    served = known_servers.query_server(workspace, "codriver-export").health or {}
    return str(served.get("python") or load_settings(workspace, environ=os.environ, model=Settings).settings.python)


def selects_kernel(repl: str) -> bool:
    """Return whether the value of `--repl` selects a kernel."""
    return find_kind(repl, [KERNEL_KIND]) is KERNEL_KIND


def _determine_delivery(recording: Recording, repl: FreshRepl) -> Delivery:
    """Determine which values in a recording can be compared in this REPL.

    Raises:
        CodriverError: code that was not recorded in a kernel would run in one.
    """
    if not recording.is_of_kernel and repl.is_kernel:
        raise CodriverError(
            f"evaluations recorded in a {recording.repl} are compared value by value, but a kernel reports only the "
            "last value of a cell. Omit --repl, or name a REPL that is not a kernel"
        )
    return "whole" if repl.is_kernel else "last" if recording.is_of_kernel else "each"


class ReplDiedError(CodriverError):
    """Raised when an evaluation ends the fresh REPL."""

    def __init__(self, evaluation: RecordedEvaluation, error: ReplDisconnectedError) -> None:
        head = escape_to_one_line(evaluation.code.strip().partition("\n")[0][:60])
        super().__init__(
            f"evaluation {evaluation.id}, `{head}`, ended the fresh REPL ({error.cause}). Name the evaluations to "
            "use, and leave this one out"
        )


async def verify_in_repl(
    repl: FreshRepl,
    evaluations: Sequence[RecordedEvaluation],
    dialect: str,
    clean: Callable[[str], str] = str,
    agent_limits: PrintLimits = AGENT_LIMITS,
    progress: Progress | None = None,
    delivery: Delivery = "each",
    start_another: Callable[[], Awaitable[FreshRepl]] | None = None,
) -> tuple[CheckedStep, ...]:
    """Run recorded evaluations one after another in a fresh REPL, and return the checked steps.

    `clean` redacts secrets from all texts. `agent_limits` are the print limits of the recorded values. If an evaluation
    ends the REPL, as it did when it was recorded, `start_another` starts a new REPL for the remaining evaluations.

    Raises:
        ReplDiedError: an evaluation ended the REPL unexpectedly, or no new REPL can be started.
    """
    progress = progress or Progress()
    requests = verify_recorded(progress.count_started(evaluations), dialect, delivery)
    try:
        request = next(requests)
        while True:
            try:
                observed = await _run_request(repl, request, clean, agent_limits)
            except ReplDisconnectedError as error:
                evaluation = evaluations[progress.started - 1]
                if start_another is None or not evaluation.ending:
                    raise ReplDiedError(evaluation, error) from error
                repl = await start_another()
                observed = StepResult(raised=RaisedError(REPL_DIED_ERROR, clean(error.cause)))
            request = requests.send(observed)
    except StopIteration as stop:
        checked: tuple[CheckedStep, ...] = stop.value
        return checked


def without_secrets(check: CheckedStep, clean: Callable[[str], str]) -> CheckedStep:
    """Redact secrets that became known after a step ran. If the result contains one, drop the assertion."""
    text, value = clean(check.step.text), check.value if check.value is None else clean(check.value)
    raised = check.raised and replace(check.raised, message=clean(check.raised.message))
    note, out = clean(check.note), clean(check.out)
    if text != check.step.text:
        why = note or "the code contains a secret, which is omitted, so the code cannot run again"
        step = replace(check.step, text=text)
        return replace(check.without_assertion(why), step=step, verdict="absent", value=value, is_hidden=True)
    if check.cell is not None and (cell := _cleaned_json(check.cell, clean)) != check.cell:
        check = replace(check, cell=cell)
    if (value, raised, out, clean(check.pattern)) != (check.value, check.raised, check.out, check.pattern):
        return replace(check.without_assertion(note or "the result contains a secret, which is omitted"), value=value)
    return check if note == check.note else replace(check, note=note)


async def _run_request(
    repl: FreshRepl, request: StepRequest, clean: Callable[[str], str], agent_limits: PrintLimits
) -> StepResult:
    """Run the code of a request, and return the result with secrets redacted."""
    ran = await repl.run(
        request.code,
        namespace=request.namespace,
        file=request.file,
        timeout_s=INTERRUPTED_CODE_TIMEOUT_S if request.is_short else None,
        limits=agent_limits if request.prints_for_agents else COMPLETE_LIMITS,
        is_partial=request.is_partial,
    )
    return _to_step_result(ran, clean)


def _to_step_result(ran: EvaluationOutcome, clean: Callable[[str], str]) -> StepResult:
    """Convert the outcome of an evaluation, with `clean` applied to all texts."""
    failure = ran.failure
    raised = RaisedError(failure.type, clean(failure.message), failure.phase or "") if failure else None
    *displays, value = map(clean, ran.values) if ran.values else (None,)
    line = failure.line or 0 if failure else 0
    displayed = tuple(filter(None, displays))
    return StepResult(value, clean(ran.out), raised, displayed, _cleaned_json(ran.cell, clean), clean(ran.err), line)


def _cleaned_json(data: T, clean: Callable[[str], str]) -> T:
    """Return JSON data with `clean` applied to all strings."""
    if isinstance(data, str):
        return clean(data)  # type: ignore[return-value]  # a text, as was given
    if isinstance(data, Mapping):
        return {name: _cleaned_json(value, clean) for name, value in data.items()}  # type: ignore[return-value]  # as above
    return type(data)(_cleaned_json(value, clean) for value in data) if isinstance(data, list | tuple) else data


async def drive_check(
    requests: DocumentCheck, page: DocumentBuilder, run: Callable[[DocumentBuilder], Awaitable[tuple[FailedTest, ...]]]
) -> VerifiedDocument:
    """Run each version of a document until a version passes, and return that version.

    `requests` yields the versions and is sent their failures. `page` is the first version.
    """
    try:
        while True:
            page = requests.send(await run(page))
    except StopIteration as stop:
        return _checked_document(stop)


def _checked_document(stop: StopIteration) -> VerifiedDocument:
    """Return the document that a finished check returned."""
    found: VerifiedDocument = stop.value
    return found


def _document_failures(ran: EvaluationOutcome) -> tuple[FailedTest, ...]:
    """Return the failure of a document that was run as a whole, if it failed."""
    failure = ran.failure
    if failure is None:
        return ()
    return (FailedTest("", (failure.line,) if failure.line else (), f"{failure.type}: {failure.message}"),)


def _collect_failures(report: TestReport, file: Path) -> list[FailedTest]:
    """Return the failures in a test report.

    Each failure contains those lines of its traceback that are in the document, outermost first.

    Raises:
        CodriverError: the tests could not be run.
    """
    found = []
    for test in report.failures:
        failure = test.failure
        frames = failure.frames[::-1] if failure is not None else ()
        lines = tuple(frame.line for frame in frames if frame.file == str(file))
        found.append(FailedTest("" if test.is_collector else _test_name(test.nodeid), lines, _failure_text(failure)))
    running = _test_name(next(iter(report.running), ""))
    stopped, error = report.interruption, report.error
    if found or (error is None and report.exit_status in (0, NO_TESTS_STATUS)):
        return found
    if stopped is not None:
        lines = tuple(frame.line for frame in stopped.frames[::-1] if frame.file == str(file))
        return [FailedTest(_test_name(stopped.nodeid) or running, lines, "the test did not finish in time")]
    if error is not None and error.kind == "died":
        return [FailedTest(running, (), error.message)]
    why = error.message if error is not None else f"their process ended with status {report.exit_status}"
    hint = (error.hint if error is not None else "") or NO_RUN_HINT
    raise CodriverError(f"the tests of the document cannot be run: {why}; {hint}")


def _test_name(nodeid: str) -> str:
    """Return the name of the test function in a test id. The name is empty if the document failed as a whole."""
    name = re.split(r"::|\.", nodeid)[-1]
    return name if name.startswith("test_") else ""


def _failure_text(failure: TestFailure | None) -> str:
    """Return the class and the message of a failure."""
    if failure is None:
        return "it failed"
    is_named = not failure.type or failure.message.startswith(failure.type)
    return failure.message if is_named else f"{failure.type}: {failure.message}"


async def _run_lisp(repl: FreshRepl, page: DocumentBuilder, origin: Origin, file: str) -> tuple[FailedTest, ...]:
    """Load a Lisp test file, run its tests, and return the failures."""
    await repl.run(f"(remove-ns '{origin.name})")  # it would still contain the tests from an earlier round
    failed = _document_failures(await repl.run(page.text, file=file))
    if failed:
        return failed
    run = await repl.run_tests(origin.name)
    wrong = [result for result in run.results if result.outcome != "pass"]
    return tuple(
        FailedTest(check.test, (check.line,) if check.line else (), f"expected {check.expected}, actual {check.actual}")
        for check in wrong
    )


def repl_option(dialect: str) -> str:
    """Return the value of `--repl` that starts a REPL of a dialect, or an empty string if there is none."""
    return next((kind.repl for kind in REPL_KINDS if kind.dialect == dialect), "")


def report_differences(checked: Sequence[CheckedStep]) -> None:
    """Print to standard error the steps that were not reproduced, with the reasons."""
    for check in checked:
        if check.note and not check.is_typo:
            head = check.step.text.strip().partition("\n")[0]
            echo(escape_to_one_line(f"{check.of.id} {head[:60]}: {check.note}"), err=True)
