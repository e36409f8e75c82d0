"""Pictures inline in a terminal: by kitty's protocol, iTerm2's, or as sixels. The terminal is asked what it can.

Source: kitty, "Terminal graphics protocol"; iTerm2, "Images"; DEC STD 070, "Sixel graphics"; xterm, "Device
attributes". Every terminal answers the last of the three questions, so that no terminal is waited for long.
"""

from __future__ import annotations

import base64
import os
import re
import select
import sys
import time
from typing import TYPE_CHECKING, Final, Literal

from codriver.commands.terminal import draw
from codriver.systems.terminals import unechoed

if TYPE_CHECKING:
    from collections.abc import Iterator

Way = Literal["kitty", "iTerm2", "sixel"]
QUESTIONS: Final = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b[>q\x1b[c"
"""Whether it takes a picture of one pixel as kitty does; its name and version; its attributes, which all tell."""
LAST_ANSWER: Final = re.compile(r"\x1b\[\?([\d;]*)c")
TAKES_SIXELS: Final = "4"
"""The attribute of sixels. Source: VT340."""
TAKES_FILES: Final = re.compile(r"\x1bP>\|(?:iTerm2|WezTerm|mintty)")
WAIT_S: Final = 0.6
"""For the answer of a terminal at the other end of a slow line; one that answers nothing is asked once a command."""
CHUNK: Final = 4096
"""Characters of base64 in one escape sequence. Source: kitty's protocol."""
WITHOUT_QUESTIONS: Final = frozenset({"", "dumb", "linux"})
"""Terminals by the name in TERM that would print the questions."""


def way_of_terminal() -> Way | None:
    """The way in which the terminal behind standard input and output shows pictures; None if it shows none."""
    if os.environ.get("TERM", "") in WITHOUT_QUESTIONS or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return None
    try:
        answer = _asked()
    except OSError:  # no terminal of this kind, as on Windows
        return None
    if "\x1b_Gi=31;OK" in answer:
        return "kitty"
    if TAKES_FILES.search(answer):
        return "iTerm2"
    last = LAST_ANSWER.search(answer)
    return "sixel" if last and TAKES_SIXELS in last[1].split(";") else None


def _asked() -> str:
    """The answers of the terminal, which are not echoed."""
    keys = sys.stdin.fileno()
    with unechoed(keys):
        draw(QUESTIONS)
        answer, deadline = "", time.monotonic() + WAIT_S
        while not LAST_ANSWER.search(answer) and (left := deadline - time.monotonic()) > 0:
            if select.select([keys], [], [], left)[0]:
                answer += os.read(keys, CHUNK).decode("latin-1")
        return answer


def encoded(way: Way, kind: str, content: bytes) -> str:
    """The picture as the terminal takes it; blank if the kind is none for it."""
    if way == "iTerm2":
        given = f"inline=1;size={len(content)};preserveAspectRatio=1"
        return f"\x1b]1337;File={given}:{base64.b64encode(content).decode()}\x07"
    if kind != "image/png":
        return ""
    if way == "kitty":
        return "".join(_kitty(base64.b64encode(content).decode()))
    from codriver.commands.pictures.sixels import sixels  # noqa: PLC0415  # few terminals need it

    return sixels(content)


def _kitty(data: str) -> Iterator[str]:
    for at in range(0, len(data), CHUNK):
        more = int(at + CHUNK < len(data))
        head = f"a=T,f=100,m={more}" if at == 0 else f"m={more}"
        yield f"\x1b_G{head};{data[at : at + CHUNK]}\x1b\\"
