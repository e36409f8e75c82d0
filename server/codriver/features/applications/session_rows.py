"""The application of each REPL, in the rows of `list_sessions`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.errors import CodriverError
from codriver.features.applications.app_streams import AppStreams
from codriver.features.applications.seam_answers import SEAM, query_seam
from codriver.repls.dialects.seam_providers import CONTRACT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import AddRows, Call

TIMEOUT_S: Final = 1.0
"""Time limit for asking a REPL about its application, in seconds."""


async def look_at_applications(call: Call) -> AddRows:
    """Query the application in each REPL, and return the function that adds summaries to the rows of sessions.

    Every REPL is queried, because an application may have installed its seam without an evaluation.
    """
    found: dict[str, dict[str, object]] = {}
    for repl in call.state.repls.values():
        if repl.phase == "connected" and repl.profile is not None:
            with suppress(CodriverError), anyio.move_on_after(TIMEOUT_S):
                health = await query_seam(call, repl.id, "health", {})
                found[repl.key] = _summary(call, repl, health)

    def add(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [row | {SEAM: found[key]} if (key := str(row["key"])) in found else row for row in rows]

    return add


def _summary(call: Call, repl: Repl, health: Mapping[str, Any]) -> dict[str, object]:
    now = call.state.repls[repl.id].profile
    support = now.capabilities.get(SEAM) if now else None
    bands = health.get("bands", {})
    return {
        "provider": support.op if support and support.adapted else "codriver",
        "sessionId": health.get("sessionId"),
        "frames": health.get("frames", []),
        "bands": [name for name in bands if bands[name] is True],
        "subscriptions": sum(stream.repl == repl.id for stream in call.services.part(AppStreams).active()),
        **({} if health.get("contract", CONTRACT) == CONTRACT else {"contract": health["contract"]}),
    }
