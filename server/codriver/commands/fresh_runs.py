"""Fresh runs: recorded evaluations and documents of them, each run in a REPL that is started and ended for that run."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

from codriver.app.wiring import CONNECTORS
from codriver.commands.terminal import say
from codriver.core.values import PrintLimits
from codriver.documents import python_documents
from codriver.documents.document_check import Failed, SoundDocument, check_document
from codriver.documents.verification import REPL_DIED, Observed, Question, Raised, strictly, verifying
from codriver.errors import CodriverError, ReplDisconnectedError, StartError
from codriver.log.control_characters import one_line
from codriver.log.redaction import Redactor, StreamRedactor
from codriver.net import known_servers
from codriver.repls.kinds import JUPYTER, KINDS, PYTHON, kind_of
from codriver.repls.launch.fresh_repl import FreshRepl, fresh_repl
from codriver.repls.launch.recipes import recipe
from codriver.repls.programs import python_text
from codriver.settings import machine_policy, trust
from codriver.settings.layers import load

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from codriver.documents.document_check import DocumentCheck
    from codriver.documents.layout import Format, Origin, Page
    from codriver.documents.recordings import Recorded, Recording
    from codriver.documents.verification import Checked, Telling
    from codriver.repls.launch.fresh_repl import Ran, Tell

T = TypeVar("T")
SUFFIXES: Final = {"basilisp": ".lpy", "nbb": ".cljs", "clojurescript": ".cljs", "hy": ".hy"}
"""The suffix of a document's file by dialect, if not `.clj`."""
WHOLE: Final = PrintLimits()
TOLD: Final = PrintLimits(25, 7)
"""The default limits of the settings."""
SHORT_S: Final = 2.0
"""How long to wait for code that had to be interrupted when it was recorded."""
TEST: Final = "\ndef test_"
"""The beginning of each test of a Python document."""
MODULE: Final = "codriver_exported"
"""The name of a Python document's module while it is verified."""


@dataclass(slots=True)
class Progress:
    """The progress of a fresh run: the evaluations that have begun, `of` so many."""

    begun: int = 0
    of: int = 0

    def counted(self, evaluations: Iterable[Recorded]) -> Iterator[Recorded]:
        """The evaluations, each counted at its start."""
        for evaluation in evaluations:
            self.begun += 1
            yield evaluation

    def words(self, repl: str) -> str:
        """The standing of the run, for the line of a terminal."""
        if not self.begun:
            return f"a fresh REPL is started ({repl}), in which the code runs again"
        return f"evaluation {self.begun} of {self.of} runs again in a fresh REPL ({repl})"


class Printed:
    """The output of a fresh run, said on standard error as it comes, without secrets."""

    def __init__(self, clean: Redactor) -> None:
        self._streams: defaultdict[str, StreamRedactor] = defaultdict(clean.stream)

    def tell(self, stream: str, text: str) -> None:
        """Say the output of a stream, except a possible beginning of a secret."""
        say(self._streams[stream].feed(text), err=True, end="")

    def end(self) -> None:
        """Say the rest of the output."""
        for stream in self._streams.values():
            say(stream.flush(), err=True, end="")


@dataclass(frozen=True, slots=True)
class FreshRuns:
    """Fresh REPLs of one kind for one workspace: `words` start one, and each evaluation gets `timeout_s`."""

    workspace: Path
    words: str
    timeout_s: float
    is_strict: bool = False
    """Whether a picture reproduces only by the same bytes."""
    is_quiet: bool = False
    """Whether the output of checked code is not said."""
    is_chosen: bool = True
    """Whether somebody named the REPL; a kernel that is only in the recording, and cannot be started, has a stand-in.
    """
    python: str = ""
    """The interpreter of the project's Python code; blank for that of the workspace's server, else of the settings."""
    progress: Progress = field(default_factory=Progress)
    clean: Redactor = field(default_factory=lambda: Redactor.from_environment(os.environ))
    """Takes out of fresh REPLs' texts the secrets of the environment, and those that their applications hide."""

    def repl(self, tell: Tell = lambda _stream, _text: None, words: str = "") -> AbstractAsyncContextManager[FreshRepl]:
        """A fresh REPL, for as long as the context lasts; `tell` gets its output."""
        words = words or self.words
        policy = machine_policy.read(machine_policy.policy_file())
        if "enable_mcp_repl_evaluation" in policy.off:
            raise StartError(f"evaluation is switched off on this machine by {policy.path}")
        python = self.python or _interpreter(self.workspace)
        acceptance_of = trust.environment_acceptance
        how = recipe(words, self.workspace, os.environ, acceptance_of=acceptance_of, is_asked=True, python=python)
        learn = partial(self.clean.learn_sensitive, words)
        return fresh_repl(how, CONNECTORS, self.workspace, timeout_s=self.timeout_s, learn=learn, tell=tell)

    async def _repl_or_stand_in(self, stack: AsyncExitStack, tell: Tell) -> FreshRepl:
        """The fresh REPL, until `stack` ends; for a kernel that cannot be started, a REPL of the same language.

        Raises:
            StartError: the REPL cannot be started, and none stands in for it.
        """
        try:
            return await stack.enter_async_context(self.repl(tell))
        except StartError as error:
            if self.is_chosen or not is_kernel(self.words):
                raise
            say(f"no kernel can be started here, so a fresh {PYTHON.repl} runs the cells: {error}", err=True)
            return await stack.enter_async_context(self.repl(tell, PYTHON.repl))

    async def verify(self, recording: Recording) -> tuple[Checked, ...]:
        """The evaluations of a recording checked in a fresh REPL. Their output is said as it comes."""
        printed = Printed(self.clean)
        async with AsyncExitStack() as stack:
            tell: Tell = (lambda _stream, _text: None) if self.is_quiet else printed.tell
            repl = await self._repl_or_stand_in(stack, tell)
            settings = load(self.workspace, environ=os.environ).settings
            told = PrintLimits(settings.max_length, settings.max_depth)
            self.progress.of = len(recording.evaluations)
            telling = _telling(recording, repl)

            async def another() -> FreshRepl:
                nonlocal repl
                repl = await self._repl_or_stand_in(stack, tell)
                return repl

            checked = await verified(
                repl, recording.evaluations, recording.dialect, self.clean, told, self.progress, telling, another
            )
            if repl.dialect != "unknown":
                await repl.run("0")  # before the run, and at its end, the application tells its present secrets
            printed.end()
        judged = map(strictly, checked) if self.is_strict else checked
        return tuple(without_secrets(one, self.clean) for one in judged)

    async def write_document(
        self, checked: Sequence[Checked], dialect: str, form: Format, origin: Origin
    ) -> SoundDocument:
        """The document, run in one more fresh REPL, and its tests in the reverse order in another.

        A run changes the values of a module, so no process runs a document twice.
        """
        asking = check_document(checked, dialect, form, origin)
        try:
            page = next(asking)
        except StopIteration as stop:
            return _sound_of(stop)
        return await drive_check(asking, page, partial(self._run_anew, form, origin))

    async def _run_anew(self, form: Format, origin: Origin, page: Page) -> tuple[Failed, ...]:
        # A kernel's cells become plain Python, which has to work without a kernel.
        words = PYTHON.repl if is_kernel(self.words) else self.words
        async with self.repl(words=words) as repl:
            failed = await self.run(repl, form, origin, page)
            has_order = repl.dialect == PYTHON.dialect and page.text.count(TEST) > 1
        if failed or not has_order:
            return failed
        async with self.repl(words=words) as repl:
            return await self.run(repl, form, origin, page, is_reversed=True)

    async def run(
        self, repl: FreshRepl, form: Format, origin: Origin, page: Page, *, is_reversed: bool = False
    ) -> tuple[Failed, ...]:
        """Run a document, its tests too, and give the failures."""
        if repl.dialect == PYTHON.dialect:
            failed = await _run_python(repl, page, is_reversed=is_reversed)
        else:
            ending = SUFFIXES.get(repl.dialect, ".clj")
            file = self.workspace / f"{origin.name.replace('-', '_').replace('.', '/')}{ending}"
            failed = await _run_lisp(repl, page, form, origin, str(file))
        clean = self.clean
        return tuple(replace(one, error=clean(one.error)) for one in failed)


@cache
def _interpreter(workspace: Path) -> str:
    """The interpreter that the workspace's server was told to use, else that of the settings."""
    served = known_servers.ask(workspace, "codriver-export").health or {}
    return str(served.get("python") or load(workspace, environ=os.environ).settings.python)


def is_kernel(words: str) -> bool:
    """True if the words after `--repl` name a kernel."""
    kind = kind_of(words)
    return kind is not None and kind.protocol == JUPYTER


def _telling(recording: Recording, repl: FreshRepl) -> Telling:
    """The kind of values that can be compared.

    Raises:
        CodriverError: a kernel is asked to run code that ran in none.
    """
    if not recording.is_of_kernel and repl.is_kernel:
        raise CodriverError(
            f"what was recorded in a {recording.repl} is compared value by value, and a kernel tells only the last of a"
            " cell: leave out --repl, or name a REPL that is no kernel"
        )
    return "whole" if repl.is_kernel else "last" if recording.is_of_kernel else "each"


class ReplDiedError(CodriverError):
    """An evaluation ended the fresh REPL."""

    def __init__(self, evaluation: Recorded, error: ReplDisconnectedError) -> None:
        head = one_line(evaluation.code.strip().partition("\n")[0][:60])
        super().__init__(
            f"evaluation {evaluation.id}, `{head}`, ended the fresh REPL ({error.cause}): name the evaluations to use,"
            " without this one"
        )


async def verified(
    repl: FreshRepl,
    evaluations: Sequence[Recorded],
    dialect: str,
    clean: Callable[[str], str] = str,
    told: PrintLimits = TOLD,
    progress: Progress | None = None,
    telling: Telling = "each",
    start_another: Callable[[], Awaitable[FreshRepl]] | None = None,
) -> tuple[Checked, ...]:
    """Evaluations checked in this REPL, one after the other; `clean` is applied to all its texts.

    `told`: the limits of the values that agents were told. `start_another` starts a REPL that goes on after an
    evaluation that ended its REPL, as one did when the evaluations were recorded.

    Raises:
        ReplDiedError: an evaluation ended the REPL that had ended by itself when it was recorded.
    """
    progress = progress or Progress()
    asking = verifying(progress.counted(evaluations), dialect, telling)
    try:
        question = next(asking)
        while True:
            try:
                observed = await _answer(repl, question, clean, told)
            except ReplDisconnectedError as error:
                evaluation = evaluations[progress.begun - 1]
                if start_another is None or not evaluation.ending:
                    raise ReplDiedError(evaluation, error) from error
                repl = await start_another()
                observed = Observed(raised=Raised(REPL_DIED, clean(error.cause)))
            question = asking.send(observed)
    except StopIteration as stop:
        checked: tuple[Checked, ...] = stop.value
        return checked


def without_secrets(one: Checked, clean: Callable[[str], str]) -> Checked:
    """The checked step without secrets that became known only after its run; nothing of these is asserted."""
    text, value = clean(one.step.text), one.value if one.value is None else clean(one.value)
    raised = one.raised and replace(one.raised, message=clean(one.raised.message))
    note, out = clean(one.note), clean(one.out)
    if text != one.step.text:
        why = note or "its code holds a secret, which is left out, so that it cannot be run again"
        step = replace(one.step, text=text)
        return replace(one.demoted(why), step=step, verdict="absent", value=value, is_hidden=True)
    if one.cell is not None and (cell := _cleaned(one.cell, clean)) != one.cell:
        one = replace(one, cell=cell)
    if (value, raised, out, clean(one.pattern)) != (one.value, one.raised, one.out, one.pattern):
        return replace(one.demoted(note or "what came of it holds a secret, which is left out"), value=value)
    return one if note == one.note else replace(one, note=note)


async def _answer(repl: FreshRepl, question: Question, clean: Callable[[str], str], told: PrintLimits) -> Observed:
    ran = await repl.run(
        question.code,
        namespace=question.namespace,
        file=question.file,
        timeout_s=SHORT_S if question.is_short else None,
        limits=told if question.is_told else WHOLE,
        is_partial=question.is_partial,
    )
    return _observed(ran, clean)


def _observed(ran: Ran, clean: Callable[[str], str]) -> Observed:
    failure = ran.failure
    raised = Raised(failure.type, clean(failure.message), failure.phase or "") if failure else None
    *told, value = map(clean, ran.values) if ran.values else (None,)
    line = failure.line or 0 if failure else 0
    beside = tuple(filter(None, told))
    return Observed(value, clean(ran.out), raised, beside, _cleaned(ran.cell, clean), clean(ran.err), line)


def _cleaned(data: T, clean: Callable[[str], str]) -> T:
    """Data of JSON with all its texts cleaned."""
    if isinstance(data, str):
        return clean(data)  # type: ignore[return-value]  # a text, as was given
    if isinstance(data, Mapping):
        return {name: _cleaned(one, clean) for name, one in data.items()}  # type: ignore[return-value]  # as above
    return type(data)(_cleaned(one, clean) for one in data) if isinstance(data, list | tuple) else data


async def drive_check(
    asking: DocumentCheck, page: Page, run: Callable[[Page], Awaitable[tuple[Failed, ...]]]
) -> SoundDocument:
    """The document, run until it holds; `page` is the first page that `asking` asked for."""
    try:
        while True:
            page = asking.send(await run(page))
    except StopIteration as stop:
        return _sound_of(stop)


def _sound_of(stop: StopIteration) -> SoundDocument:
    found: SoundDocument = stop.value
    return found


async def _run_python(repl: FreshRepl, page: Page, *, is_reversed: bool) -> tuple[Failed, ...]:
    await repl.run(python_documents.loaded(python_text("python/document_run.py")))
    ran = await repl.run(python_documents.driven(page.text, f"{MODULE}.py", is_reversed=is_reversed))
    if ran.failure is not None:
        return (Failed("", (), f"{ran.failure.type}: {ran.failure.message}"),)
    return tuple(Failed(test, tuple(lines), error) for test, lines, error in python_documents.failures(ran.values[-1]))


async def _run_lisp(repl: FreshRepl, page: Page, form: Format, origin: Origin, file: str) -> tuple[Failed, ...]:
    await repl.run(f"(remove-ns '{origin.name})")  # the tests of an earlier round would be found there
    ran = await repl.run(page.text, file=file)
    if ran.failure is not None:
        lines = (ran.failure.line,) if ran.failure.line else ()
        return (Failed("", lines, f"{ran.failure.type}: {ran.failure.message}"),)
    if form != "test":
        return ()
    run = await repl.run_tests(origin.name)
    wrong = [result for result in run.results if result.outcome != "pass"]
    return tuple(
        Failed(one.test, (one.line,) if one.line else (), f"expected {one.expected}, actual {one.actual}")
        for one in wrong
    )


def words_of(dialect: str) -> str:
    """The words that start a REPL of a dialect; blank for none."""
    return next((kind.repl for kind in KINDS if kind.dialect == dialect), "")


def tell(checked: Sequence[Checked]) -> None:
    """Say on standard error which steps do not reproduce, and why."""
    for one in checked:
        if one.note and not one.is_typo:
            head = one.step.text.strip().partition("\n")[0]
            say(one_line(f"{one.of.id} {head[:60]}: {one.note}"), err=True)
