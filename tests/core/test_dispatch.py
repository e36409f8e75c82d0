"""The order of a dispatch, and placeholders, on a small core of its own."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from codriver.core.dispatch import (
    Action,
    Core,
    Effect,
    Outcome,
    Placeholder,
    UnresolvedError,
    UnroutableError,
    from_context,
    from_result,
    from_settings,
    from_state,
)
from codriver.core.state import Life, State


@dataclass(frozen=True)
class SetPort(Action):
    namespace: ClassVar[str] = "t"
    port: int


@dataclass(frozen=True)
class AddPort(Action):
    namespace: ClassVar[str] = "t"
    port: int
    follow_up: Action | None = None
    effect: Effect | None = None


@dataclass(frozen=True)
class Note(Effect):
    namespace: ClassVar[str] = "t"
    value: object = None


@dataclass(frozen=True)
class Lost(Action):
    namespace: ClassVar[str] = "nowhere"


@dataclass(frozen=True)
class LostEffect(Effect):
    namespace: ClassVar[str] = "nowhere"


def handle(state, action, context):
    port = action.port if isinstance(action, SetPort) else state.life.port + action.port
    after = replace(state, life=replace(state.life, port=port))
    effects = tuple(filter(None, [getattr(action, "effect", None)]))
    follow_ups = tuple(filter(None, [getattr(action, "follow_up", None)]))
    return Outcome(after, effects, follow_ups)


class Settings:
    port = 1664


@pytest.fixture
def told():
    return []


@pytest.fixture
def core(told):
    def perform(effect):
        told.append((effect.value, core.state.life.port))

    core = Core(state=State(life=Life(port=1)), settings=Settings(), handlers={"t": handle}, performers={"t": perform})
    return core


def test_each_handler_sees_the_state_the_one_before_left(core):
    core.dispatch({}, [AddPort(10), AddPort(100)])
    assert core.state.life.port == 111


def test_follow_ups_are_dispatched_after_the_state_is_set_and_before_effects(core, told):
    core.dispatch({}, [AddPort(10, follow_up=AddPort(100, effect=Note(value="inner")), effect=Note(value="outer"))])
    assert told == [("inner", 111), ("outer", 111)]


def test_effects_of_one_dispatch_are_performed_in_order_after_all_handlers(core, told):
    core.dispatch({}, [AddPort(1, effect=Note(value="first")), AddPort(1, effect=Note(value="second"))])
    assert told == [("first", 3), ("second", 3)]


def test_a_state_placeholder_in_an_action_sees_the_state_before_it(core):
    core.dispatch({}, [AddPort(10), SetPort(from_state("life.port")), AddPort(from_state("life.port"))])
    assert core.state.life.port == 22


def test_a_state_placeholder_in_an_effect_sees_the_state_after_its_own_action(core, told):
    core.dispatch({}, [AddPort(10, effect=Note(value=from_state("life.port"))), AddPort(100)])
    assert told == [(11, 111)]


def test_context_and_settings_placeholders_are_resolved(core, told):
    core.dispatch({"now": 7}, [SetPort(from_settings("port")), AddPort(from_context("now"))])
    assert core.state.life.port == 1671


def test_placeholders_inside_tuples_are_resolved(core, told):
    core.dispatch({"a": 1}, [AddPort(1, effect=Note(value=(from_context("a"), ("x", from_settings("port")))))])
    assert told == [((1, ("x", 1664)), 2)]


def test_a_continuation_gets_the_whole_result_or_a_part_counted_from_one(core):
    core.resume({}, Note(then=(SetPort(from_result(2)),)), ("a", 5))
    core.resume({}, Note(then=(AddPort(from_result()),)), 3)
    assert core.state.life.port == 8


def test_a_continuation_sees_state_and_context_placeholders_as_they_were_at_the_effect(core, told):
    effects = []
    core = Core(
        state=State(life=Life(port=1)), settings=Settings(), handlers={"t": handle}, performers={"t": effects.append}
    )
    core.dispatch({"now": 4}, [AddPort(1, effect=Note(then=(SetPort(from_context("now")),)))])
    core.resume({}, effects[0], None)
    assert core.state.life.port == 4


@pytest.mark.parametrize(
    "port",
    [from_context("missing"), from_state("life.missing"), from_settings("missing"), from_result(), Placeholder("x")],
)
def test_a_placeholder_without_a_value_is_an_error_and_changes_nothing(core, port):
    with pytest.raises(UnresolvedError):
        core.dispatch({}, [AddPort(5), SetPort(port)])
    assert core.state.life.port == 1


def test_a_part_beyond_the_result_is_an_error(core):
    with pytest.raises(UnresolvedError, match="part number 3"):
        core.resume({}, Note(then=(SetPort(from_result(3)),)), (1, 2))


def test_what_looks_like_a_placeholder_inside_client_data_is_left_alone(core, told):
    data = {"$": "state", "nested": [Placeholder("state", "life.port")]}
    core.dispatch({}, [AddPort(1, effect=Note(value=data))])
    assert told == [(data, 2)]


def test_an_action_of_an_unknown_namespace_is_an_error_and_changes_nothing(core):
    with pytest.raises(UnroutableError, match="nowhere"):
        core.dispatch({}, [AddPort(5), Lost()])
    assert core.state.life.port == 1


def test_an_effect_of_an_unknown_namespace_is_an_error_before_anything_is_done(core, told):
    with pytest.raises(UnroutableError, match="nowhere"):
        core.dispatch({}, [AddPort(5, effect=Note(value=1)), AddPort(5, effect=LostEffect())])
    assert (core.state.life.port, told) == (1, [])


def test_an_effect_may_dispatch_while_it_is_performed(told):
    def perform(effect):
        told.append(effect.value)
        if effect.value == "again":
            core.dispatch({}, [AddPort(1, effect=Note(value="inner"))])

    core = Core(state=State(), settings=Settings(), handlers={"t": handle}, performers={"t": perform})
    core.dispatch({}, [AddPort(1, effect=Note(value="again")), AddPort(1, effect=Note(value="last"))])
    assert told == ["again", "inner", "last"]
    assert core.state.life.port == 3
