"""Questions to a Python kernel, and its project's tests: both by the embedded worker's own modules, loaded into it.

The modules are loaded once, and answer as the embedded worker does, in any Python from 3.8 on and with the standard
library alone. They live in a private package that the kernel keeps until it ends, without a name in the user's
namespace.

Tests run by our own program on the kernel's main thread, silently: the run waits for its turn as an evaluation does, no
client sees its code, and the tests' output is told as it comes.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import warnings
import zlib
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from graphlib import TopologicalSorter
from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Protocol, cast

import anyio

from codriver import files
from codriver.core.values import Failure, Request, TestSelection
from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.execution import WORKER_DIRECTORY, Execution, stop
from codriver.features.jupyter.kernels.kernel import EXECUTE, Exchange, Kernel
from codriver.features.jupyter.kernels.kernel_questions import (
    MOST_CHECKED,
    KernelQueries,
    expression,
    expression_now,
    expression_value,
    silently,
)
from codriver.repls.contract.adapter import EvaluationFailedError, namespace_missing
from codriver.repls.contract.adapter_values import (
    UNKNOWN_TEST,
    Display,
    Event,
    Interruption,
    Listener,
    OnEnd,
    Output,
    Reported,
    SyntaxIssue,
    TestResult,
    TestRun,
    ThreadDump,
)
from codriver.repls.contract.questions import Complete, LastError, Query
from codriver.repls.contract.reports import TestProgress
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.dialects.server_dialect import dump_of, read_python
from codriver.repls.launch import recipes
from codriver.repls.programs import python_text
from codriver.repls.stack_traces import frames_of, marked, read_trace, with_locals
from codriver.repls.test_results import tests_of
from codriver.repls.test_runs import TestEvaluations, alternatives
from codriver.wire.untrusted import NOTHING, as_list, as_map, as_text, mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from codriver.repls.contract.extras import Extra


class EvaluateExpression(Protocol):
    """A way to have the kernel evaluate an expression of ours."""

    async def __call__(self, kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
        """The value, as the kernel tells it."""
        ...


_NAME: Final = re.compile(r"[\w.]*")
EDITED: Final = "codriver_edited"
LOCALS_S: Final = 2.0
"""The time that an error waits for its locals."""
HOMES: Final = frozenset({None, "", "user", "__main__"})
"""The names of a kernel's only namespace."""


class PythonQueries:
    """The questions to one Python kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, queries: KernelQueries, *, op_timeout_s: float, workspace: Path | None) -> None:
        self._kernel = kernel
        self._queries = queries
        self._op_timeout_s = op_timeout_s
        self.workspace = workspace
        self._is_brought_in = False
        self._bringing_in = anyio.Lock()

    async def bring_in(self) -> None:
        """Load the modules into the kernel, if they are not there.

        Raises:
            RefusedError: it would have to wait.
            EvaluationFailedError: the kernel cannot have them.
        """
        async with self._bringing_in:
            if not self._is_brought_in:
                await self._queries.wait_free()
                await self._send_modules(expression)

    async def bring_in_now(self) -> None:
        """Load the modules in the caller's turn, if they are not there.

        Raises:
            EvaluationFailedError: the kernel cannot have them.
        """
        if not self._is_brought_in:
            await self._send_modules(expression_now)

    async def plain_locals(self, cell: int) -> tuple[str, ...]:
        """The plain locals at the place where a cell failed, in the caller's turn; none if that takes long.

        Other clients' code may come in between, and take the kernel's time.
        """
        if self._kernel.running_for_others is not None:
            return ()
        seen: list[object] = []
        with anyio.move_on_after(LOCALS_S), suppress(CodriverError):  # the error is told without locals then
            await self.bring_in_now()
            code = put("locals", cell=cell)
            value = await expression_now(self._kernel, code, timeout_s=self._op_timeout_s)
            seen = cast("list[object]", read_answer("locals", answer_from_program("locals", value)))
        return tuple(text for text in seen if isinstance(text, str))

    def edited_names_code(self, code: str) -> Mapping[str, str]:
        """The expression sent with a cell that tells the edited modules it used; none without our modules."""
        if not self._is_brought_in or len(code) > MOST_CHECKED:
            return {}
        return {EDITED: put("edited", code=code)}

    async def begin(self, extra: Extra) -> None:
        """Have the kernel begin what an extra of an evaluation needs, in the caller's turn.

        Raises:
            EvaluationFailedError: the kernel cannot be asked.
        """
        await self.bring_in_now()
        operation, arguments = extra.begin(str(self.workspace or ""))
        code = put(operation, **arguments)
        answer_from_program(operation, await expression_now(self._kernel, code, timeout_s=self._op_timeout_s))

    async def end(self, extra: Extra) -> str | None:
        """End it, in the caller's turn; the report, as JSON, or None without one."""
        code = put(extra.end)
        reply = await expression_now(self._kernel, code, timeout_s=self._op_timeout_s)
        answer = read_answer(extra.end, answer_from_program(extra.end, reply))
        return None if answer is None else json.dumps(answer)

    def test_expression(self, code: str) -> str:
        """The expression that evaluates our code for a test run, in the project's folder, if the kernel has that."""
        return put("test", code=code, directory=str(self.workspace or ""))

    async def _send_modules(self, evaluate: EvaluateExpression) -> None:
        code = await anyio.to_thread.run_sync(install)  # the first call reads files
        answer_from_program(
            "what kernels are asked by", await evaluate(self._kernel, code, timeout_s=self._op_timeout_s)
        )
        self._is_brought_in = True

    async def answer_fields(self, query: Query[Any]) -> Mapping[str, object]:
        """The kernel's answer to a question of the contract; completions of other than dotted names are IPython's own.

        IPython's completions take seconds the first time, and fail when a human's notebook asks at the same moment.
        """
        is_home = query.namespace in HOMES
        if isinstance(query, Complete) and is_home and not _NAME.fullmatch(query.prefix):
            return await self._queries.complete(query.prefix)
        if isinstance(query, LastError):
            return await self._last_error(query)
        return as_map(await self._call(query.name, **query.request_fields(query.namespace or "")))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """The reason and the place why IPython cannot read `code`; None if it can, or cannot be asked."""
        if is_plain(code):
            return None  # an evaluation must not take longer for it
        if await self._queries.check_syntax(code) is None:
            return None
        # If the two differ, the parser is right, as it reads the code for the run.
        fields = as_map(await self._call("syntax", code=code))
        if not (message := as_text(fields.get("message"))):
            return None
        line, column = fields.get("line"), fields.get("column")
        return SyntaxIssue(
            message,
            as_text(fields.get("class")) or "SyntaxError",
            line if isinstance(line, int) else None,
            column if isinstance(column, int) else None,
        )

    async def stacks(self) -> ThreadDump | None:
        """The stacks of the kernel's threads that run user code."""
        try:
            if not await self._queries.can_query():
                return None
            text = await self._call("stacks")
        except CodriverError:
            return None  # this is asked before an interrupt, and must never delay it
        return dump_of(read_python(str(text)), WORKER_PYTHON.tooling)

    async def _last_error(self, query: LastError) -> Mapping[str, object]:
        answer = as_map(await self._call(query.name, **query.request_fields("")))
        parts = as_map(answer.get("error"))
        if not parts:
            return NOTHING
        trace = with_locals(read_trace(parts, WORKER_PYTHON), as_list(answer.get("locals")))
        chain = tuple(replace(link, frames=marked(link.frames, self.workspace)) for link in trace.chain)
        return {"trace": replace(trace, frames=marked(trace.frames, self.workspace), chain=chain)}

    async def _call(self, query: str, **fields: object) -> object:
        """The answer to a question, by the modules in the kernel, which are loaded first if missing.

        Raises:
            RefusedError: it would have to wait.
            EvaluationFailedError: the kernel failed in answering.
        """
        await self.bring_in()
        await self._queries.wait_free()
        code = put(query, **fields)
        answer = await expression(self._kernel, code, timeout_s=self._op_timeout_s)
        return read_answer(query, answer_from_program(query, answer))


def is_plain(code: str) -> bool:
    """Whether code is plain Python, without IPython's magics. Code too long for the question counts as plain."""
    if len(code) > MOST_CHECKED:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def answer_from_program(query: str, answer: Mapping[str, object]) -> object:
    """The data that an expression of ours printed as JSON; None if it is Python's `None`.

    Raises:
        EvaluationFailedError: the expression failed, or printed something else.
    """
    if text_of(answer, "status") == "error" or not answer:
        failure = Failure(
            text_of(answer, "ename") or "unreadable", text_of(answer, "evalue") or "the kernel told nothing"
        )
        raise EvaluationFailedError(query, failure)
    text = text_of(mapping_of(answer, "data"), "text/plain")
    if text == "None":
        return None
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:  # nested too deep
        failure = Failure("unreadable", f"the kernel printed {text[:200]!r} where JSON was expected")
        raise EvaluationFailedError(query, failure) from error


def edited_in(answer: Mapping[str, object]) -> tuple[str, ...]:
    """The modules that a cell used and whose files were edited since, from the cell's expressions."""
    found: object = ()
    with suppress(EvaluationFailedError):
        found = read_answer(EDITED, answer_from_program(EDITED, mapping_of(answer, EDITED)))
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def read_answer(query: str, answer: object) -> object:
    """The data of an answer.

    Raises:
        EvaluationFailedError: the answer tells a failure.
    """
    fields = answer if isinstance(answer, dict) else {}
    if failed := mapping_of(fields, "failed"):
        raise EvaluationFailedError(query, Failure(text_of(failed, "type"), text_of(failed, "message")))
    return fields.get("data")


WORKER: Final = recipes.WORKER.parent
TEXT: Final = files.Rules(files.Links.ANY, most_bytes=2**20)
ENTRY_MODULE: Final = "python.kernel_answers"
"""The module whose answers a kernel gives."""
_IMPORT: Final = re.compile(r"^from \.(?P<near>\w+)|^from \.\.(?P<far>[\w.]+)", re.MULTILINE)
"""An import of a module of the same folder, or of another one."""


@cache
def _module_sources() -> tuple[tuple[str, str], ...]:
    """The modules to load, by their dotted names, each after the modules that it needs."""
    needs: dict[str, set[str]] = {}
    sources: dict[str, str] = {}
    features = {f"features.{path.stem}" for path in (WORKER / "features").glob("*.py") if path.stem != "__init__"}
    waiting = [ENTRY_MODULE, *features]
    while waiting:
        name = waiting.pop()
        if name in sources:
            continue
        package, _, module = name.partition(".")
        sources[name] = files.read_text(WORKER / package / f"{module}.py", TEXT)
        needs[name] = {found["far"] or f"{package}.{found['near']}" for found in _IMPORT.finditer(sources[name])}
        waiting += needs[name]
    needs[ENTRY_MODULE] |= features
    return tuple((name, sources[name]) for name in TopologicalSorter(needs).static_order())


@cache
def _bring_in() -> str:
    return python_text("python/bring_in.py")


@cache
def package() -> str:
    """The name of the private package: each text has a name of its own, as kernels outlive servers."""
    digest = blake2b(json.dumps([_bring_in(), *_module_sources()]).encode(), digest_size=4).hexdigest()
    return f"_codriver_{digest}"


@cache
def _install() -> str:
    """The expression that loads the modules and gives their answers, whatever names the user has redefined."""
    packed = base64.b85encode(zlib.compress(json.dumps(_module_sources()).encode(), 9)).decode()
    return (
        "[space['install'](" + repr(package()) + ", " + repr(WORKER_DIRECTORY) + ", texts)"
        " for builtins in [__import__('builtins')] for space in [{'__name__': " + repr(package()) + "}]"
        " for _ in [builtins.exec(" + repr(_bring_in()) + ", space)]"
        " for texts in [__import__('json').loads(__import__('zlib').decompress("
        "__import__('base64').b85decode(" + repr(packed) + ")))]][0]"
    )


def install() -> str:
    """The expression that loads missing modules; its value has no meaning."""
    return f"None if {_answers()} else {_install()} and None"


def _answers() -> str:
    return f"getattr(__import__('sys').modules.get({package()!r}), 'answers', None)"


def put(function: str, /, **fields: object) -> str:
    """The expression that asks a question; its value prints as JSON, `null` without the modules."""
    arguments = ", ".join(f"{key}={_literal(value)}" for key, value in fields.items())
    # A question that raises would become the last error of the user.
    call = ", ".join(filter(None, [repr(function), arguments]))
    return f"(lambda answers: answers and answers.call({call}))({_answers()})"


def load(path: str, text: str, lines: tuple[int, ...] | None, undo_id: str, how: str = "") -> str:
    """The code that loads a file, in a kernel with the modules."""
    has_more = lines is not None or undo_id or how
    arguments = [path, text, *([list(lines) if lines is not None else None, undo_id, how] if has_more else [])]
    return f"__import__('sys').modules[{package()!r}].answers.load({', '.join(map(_literal, arguments))})"


def in_frame(code: str, frame: int) -> str:
    """The code that evaluates code in a frame, in a kernel with the modules."""
    return f"__import__('sys').modules[{package()!r}].answers.frame({_literal(code)}, {frame})"


def _literal(value: object) -> str:
    """A value as a literal of Python in ASCII."""
    return ascii(value)


IDLE_S: Final = 2.0
"""The wait of a run, after its reply, for the tests' last output."""
WHAT: Final = "the test run"
STOPPED: Final = TestRun(0, 0, 0, 0, (), stopped=TestResult(UNKNOWN_TEST, UNKNOWN_TEST, "error"))


class KernelTestRunner:
    """Runs the tests of one Python kernel, for the life of its connection. `interrupt` stops the kernel's code."""

    __test__ = False  # for pytest, which would take it for a test

    def __init__(
        self, kernel: Kernel, python: PythonQueries, listener: Listener, interrupt: Callable[[], Awaitable[str]]
    ) -> None:
        self._kernel = kernel
        self._python = python
        self._listener = listener
        self._interrupt_kernel = interrupt
        self._under_way: list[_Run] = []
        self._evaluations = TestEvaluations(self._run, interrupt, listener)
        self.run_tests = self._evaluations.run_tests
        self.end = self._evaluations.end

    def start(self, request: Request, on_end: OnEnd) -> None:
        """Run tests as an evaluation."""
        self._kernel.check_open()
        self._evaluations.start(request, on_end)

    def so_far(self, evaluation: str) -> TestRun | None:
        """The ended tests of a run under way."""
        found = next((run.progress.run for run in self._under_way if run.evaluation == evaluation), None)
        return self._marked(found) if found is not None else None

    async def interrupt(self) -> Interruption:
        """Stop the run begun first, or take a run back that still waits for its turn."""
        if not self._under_way:
            return Interruption("idle")
        run = self._under_way[0]
        return await stop(run.waiting, run.over, self._interrupt_kernel)

    async def _run(self, selection: TestSelection, session: str, evaluation: str | None) -> TestRun:
        del session  # a kernel has only one namespace
        run = _Run(evaluation, self._listener, self._kernel)
        self._under_way.append(run)
        try:
            run.waiting = anyio.CancelScope()
            with run.waiting:
                async with self._kernel.turn():
                    run.waiting = None
                    await self._python.bring_in_now()
                    for extra in selection.extras:
                        await self._python.begin(extra)
                    try:
                        reply = await run.send(self._python.test_expression(code_of(selection)))
                    finally:
                        if evaluation is not None:
                            await self._end_extras(evaluation, selection.extras)
                return self._marked(run_of(reply, selection, "".join(run.printed)))
            return STOPPED
        finally:
            self._under_way.remove(run)
            run.over.set()

    async def _end_extras(self, evaluation: str, extras: Sequence[Extra]) -> None:
        for extra in extras:
            report = await self._python.end(extra)
            if report is not None:
                self._listener(evaluation, Reported(extra.report, report))

    def _marked(self, run: TestRun) -> TestRun:
        """The run, with frames in files of the workspace marked as the user's."""
        workspace = self._python.workspace
        results = [replace(result, frames=marked(result.frames, workspace)) for result in run.results]
        return replace(run, results=tuple(results))


class _Run:
    """One test run under way."""

    def __init__(self, evaluation: str | None, listener: Listener, kernel: Kernel) -> None:
        self.printed: list[str] = []
        self.progress = TestProgress(partial(frames_of, dialect=WORKER_PYTHON))
        self.waiting: anyio.CancelScope | None = None
        """The wait for a turn, in which the code can still be taken back."""
        self.over = anyio.Event()
        self.evaluation = evaluation
        self._listener = listener
        self._kernel = kernel

    async def send(self, expression: str) -> Mapping[str, object]:
        """Send the expression, and wait for its end; the kernel's answer."""
        execution = Execution(self._receive, self._kernel.info.quirks)
        exchange = self._kernel.post("shell", EXECUTE, silently(expression), Exchange(execution.receive))
        try:
            await exchange.replied.wait()
            with anyio.move_on_after(IDLE_S):
                await exchange.idle.wait()
        finally:
            self._kernel.finish(exchange)
        self._kernel.check_open()
        return expression_value(exchange.reply)

    def _receive(self, event: Event) -> None:
        if isinstance(event, Output) and (text := self.progress.feed(event.text)):
            self.printed.append(text)
            if self.evaluation is not None:
                self._listener(self.evaluation, Output("out", text))
        elif isinstance(event, Display) and self.evaluation is not None:
            self._listener(self.evaluation, event)


def code_of(selection: TestSelection) -> str:
    """The expression that runs the tests in a new process of the kernel's Python."""
    return WORKER_PYTHON.expression(
        "test",
        ns=selection.namespace or "",
        name=selection.test or "",
        match=selection.match or "",
        words=alternatives(selection.match or ""),
        only=selection.only,
        root="",
    )


def run_of(reply: Mapping[str, object], selection: TestSelection, printed: str) -> TestRun:
    """The run that the kernel's answer reports.

    Raises:
        RefusedError: there is no such module or file.
        EvaluationFailedError: no such test exists, or its module does not load.
    """
    if text_of(reply, "ename") == "KeyboardInterrupt":
        return STOPPED
    answer = answer_from_program(WHAT, reply)
    if text_of(mapping_of(answer if isinstance(answer, dict) else {}, "failed"), "type") == "KeyboardInterrupt":
        return STOPPED
    data = as_map(read_answer(WHAT, answer))
    if not data:
        raise EvaluationFailedError(WHAT, Failure("unreadable", "the kernel told nothing of it"))
    if data.get("missing"):
        raise namespace_missing(selection.namespace or "")
    return tests_of(data, WORKER_PYTHON, output=printed)
