"""Subscriptions to the events of applications, from start to end.

A stream is renewed for as long as its client and the connection to its REPL last. The application ends a stream whose
lease is not renewed (see `codriver_seam.streams`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from codriver.core.actions import (
    AppStreamRenewed,
    AppStreamStarted,
    AppStreamStopped,
    ReplLost,
    RestartRepl,
)
from codriver.core.dispatch import (
    EndAppStream,
    Outcome,
    RenewAppStream,
    ReportAppStreamEnd,
)
from codriver.core.records import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.core.state import (
        AppStream,
        Repl,
        State,
    )

CALLS: Final = "calls"
"""The topic of call traces. Unlike other streams, one on this topic ends on its own after a number of events."""
OPS: Final[Mapping[str, str]] = MappingProxyType({CALLS: "call"})
"""The op type of a topic's events, for topics where the two differ."""


def add_stream(state: State, action: AppStreamStarted) -> Outcome:
    """Add a stream and schedule its renewal, or end it if its client has disconnected in the meantime."""
    stream = action.stream
    if stream.client not in state.clients:
        return Outcome(state, (EndAppStream(stream=stream),))
    return Outcome(replace(state, app_streams=(*state.app_streams, stream)), (_renewal(stream),))


def renew_or_forget_stream(state: State, action: AppStreamRenewed) -> Outcome:
    """Schedule the next renewal of a stream, or forget the stream if the application has ended it."""
    stream = action.stream
    if stream not in state.app_streams:
        return Outcome(state)
    if action.is_active:
        return Outcome(state, (_renewal(stream),))
    # A stream of call traces ends on its own.
    why = (
        "it reached its maximum number of events, or the application ended it"
        if stream.topic == CALLS
        else "the application ended it"
    )
    return _end_streams(state, [stream], why)


def ending_streams(handle: Callable[[State, Repl, Any], Outcome]) -> Callable[[State, Repl, Any], Outcome]:
    """Wrap a handler so that a REPL's streams end when the handler leaves the REPL disconnected."""

    def handled(state: State, repl: Repl, action: ReplLost | RestartRepl) -> Outcome:
        outcome = handle(state, repl, action)
        left = [stream for stream in state.app_streams if stream.repl == repl.id]
        if not left or outcome.state.repls[repl.id].phase == "connected":
            return outcome
        why = f"the REPL {repl.key} " + ("restarts" if isinstance(action, RestartRepl) else f"is lost ({action.cause})")
        closing = _end_streams(outcome.state, left, why)
        return replace(outcome, state=closing.state, effects=(*outcome.effects, *closing.effects))

    return handled


def forget_stream(state: State, action: AppStreamStopped) -> Outcome:
    """Remove a stream that its client has already ended in the application."""
    return Outcome(_without(state, [action.stream]))


def end_streams_of(state: State, client: str) -> Outcome:
    """End the streams of a client that disconnected."""
    left = [stream for stream in state.app_streams if stream.client == client]
    return Outcome(_without(state, left), tuple(EndAppStream(stream=stream) for stream in left))


def active_app_streams(state: State) -> list[AppStream]:
    """Return the streams that were opened over the current connection of their REPL."""
    standing = {(repl.id, repl.generation) for repl in state.repls.values() if repl.phase == "connected"}
    return [stream for stream in state.app_streams if (stream.repl, stream.generation) in standing]


def _end_streams(state: State, streams: list[AppStream], why: str) -> Outcome:
    """Remove streams that ended without a request, and notify the callers that wait for their events."""
    return Outcome(_without(state, streams), tuple(ReportAppStreamEnd(stream=stream, why=why) for stream in streams))


def _without(state: State, streams: list[AppStream]) -> State:
    return replace(state, app_streams=tuple(one for one in state.app_streams if one not in streams))


def _renewal(stream: AppStream) -> RenewAppStream:
    return RenewAppStream(stream=stream, then=(AppStreamRenewed(stream),))
