r"""Bracket balancing by indentation: parinfer's indent mode, made more careful.

Indent mode alone makes every line ending that of the first and takes a lone carriage return for none, turns tabs into
spaces, and goes wrong on what stands behind or below a tab (see `codriver.lisp.parinfer`). Here a tab in code counts as
two columns and stays a tab where its line starts; each line keeps its ending; a line whose brackets are right keeps
everything. The result has been read again: it balances for a reader too, which knows of characters and comments that
parinfer does not know. Hy's strings in brackets, of which parinfer does not know either, are strings to it here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from codriver.lisp.parinfer import indent_mode
from codriver.lisp.reader import Unbalanced, check
from codriver.lisp.tokens import LINE_END, tokens

_PREAMBLE = re.compile(r"\ufeff?(?:#![^\r\n]*)?")
"""The preamble that may stand before the code: a byte order mark and the line that names an interpreter."""


_CHARACTER = re.compile(r"[^\r\n]")
_STRINGS = frozenset({"string", "bracketed"})


@dataclass(frozen=True, slots=True)
class Balanced:
    """Balanced text; `error` says why it could not be balanced, and then `text` is as it was."""

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
    expanded = _expand_tabs(LINE_END.sub("\n", body))
    corrected = _correct(expanded)
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


def _correct(text: str) -> str | None:
    """`text` with the brackets that its indentation asks for; None when it cannot be had with all its code.

    A string in brackets that never ends begins with brackets to parinfer; and a closer that goes may have stood between
    what is another token without it.
    """
    result = indent_mode(_mask(text))
    if result.error is not None:
        return None
    corrected = _unmask(result.text, text)
    return corrected if corrected == text or _code(corrected) == _code(text) else None


def _code(text: str) -> list[str]:
    """The tokens of `text` but for space and what balancing may take away or put in."""
    return [token[0] for token in tokens(text) if token.lastgroup not in ("space", "close")]


def _mask(text: str) -> str:
    """`text` with an ordinary string, of the same lines and length, in place of each string in brackets."""
    if "#[" not in text:
        return text
    return "".join(
        f'"{_CHARACTER.sub("x", token[0][1:-1])}"' if token["ending"] is not None else token[0]
        for token in tokens(text)
    )


def _unmask(corrected: str, text: str) -> str:
    """`corrected`, which was made of the masked `text`, with the strings that `text` has, one for one."""
    if "#[" not in text:
        return corrected
    kept = iter([token[0] for token in tokens(text) if token.lastgroup in _STRINGS])
    return "".join(next(kept, token[0]) if token.lastgroup in _STRINGS else token[0] for token in tokens(corrected))


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
    """The lines of `text`, each with its ending; the last has none."""
    pieces = re.split(f"({LINE_END.pattern})", text)
    return list(zip(pieces[::2], [*pieces[1::2], ""], strict=True))
