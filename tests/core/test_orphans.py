"""Evaluations left running by a client: they block nobody, and otherwise continue."""

import pytest

from codriver.core.actions import (
    AddRepl,
    ClientConnected,
    ClientDisconnected,
    Evaluate,
    EvaluationFinished,
    GracePeriodExpired,
    InputRequested,
    ReplConnected,
    SessionOpened,
)
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, AppendEntry, StartGracePeriod, StopEvaluation, WakeWaiters
from codriver.core.evaluation_queue import next_evaluation_id
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State
from codriver.settings.model import Settings

PROFILE = Profile(dialect="python", capabilities={"evaluate": Capability("eval")})
APART_IN_NAME_ALONE = Profile(dialect="nbb", isolation="none")


class Server:
    """A core with two clients and a REPL that records the effects it is asked to perform."""

    def __init__(self, profile=PROFILE):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(gone_client_grace_ms=7000),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(EFFECTS, self.effects.append),
        )
        self.do(ClientConnected("gone"), ClientConnected("here"))
        self.do(AddRepl("r1", "py", Origin("address", "x:1"), "x:1"), ReplConnected("r1", profile, "x:1"))

    def do(self, *actions, **context):
        self.effects.clear()
        self.core.dispatch(context, actions)

    def evaluate(self, client, session="main", who=None):
        identity = next_evaluation_id(self.core.state)
        self.do(Evaluate("r1", Request(identity, "1", session), "1"), who=who or client, client=client)
        return identity

    def of(self, kind):
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def ended(self):
        return [effect.evaluation for effect in self.of(StopEvaluation)]

    def one(self, evaluation):
        return self.core.state.evaluations[evaluation]

    def leave(self, client="gone"):
        """Disconnect the client, and let the grace period pass."""
        self.do(ClientDisconnected(client))
        (grace,) = self.of(StartGracePeriod)
        self.effects.clear()
        self.core.resume(grace, None)


@pytest.fixture
def server():
    return Server()


def test_the_grace_period_comes_from_the_settings(server):
    server.evaluate("gone")
    server.do(ClientDisconnected("gone"))
    assert [grace.grace_ms for grace in server.of(StartGracePeriod)] == [7000]


def test_a_disconnected_client_without_evaluations_gets_no_grace_period(server):
    left, other = server.evaluate("gone"), server.evaluate("here")
    server.do(EvaluationFinished(left, "done"))
    server.do(ClientDisconnected("gone"))
    assert server.of(StartGracePeriod) == []
    assert server.one(other).status == "running"


def test_an_orphaned_evaluation_continues_if_no_caller_waits(server):
    running, queued = server.evaluate("gone"), server.evaluate("gone")
    server.leave()
    assert (server.ended, server.one(queued).status) == ([], "queued")
    server.do(EvaluationFinished(running, "done"))
    assert (server.one(running).status, server.one(queued).status) == ("done", "running")


def test_an_orphaned_evaluation_is_ended_after_the_grace_period_for_a_waiting_caller(server):
    running, waiting = server.evaluate("gone"), server.evaluate("here", who="ann")
    server.do(ClientDisconnected("gone"))
    assert server.ended == []
    server.do(GracePeriodExpired("gone"))
    assert server.ended == [running]
    assert "its client disconnected, and ann is waiting for the session" in server.one(running).stop_requested
    assert [e.text for e in server.of(AppendEntry) if running in e.text]
    server.do(EvaluationFinished(running, "interrupted"))
    assert server.one(waiting).status == "running"
    assert any("ann is waiting" in note for note in server.one(running).notes)


def test_an_orphaned_evaluation_is_ended_for_a_caller_arriving_after_the_grace_period(server):
    running = server.evaluate("gone")
    server.leave()
    server.evaluate("here")
    assert server.ended == [running]


def test_a_caller_that_arrives_early_waits_for_the_grace_period(server):
    running = server.evaluate("gone")
    server.do(ClientDisconnected("gone"))
    server.evaluate("here")
    assert server.ended == []
    server.do(GracePeriodExpired("gone"))
    assert server.ended == [running]


def test_an_orphaned_evaluation_is_not_ended_early_when_a_caller_waits_twice(server):
    running = server.evaluate("gone")
    server.leave()
    server.evaluate("here", who="ann")
    server.evaluate("here", who="ann")
    assert server.ended == []
    assert server.one(running).status == "running"


def test_queued_evaluations_of_the_client_never_run(server):
    running, queued = server.evaluate("gone"), server.evaluate("gone")
    waiting = server.evaluate("here")
    server.leave()
    assert server.one(queued).status == "interrupted"
    assert "never sent" in server.one(queued).notes[0]
    server.do(EvaluationFinished(running, "interrupted"))
    assert server.one(waiting).status == "running"


def test_a_disconnected_client_does_not_count_as_waiting(server):
    server.evaluate("gone")
    server.evaluate("here")
    server.do(ClientDisconnected("here"))
    server.leave()
    assert server.ended == []


def test_a_caller_waiting_for_another_session_is_not_blocked(server):
    server.do(SessionOpened("r1", "ann", "ann", "here"))
    server.evaluate("gone")
    server.leave()
    server.evaluate("here", session="ann")
    server.evaluate("here", session="ann")
    assert server.ended == []


def test_a_caller_waiting_for_a_nominally_separate_session_is_blocked():
    server = Server(APART_IN_NAME_ALONE)
    server.do(SessionOpened("r1", "ann", "ann", "here"))
    running = server.evaluate("gone")
    server.leave()
    server.evaluate("here", session="ann")
    assert server.ended == [running]


def test_code_waiting_for_input_is_ended_after_the_grace_period(server):
    reading = server.evaluate("gone")
    server.do(InputRequested(reading))
    server.do(ClientDisconnected("here"))
    assert server.of(StartGracePeriod) == []
    server.do(ClientDisconnected("gone"))
    assert server.ended == []
    server.do(GracePeriodExpired("gone"))
    assert server.ended == [reading]
    assert "is waiting for input" in server.one(reading).stop_requested


def test_code_that_requests_input_after_the_grace_period_is_ended_immediately(server):
    running = server.evaluate("gone")
    server.leave()
    assert server.ended == []
    server.do(InputRequested(running))
    assert server.ended == [running]
    assert [effect.evaluation for effect in server.of(WakeWaiters)] == [running]


def test_code_that_requests_input_within_the_grace_period_can_still_get_it(server):
    running = server.evaluate("gone")
    server.do(ClientDisconnected("gone"), InputRequested(running))
    assert server.ended == []
    assert server.one(running).status == "needs-input"
