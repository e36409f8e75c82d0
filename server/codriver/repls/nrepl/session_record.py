"""The record of open sessions in a file, so that the next server of the workspace closes those that a killed one left.

Only recorded sessions are closed, and nobody else's ever. An id that another REPL could give again, as a REPL that
counts its sessions would, is not recorded.
"""

from __future__ import annotations

import json
import logging
import re
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


logger = logging.getLogger(__name__)

RULES: Final = files.Rules(files.Links.OF_USER, most_bytes=files.MEBIBYTE, is_granting=True)
"""Sessions in the file are closed, so the file must be the user's own."""
MOST_REPLS: Final = 64
"""The newest addresses that are kept: a REPL that is gone takes its sessions with it, and seldom comes back."""
MOST_SESSIONS: Final = 256
"""The newest sessions kept of one REPL: four times its possible lanes."""
UNIQUE: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""An id of 128 bits, nearly all random: a UUID as nREPL's, or plain."""


class SessionRecord:
    """The record of one workspace, for the life of one server. After a kill, unrecorded sessions stay open.

    `is_used` says whether the process at an address is ours, and ends with us. Blocking work is done in a thread.
    """

    def __init__(self, path: Path, *, is_used: Callable[[str], bool] = lambda _: False) -> None:
        self._path = path
        self._is_used = is_used
        self._in_turn = anyio.CapacityLimiter(1)
        self._recorded: dict[str, list[str]] | None = None
        """The recorded sessions by address; None before the file was read."""
        self._in_use: set[str] = set()
        """The sessions of this server's present connections."""
        self._busy: set[str] = set()
        """The sessions whose connection broke while code ran, which goes on as long as this server."""

    async def opened(self, address: str, session: str) -> None:
        """Record a new session, before anything is done in it."""
        self._in_use.add(session)
        if UNIQUE.fullmatch(session) and not self._is_used(address):
            await self._in_thread(partial(self._write, address, add=session))

    async def closed(self, address: str, session: str) -> None:
        """Record that the REPL at the address no longer has a session."""
        self._in_use.discard(session)
        await self._in_thread(partial(self._write, address, drop=session))

    def left(self, sessions: Iterable[str], *, busy: Iterable[str]) -> None:
        """Record that the connection of these open sessions has finished; code runs in the `busy` ones."""
        self._in_use -= frozenset(sessions)
        self._busy |= frozenset(busy)

    async def to_close(self, address: str, *, with_busy: bool) -> tuple[str, ...]:
        """Return the sessions at an address that an earlier connection left, of this server or a previous one."""
        await self._in_thread(self._read)
        recorded = self._read().get(address, ())
        passed_over = self._in_use if with_busy else self._in_use | self._busy
        return tuple([session for session in recorded if session not in passed_over])

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await anyio.to_thread.run_sync(work, limiter=self._in_turn)

    def _read(self) -> dict[str, list[str]]:
        if self._recorded is None:
            found = files.read_json(self._path, RULES)
            rows = found.items() if isinstance(found, dict) else ()
            self._recorded = {address: _ids(sessions) for address, sessions in rows if isinstance(sessions, list)}
        return self._recorded

    def _write(self, address: str, *, add: str = "", drop: str = "") -> None:
        recorded = self._read()
        before = recorded.get(address, [])
        after = [*(one for one in before if one != drop), *([add] if add else [])][-MOST_SESSIONS:]
        if after == before:
            return
        recorded.pop(address, None)
        if after:
            recorded[address] = after
        for oldest in list(recorded)[:-MOST_REPLS]:
            del recorded[oldest]
        try:
            # A kill loses no written data, and after a loss of power the REPL is gone too.
            files.replace(
                self._path, json.dumps(recorded).encode("ascii"), links=files.Links.OF_USER,
                is_durable=False, make_mode=files.PRIVATE_DIRECTORY_MODE,
            )  # fmt: skip
        except OSError as error:
            logger.warning("the sessions opened in %s are not recorded, and left open by a kill: %s", address, error)


def _ids(values: list[object]) -> list[str]:
    return [value for value in values if isinstance(value, str) and UNIQUE.fullmatch(value)]
