"""The server's life cycle: exclusive states, and the effects of each transition."""

from codriver.core.actions import LatchError, ListenerOpened, ServerStopped, StartServer, StopServer, WithdrawError
from codriver.core.effects import OpenListener, PublishAddress, ShutDownServer
from codriver.core.handlers import HANDLERS
from codriver.core.state import State

START = StartServer("s-1", 42, "1.0", "/w", now=5)


def run(*actions, state=None):
    state = state or State()
    effects = []
    for action in actions:
        outcome = HANDLERS[type(action)](state, action)
        state = outcome.state
        effects += outcome.effects
    return state, effects


def listening(requested, *, is_chosen=True):
    return ListenerOpened("127.0.0.1", 5000, requested, is_chosen)


def test_starting_opens_and_announces_a_listener():
    state, effects = run(START, listening(5000))
    assert state.lifecycle.phase == "started"
    assert [type(effect) for effect in effects] == [OpenListener, PublishAddress]
    assert state.lifecycle.port_note is None


def test_a_port_that_differs_from_the_chosen_one_is_noted_with_both_numbers():
    state, _ = run(START, listening(1664))
    assert "1664" in state.lifecycle.port_note
    assert "5000" in state.lifecycle.port_note


def test_no_port_note_is_added_if_the_default_port_is_in_use():
    assert run(START, listening(1664, is_chosen=False))[0].lifecycle.port_note is None


def test_no_port_note_is_added_if_any_free_port_was_requested():
    assert run(START, listening(0))[0].lifecycle.port_note is None


def test_a_second_start_changes_nothing():
    once, _ = run(START, listening(0))
    assert run(START, state=once) == (once, [])


def test_stopping_shuts_down_once_and_ends_in_the_stopped_phase():
    state, effects = run(START, listening(0), StopServer("asked"), StopServer("again"), ServerStopped())
    assert state.lifecycle.phase == "stopped"
    assert [effect for effect in effects if isinstance(effect, ShutDownServer)] == [ShutDownServer(reason="asked")]


def test_stopping_while_stopped_changes_nothing():
    assert run(StopServer("asked")) == (State(), [])


def test_stopping_while_starting_does_not_announce_a_late_listener():
    _, effects = run(START, StopServer("asked"), listening(0))
    assert [type(effect) for effect in effects] == [OpenListener, ShutDownServer]


def test_the_state_can_always_be_printed():
    state, _ = run(START, listening(0))
    assert "s-1" in repr(state)


def test_an_error_is_reported_until_it_is_resolved():
    full, other = LatchError("full", "no room", now=1), LatchError("other", "another", now=2)
    state, _ = run(full, other, full)
    assert {latch.code: latch.count for latch in state.latches.values()} == {"full": 2, "other": 1}
    state, effects = run(WithdrawError("full"), state=state)
    assert (list(state.latches), effects) == (["other"], [])
    assert run(WithdrawError("full"), state=state) == (state, [])
