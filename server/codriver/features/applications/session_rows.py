"""Add summaries of applications to the sessions that `list_sessions` returns."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.errors import CodriverError
from codriver.features.applications.app_streams import AppStreams
from codriver.features.applications.seam import SEAM_CAPABILITY
from codriver.features.applications.seam_answers import query_seam
from codriver.features.applications.seam_setup import CONTRACT_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import AddRows, Call

ANSWER_TIMEOUT_S: Final = 1.0
"""Maximum time to wait for one application's answer."""


async def query_applications(call: Call) -> AddRows:
    """Query the application in each connected REPL. Return a function that adds summaries to the list of sessions.

    REPLs without a known seam are also queried, because an application may have installed one in the background.
    """
    summaries: dict[str, dict[str, object]] = {}
    for repl in call.state.repls.values():
        if repl.phase == "connected" and repl.profile is not None:
            with suppress(CodriverError), anyio.move_on_after(ANSWER_TIMEOUT_S):
                health = await query_seam(call, repl.id, "health", {})
                summaries[repl.key] = _summary(call, repl, health)

    def add_summaries(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return [
            row | {SEAM_CAPABILITY: summaries[key]} if (key := str(row["key"])) in summaries else row for row in rows
        ]

    return add_summaries


def _summary(call: Call, repl: Repl, health: Mapping[str, Any]) -> dict[str, object]:
    profile = call.state.repls[repl.id].profile
    support = profile.capabilities.get(SEAM_CAPABILITY) if profile else None
    bands = health.get("bands", {})
    return {
        "provider": support.op if support and support.adapted else "codriver",
        "sessionId": health.get("sessionId"),
        "frames": health.get("frames", []),
        "bands": [name for name in bands if bands[name] is True],
        "subscriptions": sum(stream.repl == repl.id for stream in call.services.part(AppStreams).active()),
        **({} if health.get("contract", CONTRACT_VERSION) == CONTRACT_VERSION else {"contract": health["contract"]}),
    }
