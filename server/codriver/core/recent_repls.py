"""Remember which REPL each caller used last, to choose one for calls without a session key."""

from __future__ import annotations

from codriver.core.bounded_mappings import with_newest
from codriver.core.records import replace
from codriver.core.state import (
    State,
    with_item,
)


def with_recent_repl(state: State, client: str | None, who: str, repl: str) -> State:
    """Record a REPL as the one that a caller used last, and return the new state."""
    known = state.clients.get(client or "")
    before = known.used.get(who, ()) if known is not None else ()
    if known is None or before[-1:] == (repl,):
        return state
    used = with_newest(known.used, who, (*[earlier for earlier in before if earlier != repl], repl))
    return replace(state, clients=with_item(state.clients, known.id, replace(known, used=used)))


def recent_repl_ids(state: State, client: str, who: str) -> tuple[str, ...]:
    """Return the ids of the REPLs in which a caller has evaluated code, most recent last."""
    known = state.clients.get(client)
    return known.used.get(who, ()) if known is not None else ()
