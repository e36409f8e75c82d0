"""Parse the arguments that several accessors share: the frame, the path, literals and the number of rows.

Paths and values are parsed as literals and never evaluated.
"""

from __future__ import annotations

import ast
import sys

from .recording import seam
from .values import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .recording import Json
    from .state_frames import Frame
    from .values import Path


def requested_frame(request: Json) -> Frame:
    """Return the frame that a request names. The name may be omitted if there is only one frame.

    Raises:
        Refusal: the frame does not exist, or there are several and the request names none.
    """
    name, frames = request.get("frame"), list(seam.frames)
    chosen = frames[0] if name is None and len(frames) == 1 else name
    found: Frame | None = seam.frames.get(chosen) if isinstance(chosen, str) else None
    if found is not None:
        return found
    names = ", ".join(frames) or "no frame is registered. The application must call frame(name, get=…)"
    if name is not None:
        raise Refusal("no-such-frame", f"there is no frame {name!r}. The frames are: {names}" if frames else names)
    raise Refusal(
        "ambiguous-frame" if frames else "no-frame-resolved",
        f"there are several frames. Pass one of these as the argument `frame`: {names}",
        frames=frames,
    )


def read_literal(name: str, text: object, reason: str) -> Any:
    """Parse a string as a Python literal. `name` is the argument's name, for the error message.

    Raises:
        Refusal: the string is not a literal.
    """
    try:
        return ast.literal_eval(str(text))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise Refusal(reason, f"{name} must be a Python literal, but {str(text)[:80]!r} is not one") from None


def parse_path(text: object) -> Path:
    """Parse a path to a part of the state.

    A path is a list, names and numbers separated by dots, or keywords in Basilisp's notation.
    """
    if not text:
        return ()
    if isinstance(text, list):
        return tuple(text)
    try:
        read = ast.literal_eval(str(text))
    except (ValueError, SyntaxError):
        keywords = sys.modules.get("basilisp.lang.keyword")
        if keywords is not None and str(text).lstrip()[:1] in ("[", ":"):
            words = str(text).replace(",", " ").strip("[] ").split()
            return tuple(_parse_lisp_step(word, keywords.keyword) for word in words)
        return tuple(int(part) if part.isdigit() else part for part in str(text).split("."))
    return tuple(read) if isinstance(read, (list, tuple)) else (read,)


def _parse_lisp_step(word: str, keyword: Callable[[str, str | None], Any]) -> Any:
    """Parse one step of a path in Basilisp's notation. `keyword` is Basilisp's function that creates keywords."""
    if word[0] == ":":
        namespace, _, name = word[1:].rpartition("/")
        return keyword(name, namespace or None)
    return int(word) if word.isdigit() else word.strip("'\"")


def row_limit(request: Json, most: int) -> int:
    """Return the number of rows requested, or `most` by default."""
    return max(1, int(request.get("limit") or most))
