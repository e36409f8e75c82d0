"""Jobs: test runs in their own processes, one at a time, independent of evaluations in REPLs."""

import pytest

from codriver.core.actions import (
    AddRepl,
    CancelQueued,
    ClientConnected,
    ClientDisconnected,
    Evaluate,
    EvaluationFinished,
    GracePeriodExpired,
    ReplConnected,
    StartJob,
    StopServer,
)
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, AppendEntry, RunJob, StopEvaluation
from codriver.core.evaluation_queue import next_evaluation_id
from codriver.core.evaluations import TEST_JOBS_REPL
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State
from codriver.settings.model import Settings

SERIAL = Profile(dialect="python", capabilities={"evaluate": Capability("eval")}, is_serial=True)


class Server:
    """A core with two clients and a serial REPL, which records the effects that it performs."""

    def __init__(self):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(EFFECTS, self.effects.append),
        )
        self.do(ClientConnected("ann"), ClientConnected("bob"))
        self.do(AddRepl("r1", "py", Origin("address", "x:1"), "x:1"))
        self.do(ReplConnected("r1", SERIAL, "x:1"))

    def do(self, *actions, **context):
        self.core.dispatch(context, actions)

    def run_tests(self, client, job):
        identity = next_evaluation_id(self.core.state)
        self.do(StartJob(Request(identity, job, kind="run-tests", job=job), job), who=client, client=client)
        return identity

    def evaluate(self, client):
        identity = next_evaluation_id(self.core.state)
        self.do(Evaluate("r1", Request(identity, "1"), "1"), who=client, client=client)
        return identity

    def end(self, identity, status="done", **more):
        self.do(EvaluationFinished(identity, status, **more))

    def status(self, identity):
        return self.core.state.evaluations[identity].status

    @property
    def started(self):
        return [effect.request.job for effect in self.effects if isinstance(effect, RunJob)]

    @property
    def logged(self):
        found = [effect for effect in self.effects if isinstance(effect, AppendEntry) and effect.who]
        return [(item.category, item.text, item.who, item.session_key) for item in found]


@pytest.fixture
def server():
    return Server()


def test_one_job_runs_at_a_time_and_the_next_starts_when_it_ends(server):
    first, second = server.run_tests("ann", "a"), server.run_tests("bob", "b")
    assert (server.started, server.status(second)) == (["a"], "queued")
    server.end(first)
    assert (server.started, server.status(second)) == (["a", "b"], "running")


def test_jobs_and_evaluations_do_not_wait_for_each_other(server):
    job, evaluation = server.run_tests("ann", "a"), server.evaluate("ann")
    assert (server.status(job), server.status(evaluation)) == ("running", "running")


def test_a_job_needs_no_repl(server):
    job = server.run_tests("ann", "a")
    assert server.core.state.evaluation_session_key(server.core.state.evaluations[job]) == TEST_JOBS_REPL
    assert TEST_JOBS_REPL not in server.core.state.repls


def test_a_cancelled_job_never_starts(server):
    first, second = server.run_tests("ann", "a"), server.run_tests("bob", "b")
    server.do(CancelQueued(second, "not needed"))
    server.end(first)
    assert (server.started, server.status(second)) == (["a"], "interrupted")


def test_each_job_has_one_log_line(server):
    job = server.run_tests("ann", "pytest")
    assert server.logged == []
    server.end(job, "failed", summary="pytest: 1 failed")
    assert server.logged == [("otherErrorOutput", "ann ran pytest: 1 failed", "ann", TEST_JOBS_REPL)]


def test_a_job_of_a_disconnected_client_ends_if_another_client_waits(server):
    job = server.run_tests("ann", "a")
    server.do(ClientDisconnected("ann"))
    server.do(GracePeriodExpired("ann"))
    assert not [effect for effect in server.effects if isinstance(effect, StopEvaluation)]
    server.run_tests("bob", "b")
    assert [effect.evaluation for effect in server.effects if isinstance(effect, StopEvaluation)] == [job]


def test_a_stopping_server_starts_no_job(server):
    server.do(StopServer("test"))
    job = server.run_tests("ann", "a")
    assert (server.started, server.status(job)) == ([], "lost")
