"""The terminal as a screen and a keyboard, by `curses`; restored to its former state, also after Ctrl-C or a crash."""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import re
import select
import signal
import sys
from itertools import groupby
from typing import TYPE_CHECKING, Self

from codriver.commands.terminal import harmless
from codriver.errors import CodriverError
from codriver.systems.terminals import never_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import FrameType

    from codriver.commands.terminal import Styled

KEYS: dict[int | str, str] = {
    curses.KEY_UP: "up", curses.KEY_DOWN: "down", curses.KEY_PPAGE: "page-up", curses.KEY_NPAGE: "page-down",
    curses.KEY_HOME: "home", curses.KEY_END: "end", curses.KEY_ENTER: "enter", curses.KEY_BACKSPACE: "backspace",
    "\x1b[A": "up", "\x1bOA": "up", "\x1b[B": "down", "\x1bOB": "down",
    "\x1b[5~": "page-up", "\x1b[6~": "page-down", "\x1b[H": "home", "\x1b[F": "end",
    "\x1b[1~": "home", "\x1b[4~": "end", "\x1bOH": "home", "\x1bOF": "end",
    "\r": "enter", "\n": "enter", "\x7f": "backspace", "\b": "backspace", "\x1b": "escape",
}  # fmt: skip
"""The names of keys, by curses' number of a key, or by its sequence from terminals that differ from terminfo.
Source: xterm control sequences, "PC-Style Function Keys"."""
SEQUENCE = re.compile(r"\x1b(?:O.|\[[^@-~]*[@-~]?)?|.", re.DOTALL)
"""One key's characters: an escape sequence up to its final byte, known or not, else one character."""
COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""The colours in the order of their numbers; the bright ones follow."""
FALLBACK = (80, 24)
USUAL = "xterm"
"""The terminal assumed for an unknown name: nearly all terminals understand its sequences."""
ESCAPE_MS = 50
"""How long after an escape the rest of a sequence may come, over a slow line too."""
ENDING = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGHUP", "SIGQUIT"))
RESIZED, SUSPENDED = (signal.Signals[name] for name in ("SIGWINCH", "SIGTSTP"))
"""By name, as Windows, which lacks these signals, has no such screen either."""


class Stopped(SystemExit):  # the end of the program, no error
    """A signal asked the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


class UnknownTerminalError(CodriverError):
    """The system's database of terminals describes neither this terminal nor the usual one."""


class Screen:
    """The terminal behind standard output, and the keys of the one behind standard input. A context manager.

    Raises:
        UnknownTerminalError: the system has no description of terminals.
    """

    def __init__(self, *, is_coloured: bool) -> None:
        self._out = sys.stdout.fileno()
        self._keys = sys.stdin.fileno() if sys.stdin.isatty() else None
        self._is_coloured = is_coloured
        self._styles: dict[str, int] = {}
        self._is_stale = True
        self._has_read = True
        self._handlers: dict[int, object] = {}
        _find_terminal(self._out)
        self._wake_in, self._wake_out = os.pipe()

    def __enter__(self) -> Self:
        for end in (self._wake_in, self._wake_out):
            never_block(end)
        for number in ENDING:
            self._handlers[number] = signal.signal(number, _end)
        # Before curses begins, which keeps an existing handler.
        self._handlers[RESIZED] = signal.signal(RESIZED, self._notice_size)
        # Ignored when curses begins: else curses would take the signal, and ignore it during each drawing.
        self._handlers[SUSPENDED] = signal.signal(SUSPENDED, signal.SIG_IGN)
        # A signal also wakes the wait for keys.
        self._woken_before = signal.set_wakeup_fd(self._wake_out, warn_on_full_buffer=False)
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exc: object) -> None:
        interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not stop the tidying up
        _give_back()
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

    def draw(self, lines: Sequence[Iterable[str | Styled]]) -> None:
        """Show these lines from the top; only changes are written."""
        columns, rows = self.size
        if self._is_stale or self._window.getmaxyx() != (rows, columns):
            self._is_stale = False
            curses.resizeterm(rows, columns)
            self._window.clear()
        for row, line in enumerate(lines[:rows]):
            self._window.move(row, 0)
            self._window.clrtoeol()
            with contextlib.suppress(curses.error):  # behind the last cell there is no place for the cursor
                for piece in harmless(line):
                    self._window.addstr(piece.text, self._style(piece))
        self._window.refresh()

    def wake(self) -> None:
        """End the wait for keys. Any thread may call."""
        with contextlib.suppress(BlockingIOError, OSError):  # a full pipe wakes, and a closed one is over
            os.write(self._wake_out, b"\0")

    def keys(self, timeout_s: float) -> list[str]:
        """The keys pressed, at the first key, at a call of `wake`, or when the time is over.

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
        pressed = list(self._pressed())
        # Half a character makes the terminal ready once and gives no key; the terminal's end does so for ever.
        if not (pressed or self._has_read):
            raise EOFError
        self._has_read = bool(pressed)
        return list(named_keys(pressed))

    def _pressed(self) -> Iterator[int | str]:
        """The pressed keys, as curses gives them."""
        with contextlib.suppress(curses.error):  # no more
            while True:
                yield self._window.get_wch()

    def _begin(self) -> None:
        _speak_utf8()
        for name in ("LINES", "COLUMNS"):  # curses would believe these more than the terminal
            os.environ.pop(name, None)
        self._window = curses.initscr()
        signal.signal(SUSPENDED, self._suspend)
        curses.cbreak()
        curses.noecho()
        curses.set_escdelay(ESCAPE_MS)
        self._window.keypad(True)  # noqa: FBT003  # has no name
        self._window.nodelay(True)  # noqa: FBT003  # as above
        with contextlib.suppress(curses.error):  # not every terminal can hide it
            curses.curs_set(0)
        if self._is_coloured:
            self._styles = _styles()

    def _style(self, piece: Styled) -> int:
        if not self._is_coloured:
            return curses.A_NORMAL
        flags = (piece.bold and curses.A_BOLD, piece.dim and curses.A_DIM, piece.reverse and curses.A_REVERSE)
        return sum(flags) | self._styles.get(piece.fg or "", curses.A_NORMAL)

    def _notice_size(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stale = True

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: give the terminal back, and stop; the next drawing after being called back takes it again."""
        _give_back()
        signal.signal(SUSPENDED, signal.SIG_DFL)
        os.kill(os.getpid(), SUSPENDED)
        signal.signal(SUSPENDED, self._suspend)
        self._is_stale = True


def named_keys(pressed: Iterable[int | str]) -> Iterator[str]:
    """The keys by their names; keys without a name here are left out."""
    for is_text, keys in groupby(pressed, lambda key: isinstance(key, str)):
        for key in SEQUENCE.findall("".join(map(str, keys))) if is_text else keys:
            if key in KEYS:
                yield KEYS[key]
            elif isinstance(key, str) and key.isprintable():
                yield key


def _find_terminal(out: int) -> None:
    """Find the terminal's description, as `initscr` ends the program without one."""
    try:
        curses.setupterm(fd=out)
    except curses.error:
        os.environ["TERM"] = USUAL
        try:
            curses.setupterm(fd=out)
        except curses.error as error:
            raise UnknownTerminalError(str(error)) from error


def _speak_utf8() -> None:
    """Make the C library, by which curses writes, take text as UTF-8, as Python does in any locale."""
    if sys.platform != "win32":
        for name in ("C.UTF-8", "C.utf8", "UTF-8"):  # one of them is on every Linux and macOS
            if locale.nl_langinfo(locale.CODESET).upper() in ("UTF-8", "UTF8"):
                return
            with contextlib.suppress(locale.Error):
                locale.setlocale(locale.LC_CTYPE, name)


def _styles() -> dict[str, int]:
    """The style that shows each colour on the terminal's own background; none for a terminal without colours."""
    styles: dict[str, int] = {}
    with contextlib.suppress(curses.error):
        curses.start_color()
        curses.use_default_colors()
        for number, name in enumerate((*COLOURS, *(f"bright_{name}" for name in COLOURS))):
            base, is_bold = (number, False) if number < curses.COLORS else (number % len(COLOURS), True)
            curses.init_pair(number + 1, base, -1)
            styles[name] = curses.color_pair(number + 1) | (curses.A_BOLD if is_bold else curses.A_NORMAL)
    return styles


def _give_back() -> None:
    with contextlib.suppress(curses.error):  # the terminal may be gone, or restored already
        curses.endwin()


def _end(number: int, _frame: FrameType | None) -> None:
    raise Stopped(number)
