"""The way from the REPLs back to the core: by dispatching, and by nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.core.dispatch import Action, Core


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
