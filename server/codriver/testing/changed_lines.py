"""Find what changed in a git repository since the last commit: lines in Python files, and the old text of files."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Final

from codriver.errors import refused

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from codriver.errors import RefusedError

GIT_TIMEOUT_S: Final = 20.0
"""Maximum time for one git command, in seconds."""
HUNK_HEADER_PATTERN: Final = re.compile(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@")
"""Matches the header of a hunk. Its groups are the number of the hunk's first line and its length in the new file."""
MAX_CHANGED_FILES: Final = 200
"""Maximum number of changed files to return."""
DIFF_ARGUMENTS: Final = ("diff", "HEAD", "--unified=0", "--no-ext-diff", "--no-textconv", "--no-color", "--relative")
"""Arguments with which git prints the lines that differ from the last commit."""
DIFF_NAMES_ARGUMENTS: Final = (
    "diff",
    "HEAD",
    "--name-only",
    "-z",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--relative",
)
"""Arguments with which git prints the names of files that differ from the last commit."""
UNTRACKED_FILES_ARGUMENTS: Final = ("ls-files", "--others", "--exclude-standard")
"""Arguments with which git prints the names of untracked files."""
NO_PROGRAMS_OPTIONS: Final = ("-c", "core.fsmonitor=false")
"""Options that prevent git from starting programs that the repository configures."""


def _no_repository_error(why: str) -> RefusedError:
    """Return the error for a request that requires a git repository."""
    return refused(
        "bad-arguments",
        f"changed lines need a git repository, and this directory is not in one: {why}",
        hint='Omit coverage, or pass args: ["--cov"].',
    )


def changed_lines(root: Path) -> dict[str, tuple[int, ...] | None]:
    """Return the lines of Python files that differ from the last commit, by absolute path. Blocks.

    The value is None for a file that git does not track, because all of its lines are new.

    Raises:
        RefusedError: git is not installed, or the directory is not in a repository.
    """
    found: dict[str, set[int] | None] = {}
    file = ""
    for line in _git_output(root, [*DIFF_ARGUMENTS, "--", "*.py"]).splitlines():
        if line.startswith("+++ "):
            file = str(root / line[6:].strip()) if line[4:6] == "b/" else ""
        elif file and (hunk := HUNK_HEADER_PATTERN.match(line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found[file] = {*(found.get(file) or ()), *range(first, first + count)}
    for name in _git_output(root, [*UNTRACKED_FILES_ARGUMENTS, "--", "*.py"]).splitlines():
        found[str(root / name)] = None
    return {
        name: None if lines is None else tuple(sorted(lines)) for name, lines in [*found.items()][:MAX_CHANGED_FILES]
    }


def uncommitted_files(root: Path, suffixes: Sequence[str]) -> dict[Path, bytes | None]:
    """Return the committed content of each file that differs from the last commit. Blocks.

    The content is None for a file that is not in the last commit.

    Raises:
        RefusedError: git is not installed, or the directory is not in a repository with a commit.
    """
    patterns = [f"*{suffix}" for suffix in suffixes]
    changed = _git_output(root, [*DIFF_NAMES_ARGUMENTS, "--", *patterns]).split("\0")
    added = _git_output(root, [*UNTRACKED_FILES_ARGUMENTS, "-z", "--", *patterns]).split("\0")
    found: dict[Path, bytes | None] = {}
    for name in list(filter(None, changed))[:MAX_CHANGED_FILES]:
        try:
            found[root / name] = _run_git(root, ["cat-file", "blob", f"HEAD:./{name}"])
        except (OSError, subprocess.SubprocessError):  # staged, but not committed yet
            found[root / name] = None
    return found | {root / name: None for name in filter(None, added)}


def _git_output(root: Path, arguments: Sequence[str]) -> str:
    """Run git in a directory, and return its output as text. Blocks.

    Raises:
        RefusedError: git is not installed, or the directory is not in a repository.
    """
    try:
        return _run_git(root, arguments).decode(errors="replace")
    except (OSError, subprocess.SubprocessError) as error:
        stderr = getattr(error, "stderr", None)
        why = stderr.decode(errors="replace") if isinstance(stderr, bytes) else str(error)
        raise _no_repository_error(why.strip()) from error


def _run_git(root: Path, arguments: Sequence[str]) -> bytes:
    """Run git in a directory, and return its output. Blocks.

    Raises:
        OSError: git is not installed.
        subprocess.SubprocessError: git failed, or took longer than its time limit.
    """
    done = subprocess.run(  # noqa: S603  # the command consists of constants
        ["git", *NO_PROGRAMS_OPTIONS, *arguments],  # noqa: S607  # as the user's shell finds it
        cwd=root, capture_output=True, timeout=GIT_TIMEOUT_S, check=True,
    )  # fmt: skip
    return done.stdout
