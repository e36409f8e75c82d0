"""A terminal as a screen and a keyboard, given back as it was found: also after Ctrl-C, a crash, or being stopped."""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import signal
import sys
import termios
import tty
from typing import TYPE_CHECKING, Self

from codriver.commands.terminal import painted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

    from codriver.commands.terminal import Styled

ENTER = b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # another screen, no cursor, no wrapping, empty
LEAVE = b"\x1b[m\x1b[?7h\x1b[?25h\x1b[?1049l"
KEYS = {
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[5~": "page-up", "\x1b[6~": "page-down", "\x1b[H": "home", "\x1b[F": "end",
    "\x1b[1~": "home", "\x1b[4~": "end", "\x1bOH": "home", "\x1bOF": "end",
    "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape",
}  # fmt: skip
"""By what terminals send. Source: xterm control sequences, "PC-Style Function Keys"."""
FALLBACK = (80, 24)
ENDING = (signal.SIGTERM, signal.SIGHUP)


class Stopped(SystemExit):  # the end of the program, no error
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


class Screen:
    """The terminal behind standard output, and the keys of the one behind standard input. A context manager."""

    def __init__(self) -> None:
        self._out = sys.stdout.fileno()
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._found: list[object] | None = None
        self._drawn: list[str] = []
        self._size = (0, 0)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._wake_in, self._wake_out = os.pipe()
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Self:
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        for number in ENDING:
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, _nothing)
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._suspend)
        # A signal also wakes the wait for keys.
        self._woken_before = signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        if self._keys is not None:
            self._found = termios.tcgetattr(self._keys)
        try:
            self._take()
        except BaseException:
            self._give_back()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not stop the tidying up
        self._give_back()
        signal.signal(signal.SIGINT, interrupted)
        signal.set_wakeup_fd(self._woken_before)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # as it was given to us
        os.close(self._wake_in)
        os.close(self._wake_out)

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, now."""
        try:
            columns, lines = os.get_terminal_size(self._out)
        except OSError:
            return FALLBACK
        return (columns, lines) if columns and lines else FALLBACK

    def draw(self, drawn: Sequence[Sequence[str | Styled]], *, colours: bool = True) -> None:
        """Show these lines from the top; only what changed is written."""
        lines = [painted(line, colours=colours) for line in drawn]
        parts: list[str] = []
        if self._size != self.size:
            self._size = self.size
            self._drawn = []
            parts.append("\x1b[m\x1b[2J")
        for number, line in enumerate(lines):
            if number >= len(self._drawn) or self._drawn[number] != line:
                parts.append(f"\x1b[{number + 1};1H{line}\x1b[m\x1b[K")
        self._drawn = lines
        if parts:
            self._write("".join(parts).encode("utf-8", "replace"))

    def wake(self) -> None:
        """End the wait for keys. Any thread may call."""
        with contextlib.suppress(BlockingIOError, OSError):  # full is awake, closed is over
            os.write(self._wake_out, b"\0")

    def keys(self, timeout_s: float) -> list[str]:
        """The keys pressed, as soon as there is one, something woke the screen, or the time is over.

        Characters stand for themselves, other keys have the names in `KEYS`.

        Raises:
            EOFError: the terminal is gone.
        """
        sources = [self._wake_in] if self._keys is None else [self._wake_in, self._keys]
        ready, _, _ = select.select(sources, [], [], timeout_s)
        if self._wake_in in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_in, 65536)
        if self._keys is None or self._keys not in ready:
            return []
        try:
            data = os.read(self._keys, 1024)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        return parse_keys(self._decoder.decode(data))

    def _take(self) -> None:
        if self._keys is not None:
            tty.setcbreak(self._keys, termios.TCSANOW)
        self._drawn, self._size = [], (0, 0)
        self._write(ENTER)

    def _give_back(self) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone, and then nobody sees it
            self._write(LEAVE)
        if self._keys is not None and self._found is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._found)  # type: ignore[arg-type]  # from tcgetattr

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back, stop, and take it again when called back."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._suspend)
        self._take()

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._out, data) :]


def parse_keys(text: str) -> list[str]:
    """The keys in what a terminal sent; what is no key that we know is left out."""
    keys: list[str] = []
    while text:
        if text in KEYS:
            return [*keys, KEYS[text]]
        size = 1
        if text[0] == "\x1b":
            size = _sequence_size(text)
        key, text = text[:size], text[size:]
        if key in KEYS:
            keys.append(KEYS[key])
        elif key.isprintable():
            keys.append(key)
    return keys


def _sequence_size(text: str) -> int:
    """The length of the escape sequence at the start: ESC O x, or ESC [ up to a final byte."""
    if text[1:2] == "O":
        return 3
    if text[1:2] != "[":
        return 1
    for place in range(2, len(text)):
        if "@" <= text[place] <= "~":
            return place + 1
    return len(text)


def _end(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Being woken is all."""
