"""Output that came in many small messages, joined: programs print line by line, and readers read what came at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from codriver.wire.bencode import Value

ADDRESS = frozenset({"id", "session"})


def joined(values: Iterable[Value]) -> Iterator[Value]:
    """The values in their order, each run of output on one stream of one request as one message.

    Only what says nothing else is joined. A text that is no UTF-8 stays by itself.
    """
    run: dict[str, Value] | None = None
    stream = ""
    texts: list[str] = []
    for value in values:
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
        if isinstance(text, str) and value.keys() - ADDRESS == {name}:
            return name, text
    return "", ""


def _address(value: dict[str, Value]) -> tuple[Value | None, Value | None]:
    return value.get("id"), value.get("session")
