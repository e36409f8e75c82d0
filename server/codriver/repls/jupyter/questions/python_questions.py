"""Introspection of one kernel: each question of the contract, asked in the way that this kernel answers.

A Python kernel answers by the embedded worker's own modules, which are brought into it once. They answer as the
embedded worker does, in any Python from 3.8 on and with the standard library alone. They live in a private package that
the kernel keeps until it ends; a name in the user's namespace there is none. Other kernels answer by the protocol's own
messages, and their last error is the one that they told.
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
from functools import cache
from graphlib import TopologicalSorter
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, cast

import anyio

from codriver import files
from codriver.core.values import Capability, Failure
from codriver.errors import CodriverError
from codriver.repls.contract.adapter_values import Ending, StackTrace, SyntaxFault
from codriver.repls.contract.errors import EvaluationFailedError, OpTimedOutError
from codriver.repls.contract.questions import Complete, LastError, Lookup
from codriver.repls.contract.reports import read_frame
from codriver.repls.dialects import WORKER_PYTHON
from codriver.repls.dialects.server_dialect import dump_of, read_python
from codriver.repls.jupyter.questions.kernel_questions import MOST_CHECKED, Questions, expression, expression_now
from codriver.repls.jupyter.running.execution import OUR_FOLDER
from codriver.repls.programs import python_text
from codriver.repls.shared import marked, read_trace, with_locals
from codriver.wire.untrusted import NOTHING, as_list, as_map, as_text, mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from codriver.core.values import Request
    from codriver.repls.contract.adapter_values import Ended, ThreadDump
    from codriver.repls.contract.questions import Question
    from codriver.repls.jupyter.running.kernel import Kernel


class AskExpression(Protocol):
    """A way to have the kernel evaluate an expression of ours."""

    async def __call__(self, kernel: Kernel, code: str, *, timeout_s: float) -> Mapping[str, object]:
        """The value, as the kernel tells it."""
        ...


_NAME: Final = re.compile(r"[\w.]*")
EDITED: Final = "codriver_edited"
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
        """The plain locals of the place where a cell failed, in a turn that the caller has; none if it takes long.

        Other clients' code may have come in between, and fill the kernel's time.
        """
        if self._kernel.running_for_others is not None:
            return ()
        seen: list[object] = []
        with anyio.move_on_after(LOCALS_S), suppress(CodriverError):  # the error itself is told all the same
            await self.bring_in_now()
            asking = put("locals", cell=cell)
            told = await expression_now(self._kernel, asking, timeout_s=self._op_timeout_s)
            seen = cast("list[object]", read_answer("locals", read_told("locals", told)))
        return tuple(text for text in seen if isinstance(text, str))

    def asking_edited(self, code: str) -> Mapping[str, str]:
        """The expression that a cell is sent with, which tells what of it was edited; none without the modules."""
        if not self._is_brought_in or len(code) > MOST_CHECKED:
            return {}
        return {EDITED: put("edited", code=code)}

    async def record(self, names: tuple[str, ...] | None, *, covers: bool = False, profiles: bool = False) -> None:
        """Have calls, changed lines or times recorded from now on, in a turn that the caller has.

        Raises:
            EvaluationFailedError: the kernel cannot be asked.
        """
        await self.bring_in_now()
        asking = put(
            "record",
            names=None if names is None else list(names),
            folder=str(self.workspace or ""),
            covers=covers,
            profiles=profiles,
        )
        read_told("record", await expression_now(self._kernel, asking, timeout_s=self._op_timeout_s))

    async def recorded(self) -> str | None:
        """The calls that were recorded since, as JSON, in a turn that the caller has; None if there are none."""
        asking = put("recorded")
        told = await expression_now(self._kernel, asking, timeout_s=self._op_timeout_s)
        answer = read_answer("recorded", read_told("recorded", told))
        return None if answer is None else json.dumps(answer)

    def test_expression(self, code: str) -> str:
        """The expression that evaluates our code for a test run, in the project's folder where the kernel has it."""
        return put("test", code=code, folder=str(self.workspace or ""))

    async def _send_modules(self, ask: AskExpression) -> None:
        code = await anyio.to_thread.run_sync(install)  # reads files, the first time
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
        """Why IPython cannot read `code`, and where; None if it can, or cannot be asked."""
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
        code = put(question, **fields)
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
    """The data that an expression of ours printed as JSON; None if it is Python's `None`.

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


def edited_in(told: Mapping[str, object]) -> tuple[str, ...]:
    """The modules that a cell used and whose files were edited since, by what its expressions told."""
    found: object = ()
    with suppress(EvaluationFailedError):
        found = read_answer(EDITED, read_told(EDITED, mapping_of(told, EDITED)))
    return tuple(one for one in found if isinstance(one, str)) if isinstance(found, list) else ()


def read_answer(question: str, answer: object) -> object:
    """The data of an answer.

    Raises:
        EvaluationFailedError: the answer is that it failed.
    """
    fields = answer if isinstance(answer, dict) else {}
    if failed := mapping_of(fields, "failed"):
        raise EvaluationFailedError(question, Failure(text_of(failed, "type"), text_of(failed, "message")))
    return fields.get("data")


WORKER: Final = Path(__file__).parents[2] / "worker"
TEXT: Final = files.Rules(files.Links.ANY, most_bytes=2**20)
DOOR: Final = "python.kernel_answers"
"""The module whose answers a kernel gives."""
_IMPORT: Final = re.compile(r"^from \.(?P<near>\w+)|^from \.\.(?P<far>[\w.]+)", re.MULTILINE)
"""An import of a module of the same folder, or of another one."""


@cache
def _texts() -> tuple[tuple[str, str], ...]:
    """The modules that are brought in, by their dotted names, each after those that it needs."""
    needs: dict[str, set[str]] = {}
    texts: dict[str, str] = {}
    waiting = [DOOR]
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        folder, _, module = name.partition(".")
        texts[name] = files.read_text(WORKER / folder / f"{module}.py", TEXT)
        needs[name] = {found["far"] or f"{folder}.{found['near']}" for found in _IMPORT.finditer(texts[name])}
        waiting += needs[name]
    return tuple((name, texts[name]) for name in TopologicalSorter(needs).static_order())


@cache
def _bring_in() -> str:
    return python_text("python/bring_in.py")


@cache
def package() -> str:
    """The name of the private package: another one where its text is another, as kernels outlive servers."""
    digest = blake2b(json.dumps([_bring_in(), *_texts()]).encode(), digest_size=4).hexdigest()
    return f"_codriver_{digest}"


@cache
def _install() -> str:
    """The expression that brings the modules in and gives their answers, whatever names the user has redefined."""
    packed = base64.b85encode(zlib.compress(json.dumps(_texts()).encode(), 9)).decode()
    return (
        "[space['install'](" + repr(package()) + ", " + repr(OUR_FOLDER) + ", texts)"
        " for builtins in [__import__('builtins')] for space in [{'__name__': " + repr(package()) + "}]"
        " for _ in [builtins.exec(" + repr(_bring_in()) + ", space)]"
        " for texts in [__import__('json').loads(__import__('zlib').decompress("
        "__import__('base64').b85decode(" + repr(packed) + ")))]][0]"
    )


def install() -> str:
    """The expression that brings the modules in, where they are not there yet; its value says nothing."""
    return f"None if {_here()} else {_install()} and None"


def _here() -> str:
    return f"getattr(__import__('sys').modules.get({package()!r}), 'answers', None)"


def put(asked: str, /, **fields: object) -> str:
    """The expression that asks a question; its value prints as JSON, `null` where the modules are not there."""
    said = ", ".join(f"{key}={_literal(value)}" for key, value in fields.items())
    # A question that raises would become the last error of the user.
    return f"(lambda answers: answers and answers.ask({', '.join(filter(None, [repr(asked), said]))}))({_here()})"


def load(path: str, text: str, lines: tuple[int, ...] | None, hold: str, how: str = "") -> str:
    """The code that loads a file, where the modules are there."""
    has_more = lines is not None or hold or how
    said = [path, text, *([list(lines) if lines is not None else None, hold, how] if has_more else [])]
    return f"__import__('sys').modules[{package()!r}].answers.load({', '.join(map(_literal, said))})"


def in_frame(code: str, frame: int, *, of_test: bool) -> str:
    """The code that evaluates code in a frame, where the modules are there."""
    test = ", test=True" if of_test else ""
    return f"__import__('sys').modules[{package()!r}].answers.frame({_literal(code)}, {frame}{test})"


def _literal(value: object) -> str:
    """A value as a literal of Python in ASCII."""
    return ascii(value)


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

    def asking_edited(self, code: str) -> Mapping[str, str]:
        """The expressions that code is sent with, which tell what it used and was edited since its load."""
        return {} if self.python is None else self.python.asking_edited(code)

    def edited_in(self, told: Mapping[str, object]) -> tuple[str, ...]:
        """The modules that these expressions told, in words."""
        return edited_in(told) if told else ()

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
        return load(request.file or "<file>", request.code, request.lines, request.hold, request.how)

    def frame_code(self, request: Request) -> str:
        """The code that evaluates in a frame."""
        return in_frame(request.code, request.frame or 0, of_test=request.is_in_test)

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
