"""Source files of a workspace, and the REPL session that serves each: what is loaded when a file is saved."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.files.workspace_walk import walk
from codriver.repls.kinds import dialects_by_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.state import Repl

MAX_FILES: Final = 20_000
"""Files looked at in one round: a folder with more is no project, and a round would take seconds."""

Stamp = tuple[int, int, int]
"""When a file was written, how long it is, and which one it is: another stamp, another save."""


def stamps(workspace: Path) -> dict[Path, Stamp]:
    """Every source file of the workspace and its stamp. Hidden folders and those of dependencies are passed over."""
    found: dict[Path, Stamp] = {}
    suffixes = frozenset(dialects_by_suffix())
    for _folder, _depth, files in walk(workspace, max_entries=MAX_FILES):
        for file in files:
            if os.path.splitext(file.name)[1] in suffixes:  # noqa: PTH122  # thousands of names
                with contextlib.suppress(OSError):  # it was there a moment ago
                    if file.is_file():
                        status = file.stat()
                        found[Path(file.path)] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return found


def server_of(file: Path, repls: Iterable[Repl], workspace: Path) -> Repl | str | None:
    """The connected REPL that serves a file; None when none does; in words which could, when that is not clear.

    Of those that speak the likeliest dialect it is the one whose project is nearest to the file.
    """
    dialects = dialects_by_suffix()[file.suffix]
    able = [repl for repl in repls if repl.phase == "connected" and repl.dialect in dialects]
    if not able:
        return None

    def distance(repl: Repl) -> tuple[int, int]:
        home = _home(repl, workspace)
        inside = file.is_relative_to(home)
        return dialects.index(repl.dialect), -len(home.parts) if inside else 1

    nearest = min(map(distance, able))
    best = [repl for repl in able if distance(repl) == nearest]
    if len(best) == 1:
        return best[0]
    return f"{' and '.join(sorted(repl.key for repl in best))} could serve it alike"


def _home(repl: Repl, workspace: Path) -> Path:
    """The folder of the project that a REPL was started in, as far as it is known."""
    if repl.profile is not None and repl.profile.project_root:
        return Path(repl.profile.project_root)
    if repl.origin.kind == "port-file":
        folder = Path(repl.origin.text).parent
        return folder.parent if folder.name.startswith(".") else folder
    return workspace
