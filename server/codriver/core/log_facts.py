"""The facts behind the log entries that the core writes: a kind, and data as a JSON object."""

from __future__ import annotations

import json
from typing import Final

PURPOSE: Final = "purpose"
"""The caller's description of an evaluation is the text."""
LOAD: Final = "load"
"""An evaluation loads a file, or some of its forms: `file`."""
CONNECTED: Final = "repl-connected"
"""A REPL was connected: `repl`, `dialect` and `generation`."""
ENDED: Final = "ended"
"""An evaluation was interrupted or lost: `status` and `cause`."""


def data_of(**facts: object) -> str:
    """Return facts as the data of a log entry."""
    return json.dumps(facts, ensure_ascii=False)
