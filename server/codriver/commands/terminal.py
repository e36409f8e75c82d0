"""Output of the commands, to people and to programs: the only way to standard output and standard error.

On a terminal, control characters in any text become visible: the text may be a stranger's, and a terminal obeys what it
is sent. Colours are ours, and are put around such text. What is piped is for a program: it gets the text as it is, and
no colours unless it asks for them. JSON is safe for both.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from codriver.log.control_characters import json_text, visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TextIO

COLOUR = "codriver.colour"
"""Where a command's context keeps its `--color`."""
PATIENCE_S = 2.0
"""How long a person waits without a word."""


@dataclass(frozen=True, slots=True)
class Styled:
    """A text, and how a terminal shows it."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False
    reverse: bool = False


def say(*pieces: str | Styled, err: bool = False, end: str = "\n") -> None:
    """Write the pieces as one text, to standard output or standard error."""
    stream = sys.stderr if err else sys.stdout
    styled = harmless(pieces) if stream.isatty() else as_styled(pieces)
    text = "".join(map(_painted, styled)) if wants_colour(stream) else plain(styled)
    encoding = stream.encoding or "utf-8"
    sayable = (text + end).encode(encoding, "backslashreplace").decode(encoding)
    # Else `click` would take colours out of what is piped, where they are the program's own.
    click.echo(sayable, nl=False, err=err, color=True)


def draw(sequences: str) -> None:
    """Write control sequences of our own to standard output, which show a picture or ask the terminal for something."""
    click.echo(sequences, nl=False, color=True)


def say_bytes(content: bytes) -> None:
    """Write a file's bytes to standard output, for a program."""
    click.echo(content, nl=False)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON to standard output, the same to a terminal and to a program."""
    text = json_text(value, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    click.echo(text)


def wants_colour(stream: TextIO) -> bool:
    """Whether to colour what goes there: by `--color`, else NO_COLOR, else FORCE_COLOR, else where it is a terminal.

    Source: https://no-color.org and https://force-color.org; a variable that is empty says nothing.
    """
    context = click.get_current_context(silent=True)
    choice = context.meta.get(COLOUR, "auto") if context else "auto"
    if choice != "auto":
        return bool(choice == "always")
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


@contextmanager
def patience(words: Callable[[], str]) -> Iterator[None]:
    """Say `words` on standard error, once, where what is done within takes long and a person waits at a terminal.

    `words` is called in a thread of its own; blank words are not said.
    """
    if not sys.stderr.isatty():
        yield
        return
    from threading import Timer  # noqa: PLC0415  # only a person waits

    def tell() -> None:
        if text := words():
            say(f"codriver: {text}", err=True)

    timer = Timer(PATIENCE_S, tell)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def harmless(pieces: Iterable[str | Styled]) -> list[Styled]:
    """The pieces as a terminal may be sent them: the control characters in their texts are visible."""
    return [replace(piece, text=visible(piece.text)) for piece in as_styled(pieces)]


def as_styled(pieces: Iterable[str | Styled]) -> list[Styled]:
    """The pieces as they are, those without a style in a style that is none."""
    return [Styled(piece) if isinstance(piece, str) else piece for piece in pieces]


def plain(pieces: Iterable[str | Styled]) -> str:
    """The text of the pieces, as it is."""
    return "".join([piece if isinstance(piece, str) else piece.text for piece in pieces])


def _painted(piece: Styled) -> str:
    flags = {name: True for name in ("bold", "dim", "reverse") if getattr(piece, name)}
    return click.style(piece.text, fg=piece.fg, **flags) if flags or piece.fg else piece.text
