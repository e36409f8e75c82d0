"""Answer a request for a REPL in a program started by `codriver run`: connect to the server and serve it.

The process never listens. It proves with a one-time secret from the request that it is the requested process, and
describes itself. The embedded REPL is loaded only from the directory of this file.
"""

# mypy: disable-error-code="attr-defined"
# Windows is not supported, and lacks some of these functions.

from __future__ import annotations

import _thread
import fcntl
import gc
import json
import os
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

directory: str
"""The directory of this file, passed by `sitecustomize`."""
WORKER_MODULE = "_codriver_worker"
"""The module name under which the embedded REPL is loaded, the same as in `codriver_seam.start_repl`."""
PAUSE_OBJECTS, PAUSE_S = 5_000, 0.001
"""Number of objects to check between two pauses, and the length of a pause in seconds.

Pauses let the program's other threads run. Checking this many objects takes 0.5 ms.
"""
FIRST_DESCRIPTOR = 3
"""The first file descriptor that is not a standard stream."""
MAX_APPLICATIONS = 20
"""Maximum number of applications to report."""
APPLICATION_CLASSES = (
    ("flask.app", "Flask", "Flask"),
    ("fastapi.applications", "FastAPI", "FastAPI"),
    ("starlette.applications", "Starlette", "Starlette"),
    ("celery.app.base", "Celery", "Celery"),
    ("aiohttp.web_app", "Application", "aiohttp"),
    ("quart.app", "Quart", "Quart"),
    ("sanic.app", "Sanic", "Sanic"),
    ("litestar.app", "Litestar", "Litestar"),
    ("tornado.web", "Application", "Tornado"),
)
"""The module, class name and display name of each kind of application."""


def answer(request_file: str, run: str, shared: dict[str, Any]) -> None:
    """Connect to the server that wrote the request file, and serve a REPL on the current thread."""
    with open(request_file, encoding="utf-8") as file:
        request = json.load(file)
    os.unlink(request_file)
    sock = _connect(run, request["socket"])
    try:
        repl = _load().EmbeddedRepl(_current_directory(), shared["loop"])
        hello = {"secret": request["secret"], "pid": os.getpid(), "applications": find_applications()}
        sock.sendall(json.dumps(hello).encode() + b"\n")
    except BaseException:
        sock.close()
        raise
    shared["repl"], shared["pid"] = repl, os.getpid()
    try:
        # Debuggers replace the function, too, but only gevent and eventlet replace sockets with ones that never block.
        if _thread.start_new_thread is not shared["start_new_thread"] and not os.get_blocking(sock.fileno()):
            repl.serve_stalling_stream(sock, shared["thread"], shared["start_new_thread"])
        else:
            repl.serve_stream(sock)
    finally:
        shared["repl"] = None


def _current_directory() -> str:
    """Return the current directory, or the root directory if it was removed, as after a deployment."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _connect(run: str, name: str) -> socket.socket:
    """Connect to a socket by its path, or by its name in the run's directory, whose path may be too long for a socket.

    The socket never becomes a standard stream, even if the program has closed its own. Otherwise, the program would
    send its output to the socket.
    """
    sock = socket.socket(socket.AF_UNIX)
    if sock.fileno() < FIRST_DESCRIPTOR:
        with sock:
            sock = socket.socket(fileno=fcntl.fcntl(sock, fcntl.F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR))
    descriptor = os.open(run, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sock.connect(name if os.path.isabs(name) else "/proc/self/fd/%d/%s" % (descriptor, name))
    finally:
        os.close(descriptor)
    return sock


def _load() -> Any:
    if WORKER_MODULE not in sys.modules:
        worker_directory = os.path.join(directory, "worker")  # noqa: F821  # see above
        loading: dict[str, Any] = {"__name__": WORKER_MODULE + ".loading"}
        with open(os.path.join(worker_directory, "loading.py"), "rb") as file:
            exec(compile(file.read(), "<codriver loading>", "exec", dont_inherit=True), loading)
        loading["load_package"](worker_directory, WORKER_MODULE)
    import importlib

    return importlib.import_module(WORKER_MODULE + ".serving.embedded")


def find_applications() -> list[str]:
    """Return descriptions of the web applications in this process, such as `Flask shop.app`.

    Applications in module variables come first. Others, such as the result of a factory function, follow. Types are
    compared directly, because `isinstance` would load lazy objects.
    """
    kinds: dict[type, str] = {}
    for name, kind, title in APPLICATION_CLASSES:
        found = vars(sys.modules[name]).get(kind) if name in sys.modules else None
        if isinstance(found, type):
            kinds[found] = title
    lines: list[str] = []
    seen: set[int] = set()
    for module in list(sys.modules.values()) if kinds else ():
        space = getattr(module, "__dict__", None)
        name = getattr(module, "__name__", "")
        if type(space) is not dict or type(name) is not str or name.startswith("_codriver"):
            continue
        for variable, value in list(space.items()):
            if id(value) not in seen and any(base in kinds for base in type(value).__mro__):
                seen.add(id(value))
                lines.append("%s %s.%s" % (_application_kind(value, kinds), name, variable))
    for number, value in enumerate(gc.get_objects() if kinds else ()):
        if number % PAUSE_OBJECTS == 0:
            time.sleep(PAUSE_S)
        if id(value) not in seen and any(base in kinds for base in type(value).__mro__):
            seen.add(id(value))
            value_type = type(value)
            names = (_application_kind(value, kinds), value_type.__module__, value_type.__name__)
            lines.append("%s, a %s.%s that is not a module's variable" % names)
    if "django.conf" in sys.modules and os.environ.get("DJANGO_SETTINGS_MODULE"):
        lines.append("Django settings " + os.environ["DJANGO_SETTINGS_MODULE"])
    return lines[:MAX_APPLICATIONS]


def _application_kind(value: object, kinds: dict[type, str]) -> str:
    """Return the display name of an application's framework, such as `Flask`."""
    return next(kinds[base] for base in type(value).__mro__ if base in kinds)
