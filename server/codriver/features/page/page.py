"""The page of a server. It is created on request, and recreated if it has been closed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from codriver.features.page.page_redirect import redirect_file, remove_redirect
from codriver.features.page.settings import ENABLE_PAGE_SETTING
from codriver.settings.model import name_in_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anyio.abc import SocketListener, TaskGroup

    from codriver.features.page.page_server import PageServer
    from codriver.server_hooks import RunningServer
    from codriver.tools.calls.call import Services

logger = logging.getLogger(__name__)


class Page:
    """The web page on which a person can watch the activity of a server.

    It is opened on request and closed when nobody has viewed it for a while.
    """

    def __init__(self, services: Services, tasks: TaskGroup) -> None:
        self._live = services.live
        self._idle_s = services.durations.others["page_s"]
        """How long the page stays open without viewers."""
        self._redirect = redirect_file(services.workspace)
        self._tasks = tasks
        self._page: PageServer | None = None
        """The page's server while the page is open."""
        self._opening = anyio.Lock()
        self._scope = anyio.CancelScope()
        """The scope in which the page is served while it is open."""

    async def open(self, server: RunningServer, host: str) -> Mapping[str, object]:
        """Open the page unless it is already open. Return a new address at this host, or the reason for a failure."""
        settings = self._live.settings
        if not settings.value_of(ENABLE_PAGE_SETTING):
            policy = settings.policy_path(ENABLE_PAGE_SETTING.name)
            by = (
                f"on this machine by {policy}"
                if policy
                else f"by the setting {name_in_files(ENABLE_PAGE_SETTING.name)}"
            )
            return {"problem": f"the page is switched off {by}"}
        try:
            async with self._opening:
                page = self._page or await self._open(server)
                page.restart_idle_timer()
                return {"address": page.new_address(host)}
        except Exception as error:
            logger.exception("the page cannot be opened")
            return {"problem": f"the page cannot be opened: {error}"}

    async def watch_settings(self) -> None:
        """Close the page whenever the settings disable it. Runs until cancelled."""
        while True:
            await self._live.changed.wait()
            if not self._live.settings.value_of(ENABLE_PAGE_SETTING):
                self._scope.cancel()

    async def stop(self) -> None:
        """Close the page because the server is stopping."""
        self._scope.cancel()

    async def _open(self, server: RunningServer) -> PageServer:
        from codriver.features.page.page_server import PageServer  # noqa: PLC0415  # most servers never need it

        page = PageServer(server.services, server.protocol, server.clients, redirect=self._redirect)
        listeners = await page.open()
        self._page = page
        self._tasks.start_soon(self._serve, page, listeners)
        return page

    async def _serve(self, page: PageServer, listeners: Sequence[SocketListener]) -> None:
        """Serve the page until it is closed. An error closes the page, but does not affect the server."""
        self._scope = anyio.CancelScope()
        with self._scope:
            try:
                await page.serve(listeners, self._idle_s)
            except Exception:
                logger.exception("the page ended because of an internal error")
            finally:
                self._page = None
                with anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(remove_redirect, self._redirect)


async def open_page(server: RunningServer, host: str) -> Mapping[str, object]:
    """Open the page of a server, and return a new address at this host."""
    return await server.services.part(Page).open(server, host)
