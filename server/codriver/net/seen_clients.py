"""Record when each client was last connected, for `codriver init --list`.

A single file in the user's state directory lists the most recent clients in all workspaces by name, such as `codex`.
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
from codriver.files.codriver_paths import state_directory
from codriver.net.background_writes import BackgroundWrites

if TYPE_CHECKING:
    from collections.abc import Mapping


logger = logging.getLogger(__name__)

SEEN_CLIENTS_FILE: Final = "seen-clients.json"
"""Name of the file that lists the clients that have connected."""
MAX_CLIENTS: Final = 64
"""Maximum number of clients in the file."""
RECORD_RULES: Final = files.FileRules(files.Links.OF_USER, max_bytes=64 * files.KIBIBYTE)
COMMAND_NAME_PREFIX: Final = "codriver-"
"""Client names with this prefix belong to Codriver's own commands, and are not recorded."""
MIN_RECORD_INTERVAL_S: Final = 60
"""Minimum time, in seconds, between two records of the same client, in case it keeps reconnecting."""


class SeenClients:
    """Records in the background which clients connect to this server. Errors are ignored."""

    def __init__(self) -> None:
        self._writes = BackgroundWrites()
        self._noted: dict[str, float] = {}
        """The time at which each client was last recorded, by the clock of the event loop."""

    def record(self, who: str) -> None:
        """Record that a client is connected now, unless that was recorded recently."""
        if (
            not who
            or who.startswith(COMMAND_NAME_PREFIX)
            or (who not in self._noted and len(self._noted) >= MAX_CLIENTS)
        ):
            return
        now = anyio.current_time()
        if now - self._noted.get(who, -MIN_RECORD_INTERVAL_S) >= MIN_RECORD_INTERVAL_S:
            self._noted[who] = now
            self._writes.schedule(partial(record_client, who, time.time()))

    async def wait_until_written(self) -> None:
        """Wait until all records have been written."""
        await self._writes.wait_until_written()


def record_client(who: str, now_s: float) -> None:
    """Record that a client was connected at `now_s`, in seconds since the epoch. Blocks on disk I/O.

    Errors are logged and ignored, because the record is only displayed.
    """
    seen = {**read_last_connections(), who: int(now_s)}
    stored = {name: seen[name] for name in sorted(seen, key=seen.__getitem__, reverse=True)[:MAX_CLIENTS]}
    try:
        path = state_directory() / SEEN_CLIENTS_FILE
        files.replace(
            path, json.dumps(stored).encode(), links=files.Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE
        )
    except OSError as error:
        logger.info("cannot record when the client was last connected: %s", error)


def read_last_connections() -> Mapping[str, int]:
    """Return the time at which each client was last connected, in seconds since the epoch, by name."""
    found = files.read_json(state_directory() / SEEN_CLIENTS_FILE, RECORD_RULES)
    rows = found.items() if isinstance(found, dict) else ()
    return MappingProxyType({name: when for name, when in rows if type(when) is int and 0 <= when < 2**40})
