"""A process behind a pseudo-terminal, and the screen that its output produces.

The screen knows the control sequences that curses sends to an xterm, from its terminfo entry, and no others:
anything else, a character beyond the right edge, or a line beyond the bottom fails the test.
"""

import codecs
import os
import re
import select
import signal
import subprocess
import time
import unicodedata
from functools import partial

import posix_only
from forked import Forked, can_fork

WAIT_S = 60
SEQUENCE = re.compile(r"\x1b(?:\[([?]?)([0-9;]*)([@A-Za-z])|M|\(B|[=>]|\]104\x07)")
IGNORED = {(None, None), ("4", "l"), ("22;0;0", "t"), ("23;0;0", "t")}
"""Sequences without an effect that tests check: the character set, the keypad, the palette, the title, no inserting."""
MOVES = {
    "A": lambda row, column, count, _: (row - count, column),
    "B": lambda row, column, count, _: (row + count, column),
    "C": lambda row, column, count, _: (row, column + count),
    "D": lambda row, column, count, _: (row, column - count),
    "G": lambda row, _column, count, _: (row, count),
    "d": lambda _row, column, count, _: (count, column),
    "H": lambda _row, _column, count, other: (count, other),
}
"""By final byte: the new row and column of the cursor, from 1, given its position and the numbers in the sequence."""

EDITS = {
    "K": lambda line, at, _, given: [" "] * (at + 1) + line[at + 1 :] if given == [1] else line[:at],
    "X": lambda line, at, count, _: line[:at] + [" "] * count + line[at + count :],
    "P": lambda line, at, count, _: line[:at] + line[at + count :],
    "@": lambda line, at, count, _: line[:at] + [" "] * count + line[at:],
}
"""By final byte: a line of which some was erased, deleted or inserted at the cursor."""


class Grid:
    """The contents of a screen."""

    def __init__(self, columns, lines):
        self.faults = []
        self.modes = {}
        self.reshape(columns, lines)

    def reshape(self, columns, lines):
        """Resize the screen, as a terminal that cuts off what no longer fits."""
        self.columns, self.lines = columns, lines
        self.clear()
        self.row = self.column = self.top = 0
        self.bottom = lines - 1

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.lines)]

    def text(self):
        return ["".join(line).rstrip() for line in self.cells]

    def feed(self, text):
        """Process output, and return the incomplete sequence at its end."""
        place = 0
        while place < len(text):
            char = text[place]
            if char == "\x1b":
                found = SEQUENCE.match(text, place)
                if found is None:
                    if len(text) - place < 16 and "\x1b" not in text[place + 1 :]:
                        return text[place:]
                    self.faults.append(f"unknown sequence {text[place : place + 16]!r}")
                    place += 1
                    continue
                if found[0] == "\x1bM":
                    self.feed_line(-1)
                else:
                    self.control(*found.groups())
                place = found.end()
            else:
                self.put(char)
                place += 1
        return ""

    def control(self, private, numbers, final):
        given = [int(number or 0) for number in (numbers or "").split(";")]
        count, column = max(given[0], 1), min(self.column, self.columns - 1)
        if private and final in "hl":
            self.modes[given[0]] = final == "h"
        elif final in MOVES:
            self.move(*MOVES[final](self.row + 1, column + 1, count, [*given, 1][1] or 1))
        elif final in EDITS:
            line = self.cells[self.row]
            line[:] = [*EDITS[final](line, column, count, given), *[" "] * self.columns][: self.columns]
        elif final == "b":
            for _ in range(count):
                self.put(self.last)
        elif final == "J" and given in ([0], [2]):
            self.cells[self.row][column * (given == [0]) :] = [" "] * (self.columns - column * (given == [0]))
            for row in range(self.row + 1 if given == [0] else 0, self.lines):
                self.cells[row] = [" "] * self.columns
        elif final == "r" and (given == [1, self.lines] or given[0] < given[1] <= self.lines):
            self.top, self.bottom = count - 1, given[1] - 1
            self.row = self.column = 0
        elif final in ("S", "T"):
            self.scroll(count if final == "S" else -count)
        elif final != "m" and (numbers, final) not in IGNORED:
            self.faults.append(f"unknown sequence ESC [ {private}{numbers} {final}")

    def feed_line(self, step):
        """Move one line down or up, if possible; at the edge of the scrolling region, scroll."""
        if self.row == (self.bottom if step > 0 else self.top):
            self.scroll(step)
        else:
            self.row = min(max(self.row + step, 0), self.lines - 1)

    def scroll(self, count):
        part = self.cells[self.top : self.bottom + 1]
        empty = [[" "] * self.columns for _ in range(min(abs(count), len(part)))]
        part = [*part[count:], *empty] if count > 0 else [*empty, *part[:count]]
        self.cells[self.top : self.bottom + 1] = part

    def move(self, row, column):
        if not (1 <= row <= self.lines and 1 <= column <= self.columns):
            self.faults.append(f"the cursor was sent to {row};{column}")
        self.row, self.column = min(max(row, 1), self.lines) - 1, min(max(column, 1), self.columns) - 1

    def put(self, char):
        if char in "\r\n\b":
            self.column = 0 if char == "\r" else min(self.column, self.columns - 1) - (char == "\b")
            if char == "\n":
                self.feed_line(1)
            return
        if not char.isprintable():
            self.faults.append(f"control character {char!r}")
            return
        size = 2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1
        if self.column + size > self.columns:
            self.faults.append(f"{char!r} beyond the right edge of line {self.row + 1}")
            return
        self.last = char
        for place in range(size):
            self.cells[self.row][self.column + place] = "" if place else char
        self.column += size


class Terminal:
    """A process on its own pseudo-terminal. A `codriver` command may be forked if no key is pressed."""

    def __init__(self, command, env, *, columns=120, lines=24, name="xterm-256color", is_forked=False):
        self.master, self.slave = posix_only.open_terminal()
        self._size(columns, lines)
        self.found = posix_only.terminal_settings(self.slave)
        self.grid = Grid(columns, lines)
        self.rest = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character
        self.output = b""
        environ = {**env, "TERM": name}
        if is_forked and can_fork(environ):
            self.process = Forked(command[3:], env=environ, terminal=self.slave)
            return
        self.process = subprocess.Popen(
            command,
            env=environ,
            preexec_fn=partial(posix_only.acquire_terminal, os.dup(self.slave)),  # noqa: PLW1509  # nothing else makes it the terminal
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT_S)
        os.close(self.master)
        os.close(self.slave)

    def _size(self, columns, lines):
        posix_only.size_terminal(self.master, lines, columns)

    def resize(self, columns, lines):
        self.read(0.2)  # what was drawn for the old size
        self._size(columns, lines)
        self.grid.reshape(columns, lines)
        os.kill(self.process.pid, signal.Signals["SIGWINCH"])

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, timeout_s):
        """Read what the process writes, until it is silent."""
        while select.select([self.master], [], [], timeout_s)[0]:
            data = os.read(self.master, 65536)
            self.output += data
            self.rest = self.grid.feed(self.rest + self.decoder.decode(data))
            timeout_s = 0

    def until(self, condition, what):
        """Read until the lines of the screen satisfy a condition, and return them."""
        deadline = time.monotonic() + WAIT_S
        while not condition(lines := self.grid.text()):
            assert time.monotonic() < deadline, f"waited in vain for {what}; the screen:\n" + "\n".join(lines)
            assert self.process.poll() is None, f"it ended before {what}:\n{self.output.decode()}"
            self.read(0.1)
        return lines

    def shows(self, *texts):
        """Read until the screen contains all these texts, and return its lines."""
        return self.until(lambda lines: all(any(text in line for line in lines) for text in texts), texts)

    def end(self):
        """Read all remaining output and return the exit status."""
        deadline = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            self.read(0.05)
        self.read(0.05)
        return self.process.returncode

    @property
    def is_restored(self):
        """Return whether the terminal is as before: its settings, and what the output left on the screen."""
        modes = {mode: self.grid.modes.get(mode) for mode in (1049, 25, 7)}
        return posix_only.terminal_settings(self.slave) == self.found and modes == {1049: False, 25: True, 7: True}
