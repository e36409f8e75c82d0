"""The streams of applications' events: each is renewed for as long as its client and its REPL's connection are there.

The application ends by itself what nobody renews: see the lease in `codriver_seam.streams`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.actions import AppStreamRenewed, Say
from codriver.core.dispatch import Outcome
from codriver.core.effects import EndAppStream, RenewAppStream
from codriver.core.values import replace

if TYPE_CHECKING:
    from codriver.core.actions import AppStreamBegan, AppStreamEnded
    from codriver.core.state import AppStream, State


def began(state: State, action: AppStreamBegan) -> Outcome:
    """Keep a stream, and renew it from now on; one whose client has left meanwhile is ended."""
    stream = action.stream
    if stream.client not in state.clients:
        return Outcome(state, (EndAppStream(stream=stream),))
    return Outcome(replace(state, app_streams=(*state.app_streams, stream)), (_renewal(stream),))


def renewed(state: State, action: AppStreamRenewed) -> Outcome:
    """Renew a stream again later, or forget it."""
    stream = action.stream
    if stream not in state.app_streams:
        return Outcome(state)
    if action.is_there:
        return Outcome(state, (_renewal(stream),))
    # Of one whose connection is over it is said that the REPL is lost.
    words = f"the stream {stream.id} ({stream.topic}) of {stream.who} ended: the application has it no more"
    # A capture ends by itself when it has told enough.
    says = () if action.is_there is None else (Say(words, error=stream.topic != "calls"),)
    return Outcome(without(state, stream), follow_ups=says)


def ended(state: State, action: AppStreamEnded) -> Outcome:
    """Forget a stream."""
    return Outcome(without(state, action.stream))


def leave(state: State, client: str) -> Outcome:
    """End the streams of a client that is gone."""
    left = [stream for stream in state.app_streams if stream.client == client]
    for stream in left:
        state = without(state, stream)
    return Outcome(state, tuple(EndAppStream(stream=stream) for stream in left))


def live(state: State) -> list[AppStream]:
    """The streams whose connection stands."""
    standing = {(repl.id, repl.generation) for repl in state.repls.values() if repl.phase == "connected"}
    return [stream for stream in state.app_streams if (stream.repl, stream.generation) in standing]


def without(state: State, stream: AppStream) -> State:
    """The state without a stream."""
    return replace(state, app_streams=tuple(one for one in state.app_streams if one != stream))


def _renewal(stream: AppStream) -> RenewAppStream:
    return RenewAppStream(stream=stream, then=(AppStreamRenewed(stream),))
