"""An internal error while a REPL is served ends only what it affects, is remembered, and never ends the server."""

import logging
from contextlib import asynccontextmanager

import anyio
import pytest
from scripted_nrepl import OPS, scripted

from codriver.core.actions import AddRepl, Evaluate, InputRequested, SessionClosed
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, AppendEntry, CloseSession
from codriver.core.handlers import HANDLERS
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State
from codriver.log.evaluation_transcripts import Transcripts
from codriver.log.history import History
from codriver.log.logbook import Logbook
from codriver.log.redaction import Redactor
from codriver.repls.kinds import NREPL_PROTOCOL
from codriver.repls.launch.recipes import find_recipe
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl
from codriver.repls.supervisor import ReplSupervisor
from codriver.settings.model import Settings

pytestmark = pytest.mark.anyio

UNREADABLE_PLACE = f"Execution error (E) at user/eval (x.clj:{'9' * 5000}).\nno\n"
"""The interpreter refuses to make a number of so many digits: a fault that nothing expects."""
ANSWERS = {
    ("eval", "fails"): [{"err": UNREADABLE_PLACE, "ex": "E"}, {"status": ["eval-error", "done"]}],
    ("eval", "fine"): [{"value": "3", "ns": "user"}, {"status": ["done"]}],
    ("eval", "slow"): [0.5, {"value": "3", "ns": "user"}, {"status": ["done"]}],
    ("eval", "booby trap"): [{"status": ["need-input"]}, {"status": ["done"]}],
}


class UnexpectedError(Exception):
    """An unexpected error."""


@asynccontextmanager
async def served(workspace, handlers=HANDLERS, ops=OPS):
    """Run a core and its REPLs, connected to a scripted server."""
    redactor = Redactor({})
    transcripts = Transcripts(stored=100, max_bytes=10**6, max_stream_bytes=10**6, redactor=redactor)
    history = History(workspace / "history.json")
    logbook = Logbook(history, transcripts, history, next_line=1, max_entities=1000, max_bytes=10**6, redactor=redactor)
    received = []

    async with scripted(ANSWERS, ops=ops) as server, anyio.create_task_group() as tasks:
        made = []

        def note(effect):
            if isinstance(effect, AppendEntry):
                received.append(effect.text)

        def performers(core):
            repls = ReplSupervisor(
                core=core,
                tasks=tasks,
                connectors={NREPL_PROTOCOL: connect_nrepl},
                workspace=workspace,
                recipe_of=lambda words: find_recipe(words, workspace, {}),
                logbook=logbook,
                transcripts=transcripts,
            )
            made.append(repls)
            return {**dict.fromkeys(EFFECTS, note), **repls.performers}

        core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=handlers,
            performers=performers,
        )
        (repls,) = made
        core.report(AddRepl("r1", "x", Origin("address", str(server.endpoint))))
        with anyio.fail_after(60):
            await until(lambda: core.state.repls["r1"].phase == "connected")
            yield core, repls, received, transcripts
            await repls.close_all()
        tasks.cancel_scope.cancel()


async def until(condition):
    while not condition():
        await anyio.sleep(0.01)


async def run(core, transcripts, name, code):
    """Evaluate `code` and wait until it has ended."""
    transcripts.open(name, (code,))
    core.dispatch({"who": "me", "client": None}, [Evaluate("r1", Request(name, code))])
    await until(lambda: core.state.evaluations[name].is_finished)
    return core.state.evaluations[name]


async def test_an_error_while_reading_an_answer_ends_only_that_evaluation(tmp_path, caplog):
    async with served(tmp_path) as (core, _, output, transcripts):
        ended = await run(core, transcripts, "e-1", "fails")
        assert (ended.status, ended.failure.type) == ("failed", "internal-error")
        assert "internal error in Codriver (the evaluation e-1): ValueError" in ended.failure.message
        assert "may have run" in ended.failure.message
        assert core.state.latches["internal-error"].count == 1
        assert any("internal error in Codriver" in text for text in output)
        assert caplog.records[-1].exc_info
        assert (await run(core, transcripts, "e-2", "fine")).status == "done"


def failing_at(name):
    """Return the handlers of the core, of which that of the action `name` fails."""

    def fail(_state, _action):
        raise UnexpectedError

    return {**HANDLERS, name: fail}


async def test_an_error_while_handling_messages_closes_only_that_connection(tmp_path):
    async with served(tmp_path, handlers=failing_at(InputRequested)) as (core, _, _, transcripts):
        ended = await run(core, transcripts, "e-1", "booby trap")
        assert ended.status == "lost"
        assert "UnexpectedError" in ended.failure.message
        assert core.state.latches["internal-error"].count == 1
        await until(lambda: core.state.repls["r1"].phase == "connected")
        assert (await run(core, transcripts, "e-2", "fine")).status == "done"


async def test_an_internal_error_while_closing_a_session_is_recorded(tmp_path, caplog):
    async with served(tmp_path, handlers=failing_at(SessionClosed)) as (core, repls, _, transcripts):
        repls.performers[CloseSession](CloseSession(id="r1", name="mine"))
        await until(lambda: "internal-error" in core.state.latches)
        assert "closing the session mine" in core.state.latches["internal-error"].text
        assert caplog.records[-1].levelno == logging.ERROR
        assert (await run(core, transcripts, "e-1", "fine")).status == "done"


async def test_a_timed_out_evaluation_that_was_not_interrupted_is_not_reported_as_interrupted(tmp_path):
    async with served(tmp_path, ops=("clone", "describe", "eval")) as (core, _repls, output, transcripts):
        core.settings = Settings().model_copy(update={"max_run_ms": 10})
        ended = await run(core, transcripts, "e-1", "slow")
        assert ended.status == "done"
        assert "could not be interrupted" in " ".join(ended.notes)
        assert "was interrupted" not in " ".join(ended.notes)
        assert any("could not be interrupted" in text for text in output)
