"""Evaluations by others in a REPL, bypassing the server: they occupy the queue, and belong to no client."""

import pytest

from codriver.core.actions import Evaluate, EvaluationFinished, ExternalEvaluationStarted, ReplConnected, ReplLost
from codriver.core.effects import AppendEntry, RunEvaluation
from codriver.core.evaluation_queue import accept_evaluation, finish_evaluation, record_external_evaluation
from codriver.core.profiles import Profile
from codriver.core.repl_connections import handle_lost_connection, use_new_connection
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, Repl, State


@pytest.fixture
def state():
    repl = Repl("r1", "a-ipynb", Origin("kernel", "/run/kernel-1.json", is_discovered_only=True))
    started = State(lifecycle=Lifecycle("started", session_id="abcd"), repls={"r1": repl})
    profile = Profile("python", isolation="none", is_serial=True, document="/shop/a.ipynb")
    return use_new_connection(started, repl, ReplConnected("r1", profile, "jupyter:///run/kernel-1.json", 1)).state


def seen(state):
    return record_external_evaluation(state, ExternalEvaluationStarted("r1", "abcd-1", "price = 7", 5))


def test_code_run_in_a_notebook_is_logged_with_its_notebook(state):
    (code,) = seen(state).effects
    assert isinstance(code, AppendEntry)
    assert (code.text, code.who, code.document, code.evaluation) == ("price = 7", "jupyter", "/shop/a.ipynb", "abcd-1")


def test_evaluations_wait_while_a_notebook_runs_code_in_the_same_kernel(state):
    state = seen(state).state
    assert state.evaluations["abcd-1"].status == "running"
    outcome = accept_evaluation(state, Evaluate("r1", Request("abcd-2", "1+2"), who="ann", client="c1", now=6))
    assert outcome.state.evaluations["abcd-2"].status == "queued"
    assert not [effect for effect in outcome.effects if isinstance(effect, RunEvaluation)]
    ended = finish_evaluation(
        outcome.state, outcome.state.evaluations["abcd-1"], EvaluationFinished("abcd-1", "done", now=7)
    )
    assert ended.state.evaluations["abcd-2"].status == "running"
    assert [effect.request.id for effect in ended.effects if isinstance(effect, RunEvaluation)] == ["abcd-2"]


def test_an_evaluation_in_a_notebook_ends_as_lost_if_the_connection_is_lost(state):
    state = seen(state).state
    outcome = handle_lost_connection(state, state.repls["r1"], ReplLost("r1", "the kernel was restarted", now=8))
    (ending,) = [item for item in outcome.follow_ups if isinstance(item, EvaluationFinished)]
    assert (ending.status, ending.failure.message) == (
        "lost",
        "the kernel was restarted. It is unknown how much of the code ran",
    )


def test_evaluations_in_an_unknown_repl_are_ignored(state):
    outcome = record_external_evaluation(state, ExternalEvaluationStarted("r2", "abcd-1", "x", 5))
    assert (outcome.state, outcome.effects) == (state, ())
