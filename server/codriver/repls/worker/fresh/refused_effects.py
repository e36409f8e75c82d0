"""Refuse side effects of imports so that a comparison leaves no traces.

If an effect is refused, the module cannot be compared, even if it handles the error and continues.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
"""Flags with which `os.open` opens a file for writing or creates one."""
REFUSED_EVENTS = frozenset(
    (
        "socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname",
        "socket.getnameinfo", "socket.sendmsg", "socket.sendto", "socket.sethostname",
        "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "os.startfile/2", "os.system",
        "pty.spawn", "subprocess.Popen", "_winapi.CreateProcess", "_winapi.CreateFile", "_winapi.CreateNamedPipe",
        "os.chflags", "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.removexattr", "os.rename",
        "os.rmdir", "os.setxattr", "os.symlink", "os.truncate", "os.utime", "os.lockf", "fcntl.flock", "fcntl.lockf",
        "os.kill", "os.killpg", "signal.pthread_kill", "msvcrt.locking",
        "sqlite3.connect", "syslog.syslog", "webbrowser.open",
        "winreg.CreateKey", "winreg.DeleteKey", "winreg.DeleteValue", "winreg.SetValue",
    )
)  # fmt: skip
"""Audit events for effects that are refused. Source: Python documentation, "Audit events table"."""
FUNCTIONS_WITHOUT_EVENT = (
    ("_posixshmem", "shm_open"),
    ("posix", "mkfifo"),
    ("posix", "mknod"),
    ("os", "mkfifo"),
    ("os", "mknod"),
)
"""Functions with effects that outlive the process but raise no audit event."""
MEMORY_DATABASE_NAMES = (":memory:", b":memory:")
"""Names of SQLite databases without a file."""
MAX_DETAIL_CHARACTERS = 80
"""Maximum number of characters reported from a path or other argument."""


class EffectRefusedError(PermissionError):
    """Raised when an import tries to write a file, open a connection or start a process."""


class RefusedEffects:
    """The effects of imports that this process has refused since `install`."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.allows_fork = False

    def install(self) -> None:
        """Start refusing effects. This cannot be undone, because audit hooks cannot be removed."""
        sys.addaudithook(self._check)
        for module, name in FUNCTIONS_WITHOUT_EVENT:
            library = _import_or_none(module)
            if hasattr(library, name):
                setattr(library, name, self._make_refusing(name))

    def _make_refusing(self, name: str) -> Any:
        """Return a replacement for a function that refuses every call."""

        def refuse(*details: object, **_options: object) -> None:
            self._refuse(name, details)

        return refuse

    def _check(self, event: str, details: tuple[Any, ...]) -> None:
        """Refuse an audit event if it has an effect outside this process."""
        if event == "open":
            is_writing = type(details[2]) is int and details[2] & WRITE_FLAGS and details[0] != os.devnull
            if is_writing:
                self._refuse("open for writing", details)
        elif event in REFUSED_EVENTS:
            if event == "sqlite3.connect" and details[:1] and details[0] in MEMORY_DATABASE_NAMES:
                return
            if event == "os.fork" and self.allows_fork:
                return
            self._refuse(event, details)

    def _refuse(self, what: str, details: tuple[Any, ...]) -> None:
        """Record an effect and raise an error.

        Raises:
            EffectRefusedError: always.
        """
        named = next((detail for detail in details if type(detail) in (str, bytes)), "")
        text = os.fsdecode(named)[:MAX_DETAIL_CHARACTERS] if named else ""
        words = f"{what} {text}".rstrip()
        self.refused.append(words)
        raise EffectRefusedError(f"the module was only imported for a comparison, so this call was refused: {words}")


def _import_or_none(name: str) -> Any:
    """Import and return a module, or return None if it does not exist."""
    try:
        return __import__(name)
    except ImportError:
        return None
