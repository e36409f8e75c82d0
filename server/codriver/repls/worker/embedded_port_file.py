"""The port file of a REPL in a running program: one for each process that really serves, and none left behind.

A reloader runs the program twice, in a parent that waits and a child that serves: the child takes the parent's place. A
process that a program starts to help it, by `multiprocessing`, leaves the place to the program.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys

from .bencode import BencodeError, encode, read_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

HOST = "127.0.0.1"
"""The only one that a REPL in a program listens on."""
NAMES = (".nrepl-port", *(os.path.join(".codriver", f"app{number}.port") for number in ("", "-2", "-3", "-4")))
"""Where a port may stand, below the project's folder; the first that no living REPL has is taken."""
ASK_S = 2.0
"""How long a REPL on this machine may take to say who it is."""
RELOADED = ("WERKZEUG_RUN_MAIN", "RUN_MAIN")
"""Set to `true` in the child of a reloader. Source: Werkzeug's `run_with_reloader`, Django's `autoreload`."""
PREFORK = "gunicorn.arbiter"
"""A module of servers whose parent may load the program, and forks processes that serve."""
SUPERVISORS = ("uvicorn",)
"""Packages whose processes of `multiprocessing` serve, while the parent waits."""


def place_of_parent() -> tuple[int, bool]:
    """The process whose REPL this one's would stand beside, 0 if any may; and whether this one takes its place."""
    processes: Any = sys.modules.get("multiprocessing.process")
    if processes is not None and getattr(processes.current_process(), "_inheriting", False):
        return os.getppid(), False  # it imports the program, and does not know yet what for
    parent = processes.parent_process() if processes is not None else None
    if parent is not None:
        target = getattr(processes.current_process(), "_target", None)
        return parent.pid, (getattr(target, "__module__", None) or "").split(".")[0] in SUPERVISORS
    if PREFORK in sys.modules or any(os.environ.get(name) == "true" for name in RELOADED):
        return os.getppid(), True
    return 0, False


def claim(folder: str, port: int, parent: int, *, takes_over: bool) -> str | None:
    """Write the port where servers find it, and give the file; None where all places are taken.

    The REPL of the process `parent` is asked to withdraw first where this one takes its place.

    Raises:
        FileExistsError: the REPL of that process serves, and this one is its helper.
        OSError: nothing can be written there.
    """
    with _alone(folder):
        paths = [os.path.join(folder, name) for name in NAMES]
        taken = {path: number for path in paths for number in [_read(path)] if number is not None}
        for path, number in list(taken.items()):
            about = ask(number, "describe") if number not in (0, port) else {}
            if about is None:
                # A process that a signal killed could not remove it.
                del taken[path]
                with contextlib.suppress(OSError):
                    os.unlink(path)
            elif parent and (about.get("codriver/app") or {}).get("pid") == parent:
                if not takes_over:
                    raise FileExistsError(path)
                ask(number, "codriver/withdraw")
                del taken[path]
        free = next((path for path in paths if path not in taken), None)
        if free is not None:
            _write(free, port)
        return free


def withdraw(path: str, port: int) -> None:
    """Remove a port file, if it is still of that port."""
    with contextlib.suppress(OSError):
        if _read(path) == port:
            os.unlink(path)


def ask(port: int, op: str) -> dict[str, Any] | None:
    """The answer of the REPL at a port of this machine; empty if there is none, None if nothing listens there."""
    try:
        with socket.create_connection((HOST, port), timeout=ASK_S) as sock:
            sock.sendall(encode({"op": op, "id": "1"}))
            with contextlib.suppress(OSError, BencodeError, ValueError, TypeError), sock.makefile("rb") as file:
                answer = read_value(file)
                return answer if isinstance(answer, dict) else {}
            return {}
    except ConnectionRefusedError:
        return None
    except OSError:
        return {}


def _read(path: str) -> int | None:
    """The port that a file names, 0 where it names none; None where there is no file."""
    try:
        with open(path, encoding="ascii") as file:
            text = file.read(32).strip()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return 0
    return int(text) if text.isdigit() and int(text) < 2**16 else 0


def _write(path: str, port: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.{os.getpid()}"
    # A link that somebody left under that name leads nowhere.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o644)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{port}\n")
    os.replace(draft, path)


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Keep other processes that claim a place here waiting, where folders can be locked."""
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some file systems have no locks
            flock(descriptor, LOCK_EX)
        yield
    finally:
        os.close(descriptor)
