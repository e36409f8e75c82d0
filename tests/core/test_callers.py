"""Callers of a connection: the name given last applies, and what was done without a name is the caller's own."""

from dataclasses import replace

import pytest

from codriver.core import bounded_mappings, caller_names, clients, recent_repls, reported_evaluations
from codriver.core.actions import CallerNamed, ClientConnected, EvaluationsReported
from codriver.core.evaluations import Evaluation, Lane
from codriver.core.state import Origin, Repl, ReportedStatus, Session, State, with_evaluation, with_repl

DONE = ReportedStatus(1, "user")


@pytest.fixture
def state():
    made = State()
    for client in ("c1", "c2"):
        made = clients.add_client(made, ClientConnected(client)).state
    return made


def named(state, who, *, formerly="agent", client="c1", conversation=""):
    return caller_names.name_caller(state, CallerNamed(conversation, formerly, client, who)).state


def test_a_caller_name_applies_within_its_conversation_until_another_is_given(state):
    assert caller_names.caller_name(state, "c1", "") is None
    state = named(named(state, "ann"), "bob", formerly="ann")
    assert [caller_names.caller_name(state, *of) for of in (("c1", ""), ("c1", "other"), ("c2", ""))] == [
        "bob",
        None,
        None,
    ]


def test_only_a_callers_own_and_unnamed_evaluations_count_as_its_own(state):
    state = named(named(state, "ann"), "bob", formerly="ann")
    own = {who: caller_names.is_by_caller(state, "c1", "bob", ("c1", who)) for who in ("agent", "ann", "bob")}
    assert own == {"agent": True, "ann": False, "bob": True}
    assert not caller_names.is_by_caller(state, "c1", "bob", ("c2", "agent"))


def test_a_caller_that_gives_its_name_is_not_notified_of_its_own_evaluations(state):
    state = reported_evaluations.record_all_reported(state, EvaluationsReported("c1", "agent")).state
    evaluation = Evaluation("e1", 1, "r1", "main", "agent", "c1", None, "1", "running")
    state = with_evaluation(state, evaluation)
    state = named(state, "ann")
    known = reported_evaluations.caller_knowledge(state, "c1", "ann")
    assert reported_evaluations.unreported_evaluations(state, known, "c1", "ann") == []


def test_a_lane_is_reassigned_to_the_name_its_caller_gives(state):
    lane = Session("agent", "agent", "c1", lane=Lane("claude", "agent"))
    state = with_repl(state, Repl("r1", "clj", Origin("address", "x:1"), sessions={"agent": lane}))
    (renamed,) = named(state, "ann").repls["r1"].sessions.values()
    assert (renamed.name, renamed.lane) == ("agent", Lane("claude", "ann"))


def test_the_repls_used_by_an_unnamed_caller_are_remembered_under_the_name_it_gives_later(state):
    state = recent_repls.with_recent_repl(state, "c1", "agent", "r1")
    assert recent_repls.recent_repl_ids(named(state, "ann"), "c1", "ann") == ("r1",)
    assert recent_repls.recent_repl_ids(state, "c2", "agent") == ()


def test_only_the_newest_of_many_callers_are_remembered(state):
    for number in range(bounded_mappings.MAX_ENTRIES + 1):
        state = named(state, f"w{number}", conversation=str(number))
    assert [caller_names.caller_name(state, "c1", str(number)) for number in (0, 1)] == [None, "w1"]


def test_a_name_of_an_unknown_client_is_ignored():
    assert named(State(), "ann") == State()


def test_a_name_given_by_a_named_client_applies_to_its_later_connections(state):
    action = CallerNamed("talk", "agent", "c1", "ann", client_name="claude")
    state = caller_names.name_caller(state, action).state
    assert caller_names.caller_name(state, "c2", "talk", "claude") == "ann"
    assert caller_names.caller_name(state, "c2", "talk", "cursor") is None
    assert caller_names.caller_name(state, "c2", "talk") is None


def test_the_lane_of_an_unnamed_caller_is_not_merged_with_the_lane_of_the_name_it_gives_later(state):
    unnamed = Session("agent", "agent", "c1", lane=Lane("claude", "agent"))
    existing = Session("ann", "ann", "c1", lane=Lane("claude", "ann"))
    sessions = {"agent": unnamed, "ann": existing}
    state = with_repl(state, Repl("r1", "clj", Origin("address", "x:1"), sessions=sessions))
    assert named(state, "ann").repls["r1"].sessions == sessions


def test_reports_to_an_unnamed_caller_are_remembered_under_the_name_it_gives_later(state):
    state = reported_evaluations.record_all_reported(state, EvaluationsReported("c1", "agent", "clj", DONE)).state
    before = reported_evaluations.caller_knowledge(state, "c1", "agent")
    assert before.seen == {"clj": DONE}
    assert reported_evaluations.caller_knowledge(named(state, "ann"), "c1", "ann") == before
    assert reported_evaluations.caller_knowledge(state, "nobody", "ann") is None


def test_a_repeated_report_leaves_the_state_unchanged(state):
    action = EvaluationsReported("c1", "agent", "clj", DONE)
    state = reported_evaluations.record_all_reported(state, action).state
    client = state.clients["c1"]
    assert reported_evaluations.with_session_reported(client, "agent", "clj", DONE) is client
    unknown = EvaluationsReported("gone", "agent")
    assert reported_evaluations.record_all_reported(state, unknown).state is state


def test_a_caller_is_up_to_date_until_others_evaluate_or_its_session_changes(state):
    state = reported_evaluations.record_all_reported(state, EvaluationsReported("c1", "agent", "clj", DONE)).state
    known = reported_evaluations.caller_knowledge(state, "c1", "agent")
    assert reported_evaluations.is_up_to_date(state, known, "clj", DONE)
    assert reported_evaluations.is_up_to_date(state, known, None, None)
    assert not reported_evaluations.is_up_to_date(state, known, "clj", ReportedStatus(2, "user"))
    unfinished = replace(known, live=frozenset(["e1"]))
    assert not reported_evaluations.is_up_to_date(state, unfinished, None, None)
    later = replace(state, evaluated=reported_evaluations.MAX_UNRECORDED_EVALUATIONS)
    assert not reported_evaluations.is_up_to_date(later, known, None, None)
