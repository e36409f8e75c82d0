"""Watch functions for clients, and record the calls that REPLs report."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from codriver.errors import CodriverError, format_count
from codriver.features.traces.call_log import WatchedCall
from codriver.wire.untrusted import int_or_none, list_or_empty, mapping_or_empty, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.state import State
    from codriver.features.traces.call_log import CallLog

logger = logging.getLogger(__name__)

WATCH_OP: Final = "codriver/watch-calls"
"""The op of Codriver's worker that starts and ends watches."""
CALLS_FIELD: Final = "codriver/watched-calls"
"""The field in which Codriver's worker sends watched calls."""
CALLS_REPORT: Final = "watched calls"
"""The name of the report with watched calls."""


@dataclass(frozen=True, slots=True)
class CallWatch:
    """A client's watch on the calls to a function. It ends when the client or the REPL disconnects."""

    id: str
    repl: str
    generation: int
    client: str
    who: str
    function: str
    """The name of the function as given by the caller."""


class EndWatch(Protocol):
    """A function that ends a watch in a REPL."""

    async def __call__(self, repl: str, watch: str) -> str:
        """End a watch, and return the answer of the REPL as JSON.

        Raises:
            CodriverError: the REPL did not answer.
        """


class CallWatches:
    """The active watches of a server, which record the calls that REPLs report."""

    def __init__(self, core: Core, log: CallLog, tasks: TaskGroup, end: EndWatch, workspace: Path) -> None:
        self._core = core
        self._log = log
        self._tasks = tasks
        self._end = end
        self._workspace = workspace
        self._watches: dict[str, CallWatch] = {}
        self._observing = ExitStack()
        """Observes the core's state while there are watches."""

    def find(self, repl: str, who: str, function: str) -> list[CallWatch]:
        """Return the watches that a caller has started on a function in a REPL."""
        key = (repl, who, function)
        return [watch for watch in self._watches.values() if (watch.repl, watch.who, watch.function) == key]

    def add(self, watch: CallWatch) -> None:
        """Add a watch. Call this before starting it in the REPL, so that its first calls are recorded."""
        if not self._watches:
            self._observing.enter_context(self._core.observed_by(self._end_disconnected))
        self._watches[watch.id] = watch

    def forget(self, watch: CallWatch) -> None:
        """Remove a watch that has ended or could not be started."""
        if self._watches.pop(watch.id, None) is not None and not self._watches:
            self._observing.close()

    def end_if_disconnected(self, watch: CallWatch) -> None:
        """End a watch if its client disconnected while it was being started."""
        if watch.client not in self._core.state.clients:
            self._end_soon(watch)

    async def end(self, watch: CallWatch) -> None:
        """End a watch in its REPL. The REPL then reports the remaining calls.

        Raises:
            CodriverError: the REPL did not answer.
        """
        await self._end(watch.repl, watch.id)

    def receive(self, repl_id: str, _evaluation: str | None, text: str) -> None:
        """Record the calls in a JSON message from a REPL. Ignore messages that are invalid or belong to no watch."""
        try:
            frame = mapping_or_empty(json.loads(text))
        except (ValueError, RecursionError):
            return
        watch = self._watches.get(str(frame.get("watch")))
        if watch is None or watch.repl != repl_id:
            return
        for row in list_or_empty(frame.get("calls")):
            self._record_call(watch, mapping_or_empty(row))
        for line in _watch_messages(frame):
            self._record(watch, f"{watch.function}: {line}")
        if "end" in frame:
            self.forget(watch)

    def _record_call(self, watch: CallWatch, row: Mapping[str, object]) -> None:
        function = text_at(row, "function") or watch.function
        pairs = [list_or_empty(pair) for pair in list_or_empty(row.get("arguments"))]
        arguments = ", ".join(f"{pair[0]}={pair[1]}" for pair in pairs if len(pair) == 2)  # a pair
        error, result, us = text_at(row, "raised"), text_at(row, "result"), int_or_none(row.get("us")) or 0
        caller = (text_at(row, "caller") or "").replace(f"{self._workspace}/", "")
        outcome = f"raised {error}" if error else f"returned {result}"
        origin = f", called at {caller}" if caller else ""
        text = f"{function}({arguments}) {outcome} in {us / 1000:g} ms{origin}"
        self._record(watch, text, function=function, arguments=arguments, result=result or None, error=error or None,
                     ms=us / 1000, caller=caller or None)  # fmt: skip

    def _record(self, watch: CallWatch, text: str, **fields: str | float | None) -> None:
        repl = self._core.state.repls.get(watch.repl)
        key = repl.key if repl is not None else None
        entry = WatchedCall(text, self._core.now(), watch.id, watch.who, key)
        self._log.record(replace(entry, **fields))  # type: ignore[arg-type]  # the fields of a call

    def _end_disconnected(self, old: State, state: State) -> None:
        """End watches whose client or REPL has disconnected."""
        if old.repls is state.repls and old.clients is state.clients:
            return
        for watch in list(self._watches.values()):
            if not _is_connected(state, watch):
                self.forget(watch)
                self._record(watch, f"{watch.function}: the watch ended, because the REPL was disconnected")
            elif watch.client not in state.clients:
                self._end_soon(watch)

    def _end_soon(self, watch: CallWatch) -> None:
        self.forget(watch)
        self._tasks.start_soon(self._end_quietly, watch)

    async def _end_quietly(self, watch: CallWatch) -> None:
        try:
            await self.end(watch)
        except CodriverError as error:
            logger.info("could not end the watch of %s in %s: %s", watch.function, watch.repl, error)


def _watch_messages(frame: Mapping[str, object]) -> list[str]:
    """Return messages about calls that were not recorded, and about the end of the watch."""
    found = []
    if omitted := int_or_none(frame.get("omitted")):
        calls = format_count(omitted, "matching call was", "matching calls were")
        found.append(f"{calls} left out, because too many were made in a second")
    if failed := int_or_none(frame.get("failed")):
        found.append(f"the condition failed for {format_count(failed, 'call')}, first with {frame.get('why')}")
    if unsent := int_or_none(frame.get("unsent")):
        found.append(f"{format_count(unsent, 'call was', 'calls were')} lost, because the connection was too slow")
    if "end" in frame:
        reason = {"limit": "the maximum number of calls was reached", "stopped": "a caller ended it"}.get(
            str(frame["end"]), frame["end"]
        )
        found.append(f"the watch ended: {reason}")
    return found


def _is_connected(state: State, watch: CallWatch) -> bool:
    repl = state.repls.get(watch.repl)
    return repl is not None and repl.phase == "connected" and repl.generation == watch.generation
