"""The door to the page: the page is imported and opened on request, and is a new one each time it is opened."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from codriver.features.page.page_redirect import remove_redirect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anyio.abc import SocketListener, TaskGroup

    from codriver.app.wiring import Parts
    from codriver.features.page.page_server import PageServer

logger = logging.getLogger(__name__)


class PageDoor:
    """The page of one server, for its life: closed until somebody requests it, and again when nobody looks any more."""

    def __init__(self, parts: Parts, tasks: TaskGroup, redirect: Path, idle_s: float) -> None:
        """`redirect`: the file that may lead a browser to the page; `idle_s`: how long an unseen page stays open."""
        self._parts = parts
        self._tasks = tasks
        self._redirect = redirect
        self._idle_s = idle_s
        self._page: PageServer | None = None
        """The page, while it is open."""
        self._opening = anyio.Lock()
        self._scope = anyio.CancelScope()
        """The scope of the page, while it is open."""

    async def open(self, host: str) -> Mapping[str, object]:
        """Open the page, unless it is open; return a new address under a host, or the reason why there is none."""
        settings = self._parts.services.live.settings
        if not settings.enable_page:
            policy = settings.policy_of("enable_page")
            by = f"on this machine by {policy}" if policy else "by the setting enablePage"
            return {"problem": f"the page is switched off {by}"}
        try:
            async with self._opening:
                page = self._page or await self._open()
                page.extend()
                return {"address": page.new_address(host)}
        except Exception as error:
            logger.exception("the page cannot be opened")
            return {"problem": f"the page cannot be opened: {error}"}

    async def watch_settings(self) -> None:
        """Close the page when the settings switch it off, until cancelled."""
        live = self._parts.services.live
        while True:
            await live.changed.wait()
            if not live.settings.enable_page:
                self.close()

    def close(self) -> None:
        """Close the page as the server ends, or as it is switched off."""
        self._scope.cancel()

    async def _open(self) -> PageServer:
        from codriver.features.page.page_server import PageServer  # noqa: PLC0415  # most servers never need it

        parts = self._parts
        page = PageServer(parts.services, parts.protocol, parts.clients, redirect=self._redirect)
        listeners = await page.open()
        self._page = page
        self._tasks.start_soon(self._serve, page, listeners)
        return page

    async def _serve(self, page: PageServer, listeners: Sequence[SocketListener]) -> None:
        """Serve the page until it is closed. A failure ends the page alone."""
        self._scope = anyio.CancelScope()
        with self._scope:
            try:
                await page.serve(listeners, self._idle_s)
            except Exception:
                logger.exception("the page ended by a fault")
            finally:
                self._page = None
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(remove_redirect, self._redirect)
