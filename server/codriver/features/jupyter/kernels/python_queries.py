"""Queries to a Python kernel, answered by the embedded worker's modules as the embedded worker would."""

from __future__ import annotations

import ast
import json
import re
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, cast

import anyio

from codriver.errors import CodriverError
from codriver.features.jupyter.kernels.kernel_queries import MAX_CHECKED_CHARACTERS, KernelQueries
from codriver.features.jupyter.kernels.python_programs import EDITED, answer_data, install, parse_printed, put
from codriver.features.jupyter.kernels.silent_expressions import expression, expression_now
from codriver.repls.contract.adapter_values import (
    SyntaxIssue,
    ThreadDump,
)
from codriver.repls.contract.questions import Complete, LastError, Query
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.dialects.server_dialect import dump_of, read_python
from codriver.repls.stack_traces import marked, read_trace, with_locals
from codriver.wire.untrusted import NOTHING, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.repls.contract.extras import Extra


class EvaluateExpression(Protocol):
    """A way to have the kernel evaluate an expression of ours."""

    async def __call__(self, kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
        """The value, as the kernel tells it."""
        ...


_NAME: Final = re.compile(r"[\w.]*")
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
        self._is_loaded = False
        self._loading = anyio.Lock()

    async def load_modules(self) -> None:
        """Load the modules into the kernel, if they are not there.

        Raises:
            RefusedError: it would have to wait.
            EvaluationFailedError: the kernel cannot have them.
        """
        async with self._loading:
            if not self._is_loaded:
                await self._queries.wait_free()
                await self._send_modules(expression)

    async def load_modules_in_turn(self) -> None:
        """Load the modules in the caller's turn, if they are not there.

        Raises:
            EvaluationFailedError: the kernel cannot have them.
        """
        if not self._is_loaded:
            await self._send_modules(expression_now)

    async def plain_locals(self, cell: int) -> tuple[str, ...]:
        """The plain locals at the place where a cell failed, in the caller's turn; none if that takes long.

        Other clients' code may come in between, and take the kernel's time.
        """
        if self._kernel.running_for_others is not None:
            return ()
        seen: list[object] = []
        with anyio.move_on_after(LOCALS_S), suppress(CodriverError):  # the error is told without locals then
            await self.load_modules_in_turn()
            code = put("locals", cell=cell)
            value = await expression_now(self._kernel, code, timeout_s=self._op_timeout_s)
            seen = cast("list[object]", answer_data("locals", parse_printed("locals", value)))
        return tuple(text for text in seen if isinstance(text, str))

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        """The expression sent with a cell that tells the edited modules it used; none without our modules."""
        if not self._is_loaded or len(code) > MAX_CHECKED_CHARACTERS:
            return {}
        return {EDITED: put("edited", code=code)}

    async def begin(self, extra: Extra) -> None:
        """Have the kernel begin what an extra of an evaluation needs, in the caller's turn.

        Raises:
            EvaluationFailedError: the kernel cannot be asked.
        """
        await self.load_modules_in_turn()
        operation, arguments = extra.begin(str(self.workspace or ""))
        code = put(operation, **arguments)
        parse_printed(operation, await expression_now(self._kernel, code, timeout_s=self._op_timeout_s))

    async def end(self, extra: Extra) -> str | None:
        """End it, in the caller's turn; the report, as JSON, or None without one."""
        code = put(extra.end)
        reply = await expression_now(self._kernel, code, timeout_s=self._op_timeout_s)
        answer = answer_data(extra.end, parse_printed(extra.end, reply))
        return None if answer is None else json.dumps(answer)

    def test_expression(self, code: str) -> str:
        """The expression that evaluates our code for a test run, in the project's folder, if the kernel has that."""
        return put("test", code=code, directory=str(self.workspace or ""))

    async def _send_modules(self, evaluate: EvaluateExpression) -> None:
        code = await anyio.to_thread.run_sync(install)  # the first call reads files
        parse_printed("what kernels are asked by", await evaluate(self._kernel, code, timeout_s=self._op_timeout_s))
        self._is_loaded = True

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
        await self.load_modules()
        await self._queries.wait_free()
        code = put(query, **fields)
        answer = await expression(self._kernel, code, timeout_s=self._op_timeout_s)
        return answer_data(query, parse_printed(query, answer))


def is_plain(code: str) -> bool:
    """Whether code is plain Python, without IPython's magics. Code too long for the question counts as plain."""
    if len(code) > MAX_CHECKED_CHARACTERS:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
