r"""Balancing the brackets of a text by its indentation, by parinfer's indent mode and more carefully.

Indent mode alone makes every line ending that of the first, turns tabs into spaces, and goes wrong on what stands
behind or below a tab (see `codriver.lisp.parinfer`). Here a tab in code counts as two columns and stays a tab where its
line starts; each line keeps its ending; a line whose brackets are right keeps everything. The result has been read
again: it balances for a reader too, which knows of characters and comments that parinfer does not know. Hy's strings
in brackets, of which parinfer does not know either, are strings to it here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codriver.lisp.parinfer import indent_mode
from codriver.lisp.reader import Unbalanced, check
from codriver.lisp.tokens import tokens

_PREAMBLE = re.compile(r"\ufeff?(?:#![^\r\n]*)?")
"""What may stand before the code: a byte order mark and the line that names an interpreter."""


_CODE = re.compile(r"[^\r\n]")
_STRINGS = frozenset({"string", "bracketed"})


@dataclass(frozen=True, slots=True)
class Balanced:
    """The balanced text; `error` says why it could not be balanced, and then `text` is as it was."""

    text: str
    changed: bool
    error: Unbalanced | None = None


def balance(text: str) -> Balanced:
    """The text with the brackets that its indentation asks for.

    Text that balances and that parinfer refuses (a closer that leads a line of code, a lone quote in a comment) stays.
    """
    found = _PREAMBLE.match(text)
    preamble = found[0] if found else ""
    body = text[len(preamble) :]
    expanded = _expand_tabs(body)
    masked = _mask(expanded)
    result = indent_mode(masked)
    corrected = _unmask(result.text, masked, expanded) if result.error is None else None
    if corrected is not None:
        balanced = preamble + _merge(body, expanded, corrected)
        if balanced == text or check(balanced) is None:
            return Balanced(balanced, changed=balanced != text, error=check(text) if balanced == text else None)
    return Balanced(text, changed=False, error=check(text))


def _expand_tabs(text: str) -> str:
    """`text` with two spaces for each tab in code."""
    if "\t" not in text:
        return text
    return "".join(token[0].replace("\t", "  ") if token.lastgroup == "space" else token[0] for token in tokens(text))


def _mask(text: str) -> str:
    """`text` with an ordinary string, of the same lines and length, in place of each string in brackets."""
    if "#[" not in text:
        return text
    return "".join(
        f'"{_CODE.sub("x", token[0][1:-1])}"' if token["ending"] is not None else token[0] for token in tokens(text)
    )


def _unmask(corrected: str, masked: str, text: str) -> str | None:
    """`corrected`, which was made of `masked`, with the strings in brackets that `text` has.

    None when it is not known where they belong: a string that never ends, or a quote that a bracket moved away from.
    """
    if masked == text:
        return corrected
    kept = [token[0] for token in tokens(text) if token.lastgroup in _STRINGS]
    found = [token for token in tokens(corrected) if token.lastgroup in _STRINGS]
    if len(found) != len(kept):
        return None
    parts: list[str] = []
    at = 0
    for token, string in zip(found, kept, strict=True):
        parts += corrected[at : token.start()], string
        at = token.end()
    return "".join([*parts, corrected[at:]])


def _merge(original: str, expanded: str, corrected: str) -> str:
    """`corrected`, and of `original` the line endings, the lines that are right, and the tabs before the others."""
    parts: list[str] = []
    lines = zip(_lines(original), _lines(expanded), _lines(corrected), strict=True)
    for (line, ending), (spaced, _), (right, _) in lines:
        if spaced == right:
            parts += line, ending
            continue
        code = line.lstrip(" \t")
        indentation = line[: len(line) - len(code)]
        spaces = indentation.replace("\t", "  ")
        if spaced.startswith(spaces) and right.startswith(spaces):
            parts += indentation, right[len(spaces) :], ending
        else:
            parts += right, ending
    return "".join(parts)


def _lines(text: str) -> list[tuple[str, str]]:
    """The lines of `text` as parinfer counts them, each with its ending; the last has none."""
    pieces = re.split(r"(\r?\n)", text)
    return list(zip(pieces[::2], [*pieces[1::2], ""], strict=True))
