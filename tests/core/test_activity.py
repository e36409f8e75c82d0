"""What a caller is notified of: each start and each end of others' evaluations once, and never its own."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from codriver.core import clients, reported_evaluations
from codriver.core.actions import ClientConnected, EvaluationsReported
from codriver.core.evaluations import Evaluation
from codriver.core.state import State, with_evaluation


def state_of(*ids):
    state = State()
    for client in ids:
        state = clients.add_client(state, ClientConnected(client)).state
    return state


def with_running_evaluation(state, client, who):
    number = state.evaluated + 1
    evaluation = Evaluation(f"e{number}", number, "r1", "main", who, client, None, "(code)", "running")
    return replace(with_evaluation(state, evaluation), evaluated=number)


def ended(state, identity):
    return with_evaluation(state, replace(state.evaluations[identity], status="done"))


def report(state, client, who):
    return reported_evaluations.record_all_reported(state, EvaluationsReported(client, who)).state


def since(state, client, who):
    known = reported_evaluations.caller_knowledge(state, client, who)
    return (
        [evaluation.id for evaluation in reported_evaluations.unreported_evaluations(state, known, client, who)]
        if known
        else []
    )


def report_if_needed(state, client, who):
    known = reported_evaluations.caller_knowledge(state, client, who)
    if since(state, client, who) or known is None or not reported_evaluations.is_up_to_date(state, known, None, None):
        return report(state, client, who)
    return state


def test_nothing_is_reported_to_a_caller_without_earlier_answers():
    state = with_running_evaluation(state_of("c1", "c2"), "c2", "bob")
    assert since(state, "c1", "ann") == []
    assert since(state, "gone", "ann") == []


def test_each_evaluation_is_reported_once_to_every_caller_except_its_own():
    state = report(state_of("c1", "c2"), "c1", "ann")
    state = with_running_evaluation(
        with_running_evaluation(with_running_evaluation(state, "c2", "bob"), "c1", "ann"), "c2", "ann"
    )
    assert since(state, "c1", "ann") == ["e1", "e3"]
    assert since(report(state, "c1", "ann"), "c1", "ann") == []


def test_a_caller_is_also_notified_when_a_running_evaluation_of_another_caller_ends():
    state = report(
        with_running_evaluation(with_running_evaluation(state_of("c1", "c2"), "c2", "bob"), "c2", "bob"), "c1", "ann"
    )
    state = ended(state, "e2")
    assert since(state, "c1", "ann") == ["e2"]
    state = report(state, "c1", "ann")
    assert since(state, "c1", "ann") == []
    assert since(ended(state, "e1"), "c1", "ann") == ["e1"]


def test_callers_sharing_a_connection_are_notified_separately():
    state = report(report(state_of("c1"), "c1", "ann"), "c1", "bob")
    state = with_running_evaluation(state, "c1", "ann")
    assert since(state, "c1", "bob") == ["e1"]
    assert since(state, "c1", "ann") == []


def test_only_the_newest_callers_on_a_connection_are_remembered():
    state = state_of("c1")
    for number in range(reported_evaluations.MAX_CALLERS + 5):
        state = report(state, "c1", f"who-{number}")
    kept = state.clients["c1"].knowledge
    assert len(kept) == reported_evaluations.MAX_CALLERS
    assert "who-0" not in kept


def test_no_report_is_recorded_for_a_disconnected_client():
    state = state_of("c1")
    assert report(state, "c2", "ann") is state


STEPS = st.lists(st.one_of(st.just("begin"), st.just("tell"), st.integers(1, 12)), max_size=40)


@given(STEPS)
def test_every_start_and_end_of_another_callers_evaluation_is_reported_exactly_once(steps):
    state = report(state_of("c1", "c2"), "c1", "ann")
    expected = set()
    for step in [*steps, "tell"]:
        if step == "begin":
            state = with_running_evaluation(state, "c2", "bob")
            expected.add(f"e{state.evaluated}")
        elif step == "tell":
            assert since(state, "c1", "ann") == sorted(expected, key=lambda name: int(name[1:]))
            state = report(state, "c1", "ann")
            expected = set()
        elif f"e{step}" in state.evaluations and not state.evaluations[f"e{step}"].is_finished:
            state = ended(state, f"e{step}")
            expected.add(f"e{step}")


OWN_STEPS = st.lists(st.sampled_from(["own", "own", "other's", "tell", "end"]), max_size=80)


@given(OWN_STEPS)
def test_skipping_updates_for_a_callers_own_evaluations_does_not_change_the_reports(steps):
    noted = state = report(state_of("c1", "c2"), "c1", "ann")
    for step in steps:
        if step == "tell":
            assert since(state, "c1", "ann") == since(noted, "c1", "ann")
            noted, state = report(noted, "c1", "ann"), report_if_needed(state, "c1", "ann")
            assert (
                reported_evaluations.caller_knowledge(state, "c1", "ann").number
                > state.evaluated - reported_evaluations.MAX_UNRECORDED_EVALUATIONS
            )
        elif step == "end":
            live = next((name for name, item in state.evaluations.items() if not item.is_finished), None)
            if live is not None:
                noted, state = ended(noted, live), ended(state, live)
        else:
            caller = ("c1", "ann") if step == "own" else ("c2", "bob")
            noted, state = with_running_evaluation(noted, *caller), with_running_evaluation(state, *caller)


def test_another_evaluation_of_the_same_caller_requires_no_update():
    state = with_running_evaluation(report(state_of("c1"), "c1", "ann"), "c1", "ann")
    assert report_if_needed(state, "c1", "ann") is state
