"""Diagnostics by clj-kondo, when it is installed."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from codriver import files

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Mapping, Sequence

LINT_S = 10.0
"""A whole project takes it a few seconds, one file a tenth of one."""
MAX_ROWS = 50
"""Of one file."""
SUFFIXES = frozenset({".clj", ".cljs", ".cljc", ".edn", ".bb"})
"""The suffixes of the files that it reads."""


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """The linter's findings, by file, as JSON rows; or in `note` why there are none.

    Both are empty when there is no linter. A file without findings has an empty row list.
    """

    rows: Mapping[Path, Sequence[Mapping[str, object]]]
    note: str | None = None


async def lint(workspace: Path, texts: Mapping[Path, bytes], *, limit_s: float = LINT_S) -> Diagnostics:
    """Lint the texts of files in one run of clj-kondo from the workspace, with the project's own configuration.

    The linter gets copies in a private folder, below which they have their own paths: a path of the workspace may lead
    elsewhere by the time the linter opens it.

    Source: clj-kondo's manual: `--lint`, `--config`, `--cache`, its JSON output, and exit codes 0, 2 and 3 for what it
    found.
    """
    known = {path: data for path, data in texts.items() if path.suffix in SUFFIXES}
    program = shutil.which("clj-kondo")
    if program is None or not known:
        return Diagnostics({})
    try:
        folder = await anyio.to_thread.run_sync(partial(tempfile.mkdtemp, prefix="codriver-lint-"))
    except OSError as error:
        return Diagnostics({}, f"clj-kondo has no folder to read from: {error.strerror or error}")
    try:
        return await _lint_copies(program, workspace, known, Path(folder), limit_s)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(files.remove_tree, Path(folder))


async def _lint_copies(
    program: str, workspace: Path, texts: Mapping[Path, bytes], folder: Path, limit_s: float
) -> Diagnostics:
    copies = {path: folder.joinpath(*path.parts[1:]) for path in texts}
    command = [program, "--lint", *map(str, copies.values()), "--config", "{:output {:format :json}}"]
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        await anyio.to_thread.run_sync(_copy, texts, copies)
        if not await anyio.to_thread.run_sync(_keeps_its_cache_inside, workspace):
            command += ["--cache", "false"]
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
        return Diagnostics({path: _rows(copy, findings) for path, copy in copies.items()})
    except (ValueError, KeyError, TypeError):
        return Diagnostics({}, "clj-kondo gave no JSON that could be read")


def _copy(texts: Mapping[Path, bytes], copies: Mapping[Path, Path]) -> None:
    for path, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(texts[path])


def _keeps_its_cache_inside(workspace: Path) -> bool:
    """Return whether the directory into which clj-kondo writes is in the workspace, links followed."""
    try:
        cache = (workspace / ".clj-kondo" / ".cache").resolve()
        return cache.is_relative_to(workspace) and not cache.is_symlink()
    except (OSError, RuntimeError):  # a link to itself, which resolves to itself from Python 3.13 on
        return False


def _rows(path: Path, findings: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return the findings of one file, in its order."""
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
