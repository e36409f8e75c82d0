"""The embedded REPL: an nREPL server in one file, for the project's own interpreter.

It uses the standard library alone and imports nothing of Codriver, so that any Python 3.8 or later can run it with
nothing to install. Code is evaluated on the main thread, where a signal can interrupt it; the network lives on other
threads, so the server answers while code runs. Dialects: `python`, and `lisp`, which hosts Basilisp.

What is its own beyond nREPL: a failure carries `codriver/error` (type, message, phase, file, line, column, trace);
the op `codriver/stacks` gives a dump of all threads. Started with `--supervised` it ends with its parent.

Source: nREPL documentation, "Ops"; BEP 3 for bencode.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import contextlib
import ctypes
import importlib.machinery
import importlib.util
import inspect
import io
import itertools
import keyword
import linecache
import os
import queue
import re
import reprlib
import signal
import socket
import sys
import threading
import time
import traceback
import types
import uuid

VERSION = "0.1.0"
FLUSH_S = 0.015
"""How long printed text may wait for more, so that many small writes make few messages."""
FLUSH_CHARACTERS = 8192
INTERRUPT_S = 2.0
"""How long an interrupted evaluation is given to end before the interrupt is answered all the same."""
SIGNAL_EVERY_S = 0.5
"""Finalizers and code that catches everything may swallow one interrupt; so it gets another after this time."""
MAX_DEPTH = 64
MAX_STRING_BYTES = 256 * 2**20
PRINT = "nrepl.middleware.print/"
OWN_FILE = __file__
LIBRARY = os.path.dirname(os.__file__) + os.sep


# Bencode


class BencodeError(Exception):
    """What came is no bencode, or beyond the limits."""


def encode(value):
    """A value of dicts, lists, strings and integers as bytes; None is the empty list, as nREPL servers send it."""
    if isinstance(value, str):
        raw = value.encode("utf-8", "replace")
        return b"%d:%s" % (len(raw), raw)
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, dict):
        return b"d" + b"".join(encode(key) + encode(value[key]) for key in sorted(value)) + b"e"
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


# Sessions, jobs and connections


class Session:
    """What one caller has of its own: the current namespace, and the last values."""

    def __init__(self, identity, namespace):
        self.id = identity
        self.namespace = namespace
        self.last = [None, None, None]
        self.error = None
        self.loop = None


class Job:
    """One evaluation, from the moment it was asked for."""

    def __init__(self, message, connection, session):
        self.message = message
        self.connection = connection
        self.session = session
        self.over = threading.Event()
        self.interrupted = False
        self.input = queue.Queue()
        self._lock = threading.Lock()
        self._pending = []
        self._size = 0

    def send(self, fields):
        """Answer, after all that was printed before."""
        with self._lock:
            self._flush()
            self.connection.answer(self.message, fields)

    def write(self, stream, text):
        """Printed text: it leaves soon, with what comes meanwhile. Whether it is the first that waits."""
        with self._lock:
            first = not self._pending
            if self._pending and self._pending[-1][0] != stream:
                self._flush()
            self._pending.append((stream, text))
            self._size += len(text)
            if self._size >= FLUSH_CHARACTERS:
                self._flush()
            return first and bool(self._pending)

    def flush(self):
        """Send what was printed."""
        with self._lock:
            self._flush()

    def _flush(self):
        if self._pending:
            stream = self._pending[0][0]
            text = "".join(text for _, text in self._pending)
            self._pending, self._size = [], 0
            self.connection.answer(self.message, {stream: text})


class Connection:
    """One client's socket."""

    def __init__(self, sock, server):
        self._socket = sock
        self._server = server
        self._lock = threading.Lock()

    def answer(self, message, fields):
        """Send an answer to `message`. A client that is gone misses it."""
        reply = {**fields}
        for name in ("id", "session"):
            if isinstance(message.get(name), str):
                reply[name] = message[name]
        data = encode(reply)
        with self._lock, contextlib.suppress(OSError):
            self._socket.sendall(data)

    def serve(self):
        """Read requests until the client leaves or sends what is no request."""
        try:
            with self._socket, self._socket.makefile("rb", buffering=65536) as file:
                while isinstance(message := read_value(file), dict):
                    self._server.handle(message, self)
        except (OSError, BencodeError, ValueError, TypeError):
            return


# What user code sees as its standard streams


class Out(io.TextIOBase):
    """`sys.stdout` or `sys.stderr` of user code: text goes to the evaluation that printed it."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, stream, server):
        self._stream = stream
        self._server = server

    def writable(self):
        return True

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        self._server.printed(self._stream, text)
        return len(text)

    def flush(self):
        job = self._server.job_here()
        if job is not None:
            job.flush()

    def close(self):
        """Nothing: user code that closes its output keeps it."""


class In(io.TextIOBase):
    """`sys.stdin` of user code: a line is asked from the client."""

    encoding = "utf-8"

    def __init__(self, server):
        self._server = server
        self._rest = ""

    def readable(self):
        return True

    def readline(self, size=-1):
        job = self._server.job_here()
        if job is None:
            return ""
        if not self._rest:
            if job.input.empty():
                job.send({"status": ["need-input"]})
            self._rest = job.input.get()
        line, newline, self._rest = self._rest.partition("\n")
        return line + newline

    def read(self, size=-1):
        return self.readline()


# The server


class Server:
    """Takes requests on its own threads, and runs evaluations one after the other on the main thread."""

    def __init__(self, dialect):
        self.dialect = dialect
        self.jobs = queue.Queue()
        self.current = None
        self.sessions = {}
        self.default = self.new_session()
        self._armed = False
        self._wanted = None
        self._stopping = threading.Lock()
        self._last_job = None
        self._dirty = queue.SimpleQueue()
        self._ops = {
            "clone": self._clone,
            "close": self._close,
            "describe": self._describe,
            "eval": self._eval,
            "load-file": self._eval,
            "interrupt": self._interrupt,
            "stdin": self._stdin,
            "completions": self._completions,
            "complete": self._completions,
            "lookup": self._lookup,
            "ls-sessions": self._ls_sessions,
            "codriver/stacks": self._stacks,
        }
        if dialect.expands:
            self._ops["macroexpand"] = self._macroexpand

    def new_session(self):
        """A session that begins in the first namespace."""
        session = Session(str(uuid.uuid4()), self.dialect.home)
        self.sessions[session.id] = session
        return session

    # On the network's threads

    def listen(self, listener):
        """Accept connections for ever."""
        while True:
            sock, _ = listener.accept()
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            start_thread(Connection(sock, self).serve)

    def handle(self, message, connection):
        """Answer one request, or put it in the queue."""
        op = self._ops.get(message.get("op"))
        if op is None:
            connection.answer(message, {"status": ["error", "unknown-op", "done"]})
            return
        identity = message.get("session")
        session = self.sessions.get(identity) if identity else self.default
        if session is None:
            connection.answer(message, {"status": ["error", "unknown-session", "done"]})
            return
        try:
            op(message, connection, session)
        except Exception as error:  # whatever a request does, the server goes on
            words = "".join(traceback.format_exception_only(type(error), error))
            connection.answer(message, {"err": words, "status": ["error", "done"]})

    def _clone(self, message, connection, session):
        clone = self.new_session()
        clone.namespace = self.dialect.own() if message.get("codriver/apart") else session.namespace
        connection.answer(message, {"new-session": clone.id, "status": ["done"]})

    def _close(self, message, connection, session):
        if session is not self.default:
            self.sessions.pop(session.id, None)
        connection.answer(message, {"status": ["done", "session-closed"]})

    def _ls_sessions(self, message, connection, session):
        connection.answer(message, {"sessions": list(self.sessions), "status": ["done"]})

    def _describe(self, message, connection, session):
        versions = {name: {"version-string": text} for name, text in self.dialect.versions().items()}
        versions["codriver-worker"] = {"version-string": VERSION}
        connection.answer(message, {"ops": {op: {} for op in self._ops}, "versions": versions, "status": ["done"]})

    def _eval(self, message, connection, session):
        field = "file" if message["op"] == "load-file" else "code"
        if not isinstance(message.get(field), str):
            connection.answer(message, {"status": ["error", "no-code", "done"], "err": "there is no " + field})
            return
        self.jobs.put(Job(message, connection, session))

    def _interrupt(self, message, connection, session):
        job = self.current
        wanted = message.get("interrupt-id")
        if job is None or (message.get("session") and job.session is not session):
            connection.answer(message, {"status": ["done", "session-idle"]})
            return
        if wanted and job.message.get("id") != wanted:
            connection.answer(message, {"status": ["done", "error", "interrupt-id-mismatch"]})
            return
        job.interrupted = True
        # It may take its time, and this thread reads the client's next requests.
        start_thread(lambda: self._stop(job, message, connection))

    def _stop(self, job, message, connection):
        """Interrupt what runs until it is over, and say whether it is."""
        patience = time.monotonic() + INTERRUPT_S
        with self._stopping:
            while not job.over.is_set() and time.monotonic() < patience:
                self._wanted = job
                if hasattr(signal, "pthread_kill"):
                    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                else:
                    import _thread

                    _thread.interrupt_main()
                job.over.wait(SIGNAL_EVERY_S)
        status = ["done"] if job.over.is_set() else ["done", "interrupt-pending"]
        connection.answer(message, {"status": status})

    def _stdin(self, message, connection, session):
        job = self.current
        if job is not None and isinstance(message.get("stdin"), str):
            job.input.put(message["stdin"])
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

    def _macroexpand(self, message, connection, session):
        namespace = self.dialect.find(message.get("ns")) or session.namespace
        once = message.get("expander") == "macroexpand-1"
        text = self.dialect.expand(message.get("code") or "", namespace, once)
        connection.answer(message, {"expansion": text, "status": ["done"]})

    def _stacks(self, message, connection, session):
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        stacks = []
        for ident, frame in sys._current_frames().items():
            lines = [line for line in traceback.format_stack(frame) if OWN_FILE not in line]
            if lines:
                stacks.append(names.get(ident, str(ident)) + ":\n" + "".join(lines[-30:]))
        connection.answer(message, {"stacks": "\n".join(stacks), "status": ["done"]})

    # On the main thread

    def run(self):
        """Evaluate for ever."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        while True:
            try:
                self._run_one(self.jobs.get())
            except KeyboardInterrupt:
                # It came in the few instructions between an evaluation and its end: nothing is left to interrupt.
                self._armed = False

    def _on_interrupt(self, _number, _frame):
        # A signal that comes late finds another evaluation, or none: what it was for is over.
        if self._armed and self._wanted is self.current:
            raise KeyboardInterrupt

    def _run_one(self, job):
        self.current = self._last_job = job
        sys.stdout, sys.stderr, sys.stdin = self.out, self.err, self.input
        with contextlib.suppress(ValueError):
            signal.signal(signal.SIGINT, self._on_interrupt)  # user code may have changed it
        status = ["done"]
        try:
            try:
                self._armed = True
                self.dialect.evaluate(job)
            finally:
                self._armed = False
        except BaseException as error:
            self._armed = False  # an interrupt may have come at the very end
            status = self._failed(job, error)
        finally:
            self.current = None
            job.over.set()
        job.send({"status": status})

    def _failed(self, job, error):
        """Report why an evaluation failed; the status it ends with."""
        if isinstance(error, KeyboardInterrupt) and job.interrupted:
            return ["done", "interrupted"]
        if isinstance(error, NamespaceMissing):
            job.send({"err": str(error) + "\n"})
            return ["done", "error", "namespace-not-found"]
        job.session.error = error
        parts, text = self.dialect.explain(error)
        job.send({"err": text})
        name = parts["type"]
        job.send({"ex": name, "root-ex": name, "codriver/error": parts, "status": ["eval-error"]})
        return ["done"]

    # Output

    def printed(self, stream, text):
        """User code printed `text`."""
        job = self.job_here()
        if job is not None and job.write(stream, text):
            self._dirty.put(job)

    def job_here(self):
        """The evaluation whose code runs on this thread, or which started it."""
        if threading.current_thread() is threading.main_thread():
            return self.current or self._last_job
        return getattr(threading.current_thread(), "codriver_job", None) or self._last_job

    def flush_often(self):
        """Send what was printed, shortly after it was."""
        while True:
            jobs = {self._dirty.get()}
            time.sleep(FLUSH_S)
            while not self._dirty.empty():
                jobs.add(self._dirty.get())
            for job in jobs:
                job.flush()

    def take_streams(self):
        """Become standard output, error and input of user code, and know the threads it starts."""
        self.out, self.err, self.input = Out("out", self), Out("err", self), In(self)
        sys.stdout, sys.stderr, sys.stdin = self.out, self.err, self.input
        start = threading.Thread.start

        def start_known(thread):
            thread.codriver_job = self.job_here()
            start(thread)

        threading.Thread.start = start_known
        self.dialect.take_streams()


def start_thread(target):
    """A thread of ours, which does not keep the process alive."""
    threading.Thread(target=target, daemon=True).start()


class NamespaceMissing(Exception):
    """Code was to be evaluated in a namespace that is not there."""


def cut(job, text):
    """A printed value within the quota the request names, and the status that says so."""
    quota = job.message.get(PRINT + "quota")
    if isinstance(quota, int) and 0 < quota < len(text):
        return text[:quota], [PRINT + "truncated"]
    return text, []


def limits(job):
    """The length and depth that values are printed to, None for no limit."""
    options = job.message.get(PRINT + "options")
    options = options if isinstance(options, dict) else {}
    return [
        value if isinstance(value, int) and value > 0 else None
        for value in (options.get("print-length"), options.get("print-level"))
    ]


def frames_of(error):
    """The frames of a traceback that are not the worker's own, outermost first."""
    found = traceback.extract_tb(error.__traceback__)
    return [frame for frame in found if frame.filename != OWN_FILE]


# Python


class Python:
    """Evaluates Python. A namespace is a module."""

    expands = False

    def __init__(self, workspace):
        self._workspace = workspace
        self._numbers = itertools.count(1)
        self.home = types.ModuleType("user", "Where code is evaluated unless a namespace is named.")
        self.home.__builtins__ = builtins
        sys.modules["user"] = self.home
        # Code that pickles its classes or starts processes finds them in the module it runs in, never in this file.
        sys.modules["__main__"] = self.home

    @staticmethod
    def versions():
        return {"python": ".".join(map(str, sys.version_info[:3]))}

    def take_streams(self):
        """Python's own streams are all there are."""

    @staticmethod
    def own():
        """A namespace for one session alone."""
        module = types.ModuleType("user", "Where one session evaluates, apart from the others.")
        module.__builtins__ = builtins
        return module

    def find(self, name):
        """The module `name` if it was imported."""
        return sys.modules.get(name) if name else None

    def evaluate(self, job):
        message, session = job.message, job.session
        if message["op"] == "load-file":
            self._load(job)
            return
        module = session.namespace
        if message.get("ns"):
            module = self.find(message["ns"])
            if module is None:
                raise NamespaceMissing("no module %r is imported: import it first" % message["ns"])
        source = message["code"]
        file = message.get("file") or "<eval %d>" % next(self._numbers)
        offset = message.get("line") if isinstance(message.get("line"), int) else 1
        tree = self._parse(source, file, offset)
        for statement in tree.body:
            self._run(statement, file, module, job)

    def _parse(self, source, file, offset=1):
        text = "\n" * (offset - 1) + source
        # Tracebacks show the lines of code that is in no file.
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        try:
            tree = ast.parse(text, file)
            compile(tree, file, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)  # all errors of syntax before anything runs
        except SyntaxError as error:
            error.codriver_read = True
            raise
        return tree

    def _run(self, statement, file, module, job):
        space = module.__dict__
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        if not isinstance(statement, ast.Expr):
            self._finish(compile(ast.Module([statement], []), file, "exec", flags, True), space, job.session)
            return
        value = self._finish(compile(ast.Expression(statement.value), file, "eval", flags, True), space, job.session)
        text = self._print(value, *limits(job))
        text, status = cut(job, text)
        if value is not None:
            last = job.session.last
            last.insert(0, value)
            last.pop()
            if not isinstance(module.__dict__.get("_"), types.FunctionType):  # gettext and the like stay
                module.__dict__["_"] = value
        job.send({"value": text, "ns": module.__name__, **({"status": status} if status else {})})

    @staticmethod
    def _finish(code, space, session):
        """Run code; if it awaits, on the session's own event loop."""
        if not code.co_flags & inspect.CO_COROUTINE:
            return eval(code, space)
        import asyncio

        if session.loop is None or session.loop.is_closed():
            session.loop = asyncio.new_event_loop()
        return session.loop.run_until_complete(eval(code, space))

    @staticmethod
    def _print(value, length, depth):
        if length is None and depth is None:
            return repr(value)
        printer = reprlib.Repr()
        for name in ("maxlist", "maxtuple", "maxdict", "maxset", "maxfrozenset", "maxdeque", "maxarray"):
            setattr(printer, name, length or sys.maxsize)
        printer.maxlevel = depth or 1000
        printer.maxstring = printer.maxother = printer.maxlong = sys.maxsize
        printer.repr_str = lambda text, _level: repr(text)
        printer.repr_int = lambda number, _level: repr(number)
        printer.repr_instance = lambda thing, _level: repr(thing)
        return printer.repr(value)

    def _load(self, job):
        """Run a file in the module that it is, so that what is defined there takes effect."""
        path = os.path.abspath(job.message.get("file-path") or job.message.get("file-name") or "loaded.py")
        name = self._module_name(path)
        tree = self._parse(job.message["file"], path)
        module = sys.modules.get(name)
        fresh = module is None or os.path.abspath(getattr(module, "__file__", None) or "") != path
        if fresh:
            loader = importlib.machinery.SourceFileLoader(name, path)
            spec = importlib.util.spec_from_file_location(name, path, loader=loader)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        text = "<module %r>" % name
        try:
            exec(compile(tree, path, "exec"), module.__dict__)
            if last is not None:
                text = self._print(
                    eval(compile(ast.Expression(last.value), path, "eval"), module.__dict__), *limits(job)
                )
        except BaseException:
            if fresh:
                sys.modules.pop(name, None)
            raise
        text, status = cut(job, text)
        namespace = job.session.namespace.__name__
        job.send({"value": text, "ns": namespace, **({"status": status} if status else {})})

    def _module_name(self, path):
        """The dotted name under which the project would import the file."""
        for root in sorted({self._workspace, os.path.join(self._workspace, "src"), *sys.path}, key=len, reverse=True):
            if root and path.startswith(root + os.sep):
                parts = path[len(root) + 1 :].rsplit(".", 1)[0].split(os.sep)
                if all(part.isidentifier() for part in parts):
                    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        return re.sub(r"\W", "_", os.path.basename(path).rsplit(".", 1)[0])

    def complete(self, prefix, module):
        """Names that begin with `prefix`; of `a.b` those of the value of `a`, found without calling anything."""
        holder, dot, start = prefix.rpartition(".")
        if dot:
            owner = self._resolve(holder, module)
            if owner is MISSING:
                return []
            names = {name: inspect.getattr_static(owner, name, None) for name in dir(owner)}
        else:
            names = {**dict.fromkeys(keyword.kwlist), **vars(builtins), **vars(module)}
        private = start.startswith("_")
        found = sorted(name for name in names if name.startswith(start) and (private or not name.startswith("_")))
        return [{"candidate": holder + dot + name, "type": _type(names[name], name)} for name in found[:500]]

    def lookup(self, symbol, module):
        """What is known of a dotted name; None if it does not resolve."""
        value = self._resolve(symbol, module)
        if value is MISSING:
            return None
        info = {"name": symbol.rpartition(".")[2], "ns": getattr(value, "__module__", None) or module.__name__}
        info["type"] = _type(value, symbol)
        doc = inspect.getdoc(value)
        if doc:
            info["doc"] = doc
        with contextlib.suppress(TypeError, ValueError):
            info["arglists-str"] = str(inspect.signature(value))
        with contextlib.suppress(TypeError, OSError):
            info["file"] = inspect.getsourcefile(value) or ""
            info["line"] = inspect.getsourcelines(value)[1] or 1
        return {key: item for key, item in info.items() if isinstance(item, (str, int))}

    @staticmethod
    def _resolve(dotted, module):
        first, *rest = dotted.split(".")
        value = module.__dict__.get(first, getattr(builtins, first, sys.modules.get(first, MISSING)))
        for name in rest:
            if value is MISSING:
                break
            value = getattr(value, name, MISSING)
        return value

    def explain(self, error):
        """A failure in parts and as text."""
        parts = {"type": type(error).__name__, "message": str(error), "phase": "execution", "trace": []}
        if type(error).__module__ not in ("builtins", "user"):
            parts["type"] = type(error).__module__ + "." + parts["type"]
        if hasattr(error, "codriver_read"):
            parts.update(phase="read", message=error.msg or "", file=error.filename or "")
            parts.update(line=error.lineno or 1, column=error.offset or 1)
            return parts, "".join(traceback.format_exception_only(type(error), error))
        if isinstance(error, SystemExit):
            parts["message"] = "code called exit(%s); the REPL goes on" % error
        shown = traceback.TracebackException.from_exception(error)
        _trim(shown)
        frames = frames_of(error)
        parts["trace"] = ["%s (%s:%s)" % (frame.name, frame.filename, frame.lineno) for frame in reversed(frames)][:50]
        if frames:
            parts.update(file=frames[-1].filename, line=frames[-1].lineno)
        return parts, "".join(shown.format())


MISSING = object()


def _trim(shown):
    """Take the worker's own frames out of a traceback, and of those of its causes."""
    seen = set()
    while shown is not None and id(shown) not in seen:
        seen.add(id(shown))
        shown.stack[:] = [frame for frame in shown.stack if frame.filename != OWN_FILE]
        shown = shown.__cause__ or shown.__context__


def _type(value, name):
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

    def __init__(self):
        # Basilisp compiles its core anew at each start, for some 20 s, where Python may not write bytecode.
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.stderr.write("codriver-worker: loading Basilisp; its first start compiles its core, for about 20 seconds\n")
        sys.stderr.flush()
        import basilisp.main
        from basilisp.lang import compiler, obj, reader, runtime, symbol

        self._compiler, self._reader, self._runtime, self._symbol = compiler, reader, runtime, symbol
        basilisp.main.init()
        importlib.import_module("basilisp.core")
        obj.lrepr.register(str)(_print_string)
        self._context = compiler.CompilerContext(filename="<eval>")
        self._core, self._in_ns = self.find("basilisp.core"), symbol.symbol("in-ns")
        self.home = runtime.Namespace.get_or_create(symbol.symbol("user"))
        self._numbers = itertools.count(1)
        self._in(self.home)
        self._exec("(ns user (:use [basilisp.repl :only [doc source]]))", self.home)
        names = ("*ns*", "*1", "*2", "*3", "*e", "*out*", "*err*", "*in*", "*print-length*", "*print-level*")
        self._vars = {name: self._var(name) for name in names}

    @staticmethod
    def versions():
        from importlib import metadata

        return {"basilisp": metadata.version("basilisp"), **Python.versions()}

    def own(self):
        """The first namespace: in Lisp sessions are apart by the namespaces they choose."""
        return self.home

    def _var(self, name):
        return self._runtime.Var.find_safe(self._symbol.symbol(name, ns="basilisp.core"))

    def take_streams(self):
        """Threads of user code print to our streams too."""
        for name, stream in (("*out*", sys.stdout), ("*err*", sys.stderr), ("*in*", sys.stdin)):
            self._vars[name].bind_root(stream)

    def _in(self, namespace):
        self._runtime.set_current_ns(namespace.name)

    def _exec(self, text, namespace):
        value = None
        for form in self._reader.read_str(text, self._runtime.resolve_alias):
            value = self._compiler.compile_and_exec_form(form, self._context, namespace)
        return value

    def find(self, name):
        """The namespace `name` if it is there."""
        return self._runtime.Namespace.get(self._symbol.symbol(name)) if name else None

    def evaluate(self, job):
        message, session = job.message, job.session
        loads = message["op"] == "load-file"
        namespace = session.namespace
        if message.get("ns") and not loads:
            namespace = self.find(message["ns"])
            if namespace is None:
                raise NamespaceMissing("there is no namespace %r: require it first" % message["ns"])
            self._furnish(namespace)
        source = message["file" if loads else "code"]
        file = message.get("file-path" if loads else "file") or "<eval %d>" % next(self._numbers)
        line = message.get("line") if isinstance(message.get("line"), int) and not loads else 1
        context = self._compiler.CompilerContext(filename=file)
        linecache.cache[file] = (len(source), None, ("\n" * (line - 1) + source).splitlines(True), file)
        length, depth = limits(job)
        last = [self._vars[name] for name in ("*1", "*2", "*3")]
        bindings = dict(zip(last, session.last))
        bindings[self._vars["*e"]] = session.error
        bindings[self._vars["*ns*"]] = namespace
        bindings[self._vars["*out*"]] = sys.stdout
        bindings[self._vars["*err*"]] = sys.stderr
        bindings[self._vars["*in*"]] = sys.stdin
        bindings[self._vars["*print-length*"]] = length
        bindings[self._vars["*print-level*"]] = depth
        with self._runtime.bindings(bindings):
            # Blank lines in front give the reader the line on which the code begins.
            stream = io.StringIO("\n" * (line - 1) + source)
            value = None
            for form in self._reader.read(stream, resolver=self._runtime.resolve_alias):
                value = self._compiler.compile_and_exec_form(form, context, self._vars["*ns*"].value)
                now = self._vars["*ns*"].value
                self._furnish(now)
                if not loads:
                    self._tell(job, value, now)
                    session.last[:] = [value, *session.last[:2]]
                    for var, held in zip(last, session.last):
                        var.set_value(held)
                if not message.get("ns") and not loads:
                    session.namespace = now
            if loads:
                self._tell(job, value, session.namespace)

    def _furnish(self, namespace):
        """Let core be used in a namespace that `in-ns` made: Basilisp gives it `ns` alone, so nothing leads back."""
        if namespace.find(self._in_ns) is None:
            if len(namespace.refers) <= 1:
                namespace.refer_all(self._core)
            namespace.add_refer(self._in_ns, self._core.find(self._in_ns))

    def _tell(self, job, value, namespace):
        text, status = cut(job, self._runtime.lrepr(value))
        job.send({"value": text, "ns": str(namespace.name), **({"status": status} if status else {})})

    def expand(self, code, namespace, once):
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            form = next(iter(self._reader.read_str(code, self._runtime.resolve_alias)))
            name = "macroexpand-1" if once else "macroexpand"
            return self._runtime.lrepr(self._var(name).value(form))

    def complete(self, prefix, namespace):
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            found = sorted(set(namespace.complete(prefix)))
        return [{"candidate": name, "ns": str(namespace.name)} for name in found[:500]]

    def lookup(self, name, namespace):
        with self._runtime.bindings({self._vars["*ns*"]: namespace}):
            try:
                var = self._runtime.resolve_var(self._symbol.symbol(*reversed(_split(name))), namespace)
            except Exception:
                var = None
        if var is None:
            return None
        info = {"name": str(var.name), "ns": str(var.ns.name)}
        meta = {str(key.name): item for key, item in (var.meta or {}).items()}
        for key, target in (("doc", "doc"), ("file", "file"), ("line", "line"), ("col", "column")):
            if isinstance(meta.get(key), (str, int)):
                info[target] = meta[key]
        if meta.get("arglists") is not None:
            info["arglists-str"] = "\n".join(self._runtime.lrepr(args) for args in meta["arglists"])
        if meta.get("macro"):
            info["macro"] = "true"
        return info

    def explain(self, error):
        """A failure in parts and as text."""
        parts = {"type": type(error).__name__, "message": str(error), "phase": "execution", "trace": []}
        place = {}
        if isinstance(error, self._reader.SyntaxError):
            parts.update(phase="read", message=error.message)
            place = {"file": error.filename, "line": error.line, "column": error.col}
        elif isinstance(error, self._compiler.CompilerException):
            # Within a macro's form the error around says only that the macro was being expanded.
            while isinstance(error.__cause__, self._compiler.CompilerException):
                error = error.__cause__
            parts.update(phase="compile", message=str(error.msg))
            if error.__cause__ is not None:
                parts["message"] += ": " + str(error.__cause__)
            data = {str(key.name): item for key, item in error.data.items()}
            place = {"file": data.get("file"), "line": data.get("line"), "column": data.get("col")}
        elif type(error).__name__ == "ExceptionInfo":
            parts["message"] = str(getattr(error, "message", error))
        # Basilisp counts columns from 0.
        place["column"] = place["column"] + 1 if isinstance(place.get("column"), int) else None
        parts.update((key, value) for key, value in place.items() if isinstance(value, (str, int)))
        every = frames_of(error)
        parts["trace"] = ["%s (%s:%s)" % (f.name, f.filename, f.lineno) for f in reversed(every)][:50]
        frames = [f for f in every if not f.filename.startswith(LIBRARY) and "site-packages" not in f.filename]
        if frames and parts["phase"] == "execution":
            parts.update(file=frames[-1].filename, line=frames[-1].lineno)
        if isinstance(error, SystemExit):
            parts["message"] = "code called exit(%s); the REPL goes on" % error
        where = " (%s:%s)" % (parts["file"], parts.get("line")) if parts.get("file") else ""
        text = "%s%s: %s\n" % (parts["type"], where, parts["message"])
        return parts, text + "".join("  at %s (%s:%s)\n" % (f.name, f.filename, f.lineno) for f in reversed(frames))


def _split(name):
    """`ns/name` as (ns or None, name); a lone slash is a name."""
    namespace, slash, last = name.rpartition("/")
    return (namespace, last) if slash and namespace else (None, name)


_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"}


def _print_string(text, human_readable=False, print_readably=True, **_settings):
    """A string as Clojure prints it. Basilisp's own way escapes every character beyond ASCII as Python would."""
    if human_readable or not print_readably:
        return text
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


# Start


def end_with_parent():
    """End when the parent does: its pipe on our standard input closes, and on Linux the kernel tells."""
    with contextlib.suppress(Exception):
        if sys.platform == "linux":
            # prctl(2): 1 is PR_SET_PDEATHSIG. Code that holds the interpreter's lock would starve the thread below.
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    pipe = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch():
        while True:
            try:
                if not os.read(pipe, 4096):
                    break
            except OSError:
                break
        os._exit(0)

    start_thread(watch)


def main():
    parser = argparse.ArgumentParser(description="The REPL that codriver embeds: an nREPL server in one file.")
    parser.add_argument("--dialect", choices=["python", "lisp"], default="python")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--workspace", default=os.getcwd())
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    options = parser.parse_args()
    if options.supervised:
        end_with_parent()
    workspace = os.path.abspath(options.workspace)
    # The folder of this file is not the project's: nothing in it may be imported by accident.
    sys.path[0] = workspace
    sys.argv = [""]
    if options.dialect == "lisp" and importlib.util.find_spec("basilisp") is None:
        sys.stderr.write("codriver-worker: Basilisp is not installed here: pip install 'codriver[lisp]'\n")
        sys.exit(3)
    dialect = Lisp() if options.dialect == "lisp" else Python(workspace)
    server = Server(dialect)
    listener = socket.create_server((options.host, options.port))
    port = listener.getsockname()[1]
    host = options.host
    sys.stdout.write("nREPL server started on port %d on host %s - nrepl://%s:%d\n" % (port, host, host, port))
    sys.stdout.flush()
    server.take_streams()
    start_thread(lambda: server.listen(listener))
    start_thread(server.flush_often)
    server.run()


if __name__ == "__main__":
    main()
