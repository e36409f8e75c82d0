"""The kinds and the JSON data of the log entries that the core writes."""

from __future__ import annotations

import json
from typing import Final

PURPOSE: Final = "purpose"
"""The kind of an entry whose text is the caller's description of an evaluation."""
LOAD: Final = "load"
"""The kind of an entry for a load of a file, or of some of its forms. Its data has `file`."""
CONNECTED: Final = "repl-connected"
"""The kind of an entry for a new REPL connection. Its data has `repl`, `dialect` and `generation`."""
ENDED: Final = "ended"
"""The kind of an entry for an evaluation that was interrupted or lost. Its data has `status` and `cause`."""


def data_of(**facts: object) -> str:
    """Encode facts as the JSON data of a log entry."""
    return json.dumps(facts, ensure_ascii=False)
