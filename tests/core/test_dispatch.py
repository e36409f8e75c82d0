"""The order of a dispatch and which handler gets which class, on a core with a few actions and effects."""

from dataclasses import dataclass, replace

import pytest

from codriver.core.actions import ACTIONS, Action
from codriver.core.dispatch import NO_CALLER_CONTEXT, Core, Outcome, UnhandledError, UnresolvedReferenceError
from codriver.core.effects import EFFECTS, Effect
from codriver.core.handlers import HANDLERS
from codriver.core.records import ValueReference, from_context, from_result, from_settings, from_state
from codriver.core.state import Lifecycle, State


@dataclass(frozen=True)
class SetPort(Action):
    port: ValueReference[int] = from_context("port")


@dataclass(frozen=True)
class AddPort(Action):
    port: ValueReference[int] = from_context("port")
    follow_up: Action | None = None
    effect: Effect | None = None


@dataclass(frozen=True)
class Note(Effect):
    value: ValueReference[object] = from_context("value")
    data: object = None


@dataclass(frozen=True)
class Lost(Action):
    pass


@dataclass(frozen=True)
class LostEffect(Effect):
    pass


def set_port(state, action):
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, port=action.port)))


def add_port(state, action):
    after = replace(state, lifecycle=replace(state.lifecycle, port=state.lifecycle.port + action.port))
    return Outcome(after, tuple(filter(None, [action.effect])), tuple(filter(None, [action.follow_up])))


class Settings:
    port = 1664


def core_with(perform, handlers=HANDLERS, effects=EFFECTS):
    return Core(
        state=State(lifecycle=Lifecycle(port=1)),
        settings=Settings(),
        now=lambda: 7,
        handlers={**handlers, SetPort: set_port, AddPort: add_port},
        performers=lambda _: {**dict.fromkeys(effects, perform), Note: perform},
    )


@pytest.fixture
def values():
    return []


@pytest.fixture
def core(values):
    made = core_with(lambda effect: values.append((effect.value, made.state.lifecycle.port)))
    return made


def test_each_handler_sees_the_state_left_by_the_previous_one(core):
    core.report(AddPort(10), AddPort(100))
    assert core.state.lifecycle.port == 111


def test_follow_ups_are_dispatched_after_the_state_is_set_and_before_effects(core, values):
    core.report(AddPort(10, follow_up=AddPort(100, effect=Note(value="inner")), effect=Note(value="outer")))
    assert values == [("inner", 111), ("outer", 111)]


def test_a_failing_follow_up_does_not_prevent_earlier_effects(core, values):
    with pytest.raises(UnhandledError):
        core.report(AddPort(10, follow_up=Lost(), effect=Note(value="outer")))
    assert (core.state.lifecycle.port, values) == (11, [("outer", 11)])


def test_effects_are_performed_in_order_after_all_handlers(core, values):
    core.report(AddPort(1, effect=Note(value="first")), AddPort(1, effect=Note(value="second")))
    assert values == [("first", 3), ("second", 3)]


def test_a_state_reference_in_an_action_is_resolved_before_the_action_is_handled(core):
    core.report(AddPort(10), SetPort(from_state("lifecycle.port")), AddPort(from_state("lifecycle.port")))
    assert core.state.lifecycle.port == 22


def test_a_state_reference_in_an_effect_is_resolved_after_the_action_is_handled(core, values):
    core.report(AddPort(10, effect=Note(value=from_state("lifecycle.port"))), AddPort(100))
    assert values == [(11, 111)]


def test_references_to_time_context_and_settings_are_resolved(core):
    core.dispatch({"more": 100}, [SetPort(from_settings("port")), AddPort(from_context("now"))])
    core.dispatch({"more": 100}, [AddPort(from_context("more"))])
    assert core.state.lifecycle.port == 1771


def test_the_time_is_the_same_throughout_one_dispatch(values):
    ticks = iter(range(100))
    core = Core(
        state=State(),
        settings=None,
        now=lambda: next(ticks),
        handlers={**HANDLERS, AddPort: add_port},
        performers=lambda _: {**dict.fromkeys(EFFECTS, None), Note: lambda effect: values.append(effect.value)},
    )
    now = from_context("now")
    core.report(AddPort(1, AddPort(1, effect=Note(value=now)), Note(value=now)))
    core.report(AddPort(1, effect=Note(value=now)))
    assert values == [0, 0, 1]


def test_a_continuation_gets_the_whole_result_or_a_part_numbered_from_one(core):
    core.resume(Note(then=(SetPort(from_result(2)),)), ("a", 5))
    core.resume(Note(then=(AddPort(from_result()),)), 3)
    core.resume(Note(), "nothing is to follow")
    assert core.state.lifecycle.port == 8


def test_a_continuation_sees_the_state_and_context_at_the_time_of_its_effect(values):
    core = core_with(values.append)
    then = (SetPort(from_context("more")), AddPort(from_state("lifecycle.port")), AddPort(from_result()))
    core.dispatch({"more": 4}, [AddPort(1, effect=Note(value=0, then=then))])
    core.report(SetPort(1000))
    core.resume(values[0], 100)
    assert core.state.lifecycle.port == 106


@pytest.mark.parametrize(
    "port",
    [
        from_context("missing"),
        from_state("lifecycle.missing"),
        from_state("clients.missing"),
        from_settings("missing"),
        from_result(),
        ValueReference("x", "y"),
    ],
)
def test_an_unresolvable_reference_is_an_error_and_changes_nothing(core, port):
    with pytest.raises(UnresolvedReferenceError, match="there is no value with this name"):
        core.report(AddPort(5), SetPort(port))
    assert core.state.lifecycle.port == 1


def test_a_continuation_that_requests_a_part_beyond_the_result_is_an_error(core):
    with pytest.raises(UnresolvedReferenceError, match="name='3'"):
        core.resume(Note(then=(SetPort(from_result(3)),)), (1, 2))


def test_references_inside_client_data_are_not_resolved(values):
    core = core_with(values.append)
    data = {"$": "state", "nested": [from_state("lifecycle.port")]}
    core.report(AddPort(1, effect=Note(value=data, data=from_state("lifecycle.port"))))
    assert (values[0].value, values[0].data) == (data, from_state("lifecycle.port"))
    core.report(AddPort(1, effect=Note(value=(from_context("now"),))))
    assert values[1].value == (from_context("now"),)


def test_an_unhandled_action_is_an_error_and_changes_nothing(core):
    with pytest.raises(UnhandledError, match="Lost"):
        core.report(AddPort(5), Lost())
    assert core.state.lifecycle.port == 1


def test_an_effect_without_a_performer_is_an_error_before_anything_is_done(core, values):
    with pytest.raises(UnhandledError, match="LostEffect"):
        core.report(AddPort(5, effect=Note(value=1)), AddPort(5, effect=LostEffect()))
    assert (core.state.lifecycle.port, values) == (1, [])


@pytest.mark.parametrize("action", ACTIONS)
def test_a_core_without_a_handler_for_an_action_cannot_be_built(action):
    with pytest.raises(UnhandledError, match=action.__name__):
        core_with(print, handlers={kind: handle for kind, handle in HANDLERS.items() if kind is not action})


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_core_without_a_performer_for_an_effect_cannot_be_built(effect):
    with pytest.raises(UnhandledError, match=effect.__name__):
        core_with(print, effects=[kind for kind in EFFECTS if kind is not effect])


def test_an_effect_can_dispatch_while_it_is_performed(values):
    def perform(effect):
        values.append(effect.value)
        if effect.value == "again":
            made.dispatch(NO_CALLER_CONTEXT, [AddPort(1, effect=Note(value="inner"))])

    made = core_with(perform)
    made.report(AddPort(1, effect=Note(value="again")), AddPort(1, effect=Note(value="last")))
    assert values == ["again", "inner", "last"]
    assert made.state.lifecycle.port == 4
