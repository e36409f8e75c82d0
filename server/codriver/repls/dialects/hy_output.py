"""Output in hy-nrepl: each evaluation prints to whoever asked for it, a line at a time, and the server to nobody's log.

hy-nrepl 1.0.4 puts a stream of its own into `sys.stdout` at the beginning of each evaluation, and the one before back
at its end (`ops/eval.hy`): of two that overlap, one prints to the other's client or to nobody. What is worse, the
stream is freed while `print` still writes to it, at which Python before 3.14 crashes (python/cpython#130163): two
agents who print end the REPL. One stream for all stays in `sys.stdout` instead, which the server's evaluations find and
cannot set, those that run already among them; it looks up in the context of who prints whose evaluation it is.

`print` writes each word by itself, of which the server makes a message: here a line is one, as at a terminal, and what
has no end of line yet is sent when it is flushed, or before anything else is said.

Of a message longer than 1,024 bytes the server prints for each kilobyte that it is not whole yet (`server.hy`).

Of two requests that come in one read, as they do when the server was held up, it answers the first and keeps the second
until a third comes: an evaluation goes on for ever, and so does whatever is asked next. So the server reads by an
object that gives it one whole request at a time, and that lets its threads write one after the other.
"""

from __future__ import annotations

import json
from typing import Final

_QUIET: Final = """
import builtins, sys
server = sys.modules.get("hy-nrepl.server") or sys.modules["hy_nrepl.server"]
def say(*words, **how):
    if not isinstance([*words, ""][0], Exception):
        builtins.print(*words, **how)
server.ReplRequestHandler.handle.__globals__["print"] = say
"""

_ONE_BY_ONE: Final = """
import sys
from threading import Lock
server = sys.modules.get("hy-nrepl.server") or sys.modules["hy_nrepl.server"]
handler = server.ReplRequestHandler
def size(data):
    place = depth = 0
    while place < len(data):
        kind = data[place:place + 1]
        if kind in b"ld":
            depth, place = depth + 1, place + 1
        elif kind == b"e":
            depth, place = depth - 1, place + 1
        else:
            end = data.find(b"e" if kind == b"i" else b":", place)
            if end < 0:
                return 0
            place = end + 1 + (0 if kind == b"i" else int(data[place:end]))
        if depth == 0:
            return place if place <= len(data) else 0
    return 0
class OneByOne:
    def __init__(self, socket, began):
        self.socket, self.began, self.held, self.lock = socket, began, bytearray(), Lock()
    def __getattr__(self, name):
        return getattr(self.socket, name)
    def sendall(self, data):
        with self.lock:
            self.socket.sendall(data)
    def recv(self, _most):
        self.held[:0] = self.began
        self.began.clear()
        while True:
            try:
                end = size(self.held)
            except ValueError:
                end = len(self.held)
            if end:
                message = bytes(self.held[:end])
                del self.held[:end]
                return message
            more = self.socket.recv(65536)
            if not more:
                return more
            self.held += more
def mend():
    def setup(self):
        self.request = OneByOne(self.request, bytearray())
    handler.setup, handler.codriver = setup, True
    for frame in sys._current_frames().values():
        while frame is not None:
            told = frame.f_locals
            own = next((one for one in told.values() if isinstance(one, handler)), None)
            if frame.f_code is handler.handle.__code__ and own is not None:
                began = next(one for one in told.values() if isinstance(one, bytearray))
                own.request = OneByOne(own.request, began)
            frame = frame.f_back
if not hasattr(handler, "codriver"):
    mend()
"""
"""The connection that is served meanwhile reads once more as before: what that read has too much of is in `began`."""

_BY_CONTEXT: Final = """
import io, sys
from contextvars import ContextVar
from threading import RLock
ops, own = sys.modules["hy_nrepl.ops.eval"], ContextVar("own")
class Output(io.TextIOBase):
    running, process = [], sys.__stdout__
    def stream(self):
        return own.get(None) or next(reversed(self.running), self.process)
    def write(self, text):
        return self.stream().write(text)
    def flush(self):
        self.stream().flush()
class Sys:
    def __getattr__(self, name):
        return getattr(sys, name)
    def __setattr__(self, name, value):
        if name != "stdout":
            setattr(sys, name, value)
def mend():
    out, run = Output(), ops.InterruptibleEval.run
    class Lines(ops.StreamingOut):
        held, most = "", 8192
        def __init__(self, writer):
            super().__init__(writer)
            self.lock = RLock()
        def write(self, text):
            with self.lock:
                lines, end, self.held = (self.held + text).rpartition("\\n")
                super().write(lines + end)
                if len(self.held) > self.most:
                    self.flush()
            return len(text)
        def flush(self):
            with self.lock:
                text, self.held = self.held, ""
                super().write(text)
    def run_apart(thread):
        tell, lines = thread.writer, Lines(thread.writer)
        def tell_in_order(message):
            lines.flush()
            tell(message)
        thread.writer = tell_in_order
        if not out.running and sys.stdout is not out:
            out.process = sys.stdout
        sys.stdout = out
        own.set(lines)
        out.running.append(lines)
        try:
            run(thread)
        finally:
            out.running.remove(lines)
    ops.codriver, ops.sys, ops.InterruptibleEval.run, sys.stdout = out, Sys(), run_apart, out
if not hasattr(ops, "codriver"):
    mend()
"""
"""A thread without a context of an evaluation prints to the one that began last, as before, and to the process's own
stream where none runs."""

MENDS: Final = tuple(f"(exec {json.dumps(code)} {{}})" for code in (_QUIET, _ONE_BY_ONE, _BY_CONTEXT))
"""To be evaluated one after the other: the first makes room for longer ones."""
