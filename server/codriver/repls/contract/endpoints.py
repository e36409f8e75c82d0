"""Endpoints of REPLs: a host and port, or a stream from a REPL that connected to Codriver."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from codriver.core.records import dataclass
from codriver.net.kernel_sockets import format_address

if TYPE_CHECKING:
    from pathlib import Path
    from socket import socket


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and port at which a REPL listens."""

    host: str
    port: int
    found_by: Path | None = field(default=None, compare=False)
    """The file that named the endpoint, if the user did not. In that case, the listener must belong to the user."""

    @classmethod
    def parse(cls, text: str, found_by: Path | None = None) -> Endpoint:
        """Parse `host:port`, `[v6]:port` or `port`. The default host is 127.0.0.1.

        Raises:
            ValueError: the port is not a number.
        """
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]") or "127.0.0.1", int(port), found_by)

    def __str__(self) -> str:
        return format_address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class AcceptedStream:
    """A stream from a REPL that connected to Codriver. Its peer was checked when it was accepted.

    It serves one adapter, which closes it, and cannot be reconnected.
    """

    name: str
    """A description of the peer, for messages."""
    socket: socket

    def __str__(self) -> str:
        return self.name
