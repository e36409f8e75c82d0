"""Questions to a Python kernel, answered within it by the embedded worker's own modules."""

from __future__ import annotations

import ast
import json
import re
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol, cast

import anyio

from codriver.core.values import Failure
from codriver.errors import CodriverError
from codriver.repls.contract.adapter_values import SyntaxFault
from codriver.repls.contract.errors import EvaluationFailedError
from codriver.repls.contract.questions import Complete, LastError
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.dialects.thread_dump import dump_of, read_python
from codriver.repls.jupyter.messages.messages import mapping_of, text_of
from codriver.repls.jupyter.questions import python_programs
from codriver.repls.jupyter.questions.expressions import expression, expression_now
from codriver.repls.jupyter.questions.kernel_questions import MOST_CHECKED, Questions
from codriver.repls.shared.error_parts import marked, read_trace, with_locals
from codriver.wire.untrusted import NOTHING, as_list, as_map, as_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from codriver.repls.contract.adapter_values import ThreadDump
    from codriver.repls.contract.questions import Question
    from codriver.repls.jupyter.running.kernel import Kernel


class AskExpression(Protocol):
    """A way to have the kernel evaluate an expression of ours."""

    async def __call__(self, kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
        """The value, as the kernel tells it."""
        ...


_NAME: Final = re.compile(r"[\w.]*")
LOCALS_S: Final = 2.0
"""How long an error waits for its locals."""
HOMES: Final = frozenset({None, "", "user", "__main__"})
"""The names of the namespace in which a kernel evaluates."""


class PythonQuestions:
    """The questions to one Python kernel, for the life of its connection."""

    def __init__(self, kernel: Kernel, questions: Questions, *, op_timeout_s: float, workspace: Path | None) -> None:
        self._kernel = kernel
        self._questions = questions
        self._op_timeout_s = op_timeout_s
        self.workspace = workspace
        self._is_brought_in = False
        self._bringing_in = anyio.Lock()

    async def bring_in(self) -> None:
        """Bring the modules into the kernel, unless that was done.

        Raises:
            KernelBusyError: it would have to wait.
            EvaluationFailedError: the kernel cannot have them.
        """
        async with self._bringing_in:
            if not self._is_brought_in:
                await self._questions.wait_free()
                await self._send_modules(expression)

    async def bring_in_now(self) -> None:
        """Bring the modules in, in a turn that the caller has, unless that was done.

        Raises:
            EvaluationFailedError: the kernel cannot have them.
        """
        if not self._is_brought_in:
            await self._send_modules(expression_now)

    async def plain_locals(self, cell: int) -> tuple[str, ...]:
        """The plain locals of the place where a cell failed, in a turn that the caller has; none where it takes long.

        Other clients' code may have come in between, and fill the kernel's time.
        """
        if self._kernel.running_for_others is not None:
            return ()
        seen: list[object] = []
        with anyio.move_on_after(LOCALS_S), suppress(CodriverError):  # the error itself is told all the same
            await self.bring_in_now()
            question = python_programs.question("locals", cell=cell)
            told = await expression_now(self._kernel, question, timeout_s=self._op_timeout_s)
            seen = cast("list[object]", read_answer("locals", read_told("locals", told)))
        return tuple(text for text in seen if isinstance(text, str))

    async def record(self, names: tuple[str, ...] | None, *, covers: bool = False, profiles: bool = False) -> None:
        """Have calls, changed lines or times recorded from now on, in a turn that the caller has.

        Raises:
            EvaluationFailedError: the kernel cannot be asked.
        """
        await self.bring_in_now()
        question = python_programs.question(
            "record",
            names=None if names is None else list(names),
            folder=str(self.workspace or ""),
            covers=covers,
            profiles=profiles,
        )
        read_told("record", await expression_now(self._kernel, question, timeout_s=self._op_timeout_s))

    async def recorded(self) -> str | None:
        """The calls that were recorded since, as JSON, in a turn that the caller has; None if there are none."""
        question = python_programs.question("recorded")
        told = await expression_now(self._kernel, question, timeout_s=self._op_timeout_s)
        answer = read_answer("recorded", read_told("recorded", told))
        return None if answer is None else json.dumps(answer)

    def test_expression(self, code: str) -> str:
        """The expression that evaluates our code for a test run, in the project's folder where the kernel has it."""
        return python_programs.question("test", code=code, folder=str(self.workspace or ""))

    async def _send_modules(self, ask: AskExpression) -> None:
        code = await anyio.to_thread.run_sync(python_programs.install)  # reads files, the first time
        read_told("what kernels are asked by", await ask(self._kernel, code, timeout_s=self._op_timeout_s))
        self._is_brought_in = True

    async def told(self, question: Question[Any]) -> Mapping[str, object]:
        """The kernel's answer to a question of the contract; completions of what is no dotted name are IPython's own.

        IPython's take seconds the first time, and go wrong where a human's notebook asks at the same moment.
        """
        is_home = question.namespace in HOMES
        if isinstance(question, Complete) and is_home and not _NAME.fullmatch(question.prefix):
            return await self._questions.complete(question.prefix)
        if isinstance(question, LastError):
            return await self._last_error(question)
        return as_map(await self._ask(question.name, **question.asked(question.namespace or "")))

    async def fault_of(self, code: str) -> SyntaxFault | None:
        """Why IPython cannot read `code`, and where; None where it can, or cannot be asked."""
        if is_plain(code):
            return None  # an evaluation takes no longer for it
        if await self._questions.fault_of(code) is None:
            return None
        # The parser is right where the two differ, as it is what runs the code.
        fields = as_map(await self._ask("syntax", code=code))
        if not (message := as_text(fields.get("message"))):
            return None
        line, column = fields.get("line"), fields.get("column")
        return SyntaxFault(
            message,
            as_text(fields.get("class")) or "SyntaxError",
            line if isinstance(line, int) else None,
            column if isinstance(column, int) else None,
        )

    async def stacks(self) -> ThreadDump | None:
        """The stacks of the kernel's threads that run user code."""
        try:
            if not await self._questions.can_ask():
                return None
            text = await self._ask("stacks")
        except CodriverError:
            return None  # it is asked before an interrupt, and must never be in its way
        return dump_of(read_python(str(text)), WORKER_PYTHON.tooling)

    async def _last_error(self, question: LastError) -> Mapping[str, object]:
        told = as_map(await self._ask(question.name, **question.asked("")))
        parts = as_map(told.get("error"))
        if not parts:
            return NOTHING
        trace = with_locals(read_trace(parts, WORKER_PYTHON), as_list(told.get("locals")))
        chain = tuple(replace(link, frames=marked(link.frames, self.workspace)) for link in trace.chain)
        return {"trace": replace(trace, frames=marked(trace.frames, self.workspace), chain=chain)}

    async def _ask(self, question: str, **fields: object) -> object:
        """The answer to a question, by the modules in the kernel, which are brought in where they are not there.

        Raises:
            KernelBusyError: it would have to wait.
            EvaluationFailedError: the kernel failed in answering.
        """
        await self.bring_in()
        await self._questions.wait_free()
        code = python_programs.question(question, **fields)
        told = await expression(self._kernel, code, timeout_s=self._op_timeout_s)
        return read_answer(question, read_told(question, told))


def is_plain(code: str) -> bool:
    """Whether code is Python as it is, without IPython's magics. Of what is too long to be asked about: yes."""
    if len(code) > MOST_CHECKED:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def read_told(question: str, told: Mapping[str, object]) -> object:
    """The data that an expression of ours printed as JSON; None where it is Python's `None`.

    Raises:
        EvaluationFailedError: it failed, or printed something else.
    """
    if text_of(told, "status") == "error" or not told:
        failure = Failure(text_of(told, "ename") or "unreadable", text_of(told, "evalue") or "the kernel told nothing")
        raise EvaluationFailedError(question, failure)
    text = text_of(mapping_of(told, "data"), "text/plain")
    if text == "None":
        return None
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError) as error:  # nested too deep
        fault = Failure("unreadable", f"the kernel printed {text[:200]!r} where JSON was expected")
        raise EvaluationFailedError(question, fault) from error


def read_answer(question: str, answer: object) -> object:
    """The data of an answer.

    Raises:
        EvaluationFailedError: the answer is that it failed.
    """
    fields = answer if isinstance(answer, dict) else {}
    if failed := mapping_of(fields, "failed"):
        raise EvaluationFailedError(question, Failure(text_of(failed, "type"), text_of(failed, "message")))
    return fields.get("data")
