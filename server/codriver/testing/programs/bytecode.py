"""Ignore compiled code unless it was written well after its source.

Python recognizes the source of compiled code only by its size and its modification time in seconds, and a quick edit
may change neither. An empty directory for compiled code (`-X pycache_prefix`) would take four times the processor time,
because all installed packages would be compiled as well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_COMPILATION_NS = 10 * 10**9
"""Maximum duration of a compilation, in nanoseconds.

Code that was compiled at least this long after its source was written certainly belongs to that source.
"""
_stat, _dirname = os.stat, os.path.dirname


def ignore_unsettled_code() -> None:
    """Make imports ignore cached bytecode of project files that may be outdated."""
    external: Any = sys.modules["_frozen_importlib_external"]
    loader, cache_from_source = external.SourceFileLoader, external.cache_from_source
    standard, plain_path_stats = _dirname(os.__file__) + os.sep, loader.path_stats

    def path_stats(self: object, path: str) -> dict[str, Any]:
        stats: dict[str, Any] = plain_path_stats(self, path)
        if path.startswith(standard) or "-packages" + os.sep in path:
            return stats
        try:
            is_settled = _is_settled(_stat(path), _stat(cache_from_source(path)))
        except (OSError, NotImplementedError):
            return stats
        if not is_settled:
            stats["size"] = -1  # compiled code for a different size is ignored, and no file has this one
        return stats

    loader.path_stats = path_stats


def ignore_unsettled_rewrites(rewrite: Any) -> None:
    """Make pytest ignore cached bytecode of rewritten test files that may be outdated."""
    plain_read = getattr(rewrite, "_read_pyc", None)
    if plain_read is None:
        return

    def read_settled(source: Any, compiled: Any, *more: Any, **named: Any) -> object:
        try:
            is_settled = _is_settled(_stat(source), _stat(compiled))
        except OSError:
            return None
        return plain_read(source, compiled, *more, **named) if is_settled else None

    rewrite._read_pyc = read_settled


def _is_settled(source: os.stat_result, compiled: os.stat_result) -> bool:
    """Return whether bytecode was written so long after its source that it certainly belongs to the source."""
    return compiled.st_mtime_ns > max(source.st_mtime_ns, source.st_ctime_ns) + MAX_COMPILATION_NS
