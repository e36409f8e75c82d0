"""A fix for hy-nrepl, which prints a line about an incomplete message for each kilobyte of a long one.

Source: hy-nrepl 1.0.4, `server.hy`.
"""

from __future__ import annotations

import builtins
import sys

server = sys.modules.get("hy-nrepl.server") or sys.modules["hy_nrepl.server"]


def print_quietly(*words: object, **how: object) -> None:
    """Print like `print`, but ignore exceptions about an incomplete message."""
    if not isinstance([*words, ""][0], Exception):
        builtins.print(*words, **how)  # type: ignore[call-overload]  # as they came


server.ReplRequestHandler.handle.__globals__["print"] = print_quietly
