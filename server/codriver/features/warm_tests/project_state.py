"""What is known about the test runs of one interpreter in one directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codriver.features.warm_tests.decisions import Project

if TYPE_CHECKING:
    from pathlib import Path

    import anyio

    from codriver.features.warm_tests.warm_process import WarmProcess


@dataclass(slots=True)
class ProjectState:
    """What is known about test runs of one interpreter in one directory, and the warm process for them."""

    python: str
    directory: Path
    project: Project = field(default_factory=Project)
    process: WarmProcess | None = None
    memory_mb: int = 0
    differences: tuple[str, ...] = ()
    is_loaded: bool = False
    """Whether the plan saved by an earlier server has been looked up."""
    is_preloading: bool = False
    unlearned: dict[int, anyio.Event] = field(default_factory=dict)
    """Events for finished runs whose results are still being evaluated, by number. Each is set when that is done."""
    reason: str = ""

    async def wait_until_learned(self) -> None:
        """Wait until all finished runs have been evaluated."""
        for event in list(self.unlearned.values()):
            await event.wait()
