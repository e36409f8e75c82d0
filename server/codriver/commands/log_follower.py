"""Follow the output log, even if the server is restarted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from codriver.commands.terminal import convert_field_errors, echo
from codriver.errors import CodriverError
from codriver.net import client

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from codriver.log.event_logs import EventLog
    from codriver.net.client import Connection

RETRY_INTERVAL_S = 1.0
"""Interval between attempts to connect to the next server."""
REQUEST_TIMEOUT_MS = 20_000
"""Timeout of one request for new entries."""
MAX_TEXT_BYTES = 16 * 2**20
"""Maximum number of bytes of text that can be requested at once."""
GAP_MESSAGE = (
    "some entries were dropped from the log before they could be read. To keep more of them, raise logMaxEntities"
)
MAX_ENTRIES = 10_000
"""Maximum number of entries in one answer. If more entries are added between two requests, some are skipped, which is
reported."""


class FollowError(CodriverError):
    """Raised when the server refuses to return its log."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"the log cannot be followed: {answer.get('message', answer)}")


@dataclass(slots=True)
class Follower:
    """Reads new entries of the log, starting after the line `since`. `who` and `categories` filter them.

    The texts in one answer have a total of at most `max_text_bytes` bytes. If they exceed this, the longest ones are
    truncated. The events of the features' `logs` are included.
    """

    connection: Connection
    since: int
    who: str | None = None
    categories: tuple[str, ...] = ()
    max_text_bytes: int = MAX_TEXT_BYTES
    logs: tuple[EventLog, ...] = ()

    def next_entries(self, wait_ms: int = REQUEST_TIMEOUT_MS) -> tuple[list[dict[str, Any]], bool]:
        """Wait for new entries, and return them and whether some were evicted before they could be read.

        The list is empty if there were none after `wait_ms` milliseconds.

        Raises:
            FollowError: the server refuses the request.
            ConnectionClosedError: the server has stopped.
        """
        query, inputs = self._build_query()
        request = {
            "query": query,
            "inputs": inputs,
            "since": self.since,
            "timeoutMs": wait_ms,
            "limit": MAX_ENTRIES,
            "maxTextBytes": self.max_text_bytes,
        }
        answer = self.connection.call("wait_for", request)
        if not answer.get("ok"):
            raise FollowError(answer)
        with convert_field_errors("wait_for"):
            self.since = int(answer["lastLine"])
            return [entity for row in answer["result"] for entity in row if entity], bool(answer["gap"])

    def _build_query(self) -> tuple[str, list[object]]:
        """Return the query for entries after the line `since`, and its inputs."""
        bindings, clauses = ["?since"], ["[?e :output/line ?line]", "[(> ?line ?since)]"]
        inputs: list[object] = [self.since]
        if self.who:
            bindings.append("?who")
            clauses.append("[?e :output/who ?who]")
            inputs.append(self.who)
        if self.categories:
            bindings.append("[?category ...]")
            clauses.append("[?e :output/category ?category]")
            inputs.append(list(self.categories))
        bound, where_clauses = " ".join(bindings), " ".join(clauses)
        if not self.logs:
            return f"[:find (pull ?e [*]) :in $ {bound} :where {where_clauses}]", inputs
        shared = bound.replace("[?category ...]", "?category")
        sources = [log.source for log in self.logs]
        pulls = " ".join(f"(pull {source} ?e [*])" for source in sources)
        others = " ".join(f"({source} and {where_clauses})" for source in sources)
        either = f"(or-join [?e {shared}] (and {where_clauses}) {others})"
        return f"[:find (pull ?e [*]) {pulls} :in $ {' '.join(sources)} {bound} :where {either}]", inputs


def follow(follower: Follower, workspace: Path, name: str) -> Generator[list[dict[str, Any]], None, None]:
    """Yield batches of new entries forever. When the server stops, print a message and wait for the next one.

    `name` is the name of the client for new connections. The current connection is closed when the generator is closed.

    Raises:
        FollowError: the server refuses the request.
    """
    try:
        while True:
            try:
                entries, gap = follower.next_entries()
            except (client.ConnectionClosedError, OSError):
                session = follower.connection.session
                follower.connection.close()
                echo("the server has stopped. Waiting for the next one (press Ctrl-C to quit)", err=True)
                follower.connection = _connect_to_next_server(workspace, name)
                echo("connected to the next server", err=True)
                if session != follower.connection.session:
                    follower.since = 0  # a new server's lines may start below the last line received
                continue
            if gap:
                echo(GAP_MESSAGE, err=True)
            yield entries
    finally:
        follower.connection.close()


def _connect_to_next_server(workspace: Path, name: str) -> Connection:
    while True:
        try:
            return client.connect(workspace, name=name)
        except (CodriverError, OSError, ValueError):
            time.sleep(RETRY_INTERVAL_S)
