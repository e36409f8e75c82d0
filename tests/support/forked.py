"""Processes of `codriver` that are forked from a prepared one, with as much of `subprocess.Popen` as tests need."""

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import posix_only

CAN_FORK = sys.platform == "linux" and "TESTS_OF_CODRIVER_FORK" in os.environ
"""Whether processes are forked. Tests enable this in `conftest.py`, and benchmarks measure full starts."""
PROGRAM = Path(__file__).with_name("prepared_process.py")
FOR_THE_START = ("PYTHONPATH", "LD_PRELOAD")
"""Variables that an interpreter reads when it starts, which is too late for a forked one."""
HERE = {name: os.environ.get(name) for name in FOR_THE_START}
MAX_BYTES = 1 << 20
START_S = 180
"""Maximum time for a server's imports, which are compiled the first time."""


def can_fork(env):
    """Return whether a process with this environment can be forked."""
    return CAN_FORK and all(env.get(name) == HERE[name] for name in FOR_THE_START)


class Prepared:
    """The prepared process, and what it reported about its forks."""

    def __init__(self):
        self.link, theirs = posix_only.message_sockets()
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), str(theirs.fileno())], pass_fds=[theirs.fileno()], env=environ
            )
        self.asking = threading.Lock()
        self.changed = threading.Condition()
        self.started = []
        self.ended = {}
        self.reader = threading.Thread(target=self.read_events, daemon=True)
        self.reader.start()
        atexit.register(self.close)

    def read_events(self):
        with contextlib.suppress(OSError):
            while reported := self.link.recv(MAX_BYTES):
                news = json.loads(reported)
                with self.changed:
                    if "started" in news:
                        self.started.append(news["started"])
                    else:
                        self.ended[news["ended"]] = news
                    self.changed.notify_all()

    def fork(self, requested, descriptors):
        """Fork a new process and return its pid."""
        with self.asking:
            posix_only.send_files(self.link, json.dumps(requested).encode(), descriptors)
            with self.changed:
                assert self.changed.wait_for(lambda: self.started, START_S), "the prepared process does not answer"
                return self.started.pop()

    def close(self):
        self.link.shutdown(socket.SHUT_RDWR)
        self.reader.join()
        self.link.close()
        self.process.wait()


@functools.cache
def prepared():
    return Prepared()


class Forked:
    """A forked process `codriver WORDS`. Its output is text, in `stdout` and, unless that goes there too, `stderr`.

    With `terminal`, a descriptor, it reads and writes only there.
    """

    def __init__(self, words, *, env, cwd=None, stderr=subprocess.STDOUT, start_new_session=False, terminal=None):
        self.args = words
        self.returncode = self.memory = self.stdout = self.stderr = None
        requested = {
            "words": ["codriver", *map(str, words)],
            "environ": env,
            "folder": str(cwd or Path.cwd()),
            "session": start_new_session,
            "terminal": terminal is not None,
        }
        self.prepared = prepared()
        if terminal is not None:
            self.pid = self.prepared.fork(requested, [terminal] * 3)
            return
        with contextlib.ExitStack() as theirs:
            nothing = theirs.enter_context(open(os.devnull, "rb"))  # noqa: PTH123
            self.stdout, out = pipe(theirs)
            error = out
            if stderr == subprocess.PIPE:
                self.stderr, error = pipe(theirs)
            self.pid = self.prepared.fork(requested, [nothing.fileno(), out, error])

    def poll(self):
        with self.prepared.changed:
            self._update()
        return self.returncode

    def wait(self, timeout=None):
        with self.prepared.changed:
            if not self.prepared.changed.wait_for(self._update, timeout):
                raise subprocess.TimeoutExpired(self.args, timeout)
        return self.returncode

    def _update(self):
        if self.returncode is None and self.pid in self.prepared.ended:
            news = self.prepared.ended.pop(self.pid)
            self.returncode, self.memory = news["code"], news["memory"]
        return self.returncode is not None

    def send_signal(self, number):
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and the notification is on its way
                os.kill(self.pid, number)

    def kill(self):
        self.send_signal(9)

    def terminate(self):
        self.send_signal(15)

    def communicate(self, timeout=60):
        """Return all its output once it has ended."""
        ends = time.monotonic() + timeout
        message = {}
        files = [file for file in (self.stdout, self.stderr) if file]
        readers = [threading.Thread(target=lambda file=file: message.update({file: file.read()})) for file in files]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(max(0.0, ends - time.monotonic()))
        if any(reader.is_alive() for reader in readers):
            self.kill()
            raise subprocess.TimeoutExpired(self.args, timeout)
        for file in files:
            file.close()
        self.wait(max(1.0, ends - time.monotonic()))
        return message[self.stdout], message.get(self.stderr)


def pipe(theirs):
    """Return a new pipe: the reading end as a text file, and the number of the other end, which `theirs` closes."""
    ours, end = os.pipe()
    theirs.callback(os.close, end)
    return os.fdopen(ours, encoding="utf-8", errors="replace"), end


def run(words, *, env, cwd=None, timeout=60):
    """Run a command to its end, as `subprocess.run` does: forked if possible."""
    if not can_fork(env):
        command = [sys.executable, "-m", "codriver", *words]
        return subprocess.run(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
            check=False,
        )  # fmt: skip
    process = Forked(words, env=env, cwd=cwd, stderr=subprocess.PIPE)
    out, error = process.communicate(timeout)
    return subprocess.CompletedProcess(words, process.returncode, out, error)
