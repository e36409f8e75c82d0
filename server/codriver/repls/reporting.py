"""The way from the REPLs back to the core: by dispatching, and by nothing else."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from codriver.core import actions

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.core.dispatch import Action, Core

logger = logging.getLogger(__name__)


class Reporter:
    """Whom the REPLs of one server report to, for its life. `now` gives epoch milliseconds."""

    def __init__(self, now: Callable[[], int]) -> None:
        self.now = now
        self._core: Core | None = None

    def attach(self, core: Core) -> None:
        """Tell whom to report to. Called once, before the first effect."""
        self._core = core

    @property
    def core(self) -> Core:
        """Whom to report to."""
        assert self._core is not None, "attach comes first"  # noqa: S101  # a programming error
        return self._core

    def dispatch(self, *what: Action) -> None:
        """Report to the core."""
        self.core.dispatch({"now": self.now()}, what)

    def fault(self, what: str, error: Exception) -> str:
        """Remember that codriver itself failed in `what`; in words, for who is concerned."""
        text = f"codriver itself failed in {what}: {_words(error)}"
        logger.error("%s", text, exc_info=error)
        try:
            self.dispatch(actions.LatchError("internal-error", text), actions.Say(text, error=True))
        except Exception:
            logger.exception("this could not be put into the log")
        return text


def _words(error: BaseException) -> str:
    """What went wrong: of a group of faults, the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"
