"""Transcripts of evaluations: values, output and error output as text, while they run and afterwards.

Short strings are in memory. Long ones have their newest part in memory, and the rest in files that end with the server.
The places up to which callers were told each text are noted, so that each byte is told once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeVar

import anyio

from codriver.core.evaluation_queue import HEAD_CHARACTERS
from codriver.core.records import Recent
from codriver.errors import cut
from codriver.log.growing_text import PART_CHARACTERS, Chunk, Stream, Text
from codriver.log.spill import SpillCapacity, Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping

    from codriver.log.redaction import Redactor


__all__ = [
    "Chunk",
    "Late",
    "LateOutput",
    "Part",
    "SpillCapacity",
    "Store",
    "Stream",
    "Text",
    "Transcript",
    "Transcripts",
    "read",
]

T = TypeVar("T")

LATE_CHARACTERS = 80
MAX_LATE = 100
MAX_READERS = 256
FORGOTTEN_PART = 16
"""One in so many of the transcripts held is over when they are forgotten."""

Part = Literal["result", "stdout", "stderr", "stacks"]
"""`stacks`: the threads of the REPL just before an interrupt of the evaluation."""


class Transcript:
    """Transcript of one evaluation: its output, and as `result` the values of its forms, one a line.

    `first_line` and `last_line` are in the output log. `asked` stands for the code and its place; `before` is the id of
    the previous evaluation of the same. `head` is the beginning of the code. No text of it has secrets.
    """

    def __init__(
        self,
        evaluation: str,
        store: Store,
        redactor: Redactor,
        age: int,
        requested: Hashable = None,
        before: str | None = None,
        code: str = "",
    ) -> None:
        self.evaluation = evaluation
        # Secrets are taken out before the cut: half of a secret would not be recognised.
        self.head = redactor(code)[:HEAD_CHARACTERS]
        self.requested = requested
        self.before = before
        self.result = Text(store, f"{evaluation}.result", age)
        self._streams: dict[str, Stream] = {}
        """The streams that were written to, or read: most evaluations print nothing."""
        self._age = age
        self._is_forgotten = False
        self._store = store
        self._redactor = redactor
        self._value_starts: list[int] = []
        self.stacks = ""
        """A thread dump from before an interrupt."""
        self.user_stacks = ""
        """The part of the thread dump in the user's own code."""
        self.server_cut = False
        """Whether the REPL itself shortened a value."""
        self.cuts: dict[int, tuple[str, bool]] = {}
        """By the number of the value, from 1: the parts that printing left out, in words, and whether the REPL keeps
        it."""
        self.first_line: int | None = None
        self.last_line: int | None = None
        self._reported: ReportedPositions | None = None
        self._turn: asyncio.Lock | None = None
        self._waiting: list[asyncio.Future[None]] = []
        """One future for each waiting task: an event of asyncio takes twice as many calls, anyio's six times."""

    @property
    def out(self) -> Stream:
        """Return its output."""
        return self._stream("stdout")

    @property
    def err(self) -> Stream:
        """Return its error output."""
        return self._stream("stderr")

    def _stream(self, name: Literal["stdout", "stderr"]) -> Stream:
        known = self._streams.get(name)
        if known is None:
            new = Stream(self._store, f"{self.evaluation}.{name}", self._age, self._redactor)
            if self._is_forgotten:
                new.forget()
            # In one step, as any thread may read.
            known = self._streams.setdefault(name, new)
        return known

    def reported_to(self, caller: Hashable) -> Mapping[str, int]:
        """Return the number of characters of each part that this caller was told."""
        return NOWHERE if self._reported is None else self._reported.of(caller)

    def report(self, caller: Hashable, positions: Mapping[str, int]) -> None:
        """Note that an answer with the parts up to these places was handed out to this caller."""
        if self._reported is None:
            self._reported = ReportedPositions()
        self._reported.move(caller, positions)

    @property
    def turn(self) -> asyncio.Lock:
        """Return a lock to hold while an answer is made, so that a simultaneous one reports only what is new."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    @property
    def has_printed(self) -> bool:
        """Return whether the evaluation has printed anything."""
        # In one step, as another thread may look into a stream for the first time.
        return bool(self._streams) and any(stream.total for stream in list(self._streams.values()))

    @property
    def total(self) -> int:
        """Return the characters of values, output and error output together, the dropped ones included."""
        printed = sum([stream.total for stream in list(self._streams.values())]) if self._streams else 0
        return self.result.total + printed

    @property
    def is_in_memory(self) -> bool:
        """Return whether the whole transcript can be read without the disk."""
        if self.total < PART_CHARACTERS:  # a shorter text never goes to the disk
            return True
        return self.result.is_in_memory and self.out.is_in_memory and self.err.is_in_memory

    def end_streams(self) -> list[tuple[str, bool]]:
        """Add the output kept back, and give it, each text with whether it is error output."""
        if not self._streams:
            return []
        return [(rest, stream is not self.out) for stream in (self.out, self.err) if (rest := stream.end())]

    def add_value(self, text: str) -> str:
        """Add the value of one more form; the part of it that may be seen."""
        seen = self._redactor(text)
        if self._value_starts:
            self.result.add("\n")
        self._value_starts.append(self.result.total)
        self.result.add(seen)
        return seen

    def retain_cut(self, words: str, *, is_stored: bool) -> None:
        """Note the parts that printing left out of the last added value."""
        self.cuts[len(self._value_starts)] = self._redactor(words), is_stored

    def retain_stacks(self, whole: str, own: str) -> None:
        """Keep a thread dump, and the part of it in the user's own code."""
        self.stacks, self.user_stacks = self._redactor(whole), self._redactor(own)

    @property
    def value_count(self) -> int:
        """Return the number of values so far."""
        return len(self._value_starts)

    def values(self) -> list[range]:
        """Return the place of each value in `result`, in order: those held whole, and the rest of the last."""
        starts, total, dropped = self._value_starts, self.result.total, self.result.dropped
        if len(starts) == 1:
            return [range(max(starts[0], dropped), total)]
        ends = [*(start - 1 for start in starts[1:]), total]
        positions = [range(max(start, dropped), end) for start, end in zip(starts, ends, strict=False)]
        whole = [position for start, position in zip(starts, positions[:-1], strict=False) if position.start == start]
        return whole + positions[-1:]

    def text(self, part: Part) -> Text:
        """Return a part as a string; of `stacks` a copy."""
        if part == "stacks":
            copy = Text(Store(len(self.stacks)), "stacks", 0)
            copy.add(self.stacks)
            return copy
        return {"result": self.result, "stdout": self.out, "stderr": self.err}[part]

    def chunk(self, part: Part, start: int, length: int) -> Chunk:
        """Return `length` characters of a part from `start` on, counted in all characters, including dropped ones."""
        return self.text(part).read(start, max(0, start) + length)

    @property
    def loss(self) -> str:
        """Return the reason why characters are dropped, in words that can follow the verb."""
        issue = self._store.issue.why
        return "as no more is kept" + (f" in memory while the disk cannot be written ({issue})" if issue else "")

    def saw_line(self, line: int) -> None:
        """Note that an entity of this evaluation was logged at `line`."""
        if self.first_line is None:
            self.first_line = line
        self.last_line = line

    def signal(self) -> None:
        """Wake all tasks that wait for a change."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():  # a cancelled task waits no more
                one.set_result(None)

    def change(self) -> Awaitable[None]:
        """Return a future for the next `signal`, to be awaited at once, by one task alone."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def forget(self) -> None:
        """Drop all strings."""
        self._is_forgotten = True
        for text in (self.result, *self._streams.values()):
            text.forget()


@dataclass(frozen=True, slots=True)
class Late:
    """Output after the end of its evaluation, or of none: so many lines, from a line of the log on."""

    source: str
    """The evaluation; without one, the key of the REPL."""
    is_evaluation: bool
    first_line: int
    last_line: int
    newlines: int
    is_finished: bool
    """Whether the last line of the output is ended."""
    head: str

    @property
    def count(self) -> int:
        """Return the number of printed lines, an unfinished one among them."""
        return self.newlines + (not self.is_finished)


class LateOutput:
    """Late output of background threads and tasks, and how far each reader was told of it, for the life of a server.

    The newest of it, and the readers that were told last, are kept: any other reader is notified of later output only.
    """

    def __init__(self) -> None:
        self._all: deque[Late] = deque(maxlen=MAX_LATE)
        self._reported: Recent[Hashable, int] = Recent(MAX_READERS)
        self._newest_reported = 0

    def add(self, source: str, text: str, line: int, *, is_evaluation: bool) -> None:
        """Note an output that was logged at this line."""
        head = cut(" ".join(text[: 4 * LATE_CHARACTERS].split()), LATE_CHARACTERS)
        ends, newlines = text.endswith("\n"), text.count("\n")
        last = self._all[-1] if self._all else None
        if last is not None and last.source == source and last.last_line > self._newest_reported:
            more = replace(last, last_line=line, newlines=last.newlines + newlines, is_finished=ends)
            self._all[-1] = more if last.head else replace(more, head=head)
        else:
            self._all.append(Late(source, is_evaluation, line, line, newlines, ends, head))

    def tell(self, reader: Hashable) -> list[Late]:
        """Return the output that this reader was not told of, the oldest first; from now on it counts as told."""
        before, newest = self._reported.get(reader), self._all[-1].last_line if self._all else 0
        self._reported[reader] = self._newest_reported = newest
        if before is None or before == newest:
            return []
        return [late for late in self._all if late.first_line > before]


async def read(work: Callable[[], T], *transcripts: Transcript) -> T:
    """Do `work`, which reads these transcripts: in a thread of its own for strings on the disk."""
    for transcript in transcripts:
        if not transcript.is_in_memory:
            return await anyio.to_thread.run_sync(work)
    return work()


class Transcripts:
    """All transcripts of a server, by evaluation id, for its life. No secret that `redactor` knows is in any.

    A transcript lives from the moment its evaluation is accepted until it is forgotten: at least the `stored` newest
    are retained, and together at most `max_bytes` of text in memory, where the oldest go first. Long strings go to the
    disk as far as `capacity` allows. Strings that cannot go there stay in memory, at most `max_stream_bytes` of a
    stream; output beyond that replaces the oldest, which is counted. In memory characters count, as most is ASCII.
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
        self.store = Store(max_stream_bytes, capacity)
        self.late = LateOutput()
        self._all: OrderedDict[str, Transcript] = OrderedDict()
        self.get: Callable[[str], Transcript | None] = self._all.get
        """The transcript of an evaluation, None for one that was never opened or is forgotten."""
        self._newest: dict[Hashable, str] = {}
        """By code and place: the newest evaluation of them that is held."""
        self._over: OrderedDict[str, None] = OrderedDict()
        self._opened = 0

    def cleared(self, value: object, *, shows_sensitive: bool = False) -> object:
        """Return a JSON value without secrets, to be cut: half of a secret would not be recognised.

        With `shows_sensitive`, strings that applications called sensitive stay.
        """
        return self._redactor.redact_json(value, shows_sensitive=shows_sensitive)

    def beginning(self, text: str, most: int, *, is_whole: bool) -> str:
        """Return the first `most` characters of a string without secrets.

        Of a string that was cut before without half of one.
        """
        seen = self._redactor(text) if is_whole else self._redactor.stream().feed(text)
        return seen if is_whole and len(seen) <= most else f"{seen[: most - 1]}…"

    def open(self, evaluation: str, requested: Hashable = None, code: str = "") -> Transcript:
        """Return a new transcript. `asked` stands for the code and its place, None for code that no other equals.

        `code`: the code, whose head is held.
        """
        self._opened += 1
        before = self._newest.get(requested)
        transcript = Transcript(evaluation, self.store, self._redactor, self._opened, requested, before, code)
        self._all[evaluation] = transcript
        if requested is not None:
            self._newest[requested] = evaluation
        return transcript

    def mark_over(self, evaluation: str) -> None:
        """Note the end of the evaluation: its transcript can be forgotten from now on, if others need the room."""
        if evaluation not in self._all:
            return
        self._over[evaluation] = None
        # Several at once, so that few of the tasks that wait for an evaluation wait for this.
        if len(self._over) <= self._stored + self._stored // FORGOTTEN_PART and self.store.stored <= self._max_bytes:
            return
        while len(self._over) > 1 and (
            len(self._over) > self._stored or self.store.staying_characters > self._max_bytes
        ):
            oldest, _ = self._over.popitem(last=False)
            gone = self._all.pop(oldest)
            gone.forget()
            if self._newest.get(gone.requested) == oldest:
                del self._newest[gone.requested]


MOST_CALLERS: Final = 64
"""The most callers; beyond them the one told longest ago begins again at 0, which `from` of the answer says."""
NOWHERE: Final[Mapping[str, int]] = MappingProxyType({})


class ReportedPositions:
    """By caller and part: the characters told, counted from the first. Lives as long as its transcript."""

    def __init__(self) -> None:
        self._positions: Recent[Hashable, dict[str, int]] = Recent(MOST_CALLERS)

    def of(self, caller: Hashable) -> Mapping[str, int]:
        """Return the places of one caller, by part; a part without a place was never told."""
        return self._positions.get(caller, NOWHERE)

    def move(self, caller: Hashable, positions: Mapping[str, int]) -> None:
        """Note that an answer up to these places was handed out. No place ever moves back."""
        known = self._positions.get(caller, {})
        self._positions[caller] = known | {
            part: max(position, known.get(part, 0)) for part, position in positions.items()
        }
