"""Report internal errors in the server."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codriver.core import actions

if TYPE_CHECKING:
    from codriver.core.dispatch import Core

logger = logging.getLogger(__name__)


class InternalErrorReporter:
    """Reports internal errors in the log and the health status of a server."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def report(self, what: str, error: Exception) -> str:
        """Log an internal error and return its description. `what` describes what was being done."""
        text = f"internal error in Codriver ({what}): {_error_text(error)}"
        logger.error("%s", text, exc_info=error)
        try:
            self._core.report(actions.LatchError("internal-error", text), actions.AddServerLine(text, error=True))
        except Exception:
            logger.exception("an internal error could not be added to the log")
        return text


def _error_text(error: BaseException) -> str:
    """Return the type and message of an error, or of the first error in a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
