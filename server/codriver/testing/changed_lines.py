"""Lines of Python files that differ from the last commit."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

from codriver.errors import refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.errors import RefusedError

GIT_S: Final = 20.0
HUNK: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
MOST_FILES: Final = 200
DIFF: Final = ("diff", "HEAD", "--unified=0", "--no-ext-diff", "--no-textconv", "--no-color", "--relative")
OTHERS: Final = ("ls-files", "--others", "--exclude-standard")
NO_PROGRAMS: Final = ("-c", "core.fsmonitor=false")
"""Settings by which git starts no program that the repository names."""


def _no_repository(why: str) -> RefusedError:
    return refused(
        "bad-arguments",
        f"changed lines are those of a git repository, and this directory is in none: {why}",
        hint='leave coverage out, or give args: ["--cov"]',
    )


def changed_lines(root: Path) -> dict[str, tuple[int, ...] | None]:
    """Return the changed lines by the absolute path of a Python file; None for a file that is not committed. Blocks.

    Raises:
        RefusedError: git or the repository is missing.
    """
    found: dict[str, set[int] | None] = {}
    file = ""
    for line in _git(root, [*DIFF, "--", "*.py"]).splitlines():
        if line.startswith("+++ "):
            file = str(root / line[6:].strip()) if line[4:6] == "b/" else ""
        elif file and (hunk := HUNK.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[file] = {*(found.get(file) or ()), *range(first, first + count)}
    for name in _git(root, [*OTHERS, "--", "*.py"]).splitlines():
        found[str(root / name)] = None
    return {name: None if lines is None else tuple(sorted(lines)) for name, lines in [*found.items()][:MOST_FILES]}


def _git(root: Path, words: Sequence[str]) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # the words are ours
            ["git", *NO_PROGRAMS, *words],  # noqa: S607  # as the user's shell finds it
            cwd=root, capture_output=True, text=True, errors="replace", timeout=GIT_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        raise _no_repository(str(getattr(error, "stderr", None) or error).strip()) from error
    return done.stdout
