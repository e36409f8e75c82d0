"""Send the values at an application's sensitive paths to clients, before any output may contain them.

A client that receives them removes them from its output. They are sent only to clients that request them. The
application's seam, which knows the values, is found by the name of its module.
"""

from __future__ import annotations

import os
import sys
import threading
from time import monotonic

from .connections import ORIGINAL_START_THREAD, encode_reply, start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .connections import Connection, Message
    from .jobs import Session


SENSITIVE_OP = "codriver/sensitive"
"""The op with which a client requests the values at sensitive paths, and the field that contains them."""
MIN_CHECK_INTERVAL_S = 0.01
"""Minimum number of seconds between checks of the state while something is printed."""
CHECK_TIME_DIVISOR = 20
"""While something is printed, checks take at most 1 / `CHECK_TIME_DIVISOR` of the time."""
CHECK_TIMEOUT_S = 0.5
"""Seconds to wait for a check that may never return."""
CHUNK_CHARACTERS, MAX_CHUNKS = 4096, 16
"""The length and maximum number of chunks in which a long value is sent. Each chunk is redacted by itself."""


def check_sensitive_values() -> None:
    """Make the seam read the current values at sensitive paths. This calls the application's getters on this thread."""
    see = getattr(enabled_seam(), "look", None)
    if see is not None:
        see()


def check_sensitive_values_with_timeout() -> None:
    """Check sensitive values in another thread. Wait at most `CHECK_TIMEOUT_S`, as a getter may never return."""
    if enabled_seam() is not None:
        thread = threading.Thread(target=check_sensitive_values, daemon=True)
        ORIGINAL_START_THREAD(thread)
        thread.join(CHECK_TIMEOUT_S)


class SeamChecks:
    """Checks sensitive values while output is being printed, at a limited rate."""

    def __init__(self) -> None:
        self._next = 0.0

    def check(self) -> None:
        """Check sensitive values, unless the last check was very recent."""
        if SEAM_PACKAGE not in sys.modules or (now := monotonic()) < self._next:
            return
        self._next = now + MIN_CHECK_INTERVAL_S
        check_sensitive_values()
        after = monotonic()
        self._next = after + max(MIN_CHECK_INTERVAL_S, CHECK_TIME_DIVISOR * (after - now))


class checking:  # noqa: N801  # it is used like a function
    """A context manager for evaluating code. It checks sensitive values before and after."""

    __slots__ = ()

    def __enter__(self) -> None:
        check_sensitive_values()

    def __exit__(self, *_: object) -> None:
        check_sensitive_values()


def begin_reporting(message: Message, connection: Connection, _session: Session) -> None:
    """Start sending values at sensitive paths to a client. They precede all messages that may contain them."""

    def begin() -> None:
        connection.pending_message = connection.pending_message or SensitiveUpdates()
        check_sensitive_values()
        connection.reply(message, {"status": ["done"]})

    # A getter may block.
    start_thread(begin)


class SensitiveUpdates:
    """The values at sensitive paths that one client has not received yet."""

    def __init__(self) -> None:
        self._version = 0
        self._sent: frozenset[str] = frozenset()

    def __call__(self) -> bytes:
        """Return a message with new values, to be sent before all others, or b"". Calls no getters."""
        read_sensitive = getattr(enabled_seam(), "sensitive_texts", None)
        if read_sensitive is None:
            return b""
        version, found = read_sensitive(self._version)
        if version == self._version:
            return b""
        new = [[name, chunk] for name, text in found if text not in self._sent for chunk in _chunks(text)]
        self._version, self._sent = version, frozenset([text for _, text in found])
        return encode_reply({}, {SENSITIVE_OP: new}) if new else b""


def _chunks(text: str) -> list[str]:
    """Split a long value into at most `MAX_CHUNKS` chunks of equal length."""
    last = min(len(text), MAX_CHUNKS * CHUNK_CHARACTERS) - CHUNK_CHARACTERS
    if last <= 0:
        return [text]
    return [text[start : start + CHUNK_CHARACTERS] for start in [*range(0, last, CHUNK_CHARACTERS), last]]


SEAM_PACKAGE = "codriver_seam"
"""The package through which an application exposes its state to agents. Codriver calls this the application's seam."""
SEAM_RELATIVE_FILE = os.path.join(SEAM_PACKAGE, "__init__.py")
SEAM_FILE = os.path.join(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)), SEAM_RELATIVE_FILE)
"""The path of Codriver's own copy of the seam, next to the package that contains this module."""


class _SeamFinder:
    """An import finder for Codriver's own copy of the seam, for environments in which the seam is not installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """Implement `importlib.abc.MetaPathFinder.find_spec`."""
        del path, target
        if name != SEAM_PACKAGE or not os.path.isfile(SEAM_FILE):
            return None
        import importlib.util

        return importlib.util.spec_from_file_location(name, SEAM_FILE)


def make_seam_importable() -> None:
    """Let code in this process import the seam installed with Codriver, if the environment has no other."""
    sys.meta_path.append(_SeamFinder)


def enabled_seam() -> Any:
    """Return the module `codriver_seam` if the application has enabled its seam, or None."""
    module = sys.modules.get(SEAM_PACKAGE)
    return module if getattr(module, "session_id", None) else None


def notify_seam_of_load() -> None:
    """Notify the application's seam, if it is enabled, that code was loaded again."""
    module = enabled_seam()
    if module:
        module.loaded()
