"""What clj-kondo says of files, when it is installed."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

LINT_S = 10.0
"""A whole project takes it a few seconds, one file a tenth of one."""
MAX_ROWS = 50
"""Of one file."""
SUFFIXES = frozenset({".clj", ".cljs", ".cljc", ".edn", ".bb"})
"""What it reads."""


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What the linter said, by file, as JSON rows; or in `note` why it said nothing.

    Both are empty when there is no linter. A file without findings has an empty row list.
    """

    rows: Mapping[Path, Sequence[Mapping[str, object]]]
    note: str | None = None


async def lint(workspace: Path, paths: Sequence[Path], *, limit_s: float = LINT_S) -> Diagnostics:
    """Lint `paths` in one run of clj-kondo from the workspace, with the project's own configuration.

    Source: clj-kondo's manual: `--lint`, `--config`, its JSON output, and exit codes 0, 2 and 3 for what it found.
    """
    known = [path for path in paths if path.suffix in SUFFIXES]
    program = shutil.which("clj-kondo")
    if program is None or not known:
        return Diagnostics({})
    command = [program, "--lint", *map(str, known), "--config", "{:output {:format :json}}"]
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        with anyio.move_on_after(limit_s):
            done = await anyio.run_process(command, cwd=workspace, check=False)
    except OSError as error:
        return Diagnostics({}, f"clj-kondo cannot be run: {error.strerror or error}")
    if done is None:
        return Diagnostics({}, f"clj-kondo took longer than {limit_s:g} s")
    if done.returncode not in (0, 2, 3):
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Diagnostics({}, f"clj-kondo failed with exit code {done.returncode}: {''.join(last)[:200]}")
    try:
        findings = json.loads(done.stdout)["findings"]
        return Diagnostics({path: _rows(path, findings) for path in known})
    except (ValueError, KeyError, TypeError):
        return Diagnostics({}, "clj-kondo gave no JSON that could be read")


def _rows(path: Path, findings: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """The findings of one file, in its order."""
    rows = [
        {
            "line": finding["row"],
            "column": finding["col"],
            "level": finding["level"],
            "message": finding["message"],
            "type": finding["type"],
        }
        for finding in findings
        if Path(str(finding["filename"])) == path
    ]
    return sorted(rows, key=lambda row: (int(str(row["line"])), int(str(row["column"]))))[:MAX_ROWS]
