"""References that are resolved later: only in fields declared for them, and only to values that exist."""

from dataclasses import dataclass

from codriver.core import actions
from codriver.core.dispatch import PENDING_RESULT, Core, reference_fields, resolve_references
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.records import ValueReference, from_context, from_result
from codriver.core.state import State


@dataclass(frozen=True)
class Action:
    text: str
    now: ValueReference[int] = from_context("now")


def test_only_fields_that_default_to_a_reference_are_resolved():
    assert reference_fields(Action) == ("now",)
    assert reference_fields(actions.AddServerLine) == ()
    action = Action(from_context("now"), 5)
    assert resolve_references(action, {}) is action


def test_a_field_that_was_given_a_value_is_not_resolved():
    assert resolve_references(Action("x"), {"context": {"now": 3}}) == Action("x", 3)
    assert resolve_references(Action("x", 4), {"context": {"now": 3}}) == Action("x", 4)


def test_a_reference_to_a_missing_result_is_left_unresolved():
    action = Action("x", from_result())
    assert resolve_references(action, {"result": PENDING_RESULT}) is action
    assert resolve_references(action, {"result": None}) == Action("x", None)


class Settings:
    host = "127.0.0.1"
    mcp_socket_server_port = 1664
    has_chosen_port = True


def test_a_start_resolves_settings_state_time_and_the_listeners_result():
    performed = []
    core = Core(
        state=State(),
        settings=Settings(),
        now=lambda: 5,
        handlers=HANDLERS,
        performers=lambda _: dict.fromkeys(EFFECTS, performed.append),
    )
    core.report(actions.StartServer("s-1", 42, "1.0", "/w"))
    (listen,) = performed
    assert (listen.host, listen.port, core.state.lifecycle.started_at) == ("127.0.0.1", 1664, 5)
    core.resume(listen, ("127.0.0.1", 40_001))
    assert performed[1].lifecycle == core.state.lifecycle
    assert (core.state.lifecycle.phase, core.state.lifecycle.port) == ("started", 40_001)
    assert "1664" in core.state.lifecycle.port_note
