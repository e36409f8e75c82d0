"""A program with a REPL in it, which does on its main thread what its standard input says, line by line."""

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
"""Each line that it did is followed by an empty one."""


class Application(Repl):
    """The program in a process of its own, and one client of its REPL."""

    def __init__(self, folder, text=PROGRAM, name="shop.py", **kwargs):
        self.file = folder / name
        self.file.write_text(text)
        super().__init__(folder, how=(str(self.file),), **kwargs)

    def do(self, line):
        """Have the program do something; the lines that it printed meanwhile."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return list(iter(lambda: self.process.stdout.readline().rstrip("\n"), ""))

    def end(self):
        """Let the program end, and wait for it; its status."""
        self.process.stdin.close()
        return self.process.wait(60)


@contextlib.contextmanager
def running(folder, text=PROGRAM, python=sys.executable, **kwargs):
    """A program for the length of the context, and a client that is connected."""
    with contextlib.closing(Application(folder, text, python=python, **kwargs)) as program:
        program.connect()
        yield program
