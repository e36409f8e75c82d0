"""The adapter for Jupyter kernels: our side of one kernel, over any carrier of its messages.

`connect_jupyter` gives the adapter; `codriver.repls.contract.adapter` tells its guarantees. A kernel's profile has the
abilities that its quirks and its answers show, never those that its kernelspec claims. Each question of the contract is
put in the kernel's own way: to Python by modules of ours, to others by the protocol's messages; the last error of
others is the last one told. Media that no text can show are kept for a while, to be read in parts. Source: Jupyter
documentation, "Messaging in Jupyter".
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.records import Recent
from codriver.core.values import MAIN_SESSION, NO_LIMITS, TEST_SESSION, Capability, Profile
from codriver.features.jupyter.kernels.evaluator import Evaluator
from codriver.features.jupyter.kernels.kernel import Kernel, open_kernel
from codriver.features.jupyter.kernels.kernel_processes import KernelProcess
from codriver.features.jupyter.kernels.kernel_questions import KernelQueries, KernelSeam, expression, leave_subshell
from codriver.features.jupyter.kernels.others_evaluations import OthersEvaluations
from codriver.features.jupyter.kernels.python_questions import (
    KernelTestRunner,
    PythonQueries,
    edited_in,
    in_frame,
    load,
)
from codriver.features.jupyter.kernels.subshell_evaluations import SubshellEvaluations, has_subshells
from codriver.features.jupyter.kernels.zmq_channel import open_zmq
from codriver.repls.contract.adapter import Adapter, CapabilityMissingError, OpTimedOutError, SessionNotOpenError
from codriver.repls.contract.adapter_values import IMAGE_TYPES, TEXT_TYPES, Display, Ending, StackTrace, Value, data_of
from codriver.repls.contract.questions import Complete, LastError, Lookup
from codriver.repls.contract.reports import read_frame
from codriver.repls.dialects import seam_providers
from codriver.wire.untrusted import NOTHING, mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.core.values import Failure, PrintLimits, Request, ValuePart
    from codriver.features.jupyter.kernels.messages import Carrier
    from codriver.repls.contract.adapter_values import (
        Bundle,
        CellRun,
        Event,
        Interruption,
        Listener,
        OnEnd,
        SyntaxIssue,
        TestRun,
        ThreadDump,
    )
    from codriver.repls.contract.extras import Extra
    from codriver.repls.contract.questions import Answer, Query


def connect_jupyter(
    address: str, *, listener: Listener, workspace: Path | None, is_remote: bool, found_by: Path | None = None
) -> AbstractAsyncContextManager[Adapter]:
    """The connector of the protocol `jupyter`: `address` is the path of a connection file."""
    del is_remote  # the connection file tells the kernel's place
    return connect(partial(open_zmq, address, found_by=found_by), listener=listener, workspace=workspace)


@asynccontextmanager
async def connect(carrier: Carrier, *, listener: Listener, workspace: Path | None = None) -> AsyncIterator[Adapter]:
    """An adapter for the kernel behind the carrier; leaving the context leaves the kernel alive.

    Stack frames in files under `workspace` count as the user's.

    Raises:
        ReplUnreachableError: nobody listens there.
        NotAnReplError: the listener does not answer as a kernel does.
        PackageMissingError: a package for the carrier is missing.
    """
    others: list[OthersEvaluations] = []
    async with open_kernel(
        carrier, on_foreign=lambda message: others[0].receive(message) if others else None
    ) as kernel:
        others.append(OthersEvaluations(listener, kernel.info))
        is_python = await runs_expressions(kernel)
        introspection = KernelIntrospection(kernel, is_python=is_python, workspace=workspace)
        seam = KernelSeam(kernel, introspection.queries, listener) if is_python else None
        if seam is not None:
            await seam.find_application()
        profile = await profile_of(kernel, answers_expressions=is_python, seam=seam.capability() if seam else None)
        adapter = JupyterAdapter(kernel, profile, listener, introspection, seam)
        try:
            yield adapter
        finally:
            await leave_subshell(kernel, kernel.subshell_id)
            kernel.end("it was closed by us")
            with anyio.CancelScope(shield=True):
                await adapter.end()


class JupyterAdapter(Adapter):
    """Our side of one kernel, for the context of `connect`; `Adapter` describes the operations."""

    def __init__(
        self,
        kernel: Kernel,
        profile: Profile,
        listener: Listener,
        introspection: KernelIntrospection,
        seam: KernelSeam | None,
    ) -> None:
        self._kernel = kernel
        self._profile = profile
        self._listener = listener
        self._bundles = StoredBundles()
        self._introspection = introspection
        self._seam = seam
        self._evaluator = Evaluator(kernel, self._receive, introspection, seam_checks=seam)
        self._in_subshells = SubshellEvaluations(kernel, self._receive)
        self._tests: KernelTestRunner | None = None
        if introspection.python is not None:
            self._tests = KernelTestRunner(kernel, introspection.python, listener, self._evaluator.interrupt_kernel)

    async def end(self) -> None:
        """End all running evaluations, when the connection is over."""
        await self._evaluator.end()
        await self._in_subshells.end()
        if self._tests is not None:
            await self._tests.end()

    @property
    def profile(self) -> Profile:
        """The abilities of the kernel."""
        return self._profile

    def start_evaluation(self, request: Request, on_end: OnEnd, limits: PrintLimits = NO_LIMITS) -> None:
        """Send code to be run."""
        del limits  # kernels know no limits
        if request.kind == "run-tests":
            self._require_tests().start(request, on_end)
        elif request.background:
            self._in_subshells.start(request, on_end)
        else:
            request = self._seam.laid_in(request) if self._seam else request
            self._evaluator.start(request, self._introspection.noting(on_end))

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
        return await self._kernel.wait_closed()

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the kernel to stop our running code."""
        self._require("interrupt")
        if session == TEST_SESSION:
            return await self._require_tests().interrupt()
        if session in self._in_subshells:
            return await self._in_subshells.interrupt(session)
        _check(session)
        return await self._evaluator.interrupt()

    async def interrupt_others(self) -> Interruption:
        """Ask the kernel to stop another client's evaluation."""
        self._require("interrupt")
        return await self._evaluator.interrupt_others()

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin."""
        self._require("stdin", session)
        await self._evaluator.send_input(text)

    async def read_value(self, evaluation: str, part: ValuePart) -> Value | str:
        """A part of a value or display in another media type."""
        return self._bundles.read(evaluation, part)

    async def open_session(self, name: str, *, shares_names: bool = False) -> None:
        """Refuse: a kernel keeps nothing apart."""
        del shares_names
        if name != MAIN_SESSION:
            raise CapabilityMissingError("sessions", ONE_NAMESPACE)

    def cell_run(self, evaluation: str) -> CellRun | None:
        """The outputs of a notebook cell's evaluation."""
        return self._evaluator.cell_run(evaluation)

    async def call_seam(self, accessor: str, arguments: str) -> str:
        """The answer of the application's seam, as JSON."""
        if self._seam is None:
            raise CapabilityMissingError("seam", self._profile.missing.get("seam"))
        return await self._seam.call(accessor, arguments)

    async def restart(self) -> None:
        """Restart the kernel by the carrier of its messages."""
        await self._kernel.channel.restart()

    async def query(self, query: Query[Answer]) -> Answer:
        """The answer to a question of the contract."""
        if query.capability:
            self._require(query.capability)
        _check(query.session)
        return query.read(await self._introspection.answer_fields(query))

    async def check_syntax(self, code: str) -> SyntaxIssue | None:
        """The reason why the kernel cannot read `code`."""
        return await self._introspection.check_syntax(code)

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """The stacks of the kernel's threads."""
        del session  # a kernel has only one session
        return await self._introspection.stacks()

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run tests."""
        _check(session)
        return await self._require_tests().run_tests(namespace, test, timeout_s=timeout_s)

    async def tests_so_far(self, evaluation: str) -> TestRun | None:
        """The ended tests of a run under way."""
        return self._tests.so_far(evaluation) if self._tests is not None else None

    def _require_tests(self) -> KernelTestRunner:
        if self._tests is None:
            raise CapabilityMissingError("test", self._profile.missing.get("test"))
        return self._tests

    def _receive(self, evaluation: str | None, event: Event) -> None:
        """An event of ours, with its media types kept."""
        if evaluation is not None and isinstance(event, Value | Display):
            self._bundles.store(evaluation, event.bundle or {TEXT_TYPES[0]: getattr(event, "text", "")})
        self._listener(evaluation, event)

    def _require(self, capability: str, session: str = MAIN_SESSION) -> None:
        if capability not in self._profile.capabilities:
            raise CapabilityMissingError(capability, self._profile.missing.get(capability))
        _check(session)


def _check(session: str) -> None:
    """Refuse a session that is not open."""
    if session != MAIN_SESSION:
        raise SessionNotOpenError(session)


MAX_CHARACTERS: Final = 8 * 2**20
"""The data kept of all evaluations together; the oldest data is dropped first."""
MOST_COUNTED: Final = 1000
"""Evaluations whose values are still counted."""

PART_CHARACTERS: Final = 100_000
"""The part of a text that is given without a wanted length."""


class StoredBundles:
    """The bundles of the newest evaluations of one kernel, for the life of its connection.

    Pictures are not kept: the answer has them, and numbers them.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._bundles: OrderedDict[tuple[str, int], Bundle] = OrderedDict()
        self._counts: Recent[str, int] = Recent(MOST_COUNTED)
        self._characters = 0

    def store(self, evaluation: str, bundle: Bundle) -> None:
        """Keep the data that a text does not show of an evaluation's next value or display."""
        number = self._counts.get(evaluation, 0) + 1
        self._counts[evaluation] = number
        rest = {name: data for name, data in bundle.items() if name not in IMAGE_TYPES and name != TEXT_TYPES[0]}
        size = _size(rest)
        if not rest or size > self._max_characters:
            return
        self._bundles[evaluation, number] = rest
        self._characters += size
        while self._characters > self._max_characters:
            _, dropped = self._bundles.popitem(last=False)
            self._characters -= _size(dropped)

    def read(self, evaluation: str, part: ValuePart) -> Value | str:
        """A part of one type's data; without any, the reason in words.

        The path is the type, with `$2` before it for the evaluation's second value or display; without that, the last
        one of this type is meant. `start` and `max_length` of the part count characters.
        """
        steps = list(part.path)
        number = None
        first = steps[0] if steps else None
        if isinstance(first, str) and first.startswith("$") and first[1:].isdecimal():
            number, steps = int(first[1:]), steps[1:]
        if len(steps) != 1 or not isinstance(steps[0], str):
            return 'a kernel keeps no values: the path names a type of one, such as ["text/html"]'
        name = steps[0]
        of_evaluation = {at: bundle for (owner, at), bundle in self._bundles.items() if owner == evaluation}
        found = [bundle for at, bundle in of_evaluation.items() if name in bundle and number in (None, at)]
        if not found:
            types = sorted({one for bundle in of_evaluation.values() for one in bundle})
            has = f"it has {', '.join(types)}" if types else "nothing is kept of it but text and pictures"
            return f"it has no {name}, or no more: {has}"
        text = data_of(found[-1], name)
        limits = part.limits
        length = limits.max_length if limits.is_length_explicit and limits.max_length else PART_CHARACTERS
        part_text = text[part.start : part.start + length]
        most = limits.max_value_bytes
        if most is not None and len(encoded := part_text.encode()) > most:
            part_text = encoded[:most].decode(errors="ignore")
        end = part.start + len(part_text)
        cut = f"characters {part.start} to {end} of {len(text)}" if len(part_text) < len(text) else ""
        return Value(part_text, cut=cut)


def _size(bundle: Bundle) -> int:
    return sum(len(data_of(bundle, name)) for name in bundle)


USAGE_S: Final = 0.5
"""The time for a kernel to tell its process id: most leave the request unanswered."""

PYTHON: Final = "python"
ONE_NAMESPACE: Final = "a kernel has one namespace: start a second kernel for a second one"
RESTART: Final = "restart it where it was started, in the notebook say: what codriver started it can restart"
MISSING: Final = {
    "complete": "this kernel completes nothing",
    "lookup": "this kernel tells nothing of its names",
    "test": "run the tests by code, as on a terminal: kernels of this language have no way to tell of them",
    "stacktrace": "the error's own trace is in the answer of its evaluation",
    "restart": RESTART,
    "sessions": ONE_NAMESPACE,
    "print-limits": "a kernel prints its values itself: they are cut at maxValueBytes",
    "macroexpand": "kernels have no way to expand macros",
    "frame": "only Python kernels keep the frames of an error",
    "drift": "only Python kernels tell what they loaded: load the file again to be sure",
    "restore": "only Python kernels keep former definitions",
}
NO_INPUT: Final = "code that reads from stdin gets nothing in this kernel, and may wait for ever: interrupt it then"


async def profile_of(kernel: Kernel, *, answers_expressions: bool, seam: tuple[str, Capability] | None) -> Profile:
    """The profile of a connected kernel. Asks the kernel for its process, if nothing else tells.

    `seam`: the session id of the application's seam, if one was found, and the way to ask it.
    """
    information, channel = kernel.info, kernel.channel
    process = channel.process_id or await _reported_process(kernel)
    is_python = information.language == PYTHON
    capabilities, missing = _abilities(kernel, is_python=is_python)
    by_query, not_by_query = abilities(kernel, is_python=answers_expressions)
    capabilities, missing = {**capabilities, **by_query}, {**missing, **not_by_query}
    missing["seam"] = seam_providers.WAYS[PYTHON] if answers_expressions else seam_providers.NO_WAY
    if seam is not None:
        capabilities["seam"] = seam[1]
    return Profile(
        dialect=PYTHON if is_python else "unknown",
        versions={
            information.implementation or "kernel": information.implementation_version,
            information.language or "language": information.language_version,
        },
        capabilities=capabilities,
        missing={name: words for name, words in missing.items() if name not in capabilities},
        queued=frozenset({"test", "cells"}),
        reads_itself=information.quirks.gate != "none",
        isolation="none",
        is_serial=True,
        runs_concurrently=has_subshells(kernel),
        process_id=process,
        project_root=KernelProcess(process, leads=False).directory if process else None,
        notebook=channel.notebook,
        notes=information.quirks.notes,
        seam=seam[0] if seam else None,
    )


def _abilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    quirks = kernel.info.quirks
    capabilities = {
        "evaluate": Capability("execute_request"),
        "load-file": Capability("execute_request", adapted=True),
        "cells": Capability("execute_request"),
    }
    missing = dict(MISSING)
    if kernel.channel.can_restart:
        capabilities["restart"] = Capability("its server's")
        del missing["restart"]
    by_message = quirks.interrupt_by == "message"
    if by_message or (quirks.interrupt_by == "signal" and kernel.channel.can_interrupt):
        capabilities["interrupt"] = Capability("interrupt_request" if by_message else "SIGINT", adapted=not by_message)
    else:
        missing["interrupt"] = quirks.interrupt_note or "this kernel cannot be interrupted"
    if quirks.reads_input:
        capabilities["stdin"] = Capability("input_reply")
    else:
        missing["stdin"] = NO_INPUT
    if is_python:
        missing["macroexpand"] = "Python has no macros"
    return capabilities, missing


async def _reported_process(kernel: Kernel) -> int | None:
    """The process id told by a kernel on this machine."""
    if not kernel.info.quirks.reports_process or not kernel.channel.is_local:
        return None
    with suppress(OpTimedOutError):
        reply = await kernel.request("usage_request", {}, socket="control", timeout_s=USAGE_S)
        process = reply.content.get("pid")
        return process if isinstance(process, int) else None
    return None


OP_S: Final = 10.0
PROBE_S: Final = 0.5
"""The time for an unknown kernel to show that it runs Python expressions."""
BY_EXPRESSIONS: Final = Capability("user_expressions", adapted=True)
OF_PYTHON: Final = ("complete", "lookup", "test", "stacktrace", "frame", "drift", "restore")
NO_NAMES: Final = "this kernel tells nothing about names: evaluate code of its own language that does"
ONLY_PYTHON: Final = "in a kernel only Python's tests are run: evaluate the code that runs them"


async def runs_expressions(kernel: Kernel) -> bool:
    """Whether the kernel runs Python and answers expressions; an unknown kernel is asked."""
    if kernel.info.language != "python" or kernel.info.quirks.runs_expressions:
        return kernel.info.quirks.runs_expressions
    try:
        value = await expression(kernel, "1", timeout_s=PROBE_S)
    except OpTimedOutError:
        return False
    return text_of(mapping_of(value, "data"), "text/plain") == "1"


def abilities(kernel: Kernel, *, is_python: bool) -> tuple[Mapping[str, Capability], Mapping[str, str]]:
    """The capabilities that questions give, and for missing ones the way to get them."""
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
        missing["lookup"] = NO_NAMES
    return found, missing


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
            await self.python.bring_in_now()

    def edited_names_code(self, code: str) -> Mapping[str, str]:
        """The expressions sent with code that tell the modules which it used and which were edited since their load."""
        return {} if self.python is None else self.python.edited_names_code(code)

    def edited_in(self, value: Mapping[str, object]) -> tuple[str, ...]:
        """The modules told by these expressions, in words."""
        return edited_in(value) if value else ()

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
        return in_frame(request.code, request.frame or 0)

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
