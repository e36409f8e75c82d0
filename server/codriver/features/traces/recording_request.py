"""Requests to record the calls that an evaluation or a test run makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_REPORT: Final = "run"
"""Name of the report with the recorded calls, the changed lines that did not run, and the slowest functions."""
RUN_REPLY_FIELD: Final = "codriver/run"
"""Reply field with the calls recorded during an evaluation."""


@dataclass(frozen=True)
class RecordingRequest:
    """The recording of calls that a caller requests for an evaluation or a test run."""

    names: tuple[str, ...] | None = None
    """The functions whose calls are recorded. An empty tuple means all of the project's functions; None records no
    calls.
    """
    profiles: bool = False
    """Whether to report the slowest functions."""

    report = RUN_REPORT
    end = "recorded"

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return the fields to add to a request to Codriver's worker."""
        names = {} if self.names is None else {"codriver/trace": list(self.names)}
        return {**names, "codriver/profile": 1} if self.profiles else names

    def begin(self, directory: str) -> tuple[str, Mapping[str, object]]:
        """Return the operation that starts the recording in a kernel, along with its arguments."""
        names = None if self.names is None else list(self.names)
        return "record", {"names": names, "directory": directory, "profiles": self.profiles}
