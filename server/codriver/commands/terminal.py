"""Output of the commands, to people and to programs: the only way to standard output and standard error.

On a terminal, control characters in any text become visible: the text may be a stranger's, and a terminal obeys what it
is sent. Colours are ours, and are put around such text. What is piped is for a program: it gets the text as it is, and
no colours. JSON is safe for both.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from codriver.log.control_characters import json_text, visible

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    text = painted(pieces) if stream.isatty() else plain(pieces)
    encoding = stream.encoding or "utf-8"
    sayable = (text + end).encode(encoding, "backslashreplace").decode(encoding)
    # Else `click` would take colours out of what is piped, where they are the program's own.
    click.echo(sayable, nl=False, err=err, color=True)


def say_json(value: object, *, indent: int | None = None) -> None:
    """Write a value as JSON to standard output, the same to a terminal and to a program."""
    text = json_text(value, indent=indent)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=indent)
    click.echo(text)


def painted(pieces: Iterable[str | Styled]) -> str:
    """The pieces for a terminal: nothing in it but text and our own colours."""
    return "".join([_painted(piece) for piece in harmless(pieces)])


def harmless(pieces: Iterable[str | Styled]) -> list[Styled]:
    """The pieces as a terminal may be sent them: the control characters in their texts are visible."""
    styled = (Styled(piece) if isinstance(piece, str) else piece for piece in pieces)
    return [replace(piece, text=visible(piece.text)) for piece in styled]


def plain(pieces: Iterable[str | Styled]) -> str:
    """The text of the pieces, as it is."""
    return "".join([piece if isinstance(piece, str) else piece.text for piece in pieces])


def _painted(piece: Styled) -> str:
    flags = {name: True for name in ("bold", "dim", "reverse") if getattr(piece, name)}
    return click.style(piece.text, fg=piece.fg, **flags) if flags or piece.fg else piece.text
