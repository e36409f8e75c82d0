"""A program with an embedded REPL that runs commands from its standard input, line by line, on its main thread."""

import contextlib
import sys
from pathlib import Path

from worker_client import Repl

SEAM = Path(__file__).parents[2] / "server"

PROGRAM = f"""\
import os, sys, threading
sys.path.insert(0, {str(SEAM)!r})
import codriver_seam

orders = []

def price(n):
    return n * 2

before = sys.stdout, sys.stderr, sys.stdin, sys.excepthook, threading.Thread.start, list(sys.meta_path)

if __name__ == "__main__":
    repl = codriver_seam.start_repl(True)
    print(f"listens:{{repl.port}}", flush=True)
    for line in before[2]:
        exec(line)
        print(flush=True)
"""
"""An empty line follows the output of each command."""


class Application(Repl):
    """The program in its own process, and one client of its REPL."""

    def __init__(self, folder, text=PROGRAM, name="shop.py", **kwargs):
        self.file = folder / name
        self.file.write_text(text)
        super().__init__(folder, how=(str(self.file),), **kwargs)

    def do(self, line):
        """Make the program run a command, and return the lines that it prints."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return list(iter(lambda: self.process.stdout.readline().rstrip("\n"), ""))

    def end(self):
        """End the program, wait for it and return its exit status."""
        self.process.stdin.close()
        return self.process.wait(60)


@contextlib.contextmanager
def running(folder, text=PROGRAM, python=sys.executable, **kwargs):
    """Run a program for the duration of the context, with a connected client."""
    with contextlib.closing(Application(folder, text, python=python, **kwargs)) as program:
        program.connect()
        yield program
