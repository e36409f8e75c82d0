"""Transcripts of evaluations: their values, output and error output, during the evaluation and afterwards.

Short strings are in memory. Long ones have their newest part in memory and the rest in files, which are removed when
the server stops. The transcript records how much of each part was reported to each caller, so that nothing is reported
twice.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio

from codriver.core.evaluation_queue import MAX_HEAD_CHARACTERS
from codriver.core.records import Recent
from codriver.errors import truncate
from codriver.log.growing_text import PART_CHARACTERS, Chunk, GrowingText, RedactedStream
from codriver.log.spill import SpillCapacity, SpillStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping

    from codriver.log.redaction import Redactor


__all__ = [
    "Chunk",
    "GrowingText",
    "LateExcerpt",
    "LateOutput",
    "Part",
    "RedactedStream",
    "SpillCapacity",
    "SpillStore",
    "Transcript",
    "Transcripts",
    "read_transcripts",
]

T = TypeVar("T")

MAX_LATE_EXCERPT_CHARACTERS = 80
"""Maximum length of an excerpt of late output."""
MAX_LATE_OUTPUTS = 100
"""Maximum number of late outputs that are remembered."""
MAX_READERS = 256
"""Maximum number of readers for whom the server remembers which late output was reported."""
EXCESS_TRANSCRIPTS_DIVISOR = 16
"""The maximum number of transcripts divided by this is the number of additional ones that may be stored.

Above that number, all additional transcripts are dropped at once.
"""

Part = Literal["result", "stdout", "stderr", "stacks"]
"""The parts of a transcript. `stacks` is a thread dump taken just before the evaluation was interrupted."""


class Transcript:
    """The values, output and error output of one evaluation. All strings are redacted.

    - `result` contains the values of the evaluation's forms, one per line.
    - `first_line` and `last_line` are line numbers of the output log.
    - `requested` identifies the code and where it ran.
    - `before` is the id of the previous evaluation with an equal `requested`.
    - `head` is the beginning of the code.
    """

    def __init__(
        self,
        evaluation: str,
        store: SpillStore,
        redactor: Redactor,
        age: int,
        requested: Hashable = None,
        before: str | None = None,
        code: str = "",
    ) -> None:
        self.evaluation = evaluation
        # Redacted before it is truncated, as half of a secret would not be recognized.
        self.head = redactor(code)[:MAX_HEAD_CHARACTERS]
        self.requested = requested
        self.before = before
        self.result = GrowingText(store, f"{evaluation}.result", age)
        self._streams: dict[str, RedactedStream] = {}
        """The streams that were written to or read, by name. Most evaluations print nothing."""
        self._age = age
        self._is_forgotten = False
        self._store = store
        self._redactor = redactor
        self._value_starts: list[int] = []
        self.stacks = ""
        """A thread dump from just before an interrupt."""
        self.user_stacks = ""
        """The part of the thread dump that concerns the user's code."""
        self.server_cut = False
        """Whether the REPL itself shortened a value."""
        self.cuts: dict[int, tuple[str, bool]] = {}
        """The omitted part of each value, by value number from 1, and whether the REPL stores the whole value."""
        self.first_line: int | None = None
        self.last_line: int | None = None
        self._reported: ReportedPositions | None = None
        self._turn: asyncio.Lock | None = None
        self._waiting: list[asyncio.Future[None]] = []
        """One future per waiting task, which takes half as many calls as an asyncio event, and a sixth as many as an
        anyio event."""

    @property
    def out(self) -> RedactedStream:
        """Return the standard output."""
        return self._stream("stdout")

    @property
    def err(self) -> RedactedStream:
        """Return the error output."""
        return self._stream("stderr")

    def _stream(self, name: Literal["stdout", "stderr"]) -> RedactedStream:
        known = self._streams.get(name)
        if known is None:
            new = RedactedStream(self._store, f"{self.evaluation}.{name}", self._age, self._redactor)
            if self._is_forgotten:
                new.discard()
            # Atomic, because any thread may read.
            known = self._streams.setdefault(name, new)
        return known

    def reported_positions(self, caller: Hashable) -> Mapping[str, int]:
        """Return the number of characters of each part that were reported to a caller."""
        return NO_POSITIONS if self._reported is None else self._reported.get(caller)

    def record_reported(self, caller: Hashable, positions: Mapping[str, int]) -> None:
        """Record that the parts were reported to a caller up to these positions."""
        if self._reported is None:
            self._reported = ReportedPositions()
        self._reported.advance(caller, positions)

    @property
    def answer_lock(self) -> asyncio.Lock:
        """Return a lock to hold while creating an answer, so that concurrent answers do not report the same text."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    @property
    def has_printed(self) -> bool:
        """Return whether the evaluation has printed anything."""
        # Copied atomically, because another thread may be adding a stream.
        return bool(self._streams) and any(stream.total for stream in list(self._streams.values()))

    @property
    def total_characters(self) -> int:
        """Return the number of characters in all values and output, including dropped ones."""
        printed = sum([stream.total for stream in list(self._streams.values())]) if self._streams else 0
        return self.result.total + printed

    @property
    def is_in_memory(self) -> bool:
        """Return whether the whole transcript can be read without disk access."""
        if self.total_characters < PART_CHARACTERS:  # shorter strings are never written to the disk
            return True
        return self.result.is_in_memory and self.out.is_in_memory and self.err.is_in_memory

    def end_streams(self) -> list[tuple[str, bool]]:
        """Store the output that was withheld by redaction, and return each string and whether it is error output."""
        if not self._streams:
            return []
        return [(rest, stream is not self.out) for stream in (self.out, self.err) if (rest := stream.end())]

    def add_value(self, text: str) -> str:
        """Store the value of a form, and return it redacted."""
        seen = self._redactor(text)
        if self._value_starts:
            self.result.add("\n")
        self._value_starts.append(self.result.total)
        self.result.add(seen)
        return seen

    def record_truncation(self, description: str, *, is_stored: bool) -> None:
        """Record what printing left out of the last value, and whether the REPL stores the whole value."""
        self.cuts[len(self._value_starts)] = self._redactor(description), is_stored

    def store_stacks(self, dump: str, user_part: str) -> None:
        """Store a thread dump, and the part of it that concerns the user's code."""
        self.stacks, self.user_stacks = self._redactor(dump), self._redactor(user_part)

    @property
    def value_count(self) -> int:
        """Return the number of values added so far."""
        return len(self._value_starts)

    def values(self) -> list[range]:
        """Return the range of each value in `result`.

        Values whose beginning was dropped are left out, except that the rest of the last value is always included.
        """
        starts, total, dropped = self._value_starts, self.result.total, self.result.dropped
        if len(starts) == 1:
            return [range(max(starts[0], dropped), total)]
        ends = [*(start - 1 for start in starts[1:]), total]
        positions = [range(max(start, dropped), end) for start, end in zip(starts, ends, strict=False)]
        whole = [position for start, position in zip(starts, positions[:-1], strict=False) if position.start == start]
        return whole + positions[-1:]

    def text(self, part: Part) -> GrowingText:
        """Return a part of the transcript as a `GrowingText`. For `stacks`, it is a copy."""
        if part == "stacks":
            copy = GrowingText(SpillStore(len(self.stacks)), "stacks", 0)
            copy.add(self.stacks)
            return copy
        return {"result": self.result, "stdout": self.out, "stderr": self.err}[part]

    def chunk(self, part: Part, start: int, length: int) -> Chunk:
        """Return `length` characters of a part from position `start` on. Positions include dropped characters."""
        return self.text(part).read(start, max(0, start) + length)

    @property
    def loss_reason(self) -> str:
        """Return the reason why characters were dropped, as a clause such as "because only the newest are kept"."""
        issue = self._store.issue.why
        return "because only the newest are kept" + (
            f" in memory while the disk cannot be written ({issue})" if issue else ""
        )

    def record_log_line(self, line: int) -> None:
        """Record the line number of a log entry of this evaluation."""
        if self.first_line is None:
            self.first_line = line
        self.last_line = line

    def notify_change(self) -> None:
        """Wake all tasks waiting for a change."""
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():  # it may have been cancelled
                future.set_result(None)

    def next_change(self) -> Awaitable[None]:
        """Return a future that completes with the next `notify_change`. Only one task may await it, and immediately."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def discard(self) -> None:
        """Drop all strings in memory and on disk, and ignore text that is added later."""
        self._is_forgotten = True
        for text in (self.result, *self._streams.values()):
            text.discard()


@dataclass(frozen=True, slots=True)
class LateExcerpt:
    """An excerpt of output that was printed after its evaluation had finished, or outside any evaluation."""

    source: str
    """The id of the evaluation, or the key of the REPL if there is none."""
    is_evaluation: bool
    first_line: int
    last_line: int
    newlines: int
    is_finished: bool
    """Whether the output ends with a line ending."""
    head: str

    @property
    def count(self) -> int:
        """Return the number of lines, including an unfinished last line."""
        return self.newlines + (not self.is_finished)


class LateOutput:
    """Output from background threads and tasks, and how much of it each reader has seen.

    Only the newest output and the latest readers are remembered. Output from before a reader's first call of `report`
    is not reported to it.
    """

    def __init__(self) -> None:
        self._all: deque[LateExcerpt] = deque(maxlen=MAX_LATE_OUTPUTS)
        self._reported: Recent[Hashable, int] = Recent(MAX_READERS)
        self._newest_reported = 0

    def add(self, source: str, text: str, line: int, *, is_evaluation: bool) -> None:
        """Record output that was logged at `line`. `source` is the id of an evaluation or the key of a REPL."""
        head = truncate(" ".join(text[: 4 * MAX_LATE_EXCERPT_CHARACTERS].split()), MAX_LATE_EXCERPT_CHARACTERS)
        ends, newlines = text.endswith("\n"), text.count("\n")
        last = self._all[-1] if self._all else None
        if last is not None and last.source == source and last.last_line > self._newest_reported:
            more = replace(last, last_line=line, newlines=last.newlines + newlines, is_finished=ends)
            self._all[-1] = more if last.head else replace(more, head=head)
        else:
            self._all.append(LateExcerpt(source, is_evaluation, line, line, newlines, ends, head))

    def report(self, reader: Hashable) -> list[LateExcerpt]:
        """Return the output that this reader has not seen, oldest first, and record it as seen."""
        last_reported, newest = self._reported.get(reader), self._all[-1].last_line if self._all else 0
        self._reported[reader] = self._newest_reported = newest
        if last_reported is None or last_reported == newest:
            return []
        return [late for late in self._all if late.first_line > last_reported]


async def read_transcripts(work: Callable[[], T], *transcripts: Transcript) -> T:
    """Call `work`, which reads these transcripts, and return its result. If reading needs the disk, use a thread."""
    for transcript in transcripts:
        if not transcript.is_in_memory:
            return await anyio.to_thread.run_sync(work)
    return work()


class Transcripts:
    """The transcripts of a server's evaluations, by evaluation id.

    At least the `stored` newest finished transcripts are retained, as long as all strings take at most `max_bytes` in
    memory. The oldest are dropped first. Long strings are written to disk within `capacity`. If they cannot be written,
    at most `max_stream_bytes` per stream stay in memory, and older output is dropped and counted. Sizes in memory are
    in characters, because most text is ASCII.
    """

    def __init__(
        self,
        *,
        stored: int,
        max_bytes: int,
        max_stream_bytes: int,
        redactor: Redactor,
        capacity: SpillCapacity | None = None,
    ) -> None:
        self._stored = stored
        self._max_bytes = max_bytes
        self._redactor = redactor
        self.store = SpillStore(max_stream_bytes, capacity)
        self.late = LateOutput()
        self._all: OrderedDict[str, Transcript] = OrderedDict()
        self.get: Callable[[str], Transcript | None] = self._all.get
        """Return the transcript of an evaluation, or None if it was never opened or has been forgotten."""
        self._newest: dict[Hashable, str] = {}
        """The newest retained evaluation for each code and location."""
        self._over: OrderedDict[str, None] = OrderedDict()
        self._opened = 0

    def redact(self, value: object, *, shows_sensitive: bool = False) -> object:
        """Redact a JSON value. Call this before truncating the value, because half of a secret is not recognized.

        With `shows_sensitive`, strings that applications declared sensitive are not redacted.
        """
        return self._redactor.redact_json(value, shows_sensitive=shows_sensitive)

    def redact_beginning(self, text: str, most: int, *, is_whole: bool) -> str:
        """Return the first `most` characters of a string, redacted.

        Unless `is_whole`, the string is itself only a beginning, so a partial secret at its end is removed too.
        """
        seen = self._redactor(text) if is_whole else self._redactor.new_stream_redactor().feed(text)
        return seen if is_whole and len(seen) <= most else f"{seen[: most - 1]}…"

    def open(self, evaluation: str, requested: Hashable = None, code: str = "") -> Transcript:
        """Create and return the transcript of a new evaluation.

        `requested` identifies the code and where it runs, so that the transcript can refer to the previous evaluation
        with an equal value. If it is None, there is no such evaluation. Only the beginning of `code` is stored.
        """
        self._opened += 1
        before = self._newest.get(requested)
        transcript = Transcript(evaluation, self.store, self._redactor, self._opened, requested, before, code)
        self._all[evaluation] = transcript
        if requested is not None:
            self._newest[requested] = evaluation
        return transcript

    def mark_finished(self, evaluation: str) -> None:
        """Record that an evaluation has finished, so that its transcript may be dropped to limit memory."""
        if evaluation not in self._all:
            return
        self._over[evaluation] = None
        # Forget several together, so that only a few callers wait for it.
        if (
            len(self._over) <= self._stored + self._stored // EXCESS_TRANSCRIPTS_DIVISOR
            and self.store.stored <= self._max_bytes
        ):
            return
        while len(self._over) > 1 and (
            len(self._over) > self._stored or self.store.resident_characters > self._max_bytes
        ):
            oldest, _ = self._over.popitem(last=False)
            gone = self._all.pop(oldest)
            gone.discard()
            if self._newest.get(gone.requested) == oldest:
                del self._newest[gone.requested]


MAX_CALLERS: Final = 64
"""Maximum number of callers per transcript. Beyond this number, the least recent caller gets all the output again."""
NO_POSITIONS: Final[Mapping[str, int]] = MappingProxyType({})
"""The positions of a caller that has not received any output."""


class ReportedPositions:
    """The number of characters of each part of a transcript that were reported to each caller."""

    def __init__(self) -> None:
        self._positions: Recent[Hashable, dict[str, int]] = Recent(MAX_CALLERS)

    def get(self, caller: Hashable) -> Mapping[str, int]:
        """Return the reported positions of a caller. Parts that were never reported are missing."""
        return self._positions.get(caller, NO_POSITIONS)

    def advance(self, caller: Hashable, positions: Mapping[str, int]) -> None:
        """Record that the parts were reported up to these positions. Positions never decrease."""
        known = self._positions.get(caller, {})
        self._positions[caller] = known | {
            part: max(position, known.get(part, 0)) for part, position in positions.items()
        }
