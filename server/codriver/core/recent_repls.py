"""Remember which REPL each caller used last, so that its calls need no session key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.bounded_mappings import with_newest
from codriver.core.records import replace
from codriver.core.state import (
    State,
    with_item,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.core.state import DroppedRepl, Repl


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


def is_eligible(repl: Repl, used: Sequence[str]) -> bool:
    """Return whether a REPL may be chosen for a call that names no session.

    A REPL that was only discovered belongs to a person, so the caller must have named it in its last evaluation. `used`
    contains the ids of the REPLs that the caller has used, most recent last.
    """
    return not repl.origin.is_discovered_only or (bool(used) and used[-1] == repl.id)


def finished_discovered_repl(state: State, used: Sequence[str]) -> Repl | DroppedRepl | None:
    """Return the discovered REPL that a caller used last if it has ended, or else None."""
    if not used:
        return None
    repl = state.repls.get(used[-1])
    if repl is not None:
        return repl if repl.origin.is_discovered_only and repl.phase == "stopped" else None
    dropped = state.forgotten.get(used[-1])
    return dropped if dropped is not None and dropped.is_discovered_only else None
