"""Print the output of all commands to terminals, pipes and files.

On a terminal, control characters in text are escaped, because the text may come from a stranger and terminals interpret
them. Colors are added afterwards. Piped output is for programs, so the text is unchanged and has no colors unless
requested. JSON is safe for both. Answers from a server are validated when they are read, because a different program or
version may have sent them.
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
from codriver.log.control_characters import encode_for_terminal, escape_controls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

COLOR_KEY = "codriver.colour"
"""The key in a command's context under which its `--color` is stored."""
WAITING_LINE_KEY = "codriver.waiting"
"""The key in a command's context under which the line that it displays while waiting is stored."""
WAITING_LINE_DELAY_S = 2.0
"""Time without output after which the waiting line appears, in seconds."""
UPDATE_INTERVAL_S = 1.0
"""Interval at which the elapsed time in the waiting line is updated."""
WORD_PATTERN = re.compile(r"(\s*)(\S*)")
"""Matches a word and the whitespace before it."""
ERASE_REST_OF_LINE = "\x1b[K"
"""The escape sequence that erases the rest of a line. Source: ECMA-48, EL."""


@dataclass(frozen=True, slots=True)
class Styled:
    """Text with a style for terminals."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False


def echo(*parts: str | Styled, err: bool = False, end: str = "\n", hang: int | None = None) -> None:
    """Write text to standard output or standard error.

    If `hang` is given, lines that are too long for the terminal are wrapped, and continued with this indentation.
    """
    stream = sys.stderr if err else sys.stdout
    styled = escape_control_characters(parts) if stream.isatty() else as_styled(parts)
    if hang is not None and stream.isatty():
        styled = wrap_text(styled, terminal_columns(), hang)
    text = "".join(map(_render_style, styled)) if should_use_colour(stream) else plain_text(styled)
    encoding = stream.encoding or "utf-8"
    sayable = (text + end).encode(encoding, "backslashreplace").decode(encoding)
    _write(sayable, err=err)


def terminal_columns() -> int:
    """Return the width of the terminal in characters."""
    import shutil  # noqa: PLC0415  # not needed by the commands that run most often

    return shutil.get_terminal_size().columns


def echo_bytes(content: bytes) -> None:
    """Write binary data to standard output."""
    click.echo(content, nl=False)


def _write(text: str, *, err: bool) -> None:
    """Erase the waiting line and write text."""
    waiting = _current_waiting_line()
    with waiting.lock if waiting else nullcontext():
        if waiting:
            waiting.erase()
            waiting.record_output(text)
        # Otherwise click would remove escape sequences, which belong to the program's output, from piped text.
        click.echo(text, nl=False, err=err, color=True)


def echo_json(value: object, *, indent: int | None = None) -> None:
    """Write a value to standard output as JSON."""
    text = encode_for_terminal(value, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    click.echo(text)


def should_use_colour(stream: TextIO) -> bool:
    """Return whether to use colors in output to a stream.

    This depends on `--color`, on the variables `NO_COLOR` and `FORCE_COLOR`, and on whether the stream is a terminal.
    Source: https://no-color.org and https://force-color.org; an empty variable counts as unset.
    """
    context = click.get_current_context(silent=True)
    choice = context.meta.get(COLOR_KEY, "auto") if context else "auto"
    if choice != "auto":
        return bool(choice == "always")
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


class WaitingLine:
    """A line at the bottom of the terminal that shows what the command is waiting for, and for how long.

    It is erased before other output, and drawn again after some time without output. Thread-safe.
    """

    def __init__(self, words: Callable[[], str]) -> None:
        self._words = words
        self.lock = RLock()
        self._started = self._last_output = time.monotonic()
        self._is_drawn = False
        self._is_at_start = True
        """Whether the cursor is at the start of a line."""
        self.is_over = Event()

    def run(self) -> None:
        """Draw the line every second until the wait is over. Runs in a separate thread."""
        while not self.is_over.wait(UPDATE_INTERVAL_S if self._is_drawn else WAITING_LINE_DELAY_S):
            words = self._words()
            with self.lock:
                is_quiet = self._is_at_start and time.monotonic() - self._last_output >= WAITING_LINE_DELAY_S
                if words and is_quiet and not self.is_over.is_set():
                    text = escape_controls(f"codriver: {words} ({time.monotonic() - self._started:.0f} s)").replace(
                        "\n", " "
                    )
                    click.echo(
                        f"\r{text[: terminal_columns() - 1]}{ERASE_REST_OF_LINE}", nl=False, err=True, color=True
                    )
                    self._is_drawn = True

    def erase(self) -> None:
        """Erase the line before other output."""
        with self.lock:
            if self._is_drawn:
                click.echo(f"\r{ERASE_REST_OF_LINE}", nl=False, err=True, color=True)
                self._is_drawn = False

    def record_output(self, text: str) -> None:
        """Record that text was written, and whether it ended with a newline."""
        self._last_output = time.monotonic()
        self._is_at_start = text.endswith("\n") if text else self._is_at_start

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Hide the line while a person types."""
        with self.lock:
            self.erase()
            self._is_at_start = False
        try:
            yield
        finally:
            self.record_output("\n")


@contextmanager
def waiting_line(describe: Callable[[], str]) -> Iterator[WaitingLine]:
    """Display a message with the elapsed seconds on standard error while the context is active.

    The message appears only on a terminal, and only after a moment. `describe` returns the message. It is called in
    another thread, and nothing is displayed while it returns an empty string. On a terminal that cannot erase a line,
    the message is printed once without the time.
    """
    waiting = WaitingLine(describe)
    if not sys.stderr.isatty():
        yield waiting
        return

    def print_once() -> None:
        if text := describe():
            echo(f"codriver: {text}", err=True)

    is_live = os.environ.get("TERM", "dumb") != "dumb"
    clock = Thread(target=waiting.run) if is_live else Timer(WAITING_LINE_DELAY_S, print_once)
    clock.daemon = True
    context = click.get_current_context(silent=True)
    previous = context.meta.get(WAITING_LINE_KEY) if context else None
    if context and is_live:
        context.meta[WAITING_LINE_KEY] = waiting
    clock.start()
    try:
        yield waiting
    finally:
        waiting.is_over.set()
        waiting.erase()
        if isinstance(clock, Timer):
            clock.cancel()
        if context:
            context.meta[WAITING_LINE_KEY] = previous


def _current_waiting_line() -> WaitingLine | None:
    context = click.get_current_context(silent=True)
    found = context.meta.get(WAITING_LINE_KEY) if context else None
    return found if isinstance(found, WaitingLine) else None


def wrap_text(parts: Iterable[Styled], columns: int, hang: int) -> list[Styled]:
    """Wrap text between words at the width of the terminal.

    The text is not wrapped if the terminal is too narrow for the indentation.
    """
    parts = list(parts)
    if columns < 2 * hang:
        return parts
    broken, start, breaks = [], 0, deque(_line_breaks(plain_text(parts), columns, hang))
    for part in parts:
        end, copied_to, text = start + len(part.text), start, ""
        while breaks and breaks[0][0] < end:
            first, last = breaks[0]
            if first >= start:  # whitespace across two parts is replaced in the first
                text += part.text[copied_to - start : first - start] + "\n" + " " * hang
            copied_to = min(last, end)
            if last > end:
                break
            breaks.popleft()
        broken.append(replace(part, text=text + part.text[copied_to - start :]))
        start = end
    return broken


def _line_breaks(text: str, columns: int, hang: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of whitespace that have to be replaced by line breaks, in order."""
    column = 0
    for found in WORD_PATTERN.finditer(text):
        space, word = found.groups()
        column = len(space) - space.rfind("\n") - 1 if "\n" in space else column + len(space)
        if space and word and column + len(word) > columns and column > hang and "\n" not in space:
            yield found.span(1)
            column = hang
        column += len(word)


def escape_control_characters(parts: Iterable[str | Styled]) -> list[Styled]:
    """Escape the control characters in text."""
    return [replace(part, text=escape_controls(part.text)) for part in as_styled(parts)]


def as_styled(parts: Iterable[str | Styled]) -> list[Styled]:
    """Convert plain strings to unstyled text."""
    return [Styled(part) if isinstance(part, str) else part for part in parts]


def plain_text(parts: Iterable[str | Styled]) -> str:
    """Join the parts of a string without their styles."""
    return "".join([part if isinstance(part, str) else part.text for part in parts])


def _render_style(part: Styled) -> str:
    flags = {name: True for name in ("bold", "dim", "reverse") if getattr(part, name)}
    return click.style(part.text, fg=part.fg, **flags) if flags or part.fg else part.text


UNFINISHED_STATUSES = frozenset({"queued", "running", "needs-input"})
"""The statuses of an unfinished evaluation."""


@contextmanager
def convert_field_errors(tool: str) -> Iterator[None]:
    """Convert errors that occur when fields of a tool's answer are accessed to a `CodriverError`.

    The `with` block must contain nothing but these accesses.

    Raises:
        CodriverError: a field of the answer is missing or has an unexpected type.
    """
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        what = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise CodriverError(
            f"the server's answer to {tool} is invalid ({what}). The server is a different version of Codriver or a "
            "different program. Run `codriver doctor` to find out"
        ) from error


def write_file(file: Path, content: bytes, workspace: Path) -> Path:
    """Write a file, creating missing directories, and return its absolute path.

    Links in the workspace that lead out of it are not followed, because a checkout may contain any link.
    """
    path = Path(os.path.normpath(Path.cwd() / file))
    if path.is_relative_to(workspace):
        whole_files.replace(path, content, links=Links.WITHIN, root=workspace, mode=None, make_mode=0o777)
    else:
        whole_files.replace(path, content, links=Links.OF_USER, mode=None, make_mode=0o777)
    return path
