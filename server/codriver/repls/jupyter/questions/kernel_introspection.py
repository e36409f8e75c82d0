"""Introspection of one kernel: each question of the adapter's contract, asked in the way that this kernel answers.

Python kernels answer by the embedded worker's modules, others by the protocol's own messages, and their last error is
the one that they told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.values import Capability
from codriver.repls.contract.adapter_values import Ending, StackTrace
from codriver.repls.contract.errors import OpTimedOutError
from codriver.repls.contract.questions import Complete, LastError, Lookup
from codriver.repls.contract.stack_frames import read_frame
from codriver.repls.jupyter.messages.messages import NOTHING, mapping_of, text_of
from codriver.repls.jupyter.questions import python_programs
from codriver.repls.jupyter.questions.expressions import expression
from codriver.repls.jupyter.questions.kernel_questions import Questions
from codriver.repls.jupyter.questions.python_questions import PythonQuestions

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from codriver.core.values import Failure, Request
    from codriver.repls.contract.adapter_values import Ended, SyntaxFault, ThreadDump
    from codriver.repls.contract.questions import Question
    from codriver.repls.jupyter.running.kernel import Kernel

OP_S: Final = 10.0
PROBE_S: Final = 0.5
"""How long a kernel that is not known may take to show that it runs Python expressions."""
BY_EXPRESSIONS: Final = Capability("user_expressions", adapted=True)
OF_PYTHON: Final = ("complete", "lookup", "test", "stacktrace", "frame", "drift", "restore")
NOT_TOLD: Final = "this kernel tells nothing about names: evaluate code of its own language that does"
ONLY_PYTHON: Final = "in a kernel only Python's tests are run: evaluate the code that runs them"


async def runs_expressions(kernel: Kernel) -> bool:
    """Whether the kernel runs Python and answers expressions; one that is not known is asked."""
    if kernel.info.language != "python" or kernel.info.quirks.runs_expressions:
        return kernel.info.quirks.runs_expressions
    try:
        told = await expression(kernel, "1", timeout_s=PROBE_S)
    except OpTimedOutError:
        return False
    return text_of(mapping_of(told, "data"), "text/plain") == "1"


def abilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    """The capabilities that questions give, and what would provide those that they do not."""
    found = {
        "complete": Capability("complete_request"),
        "lookup": Capability("inspect_request"),
        "stacktrace": Capability("error", adapted=True),
    }
    if is_python:
        return {**found, **dict.fromkeys(OF_PYTHON, BY_EXPRESSIONS)}, {}
    missing = {"test": ONLY_PYTHON}
    if not kernel.info.quirks.inspects:
        del found["lookup"]
        missing["lookup"] = NOT_TOLD
    return found, missing


class KernelIntrospection:
    """The questions of the contract to one kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, *, is_python: bool, workspace: Path | None) -> None:
        self.questions = Questions(kernel, op_timeout_s=OP_S)
        self.python: PythonQuestions | None = None
        """Where the kernel answers expressions."""
        if is_python:
            self.python = PythonQuestions(kernel, self.questions, op_timeout_s=OP_S, workspace=workspace)
        self._failure: Failure | None = None

    async def prepare_load(self) -> None:
        """Have the kernel ready for the code that loads a file."""
        if self.python is not None:
            await self.python.bring_in_now()

    async def record(self, request: Request) -> None:
        """Have recorded from now on what a request asks for."""
        if self.python is not None:
            await self.python.record(request.trace, profiles=request.profiles)

    async def recorded(self) -> str | None:
        """The calls that were recorded since, as JSON."""
        return None if self.python is None else await self.python.recorded()

    async def plain_locals(self, failure: Failure, cell: int | None) -> tuple[str, ...]:
        """The plain locals of the place where an execution failed."""
        if self.python is None or cell is None or all(text.startswith("<module> ") for text in failure.trace):
            return ()  # names of a module are no locals
        return await self.python.plain_locals(cell)

    def load_code(self, request: Request) -> str:
        """The code that loads a file: in Python under its path, so that places in it are told; else its text."""
        if self.python is None:
            return request.code
        return python_programs.load(request.file or "<file>", request.code, request.lines, request.hold, request.how)

    def frame_code(self, request: Request) -> str:
        """The code that evaluates in a frame."""
        return python_programs.in_frame(request.code, request.frame or 0, of_test=request.is_in_test)

    def noting(self, ended: Ended) -> Ended:
        """The listener of an end, behind ours: we keep its failure as the kernel's last error."""

        def note(how: Ending | Exception) -> None:
            if isinstance(how, Ending) and how.failure is not None:
                self._failure = how.failure
            ended(how)

        return note

    async def told(self, question: Question[Any]) -> Mapping[str, object]:
        """The kernel's answer to a question of the contract; a map without any entries if it cannot tell."""
        if self.python is not None:
            return await self.python.told(question)
        if isinstance(question, Complete):
            return await self.questions.complete(question.prefix)
        if isinstance(question, LastError):
            return self._last_error()
        return await self.questions.inspect(question.symbol) if isinstance(question, Lookup) else NOTHING

    async def fault_of(self, code: str) -> SyntaxFault | None:
        """Why the kernel cannot read `code`."""
        return await (self.python or self.questions).fault_of(code)

    async def stacks(self) -> ThreadDump | None:
        """The stacks of the kernel's threads."""
        return await self.python.stacks() if self.python else None

    def _last_error(self) -> Mapping[str, object]:
        if (failure := self._failure) is None:
            return NOTHING
        frames = tuple(read_frame(text, ()) for text in failure.trace)
        return {"trace": StackTrace(failure.type, failure.message, frames, failure.data, failure.notes)}
