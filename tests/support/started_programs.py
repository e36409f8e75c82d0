"""Programs that `codriver run` starts in the workspace of a server, for tests."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest
from live_server import CODRIVER, Live

SHOP = """\
import os, sys, threading, time
ORDERS = []
print("starts", os.getpid(), flush=True)
for line in sys.stdin:
    exec(line)
    print("did", flush=True)
print("ends", flush=True)
sys.exit(3)
"""
ARBITER = """\
import os, sys, time
arbiter = os.getpid()
def start():
    pid = os.fork()
    while not pid and os.getppid() == arbiter:
        time.sleep(0.1)
    return pid or os._exit(0)
def end(*pids):
    for pid in pids:
        os.kill(pid, 15)
        os.waitpid(pid, 0)
workers = [start(), start()]
print("starts", flush=True)
for line in sys.stdin:
    exec(line)
    print("did", flush=True)
"""
AS_ON_MACOS = """\
from codriver.features.run import process_table, program_sockets, psutil_processes
process_table.PROCESS_TABLE = psutil_processes
program_sockets.HAS_DESCRIPTOR_PATHS = False
from codriver.__main__ import main
main()
"""
"""`codriver` with the processes according to psutil, and with sockets that have a path, as on macOS."""
PROCESS_TABLES = {"linux": CODRIVER, "psutil": [sys.executable, "-c", AS_ON_MACOS]}
"""The command of `codriver`, by its source of information about processes."""
either_process_table = pytest.mark.parametrize("live", PROCESS_TABLES, indirect=True)


class Server(Live):
    """A server with one of the sources of information about processes."""

    def __init__(self, folder, process_table):
        self.codriver = PROCESS_TABLES[process_table]
        super().__init__(folder, "--repl", "python")

    def command(self, name, *options):
        return [*self.codriver, name, "--workspace", str(self.workspace), *options]

    def run_command(self, *options):
        """Return the words that precede the command of a program."""
        return [*self.codriver, "run", "-w", str(self.workspace), *options, "--"]


class Program:
    """A program that `codriver run` started in the workspace of a server."""

    def __init__(self, live, text, file="shop.py", options=(), command=None, cwd=None, environ=None):
        self.live = live
        self.file = live.workspace / file
        self.file.write_text(text)
        words = [*live.run_command(*options), *(command or (sys.executable, str(self.file)))]
        self.process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**live.environ, **(environ or {})},
            cwd=cwd,
        )
        self.first = self.process.stdout.readline().split()

    def do(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        lines = []
        while (read := self.process.stdout.readline()) and read.strip() != "did":
            lines.append(read.strip())
        assert read, f"the program has ended: {self.process.stderr.read()}"
        return lines

    @property
    def threads(self):
        return len([*Path(f"/proc/{self.process.pid}/task").iterdir()])

    @property
    def descriptors(self):
        """Return the kinds of its open files."""
        return {str(path.readlink()).partition(":")[0] for path in Path(f"/proc/{self.process.pid}/fd").iterdir()}

    def end(self):
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        status = self.process.wait(60)
        self.process.stdout.close()
        self.process.stderr.close()
        return status


@contextlib.contextmanager
def program(live, *words, **named):
    running = Program(live, *words, **named)
    try:
        yield running
    finally:
        running.process.kill()
        running.end()


def rows(client, name):
    return [row for row in client.call("list_sessions")["sessions"] if row["key"].startswith(name)]
