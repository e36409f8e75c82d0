"""Output of the commands, to people, programs and files: the only way to standard output and standard error.

On a terminal, control characters in any text become visible: the text may be a stranger's, and a terminal obeys the
characters sent to it. Colours are ours, and are put around such text. Piped output is for a program: it has the text
unchanged, and no colours unless the program asks for them. JSON is safe for both. Answers of a server are read with
suspicion: they may be another program's, or another version's, and say anything.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections import deque
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, RLock, Thread, Timer
from typing import TYPE_CHECKING

import click

from codriver.errors import CodriverError
from codriver.files import Links, whole_files
from codriver.log.control_characters import json_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

COLOUR = "codriver.colour"
"""The key under which a command's context keeps its `--color`."""
WAITING = "codriver.waiting"
"""The key under which a command's context keeps the line on its wait."""
PATIENCE_S = 2.0
"""How long a person waits without a word."""
TICK_S = 1.0
"""How often the clock behind the word is drawn."""
WORDS = re.compile(r"(\s*)(\S*)")
"""A word, and the space before it."""
ERASE = "\x1b[K"
"""The sequence that erases the rest of a line. Source: ECMA-48, EL."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A text, and its style on a terminal."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False


def say(*pieces: str | Styled, err: bool = False, end: str = "\n", hang: int | None = None) -> None:
    """Write the chunks as one text, to standard output or standard error.

    With `hang`, lines too long for a terminal are broken between words, and continue with that indent.
    """
    stream = sys.stderr if err else sys.stdout
    styled = harmless(pieces) if stream.isatty() else as_styled(pieces)
    if hang is not None and stream.isatty():
        styled = wrapped(styled, terminal_columns(), hang)
    text = "".join(map(_painted, styled)) if wants_colour(stream) else plain(styled)
    encoding = stream.encoding or "utf-8"
    sayable = (text + end).encode(encoding, "backslashreplace").decode(encoding)
    _write(sayable, err=err)


def terminal_columns() -> int:
    """Return the width of the terminal."""
    import shutil  # noqa: PLC0415  # the commands that are called a thousand times do not need it

    return shutil.get_terminal_size().columns


def say_bytes(content: bytes) -> None:
    """Write a file's bytes to standard output, for a program."""
    click.echo(content, nl=False)


def _write(text: str, *, err: bool) -> None:
    """Write a text, in place of the line on a wait."""
    waiting = _waiting()
    with waiting.lock if waiting else nullcontext():
        if waiting:
            waiting.erase()
            waiting.note(text)
        # Else `click` would take colours out of piped text, where they are the program's own.
        click.echo(text, nl=False, err=err, color=True)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON to standard output, the same to a terminal and to a program."""
    text = json_text(value, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    click.echo(text)


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour a stream: by `--color`, else NO_COLOR, else FORCE_COLOR, else if the stream is a terminal.

    Source: https://no-color.org and https://force-color.org; an empty variable counts as not set.

    Source: https://no-color.org and https://force-color.org; a variable that is empty says nothing.
    """
    context = click.get_current_context(silent=True)
    choice = context.meta.get(COLOUR, "auto") if context else "auto"
    if choice != "auto":
        return bool(choice == "always")
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


class Waiting:
    """The line at the foot of the terminal that tells a person the cause and the time of a wait.

    The line is erased before any other output, and comes back after a while without a word. Any thread may draw it.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        self._words = words
        self.lock = RLock()
        self._began = self._said = time.monotonic()
        self._is_drawn = False
        self._is_at_start = True
        """Whether the last output ended its line."""
        self.is_over = Event()

    def run(self) -> None:
        """Draw the line each second until the wait has finished. In a thread of its own."""
        while not self.is_over.wait(TICK_S if self._is_drawn else PATIENCE_S):
            words = self._words()
            with self.lock:
                is_quiet = self._is_at_start and time.monotonic() - self._said >= PATIENCE_S
                if words and is_quiet and not self.is_over.is_set():
                    text = visible(f"codriver: {words} ({time.monotonic() - self._began:.0f} s)").replace("\n", " ")
                    click.echo(f"\r{text[: terminal_columns() - 1]}{ERASE}", nl=False, err=True, color=True)
                    self._is_drawn = True

    def erase(self) -> None:
        """Erase the line, as other output is written."""
        with self.lock:
            if self._is_drawn:
                click.echo(f"\r{ERASE}", nl=False, err=True, color=True)
                self._is_drawn = False

    def note(self, text: str) -> None:
        """Note that this text was written."""
        self._said = time.monotonic()
        self._is_at_start = text.endswith("\n") if text else self._is_at_start

    @contextmanager
    def away(self) -> Iterator[None]:
        """Keep the line away while a person types."""
        with self.lock:
            self.erase()
            self._is_at_start = False
        try:
            yield
        finally:
            self.note("\n")


@contextmanager
def patience(words: Callable[[], str]) -> Iterator[Waiting]:
    """Say `words` on standard error, with the seconds, if the work within takes long and a person waits there.

    `words` is called in a thread of its own; blank words are not said. A terminal that cannot erase a line gets it
    once, without a clock.
    """
    waiting = Waiting(words)
    if not sys.stderr.isatty():
        yield waiting
        return

    def tell() -> None:
        if text := words():
            say(f"codriver: {text}", err=True)

    is_live = os.environ.get("TERM", "dumb") != "dumb"
    clock = Thread(target=waiting.run) if is_live else Timer(PATIENCE_S, tell)
    clock.daemon = True
    context = click.get_current_context(silent=True)
    before = context.meta.get(WAITING) if context else None
    if context and is_live:
        context.meta[WAITING] = waiting
    clock.start()
    try:
        yield waiting
    finally:
        waiting.is_over.set()
        waiting.erase()
        if isinstance(clock, Timer):
            clock.cancel()
        if context:
            context.meta[WAITING] = before


def _waiting() -> Waiting | None:
    context = click.get_current_context(silent=True)
    found = context.meta.get(WAITING) if context else None
    return found if isinstance(found, Waiting) else None


def wrapped(pieces: Iterable[Styled], columns: int, hang: int) -> list[Styled]:
    """The pieces with their lines broken between words, if there is room for some behind the indent of `hang`."""
    pieces = list(pieces)
    if columns < 2 * hang:
        return pieces
    told, start, breaks = [], 0, deque(_breaks(plain(pieces), columns, hang))
    for piece in pieces:
        end, place, text = start + len(piece.text), start, ""
        while breaks and breaks[0][0] < end:
            first, last = breaks[0]
            if first >= start:  # of the blanks in two pieces, those in the first become the new line
                text += piece.text[place - start : first - start] + "\n" + " " * hang
            place = min(last, end)
            if last > end:
                break
            breaks.popleft()
        told.append(replace(piece, text=text + piece.text[place - start :]))
        start = end
    return told


def _breaks(text: str, columns: int, hang: int) -> Iterator[tuple[int, int]]:
    """Yield the blanks, each by its place, that become line ends, in order."""
    column = 0
    for found in WORDS.finditer(text):
        space, word = found.groups()
        column = len(space) - space.rfind("\n") - 1 if "\n" in space else column + len(space)
        if space and word and column + len(word) > columns and column > hang and "\n" not in space:
            yield found.span(1)
            column = hang
        column += len(word)


def harmless(pieces: Iterable[str | Styled]) -> list[Styled]:
    """Return the chunks, harmless to a terminal: the control characters in their texts are visible."""
    return [replace(piece, text=visible(piece.text)) for piece in as_styled(pieces)]


def as_styled(pieces: Iterable[str | Styled]) -> list[Styled]:
    """Return the chunks, those without a style in the empty style."""
    return [Styled(piece) if isinstance(piece, str) else piece for piece in pieces]


def plain(pieces: Iterable[str | Styled]) -> str:
    """Return the text of the chunks, unchanged."""
    return "".join([piece if isinstance(piece, str) else piece.text for piece in pieces])


def _painted(piece: Styled) -> str:
    flags = {name: True for name in ("bold", "dim", "reverse") if getattr(piece, name)}
    return click.style(piece.text, fg=piece.fg, **flags) if flags or piece.fg else piece.text


NOT_ENDED = frozenset({"queued", "running", "needs-input"})
"""The statuses of an unfinished evaluation."""


@contextmanager
def reading(tool: str) -> Iterator[None]:
    """Read the answer of `tool` within this context, and do nothing else there.

    Raises:
        CodriverError: a field is missing in the answer, or has another type.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CodriverError(
            f"the server answered {tool} as no Codriver of this version does ({what}): it is of another version, or "
            "another program; `codriver doctor` looks into it"
        ) from error


def write_file(file: Path, content: bytes, workspace: Path) -> Path:
    """Write a file, in place of an existing one, and give its whole path. Missing directories are made.

    A link in the workspace that leads out of it is not followed, as a checkout may have any.
    """
    path = Path(os.path.normpath(Path.cwd() / file))
    if path.is_relative_to(workspace):
        whole_files.replace(path, content, links=Links.WITHIN, root=workspace, mode=None, make_mode=0o777)
    else:
        whole_files.replace(path, content, links=Links.OF_USER, mode=None, make_mode=0o777)
    return path
