"""A worker on its own, and a client of it: it is a plain nREPL server that any client can use."""

import contextlib
import os
import socket
import subprocess
import sys

from codriver.repls.launch import recipes
from codriver.wire.bencode import Decoder, encode

WORKER = str(recipes.WORKER_PROGRAM)
WAIT_S = 60
NAMES = [f"python3.{minor}" for minor in range(8, 16)]


class Repl:
    """The worker in its own process, and one client of it."""

    def __init__(self, folder, *options, stderr=subprocess.DEVNULL, python=sys.executable, how=(WORKER,)):
        self.folder = folder
        environ = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        self.process = subprocess.Popen(
            [python, *how, "--workspace", str(folder), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            cwd=folder,
            env=environ,
            text=True,
        )
        self.line = self.process.stdout.readline()
        self.port = int(self.line.rsplit(":", 1)[1])
        self.number = 0
        self.session = None
        self.socket = socket.socket()

    def connect(self):
        self.socket.close()
        self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        self.decoder = Decoder()
        self.received = []

    @contextlib.contextmanager
    def fresh_session(self):
        """Return a connection and a session for one test: what it leaves behind affects no other test."""
        self.connect()
        (self.session,) = texts(self.ask("clone", **{"codriver/apart": "yes"}), "new-session")
        try:
            yield self
        finally:
            if self.process.poll() is None:
                self.ask("interrupt")
                self.ask("close")
            self.session = None
            self.socket.close()

    def send(self, op, **fields):
        self.number += 1
        session = {"session": self.session} if self.session else {}
        self.socket.sendall(encode({"op": op, "id": str(self.number), **session, **fields}))
        return str(self.number)

    def answer(self, identity):
        """Return all messages of a request until it is done."""
        while True:
            got = [message for message in self.received if message.get("id") == identity]
            if any("done" in message.get("status", []) for message in got):
                self.received = [message for message in self.received if message.get("id") != identity]
                return got
            data = self.socket.recv(65536)
            assert data, "the worker hung up"
            self.received += self.decoder.feed(data)

    def ask(self, op, **fields):
        return self.answer(self.send(op, **fields))

    def evaluate(self, code, **fields):
        return self.ask("eval", code=code, **fields)

    def close(self):
        self.socket.close()
        self.process.kill()
        self.process.wait(WAIT_S)
        self.process.stdin.close()
        self.process.stdout.close()


def texts(messages, key):
    return [message[key] for message in messages if key in message]


def text(messages, key):
    return "".join(texts(messages, key))


def wait_for_output(repl, identity):
    """Wait until the request printed something."""
    while not any(m.get("id") == identity and "out" in m for m in repl.received):
        repl.received += repl.decoder.feed(repl.socket.recv(65536))
    return True


def wait_for_input_request(repl, identity):
    """Wait until the request asks for input."""
    while not any(m.get("id") == identity and "need-input" in m.get("status", ()) for m in repl.received):
        repl.received += repl.decoder.feed(repl.socket.recv(65536))
    return True
