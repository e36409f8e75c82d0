"""Read notebooks in a worker thread, one at a time."""

from __future__ import annotations

from codriver.net.fair_threads import FairThreads


class NotebookReading(FairThreads):
    """Reads one notebook at a time, because each may need a lot of memory. One instance exists per server."""

    def __init__(self) -> None:
        super().__init__(1)
