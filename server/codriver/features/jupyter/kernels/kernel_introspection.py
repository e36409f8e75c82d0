"""Queries of the adapter contract to a kernel, answered in the way that suits the kernel.

Python kernels are queried with Codriver's own modules, and other kernels with messages of the protocol. For other
kernels, the last error is the last one that an evaluation reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.features.jupyter.kernels.kernel_queries import KernelQueries
from codriver.features.jupyter.kernels.python_programs import edited_modules, frame_code, load
from codriver.features.jupyter.kernels.python_queries import PythonQueries
from codriver.repls.contract.adapter_values import Ending, StackTrace
from codriver.repls.contract.questions import Complete, LastError, Lookup
from codriver.repls.contract.reports import read_frame
from codriver.wire.untrusted import NOTHING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.core.values import Failure, Request
    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.repls.contract.adapter_values import (
        OnEnd,
        SyntaxIssue,
        ThreadDump,
    )
    from codriver.repls.contract.extras import Extra
    from codriver.repls.contract.questions import Query


OP_S: Final = 10.0


class KernelIntrospection:
    """The questions of the contract to one kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, *, is_python: bool, workspace: Path | None) -> None:
        self.queries = KernelQueries(kernel, op_timeout_s=OP_S)
        self.python: PythonQueries | None = None
        """The questions that are expressions; None for a kernel that answers none."""
        if is_python:
            self.python = PythonQueries(kernel, self.queries, op_timeout_s=OP_S, workspace=workspace)
        self._failure: Failure | None = None

    async def prepare_load(self) -> None:
        """Prepare the kernel for the code that loads a file."""
        if self.python is not None:
            await self.python.load_modules_in_turn()

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        """The expressions sent with code that tell the modules which it used and which were edited since their load."""
        return {} if self.python is None else self.python.edited_modules_expressions(code)

    def edited_modules(self, value: Mapping[str, object]) -> tuple[str, ...]:
        """The modules told by these expressions, in words."""
        return edited_modules(value) if value else ()

    async def begin(self, extra: Extra) -> None:
        """Have the kernel begin what an extra of a request needs."""
        if self.python is not None:
            await self.python.begin(extra)

    async def end(self, extra: Extra) -> str | None:
        """End it; the report, as JSON."""
        return None if self.python is None else await self.python.end(extra)

    async def plain_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        """The plain locals at the place where an execution failed."""
        if self.python is None or cell is None or all(text.startswith("<module> ") for text in failure.trace):
            return ()  # names of a module are no locals
        return await self.python.plain_locals(cell)

    def load_code(self, request: Request) -> str:
        """The code that loads a file: in Python under its path, so that its places are told; else the file's text."""
        if self.python is None:
            return request.code
        return load(request.file or "<file>", request.code, request.lines, request.undo_id, request.how)

    def frame_code(self, request: Request) -> str:
        """The code that evaluates in a frame."""
        return frame_code(request.code, request.frame or 0)

    def noting(self, on_end: OnEnd) -> OnEnd:
        """The listener of an end, behind ours: we keep its failure as the kernel's last error."""

        def note(how: Ending | Exception) -> None:
            if isinstance(how, Ending) and how.failure is not None:
                self._failure = how.failure
            on_end(how)

        return note

    async def answer_fields(self, query: Query[Any]) -> Mapping[str, object]:
        """The kernel's answer to a question of the contract; an empty map if it cannot tell."""
        if self.python is not None:
            return await self.python.answer_fields(query)
        if isinstance(query, Complete):
            return await self.queries.complete(query.prefix)
        if isinstance(query, LastError):
            return self._last_error()
        return await self.queries.inspect(query.symbol) if isinstance(query, Lookup) else NOTHING

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """The reason why the kernel cannot read `code`."""
        return await (self.python or self.queries).check_syntax(code)

    async def stacks(self) -> ThreadDump | None:
        """The stacks of the kernel's threads."""
        return await self.python.stacks() if self.python else None

    def _last_error(self) -> Mapping[str, object]:
        if (failure := self._failure) is None:
            return NOTHING
        frames = tuple(read_frame(text, ()) for text in failure.trace)
        return {"trace": StackTrace(failure.type, failure.message, frames, failure.data, failure.notes)}
