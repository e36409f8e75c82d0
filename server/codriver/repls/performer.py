"""Performs the core's `repl` effects: owns the connections and processes, and reports back by dispatching.

Each REPL has at most one *life*: the task that starts its process if it is ours, connects, and waits until the
connection is over. A life that ends by itself dispatches `ReplLost`; one that was ended on purpose dispatches nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import anyio

from codriver.core import actions, effects
from codriver.core.state import Capability, Failure, Profile
from codriver.errors import CodriverError, ReplDisconnectedError
from codriver.repls import base, nrepl, process, recipes
from codriver.repls.base import Endpoint
from codriver.repls.hearing import Hearing
from codriver.repls.heartbeat import Beat
from codriver.repls.reporting import Reporter
from codriver.repls.stopping import Stopping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Effect
    from codriver.core.state import Repl
    from codriver.outputlog import OutputLog
    from codriver.repls.base import Adapter, Ending
    from codriver.transcripts import Transcripts

E = TypeVar("E")
logger = logging.getLogger(__name__)

LEFT_S = 2.0
"""How long what a client left behind in its own session is given to end after an interrupt."""


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
        self._limits = limits
        self._lives: dict[str, _Life] = {}
        self._adapters: dict[str, Adapter] = {}
        self._reporter = Reporter(now)
        self._hearing = Hearing(self._reporter, log, transcripts)
        self._stopping = Stopping(self._reporter, self._adapters, transcripts)
        self.attach = self._reporter.attach
        self.stop = self._stopping.stop

    def limit(self, limits: Limits) -> None:
        """Bound the evaluations that begin from now on by `limits`."""
        self._limits = limits

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
                self._begin("trying to reach a REPL again", self._retry, effect)
            case effects.RunEvaluation():
                self._begin(f"the evaluation {effect.evaluation}", self._run, effect)
            case effects.CloseSession():
                self._begin(f"closing the session {effect.name}", self._close_session, effect)
            case effects.StopEvaluation():
                self._begin(f"stopping the evaluation {effect.evaluation}", self._stop_left, effect)
            case effects.SettleEvaluation():
                self._hearing.settle(effect.evaluation)

    def _begin(self, what: str, act: Callable[[E], Awaitable[None]], effect: E) -> None:
        """Do `what` in a task of its own, whose faults end nothing but itself."""

        async def guarded() -> None:
            try:
                await act(effect)
            except Exception as error:  # noqa: BLE001  # in the server's task group it would end the server
                self._fault(what, error)

        self._tasks.start_soon(guarded)

    def _fault(self, what: str, error: Exception) -> str:
        """Remember that codriver itself failed in `what`; in words, for who is concerned."""
        text = f"codriver itself failed in {what}: {_words(error)}"
        logger.error("%s", text, exc_info=error)
        try:
            self._reporter.dispatch(actions.LatchError("internal-error", text), actions.Say(text, error=True))
        except Exception:
            logger.exception("this could not be put into the log")
        return text

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
                    cause = await self._connect(self._reporter.core.state.repls[repl_id])
                except recipes.RecipeError as error:
                    cause, final = str(error), True
                except CodriverError as error:
                    cause = str(error)
                except Exception as error:  # noqa: BLE001  # in the server's task group it would end the server
                    cause = self._fault(f"the connection to the REPL {repl_id}", error)
        finally:
            life.over.set()
            self._hearing.end(repl_id)
            if self._lives.get(repl_id) is life:
                del self._lives[repl_id]
        if not life.scope.cancel_called and self._reporter.core.state.life.phase in ("starting", "started"):
            self._reporter.dispatch(actions.ReplLost(repl_id, cause, final))
            given_up = self._reporter.core.state.repls.get(repl_id)
            if given_up is not None and given_up.phase == "stopped":
                logger.warning("the REPL %s is stopped: %s", given_up.key, given_up.note)

    async def _connect(self, repl: Repl) -> str:
        """Live through one connection; why it ended."""
        if not repl.owned:
            endpoint = _endpoint(repl.address or repl.origin.text)
            return await self._stay_connected(repl.id, endpoint, elsewhere=repl.origin.kind == "address")
        recipe = await anyio.to_thread.run_sync(recipes.recipe, repl.origin.text, self._workspace, self._environ)
        for note in recipe.notes:
            self._reporter.dispatch(actions.ReplProgress(repl.id, note))
        async with process.start(
            recipe.command,
            cwd=self._workspace,
            env=recipe.env,
            on_output=lambda stream, text: self._hearing.process_said(repl.id, stream, text),
            port_file=recipe.port_file,
            start_timeout_s=recipe.start_timeout_s,
        ) as running:
            endpoint = await running.endpoint()
            self._reporter.dispatch(actions.ReplStarted(repl.id, str(endpoint)))
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
            listener=lambda evaluation, event: self._hearing.heard(repl_id, evaluation, event),
            workspace=self._workspace,
            beat=Beat() if elsewhere else None,
        ) as adapter:
            self._adapters[repl_id] = adapter
            try:
                self._reporter.dispatch(actions.ReplConnected(repl_id, _profile(adapter.profile), str(endpoint)))
                return await adapter.wait_closed()
            finally:
                del self._adapters[repl_id]

    async def _retry(self, effect: effects.RetryRepl) -> None:
        await anyio.sleep(effect.delay_s)
        if self._reporter.core.state.life.phase == "started":
            self._reporter.core.resume({"now": self._reporter.now()}, effect, None)

    async def _close_session(self, effect: effects.CloseSession) -> None:
        adapter = self._adapters.get(effect.id)
        try:
            if adapter is not None:
                await adapter.close_session(effect.name)
        except CodriverError as error:
            logger.info("closing the session %s of %s: %s", effect.name, effect.id, error)
        self._reporter.dispatch(actions.SessionClosed(effect.id, effect.name))

    async def _stop_left(self, effect: effects.StopEvaluation) -> None:
        said = await self.stop(effect.evaluation, effect.why, allow_restart=False, settle_s=LEFT_S)
        logger.info("evaluation %s, as %s: %s", effect.evaluation, effect.why, "; ".join(said))

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
            self._reporter.dispatch(actions.EvaluationEnded(effect.evaluation, "failed", failure=failure))
        except Exception as error:  # noqa: BLE001  # who waits for its end must be told of it, whatever happened
            text = self._fault(f"the evaluation {effect.evaluation}", error)
            failure = Failure("internal-error", f"{text}; the code was sent and may have run, in part or whole")
            self._reporter.dispatch(actions.EvaluationEnded(effect.evaluation, "failed", failure=failure))

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
        self._reporter.dispatch(
            actions.EvaluationEnded(evaluation, ending.status, ending.namespace, failure or None, ending.notes)
        )

    async def _end_overlong(self, effect: effects.RunEvaluation, adapter: Adapter, evaluation: base.Evaluation) -> None:
        """It ran longer than anything may: interrupt it, and say so whatever comes of it."""
        why = f"it ran longer than the run limit of {self._limits.max_run_s:g} s"
        await self._stopping.keep_stacks(effect.evaluation, effect.repl, effect.session)
        try:
            done = await adapter.interrupt(evaluation.session)
            notes = (f"{why} and was interrupted ({done.outcome})", *([done.note] if done.note else []))
            self._reporter.dispatch(actions.EvaluationEnded(effect.evaluation, "interrupted", notes=notes))
        except CodriverError as error:
            text = f"{why} and could not be interrupted: {error}"
            self._reporter.dispatch(actions.LatchError("run-limit", text), actions.Say(text, error=True))


def _words(error: BaseException) -> str:
    """What went wrong: of a group of faults, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


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
        is_serial=profile.is_serial,
        process_id=profile.process_id,
        project_root=profile.project_root,
        notes=profile.notes,
    )
