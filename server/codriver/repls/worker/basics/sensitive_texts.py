"""Texts at the sensitive paths of an application's state: seen before anything leaves, and told to clients that ask.

A client that knows them takes them out of what it shows. Those that do not ask are told none. The seam of the
application in this process, if it has one, is found by name among the modules.
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
"""The op by which a client asks to be told the texts at sensitive paths, and the field that tells them."""
AGAIN_S = 0.01
"""So long after a look at the state the next one, while something is printed; longer where looking takes long."""
SHARE = 20
"""Looking while something is printed takes no more than one part of so many of the time."""
BRIEFLY_S = 0.5
PIECE_CHARACTERS, MOST_PIECES = 4096, 16
"""A long text is told in pieces, as each is looked for."""


def look() -> None:
    """Let the seam see what stands at sensitive paths now. It runs the application's getters, on this thread."""
    see = getattr(installed(), "look", None)
    if see is not None:
        see()


def look_briefly() -> None:
    """Look, and wait for that no longer than a moment, as a getter may never return."""
    if installed() is not None:
        thread = threading.Thread(target=look, daemon=True)
        START_THREAD(thread)
        thread.join(BRIEFLY_S)


class Looks:
    """Looks while something is printed, for the life of the worker."""

    def __init__(self) -> None:
        self._next = 0.0

    def look(self) -> None:
        """Look, unless that was done a moment ago."""
        if NAME not in sys.modules or (now := monotonic()) < self._next:
            return
        self._next = now + AGAIN_S
        look()
        after = monotonic()
        self._next = after + max(AGAIN_S, SHARE * (after - now))


class evaluating:  # noqa: N801  # it is used as a function is
    """A context in which code is evaluated: the seam looks before and after it, and its events have the `origin`."""

    __slots__ = ("_origin", "_token", "_variable")

    def __init__(self, origin: object) -> None:
        self._origin = origin if isinstance(origin, dict) else None
        self._variable: Any = None

    def __enter__(self) -> None:
        look()
        if self._origin:
            self._variable = getattr(installed(), "origin", None)
        if self._variable is not None:
            self._token = self._variable.set(self._origin)

    def __exit__(self, *_: object) -> None:
        if self._variable is not None:
            self._variable.reset(self._token)
        look()


def begin_telling(message: Message, connection: Connection, _session: Session) -> None:
    """Tell a client from now on what stands at sensitive paths, before anything that may hold it."""

    def begin() -> None:
        connection.news = connection.news or SensitiveNews()
        look()
        connection.answer(message, {"status": ["done"]})

    # A getter may wait.
    start_thread(begin)


class SensitiveNews:
    """The texts at sensitive paths that one client was not told yet. Lives as long as its connection."""

    def __init__(self) -> None:
        self._version = 0
        self._told: frozenset[str] = frozenset()

    def __call__(self) -> bytes:
        """A message that tells them, to be sent before all else; empty where there are none. It only reads."""
        tell = getattr(installed(), "sensitive_texts", None)
        if tell is None:
            return b""
        version, found = tell(self._version)
        if version == self._version:
            return b""
        new = [[name, piece] for name, text in found if text not in self._told for piece in _pieces(text)]
        self._version, self._told = version, frozenset([text for _, text in found])
        return pack({}, {SENSITIVE: new}) if new else b""


def _pieces(text: str) -> list[str]:
    """A text, or so many pieces of one that is long, all of the same length."""
    last = min(len(text), MOST_PIECES * PIECE_CHARACTERS) - PIECE_CHARACTERS
    if last <= 0:
        return [text]
    return [text[start : start + PIECE_CHARACTERS] for start in [*range(0, last, PIECE_CHARACTERS), last]]


NAME = "codriver_seam"
FILE = os.path.join(NAME, "__init__.py")
PLACE = os.path.join(os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 4)), FILE)
"""The seam's file beside the package that this module is a part of."""


class _Beside:
    """Finds the seam beside Codriver for code that imports it and whose environment does not have it."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        """See `importlib.abc.MetaPathFinder`."""
        del path, target
        if name != NAME or not os.path.isfile(PLACE):
            return None
        import importlib.util

        return importlib.util.spec_from_file_location(name, PLACE)


def offer() -> None:
    """Let code in this process import the seam; one that it has itself comes first."""
    sys.meta_path.append(_Beside)


def installed() -> Any:
    """The seam, where the application has one and it is switched on."""
    module = sys.modules.get(NAME)
    return module if getattr(module, "session_id", None) else None


def told() -> dict[str, str]:
    """The field by which a client learns that there is a seam: none where there is none, or it is switched off."""
    module = installed()
    return {"codriver/seam": str(module.session_id)} if module else {}


def answer(name: str, arguments: str, origin: str) -> str | None:
    """The answer of an accessor of the seam, as JSON; None where there is none."""
    module = installed()
    return str(module.call(name, arguments, origin)) if module else None


def subscribe(
    arguments: str, origin: str, push: Callable[[str], bool], at_end: list[Callable[[], object]]
) -> str | None:
    """Subscribe to a stream, whose frames `push` takes, and answer as `answer` does; `at_end` is given what ends it."""
    module = installed()
    if module is None:
        return None
    told = str(module.call("subscribe", arguments, origin, push))
    identity = json.loads(told).get("subId")
    if identity:
        at_end.append(lambda: answer("unsubscribe", json.dumps({"subId": identity}), "null"))
    return told


def note_load() -> None:
    """Tell the seam that code was loaded anew."""
    module = installed()
    if module:
        module.loaded()
