"""Streams of application events: renewed while both ends exist, and ended with their client."""

import pytest

from codriver.core import app_streams, dispatch
from codriver.core.actions import (
    AppStreamStarted,
    AppStreamStopped,
    ClientConnected,
    ClientGone,
    ReplConnected,
    ReplFound,
    ReplLost,
    RestartRepl,
)
from codriver.core.dispatch import Core
from codriver.core.handlers import HANDLERS
from codriver.core.state import AppStream, Lifecycle, Origin, State
from codriver.core.values import Capability, Profile
from codriver.settings.model import Settings

PROFILE = Profile(dialect="python", capabilities={"evaluate": Capability("eval"), "seam": Capability("x")})
FIRST = AppStream("s1-a", "r1", 1, "c1", "ann", "error")
SECOND = AppStream("s2-a", "r1", 1, "c2", "bob", "trace")


class Server:
    """A core with two clients and a REPL that records the effects it is asked to perform."""

    def __init__(self):
        self.effects = []
        self.core = Core(
            state=State(lifecycle=Lifecycle(phase="started", session_id="abcdef")),
            settings=Settings(),
            now=lambda: 1000,
            handlers=HANDLERS,
            performers=lambda _: dict.fromkeys(dispatch.EFFECTS, self.effects.append),
        )
        self.do(ClientConnected("c1"), ClientConnected("c2"))
        self.do(ReplFound("r1", "py", Origin("address", "x:1"), "x:1"), ReplConnected("r1", PROFILE, "x:1"))

    def do(self, *actions):
        self.effects.clear()
        self.core.report(*actions)

    def of(self, kind):
        return [effect.stream for effect in self.effects if isinstance(effect, kind)]

    def renewed(self, is_there):
        """End the current renewal with this outcome."""
        [effect] = [effect for effect in self.effects if isinstance(effect, dispatch.RenewAppStream)]
        self.effects.clear()
        self.core.resume(effect, is_there)


@pytest.fixture
def server():
    made = Server()
    made.do(AppStreamStarted(FIRST))
    return made


def test_a_stream_is_renewed_as_long_as_the_application_has_it(server):
    for _ in range(3):
        server.renewed(is_there=True)
        assert server.of(dispatch.RenewAppStream) == [FIRST]
    assert server.core.state.app_streams == (FIRST,)


def test_waiting_callers_are_notified_when_the_application_ended_a_stream(server):
    server.renewed(is_there=False)
    assert server.core.state.app_streams == ()
    [told] = server.effects
    assert (told.stream, told.why) == (FIRST, "the application ended it")


def test_a_stream_ends_with_its_connection_and_does_not_return_with_the_next(server):
    begun = list(server.effects)
    server.do(ReplLost("r1", "gone"))
    [told] = [effect for effect in server.effects if isinstance(effect, dispatch.ReportAppStreamEnd)]
    assert (told.stream, told.why) == (FIRST, "the REPL py is lost (gone)")
    server.do(ReplConnected("r1", PROFILE, "x:1"))
    assert app_streams.active_app_streams(server.core.state) == []
    server.effects[:] = begun
    server.renewed(is_there=True)
    assert server.effects == []


def test_a_restart_ends_only_streams_of_a_restartable_repl(server):
    server.do(RestartRepl("r1", "for a test"))
    assert server.core.state.app_streams == (FIRST,)
    server.do(ReplFound("r2", "own", Origin("process", "python")), ReplConnected("r2", PROFILE, "x:2"))
    own = AppStream("s1-b", "r2", 1, "c1", "ann", "fx")
    server.do(AppStreamStarted(own))
    server.do(RestartRepl("r2", "for a test"))
    assert server.of(dispatch.ReportAppStreamEnd) == [own]
    assert server.core.state.app_streams == (FIRST,)


def test_a_disconnected_client_ends_only_its_own_streams(server):
    server.do(AppStreamStarted(SECOND))
    server.do(ClientGone("c1"))
    assert server.of(dispatch.EndAppStream) == [FIRST]
    assert app_streams.active_app_streams(server.core.state) == [SECOND]


def test_a_stream_that_starts_after_its_client_left_is_ended(server):
    server.do(ClientGone("c2"))
    server.do(AppStreamStarted(SECOND))
    assert server.of(dispatch.EndAppStream) == [SECOND]
    assert server.core.state.app_streams == (FIRST,)


def test_a_stopped_stream_is_not_renewed(server):
    begun = list(server.effects)
    server.do(AppStreamStopped(FIRST))
    server.effects[:] = begun
    server.renewed(is_there=True)
    assert server.effects == []
