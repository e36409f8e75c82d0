"""Transcripts of evaluations: values, output and error output as text, while they run and afterwards.

Short texts are in memory. Of long ones the newest part is, and the rest lies in files that end with the server. The
places up to which callers were told each text are noted, so that each byte is told once.
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
from codriver.log.growing_text import PART_CHARACTERS, Piece, Stream, Text
from codriver.log.spill import SpillRoom, Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Mapping

    from codriver.log.redaction import Redactor


__all__ = [
    "Late",
    "LateOutput",
    "Part",
    "Piece",
    "SpillRoom",
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
"""Of the transcripts held, one in so many is over when they are forgotten."""

Part = Literal["result", "stdout", "stderr", "stacks"]
"""`stacks`: what the REPL's threads did when the evaluation was about to be interrupted."""


class Transcript:
    """Transcript of one evaluation: its output, and as `result` the values of its forms, one a line.

    `first_line` and `last_line` are in the output log. `asked` stands for what was evaluated and where; `before` is the
    id of the evaluation before it that asked the same. `head` is the beginning of the code. No text of it has secrets.
    """

    def __init__(
        self,
        evaluation: str,
        store: Store,
        redactor: Redactor,
        age: int,
        asked: Hashable = None,
        before: str | None = None,
        code: str = "",
    ) -> None:
        self.evaluation = evaluation
        # Secrets are taken out before it is cut: half of one would not be known for what it is.
        self.head = redactor(code)[:HEAD_CHARACTERS]
        self.asked = asked
        self.before = before
        self.result = Text(store, f"{evaluation}.result", age)
        self._streams: dict[str, Stream] = {}
        """The streams that somebody wrote to, or looked into: most evaluations print nothing."""
        self._age = age
        self._is_forgotten = False
        self._store = store
        self._redactor = redactor
        self._value_starts: list[int] = []
        self.stacks = ""
        """A thread dump from before an interrupt."""
        self.own_stacks = ""
        """Of that, what is in the user's own code."""
        self.server_cut = False
        """Whether the REPL itself shortened a value."""
        self.cuts: dict[int, tuple[str, bool]] = {}
        """By the number of the value, from 1: what printing left out, in words, and whether the REPL keeps it."""
        self.first_line: int | None = None
        self.last_line: int | None = None
        self._told: ToldPlaces | None = None
        self._turn: asyncio.Lock | None = None
        self._waiting: list[asyncio.Future[None]] = []
        """One for each that waits for a change: an event of asyncio takes twice as many calls, anyio's six times."""

    @property
    def out(self) -> Stream:
        """Its output."""
        return self._stream("stdout")

    @property
    def err(self) -> Stream:
        """Its error output."""
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

    def told_to(self, caller: Hashable) -> Mapping[str, int]:
        """The number of characters of each part that this caller was told."""
        return NOWHERE if self._told is None else self._told.of(caller)

    def tell(self, caller: Hashable, places: Mapping[str, int]) -> None:
        """An answer that tells parts up to these places was handed out to this caller."""
        if self._told is None:
            self._told = ToldPlaces()
        self._told.move(caller, places)

    @property
    def turn(self) -> asyncio.Lock:
        """Held while an answer about it is made: of two that are asked at once, the second tells what is new then."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        return self._turn

    @property
    def has_printed(self) -> bool:
        """Whether anything was printed."""
        # In one step, as another thread may look into a stream for the first time.
        return bool(self._streams) and any(stream.total for stream in list(self._streams.values()))

    @property
    def total(self) -> int:
        """The characters of values, output and error output together, with those that were dropped."""
        printed = sum([stream.total for stream in list(self._streams.values())]) if self._streams else 0
        return self.result.total + printed

    @property
    def is_in_memory(self) -> bool:
        """Whether reading any of it needs no disk."""
        if self.total < PART_CHARACTERS:  # what is shorter never goes to the disk
            return True
        return self.result.is_in_memory and self.out.is_in_memory and self.err.is_in_memory

    def end_streams(self) -> list[tuple[str, bool]]:
        """Add what was kept back of what was printed, and give it, each with whether it is of errors."""
        if not self._streams:
            return []
        return [(rest, stream is not self.out) for stream in (self.out, self.err) if (rest := stream.end())]

    def add_value(self, text: str) -> str:
        """Add the value of one more form; what of it may be seen."""
        seen = self._redactor(text)
        if self._value_starts:
            self.result.add("\n")
        self._value_starts.append(self.result.total)
        self.result.add(seen)
        return seen

    def keep_cut(self, words: str, *, is_kept: bool) -> None:
        """Printing left something out of the value that was added last."""
        self.cuts[len(self._value_starts)] = self._redactor(words), is_kept

    def keep_stacks(self, whole: str, own: str) -> None:
        """Keep a thread dump, and of that what is in the user's own code."""
        self.stacks, self.own_stacks = self._redactor(whole), self._redactor(own)

    @property
    def value_count(self) -> int:
        """The number of values so far."""
        return len(self._value_starts)

    def values(self) -> list[range]:
        """The place of each value in `result`, in order: those held whole, and what is held of the last."""
        starts, total, dropped = self._value_starts, self.result.total, self.result.dropped
        if len(starts) == 1:
            return [range(max(starts[0], dropped), total)]
        ends = [*(start - 1 for start in starts[1:]), total]
        places = [range(max(start, dropped), end) for start, end in zip(starts, ends, strict=False)]
        whole = [place for start, place in zip(starts, places[:-1], strict=False) if place.start == start]
        return whole + places[-1:]

    def text(self, part: Part) -> Text:
        """A part as a text; of `stacks` a copy."""
        if part == "stacks":
            copy = Text(Store(len(self.stacks)), "stacks", 0)
            copy.add(self.stacks)
            return copy
        return {"result": self.result, "stdout": self.out, "stderr": self.err}[part]

    def piece(self, part: Part, start: int, length: int) -> Piece:
        """A piece of so many characters of a part from `start` on, all its characters counted, also those not held."""
        return self.text(part).read(start, max(0, start) + length)

    @property
    def loss(self) -> str:
        """Why characters are dropped, in words that can follow that they were."""
        trouble = self._store.trouble.why
        return "as no more is kept" + (f" in memory while the disk cannot be written ({trouble})" if trouble else "")

    def saw_line(self, line: int) -> None:
        """An entity of this evaluation was logged at `line`."""
        if self.first_line is None:
            self.first_line = line
        self.last_line = line

    def signal(self) -> None:
        """Wake all that wait for a change."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():  # whoever was cancelled waits no more
                one.set_result(None)

    def change(self) -> Awaitable[None]:
        """The next `signal`, to be awaited at once, by one alone."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        return waiting

    def forget(self) -> None:
        """Hold nothing any more."""
        self._is_forgotten = True
        for text in (self.result, *self._streams.values()):
            text.forget()


@dataclass(frozen=True, slots=True)
class Late:
    """Output that came when its evaluation was over, or of none: so many lines, from a line of the log on."""

    source: str
    """The evaluation, or the key of the REPL where there is none."""
    is_evaluation: bool
    first_line: int
    last_line: int
    newlines: int
    is_ended: bool
    """Whether its last line is."""
    head: str

    @property
    def count(self) -> int:
        """The number of lines printed, one that has begun among them."""
        return self.newlines + (not self.is_ended)


class LateOutput:
    """Late output of background threads and tasks, and how far each reader was told of it, for the life of a server.

    The newest of it, and the readers that were told last: who is not among them is told of what comes from then on.
    """

    def __init__(self) -> None:
        self._all: deque[Late] = deque(maxlen=MAX_LATE)
        self._told: Recent[Hashable, int] = Recent(MAX_READERS)
        self._newest_told = 0

    def add(self, source: str, text: str, line: int, *, is_evaluation: bool) -> None:
        """Something was printed, and logged at this line."""
        head = cut(" ".join(text[: 4 * LATE_CHARACTERS].split()), LATE_CHARACTERS)
        ends, newlines = text.endswith("\n"), text.count("\n")
        last = self._all[-1] if self._all else None
        if last is not None and last.source == source and last.last_line > self._newest_told:
            more = replace(last, last_line=line, newlines=last.newlines + newlines, is_ended=ends)
            self._all[-1] = more if last.head else replace(more, head=head)
        else:
            self._all.append(Late(source, is_evaluation, line, line, newlines, ends, head))

    def tell(self, reader: Hashable) -> list[Late]:
        """The output that this reader was not told of, the oldest first; now it is."""
        before, newest = self._told.get(reader), self._all[-1].last_line if self._all else 0
        self._told[reader] = self._newest_told = newest
        if before is None or before == newest:
            return []
        return [late for late in self._all if late.first_line > before]


async def read(work: Callable[[], T], *transcripts: Transcript) -> T:
    """Do `work`, which reads these transcripts: texts on the disk in a thread of its own."""
    for transcript in transcripts:
        if not transcript.is_in_memory:
            return await anyio.to_thread.run_sync(work)
    return work()


class Transcripts:
    """All transcripts of a server, by evaluation id, for its life. No secret that `redactor` knows is in any.

    A transcript lives from the moment its evaluation is accepted until it is forgotten: at least the `kept` newest are
    held, and together no more than `max_bytes` of text in memory, the oldest going first. What is long goes to the
    disk, where `room` says; what cannot go there is held in memory, `max_stream_bytes` of a stream, and what a program
    prints beyond that pushes out its oldest output, which is counted. In memory characters count, as most is ASCII.
    """

    def __init__(
        self, *, kept: int, max_bytes: int, max_stream_bytes: int, redactor: Redactor, room: SpillRoom | None = None
    ) -> None:
        self._kept = kept
        self._max_bytes = max_bytes
        self._redactor = redactor
        self.store = Store(max_stream_bytes, room)
        self.late = LateOutput()
        self._all: OrderedDict[str, Transcript] = OrderedDict()
        self.get: Callable[[str], Transcript | None] = self._all.get
        """The transcript of an evaluation, None when it was never opened or is forgotten."""
        self._newest: dict[Hashable, str] = {}
        """By what was asked: the newest evaluation of it that is held."""
        self._over: OrderedDict[str, None] = OrderedDict()
        self._opened = 0

    def cleared(self, value: object, *, shows_told: bool = False) -> object:
        """A JSON value without secrets: for what is to be cut, as the half of a secret is not known for one.

        With `shows_told`, what applications told to be sensitive stays.
        """
        return self._redactor.redact_json(value, shows_told=shows_told)

    def beginning(self, text: str, most: int, *, is_whole: bool) -> str:
        """The first `most` characters of a text without secrets; of one that was cut before without half of one."""
        seen = self._redactor(text) if is_whole else self._redactor.stream().feed(text)
        return seen if is_whole and len(seen) <= most else f"{seen[: most - 1]}…"

    def open(self, evaluation: str, asked: Hashable = None, code: str = "") -> Transcript:
        """A new transcript. `asked` stands for what is evaluated and where, None for what nothing is like.

        `code`: what is evaluated, of which it holds the head.
        """
        self._opened += 1
        before = self._newest.get(asked)
        transcript = Transcript(evaluation, self.store, self._redactor, self._opened, asked, before, code)
        self._all[evaluation] = transcript
        if asked is not None:
            self._newest[asked] = evaluation
        return transcript

    def mark_over(self, evaluation: str) -> None:
        """The evaluation is over: its transcript can be forgotten from now on, when others need the room."""
        if evaluation not in self._all:
            return
        self._over[evaluation] = None
        # Several at once, so that few of those who wait for an evaluation wait for this.
        if len(self._over) <= self._kept + self._kept // FORGOTTEN_PART and self.store.held <= self._max_bytes:
            return
        while len(self._over) > 1 and (len(self._over) > self._kept or self.store.staying_characters > self._max_bytes):
            oldest, _ = self._over.popitem(last=False)
            gone = self._all.pop(oldest)
            gone.forget()
            if self._newest.get(gone.asked) == oldest:
                del self._newest[gone.asked]


MOST_CALLERS: Final = 64
"""With more of them, the caller told longest ago begins again at 0, which `from` of the answer says."""
NOWHERE: Final[Mapping[str, int]] = MappingProxyType({})


class ToldPlaces:
    """By caller and part: the characters told, counted from the first. Lives as long as its transcript."""

    def __init__(self) -> None:
        self._places: Recent[Hashable, dict[str, int]] = Recent(MOST_CALLERS)

    def of(self, caller: Hashable) -> Mapping[str, int]:
        """The places of one caller, by part; a part without a place was never told."""
        return self._places.get(caller, NOWHERE)

    def move(self, caller: Hashable, places: Mapping[str, int]) -> None:
        """An answer that tells up to these places was handed out. No place ever moves back."""
        known = self._places.get(caller, {})
        self._places[caller] = known | {part: max(place, known.get(part, 0)) for part, place in places.items()}
