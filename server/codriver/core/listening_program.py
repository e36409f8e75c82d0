"""A program in the workspace that is listening on a port."""

from __future__ import annotations

from codriver.core.records import dataclass


@dataclass(frozen=True)
class ListeningProgram:
    """A program in the workspace that is listening on a port, with its process id and address."""

    pid: int
    address: str
    can_connect: bool = False
    """Whether the program provides a REPL to Codriver on request, because a feature started it."""
    start_advice: str = ""
    """A clause on how to start the program so that it provides a REPL to Codriver, or an empty string."""
