"""Background evaluations: code that runs on a thread of its own, beside what runs on the main thread.

It is interrupted as code in an application is: by an exception that is raised in its thread. A call that blocks outside
of Python is not ended by that; then the evaluation is abandoned, and its thread is named.
"""

from __future__ import annotations

import threading

from ..basics.connections import START_THREAD
from .thread_interrupts import ThreadInterrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ..basics.jobs import Job

ABANDONED = (
    "it was abandoned: its call blocks outside of Python, where no interrupt reaches it. Its thread, %r, lives until "
    "that call returns; what else runs is not disturbed"
)


def begin(job: Job, run: Callable[[Job], object], abandon: Callable[[Job, str], object]) -> None:
    """Run a job on a thread of its own. `abandon` is told of one that no interrupt ends, and the words for that."""
    name = "codriver background " + str(job.message.get("id", ""))
    interrupts = ThreadInterrupts(lambda abandoned: abandon(abandoned, ABANDONED % name))
    job.is_beside, job.interrupts, job.shield = True, interrupts, interrupts.shield
    job.wake = lambda: _wake(job)

    def perform() -> None:
        interrupts.install()
        run(job)

    START_THREAD(threading.Thread(target=perform, name=name, daemon=True))


def _wake(job: Job) -> None:
    """End the waits of a job that no exception reaches, though they are ours: for its event loop, and for input."""
    loop = job.session.loop
    if loop is not None and loop.is_running():
        loop.call_soon_threadsafe(lambda: None)
    job.session.input.put("")
