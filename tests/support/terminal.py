"""A terminal for tests: a process behind a pseudo-terminal, and the screen that its output makes.

The screen knows the control sequences that Codriver sends and no others: anything else, a character beyond the right
edge, or a line beyond the bottom is a fault that the test sees.
"""

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata
from functools import partial

WAIT_S = 60
SEQUENCE = re.compile(r"\x1b\[([?]?)([0-9;]*)([A-Za-z])")


class Grid:
    """What stands on a screen."""

    def __init__(self, columns, lines):
        self.faults = []
        self.modes = {}
        self.reshape(columns, lines)

    def reshape(self, columns, lines):
        """As a terminal that cuts off what does not fit any more."""
        self.columns, self.lines = columns, lines
        self.clear()
        self.row = self.column = 0

    def clear(self):
        self.cells = [[" "] * self.columns for _ in range(self.lines)]

    def text(self):
        return ["".join(line).rstrip() for line in self.cells]

    def feed(self, text):
        """Take output; what is half a sequence at its end is given back."""
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
                self.control(*found.groups())
                place = found.end()
            else:
                self.put(char)
                place += 1
        return ""

    def control(self, private, numbers, final):
        given = [int(number or 0) for number in numbers.split(";")]
        if private and final in "hl":
            self.modes[given[0]] = final == "h"
        elif final == "H":
            row, column = [*given, 1, 1][:2] if numbers else (1, 1)
            if not (1 <= row <= self.lines and 1 <= column <= self.columns):
                self.faults.append(f"the cursor was sent to {row};{column}")
            self.row, self.column = min(row, self.lines) - 1, min(column, self.columns) - 1
        elif final == "K":
            self.cells[self.row][self.column :] = [" "] * (self.columns - self.column)
        elif final == "J" and given == [2]:
            self.clear()
        elif final != "m":
            self.faults.append(f"unknown sequence ESC [ {private}{numbers} {final}")

    def put(self, char):
        if char in "\r\n":
            self.column = 0 if char == "\r" else self.column
            self.row = min(self.row + (char == "\n"), self.lines - 1)
            return
        if not char.isprintable():
            self.faults.append(f"control character {char!r}")
            return
        size = 2 if unicodedata.east_asian_width(char) in "WF" else 0 if unicodedata.combining(char) else 1
        if self.column + size > self.columns:
            self.faults.append(f"{char!r} beyond the right edge of line {self.row + 1}")
            return
        for place in range(size):
            self.cells[self.row][self.column + place] = "" if place else char
        self.column += size


class Terminal:
    """A process on a pseudo-terminal of its own."""

    def __init__(self, command, env, *, columns=120, lines=24):
        self.master, self.slave = pty.openpty()
        self._size(columns, lines)
        self.found = termios.tcgetattr(self.slave)
        self.grid = Grid(columns, lines)
        self.rest = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a read may end within a character
        self.output = b""
        self.process = subprocess.Popen(
            command,
            env={**env, "TERM": "xterm-256color"},
            preexec_fn=partial(os.login_tty, os.dup(self.slave)),  # noqa: PLW1509  # nothing else makes it the terminal
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
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def resize(self, columns, lines):
        self.read(0.2)  # what was drawn for the old size
        self._size(columns, lines)
        self.grid.reshape(columns, lines)
        os.kill(self.process.pid, signal.SIGWINCH)

    def press(self, keys):
        os.write(self.master, keys.encode())

    def read(self, timeout_s):
        """Take what the process writes, for as long as it writes."""
        while select.select([self.master], [], [], timeout_s)[0]:
            data = os.read(self.master, 65536)
            self.output += data
            self.rest = self.grid.feed(self.rest + self.decoder.decode(data))
            timeout_s = 0

    def until(self, condition, what):
        """Read until the lines of the screen are as wanted; they are given."""
        deadline = time.monotonic() + WAIT_S
        while not condition(lines := self.grid.text()):
            assert time.monotonic() < deadline, f"waited in vain for {what}; the screen:\n" + "\n".join(lines)
            assert self.process.poll() is None, f"it ended before {what}:\n{self.output.decode()}"
            self.read(0.1)
        return lines

    def shows(self, *texts):
        """Read until all these texts stand on the screen; its lines."""
        return self.until(lambda lines: all(any(text in line for line in lines) for text in texts), texts)

    def end(self):
        """The exit status, all output read."""
        deadline = time.monotonic() + WAIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            self.read(0.05)
        self.read(0.05)
        return self.process.returncode

    @property
    def is_restored(self):
        """Whether the terminal is as it was found: its settings, and what the output left of the screen."""
        modes = {mode: self.grid.modes.get(mode) for mode in (1049, 25, 7)}
        return termios.tcgetattr(self.slave) == self.found and modes == {1049: False, 25: True, 7: True}
