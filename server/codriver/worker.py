"""The embedded REPL: an nREPL server in one file, for the project's own interpreter.

It uses the standard library alone and imports nothing of Codriver, so that any Python 3.8 or later can run it with
nothing to install. Code is evaluated on the main thread, where a signal can interrupt it; the network lives on other
threads, so the server answers while code runs. Dialects: `python`, and `lisp`, which hosts Basilisp.

What is its own beyond nREPL: a failure carries `codriver/error` (type, message, phase, file, line, column, form,
trace); the op `codriver/stacks` gives a dump of all threads; `clone` with `codriver/apart` gives a session with a
namespace of its own. Started with `--supervised` it ends with its parent.

Source: nREPL documentation, "Ops"; BEP 3 for bencode.
"""

from __future__ import annotations
import __future__

import argparse
import ast
import bisect
import builtins
import codecs
import collections
import contextlib
import faulthandler
import importlib.util
import io
import itertools
import keyword
import linecache
import operator
import os
import queue
import select
import signal
import socket
import sys
import threading
import time
import traceback
import types

VERSION = "0.2.0"
FLUSH_S = 0.015
"""How long printed text may wait for more, so that many small writes make few messages."""
PIECE_CHARACTERS = 256 * 1024
"""Longest text in one message of output."""
WAITING_BYTES = 8 * 2**20
"""How much may wait for a client that reads slowly before the code that prints it is made to wait."""
STALLED_S = 10.0
"""A client that takes nothing for so long, while code waits for it, is dropped: others want to evaluate too."""
INTERRUPT_S = 2.0
"""How long an interrupted evaluation is given to end before the interrupt is answered all the same."""
SIGNAL_EVERY_S = 0.5
"""Finalizers and code that catches everything may swallow one interrupt; so it gets another after this time."""
MAX_DEPTH = 64
MAX_STRING_BYTES = 256 * 2**20
SOURCES = 2000
"""How many evaluated texts are kept for tracebacks and `inspect.getsource`."""
COMPLETIONS = 500
FRAMES = 50
LISP_LENGTH = 10_000
"""How many items of a sequence are printed where the request names no limit: Lisp's sequences may be infinite."""
PRINT = "nrepl.middleware.print/"
OWN_FILE = (lambda: None).__code__.co_filename
LIBRARY = os.path.dirname(os.__file__) + os.sep
MISSING = object()
START = threading.Thread.start
"""Before it is replaced, to tell which evaluation a thread belongs to: threads of ours belong to none."""
DISPLAYHOOK = sys.displayhook
EXCEPTHOOK = sys.excepthook
"""As the interpreter starts: others are the user's. Some systems set one of theirs before that."""


# Bencode


class BencodeError(Exception):
    """What came is no bencode, or beyond the limits."""


def encode(value):
    """A value of dicts, lists, strings and integers as bytes; None is the empty list, as nREPL servers send it."""
    if isinstance(value, str):
        # Half of a surrogate pair cannot be sent; its escape shows what it was.
        raw = value.encode("utf-8", "backslashreplace")
        return b"%d:%s" % (len(raw), raw)
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, dict):
        # One copy of a long string here, not three.
        return b"".join([b"d", *(encode(one) for key in sorted(value) for one in (key, value[key])), b"e"])
    return b"l" + b"".join(map(encode, value or ())) + b"e"


def read_value(file, depth=0, first=None):
    """The next value of a binary file; None at its end."""
    head = first or file.read(1)
    if not head:
        return None
    if depth > MAX_DEPTH:
        raise BencodeError("nested too deep")
    if head == b"i":
        return int(_until(file, b"e"))
    if head in (b"l", b"d"):
        items = []
        while (mark := file.read(1)) != b"e":
            if not mark:
                raise BencodeError("ended within a value")
            items.append(read_value(file, depth + 1, mark))
        return items if head == b"l" else dict(zip(items[::2], items[1::2]))
    if not head.isdigit():
        raise BencodeError("no value begins so")
    size = int(head + _until(file, b":"))
    if size > MAX_STRING_BYTES:
        raise BencodeError("a string is too long")
    raw = file.read(size)
    if len(raw) < size:
        raise BencodeError("ended within a string")
    return raw.decode("utf-8", "replace")


def _until(file, end):
    digits = b""
    while (byte := file.read(1)) != end:
        if not byte or len(digits) > 20:
            raise BencodeError("a number does not end")
        digits += byte
    return digits


# Connections, sessions and jobs


class Connection:
    """One client's socket: a thread reads it, and another writes what the client does not take at once."""

    def __init__(self, sock, server):
        self._socket = sock
        self._server = server
        self._lock = threading.Lock()
        self._waiting = collections.deque()
        self.waiting_bytes = 0
        self._moved_at = 0.0
        self.is_open = True

    def answer(self, message, fields):
        """Send an answer to `message`, after all others. A client that is gone misses it."""
        self.push(pack(message, fields))

    def push(self, data):
        """Send whole messages. What can be sent at once is: code that runs next may never let another thread run."""
        with self._lock:
            if not self._waiting and self.is_open and hasattr(socket, "MSG_DONTWAIT"):
                try:
                    data = memoryview(data)[self._socket.send(data, socket.MSG_DONTWAIT) :]
                except BlockingIOError:
                    pass
                except OSError:
                    self.is_open = False
            if data and self.is_open:
                self._waiting.append(data)
                self.waiting_bytes += len(data)
                if len(self._waiting) == 1:
                    self._moved_at = time.monotonic()
                    start_thread(self._write)

    def _write(self):
        """Send what waits until nothing does: the first stays in the queue until all of it is sent."""
        try:
            while True:
                rest = memoryview(self._waiting[0])
                while rest:
                    rest = rest[self._socket.send(rest[: 2**20]) :]
                    self._moved_at = time.monotonic()
                with self._lock:
                    self.waiting_bytes -= len(self._waiting.popleft())
                    if not self._waiting:
                        return
        except (OSError, IndexError):
            self.drop()

    def wait_for_room(self):
        """Wait while the client has too much to read; one that takes none of it for long is dropped."""
        while self.is_open and self.waiting_bytes > WAITING_BYTES:
            if time.monotonic() > self._moved_at + STALLED_S:
                self.drop()
            time.sleep(0.005)

    def drop(self):
        """End the connection. Twice is harmless."""
        with self._lock:
            self.is_open = False
            self._waiting.clear()
            self.waiting_bytes = 0
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def forget(self):
        """Close the socket in a forked child, without a word to the client: the parent keeps it."""
        # Closing it would wait for the file that the reader made of it.
        with contextlib.suppress(OSError):
            os.close(self._socket.detach())

    def serve(self):
        """Read requests until the client leaves or sends what is no request."""
        with self._socket, self._socket.makefile("rb", buffering=65536) as file:
            while isinstance(message := self._next(file), dict):
                self._server.handle(message, self)
                self.wait_for_room()
            self.drop()

    @staticmethod
    def _next(file):
        try:
            return read_value(file)
        except (OSError, BencodeError, ValueError, TypeError):
            return None


def pack(message, fields):
    """An answer to `message` as bytes."""
    reply = {name: message[name] for name in ("id", "session") if isinstance(message.get(name), str)}
    reply.update(fields)
    return encode(reply)


class Session:
    """What one caller has of its own: the current namespace, the last values, and input not read yet."""

    def __init__(self, identity, namespace):
        self.id = identity
        self.namespace = namespace
        self.is_apart = False
        self.last = [None, None, None]
        self.error = None
        self.loop = None
        self.flags = 0
        self.input = queue.SimpleQueue()


class Job:
    """One request that runs on the main thread, from the moment it was asked for."""

    def __init__(self, message, connection, session, server):
        self.message = message
        self.connection = connection
        self.session = session
        self.file = None
        self.form = None  # the number of the top-level form that runs, from 1
        self.lines = None  # or the lines on which they begin, where they run as one
        self.over = threading.Event()
        self.is_begun = False
        self.is_interrupted = False
        self.is_cut_off = False
        """It was told that its input has ended, so that it ends: what comes of that is the interrupt's doing."""
        self._server = server
        self._lock = threading.Lock()
        self._texts = []
        self._packed = []
        self._size = 0
        self._is_dirty = False

    def send(self, fields):
        """Answer, after all that was printed before."""
        with self._server.shield, self._lock:
            self._pack()
            self._packed.append(pack(self.message, fields))
            self._push()

    def tell(self, fields):
        """Answer soon, in one packet with the end of the evaluation if that is near."""
        with self._server.shield, self._lock:
            self._pack()
            self._packed.append(pack(self.message, fields))
            if len(self._packed[-1]) > PIECE_CHARACTERS:
                self._push()
            else:
                self._touch()

    def write(self, stream, text):
        """Printed text: it leaves soon. No lock is taken: a finalizer that prints runs anywhere, in our code too."""
        self._texts.append((stream, text))
        self._size += len(text)
        if not self._is_dirty:
            self._touch()
        if self._size > WAITING_BYTES or self.connection.waiting_bytes > WAITING_BYTES:
            self._wait_for_room()

    def flush(self):
        """Send what waits."""
        with self._server.shield, self._lock:
            self._push()

    def _wait_for_room(self):
        self._touch()
        patience = time.monotonic() + STALLED_S
        while self._size > WAITING_BYTES and time.monotonic() < patience:
            time.sleep(0.002)
        self.connection.wait_for_room()

    def _touch(self):
        self._is_dirty = True
        self._server.dirty.put(self)

    def _push(self):
        self._is_dirty = False
        self._pack()
        packed, self._packed = self._packed, []
        if packed:
            self.connection.push(b"".join(packed) if len(packed) > 1 else packed[0])

    def _pack(self):
        texts = self._texts[:]
        del self._texts[: len(texts)]
        self._size = 0
        for stream, group in itertools.groupby(texts, key=operator.itemgetter(0)):
            text = "".join(text for _, text in group)
            for start in range(0, len(text), PIECE_CHARACTERS):
                self._packed.append(pack(self.message, {stream: text[start : start + PIECE_CHARACTERS]}))


class Shield:
    """Where the main thread's interrupts wait: no message is lost and no lock stays held because one came."""

    def __init__(self):
        self.main = threading.get_ident()
        self.depth = 0
        self.is_late = False

    def __enter__(self):
        if threading.get_ident() == self.main:
            self.depth += 1

    def __exit__(self, *_):
        if threading.get_ident() == self.main:
            self.depth -= 1
            if self.is_late and not self.depth:
                self.is_late = False
                raise KeyboardInterrupt


# What user code sees as its standard streams


class Out(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of user code: text goes to the evaluation that printed it."""

    encoding = "utf-8"
    errors = "backslashreplace"
    mode = "w"

    def __init__(self, stream, server):
        self._stream = stream
        self._server = server
        self.name = "<std%s>" % stream
        if os.name == "posix":
            self.buffer = io.FileIO(self.fileno(), "w", closefd=False)

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self._server.printed(self._stream, text)
        return len(text)

    def flush(self):
        self._server.flush()

    def fileno(self):
        """The descriptor that child processes and C code write to, where that is captured too."""
        if os.name != "posix":
            raise io.UnsupportedOperation("fileno")
        return 1 if self._stream == "out" else 2

    def close(self):
        """Nothing: user code that closes its output keeps it."""


class In(io.TextIOBase):
    """`sys.stdin` of user code: asks the client. Empty input is the end of the file, once."""

    encoding = "utf-8"
    errors = "replace"
    name = "<stdin>"
    mode = "r"

    def __init__(self, server):
        self._server = server
        self._rest = ""

    def readable(self):
        return True

    def readline(self, size=-1):
        if not self._rest:
            self._rest = self._ask()
        end = self._rest.find("\n") + 1 or len(self._rest)
        return self._take(end if size is None or size < 0 else min(end, size))

    def read(self, size=-1):
        wanted = sys.maxsize if size is None or size < 0 else size
        while len(self._rest) < wanted and (more := self._ask()):
            self._rest += more
        return self._take(wanted)

    def _take(self, count):
        text, self._rest = self._rest[:count], self._rest[count:]
        return text

    def _ask(self):
        job = self._server.job_here()
        if job is None:
            return ""
        if job.is_interrupted:
            # A debugger takes an interrupt for a wish to see its prompt again.
            job.is_cut_off = True
            return ""
        if job.session.input.empty():
            job.send({"status": ["need-input"]})
        return job.session.input.get()

    def forget(self, session):
        """Drop what was not read, so that the next evaluation does not get it."""
        self._rest = ""
        with contextlib.suppress(queue.Empty):
            while True:
                session.input.get_nowait()

    def close(self):
        """Nothing: `exit()` closes it, and the REPL goes on."""


class Pipes:
    """What is written to the descriptors 1 and 2 themselves, by child processes and C code; POSIX alone.

    The terminal or pipe that standard error was is left to `faulthandler`, whose last words would be lost here.
    """

    def __init__(self, server):
        import fcntl

        self._server = server
        self._lock = threading.Lock()
        self._ends = {}
        faulthandler.enable(os.dup(2))
        for number, stream in ((1, "out"), (2, "err")):
            reading, writing = os.pipe()
            with contextlib.suppress(OSError):
                # F_SETPIPE_SZ of Linux: C code that prints while it holds the interpreter's lock stops us from reading.
                fcntl.fcntl(writing, 1031, 1 << 20)
            os.dup2(writing, number)
            os.close(writing)
            self._ends[reading] = (stream, codecs.getincrementaldecoder("utf-8")("backslashreplace"))
        sys.__stdout__ = os.fdopen(1, "w", 1, "utf-8", "backslashreplace", closefd=False)
        sys.__stderr__ = os.fdopen(2, "w", 1, "utf-8", "backslashreplace", closefd=False)
        self._flush_c = lambda: None
        with contextlib.suppress(Exception):
            import ctypes

            libc = ctypes.CDLL(None)
            stdout = ctypes.c_void_p.in_dll(libc, "__stdoutp" if sys.platform == "darwin" else "stdout")
            libc.setvbuf(stdout, None, 1, 0)  # 1 is _IOLBF: C code's lines arrive when they are printed
            self._flush_c = lambda: libc.fflush(stdout)
        start_thread(self._watch)

    def drain(self):
        """Pass on what was written until now."""
        # Another thread that does it may be waiting for a client, and a finalizer may call this while it is done.
        if not self._lock.acquire(timeout=0.2):
            return
        try:
            # Bounded, because a child that floods would keep us here for ever.
            for _ in range(32):
                ready = select.select(self._ends, [], [], 0)[0]
                for reading in ready:
                    stream, decoder = self._ends[reading]
                    data = os.read(reading, 65536)
                    self._server.printed(stream, decoder.decode(data), self._server.last_job)
                    if not data:
                        del self._ends[reading]
                if not ready:
                    break
        finally:
            self._lock.release()

    def finish(self):
        """Pass on what an evaluation wrote, buffers included."""
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()
        self._flush_c()
        self.drain()

    def _watch(self):
        while self._ends:
            select.select(self._ends, [], [])
            self.drain()


# The server


class Server:
    """Takes requests on its own threads, and runs evaluations one after the other on the main thread."""

    def __init__(self, dialect, is_supervised):
        self.dialect = dialect
        self.shield = Shield()
        self.dirty = queue.SimpleQueue()
        self.sessions = {}
        self.default = self._new_session()
        self.pipes = None
        self.last_job = None
        self._is_supervised = is_supervised
        self._is_child = False
        self._listener = None
        self._connections = []
        self._queue = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = []
        self._running = None
        self._wanted = None
        self._is_sent = False
        self._stopping = threading.Lock()
        self._ops = {
            "clone": self._clone,
            "close": self._close,
            "describe": self._describe,
            "eval": self._enqueue,
            "load-file": self._enqueue,
            "interrupt": self._interrupt,
            "stdin": self._stdin,
            "completions": self._completions,
            "complete": self._completions,
            "lookup": self._lookup,
            "ls-sessions": self._ls_sessions,
            "codriver/stacks": self._stacks,
        }
        if dialect.expands:
            self._ops["macroexpand"] = self._enqueue

    def _new_session(self):
        session = Session(os.urandom(16).hex(), self.dialect.home)
        self.sessions[session.id] = session
        return session

    # On the network's threads

    def listen(self, listener):
        """Accept connections for ever."""
        self._listener = listener
        while True:
            sock, _ = listener.accept()
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(sock, self)
            self._connections[:] = [one for one in self._connections if one.is_open]
            self._connections.append(connection)
            start_thread(connection.serve)

    def handle(self, message, connection):
        """Answer one request, or put it in the queue."""
        name, identity = message.get("op"), message.get("session")
        op = self._ops.get(name) if isinstance(name, str) else None
        session = self.default if not identity else self.sessions.get(identity) if isinstance(identity, str) else None
        if op is None:
            refuse(message, connection, "unknown-op", "there is no op %r" % (name,))
        elif session is None:
            refuse(message, connection, "unknown-session", "there is no session %r: it may be closed" % (identity,))
        else:
            try:
                op(message, connection, session)
            except Exception as error:  # whatever a request does, the server goes on
                words = "".join(traceback.format_exception_only(type(error), error)).strip()
                refuse(message, connection, "failed", words)

    def _clone(self, message, connection, session):
        clone = self._new_session()
        clone.is_apart = bool(message.get("codriver/apart"))
        clone.namespace = self.dialect.new_home() if clone.is_apart else session.namespace
        connection.answer(message, {"new-session": clone.id, "status": ["done"]})

    def _close(self, message, connection, session):
        if session is not self.default:
            self.sessions.pop(session.id, None)
            if session.is_apart:
                self.dialect.drop_home(session.namespace)
        connection.answer(message, {"status": ["done", "session-closed"]})

    def _ls_sessions(self, message, connection, session):
        connection.answer(message, {"sessions": list(self.sessions), "status": ["done"]})

    def _describe(self, message, connection, session):
        versions = {name: {"version-string": text} for name, text in self.dialect.versions().items()}
        versions["codriver-worker"] = {"version-string": VERSION}
        connection.answer(message, {"ops": {op: {} for op in self._ops}, "versions": versions, "status": ["done"]})

    def _enqueue(self, message, connection, session):
        field = "file" if message["op"] == "load-file" else "code"
        if not isinstance(message.get(field), str):
            refuse(message, connection, "no-code", "the op %s needs %r, a string" % (message["op"], field))
            return
        job = Job(message, connection, session, self)
        with self._lock:
            self._open.append(job)
        self._queue.put(job)

    def _interrupt(self, message, connection, session):
        wanted = message.get("interrupt-id")
        with self._lock:
            mine = [job for job in self._open if not message.get("session") or job.session is session]
            job = next((job for job in mine if not wanted or job.message.get("id") == wanted), None)
            if job is not None:
                job.is_interrupted = True
        if not mine:
            connection.answer(message, {"status": ["done", "session-idle"]})
        elif job is None:
            words = "what runs or waits in this session is not the evaluation %r" % (wanted,)
            refuse(message, connection, "interrupt-id-mismatch", words)
        elif job.is_begun:
            # It may take its time, and this thread reads the client's next requests.
            start_thread(lambda: self._stop(job, message, connection))
        else:
            # The main thread passes over it.
            self._end(job, ["done", "interrupted"])
            connection.answer(message, {"status": ["done"]})

    def _stop(self, job, message, connection):
        """Interrupt what runs until it is over, and say whether it is."""
        patience = time.monotonic() + INTERRUPT_S
        with self._stopping:
            while not job.over.is_set() and time.monotonic() < patience:
                self._wanted, self._is_sent = job, True
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(self.shield.main, signal.SIGINT)
                else:
                    import _thread

                    _thread.interrupt_main()
                job.over.wait(SIGNAL_EVERY_S)
        status = ["done"] if job.over.is_set() else ["done", "interrupt-pending"]
        connection.answer(message, {"status": status})

    def _stdin(self, message, connection, session):
        if not isinstance(message.get("stdin"), str):
            refuse(message, connection, "no-stdin", "the op stdin needs 'stdin', a string")
            return
        session.input.put(message["stdin"])
        connection.answer(message, {"status": ["done"]})

    def _completions(self, message, connection, session):
        prefix = message.get("prefix") or message.get("symbol") or ""
        namespace = self.dialect.find(message.get("ns")) or session.namespace
        found = self.dialect.complete(prefix, namespace)
        connection.answer(message, {"completions": found, "status": ["done"]})

    def _lookup(self, message, connection, session):
        name = message.get("sym") or message.get("symbol") or ""
        namespace = self.dialect.find(message.get("ns")) or session.namespace
        found = self.dialect.lookup(name, namespace)
        connection.answer(message, {"info": found, "status": ["done"] if found else ["done", "no-info"]})

    def _stacks(self, message, connection, session):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = []
        for ident, frame in sys._current_frames().items():
            lines = [line for line in traceback.format_stack(frame) if OWN_FILE not in line]
            if lines and names.get(ident) != "codriver":
                stacks.append(names.get(ident, str(ident)) + ":\n" + "".join(lines[-FRAMES:]))
        connection.answer(message, {"stacks": "\n".join(stacks), "status": ["done"]})

    # On the main thread

    def run(self):
        """Evaluate for ever; an interrupt by hand, at a terminal, ends it while nothing runs."""
        signal.signal(signal.SIGINT, self._on_signal)
        while True:
            job = self._queue.get()
            with self._lock:
                job.is_begun = not job.is_interrupted
            if job.is_begun:
                self._run_one(job)

    def _on_signal(self, _number, _frame):
        is_ours, self._is_sent = self._is_sent, False
        if is_ours and self._running is not self._wanted:
            return  # it comes late: what it was for is over
        if self._running is None and self._is_supervised:
            return  # code that is over sent it to itself: there is no terminal
        if self._running is not None and self.shield.depth:
            self.shield.is_late = True
        else:
            raise KeyboardInterrupt

    def _run_one(self, job):
        self.last_job = job
        self.take_streams()
        if signal.getsignal(signal.SIGINT) != self._on_signal:
            # User code changed it, and so took what was sent.
            signal.signal(signal.SIGINT, self._on_signal)
            self._is_sent = False

        def act():
            job.connection.wait_for_room()
            self.dialect.evaluate(job)

        error = self._perform(job, act)
        if self._is_child:
            # User code forked, and this is the child that came back from it: the REPL is its parent's.
            leave_child(error)
        if job.is_cut_off and (error is None or type(error).__name__ in CUT_OFF):
            status = ["done", "interrupted"]
        else:
            status = ["done"] if error is None else self._failed(job, error)
        if self.pipes is not None:
            self.pipes.finish()
        self.input.forget(job.session)
        # Code without a value tells where it ran here.
        space = self.dialect.find(job.message.get("ns")) or job.session.namespace
        self._end(job, status, {"ns": self.dialect.name_of(space)})

    def _perform(self, job, act):
        """Do what an interrupt may end, and give what it raised; no interrupt comes after it."""
        self.shield.depth, self.shield.is_late = 0, False
        try:
            try:
                self._running = job
                act()
            finally:
                self._running = None
        except BaseException as error:
            self._running = None
            return error
        return None

    def _end(self, job, status, fields=None):
        with self._lock:
            self._open = [one for one in self._open if one is not job]
        job.send({"status": status, **(fields or {})})
        job.over.set()

    def _failed(self, job, error):
        """Report why an evaluation failed; the status it ends with."""
        if isinstance(error, KeyboardInterrupt) and job.is_interrupted:
            return ["done", "interrupted"]
        if isinstance(error, NamespaceMissing):
            job.send({"err": str(error) + "\n"})
            return ["done", "error", "namespace-not-found"]
        job.session.error = error
        keep_error(error)
        told = []
        # The words of an error come from user code, which may fail again, or never end.
        failure = self._perform(job, lambda: told.append(self.dialect.explain(error, job)))
        if not told:
            name = type(error).__name__
            words = "its message cannot be shown: " + type(failure).__name__
            parts = {"type": name, "message": words, "phase": "execution", "trace": []}
            told.append((parts, name + ": " + words + "\n"))
        parts, text = told[0]
        if job.form:
            parts["form"] = job.form
        self._show_error(job, error, text)
        name = parts["type"]
        job.send({"ex": name, "root-ex": name, "codriver/error": parts, "status": ["eval-error"]})
        return ["done"]

    def _show_error(self, job, error, text):
        """Print a failure: by the hook that the user set for that, else as `text`."""
        if sys.excepthook is EXCEPTHOOK or not self.dialect.has_hooks or isinstance(error, SystemExit):
            job.send({"err": text})
            return
        failure = self._perform(job, lambda: sys.excepthook(type(error), error, error.__traceback__))
        if failure is not None:
            strip_own(failure)
            why = "".join(traceback.format_exception(type(failure), failure, failure.__traceback__))
            job.send({"err": "Error in sys.excepthook:\n" + why + "\nOriginal exception was:\n" + text})

    # Output

    def printed(self, stream, text, job=None):
        """User code printed `text`."""
        job = job or self.job_here()
        if job is not None and text:
            job.write(stream, text)
        elif self._is_child:
            os.write(1 if stream == "out" else 2, text.encode("utf-8", "backslashreplace"))

    def flush(self):
        """Send what was printed at once: the code that runs next may never let another thread run."""
        job = self.job_here()
        if job is None:
            return
        if threading.get_ident() != self.shield.main or self.shield.depth:
            self.dirty.put(job)
            return
        with self.shield:
            if self.pipes is not None:
                self.pipes.drain()
            job.flush()

    def job_here(self):
        """The evaluation whose code runs on this thread, or which started it; else the last one."""
        if threading.get_ident() == self.shield.main or self._is_child:
            return self.last_job
        return getattr(threading.current_thread(), "codriver_job", None) or self.last_job

    def flush_often(self):
        """Send what was printed, shortly after it was."""
        while True:
            jobs = {self.dirty.get()}
            time.sleep(FLUSH_S)
            while not self.dirty.empty():
                jobs.add(self.dirty.get())
            for job in jobs:
                job.flush()

    def take_streams(self):
        """Become standard output, error and input of user code, whatever it did to them."""
        sys.stdout, sys.stderr, sys.stdin = self.out, self.err, self.input

    def take_process(self):
        """Take all that user code prints, know the threads it starts, and keep forked children from the clients."""
        self.out, self.err, self.input = Out("out", self), Out("err", self), In(self)
        if os.name == "posix":
            self.pipes = Pipes(self)
            os.register_at_fork(after_in_child=self._after_fork)
        self.take_streams()

        def start(thread):
            thread.codriver_job = self.job_here()
            START(thread)

        threading.Thread.start = start
        self.dialect.take_streams()

    def _after_fork(self):
        """What a forked child prints reaches the parent through the pipes, as the output of any other child does."""
        self._is_child, self.last_job = True, None
        for connection in self._connections:
            connection.forget()
        if self._listener is not None:
            self._listener.close()
        signal.signal(signal.SIGINT, signal.default_int_handler)


def refuse(message, connection, word, words):
    """Answer that a request cannot be done."""
    parts = {"type": word, "message": words, "phase": "request", "trace": []}
    connection.answer(message, {"err": words + "\n", "codriver/error": parts, "status": ["done", "error", word]})


def leave_child(error):
    """End a forked process as Python would have."""
    status = 0 if error is None else 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else 1 if error.code else 0
    elif error is not None:
        sys.stderr.write("".join(traceback.format_exception(type(error), error, error.__traceback__)))
    os._exit(status)


def start_thread(target):
    """A thread of ours, which does not keep the process alive."""
    START(threading.Thread(target=target, name="codriver", daemon=True))


CUT_OFF = ("EOFError", "BdbQuit", "SystemExit")
"""How code ends that reads on after its input has ended; by name, as debuggers are not loaded before they are used."""


class NamespaceMissing(Exception):
    """Code was to be evaluated in a namespace that is not there."""


# Printing


def tell(job, text, namespace, is_cut=False):
    """Send a printed value, within the quota of bytes that the request names."""
    quota = job.message.get(PRINT + "quota")
    if isinstance(quota, int) and quota > 0 and len(raw := text[: quota + 1].encode("utf-8", "replace")) > quota:
        text, is_cut = raw[:quota].decode("utf-8", "ignore"), True
    job.tell({"value": text, "ns": namespace, **({"status": [PRINT + "truncated"]} if is_cut else {})})


def limits(job):
    """The length and depth that values are printed to, None for no limit."""
    options = job.message.get(PRINT + "options")
    given = [options.get(name) for name in ("print-length", "print-level")] if isinstance(options, dict) else [0, 0]
    return [limit if isinstance(limit, int) and limit > 0 else None for limit in given]


BRACKETS = {list: "[]", tuple: "()", set: "{}", dict: "{}", frozenset: ("frozenset({", "})")}
BRACKETS[collections.deque] = ("deque([", "])")


def shorten(value, length, depth, around=()):
    """`repr` that shows at most `length` items of each collection, nested at most `depth` deep."""
    kind = type(value)
    if kind not in BRACKETS or not value:
        return repr(value)
    before, after = BRACKETS[kind]
    if id(value) in around or (depth is not None and len(around) >= depth):
        return before + "..." + after
    around = (*around, id(value))
    shown = list(itertools.islice(value.items() if kind is dict else value, length))
    if kind is dict:
        texts = [shorten(key, length, depth, around) + ": " + shorten(one, length, depth, around) for key, one in shown]
    else:
        texts = [shorten(one, length, depth, around) for one in shown]
    if len(value) > len(shown):
        texts.append("...")
    elif kind is tuple and len(texts) == 1:
        texts[0] += ","
    return before + ", ".join(texts) + after


# Errors


def begin_parts(error):
    """What both dialects tell of a failure, and its frames but for the worker's own, outermost first."""
    name = type(error).__name__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = type(error).__module__ + "." + name
    message = str(error)
    if isinstance(error, SystemExit):
        message = "code called exit(%s); the REPL goes on" % message
    frames = users_own(traceback.extract_tb(error.__traceback__))
    trace = ["%s (%s:%s)" % (frame.name, frame.filename, frame.lineno) for frame in reversed(frames)][:FRAMES]
    parts = {"type": name, "message": message, "phase": getattr(error, "codriver_phase", "execution"), "trace": trace}
    return parts, frames


def strip_own(error):
    """Take the worker's frames off the top of an error's traceback, as nobody wants to debug those."""
    trace = error.__traceback__
    while trace is not None and is_own(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    error.__traceback__ = trace


def keep_error(error):
    """Leave an error where post-mortem debuggers look for it. Source: Python's `sys.last_exc`, since 3.12."""
    strip_own(error)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    sys.last_exc = error


def users_own(frames):
    """Frames without the worker's, and without those of the event loop around an `await` at the top."""
    rest = itertools.dropwhile(lambda frame: is_own(frame.filename), frames)
    return [frame for frame in rest if frame.filename != OWN_FILE]


def is_own(file):
    """Whether code that lies around the user's is of this file: of the worker, or of the event loop that it runs."""
    return file == OWN_FILE or ("asyncio" in file and is_library(file))


def is_library(file):
    """Whether a file is of the standard library or of an installed package."""
    return file.startswith((LIBRARY, "<frozen")) or "-packages" + os.sep in file


def place(parts, frames):
    """Add the place of a failure: the innermost line of the user's own code, else the innermost of all."""
    own = [frame for frame in frames if not is_library(frame.filename)] or frames
    if own:
        parts.update(file=own[-1].filename, line=own[-1].lineno or 1)
        column = getattr(own[-1], "colno", None)
        if column is not None:
            parts["column"] = column + 1


_sources = collections.deque()


def keep_source(file, text):
    """Let tracebacks show the lines of code that is in no file; None as its time keeps it from being looked for."""
    if file.startswith("<") or not os.path.exists(file):
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        _sources.append(file)
        if len(_sources) > SOURCES:
            linecache.cache.pop(_sources.popleft(), None)


def whole_number(message, name):
    """A number from 1 in a request; 1 if there is none. Lines beyond a million are no lines."""
    value = message.get(name)
    return value if isinstance(value, int) and 1 <= value <= 1_000_000 else 1


# Python


class Python:
    """Evaluates Python. A namespace is a module; the first one is `__main__`, which is called `user`."""

    expands = False
    has_hooks = True

    def __init__(self, roots):
        self._roots = roots
        self._numbers = itertools.count(1)
        self._homes = itertools.count(2)
        self._kept = {}
        # Code that pickles its classes or starts processes finds them in `__main__`, and never this file there.
        self.home = sys.modules["__main__"] = types.ModuleType("__main__")
        self.home.__builtins__ = builtins

    @staticmethod
    def versions():
        return {"python": ".".join(map(str, sys.version_info[:3]))}

    def take_streams(self):
        """Python's own streams are all there are."""

    def name_of(self, module):
        return "user" if module is self.home else module.__name__

    def new_home(self):
        """A namespace for one session alone."""
        module = types.ModuleType("user%d" % next(self._homes))
        module.__builtins__ = builtins
        sys.modules[module.__name__] = module
        return module

    def drop_home(self, module):
        """Forget a session's own namespace."""
        sys.modules.pop(module.__name__, None)
        self._kept.pop(module.__name__, None)

    def find(self, name):
        """The module `name` if it was imported."""
        return self.home if name == "user" else sys.modules.get(name) if name else None

    def evaluate(self, job):
        message, session = job.message, job.session
        if message["op"] == "load-file":
            self._load(job)
            return
        module = session.namespace
        if message.get("ns"):
            module = self.find(message["ns"])
            if module is None:
                raise NamespaceMissing("no module %r is imported: import it first" % (message["ns"],))
        job.file = message.get("file") or "<eval %d>" % next(self._numbers)
        steps = self._compile(message["code"], job)
        # Where a statement comes last, what it did is wanted, and no value of before.
        has_value = bool(steps) and steps[-1][1]
        for number, (code, is_expression) in enumerate(steps, 1):
            job.form = number
            value = self._finish(code, module.__dict__, session)
            if not is_expression:
                continue
            text = self._display(value, job) if has_value else ""
            if value is not None:
                session.last[:] = [value, *session.last[:2]]
                self._keep(value, module)
            if has_value:
                tell(job, text, self.name_of(module))

    def _keep(self, value, module):
        """Name a value `_`, unless the user gave that name to something else, as translations do."""
        before = self._kept.get(module.__name__)
        if module.__dict__.get("_", before) is before:
            module.__dict__["_"] = self._kept[module.__name__] = value

    @staticmethod
    def _parse(source, file, line=1):
        # Blank lines in front make all numbers right, those of errors as well.
        text = "\n" * (line - 1) + source
        keep_source(file, text)
        return ast.parse(text, file).body

    def _compile(self, source, job):
        """The statements of `source`, each as code and whether it is an expression: all compile before any runs."""
        session, found = job.session, []
        try:
            flags = session.flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
            for number, node in enumerate(self._parse(source, job.file, whole_number(job.message, "line")), 1):
                job.form = number
                if isinstance(node, ast.ImportFrom) and node.module == "__future__":
                    for alias in node.names:
                        flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
                is_expression = isinstance(node, ast.Expr)
                tree = ast.Expression(node.value) if is_expression else ast.Module([node], [])
                found.append((compile(tree, job.file, "eval" if is_expression else "exec", flags, True), is_expression))
        except Exception as error:
            error.codriver_phase = "read"
            raise
        session.flags = flags & ~ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return found

    @staticmethod
    def _finish(code, space, session):
        """Run code; if it awaits, on the session's own event loop, which lives on between evaluations."""
        result = eval(code, space)
        if not code.co_flags & CO_COROUTINE:
            return result
        import asyncio

        if session.loop is None or session.loop.is_closed():
            session.loop = asyncio.new_event_loop()
        task = session.loop.create_task(result)
        try:
            return session.loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    session.loop.run_until_complete(task)
            raise

    def _display(self, value, job):
        """A value as text. A hook that the user set shows it too, in its own way."""
        try:
            if sys.displayhook is not DISPLAYHOOK:
                sys.displayhook(value)
        except Exception as error:
            error.codriver_phase = "print"
            raise
        return self._print(value, job)

    @staticmethod
    def _print(value, job):
        length, depth = limits(job)
        try:
            return repr(value) if length is None and depth is None else shorten(value, length, depth)
        except Exception as error:
            error.codriver_phase = "print"
            raise

    def _load(self, job):
        """Run a file in the module that it is, so that what is defined there takes effect; else in the session's."""
        path = job.file = os.path.abspath(job.message.get("file-path") or job.message.get("file-name") or "loaded.py")
        name = self._module_name(path)
        try:
            body = self._parse(job.message["file"], path)
            job.lines = [min([node.lineno, *(one.lineno for one in decorators_of(node))]) for node in body]
            last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
            code = compile(ast.Module(body, []), path, "exec", 0, True)
            code_of_last = last and compile(ast.Expression(last.value), path, "eval", 0, True)
        except Exception as error:
            error.codriver_phase = "read"
            raise
        before = sys.modules.get(name)
        module, is_new = (job.session.namespace, False) if name is None else self._module(name, path)
        text = "<module %r from %r>" % (self.name_of(module), path)
        try:
            exec(code, module.__dict__)
            if last is not None:
                text = self._print(eval(code_of_last, module.__dict__), job)
        except BaseException:
            if is_new:
                sys.modules.pop(name, None)
            if before is not None:
                sys.modules[name] = before
            raise
        if is_new and "." in name:
            parent, _, child = name.rpartition(".")
            setattr(sys.modules[parent], child, module)
        tell(job, text, self.name_of(job.session.namespace))

    @staticmethod
    def _module(name, path):
        """The module to run a file in, and whether it is new."""
        if "." in name:
            importlib.import_module(name.rpartition(".")[0])
        module = sys.modules.get(name)
        if module is not None and os.path.abspath(getattr(module, "__file__", None) or "") == path:
            return module, False
        module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path))
        sys.modules[name] = module
        return module, True

    def _module_name(self, path):
        """The dotted name under which the file can be imported; None if it cannot."""
        if not path.endswith(".py"):
            return None
        for root in sorted({*self._roots, *map(os.path.abspath, sys.path)}, key=len, reverse=True):
            if path.startswith(root.rstrip(os.sep) + os.sep):
                parts = path[len(root.rstrip(os.sep)) + 1 : -3].split(os.sep)
                if parts[-1] == "__init__" and len(parts) > 1:
                    parts.pop()
                if all(part.isidentifier() for part in parts):
                    return ".".join(parts)
        return None

    def complete(self, prefix, module):
        """Names that begin with `prefix`; of `a.b` those of the value of `a`, found without running user code."""
        import inspect

        holder, dot, start = prefix.rpartition(".")
        if dot:
            owner = self._resolve(holder, module)
            if owner is MISSING:
                return []
            names = {name: inspect.getattr_static(owner, name, None) for name in object_names(owner)}
        else:
            names = {**dict.fromkeys(keyword.kwlist), **vars(builtins), **vars(module)}
        is_private = start.startswith("_")
        found = sorted(name for name in names if name.startswith(start) and (is_private or not name.startswith("_")))
        return [{"candidate": holder + dot + name, "type": kind_of(names[name], name)} for name in found[:COMPLETIONS]]

    def lookup(self, symbol, module):
        """What is known of a dotted name; None if it does not resolve."""
        import inspect

        value = self._resolve(symbol, module)
        if value is MISSING:
            return None
        info = {"name": symbol.rpartition(".")[2], "type": kind_of(value, symbol)}
        info["ns"] = getattr(value, "__module__", None) or self.name_of(module)
        info["doc"] = inspect.getdoc(value)
        with contextlib.suppress(TypeError, ValueError):
            info["arglists-str"] = str(inspect.signature(value))
        with contextlib.suppress(TypeError, OSError):
            info["file"] = inspect.getsourcefile(value)
            lines, line = inspect.getsourcelines(value)
            info.update(line=line or 1, column=len(lines[0]) - len(lines[0].lstrip()) + 1 if lines else 1)
        return {key: item for key, item in info.items() if isinstance(item, (str, int))}

    @staticmethod
    def _resolve(dotted, module):
        import inspect

        first, *rest = dotted.split(".")
        value = module.__dict__.get(first, getattr(builtins, first, sys.modules.get(first, MISSING)))
        for name in rest:
            if isinstance(value, types.ModuleType):
                value = getattr(value, name, MISSING)
                continue
            value = inspect.getattr_static(value, name, MISSING)
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
        return value

    def explain(self, error, job):
        """A failure in parts and as text."""
        parts, frames = begin_parts(error)
        lines = [frame.lineno for frame in frames if (frame.filename, frame.name) == (job.file, "<module>")]
        if parts["phase"] == "read":
            parts["trace"] = []
            if isinstance(error, SyntaxError):
                lines = [error.lineno or 1]
                parts.update(message=error.msg or "", file=error.filename or job.file, line=error.lineno or 1)
                parts["column"] = error.offset or 1
            text = "".join(traceback.format_exception_only(type(error), error))
        else:
            place(parts, frames)
            shown = traceback.TracebackException.from_exception(error)
            trim(shown)
            text = "".join(shown.format())
        if job.lines and lines:
            job.form = form_at(lines[0], job.lines)
        if "column" in parts and (parts["file"], parts["line"]) == (job.file, whole_number(job.message, "line")):
            parts["column"] += whole_number(job.message, "column") - 1
        return parts, text


def decorators_of(node):
    """The decorators of a statement, which stand above the line that it is said to begin on."""
    return getattr(node, "decorator_list", ())


def form_at(line, lines):
    """The number of the statement that a line belongs to, by the lines on which they begin; None if two share it."""
    number = bisect.bisect_right(lines, line)
    return number if number and lines.count(lines[number - 1]) == 1 else None


CO_COROUTINE = 128
"""As in `inspect`, which takes long to import."""


def trim(shown, seen=()):
    """Take the worker's own frames out of a traceback, and of those of its causes and of the errors in its group."""
    if shown is None or id(shown) in seen:
        return
    shown.stack[:] = users_own(shown.stack)
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        trim(other, (*seen, id(shown)))


def object_names(thing):
    """The names in a thing and its classes; of a module those it says it has."""
    if isinstance(thing, (types.ModuleType, type)):
        return dir(thing)
    # `dir` would run a `__dir__` of the user's.
    own = getattr(thing, "__dict__", None) if hasattr(type(thing), "__dict__") else None
    return [*(own or ()), *itertools.chain.from_iterable(vars(kind) for kind in type(thing).__mro__)]


def kind_of(value, name):
    """The word that completion and lookup have for a value."""
    if name in keyword.kwlist:
        return "keyword"
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) or isinstance(value, (staticmethod, classmethod)) else "variable"


# Lisp


class Lisp:
    """Evaluates Basilisp. A namespace is Basilisp's own."""

    expands = True
    has_hooks = False

    def __init__(self):
        self._warm_up()
        import basilisp.main
        from basilisp.lang import compiler, obj, reader, runtime, symbol

        self._compiler, self._reader, self._runtime, self._symbol = compiler, reader, runtime, symbol
        basilisp.main.init()
        importlib.import_module("basilisp.core")
        obj.lrepr.register(str)(print_string)
        self._numbers = itertools.count(1)
        self._core, self._in_ns = self.find("basilisp.core"), symbol.symbol("in-ns")
        names = ("*ns*", "*1", "*2", "*3", "*e", "*out*", "*err*", "*in*", "*print-length*", "*print-level*")
        self._vars = {name: self._var(name) for name in names}
        self.home = runtime.Namespace.get_or_create(symbol.symbol("user"))
        with runtime.bindings({self._vars["*ns*"]: self.home}):
            context = compiler.CompilerContext(filename="<eval>")
            for form in reader.read_str("(ns user (:use [basilisp.repl :only [doc source]]))", runtime.resolve_alias):
                compiler.compile_and_exec_form(form, context, self.home)

    @staticmethod
    def _warm_up():
        """Let Basilisp keep what it compiles: else its core takes some 20 s at every start."""
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        # Every form's Python text is made for nobody to read.
        os.environ.setdefault("BASILISP_EMIT_GENERATED_PYTHON", "false")
        core = os.path.join(importlib.util.find_spec("basilisp").submodule_search_locations[0], "core.lpy")
        if sys.pycache_prefix is None and not os.access(os.path.dirname(core), os.W_OK):
            # The environment belongs to somebody else, so the cache goes to a place of the user's own.
            caches = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
            sys.pycache_prefix = os.path.join(caches, "codriver", "pycache")
        if not os.path.exists(os.path.splitext(importlib.util.cache_from_source(core))[0] + ".lpyc"):
            words = "codriver-worker: Basilisp compiles its core at its first start, for about 20 seconds\n"
            sys.stderr.write(words)
            sys.stderr.flush()

    @staticmethod
    def versions():
        from importlib import metadata

        return {"basilisp": metadata.version("basilisp"), **Python.versions()}

    @staticmethod
    def name_of(namespace):
        return str(namespace.name)

    def new_home(self):
        """The first namespace: in Lisp, sessions are apart by the namespaces they choose, as on the JVM."""
        return self.home

    def drop_home(self, namespace):
        """Nothing: it is everybody's."""

    def _var(self, name):
        return self._runtime.Var.find_safe(self._symbol.symbol(name, ns="basilisp.core"))

    def take_streams(self):
        """Threads of user code print to our streams too."""
        for name, stream in (("*out*", sys.stdout), ("*err*", sys.stderr), ("*in*", sys.stdin)):
            self._vars[name].bind_root(stream)
        # What is printed leaves soon anyway, and many lines in few messages.
        self._var("*flush-on-newline*").bind_root(False)

    def find(self, name):
        """The namespace `name` if it is there."""
        return self._runtime.Namespace.get(self._symbol.symbol(name)) if name else None

    def _furnish(self, namespace):
        """Let core be used in a namespace that `in-ns` made: Basilisp gives it `ns` alone, so nothing leads back."""
        if namespace.find(self._in_ns) is None:
            if len(namespace.refers) <= 1:
                namespace.refer_all(self._core)
            namespace.add_refer(self._in_ns, self._core.find(self._in_ns))

    def evaluate(self, job):
        message, session = job.message, job.session
        is_load = message["op"] == "load-file"
        namespace = session.namespace
        if message.get("ns") and not is_load:
            namespace = self.find(message["ns"])
            if namespace is None:
                raise NamespaceMissing("there is no namespace %r: require it first" % (message["ns"],))
            self._furnish(namespace)
        bound = dict(zip(("*1", "*2", "*3"), session.last))
        bound.update({"*ns*": namespace, "*e": session.error})
        bound.update({"*out*": sys.stdout, "*err*": sys.stderr, "*in*": sys.stdin})
        with self._runtime.bindings({self._vars[name]: value for name, value in bound.items()}):
            if message["op"] == "macroexpand":
                self._expand(job)
            else:
                self._run(job, is_load)

    def _run(self, job, is_load):
        message, session = job.message, job.session
        source = message["file" if is_load else "code"]
        job.file = message.get("file-path" if is_load else "file") or "<eval %d>" % next(self._numbers)
        line = 1 if is_load else whole_number(message, "line")
        # Basilisp counts columns from 0.
        start = {"init_line": line, "init_column": 0 if is_load else whole_number(message, "column") - 1}
        keep_source(job.file, "\n" * (line - 1) + source)
        context = self._compiler.CompilerContext(filename=job.file)
        value = None
        job.form = 1
        for form in self._reader.read_str(source, self._runtime.resolve_alias, **start):
            value = self._compiler.compile_and_exec_form(form, context, self._vars["*ns*"].value)
            now = self._vars["*ns*"].value
            self._furnish(now)
            if not is_load:
                self._tell(job, value, now)
                session.last[:] = [value, *session.last[:2]]
                for name, held in zip(("*1", "*2", "*3"), session.last):
                    self._vars[name].set_value(held)
                if not message.get("ns"):
                    session.namespace = now
            job.form += 1
        if is_load:
            self._tell(job, value, session.namespace)

    def _tell(self, job, value, namespace):
        length, depth = limits(job)
        # They hold for the value alone: what the code itself prints or writes to files is never cut.
        bound = {self._vars["*print-length*"]: length or LISP_LENGTH, self._vars["*print-level*"]: depth}
        try:
            with self._runtime.bindings(bound):
                text = self._runtime.lrepr(value)
        except Exception as error:
            error.codriver_phase = "print"
            raise
        # A limit that the request does not know of must be said.
        is_cut = length is None and text.endswith(("...)", "...]", "...}"))
        tell(job, text, self.name_of(namespace), is_cut)

    def _expand(self, job):
        """Expand a form once, until it is no macro call, or all that is in it."""
        expander = job.message.get("expander")
        form = next(iter(self._reader.read_str(job.message["code"], self._runtime.resolve_alias)), None)
        if expander == "macroexpand-all":
            expand = importlib.import_module("basilisp.walk").macroexpand_all
        else:
            expand = self._var("macroexpand-1" if expander == "macroexpand-1" else "macroexpand").value
        job.send({"expansion": self._runtime.lrepr(expand(form))})

    def complete(self, prefix, namespace):
        """Names that begin with `prefix`; of `a/b` those of the namespace or module that `a` names or stands for."""
        owner, slash, start = prefix.partition("/")
        if owner and slash:
            return self._complete_in(owner, start, namespace)
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            loaded = {str(name) + "/" for name in self._runtime.Namespace.ns_cache() if str(name).startswith(prefix)}
            found = sorted({*namespace.complete(prefix), *(loaded if prefix else ())})[:COMPLETIONS]
            return [{"candidate": name, **self._kind(self._resolve(name, namespace))} for name in found]

    def _complete_in(self, owner, start, namespace):
        symbol = self._symbol.symbol(owner)
        home = namespace.aliases.val_at(symbol) or self.find(owner)
        if home is not None:
            is_own = home is namespace
            of_home = {str(name.name): var for name, var in home.interns.items() if is_own or not var.is_private}
            kinds = {name: self._kind(var) for name, var in of_home.items() if name.startswith(start)}
        else:
            module = builtins if owner == "python" else self._imported(symbol, namespace)
            names = sorted(vars(module)) if module is not None else ()
            names = [name for name in names if name.startswith(start) and (start[:1] == "_" or name[:1] != "_")]
            kinds = {name: {"type": kind_of(vars(module)[name], name)} for name in names}
        return [{"candidate": owner + "/" + name, **kinds[name]} for name in sorted(kinds)[:COMPLETIONS]]

    @staticmethod
    def _imported(symbol, namespace):
        return namespace.imports.val_at(namespace.import_aliases.val_at(symbol) or symbol)

    def lookup(self, name, namespace):
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            var = self._resolve(name, namespace)
        if var is None:
            return None
        info = {"name": str(var.name), **self._kind(var)}
        meta = {str(key.name): item for key, item in (var.meta or {}).items()}
        for key, target in (("doc", "doc"), ("file", "file"), ("line", "line")):
            info[target] = meta.get(key)
        if isinstance(meta.get("col"), int):
            info["column"] = meta["col"] + 1
        if meta.get("arglists") is not None:
            info["arglists-str"] = "\n".join(self._runtime.lrepr(args) for args in meta["arglists"])
        if info["type"] == "macro":
            info["macro"] = "true"
        return {key: item for key, item in info.items() if isinstance(item, (str, int))}

    def _kind(self, var):
        if var is None:
            return {"type": "namespace"}
        is_macro = any(str(key.name) == "macro" and item for key, item in (var.meta or {}).items())
        kind = "macro" if is_macro else "function" if callable(var.value) else "var"
        return {"type": kind, "ns": self.name_of(var.ns)}

    def _resolve(self, name, namespace):
        owner, slash, last = name.rpartition("/")
        symbol = self._symbol.symbol(last, ns=owner) if slash and owner else self._symbol.symbol(name)
        with contextlib.suppress(Exception):
            return self._runtime.resolve_var(symbol, namespace)
        return None

    def explain(self, error, job):
        """A failure in parts and as text."""
        # Within a macro's form the error around says only that the macro was being expanded.
        while isinstance(error, self._compiler.CompilerException) and isinstance(
            error.__cause__, self._compiler.CompilerException
        ):
            error = error.__cause__
        parts, frames = begin_parts(error)
        if isinstance(error, self._reader.SyntaxError):
            parts.update(type=type(error).__name__, phase="read", message=error.message)
            self._locate(parts, job.file, error.line, error.col)
        elif isinstance(error, self._compiler.CompilerException):
            parts.update(type=type(error).__name__, phase="compile", message=str(error.msg))
            if error.__cause__ is not None:
                parts["message"] += ": " + str(error.__cause__)
            data = {str(key.name): item for key, item in error.data.items()}
            self._locate(parts, data.get("file"), data.get("line"), data.get("col"))
        else:
            place(parts, [frame for frame in frames if not is_library(frame.filename)])
            parts.pop("column", None)  # of Python code that Basilisp made
            if type(error).__name__ == "ExceptionInfo":
                parts.update(type="ExceptionInfo", message=str(error.message))
        own = [frame for frame in frames if not is_library(frame.filename)]
        where = " (%s:%s)" % (parts["file"], parts.get("line")) if parts.get("file") else ""
        text = "%s%s: %s\n" % (parts["type"], where, parts["message"])
        return parts, text + "".join("  at %s (%s:%s)\n" % (f.name, f.filename, f.lineno) for f in reversed(own))

    @staticmethod
    def _locate(parts, file, line, column):
        places = {"file": file, "line": line, "column": column + 1 if isinstance(column, int) else None}
        parts.update({key: value for key, value in places.items() if value is not None})


ESCAPES = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"})


def print_string(text, human_readable=False, print_readably=True, **_settings):
    """A string as Clojure prints it. Basilisp's own way escapes every character beyond ASCII as Python would."""
    if human_readable or not print_readably:
        return text
    return '"' + text.translate(ESCAPES) + '"'


# Start


def end_with_parent():
    """End when the parent does: its pipe on our standard input closes, and on Linux the kernel tells."""
    with contextlib.suppress(Exception):
        if sys.platform == "linux":
            import ctypes

            # prctl(2): 1 is PR_SET_PDEATHSIG. Code that holds the interpreter's lock would starve the thread below.
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    pipe = os.dup(0)

    def watch():
        with contextlib.suppress(OSError):
            while os.read(pipe, 4096):
                pass
        os._exit(0)

    start_thread(watch)


def find_roots(workspace):
    """Where the project's modules are: the workspace, and its `src` when that holds packages and is none itself."""
    source = os.path.join(workspace, "src")
    if os.path.isdir(source) and not os.path.exists(os.path.join(source, "__init__.py")):
        return [workspace, source]
    return [workspace]


def main():
    parser = argparse.ArgumentParser(description="The REPL that codriver embeds: an nREPL server in one file.")
    parser.add_argument("--dialect", choices=["python", "lisp"], default="python")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    parser.add_argument("--workspace", default=os.getcwd(), help="the project's folder")
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    options = parser.parse_args()
    if options.supervised:
        end_with_parent()
    # What user code and its child processes read there would be the parent's.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    roots = find_roots(os.path.abspath(options.workspace))
    # The folder of this file is not the project's: nothing in it may be imported by accident.
    not_again = {"", os.path.dirname(os.path.abspath(OWN_FILE)), *roots}
    sys.path[:] = roots + [entry for entry in sys.path if entry not in not_again]
    sys.argv = [""]
    if options.dialect == "lisp" and importlib.util.find_spec("basilisp") is None:
        words = "Basilisp is not installed for %s: run `pip install 'codriver[lisp]'` there" % sys.executable
        sys.stderr.write("codriver-worker: %s\n" % words)
        sys.exit(3)
    server = Server(Lisp() if options.dialect == "lisp" else Python(roots), options.supervised)
    listener = socket.create_server((options.host, options.port))
    host, port = options.host, listener.getsockname()[1]
    sys.stdout.write("nREPL server started on port %d on host %s - nrepl://%s:%d\n" % (port, host, host, port))
    sys.stdout.flush()
    server.take_process()
    start_thread(lambda: server.listen(listener))
    start_thread(server.flush_often)
    with contextlib.suppress(KeyboardInterrupt):
        server.run()


if __name__ == "__main__":
    main()
