"""The contract between Codriver and one REPL connection.

An *adapter* is our side of one REPL. What every adapter guarantees, whatever the server behind it does:

* **Order.** Events of one evaluation reach the listener in the order the server sent them, and all that came before
  the evaluation was over reach it before the end is told.
* **The end.** An evaluation ends once, at the first `done` that concerns the evaluation. Later messages with
  its id still reach the listener under the same evaluation; a second `done` is ignored.
* **Never twice.** An adapter sends a request once. After a lost connection nothing is sent again: the caller gets
  `ReplDisconnectedError` and the code may or may not have run.
* **Draining.** The adapter always reads, also when nobody waits, so a flooding REPL cannot stall on us.
* **Time.** Every op but evaluation has a time limit of its own; a server that does not answer raises
  `OpTimedOutError`, and the connection lives on.
* **Closing.** Leaving the context that opened the adapter closes its sessions and sockets; leaving twice is harmless.

One evaluation at a time per session: the caller queues, and the adapter holds back what comes all the same.
Different sessions may run side by side.

What goes in and comes out is in `codriver.core.values` and `codriver.repls.adapter_values`.

Failures are types, in `codriver.repls.errors`: `ReplUnreachableError` (nobody listens), `NotAnReplError` (what
answers is no nREPL), `CapabilityMissingError`, `OpTimedOutError`, `RequestUnsafeError` (this server is known to break
on it), all of them refusals after which the connection lives on or never was; and `ReplDisconnectedError`, after which
it is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from codriver.core.values import MAIN_SESSION, NO_LIMITS

if TYPE_CHECKING:
    from codriver.core.values import PrintLimits, Profile, Request
    from codriver.repls.adapter_values import (
        ClojureDocs,
        Completion,
        Ended,
        Ending,
        Interruption,
        StackTrace,
        Symbol,
        TestRun,
    )
    from codriver.repls.dialects.thread_dump import ThreadDump


class Adapter(Protocol):
    """Our side of one REPL connection. See the module's docstring for what it guarantees."""

    @property
    def profile(self) -> Profile:
        """What the REPL can do. Constant for the life of the connection."""

    def begin(self, request: Request, ended: Ended, limits: PrintLimits = NO_LIMITS) -> None:
        """Begin to run code; events reach the listener meanwhile, and after them `ended` is told once how it ended.

        Of the kind `load-file`, the code is the text of a file, and is loaded as that file.

        Raises:
            ReplDisconnectedError: the connection is over; nothing was sent. So it is after every refusal.
        """

    async def evaluate(self, request: Request, limits: PrintLimits = NO_LIMITS) -> Ending:
        """Run code and return when it is over, otherwise like `begin`. Cancelling stops the waiting, not the work.

        Raises:
            ReplDisconnectedError: the connection ended first; the code may have run.
        """

    async def interrupt(self, session: str = MAIN_SESSION) -> Interruption:
        """Ask the server to stop what runs in `session`.

        Raises:
            CapabilityMissingError: this REPL cannot interrupt.
            OpTimedOutError: it did not answer.
        """

    async def send_input(self, text: str, session: str = MAIN_SESSION) -> None:
        """Give `text` to code that reads from stdin in `session`; the caller adds the newline."""

    async def complete(self, prefix: str, namespace: str | None, session: str = MAIN_SESSION) -> tuple[Completion, ...]:
        """Completions of `prefix`, in the server's order."""

    async def lookup(self, symbol: str, namespace: str | None, session: str = MAIN_SESSION) -> Symbol | None:
        """What is known of `symbol`; None when it does not resolve."""

    async def macroexpand(
        self, code: str, namespace: str | None, session: str = MAIN_SESSION, *, full: bool = False
    ) -> str:
        """The expansion of the form `code`, once; with `full`, until it is no macro call any more.

        With `full`, the forms inside are expanded too where the dialect has a function for that.

        Raises:
            EvaluationFailedError: the form cannot be read or expanded.
        """

    async def run_tests(
        self, namespace: str | None, test: str | None, session: str = MAIN_SESSION, *, timeout_s: float = 600.0
    ) -> TestRun:
        """Run `test` of `namespace`, or all its tests, or with no namespace those of all that are loaded.

        Raises:
            EvaluationFailedError: there is no such namespace or test, or it does not load.
        """

    async def last_stacktrace(self, session: str = MAIN_SESSION) -> StackTrace | None:
        """The last error of `session`; None when there was none."""

    async def stacks(self, session: str = MAIN_SESSION) -> ThreadDump | None:
        """What the threads of `session` are doing now; None where the REPL cannot tell. Never raises."""

    async def clojuredocs(self, symbol: str) -> ClojureDocs | None:
        """What ClojureDocs says of the qualified `symbol`; None when it knows nothing of it."""

    async def open_session(self, name: str) -> None:
        """Make a session of its own under `name` (namespace, `*1`). `MAIN_SESSION` is always there.

        Raises:
            CapabilityMissingError: this REPL keeps nothing apart.
        """

    async def close_session(self, name: str) -> None:
        """End a session made by `open_session`; an unknown name is ignored."""

    async def wait_closed(self) -> str:
        """Wait until the connection is over and give the cause in words."""
