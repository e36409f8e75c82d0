"""The door to the page: the page is imported and opened on request, or if the server before had it open."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from codriver.core.actions import Say
from codriver.net.known_servers import read_record, remove_record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anyio.abc import SocketListener, TaskGroup

    from codriver.app.wiring import Parts
    from codriver.net.known_servers import PageRecord
    from codriver.page.page_server import PageServer

logger = logging.getLogger(__name__)


class PageDoor:
    """The page of one server, for its life: closed until it is asked for, and again when nobody looks any more."""

    def __init__(self, parts: Parts, tasks: TaskGroup, record: Path, idle_s: float) -> None:
        """`record`: the file with the page's port and token; `idle_s`: how long an unseen page stays open."""
        self._parts = parts
        self._tasks = tasks
        self._file = record
        self._idle_s = idle_s
        self._page: PageServer | None = None
        self._port: int | None = None
        """The port, while the page is open."""
        self._opening = anyio.Lock()
        self._scope = anyio.CancelScope()
        """The scope of the page, while it is open."""

    async def open(self) -> Mapping[str, object]:
        """Open the page, unless it is open; its port, or in words why it cannot be opened. The record has the token."""
        try:
            async with self._opening:
                if self._port is None:
                    await self._open(None)
                elif self._page is not None:
                    self._page.extend()
        except Exception as error:
            logger.exception("the page cannot be opened")
            return {"problem": f"the page cannot be opened: {error}"}
        return {"port": self._port}

    async def go_on(self) -> None:
        """Open the page if the server before had it open and its port is free; else say how to open it anew."""
        wanted = await anyio.to_thread.run_sync(read_record, self._file)
        if wanted is None:
            return
        try:
            async with self._opening:
                await self._open(wanted)
        except Exception as error:  # noqa: BLE001  # a page that cannot be had is no reason to end
            await anyio.to_thread.run_sync(remove_record, self._file)
            self._parts.core.report(Say(str(error), error=True))

    def close(self) -> None:
        """Close the page as the server ends; its record stays for the next server."""
        self._scope.cancel()

    async def _open(self, wanted: PageRecord | None) -> None:
        from codriver.page.page_server import PageServer  # noqa: PLC0415  # most servers never need it

        if self._page is None:
            parts = self._parts
            self._page = PageServer(parts.services, parts.protocol, parts.clients, record=self._file)
        listener, record = await self._page.open(wanted)
        self._port = record.port
        self._tasks.start_soon(self._serve, self._page, listener)

    async def _serve(self, page: PageServer, listener: SocketListener) -> None:
        """Serve the page until it is closed. A failure ends the page alone."""
        self._scope = anyio.CancelScope()
        with self._scope:
            try:
                await page.serve(listener, self._idle_s)
            except Exception:
                logger.exception("the page ended by a fault")
            finally:
                self._port = None
