"""hy-nrepl prints to nobody's log: of a long message it tells, for each kilobyte, that it is not whole yet.

Source: hy-nrepl 1.0.4, `server.hy`.
"""

from __future__ import annotations

import builtins
import sys

server = sys.modules.get("hy-nrepl.server") or sys.modules["hy_nrepl.server"]


def say(*words: object, **how: object) -> None:
    """Print as `print` does, but for the exceptions that a message is not whole yet."""
    if not isinstance([*words, ""][0], Exception):
        builtins.print(*words, **how)  # type: ignore[call-overload]  # as they came


server.ReplRequestHandler.handle.__globals__["print"] = say
