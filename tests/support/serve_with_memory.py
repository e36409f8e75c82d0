"""The command line of Codriver, with one kind of REPL more: one in memory, with a connector of its own.

It runs in the server's process. `.memory-port`, with the port 4711, stands for its port file.
"""

from contextlib import contextmanager

import memory_repl
from live_server import Live, until

from codriver.app import wiring
from codriver.commands.cli import main
from codriver.repls import kinds

PLACE = "127.0.0.1:4711"
MEMORY = kinds.Kind("Memory", "mem", "memory", protocol=memory_repl.PROTOCOL, port_files=(".memory-port",))


class LiveWithMemory(Live):
    """A server that is wired with the connector of REPLs in memory, in a workspace with the port file of one."""

    def __init__(self, folder):
        workspace = folder / "workspace"
        workspace.mkdir(parents=True)
        (workspace / MEMORY.port_files[0]).write_text(PLACE.rpartition(":")[2])
        super().__init__(folder)

    def command(self, name, *options):
        python, _, _, *rest = super().command(name, *options)
        return [python, __file__, *rest]


@contextmanager
def connected(folder):
    """A client of such a server, whose REPL is there."""
    live = LiveWithMemory(folder)
    try:
        with live.client() as client:
            until(
                lambda: [row["phase"] for row in client.call("list_sessions")["sessions"]] == ["connected"], "its REPL"
            )
            yield client
    finally:
        live.stop()


if __name__ == "__main__":
    kinds.KINDS = (*kinds.KINDS, MEMORY)
    wiring.CONNECTORS = {**wiring.CONNECTORS, memory_repl.PROTOCOL: memory_repl.connect}
    memory_repl.start(PLACE)
    main()
