"""Texts at the sensitive paths of an application's state: seen before anything leaves, and told to clients that ask.

A client that knows the texts takes them out of its output. Clients that do not ask get none. The seam of an application
in this process is found by name among the modules.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from time import monotonic

from .connections import START_THREAD, pack, start_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .connections import Connection, Message
    from .jobs import Session


SENSITIVE = "codriver/sensitive"
"""The op by which a client asks for the texts at sensitive paths, and the field with the texts."""
AGAIN_S = 0.01
"""The rest between looks at the state while something is printed; longer if looking takes long."""
SHARE = 20
"""The share of the time, as one of so many parts, that looks take at most while something is printed."""
BRIEFLY_S = 0.5
CHUNK_CHARACTERS, MOST_CHUNKS = 4096, 16
"""A long text is told in pieces, as each is looked for."""


def check() -> None:
    """Let the seam see the present texts at sensitive paths. It runs the application's getters, on this thread."""
    see = getattr(installed(), "look", None)
    if see is not None:
        see()


def check_briefly() -> None:
    """Look, and wait only for a moment, as a getter may never return."""
    if installed() is not None:
        thread = threading.Thread(target=check, daemon=True)
        START_THREAD(thread)
        thread.join(BRIEFLY_S)


class SeamChecks:
    """Looks while something is printed, for the life of the worker."""

    def __init__(self) -> None:
        self._next = 0.0

    def check(self) -> None:
        """Look, unless the last look was a moment ago."""
        if NAME not in sys.modules or (now := monotonic()) < self._next:
            return
        self._next = now + AGAIN_S
        check()
        after = monotonic()
        self._next = after + max(AGAIN_S, SHARE * (after - now))


class evaluating:  # noqa: N801  # it is used like a function
    """A context in which code is evaluated: the seam looks before and after it, and its events have the `origin`."""

    __slots__ = ("_origin", "_token", "_variable")

    def __init__(self, origin: object) -> None:
        self._origin = origin if isinstance(origin, dict) else None
        self._variable: Any = None

    def __enter__(self) -> None:
        check()
        if self._origin:
            self._variable = getattr(installed(), "origin", None)
        if self._variable is not None:
            self._token = self._variable.set(self._origin)

    def __exit__(self, *_: object) -> None:
        if self._variable is not None:
            self._variable.reset(self._token)
        check()


def begin_reporting(message: Message, connection: Connection, _session: Session) -> None:
    """Tell a client from now on the texts at sensitive paths, before anything that may hold them."""

    def begin() -> None:
        connection.pending_message = connection.pending_message or SensitiveUpdates()
        check()
        connection.answer(message, {"status": ["done"]})

    # A getter may wait.
    start_thread(begin)


class SensitiveUpdates:
    """The texts at sensitive paths that one client was not told yet. Lives as long as its connection."""

    def __init__(self) -> None:
        self._version = 0
        self._sent: frozenset[str] = frozenset()

    def __call__(self) -> bytes:
        """A message with the new texts, to be sent before all else; empty without any. Only reads."""
        read_sensitive = getattr(installed(), "sensitive_texts", None)
        if read_sensitive is None:
            return b""
        version, found = read_sensitive(self._version)
        if version == self._version:
            return b""
        new = [[name, chunk] for name, text in found if text not in self._sent for chunk in _chunks(text)]
        self._version, self._sent = version, frozenset([text for _, text in found])
        return pack({}, {SENSITIVE: new}) if new else b""


def _chunks(text: str) -> list[str]:
    """A text, or a number of pieces of a long one, all of the same length."""
    last = min(len(text), MOST_CHUNKS * CHUNK_CHARACTERS) - CHUNK_CHARACTERS
    if last <= 0:
        return [text]
    return [text[start : start + CHUNK_CHARACTERS] for start in [*range(0, last, CHUNK_CHARACTERS), last]]


NAME = "codriver_seam"
FILE = os.path.join(NAME, "__init__.py")
SEAM_FILE = os.path.join(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)), FILE)
"""The seam's file beside the package of this module."""


class _SeamFinder:
    """Finds the seam beside Codriver for code that imports it in an environment without it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """See `importlib.abc.MetaPathFinder`."""
        del path, target
        if name != NAME or not os.path.isfile(SEAM_FILE):
            return None
        import importlib.util

        return importlib.util.spec_from_file_location(name, SEAM_FILE)


def offer() -> None:
    """Let code in this process import the seam; its own copy comes first."""
    sys.meta_path.append(_SeamFinder)


def installed() -> Any:
    """The seam, if the application has one that is switched on."""
    module = sys.modules.get(NAME)
    return module if getattr(module, "session_id", None) else None


def seam_field() -> dict[str, str]:
    """The field that tells a client of a seam; none without a seam, or for one that is switched off."""
    module = installed()
    return {"codriver/seam": str(module.session_id)} if module else {}


def answer(name: str, arguments: str, origin: str) -> str | None:
    """The answer of an accessor of the seam, as JSON; None without a seam."""
    module = installed()
    return str(module.call(name, arguments, origin)) if module else None


def subscribe(
    arguments: str, origin: str, push: Callable[[str], bool], at_end: list[Callable[[], object]]
) -> str | None:
    """Subscribe to a stream, whose frames `push` takes, and answer as `answer` does; `at_end` is given what ends it."""
    module = installed()
    if module is None:
        return None
    seam_field = str(module.call("subscribe", arguments, origin, push))
    identity = json.loads(seam_field).get("subId")
    if identity:
        at_end.append(lambda: answer("unsubscribe", json.dumps({"subId": identity}), "null"))
    return seam_field


def note_load() -> None:
    """Tell the seam that code was loaded anew."""
    module = installed()
    if module:
        module.loaded()
