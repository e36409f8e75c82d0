"""Lint Lisp files with clj-kondo, if it is installed."""

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

LINT_TIMEOUT_S = 10.0
"""Maximum duration of a lint run, in seconds. A project takes a few seconds, and one file a tenth of a second."""
MAX_FINDINGS_PER_FILE = 50
"""Maximum number of findings to return for one file."""
LINTED_SUFFIXES = frozenset({".clj", ".cljs", ".cljc", ".edn", ".bb"})
"""Suffixes of files that clj-kondo can lint."""


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """The findings of the linter as JSON objects by file, or a `note` that explains why there are none.

    Both are empty if no linter is installed. A file without findings has an empty list.
    """

    rows: Mapping[Path, Sequence[Mapping[str, object]]]
    note: str | None = None


async def lint(workspace: Path, contents: Mapping[Path, bytes], *, limit_s: float = LINT_TIMEOUT_S) -> Diagnostics:
    """Lint files in one run of clj-kondo, with the project's configuration.

    The linter reads copies in a private directory, with the paths of the originals below it, because a path in the
    workspace may be replaced with a link before the linter opens it.

    Source: clj-kondo's manual: `--lint`, `--config`, `--cache`, its JSON output, and exit codes 0, 2 and 3 for
    findings.
    """
    known = {path: data for path, data in contents.items() if path.suffix in LINTED_SUFFIXES}
    program = shutil.which("clj-kondo")
    if program is None or not known:
        return Diagnostics({})
    try:
        directory = await anyio.to_thread.run_sync(partial(tempfile.mkdtemp, prefix="codriver-lint-"))
    except OSError as error:
        return Diagnostics({}, f"cannot create a temporary folder for clj-kondo: {error.strerror or error}")
    try:
        return await _lint_copies(program, workspace, known, Path(directory), limit_s)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(files.remove_tree, Path(directory))


async def _lint_copies(
    program: str, workspace: Path, contents: Mapping[Path, bytes], directory: Path, limit_s: float
) -> Diagnostics:
    copies = {path: directory.joinpath(*path.parts[1:]) for path in contents}
    command = [program, "--lint", *map(str, copies.values()), "--config", "{:output {:format :json}}"]
    done: subprocess.CompletedProcess[bytes] | None = None
    try:
        await anyio.to_thread.run_sync(_copy, contents, copies)
        if not await anyio.to_thread.run_sync(_has_cache_inside, workspace):
            command += ["--cache", "false"]
        with anyio.move_on_after(limit_s):
            done = await anyio.run_process(command, cwd=workspace, check=False)
    except OSError as error:
        return Diagnostics({}, f"clj-kondo cannot be run: {error.strerror or error}")
    if done is None:
        return Diagnostics({}, f"clj-kondo was stopped because it took longer than {limit_s:g} s")
    if done.returncode not in (0, 2, 3):
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return Diagnostics({}, f"clj-kondo failed with exit code {done.returncode}: {''.join(last)[:200]}")
    try:
        findings = json.loads(done.stdout)["findings"]
        return Diagnostics({path: _rows(copy, findings) for path, copy in copies.items()})
    except (ValueError, KeyError, TypeError):
        return Diagnostics({}, "clj-kondo did not print valid JSON")


def _copy(contents: Mapping[Path, bytes], copies: Mapping[Path, Path]) -> None:
    for path, copy in copies.items():
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(contents[path])


def _has_cache_inside(workspace: Path) -> bool:
    """Return whether clj-kondo's cache directory is in the workspace after resolving links."""
    try:
        cache = (workspace / ".clj-kondo" / ".cache").resolve()
        return cache.is_relative_to(workspace) and not cache.is_symlink()
    except (OSError, RuntimeError):  # a link to itself, which resolves to itself from Python 3.13 on
        return False


def _rows(path: Path, findings: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return the findings for one file as JSON objects, in order."""
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
    return sorted(rows, key=lambda row: (int(str(row["line"])), int(str(row["column"]))))[:MAX_FINDINGS_PER_FILE]
