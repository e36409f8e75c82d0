"""The log of calls to watched functions, available to queries as the Datalog source `$calls`.

A watched function may be called hundreds of times, which would evict evaluations from the output log. Therefore, calls
have a log of their own. Both logs take their line numbers from the same counter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from codriver.log.event_logs import EventLog
from codriver.log.event_store import EventStore
from codriver.log.log_entries import ENTRY_SCHEMA
from codriver.log.query_sources import QuerySource

if TYPE_CHECKING:
    from codriver_datalog.entity_store import Record

CALL_LOG: Final = EventLog("call", "$calls", "calls", "callLog", "watched functions", "magenta", ">")
"""The log of calls to watched functions."""
CALL_SCHEMA: Final = replace(
    ENTRY_SCHEMA,
    attributes=(*ENTRY_SCHEMA.attributes, "watch", "function", "args", "result", "error", "ms", "caller"),
    indexed=ENTRY_SCHEMA.indexed | {"watch", "function"},
    only_in=(CALL_LOG.source, len(ENTRY_SCHEMA.attributes)),
)
"""The attributes of a call."""
CALL_SOURCE: Final = QuerySource(CALL_LOG.source, CALL_SCHEMA, log=CALL_LOG)
"""The log of watched calls as a source for queries."""


@dataclass(frozen=True, slots=True)
class WatchedCall:
    """A recorded call of a watched function, or an entry about the watch itself, which consists only of text."""

    text: str
    timestamp: int
    """Time when the call was received, in epoch milliseconds."""
    watch: str
    who: str
    session_key: str | None
    function: str | None = None
    arguments: str | None = None
    result: str | None = None
    error: str | None = None
    ms: float | None = None
    caller: str | None = None

    def to_record(self, line: int) -> Record:
        """Convert the call to a record with the attributes of `CALL_SCHEMA`."""
        common = (line, CALL_LOG.category, self.text, self.timestamp, self.who, None, self.session_key)
        unused = (None,) * (len(ENTRY_SCHEMA.attributes) - len(common))
        call = (self.watch, self.function, self.arguments, self.result, self.error, self.ms, self.caller)
        return (*common, *unused, *call)


class CallLog(EventStore):
    """Stores the latest calls to watched functions."""

    schema = CALL_SCHEMA

    def record(self, call: WatchedCall) -> int:
        """Redact and shorten a call's texts, and store the call. Return its line number."""
        call = replace(
            call,
            text=self.redact_and_shorten(call.text),
            function=call.function and self.redact_and_shorten(call.function),
            arguments=call.arguments and self.redact_and_shorten(call.arguments),
            result=call.result and self.redact_and_shorten(call.result),
            error=call.error and self.redact_and_shorten(call.error),
            caller=call.caller and self.redact_and_shorten(call.caller),
        )
        strings = (call.text, call.function, call.arguments, call.result, call.error, call.caller)
        return self.insert(call.to_record, strings)
