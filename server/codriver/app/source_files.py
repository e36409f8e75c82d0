"""Source files of a workspace, and the REPL session that serves each: what is loaded when a file is saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.repls.kinds import dialects_by_suffix

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.state import Repl

MAX_FILES: Final = 20_000
"""Files looked at in one round: a folder with more is no project, and a round would take seconds."""

SKIPPED: Final = frozenset({
    "node_modules", "target", "build", "dist", "out", "venv", "__pycache__", "site-packages", "vendor",
})  # fmt: skip

Stamp = tuple[int, int, int]
"""When a file was written, how long it is, and which one it is: another stamp, another save."""


def stamps(workspace: Path) -> dict[Path, Stamp]:
    """Every source file of the workspace and its stamp. Hidden folders and those of dependencies are passed over."""
    found: dict[Path, Stamp] = {}
    suffixes = frozenset(dialects_by_suffix())
    waiting, seen = [str(workspace)], 0
    while waiting and seen < MAX_FILES:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if entry.name.startswith("."):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in SKIPPED:
                        waiting.append(entry.path)
                elif os.path.splitext(entry.name)[1] in suffixes and entry.is_file():  # noqa: PTH122  # thousands of names
                    status = entry.stat()
                    found[Path(entry.path)] = (status.st_mtime_ns, status.st_size, status.st_ino)
            except OSError:  # it was there a moment ago
                continue
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
