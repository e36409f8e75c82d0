"""The time of each client's last connection, for `codriver init --list`.

One file per user, in the state directory, has the newest clients of all workspaces by their callers' names, such as
`codex`.
"""

from __future__ import annotations

import json
import logging
import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver import files
from codriver.files.own_folders import state_directory
from codriver.net.background_writes import BackgroundWrites

if TYPE_CHECKING:
    from collections.abc import Mapping


logger = logging.getLogger(__name__)

RECORD: Final = "seen-clients.json"
MAX_CLIENTS: Final = 64
RULES: Final = files.Rules(files.Links.OF_USER, most_bytes=64 * files.KIBIBYTE)
COMMAND_NAME_PREFIX: Final = "codriver-"
"""The prefix of the names of Codriver's commands, which use no relay and are no clients of a user's."""
REST_S: Final = 60
"""The time within which a reconnecting client is noted only once."""


class SeenClients:
    """Notes the clients that connect, for the life of one server. No client waits for a note, and no note fails."""

    def __init__(self) -> None:
        self._writes = BackgroundWrites()
        self._noted: dict[str, float] = {}
        """The time of each client's last note, on the clock of the event loop."""

    def note(self, who: str) -> None:
        """Note a connected client of this name."""
        if (
            not who
            or who.startswith(COMMAND_NAME_PREFIX)
            or (who not in self._noted and len(self._noted) >= MAX_CLIENTS)
        ):
            return
        now = anyio.current_time()
        if now - self._noted.get(who, -REST_S) >= REST_S:
            self._noted[who] = now
            self._writes.start(partial(write, who, time.time()))

    async def end(self) -> None:
        """Wait until all notes are written."""
        await self._writes.end()


def write(who: str, now_s: float) -> None:
    """Note that a client was connected at this time, in seconds since 1970. Blocks.

    A note that cannot be written is dropped silently: notes are only shown.
    """
    seen = {**read(), who: int(now_s)}
    stored = {name: seen[name] for name in sorted(seen, key=seen.__getitem__, reverse=True)[:MAX_CLIENTS]}
    try:
        path = state_directory() / RECORD
        files.replace(
            path, json.dumps(stored).encode(), links=files.Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE
        )
    except OSError as error:
        logger.info("the client is not noted: %s", error)


def read() -> Mapping[str, int]:
    """Return the newest time of each client, in seconds since 1970; empty without a readable record."""
    found = files.read_json(state_directory() / RECORD, RULES)
    rows = found.items() if isinstance(found, dict) else ()
    return MappingProxyType({name: when for name, when in rows if type(when) is int and 0 <= when < 2**40})
