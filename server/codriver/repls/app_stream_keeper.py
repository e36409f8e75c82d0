"""The keeper of the streams of applications' events: it renews and ends them in their REPLs."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError
from codriver.repls.contract.adapter import Adapter, OpTimedOutError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.dispatch import Core, EndAppStream, RenewAppStream

logger = logging.getLogger(__name__)

RENEW_S: Final = 20.0
"""A third of a stream's lease in the application, so that two renewals may be late."""


class AppStreamKeeper:
    """Renews and ends event streams through the adapters of one server."""

    def __init__(self, core: Core, adapters: Mapping[str, Adapter]) -> None:
        self._core = core
        self._adapters = adapters

    async def renew(self, effect: RenewAppStream) -> None:
        """Renew a stream after a while, and report whether the application still has it."""
        await anyio.sleep(RENEW_S)
        stream = effect.stream
        if stream not in self._core.state.app_streams:
            return
        repl, adapter = self._core.state.repls.get(stream.repl), self._adapters.get(stream.repl)
        exists = False
        if repl is not None and adapter is not None and repl.generation == stream.generation:
            try:
                answer = json.loads(await adapter.call_seam("subscriptions", json.dumps({"renew": [stream.id]})))
                exists = any(row["id"] == stream.id for row in answer.get("subs", ()))
            except OpTimedOutError:
                exists = True  # the REPL is busy, and is asked again
            except (CodriverError, ValueError) as error:
                logger.info("renewing the stream %s of %s: %s", stream.id, stream.repl, error)
        self._core.resume(effect, exists)

    async def end(self, effect: EndAppStream) -> None:
        """End a stream in the application, if it can still be reached."""
        stream = effect.stream
        repl, adapter = self._core.state.repls.get(stream.repl), self._adapters.get(stream.repl)
        if repl is None or adapter is None or repl.generation != stream.generation:
            return
        try:
            await adapter.call_seam("unsubscribe", json.dumps({"subId": stream.id}))
        except CodriverError as error:
            logger.info("ending the stream %s of %s: %s", stream.id, stream.repl, error)
