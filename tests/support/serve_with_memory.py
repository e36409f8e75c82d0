"""The command line of Codriver, with one kind of REPL more: one in memory, with a connector of its own.

It runs in the server's process. `.memory-port`, with the port 4711, stands for its port file.
"""

import memory_repl

from codriver.app import wiring
from codriver.commands.cli import main
from codriver.repls import kinds

PLACE = "127.0.0.1:4711"
MEMORY = kinds.Kind("Memory", "mem", "memory", protocol=memory_repl.PROTOCOL, port_files=(".memory-port",))

if __name__ == "__main__":
    kinds.KINDS = (*kinds.KINDS, MEMORY)
    wiring.CONNECTORS = {**wiring.CONNECTORS, memory_repl.PROTOCOL: memory_repl.connect}
    memory_repl.start(PLACE)
    main()
