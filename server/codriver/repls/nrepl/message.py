"""nREPL messages: parsed into one shape, and output that came in many small ones coalesced.

The disagreements of servers are settled here, once: nil comes as an empty list where a text or a map is expected,
statuses as a list in any order or as one text, an id as ``""``, as ``[]`` or not at all. Programs print line by line,
and readers read what came at once. Source: nREPL documentation, "Ops", and the answers of the servers in the tests.
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from codriver.core.records import dataclass
from codriver.errors import PeerError
from codriver.wire.untrusted import NOTHING, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from codriver.wire.bencode import Value

NO_STATUS: frozenset[str] = frozenset()

FAILED = frozenset({"eval-error", "error", "namespace-not-found", "unknown-session", "no-code", "unknown-op"})
"""Status words that mean that what was asked for failed. An `ex` key means the same: some servers send nothing else."""

ADDRESS = frozenset({"id", "session"})


class NotAMessageError(PeerError):
    """A peer sent bencode that is no dictionary, and so no message."""

    def __init__(self, value: Value) -> None:
        super().__init__(f"a message must be a dictionary, and a {type(value).__name__} came")


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it came: `id` is None when the server named none, `status` is a set."""

    id: str | None = None
    session: str | None = None
    status: frozenset[str] = frozenset()
    fields: Mapping[str, Value] = field(default_factory=lambda: NOTHING)

    @property
    def is_done(self) -> bool:
        """Whether the server says that it is finished with the request."""
        return "done" in self.status

    @property
    def is_failed(self) -> bool:
        """Whether this message alone says that the request failed."""
        return ("ex" in self.fields and bool(self.text("ex"))) or bool(FAILED & self.status)

    def texts(self, *keys: str) -> list[str | None]:
        """The texts under these keys, each as `text` gives it: of a message's many possible fields it has two or so."""
        fields = self.fields
        return [self.text(key) if key in fields else None for key in keys]

    def text(self, key: str) -> str | None:
        """The text under `key`; None when it is absent, or nil, or no text."""
        value = self.fields.get(key)
        return value if value is None or type(value) is str else as_text(value)


def parse(value: Value) -> Message:
    """The message that `value` is.

    Raises:
        NotAMessageError: it is none.
    """
    if not isinstance(value, dict):
        raise NotAMessageError(value)
    status = _status(value["status"]) if "status" in value else NO_STATUS
    name, session = value.get("id"), value.get("session")
    if type(name) is not str:
        name = as_text(name)
    if type(session) is not str:
        session = as_text(session)
    return Message(name or None, session or None, status, value)


def _status(value: Value | None) -> frozenset[str]:
    """The words of a status, which is a list in any order or one text."""
    if type(value) is list:
        return frozenset([word for word in value if type(word) is str])
    return frozenset((value,)) if type(value) is str else NO_STATUS


def joined(values: Iterable[Value]) -> Iterator[Value]:
    """The values in their order, each run of output on one stream of one request as one message.

    Only what says nothing else is joined. A text that is no UTF-8, or that is cut, stays by itself.
    """
    run: dict[str, Value] | None = None
    stream = ""
    texts: list[str] = []
    for value in values:
        if run is None and type(value) is dict and "out" not in value and "err" not in value:
            yield value
            continue
        name, text = _output(value)
        if run is not None and isinstance(value, dict) and name == stream and _address(value) == _address(run):
            texts.append(text)
            continue
        if run is not None:
            yield {**run, stream: "".join(texts)}
        if name and isinstance(value, dict):
            run, stream, texts = value, name, [text]
        else:
            run = None
            yield value
    if run is not None:
        yield {**run, stream: "".join(texts)}


def _output(value: Value) -> tuple[str, str]:
    """The stream and the text of a message that is text on one stream and nothing else; else the empty ones."""
    if isinstance(value, dict):
        name = "out" if "out" in value else "err"
        text = value.get(name)
        if type(text) is str and value.keys() - ADDRESS == {name}:
            return name, text
    return "", ""


def _address(value: dict[str, Value]) -> tuple[Value | None, Value | None]:
    return value.get("id"), value.get("session")
