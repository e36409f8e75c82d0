"""What the relay's tests share: the relay as a real process, and a TCP server that a test plays by hand."""

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from codriver.files.file_locks import try_lock

RELAY = Path(__file__).parents[2] / "relay" / "codriver_relay" / "__main__.py"


def waiting(**seconds):
    """Return the environment variable that makes a relay wait this long."""
    return {"CODRIVER_RELAY_DURATIONS": " ".join(f"{name}={value}" for name, value in seconds.items())}


HASTY = waiting(answers_s=2, retry_s=0.1)
"""Settings for a relay that waits less time for answers than others."""
THREADS = "CODRIVER_RELAY_THREADS"
"""The variable that makes a relay wait for pipes in threads, as on a system that cannot poll them.

With it, all relay tests run this way. Without it, only the fast ones are run both ways.
"""
polls_alone = pytest.mark.skipif(
    THREADS in os.environ, reason="without polling only a write tells that a reader is gone"
)
WAIT_S = 60.0
"""Maximum time of any wait in a test. Waits should be much shorter."""

INITIALIZE = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LIST_CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


TOKEN = "aB3_-" * 8 + "xyz"
"""A string in the format of a server's token."""


@contextlib.contextmanager
def claimed(folder):
    """Create a private directory and hold its lock while the context is active, as a server does."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    with (folder / "lock").open("w") as lock:
        assert try_lock(lock.fileno())
        yield folder


def encode(message):
    return message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"


def request(id_, method="tools/call", **params):
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


def answer(id_, result=None):
    return {"jsonrpc": "2.0", "id": id_, "result": result if result is not None else {}}


class RelayProcess:
    """A client's view of a relay: what it writes to the relay's stdin, and the lines it reads from its stdout."""

    def __init__(self, *arguments, environment=None, program=None, command=None, cwd=None):
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("CODRIVER_") or name == THREADS
        }
        relay = [sys.executable, *(["-c", program] if program else ["-I", "-S", str(RELAY)])]
        self.process = subprocess.Popen(
            [*([command] if command else relay), *map(str, arguments)],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=clean | (environment or {}),
        )
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self.read_lines, daemon=True)
        self.reader.start()

    def read_lines(self):
        with os.fdopen(os.dup(self.process.stdout.fileno()), "rb") as out:
            for line in out:
                self.lines.put(line)
        self.lines.put(None)

    def send(self, *messages):
        data = memoryview(b"".join(map(encode, messages)))
        while data:
            data = data[self.process.stdin.write(data) :]

    def end(self):
        self.process.stdin.close()

    def receive_line(self):
        return self.lines.get(timeout=WAIT_S)

    def receive(self):
        line = self.receive_line()
        assert line is not None, "the relay has ended"
        assert line.endswith(b"\n")
        return json.loads(line)

    def wait(self):
        return self.process.wait(timeout=WAIT_S)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()  # this ends a relay that the process has started
        self.reader.join(WAIT_S)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


class Host:
    """A listening socket, played by the test."""

    def __init__(self, port=0):
        self.listener = socket.create_server(("127.0.0.1", port))
        self.listener.settimeout(WAIT_S)
        self.port = self.listener.getsockname()[1]
        self.peers = []

    def accept(self):
        peer = Peer(self.listener.accept()[0])
        self.peers.append(peer)
        return peer

    def close(self):
        self.listener.close()
        for peer in self.peers:
            peer.close()


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection):
        self.connection = connection
        self.connection.settimeout(WAIT_S)
        self.rest = b""

    def read_line(self):
        while b"\n" not in self.rest:
            data = self.connection.recv(1 << 16)
            if not data:
                return self.rest
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line + b"\n"

    def read(self):
        return json.loads(self.read_line())

    def send(self, *messages):
        self.connection.sendall(b"".join(map(encode, messages)))

    def answer_introduction(self, folder):
        """Answer an introduction as the server of a workspace does, and return its parameters."""
        introduction = self.read()["params"]
        params = {"workspace": identity(folder)}
        self.send({"jsonrpc": "2.0", "method": "codriver/workspace", "params": params})
        return introduction

    def close(self):
        self.connection.close()


def identity(folder):
    """Return the device and inode by which relay and server identify a workspace."""
    status = folder.stat()
    return f"{status.st_dev}:{status.st_ino}"


def open_session(relay, host):
    """Return a connection over which the client has performed its handshake."""
    relay.send(INITIALIZE)
    peer = host.accept()
    assert peer.read() == INITIALIZE
    peer.send(answer(0))
    assert relay.receive() == answer(0)
    relay.send(INITIALIZED)
    assert peer.read() == INITIALIZED
    return peer


def reopen_session(relay, host):
    """Return the next connection, over which the relay repeats that handshake."""
    peer = host.accept()
    assert peer.read() == INITIALIZE
    peer.send(answer(0, {"again": True}))
    assert peer.read() == INITIALIZED
    assert relay.receive() == LIST_CHANGED
    return peer
