"""Request an application's sensitive values before code runs, so that they can be redacted from its output."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.errors import CodriverError
from codriver.repls.contract.events import SensitiveValues

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.repls.contract.events import Listener

SENSITIVE_ACCESSOR: Final = "sensitive"
"""The accessor that returns the sensitive values. Only the redactor may use it."""
CHUNK_CHARACTERS: Final = 4096
"""Length of the chunks that a long value is split into for the redactor."""
MAX_CHUNKS: Final = 16
"""Maximum number of chunks per value. The rest of a longer value is not passed to the redactor."""
LEARN_TIMEOUT_S: Final = 1.0
"""Maximum time that an evaluation waits for the application's sensitive values."""


def sensitive_values(answer: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the sensitive values that an application reported, with their names. Long values are split into chunks."""
    rows = answer.get("texts")
    found = [(str(name), str(text)) for name, text in rows] if isinstance(rows, list) else []
    return tuple(
        (name, text[start : start + CHUNK_CHARACTERS]) for name, text in found for start in _chunk_starts(len(text))
    )


def _chunk_starts(length: int) -> list[int]:
    """Return the start of each chunk of a value.

    The last chunk is as long as the others and may overlap with the previous one, because short chunks are ignored by
    the redactor.
    """
    last = min(length, MAX_CHUNKS * CHUNK_CHARACTERS) - CHUNK_CHARACTERS
    return [*range(0, last, CHUNK_CHARACTERS), last] if last > 0 else [0]


async def learn_sensitive_values(call: Callable[[str, str], Awaitable[str]], listener: Listener) -> None:
    """Query a seam for its sensitive values, and pass them to the redactor.

    Never raises, and waits at most `LEARN_TIMEOUT_S`.
    """
    with suppress(CodriverError, ValueError), anyio.move_on_after(LEARN_TIMEOUT_S):
        answer = json.loads(await call(SENSITIVE_ACCESSOR, "{}"))
        listener(None, SensitiveValues(sensitive_values(answer)))
