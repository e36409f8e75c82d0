"""Answer queries about code in a Python kernel, using modules from Codriver's worker in the kernel."""

from __future__ import annotations

import json
import os
import re
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, cast

import anyio

from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.kernel_queries import MAX_CHECKED_CHARACTERS, KernelQueries, read_completions
from codriver.features.jupyter.kernels.python_programs import (
    EDITED_EXPRESSION,
    answer_data,
    call_expression,
    install_expression,
    parse_printed_json,
)
from codriver.features.jupyter.kernels.silent_expressions import (
    evaluate_expression,
    evaluate_in_turn,
    evaluate_with_messages,
)
from codriver.python_syntax import parse_source
from codriver.repls.contract.queries import Complete, LastError, Query
from codriver.repls.contract.symbols import SyntaxIssue
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.dialects.thread_dumps import build_thread_dump, parse_python_dump
from codriver.repls.stack_traces import add_locals, mark_user_frames, parse_trace_fields
from codriver.wire.untrusted import EMPTY_MAPPING, list_or_empty, mapping_or_empty, text_or_none

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.repls.contract.evaluation_extensions import EvaluationExtension
    from codriver.repls.contract.stack_trace_values import ThreadDump


_DOTTED_NAME: Final = re.compile(r"[\w.]*")
LOCALS_TIMEOUT_S: Final = 2.0
"""Maximum time that the report of an error waits for local variables."""
MAIN_NAMESPACES: Final = frozenset({None, "", "user", "__main__"})
"""Names that refer to a kernel's only namespace."""


class EvaluateExpression(Protocol):
    """A function that evaluates an expression in a kernel and returns the result."""

    async def __call__(self, kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
        """Evaluate an expression, and return the result as sent by the kernel."""
        ...


class PythonQueries:
    """Queries one connected Python kernel by calling modules of the embedded worker in it."""

    def __init__(self, kernel: Kernel, queries: KernelQueries, *, op_timeout_s: float, workspace: Path | None) -> None:
        self._kernel = kernel
        self._queries = queries
        self._op_timeout_s = op_timeout_s
        self.workspace = workspace
        self._is_loaded = False
        self._loading = anyio.Lock()

    async def load_modules(self) -> None:
        """Load the modules into the kernel if necessary.

        Raises:
            RefusedError: the kernel is busy.
            EvaluationFailedError: the kernel cannot load them.
        """
        async with self._loading:
            if not self._is_loaded:
                await self._queries.wait_until_free()
                await self._send_modules(evaluate_expression)

    async def load_modules_in_turn(self) -> None:
        """Load the modules into the kernel if necessary. The caller must have reserved the main shell.

        Raises:
            EvaluationFailedError: the kernel cannot load them.
        """
        if not self._is_loaded:
            await self._send_modules(evaluate_in_turn)

    async def simple_locals(self, cell: int) -> tuple[str, ...]:
        """Return a few local variables with simple values from the frame in which a cell failed.

        Return an empty tuple if another client's code is running or the query takes too long. The caller must have
        reserved the main shell.
        """
        if self._kernel.foreign_request_id is not None:
            return ()
        variables: list[object] = []
        with (
            anyio.move_on_after(LOCALS_TIMEOUT_S),
            suppress(CodriverError),
        ):  # the error is then reported without local variables
            await self.load_modules_in_turn()
            code = call_expression("locals", cell=cell)
            value = await evaluate_in_turn(self._kernel, code, timeout_s=self._op_timeout_s)
            variables = cast("list[object]", answer_data("locals", parse_printed_json("locals", value)))
        return tuple(variable for variable in variables if isinstance(variable, str))

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        """Return the expression that finds outdated modules, to be sent together with `code`.

        Return an empty mapping if the modules are not loaded. See `Programs.edited_modules_expressions`.
        """
        if not self._is_loaded or len(code) > MAX_CHECKED_CHARACTERS:
            return {}
        return {EDITED_EXPRESSION: call_expression("edited", code=code)}

    async def start_extension(self, extension: EvaluationExtension) -> None:
        """Start an extension of an evaluation, such as a trace. The caller must have reserved the main shell.

        Raises:
            EvaluationFailedError: the kernel cannot start it.
        """
        await self.load_modules_in_turn()
        operation, arguments = extension.begin(str(self.workspace or ""))
        code = call_expression(operation, **arguments)
        parse_printed_json(operation, await evaluate_in_turn(self._kernel, code, timeout_s=self._op_timeout_s))

    async def end_extension(self, extension: EvaluationExtension) -> str | None:
        """End an extension, and return its report as JSON, or None if it has no report.

        The caller must have reserved the main shell.
        """
        code = call_expression(extension.end)
        reply = await evaluate_in_turn(self._kernel, code, timeout_s=self._op_timeout_s)
        answer = answer_data(extension.end, parse_printed_json(extension.end, reply))
        return None if answer is None else json.dumps(answer)

    def test_expression(self, code: str) -> str:
        """Return the expression that runs a test run's code in the project's directory, if that exists."""
        return call_expression("test", code=code, directory=str(self.workspace or ""))

    async def _send_modules(self, evaluate: EvaluateExpression) -> None:
        code = await anyio.to_thread.run_sync(install_expression)  # the first call reads files
        parse_printed_json("Codriver's modules", await evaluate(self._kernel, code, timeout_s=self._op_timeout_s))
        self._is_loaded = True

    async def answer_fields(self, query: Query[Any]) -> Mapping[str, object]:
        """Return the fields of the kernel's answer to a query.

        IPython completes prefixes that are not dotted names, such as magics.
        """
        is_main = query.namespace in MAIN_NAMESPACES
        if isinstance(query, Complete) and is_main and not _DOTTED_NAME.fullmatch(query.prefix):
            content = await self._call_modules("ipython_complete", prefix=query.prefix)
            if isinstance(content, dict):
                return {"completions": read_completions(query.prefix, content)}
            return await self._queries.complete(query.prefix)
        if isinstance(query, LastError):
            return await self._last_error(query)
        return mapping_or_empty(await self._call_modules(query.name, **query.request_fields(query.namespace or "")))

    async def call_op(self, op: str, fields: Mapping[str, str], on_text: Callable[[str], object]) -> str:
        """Call an operation that a feature adds, and return its answer.

        Texts sent by the operation's threads are passed to `on_text`, even after the operation has returned.

        Raises:
            RefusedError: the kernel is busy.
            EvaluationFailedError: the operation failed in the kernel.
        """
        await self.load_modules()
        await self._queries.wait_until_free()

        code = call_expression(op, client=os.getpid(), **fields)
        value = await evaluate_with_messages(self._kernel, code, on_text, timeout_s=self._op_timeout_s)
        return str(answer_data(op, parse_printed_json(op, value)))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """Return the syntax error in `code`, or None if there is none or the check was skipped."""
        if is_plain_python(code):
            return None  # the check would delay the evaluation
        if await self._queries.check_syntax(code) is None:
            return None
        # If the two disagree, the parser is right, because it also parses the code when it runs.
        fields = mapping_or_empty(await self._call_modules("syntax", code=code))
        if not (message := text_or_none(fields.get("message"))):
            return None
        line, column = fields.get("line"), fields.get("column")
        return SyntaxIssue(
            message,
            text_or_none(fields.get("class")) or "SyntaxError",
            line if isinstance(line, int) else None,
            column if isinstance(column, int) else None,
        )

    async def stacks(self) -> ThreadDump | None:
        """Return the stacks of the threads running user code, or None if the kernel is busy or the query fails."""
        try:
            if not await self._queries.can_query():
                return None
            text = await self._call_modules("stacks")
        except CodriverError:
            return None  # this is called before an interrupt, and must never delay it
        return build_thread_dump(parse_python_dump(str(text)), WORKER_PYTHON.tooling)

    async def _last_error(self, query: LastError) -> Mapping[str, object]:
        answer = mapping_or_empty(await self._call_modules(query.name, **query.request_fields("")))
        parts = mapping_or_empty(answer.get("error"))
        if not parts:
            return EMPTY_MAPPING
        trace = add_locals(parse_trace_fields(parts, WORKER_PYTHON), list_or_empty(answer.get("locals")))
        chain = tuple(replace(link, frames=mark_user_frames(link.frames, self.workspace)) for link in trace.chain)
        return {"trace": replace(trace, frames=mark_user_frames(trace.frames, self.workspace), chain=chain)}

    async def _call_modules(self, query: str, **fields: object) -> object:
        """Return the modules' answer to a query, loading the modules first if necessary.

        Raises:
            RefusedError: the kernel is busy.
            EvaluationFailedError: the query failed in the kernel.
        """
        await self.load_modules()
        await self._queries.wait_until_free()
        code = call_expression(query, **fields)
        answer = await evaluate_expression(self._kernel, code, timeout_s=self._op_timeout_s)
        return answer_data(query, parse_printed_json(query, answer))


def is_plain_python(code: str) -> bool:
    """Return whether code is plain Python, without IPython magics. Code that is too long to check counts as plain."""
    if len(code) > MAX_CHECKED_CHARACTERS:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parse_source(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
