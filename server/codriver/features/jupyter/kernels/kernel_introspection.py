"""Answer queries about code in a kernel by whatever means the kernel supports.

Python kernels are queried with Codriver's own modules, and other kernels with protocol messages. For other kernels, the
last error is the last one that an evaluation reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.features.jupyter.kernels import python_programs
from codriver.features.jupyter.kernels.kernel_queries import KernelQueries
from codriver.features.jupyter.kernels.python_queries import PythonQueries
from codriver.repls.contract.events import Ending
from codriver.repls.contract.queries import Complete, LastError, Lookup
from codriver.repls.contract.stack_frames import parse_frame
from codriver.repls.contract.stack_trace_values import StackTrace
from codriver.wire.untrusted import EMPTY_MAPPING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.core.evaluations import Failure
    from codriver.core.requests import Request
    from codriver.features.jupyter.kernels.kernel import Kernel
    from codriver.repls.contract.evaluation_extensions import EvaluationExtension
    from codriver.repls.contract.events import OnEnd
    from codriver.repls.contract.queries import Query
    from codriver.repls.contract.stack_trace_values import ThreadDump
    from codriver.repls.contract.symbols import SyntaxIssue


QUERY_TIMEOUT_S: Final = 10.0
"""Maximum duration of a query."""


class KernelIntrospection:
    """Answers the queries of the adapter contract for one connected kernel.

    Python kernels are queried through Codriver's modules, and other kernels through protocol messages.
    """

    def __init__(self, kernel: Kernel, *, is_python: bool, workspace: Path | None) -> None:
        self.queries = KernelQueries(kernel, op_timeout_s=QUERY_TIMEOUT_S)
        self.python: PythonQueries | None = None
        """The queries that use expressions, or None for a kernel that does not evaluate expressions."""
        if is_python:
            self.python = PythonQueries(kernel, self.queries, op_timeout_s=QUERY_TIMEOUT_S, workspace=workspace)
        self._failure: Failure | None = None

    async def prepare_load(self) -> None:
        """Prepare the kernel for code that loads a file or evaluates in a frame. See `Programs.prepare_load`."""
        if self.python is not None:
            await self.python.load_modules_in_turn()

    def edited_modules_expressions(self, code: str) -> Mapping[str, str]:
        """Return expressions that find outdated modules. See `Programs.edited_modules_expressions`."""
        return {} if self.python is None else self.python.edited_modules_expressions(code)

    def edited_modules(self, value: Mapping[str, object]) -> tuple[str, ...]:
        """Return the names of outdated modules from the values of `edited_modules_expressions`."""
        return python_programs.edited_modules(value) if value else ()

    async def start_extension(self, extension: EvaluationExtension) -> None:
        """Start an extension of a request in the kernel. See `Programs.start_extension`."""
        if self.python is not None:
            await self.python.start_extension(extension)

    async def end_extension(self, extension: EvaluationExtension) -> str | None:
        """End an extension, and return its report as JSON. See `Programs.end_extension`."""
        return None if self.python is None else await self.python.end_extension(extension)

    async def simple_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        """Return a few simple local variables from the frame of a failure. See `Programs.simple_locals`."""
        if self.python is None or cell is None or all(text.startswith("<module> ") for text in failure.trace):
            return ()  # a module's names are not local variables
        return await self.python.simple_locals(cell)

    def loading_code(self, request: Request) -> str:
        """Return the code that loads a file.

        In Python, tracebacks from the loaded code refer to the file. In other languages, the code is the file's text.
        """
        if self.python is None:
            return request.code
        return python_programs.loading_code(
            request.file or "<file>", request.code, request.lines, request.undo_id, request.how
        )

    def frame_evaluation_code(self, request: Request) -> str:
        """Return the code that evaluates a request in the stack frame that it selects."""
        return python_programs.frame_evaluation_code(request.code, request.frame or 0)

    def remember_failures(self, on_end: OnEnd) -> OnEnd:
        """Wrap a callback for the end of an evaluation so that failures are remembered as the kernel's last error."""

        def note(ending: Ending | Exception) -> None:
            if isinstance(ending, Ending) and ending.failure is not None:
                self._failure = ending.failure
            on_end(ending)

        return note

    async def answer_fields(self, query: Query[Any]) -> Mapping[str, object]:
        """Return the fields of the kernel's answer to a query, or an empty mapping if it has no answer."""
        if self.python is not None:
            return await self.python.answer_fields(query)
        if isinstance(query, Complete):
            return await self.queries.complete(query.prefix)
        if isinstance(query, LastError):
            return self._last_error()
        return await self.queries.inspect(query.symbol) if isinstance(query, Lookup) else EMPTY_MAPPING

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """Return the syntax error in `code`, or None if there is none or the kernel cannot check it."""
        return await (self.python or self.queries).check_syntax(code)

    async def stacks(self) -> ThreadDump | None:
        """Return the stacks of the kernel's threads, or None if they are not available."""
        return await self.python.stacks() if self.python else None

    def _last_error(self) -> Mapping[str, object]:
        if (failure := self._failure) is None:
            return EMPTY_MAPPING
        frames = tuple(parse_frame(text, ()) for text in failure.trace)
        return {"trace": StackTrace(failure.type, failure.message, frames, failure.data, failure.notes)}
