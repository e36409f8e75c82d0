"""Performs the core's `repl` effects: owns the connections and processes, and reports back by dispatching.

Each REPL has at most one *life*: the task that starts its process if it is ours, connects, and waits until the
connection is over. A life that ends by itself dispatches `ReplLost`; one that was ended on purpose dispatches nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from codriver.core import actions, effects
from codriver.core.evaluations import session_key
from codriver.core.state import Capability, Failure, Profile
from codriver.errors import CodriverError, ReplDisconnectedError
from codriver.repls import base, nrepl, process, recipes
from codriver.repls.base import Endpoint, OpTimedOutError
from codriver.repls.heartbeat import Beat

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Action, Core, Effect
    from codriver.core.state import Evaluation, Repl
    from codriver.outputlog import Category, OutputLog
    from codriver.repls.base import Adapter, Ending, Event
    from codriver.transcripts import StreamRedactor, Transcripts

logger = logging.getLogger(__name__)

ASK_AGAIN_S = 0.1
ANSWER_S = 3.0
"""How long an interrupt may take to be answered."""

STACKS_S = 1.5
"""How long an interrupt waits for what can be learnt before it: a REPL that is stuck may never tell."""


@dataclass(slots=True)
class _Life:
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    over: anyio.Event = field(default_factory=anyio.Event)


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds evaluations: see the settings of the same names."""

    max_run_s: float
    max_length: int
    max_depth: int
    max_value_bytes: int = 32 * 2**20
    """What the REPL is asked to stop printing at: far above what an answer shows, as the rest can be asked for."""


class Repls:
    """All REPL connections of one server, for its life."""

    def __init__(
        self,
        *,
        tasks: TaskGroup,
        workspace: Path,
        environ: Mapping[str, str],
        log: OutputLog,
        transcripts: Transcripts,
        limits: Limits,
        now: Callable[[], int],
    ) -> None:
        self._tasks = tasks
        self._workspace = workspace
        self._environ = environ
        self._log = log
        self._transcripts = transcripts
        self._limits = limits
        self._now = now
        self._lives: dict[str, _Life] = {}
        self._adapters: dict[str, Adapter] = {}
        self._loose: dict[tuple[str, str], StreamRedactor] = {}
        """Of output that belongs to no evaluation, by REPL and stream: what may be the beginning of a secret waits."""
        self._core: Core | None = None

    def attach(self, core: Core) -> None:
        """Tell whom to report to. Called once, before the first effect."""
        self._core = core

    def limit(self, limits: Limits) -> None:
        """Bound the evaluations that begin from now on by `limits`."""
        self._limits = limits

    @property
    def core(self) -> Core:
        """Whom to report to."""
        assert self._core is not None, "attach comes first"  # noqa: S101  # a programming error
        return self._core

    def dispatch(self, *what: Action) -> None:
        """Report to the core."""
        self.core.dispatch({"now": self._now()}, what)

    def adapter(self, repl: str) -> Adapter:
        """The adapter of a connected REPL.

        Raises:
            ReplDisconnectedError: it is not connected now.
        """
        adapter = self._adapters.get(repl)
        if adapter is None:
            raise ReplDisconnectedError("it is not connected at the moment")
        return adapter

    def perform(self, effect: Effect) -> None:
        """Do what a `repl` effect asks, in a task of its own where it takes time."""
        match effect:
            case effects.StartRepl() | effects.ConnectRepl():
                self._begin_life(effect.id)
            case effects.EndRepl():
                life = self._lives.get(effect.id)
                if life is not None:
                    life.scope.cancel()
            case effects.RetryRepl():
                self._tasks.start_soon(self._retry, effect)
            case effects.RunEvaluation():
                self._tasks.start_soon(self._run, effect)
            case effects.CloseSession():
                self._tasks.start_soon(self._close_session, effect)
            case effects.SettleEvaluation():
                self._settle(effect.evaluation)

    async def end_all(self) -> None:
        """End every connection and every process of ours, and wait until they are gone."""
        for life in list(self._lives.values()):
            life.scope.cancel()
        for life in list(self._lives.values()):
            await life.over.wait()

    # Lives

    def _begin_life(self, repl: str) -> None:
        before = self._lives.get(repl)
        life = _Life()
        self._lives[repl] = life
        self._tasks.start_soon(self._live, repl, life, before)

    async def _live(self, repl_id: str, life: _Life, before: _Life | None) -> None:
        cause, final = "the connection ended", False
        try:
            if before is not None:
                before.scope.cancel()
                await before.over.wait()
            with life.scope:
                try:
                    cause = await self._connect(self.core.state.repls[repl_id])
                except recipes.RecipeError as error:
                    cause, final = str(error), True
                except CodriverError as error:
                    cause = str(error)
        finally:
            life.over.set()
            self._end_loose(repl_id)
            if self._lives.get(repl_id) is life:
                del self._lives[repl_id]
        if not life.scope.cancel_called and self.core.state.life.phase in ("starting", "started"):
            self.dispatch(actions.ReplLost(repl_id, cause, final))

    async def _connect(self, repl: Repl) -> str:
        """Live through one connection; why it ended."""
        if not repl.owned:
            endpoint = _endpoint(repl.address or repl.origin.text)
            return await self._stay_connected(repl.id, endpoint, elsewhere=repl.origin.kind == "address")
        recipe = await anyio.to_thread.run_sync(recipes.recipe, repl.origin.text, self._workspace, self._environ)
        for note in recipe.notes:
            self.dispatch(actions.ReplProgress(repl.id, note))
        async with process.start(
            recipe.command,
            cwd=self._workspace,
            env=recipe.env,
            on_output=lambda stream, text: self._process_said(repl.id, stream, text),
            port_file=recipe.port_file,
            start_timeout_s=recipe.start_timeout_s,
        ) as running:
            endpoint = await running.endpoint()
            self.dispatch(actions.ReplStarted(repl.id, str(endpoint)))
            async with anyio.create_task_group() as tasks:
                causes: list[str] = []

                async def watch_process() -> None:
                    causes.append(await running.wait())
                    tasks.cancel_scope.cancel()

                tasks.start_soon(watch_process)
                causes.append(await self._stay_connected(repl.id, endpoint))
                with anyio.move_on_after(1):
                    # A process that dies closes its socket first: say why it died rather than that it hung up.
                    causes.insert(0, await running.wait())
                tasks.cancel_scope.cancel()
            return causes[0]

    async def _stay_connected(self, repl_id: str, endpoint: Endpoint, *, elsewhere: bool = False) -> str:
        """Live through one connection; why it ended. `elsewhere`: a tunnel may lie between us and the REPL."""
        async with nrepl.connect(
            endpoint,
            listener=lambda evaluation, event: self._heard(repl_id, evaluation, event),
            workspace=self._workspace,
            beat=Beat() if elsewhere else None,
        ) as adapter:
            self._adapters[repl_id] = adapter
            try:
                self.dispatch(actions.ReplConnected(repl_id, _profile(adapter.profile), str(endpoint)))
                return await adapter.wait_closed()
            finally:
                del self._adapters[repl_id]

    def _process_said(self, repl_id: str, stream: str, text: str) -> None:
        repl = self.core.state.repls.get(repl_id)
        text = self._loosely(repl_id, f"process {stream}", text)
        if repl is None or not text.strip():
            return
        self._log.append(
            "otherErrorOutput" if stream == "err" else "otherOutput",
            text,
            timestamp_ms=self._now(),
            session_key=repl.key,
        )
        if repl.phase == "starting":
            self.dispatch(actions.ReplProgress(repl_id, text.strip().splitlines()[-1][:300]))

    async def _retry(self, effect: effects.RetryRepl) -> None:
        await anyio.sleep(effect.delay_s)
        if self.core.state.life.phase == "started":
            self.core.resume({"now": self._now()}, effect, None)

    async def _close_session(self, effect: effects.CloseSession) -> None:
        adapter = self._adapters.get(effect.id)
        if adapter is None:
            return
        try:
            await adapter.close_session(effect.name)
        except CodriverError as error:
            logger.info("closing the session %s of %s: %s", effect.name, effect.id, error)

    # Evaluations

    async def _run(self, effect: effects.RunEvaluation) -> None:
        request = effect.request
        evaluation = base.Evaluation(
            id=effect.evaluation,
            code=request.code,
            session=effect.session,
            namespace=request.namespace,
            forms=tuple(base.Form(text, line, column) for text, line, column in request.forms),
            max_length=self._limits.max_length,
            max_depth=self._limits.max_depth,
            max_value_bytes=self._limits.max_value_bytes,
        )
        limit = anyio.move_on_after(self._limits.max_run_s)
        try:
            adapter = self.adapter(effect.repl)
            with limit:
                if request.kind == "load-file":
                    ending = await adapter.load_file(evaluation, request.path or "")
                else:
                    ending = await adapter.evaluate(evaluation)
                self._ended(effect.evaluation, ending)
                return
            await self._end_overlong(effect, adapter, evaluation)
        except ReplDisconnectedError:
            # The life of the connection ends all its evaluations at once, with the cause.
            return
        except CodriverError as error:
            failure = Failure(getattr(error, "reason", type(error).__name__), str(error))
            self.dispatch(actions.EvaluationEnded(effect.evaluation, "failed", failure=failure))

    def _ended(self, evaluation: str, ending: Ending) -> None:
        failure = ending.error and Failure(
            type=ending.error.type,
            message=ending.error.message,
            phase=ending.error.phase,
            file=ending.error.file,
            line=ending.error.line,
            column=ending.error.column,
            form=ending.error.form,
            trace=ending.error.trace,
        )
        self.dispatch(
            actions.EvaluationEnded(evaluation, ending.status, ending.namespace, failure or None, ending.notes)
        )

    async def _end_overlong(self, effect: effects.RunEvaluation, adapter: Adapter, evaluation: base.Evaluation) -> None:
        """It ran longer than anything may: interrupt it, and say so whatever comes of it."""
        why = f"it ran longer than the run limit of {self._limits.max_run_s:g} s"
        await self._keep_stacks(effect.evaluation, effect.repl, effect.session)
        try:
            done = await adapter.interrupt(evaluation.session)
            notes = (f"{why} and was interrupted ({done.outcome})", *([done.note] if done.note else []))
            self.dispatch(actions.EvaluationEnded(effect.evaluation, "interrupted", notes=notes))
        except CodriverError as error:
            text = f"{why} and could not be interrupted: {error}"
            self.dispatch(actions.LatchError("run-limit", text), actions.Say(text, error=True))

    def _heard(self, repl_id: str, evaluation_id: str | None, event: Event) -> None:
        """An event from a REPL: into the transcript of its evaluation, and into the log."""
        state = self.core.state
        evaluation = state.evaluations.get(evaluation_id) if evaluation_id else None
        if isinstance(event, base.InputNeeded):
            if evaluation is not None:
                self.dispatch(actions.InputWanted(evaluation.id))
            return
        repl = state.repls.get(repl_id)
        if repl is None:
            return
        transcript = self._transcripts.get(evaluation.id) if evaluation else None
        if isinstance(event, base.Value):
            text = self._transcripts.redactor(event.text)
            if transcript is not None:
                transcript.add_value(text)
                transcript.server_cut |= event.truncated
            self._record("evaluationResults", text, repl, evaluation, namespace=event.namespace)
            return
        is_error = event.stream == "err"
        if transcript is None:
            text = self._loosely(repl_id, event.stream, event.text)
        else:
            text = (transcript.err if is_error else transcript.out).append(event.text)
        if text:
            self._record(_category(evaluation, is_error=is_error), text, repl, evaluation)

    def _record(
        self, category: Category, text: str, repl: Repl, evaluation: Evaluation | None, namespace: str | None = None
    ) -> None:
        """Put what a REPL said into the log."""
        line = self._log.append(
            category,
            text,
            timestamp_ms=self._now(),
            who=evaluation.who if evaluation else None,
            namespace=namespace,
            session_key=session_key(repl, evaluation.session) if evaluation else repl.key,
            evaluation=evaluation.id if evaluation else None,
        )
        transcript = self._transcripts.get(evaluation.id) if evaluation else None
        if transcript is not None:
            transcript.saw_line(line)

    def _loosely(self, repl_id: str, stream: str, text: str) -> str:
        """What may be seen now of output that belongs to no evaluation."""
        redactor = self._loose.get((repl_id, stream))
        if redactor is None:
            redactor = self._loose[repl_id, stream] = self._transcripts.redactor.stream()
        return redactor.feed(text)

    def _end_loose(self, repl_id: str) -> None:
        """Record what was kept back of a REPL that says no more."""
        for key in [key for key in self._loose if key[0] == repl_id]:
            rest = self._loose.pop(key).flush()
            repl = self.core.state.repls.get(repl_id)
            if rest and repl is not None:
                self._record(_category(None, is_error=key[1].endswith("err")), rest, repl, None)

    def _settle(self, evaluation_id: str) -> None:
        transcript = self._transcripts.get(evaluation_id)
        if transcript is None:
            return
        evaluation = self.core.state.evaluations[evaluation_id]
        if evaluation.over:
            repl = self.core.state.repls.get(evaluation.repl)
            for stream, is_error in ((transcript.out, False), (transcript.err, True)):
                rest = stream.end()
                if rest and repl is not None:
                    self._record(_category(evaluation, is_error=is_error), rest, repl, evaluation)
            self._transcripts.settle(evaluation_id)
        transcript.signal()

    async def stop(self, evaluation_id: str, why: str, *, allow_restart: bool, settle_s: float) -> tuple[str, ...]:
        """End a running evaluation by what can end it: the REPL's own interrupt, else a restart where allowed.

        Gives, in words, what was done and how the session is now.
        """
        evaluation = self.core.state.evaluations[evaluation_id]
        repl = self.core.state.repls.get(evaluation.repl)
        if repl is None or repl.profile is None:
            return ("its REPL is gone, and the evaluation with it",)
        await self._keep_stacks(evaluation_id, evaluation.repl, evaluation.session)
        said: list[str] = []
        if "interrupt" in repl.profile.capabilities:
            said, over = await self._interrupt_until_over(evaluation_id, settle_s)
            if over:
                return (*said, "the evaluation is over and the session takes new ones")
        else:
            said.append(repl.profile.missing.get("interrupt", "this REPL cannot interrupt"))
        if not repl.owned:
            return (*said, "it still runs: this REPL was not started by codriver, so only its owner can restart it")
        if not allow_restart:
            return (
                *said,
                (
                    "it still runs: call interrupt_evaluation with allowRestart true to restart the REPL process, "
                    "which loses everything defined in it"
                ),
            )
        self.dispatch(actions.RestartRepl(repl.id, why))
        return (*said, "the REPL process is being restarted: everything defined in it is gone")

    async def _keep_stacks(self, evaluation_id: str, repl_id: str, session: str) -> None:
        """Keep with an evaluation what its REPL's threads do now: after the interrupt nobody can tell any more."""
        transcript, adapter = self._transcripts.get(evaluation_id), self._adapters.get(repl_id)
        if transcript is None or adapter is None:
            return
        with anyio.move_on_after(STACKS_S):
            dump = await adapter.stacks(session)
            if dump is not None:
                redact = self._transcripts.redactor
                transcript.stacks, transcript.own_stacks = redact(dump.whole), redact(dump.own)

    async def _interrupt_until_over(self, evaluation_id: str, settle_s: float) -> tuple[list[str], bool]:
        """Ask the REPL to interrupt; what it said in words, and whether the evaluation is over.

        A REPL that says nothing runs may not have begun with what we just sent, so it is asked again for a while.
        """
        evaluation = self.core.state.evaluations[evaluation_id]
        deadline = anyio.current_time() + settle_s
        while True:
            said, idle = await self._interrupt(evaluation.repl, evaluation.session)
            left_s = deadline - anyio.current_time()
            over = await self._over(evaluation_id, min(ASK_AGAIN_S, left_s) if idle else left_s)
            if over or not idle or anyio.current_time() >= deadline:
                return [said], over

    async def _interrupt(self, repl_id: str, session: str) -> tuple[str, bool]:
        """Ask the REPL once; what it said in words, and whether it said that nothing runs."""
        try:
            with anyio.fail_after(ANSWER_S):
                done = await self.adapter(repl_id).interrupt(session)
        except (OpTimedOutError, TimeoutError):
            return "the REPL did not answer the interrupt", False
        except CodriverError as error:
            return str(error), False
        words = {
            "interrupted": "the REPL interrupted it",
            "requested": "the REPL was asked to interrupt it",
            "idle": "the REPL says that nothing runs",
        }
        return words[done.outcome] + (f": {done.note}" if done.note else ""), done.outcome == "idle"

    async def _over(self, evaluation_id: str, settle_s: float) -> bool:
        transcript = self._transcripts.get(evaluation_id)
        with anyio.move_on_after(max(0, settle_s)):
            while not self.core.state.evaluations[evaluation_id].over and transcript is not None:
                await transcript.wait_changed()
        return self.core.state.evaluations[evaluation_id].over


def _category(evaluation: Evaluation | None, *, is_error: bool) -> Category:
    if evaluation is None:
        return "otherErrorOutput" if is_error else "otherOutput"
    return "evaluationErrorOutput" if is_error else "evaluationOutput"


def _endpoint(address: str) -> Endpoint:
    """`host:port`, `[v6]:port` or `port` as an endpoint."""
    host, _, port = address.rpartition(":")
    return Endpoint(host.strip("[]") or "127.0.0.1", int(port))


def _profile(profile: base.Profile) -> Profile:
    return Profile(
        dialect=profile.dialect,
        versions=profile.versions,
        capabilities={name: Capability(s.op, s.adapted) for name, s in profile.support.items()},
        missing=profile.missing,
        isolation=profile.isolation,
        process_id=profile.process_id,
        project_root=profile.project_root,
        notes=profile.notes,
    )
