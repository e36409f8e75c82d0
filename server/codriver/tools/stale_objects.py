"""Notes on what outlived a reload: names that have a function or class of before, instances of a former class."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.errors import CodriverError

if TYPE_CHECKING:
    from codriver.core.state import Repl
    from codriver.repls.adapter_values import Difference
    from codriver.tools.base import Call

MOST_STALE: Final = 3


async def stale_notes(call: Call, repl: Repl) -> tuple[str, ...]:
    """Notes for who has just loaded or tested something: the names and objects that are of a former load."""
    found: tuple[Difference, ...] = ()
    if repl.profile is None or "drift" not in repl.profile.capabilities:
        return ()
    with suppress(CodriverError):
        found = await call.services.repls.adapter(repl.id).drift(call.services.workspace, only_old=True)
    lines = [stale_line(one) for one in found]
    more = [f"{len(lines) - MOST_STALE} more are of a former load: see what_changed"] if len(lines) > MOST_STALE else []
    return (*lines[:MOST_STALE], *more)


def stale_line(one: Difference) -> str:
    """One object of a former load, in words."""
    if one.kind == "instances":
        return f"{one.of} of the former class {one.module}.{one.name} {'lives' if one.of == '1' else 'live'} on"
    return f"{one.module}.{one.name} is still the old {one.of}: load {one.module}, too"
