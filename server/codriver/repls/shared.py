"""Parts shared by the adapters of all protocols: failures, forms in order, evaluations, and test runs.

Codriver's own code in a REPL tells an error as type, message, place, frames, locals and chain, and test results in one
shape, into which cider-nrepl's are read too. A failure gets its form and its place in the sent code; a server tells
them for one form alone, if at all. An evaluation ends once. A test run is an evaluation, and is interrupted if nobody
waits for it.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Final, Literal, Protocol

import anyio

from codriver.core.values import MAIN_SESSION, Failure, TestSelection
from codriver.errors import CodriverError, ReplDisconnectedError, cut
from codriver.net.tasks import TaskSet
from codriver.repls.contract.adapter import OpTimedOutError
from codriver.repls.contract.adapter_values import (
    NAMESPACE_MISSING,
    READING,
    Ending,
    StackFrame,
    StackTrace,
    TestResult,
    TestRun,
    TestTime,
    Value,
)
from codriver.repls.contract.questions import read_file
from codriver.repls.contract.reports import calls, folded, function_of, read_frame, report_text, text_of, words_of
from codriver.wire.untrusted import as_int, as_list, as_map, as_text, as_texts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
    from pathlib import Path

    from codriver.core.values import Form, Request
    from codriver.repls.contract.adapter_values import Ended, Listener
    from codriver.repls.dialects.server_dialect import Dialect


MESSAGE_CHARS: Final = 4000
"""The longest message kept: a message with a printed value can have megabytes, and the whole is in the output log."""

TRACE_FRAMES: Final = 20
_OUR_CODE: Final = ("<nREPL Input>", "<string>", "<stdin>", "<REPL", "<input>", "<eval", "<repl")
_NO_FILE: Final = frozenset({"REPL", "NO_SOURCE_FILE", "NO_SOURCE_PATH", "null", "", *_OUR_CODE})

BEFORE_RUNNING: Final = READING | {"compile", "compilation", "macroexpansion"}
"""The phases of failures with their place in the failed form; running code may fail in code of any earlier form."""


def read_parts(parts: Mapping[str, object], dialect: Dialect) -> Failure:
    """The failure in these parts, with its trace cut to the user's frames."""
    own = folded([frame for frame in told_frames(parts, dialect) if not frame.tooling])
    return Failure(
        type=as_text(parts.get("type")) or "error",
        message=as_message(as_text(parts.get("message")) or ""),
        phase=as_text(parts.get("phase")) or None,
        file=real_file(as_text(parts.get("file"))),
        line=as_int(parts.get("line")),
        column=as_int(parts.get("column")),
        form=as_int(parts.get("form")),
        trace=tuple(text_of(frame) for frame in own[:TRACE_FRAMES]),
        locals=as_texts(parts.get("locals")),
        data=as_text(parts.get("data")),
        notes=as_texts(parts.get("notes")),
        relation=as_text(parts.get("relation")) or "",
        source_line=as_text(parts.get("source")) or "",
        chain=tuple(read_parts(as_map(link), dialect) for link in as_list(parts.get("chain"))),
    )


def read_trace(parts: Mapping[str, object], dialect: Dialect) -> StackTrace:
    """The stack trace in these parts, with its chain; without frames if the parts have none."""
    error = read_parts(parts, dialect)
    links = [as_map(link) for link in as_list(parts.get("chain"))]
    chain = [trace_of(one, told_frames(link, dialect)) for one, link in zip(error.chain, links, strict=True)]
    return whole_trace(error, told_frames(parts, dialect), chain)


def whole_trace(error: Failure, frames: tuple[StackFrame, ...], chain: Iterable[StackTrace]) -> StackTrace:
    """The stack trace of an error and of its chain; without any frame, the error's place is one."""
    if not frames and (error.file or error.line):
        frames = (StackFrame(f"{error.file or 'REPL'}:{error.line}", file=error.file, line=error.line),)
    return replace(trace_of(error, frames), chain=tuple(chain))


def trace_of(error: Failure, frames: tuple[StackFrame, ...]) -> StackTrace:
    """The stack trace of an error, without others of its chain."""
    return StackTrace(error.type, error.message, frames, error.data, error.notes, error.relation)


def told_frames(parts: Mapping[str, object], dialect: Dialect) -> tuple[StackFrame, ...]:
    """The frames of an error in the words of codriver's worker, innermost first."""
    return tuple(read_frame(text, dialect.tooling) for text in as_texts(parts.get("trace")))


def with_locals(trace: StackTrace, rows: Iterable[object]) -> StackTrace:
    """A stack trace with the locals of its frames and of its chain's, from a worker's rows."""
    found: dict[tuple[int | None, str | None], dict[str, str]] = {}
    for told in map(as_map, rows):
        values = {name: text for name, value in as_map(told.get("locals")).items() if (text := as_text(value))}
        found[as_int(told.get("error")), as_text(told.get("frame"))] = values

    def filled(one: StackTrace, place: int) -> StackTrace:
        frames = [replace(frame, locals=found.get((place, frame.text), {})) for frame in one.frames]
        return replace(one, frames=tuple(frames))

    return replace(filled(trace, 0), chain=tuple(filled(link, n) for n, link in enumerate(trace.chain, 1)))


def frames_of(fields: Mapping[str, object], dialect: Dialect) -> tuple[StackFrame, ...]:
    """The frames told by our own code: by class and method on the JVM, else by function."""
    told = [as_map(item) for item in as_list(fields.get("frames"))]
    if not any("class" in frame for frame in told):
        return tuple(_frame(frame, dialect) for frame in told)
    frames: list[StackFrame] = []
    for frame, owner, method in calls_of(fields.get("frames")):
        function = function_of(owner, method)
        file, line = as_text(frame.get("file")), as_int(frame.get("line"))
        frames.append(
            StackFrame(f"{function} ({file}:{line})", file, line, function, owner.startswith(dialect.tooling))
        )
    return tuple(frames)


def _frame(frame: Mapping[str, object], dialect: Dialect) -> StackFrame:
    function, file = as_text(frame.get("function")) or "?", as_text(frame.get("file"))
    line, is_tooling = as_int(frame.get("line")), any(part in (file or "") for part in dialect.tooling)
    return StackFrame(f"{function} ({file}:{line})", file, line, function, is_tooling)


def calls_of(told: object) -> list[tuple[Mapping[str, object], str, str]]:
    """The frames told that begin a call, each with its class and its method."""
    frames = [as_map(item) for item in as_list(told)]
    names = [(as_text(frame.get("class")) or "?", as_text(frame.get("method")) or "?") for frame in frames]
    return [(frames[place], *names[place]) for place in calls(names)]


def real_file(name: str | None) -> str | None:
    """The name of a file; None for the words that mean code without a file."""
    return None if name is None or name in _NO_FILE or name.startswith("<") else name


def as_message(message: str) -> str:
    """The part of a message that is kept."""
    return cut(message, MESSAGE_CHARS)


def marked(frames: tuple[StackFrame, ...], workspace: Path | None) -> tuple[StackFrame, ...]:
    """The frames, with those in files of the workspace marked as the user's, wherever the workspace lies."""
    if workspace is None:
        return frames
    root = f"{workspace}/"
    return tuple(
        replace(frame, tooling=False)
        if frame.file and frame.file.startswith(root) and "site-packages" not in frame.file
        else frame
        for frame in frames
    )


def no_namespace(name: str) -> Failure:
    """The failure of an evaluation in a missing namespace, in the same words for every REPL."""
    return Failure(
        NAMESPACE_MISSING, f"there is no namespace {name!r}: load or require it first; nothing was evaluated"
    )


def one_namespace(name: str) -> Failure:
    """The failure of an evaluation that asks a REPL with only one namespace for another."""
    words = f"this REPL evaluates in one namespace only, and {name!r} was asked for; nothing was evaluated"
    return Failure(NAMESPACE_MISSING, words)


def placed(error: Failure, request: Request, form: int | None, *, counts_lines: bool) -> Failure:
    """`error` with its form and its place, as far as known.

    `form`: the number of a form sent alone. `counts_lines`: the server knows the text's first line, and counts from it.
    """
    forms = request.forms
    if not forms:
        return error
    if form is not None:
        error = replace(error, form=form)
    if request.kind == "load-forms" and request.file and error.file == PureWindowsPath(request.file).name:
        # The JVM's frames have no more than the file's own name; a path of Windows is one here too.
        error = replace(error, file=request.file)
    if error.line is not None and not counts_lines and error.file is None:
        offset = forms[form - 1].line - 1 if form else 0
        error = replace(error, line=error.line + offset)
    if request.kind == "load-forms" and form is not None and error.file is None:
        # The forms of a file have their places there, also if the server tells none.
        error = replace(error, file=request.file, line=error.line or forms[form - 1].line)
    if error.line is None or error.file not in (None, request.file):
        return error
    place = (error.line, error.column or 1)
    if error.form is None and error.phase in BEFORE_RUNNING:
        error = replace(error, form=_form_at(place, error, forms))
    if error.form and error.phase in READING and place >= _end(forms[error.form - 1]):
        # A reader that fails at the end of a token tells its own place, which is beyond the token and may be the next
        # line.
        culprit = forms[error.form - 1]
        error = replace(error, line=culprit.line, column=culprit.column)
    return error


def _form_at(place: tuple[int, int], error: Failure, forms: tuple[Form, ...]) -> int | None:
    """The number of the form around a place."""
    if error.column is None:
        return sum(form.line <= place[0] for form in forms) or None
    # A reader stands behind the unreadable text, which may be the beginning of the next form.
    last = (place[0], place[1] - (error.phase in READING))
    return sum((form.line, form.column) <= last for form in forms) or None


def _end(form: Form) -> tuple[int, int]:
    """The line and column just behind a form."""
    *before, last = form.text.split("\n")
    return (form.line + len(before), (1 if before else form.column) + len(last))


async def in_order(forms: Iterable[Form], evaluate: Callable[[Form, int], Awaitable[Ending]]) -> Ending:
    """The ending of forms, each sent after the success of the one before: the last ending, with all notes.

    `evaluate` gives the ending of one form, by its number from 1.
    """
    ending, notes = Ending("done"), dict[str, None]()
    for number, form in enumerate(forms, 1):
        ending = await evaluate(form, number)
        notes |= dict.fromkeys(ending.notes)
        if ending.status != "done":
            break
    return ending if len(notes) == len(ending.notes) else replace(ending, notes=tuple(notes))


class Evaluations(TaskSet):
    """The evaluations of one adapter that run in tasks of their own: each gets its end once, whatever happens."""

    def begin(self, ended: Ended, act: Coroutine[object, object, Ending]) -> None:
        """Run the function that gives an evaluation's ending, and tell it; or an error, or that we closed the REPL."""
        self.start(_told(ended, act))


async def _told(ended: Ended, act: Coroutine[object, object, Ending]) -> None:
    how: Ending | Exception = ReplDisconnectedError("it was closed by us")
    try:
        how = await act
    except Exception as error:  # noqa: BLE001  # it goes to the callback for the end
        how = error
    finally:
        ended(how)


class RunTests(Protocol):
    """A way to run the tests of one REPL."""

    async def __call__(self, asked: TestSelection, session: str, evaluation: str | None) -> TestRun:
        """Run tests; the listener gets their events under the id of an evaluation, if they are one."""
        ...


class TestEvaluations:
    """The runs of one REPL's tests. Lives as long as its adapter."""

    __test__ = False  # for pytest, which would take it for a test

    def __init__(self, run: RunTests, interrupt: Callable[[], Awaitable[object]], listener: Listener) -> None:
        self._run = run
        self._interrupt = interrupt
        self._listener = listener
        self._evaluations = Evaluations()
        self.end = self._evaluations.end

    def start(self, request: Request, ended: Ended) -> None:
        """Run tests as an evaluation, whose value is the run as `report_text` writes it."""
        self._evaluations.begin(ended, self._evaluate(request))

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests. A run that is cancelled, or takes too long, is interrupted.

        Raises:
            OpTimedOutError: the run took longer than `timeout_s`.
        """
        with anyio.move_on_after(timeout_s):
            try:
                return await self._run(TestSelection(namespace, test), session, None)
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True), suppress(CodriverError):
                    await self._interrupt()
                raise
        raise OpTimedOutError("test", timeout_s)

    async def _evaluate(self, request: Request) -> Ending:
        asked = request.tests or TestSelection()
        run = await self._run(asked, request.session, request.id)
        self._listener(request.id, Value(report_text(run, is_fresh=asked.fresh)))
        failure = Failure("tests-failed", words_of(run)) if run.failed + run.errors else None
        ending = Ending("failed" if failure else "done", failure=failure, said=f"{request.code}: {words_of(run)}")
        return replace(ending, status="interrupted") if run.stopped else ending


def alternatives(match: str) -> list[list[str]]:
    """The words of `match` as alternatives of words that all hold, `!` before forbidden ones; empty for more.

    In small letters, as names are compared in them.
    """
    if re.search(r"[()]", match) or not match.strip():
        return []
    either = re.split(r"\s+or\s+", match.strip().lower())
    each = [re.split(r"\s+and\s+", part) for part in either]
    words = [[re.sub(r"^not\s+", "!", word) for word in part] for part in each]
    return words if all(re.fullmatch(r"!?[^\s!]+", word) for part in words for word in part) else []


COLLECTION: Final = "(collection)"
"""The row of a test file that pytest could not read, or skipped as a whole: no test."""
_WORST_FIRST: Final = {"error": 0, "fail": 1, "pass": 2}
OUTPUT_CHARS: Final = 50_000


def tests_of(data: object, dialect: Dialect, *, output: str) -> TestRun:
    """The run in the answer to our own question."""
    fields = as_map(data)
    results = [result_of(as_map(item), dialect) for item in as_list(fields.get("results"))]
    times = tuple(time for item in as_list(fields.get("times")) for time in _times(item))
    run = run_of(results, tests=as_int(fields.get("tests")), output=output)
    run = replace(run, times=times, of=as_int(fields.get("of")))
    stopped = as_map(fields.get("stopped"))
    return replace(run, stopped=result_of(stopped, dialect)) if stopped else run


def _times(item: object) -> Iterator[TestTime]:
    """The time of a test, told as its namespace, its name and seconds; nothing for another form."""
    match item:
        case [str(namespace), str(test), float() | int() as seconds]:
            yield TestTime(namespace, test, float(seconds))


def run_of(results: list[TestResult], *, tests: int | None, output: str) -> TestRun:
    """The run of these results, the worst first; of `tests` tests, or as many as the results name."""
    outcomes = [result.outcome for result in results]
    hows = Counter(result.how for result in results if result.test != COLLECTION)
    return TestRun(
        tests=len({(result.namespace, result.test) for result in results}) if tests is None else tests,
        passed=sum(one.outcome == "pass" and one.test != COLLECTION and not one.how for one in results),
        failed=outcomes.count("fail"),
        errors=outcomes.count("error"),
        results=tuple(sorted(results, key=lambda result: _WORST_FIRST[result.outcome])),
        output=output[-OUTPUT_CHARS:],
        skipped=hows["skipped"],
        xfailed=hows["xfailed"],
        xpassed=hows["xpassed"],
    )


def _how(told: object) -> Literal["", "skipped", "xfailed", "xpassed"]:
    match told:
        case "skipped" | "xfailed" | "xpassed":
            return told
        case _:
            return ""


def result_of(fields: Mapping[str, object], dialect: Dialect) -> TestResult:
    """The result in these parts."""
    outcome = as_text(fields.get("outcome")) or as_text(fields.get("type"))
    file, line = read_file(as_text(fields.get("file"))), as_int(fields.get("line"))
    # An error is reported at its throw, which may be in a library; the test's own place says more.
    if fields.get("var-file") and (file is None or outcome == "error"):
        file, line = read_file(as_text(fields.get("var-file"))), as_int(fields.get("var-line"))
    context, message = as_text(fields.get("context")), as_text(fields.get("message"))
    return TestResult(
        test=as_text(fields.get("test")) or as_text(fields.get("var")) or "?",
        namespace=as_text(fields.get("ns")) or "?",
        outcome="pass" if outcome == "pass" else "fail" if outcome == "fail" else "error",
        message=": ".join(part for part in (context, message) if part) or None,
        expected=(as_text(fields.get("expected")) or "").rstrip() or None,
        actual=(as_text(fields.get("actual")) or as_text(fields.get("error")) or "").rstrip() or None,
        file=file,
        line=line,
        frames=frames_of(fields, dialect),
        how=_how(fields.get("how")),
    )
