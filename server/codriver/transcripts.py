"""What evaluations said: their values, output and error output as text, while they run and afterwards.

A transcript lives from the moment its evaluation is accepted until it is forgotten: the `kept` newest are held, and
together no more than `max_bytes` of text, the oldest going first. A single stream holds at most
`max_stream_bytes`: what a program prints beyond that pushes out its oldest output, which is counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import anyio

if TYPE_CHECKING:
    from collections.abc import Hashable

Part = Literal["result", "stdout", "stderr", "stacks"]
"""`stacks`: what the REPL's threads did when the evaluation was about to be interrupted."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of a text, and how many characters of it were left out."""

    text: str
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a part. In characters: where it stands, how long the whole is, and how much of that is dropped."""

    text: str
    start: int
    total: int
    dropped: int


def head(text: str, max_bytes: int) -> Cut:
    """The longest beginning of `text` within `max_bytes` of UTF-8, on a character boundary."""
    if len(text) * 4 <= max_bytes:
        return Cut(text)
    raw = text[: max_bytes + 1].encode("utf-8", "replace")  # a character has at least one byte
    if len(raw) <= max_bytes:
        return Cut(text)
    kept = raw[:max_bytes].decode("utf-8", "ignore")
    return Cut(kept, len(text) - len(kept))


def tail(text: str, max_bytes: int) -> Cut:
    """The longest end of `text` within `max_bytes` of UTF-8, on a character boundary."""
    if len(text) * 4 <= max_bytes:
        return Cut(text)
    raw = text[-max_bytes - 1 :].encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return Cut(text)
    kept = raw[len(raw) - max_bytes :].decode("utf-8", "ignore")
    return Cut(kept, len(text) - len(kept))


class StreamRedactor(Protocol):
    """Takes secrets out of a text that comes in chunks, also where a chunk ends within one."""

    def feed(self, chunk: str) -> str:
        """What can go out now."""

    def flush(self) -> str:
        """What was kept back, as no more comes."""


class Redactor(Protocol):
    """Takes secrets out of texts."""

    def __call__(self, text: str) -> str:
        """The text without secrets."""

    def stream(self) -> StreamRedactor:
        """The same for a text that comes in chunks."""


class Stream:
    """Text that grows, without secrets. Beyond `max_bytes` its oldest pieces are dropped, and counted in `dropped`.

    What may be the beginning of a secret is kept back until more comes, or the end.
    """

    def __init__(self, max_bytes: int, redactor: StreamRedactor) -> None:
        self._max_bytes = max_bytes
        self._redactor = redactor
        self._pieces: deque[str] = deque()
        self.size = 0
        """About how many bytes are held: characters, as most text is ASCII."""
        self.dropped = 0
        """In characters."""

    def append(self, text: str) -> str:
        """Add `text` at the end; what of it, and of what was kept back, may be seen."""
        return self._add(self._redactor.feed(text))

    def end(self) -> str:
        """Add what was kept back, and give it: nothing comes that could make it a secret."""
        return self._add(self._redactor.flush())

    def _add(self, text: str) -> str:
        if not text:
            return text
        self._pieces.append(text)
        self.size += len(text)
        while self.size > self._max_bytes and len(self._pieces) > 1:
            gone = len(self._pieces.popleft())
            self.size -= gone
            self.dropped += gone
        return text

    def text(self) -> str:
        """All that is held, as one string."""
        if len(self._pieces) > 1:
            whole = "".join(self._pieces)
            self._pieces.clear()
            self._pieces.append(whole)
        return self._pieces[0] if self._pieces else ""


class Transcript:
    """What one evaluation said. `values` holds one text a form; `first_line` and `last_line` are in the output log.

    `asked` stands for what was evaluated and where; `before` is the id of the evaluation before it that asked the same.
    """

    def __init__(
        self,
        evaluation: str,
        max_stream_bytes: int,
        redactor: Redactor,
        asked: Hashable = None,
        before: str | None = None,
    ) -> None:
        self.evaluation = evaluation
        self.asked = asked
        self.before = before
        self.out = Stream(max_stream_bytes, redactor.stream())
        self.err = Stream(max_stream_bytes, redactor.stream())
        self.values: list[str] = []
        self._max_value_bytes = max_stream_bytes
        self._value_bytes = 0
        self._dropped_of_values = 0
        self.stacks = ""
        """A thread dump from before an interrupt."""
        self.own_stacks = ""
        """Of that, what is in the user's own code."""
        self.server_cut = False
        """Whether the REPL itself shortened a value."""
        self.first_line: int | None = None
        self.last_line: int | None = None
        self._changed = anyio.Event()

    @property
    def size(self) -> int:
        """About how many bytes it holds."""
        return self.out.size + self.err.size + len(self.stacks) + self._value_bytes

    def add_value(self, text: str) -> None:
        """Add the value of one more form. Together values are kept within the size of a stream, the oldest going."""
        self.values.append(text)
        self._value_bytes += len(text)
        while self._value_bytes > self._max_value_bytes and len(self.values) > 1:
            gone = len(self.values.pop(0))
            self._value_bytes -= gone
            self._dropped_of_values += gone + 1  # and its newline

    def dropped(self, part: Part) -> int:
        """How many characters of a part, its oldest, are not held any more."""
        if part == "result":
            return self._dropped_of_values
        return {"stdout": self.out.dropped, "stderr": self.err.dropped}.get(part, 0)

    def piece(self, part: Part, start: int, length: int | None) -> Piece:
        """So many characters of a part from the place `start`, all its characters counted, also those not held."""
        text, dropped = self.part(part), self.dropped(part)
        begin = max(0, start, dropped)
        end = None if length is None else max(begin, max(0, start) + length) - dropped
        return Piece(text[begin - dropped : end], begin, dropped + len(text), dropped)

    def saw_line(self, line: int) -> None:
        """An entity of this evaluation was logged at `line`."""
        if self.first_line is None:
            self.first_line = line
        self.last_line = line

    def part(self, part: Part) -> str:
        """The whole text of one part as far as it is held; several values one a line."""
        if part == "result":
            return "\n".join(self.values)
        if part == "stacks":
            return self.stacks
        return (self.out if part == "stdout" else self.err).text()

    def signal(self) -> None:
        """Wake all that wait for a change."""
        self._changed.set()
        self._changed = anyio.Event()

    async def wait_changed(self) -> None:
        """Wait for the next `signal`."""
        await self._changed.wait()


class Transcripts:
    """The transcripts of a server's life, by evaluation id. No secret that `redactor` knows is in any."""

    def __init__(self, *, kept: int, max_bytes: int, max_stream_bytes: int, redactor: Redactor) -> None:
        self._kept = kept
        self._max_bytes = max_bytes
        self._max_stream_bytes = max_stream_bytes
        self.redactor = redactor
        self._all: OrderedDict[str, Transcript] = OrderedDict()
        self._newest: dict[Hashable, str] = {}
        """By what was asked: the newest evaluation of it that is held."""
        self._settled_bytes: OrderedDict[str, int] = OrderedDict()
        self._total_settled = 0

    def open(self, evaluation: str, asked: Hashable = None) -> Transcript:
        """A new, empty transcript. `asked` stands for what is evaluated and where, None for what nothing is like."""
        transcript = Transcript(evaluation, self._max_stream_bytes, self.redactor, asked, self._newest.get(asked))
        self._all[evaluation] = transcript
        if asked is not None:
            self._newest[asked] = evaluation
        return transcript

    def get(self, evaluation: str) -> Transcript | None:
        """The transcript, None when it was never opened or is forgotten."""
        return self._all.get(evaluation)

    def settle(self, evaluation: str) -> None:
        """The evaluation is over: its transcript counts against the limits from now on."""
        transcript = self._all.get(evaluation)
        if transcript is None:
            return
        self._total_settled += transcript.size - self._settled_bytes.pop(evaluation, 0)
        self._settled_bytes[evaluation] = transcript.size
        while len(self._settled_bytes) > 1 and (
            len(self._settled_bytes) > self._kept or self._total_settled > self._max_bytes
        ):
            oldest, size = self._settled_bytes.popitem(last=False)
            self._total_settled -= size
            gone = self._all.pop(oldest)
            if self._newest.get(gone.asked) == oldest:
                del self._newest[gone.asked]

    @property
    def held_bytes(self) -> int:
        """About how many bytes of text are held of evaluations that are over."""
        return self._total_settled
