"""Lanes: who gets which session of a REPL without naming one, and how long it exists."""

import pytest

from codriver.core import lanes
from codriver.core.actions import (
    AddRepl,
    ClientConnected,
    ClientDisconnected,
    Evaluate,
    EvaluationFinished,
    GracePeriodExpired,
    ReplConnected,
    ReplLost,
    RequestLane,
    SessionClosed,
)
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS, CloseSession
from codriver.core.evaluation_queue import next_evaluation_id
from codriver.core.evaluations import Lane
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import Capability, Profile
from codriver.core.requests import Request
from codriver.core.state import Lifecycle, Origin, State
from codriver.settings.model import Settings

JVM = Profile(dialect="clojure", capabilities={"evaluate": Capability("eval"), "interrupt": Capability("interrupt")})
WITHOUT = {
    "one thread": Profile(capabilities=JVM.capabilities, is_serial=True),
    "a namespace for all": Profile(capabilities=JVM.capabilities, isolation="none"),
    "a connection for each session": Profile(capabilities=JVM.capabilities, isolation="connection"),
    "no way to interrupt, so that it hears nothing while it runs": Profile(capabilities={"evaluate": Capability("x")}),
}


class Server:
    """A core with one REPL that records the effects it is asked to perform."""

    def __init__(self, profile=JVM):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(EFFECTS, self.effects.append),
        )
        self.do(AddRepl("r1", "clj", Origin("address", "x:1"), "x:1"))
        if profile is not None:
            self.connect(profile)

    def do(self, *actions, **context):
        self.effects.clear()
        self.core.dispatch(context, actions)

    def connect(self, profile=JVM):
        self.do(ReplConnected("r1", profile, "x:1"))

    @property
    def repl(self):
        return self.core.state.repls["r1"]

    @property
    def names(self):
        return list(self.repl.sessions)

    def connect_clients(self, *clients):
        self.do(*map(ClientConnected, clients))

    def lane(self, client, name="agent", who="agent", conversation=""):
        """Return the name of the session that a client evaluates in."""
        lane = Lane(name, who, conversation)
        self.do(RequestLane("r1", lane), client=client)
        found = lanes.find_lane(self.core.state, self.repl, lane, client)
        return found.name if found else None

    def evaluate(self, client, session="main", who="agent", **more):
        identity = next_evaluation_id(self.core.state)
        self.do(Evaluate("r1", Request(identity, "1", session), "1", **more), who=who, client=client)
        return identity

    def end(self, evaluation):
        self.do(EvaluationFinished(evaluation, "done"))

    def one(self, evaluation):
        return self.core.state.evaluations[evaluation]

    @property
    def closed(self):
        return [effect.name for effect in self.effects if isinstance(effect, CloseSession)]


@pytest.fixture
def server():
    made = Server()
    made.connect_clients("c1", "c2")
    return made


def test_each_connection_always_gets_its_own_lane(server):
    assert [server.lane("c1"), server.lane("c2"), server.lane("c1")] == ["agent", "agent-2", "agent"]


def test_each_caller_and_conversation_of_a_connection_has_a_lane(server):
    named = [server.lane("c1"), server.lane("c1", who="tester"), server.lane("c1", conversation="b")]
    assert named == ["agent", "tester", "agent-2"]


@pytest.mark.parametrize("why", WITHOUT)
def test_a_repl_without_concurrent_sessions_has_no_lanes(why):
    assert not Server(WITHOUT[why]).repl.supports_lanes


def test_at_most_64_lanes_are_created(server):
    made = [server.lane("c1", who=f"w{number}") for number in range(lanes.MAX_LANES + 1)]
    assert (None in made[:-1], made[-1], len(server.names)) == (False, None, 1 + lanes.MAX_LANES)


def test_lanes_do_not_wait_for_each_other(server):
    mine, yours = server.lane("c1"), server.lane("c2")
    started = [server.one(item).status for item in (server.evaluate("c1", mine), server.evaluate("c2", yours))]
    assert started == ["running", "running"]
    assert server.one(server.evaluate("c1", mine)).status == "queued"


def test_a_reconnected_client_finds_its_lane_with_its_evaluations(server):
    lane = server.lane("c1")
    endless = server.evaluate("c1", lane)
    server.do(ClientDisconnected("c1"))
    server.connect_clients("c3")
    assert server.lane("c3") == lane
    server.do(GracePeriodExpired("c1"))
    assert (server.one(endless).client, server.one(endless).is_orphan, server.closed) == ("c3", False, [])


def test_a_client_with_a_different_name_does_not_take_over_a_lane(server):
    server.lane("c1")
    server.do(ClientDisconnected("c1"))
    assert server.lane("c2", name="other") == "agent-2"


def test_an_idle_lane_is_closed_after_the_grace_period(server):
    lane = server.lane("c1")
    server.do(ClientDisconnected("c1"))
    assert (server.closed, [type(effect).__name__ for effect in server.effects]) == ([], ["StartGracePeriod"])
    server.do(GracePeriodExpired("c1"))
    assert server.closed == [lane]
    server.do(SessionClosed("r1", lane))
    assert server.names == ["main"]


def test_a_busy_lane_is_closed_when_its_evaluation_ends(server):
    lane = server.lane("c1")
    running = server.evaluate("c1", lane)
    server.do(ClientDisconnected("c1"))
    server.do(GracePeriodExpired("c1"))
    assert (server.closed, server.one(running).status) == ([], "running")
    server.connect_clients("c3")
    assert server.lane("c3") == lane, "nothing closes it as long as something runs there"
    server.do(ClientDisconnected("c3"))
    server.do(GracePeriodExpired("c3"))
    server.end(running)
    assert server.closed == [lane]


def test_a_lane_that_is_closing_is_not_given_to_any_client(server):
    lane = server.lane("c1")
    server.do(ClientDisconnected("c1"))
    server.do(GracePeriodExpired("c1"))
    assert server.lane("c2") == f"{lane}-2"


def test_evaluations_of_all_callers_are_recorded_across_lanes(server):
    mine, yours = server.lane("c1", who="a"), server.lane("c2", who="b")
    server.evaluate("c1", mine, "a")
    server.evaluate("c2", yours, "b")
    assert set(server.repl.sessions["main"].last_evaluation_by) == {"a", "b"}
    assert server.one(server.evaluate("c1", mine, "a")).previous == 1


def test_evaluations_waiting_for_a_repl_run_in_the_lanes_of_their_callers():
    server = Server(profile=None)
    server.connect_clients("c1", "c2")
    waiting = [server.evaluate(client, lane=Lane("agent", "agent")) for client in ("c1", "c1", "c2")]
    server.connect()
    placed = [(server.one(item).session, server.one(item).status) for item in waiting]
    assert placed == [("agent", "running"), ("agent", "queued"), ("agent-2", "running")]
    assert [server.one(item).request.session for item in waiting] == ["agent", "agent", "agent-2"]


def test_evaluations_waiting_for_a_repl_without_lanes_run_in_the_shared_session():
    server = Server(profile=None)
    server.connect_clients("c1")
    waiting = server.evaluate("c1", lane=Lane("agent", "agent"))
    server.connect(WITHOUT["one thread"])
    assert (server.one(waiting).session, server.names) == ("main", ["main"])


def test_losing_a_repl_removes_its_lanes(server):
    server.lane("c1")
    server.do(ReplLost("r1", "gone"))
    server.connect()
    assert server.names == ["main"]
