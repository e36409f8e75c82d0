r"""Parinfer: closing brackets inferred from indentation (indent mode).

The rules, for every line of code:

* Behind the last code of a line stands its *trail*: closers and spaces, before a comment or the line's end.
* Indent mode trusts indentation. Closers in a trail are suggestions: they are taken back, and put again where the next
  line of code says by its indentation which brackets end before it. Closers elsewhere must match.
* Strings and characters are code that is never looked into; comments are followed far enough to see that their quotes
  pair, because a lone quote would turn code into string once the comment sign goes.

Results are those of parinfer.js 3.13, also where a tab shows that it counts a changed character twice: what stands on a
line behind a tab is taken to have moved left, so that code below tabs may move, be torn from its form, or lose its last
character. `codriver.lisp.balance` keeps tabs away from it. Columns are counted in UTF-16 code units, as there.

Time is linear in the text given and the text got; each comment line below a line that has moved costs as much as
brackets are open.

Source: the rules at https://shaunlebron.github.io/parinfer/ and the observed behaviour of parinfer.js.
"""

from __future__ import annotations

import re

from codriver.lisp.parinfer.indent_pass import IndentPass, StopError
from codriver.lisp.parinfer.result import MESSAGES, ParinferError, Place, Result

__all__ = ["MESSAGES", "ParinferError", "Place", "Result", "indent_mode"]

_LINE_END = re.compile(r"\r?\n")
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")


def indent_mode(text: str) -> Result:
    """`text` with its trailing closers as its indentation asks for."""
    run = IndentPass()
    units = _ASTRAL.sub(lambda match: _in_units(match[0]), text)
    try:
        for line in _LINE_END.split(units):
            run.line(line)
        run.end()
    except StopError as stop:
        return Result(text, stop.error)
    corrected = ("\r\n" if "\r" in text else "\n").join(run.lines)
    if len(units) != len(text):
        corrected = corrected.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return Result(corrected)


def _in_units(character: str) -> str:
    """A character beyond the first 65,536 as the two code units that stand for it in UTF-16."""
    code = ord(character) - 0x10000
    return chr(0xD800 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
