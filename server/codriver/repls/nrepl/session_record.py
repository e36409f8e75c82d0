"""Record open sessions in a file so that they are closed even if Codriver is killed.

Only recorded sessions are closed, never those of other clients. An id that another REPL may also use, such as a
counter, is not recorded.
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

RECORD_FILE_RULES: Final = files.FileRules(files.Links.OF_USER, max_bytes=files.MEBIBYTE, is_granting=True)
"""Rules for reading the record. It must belong to the user, because the sessions in it will be closed."""
MAX_REPLS: Final = 64
"""Maximum number of addresses. The oldest are dropped, because their REPLs have probably ended with their sessions."""
MAX_SESSIONS: Final = 256
"""Maximum number of sessions per REPL, which is four times the number of lanes."""
UNIQUE_ID_PATTERN: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Matches ids with 128 almost entirely random bits: UUIDs with or without hyphens, as in nREPL."""


class SessionRecord:
    """The record of one workspace, used by one server at a time. Its methods do blocking work in a thread.

    `is_used` returns whether Codriver started the process at an address. Such a process ends with the server, so its
    sessions are not recorded. Unrecorded sessions stay open if the server is killed.
    """

    def __init__(self, path: Path, *, is_used: Callable[[str], bool] = lambda _: False) -> None:
        self._path = path
        self._is_used = is_used
        self._in_turn = anyio.CapacityLimiter(1)
        self._recorded: dict[str, list[str]] | None = None
        """The recorded sessions by address, or None before the file has been read."""
        self._in_use: set[str] = set()
        """The sessions of this server's current connections."""
        self._busy: set[str] = set()
        """The sessions whose connection was lost while code was running in them, and may still be running."""

    async def record_opened(self, address: str, session: str) -> None:
        """Record a new session before it is used."""
        self._in_use.add(session)
        if UNIQUE_ID_PATTERN.fullmatch(session) and not self._is_used(address):
            await self._in_thread(partial(self._write, address, add=session))

    async def record_closed(self, address: str, session: str) -> None:
        """Record that a session no longer exists."""
        self._in_use.discard(session)
        await self._in_thread(partial(self._write, address, drop=session))

    def record_left_open(self, sessions: Iterable[str], *, busy: Iterable[str]) -> None:
        """Record that the connection of these sessions was closed while code was still running in the `busy` ones."""
        self._in_use -= frozenset(sessions)
        self._busy |= frozenset(busy)

    async def sessions_to_close(self, address: str, *, with_busy: bool) -> tuple[str, ...]:
        """Return the recorded sessions at an address that no current connection uses.

        Sessions in which code may still be running are included only if `with_busy` is set.
        """
        await self._in_thread(self._read)
        recorded = self._read().get(address, ())
        passed_over = self._in_use if with_busy else self._in_use | self._busy
        return tuple([session for session in recorded if session not in passed_over])

    async def _in_thread(self, work: Callable[[], object]) -> None:
        await anyio.to_thread.run_sync(work, limiter=self._in_turn)

    def _read(self) -> dict[str, list[str]]:
        if self._recorded is None:
            found = files.read_json(self._path, RECORD_FILE_RULES)
            rows = found.items() if isinstance(found, dict) else ()
            self._recorded = {address: _ids(sessions) for address, sessions in rows if isinstance(sessions, list)}
        return self._recorded

    def _write(self, address: str, *, add: str = "", drop: str = "") -> None:
        recorded = self._read()
        before = recorded.get(address, [])
        after = [*(identity for identity in before if identity != drop), *([add] if add else [])][-MAX_SESSIONS:]
        if after == before:
            return
        recorded.pop(address, None)
        if after:
            recorded[address] = after
        for oldest in list(recorded)[:-MAX_REPLS]:
            del recorded[oldest]
        try:
            # Written data survives a kill. After a power loss, the REPL is gone too, so durability is not needed.
            files.replace(
                self._path, json.dumps(recorded).encode("ascii"), links=files.Links.OF_USER,
                is_durable=False, make_mode=files.PRIVATE_DIRECTORY_MODE,
            )  # fmt: skip
        except OSError as error:
            logger.warning(
                "cannot record the sessions opened in %s, so they stay open if the server is killed: %s", address, error
            )


def _ids(values: list[object]) -> list[str]:
    return [value for value in values if isinstance(value, str) and UNIQUE_ID_PATTERN.fullmatch(value)]
