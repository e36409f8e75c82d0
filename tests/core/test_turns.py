"""Turns: evaluations of a client stay in order, and clients waiting for one queue are served in turn."""

from dataclasses import replace

import pytest

from codriver.core.actions import (
    AddRepl,
    CancelQueued,
    ClientConnected,
    Evaluate,
    EvaluationFinished,
    ReplConnected,
    ReplLost,
)
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, RunEvaluation
from codriver.core.evaluation_queue import next_evaluation_id
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State, queue_occupant
from codriver.settings.model import Settings

SERIAL = Profile(dialect="python", capabilities={"evaluate": Capability("eval")}, is_serial=True)
SIDE_BY_SIDE = replace(SERIAL, is_serial=False)


class Server:
    """A core with one REPL and three clients, which records in order what it sent to the REPL."""

    def __init__(self, profile=SERIAL):
        self.sent = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: {**dict.fromkeys(EFFECTS, print), RunEvaluation: self._send},
        )
        self.do(*map(ClientConnected, ("ann", "bob", "cem")))
        self.do(AddRepl("r1", "py", Origin("address", "x:1"), "x:1"))
        self.connect(profile)

    def _send(self, effect):
        self.sent.append(effect.request.code)

    def do(self, *actions, **context):
        self.core.dispatch(context, actions)

    def connect(self, profile=SERIAL):
        self.do(ReplConnected("r1", profile, "x:1"))

    def evaluate(self, client, code, session="main", who=None):
        identity = next_evaluation_id(self.core.state)
        self.do(Evaluate("r1", Request(identity, code, session), code), who=who or client, client=client)
        return identity

    def flood(self, client, count, **more):
        return [self.evaluate(client, f"{client} {number}", **more) for number in range(1, count + 1)]

    def end(self):
        """End the running evaluation."""
        (running,) = [item for item in self.core.state.unfinished() if item.status == "running"]
        self.do(EvaluationFinished(running.id, "done"))

    def end_all(self):
        while self.core.state.live:
            self.end()


@pytest.fixture
def server():
    return Server()


def test_a_flood_of_one_client_delays_another_by_one_evaluation(server):
    server.flood("bob", 4)
    server.evaluate("ann", "ann 1")
    server.end()
    assert server.sent == ["bob 1", "ann 1"]


def test_an_isolated_session_of_a_serial_repl_waits_in_the_same_queue(server):
    server.flood("bob", 4)
    server.evaluate("ann", "ann 1", session="ann")
    server.end_all()
    assert server.sent == ["bob 1", "ann 1", "bob 2", "bob 3", "bob 4"]


def test_clients_take_turns_and_code_of_each_client_stays_in_order(server):
    server.flood("bob", 3)
    server.flood("ann", 3)
    server.flood("cem", 1)
    server.end_all()
    assert server.sent == ["bob 1", "ann 1", "cem 1", "bob 2", "ann 2", "bob 3", "ann 3"]


def test_a_client_does_not_get_more_turns_by_using_more_caller_names(server):
    for number in range(1, 5):
        server.evaluate("bob", f"bob {number}", who=f"bob-{number}")
    server.flood("ann", 2)
    server.end_all()
    assert server.sent == ["bob 1", "ann 1", "bob 2", "ann 2", "bob 3", "bob 4"]


def test_a_running_evaluation_is_not_interrupted_to_give_another_client_its_turn(server):
    first, *_ = server.flood("bob", 2)
    mine = server.evaluate("ann", "ann 1")
    assert server.sent == ["bob 1"]
    assert queue_occupant(server.core.state, server.core.state.evaluations[mine]).id == first


def test_a_busy_session_names_its_running_evaluation(server):
    _, second = server.flood("bob", 2)
    mine = server.evaluate("ann", "ann 1")
    server.end()
    assert queue_occupant(server.core.state, server.core.state.evaluations[second]).id == mine


def test_two_clients_that_send_single_requests_do_not_starve_a_waiting_client(server):
    server.flood("bob", 3)
    for number in (1, 2):
        server.evaluate("ann", f"ann {number}")
        server.evaluate("cem", f"cem {number}")
        server.end()
        server.end()
    server.end()
    server.end()
    assert server.sent == ["bob 1", "ann 1", "cem 1", "bob 2", "ann 2", "cem 2", "bob 3"]


def test_newly_connected_clients_do_not_starve_a_waiting_client(server):
    server.flood("bob", 3)
    for number in range(6):
        server.do(ClientConnected(f"new {number}"))
        server.evaluate(f"new {number}", f"new {number}")
        server.end()
    assert server.sent.index("bob 3") <= 5


@pytest.mark.parametrize("spared", [1, 2])
def test_cancelling_queued_evaluations_does_not_give_a_client_an_earlier_turn(server, spared):
    waiting = server.flood("bob", 5)[1:]
    server.flood("ann", 3)
    server.end()  # bob 1
    server.end()  # ann 1
    server.end()  # bob 2
    for item in waiting[1 : 1 + spared]:
        server.do(CancelQueued(item, "he thought better of it"))
    server.end()
    assert server.sent[-2:] == ["ann 2", f"bob {3 + spared}"]


def test_evaluations_that_waited_for_their_repl_are_served_in_turn(server):
    server.do(ReplLost("r1", "gone"))
    server.flood("bob", 3)
    server.flood("ann", 1)
    server.connect()
    server.end_all()
    assert server.sent == ["bob 1", "ann 1", "bob 2", "bob 3"]


def test_concurrent_sessions_do_not_wait_for_turns():
    server = Server(SIDE_BY_SIDE)
    server.flood("bob", 3)
    server.evaluate("ann", "ann 1", session="ann")
    assert server.sent == ["bob 1", "ann 1"]
