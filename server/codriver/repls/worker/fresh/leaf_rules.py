"""Decide which differences between a process and a fresh import are reported.

Other differences are ignored, so that data accumulated while the program is running is not reported. This module has no
I/O.
"""

from __future__ import annotations

from .leaves import SIZE_PART, UNKNOWN_TEXT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Dict, Optional, Tuple

    Leaves = Mapping[str, str]
    Row = Tuple[str, str, Optional[str], Optional[str]]
    """A path, the reason, the text in a fresh import, and the text in this process."""
    Fresh = Dict[str, Tuple[Optional[str], Optional[str]]]
    """For each path, the text in an import of the previous source and in an import of the current source."""

MAX_DIFFERING_LEAVES = 2000
"""Maximum number of differing values that are returned. Edits of widely used modules can change more."""
PREVIOUS, OTHER, UNDONE = "previous", "other", "undone"
"""Reasons for reporting a path in a module.

`PREVIOUS`: it has its previous value. `OTHER`: it has neither the previous nor the fresh value. `UNDONE`: a load
replaced or removed its value, which is the same in a fresh import with either source.
"""


def differing_leaves(previous: Leaves, present: Leaves) -> Fresh:
    """Return the values that differ between fresh imports of two sources, except those that are unknown in either."""
    paths = (path for path in sorted(previous.keys() | present.keys()) if previous.get(path) != present.get(path))
    found = {path: (previous.get(path), present.get(path)) for path in paths}
    unknown = [path for path, values in found.items() if UNKNOWN_TEXT in values]
    return {path: values for path, values in found.items() if not is_below_any(path, unknown)}


def compare_imports(
    previous: Leaves, present: Leaves, edited: Sequence[str], watched: Iterable[str]
) -> dict[str, Fresh]:
    """Return the values that differ between two imports, and the values at watched paths, under the key `fresh`.

    Values in edited modules come first.
    """
    found = differing_leaves(previous, present)
    first = tuple(f"{name}." for name in edited)
    paths = sorted(found, key=lambda path: (not path.startswith(first), path))
    fresh = {path: found[path] for path in paths[:MAX_DIFFERING_LEAVES]}
    fresh.update(
        {path: (previous.get(path), present[path]) for path in watched if path in present and path not in found}
    )
    return {"fresh": fresh}


def stale_leaves(fresh: Fresh, before: Leaves, after: Leaves) -> Iterator[Row]:
    """Yield a row for each value that is wrong in this process.

    `fresh` contains the values in fresh imports of the previous and current source. `before` and `after` describe the
    values in this process before and after the load.
    """
    for path in sorted(fresh):
        was, now = fresh[path]
        past, live = before.get(path), after.get(path)
        if live == now or _is_unknown_above(path, after):
            continue
        if past is None and _is_unknown_above(path, before):
            past = UNKNOWN_TEXT
        if was != now:
            if live is not None or was is None or past is not None:  # otherwise it was removed before the load
                yield path, PREVIOUS if live == was else OTHER, now, live
        elif now is not None and past == now:
            yield path, UNDONE, now, live


def changed_leaves(before: Leaves, after: Leaves) -> dict[str, str]:
    """Return the previous description of each value that a load has changed or removed, by path."""
    paths = (path for path, text in before.items() if after.get(path) != text and text != UNKNOWN_TEXT)
    return {path: before[path] for path in paths if not _is_unknown_above(path, after)}


def outermost_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows whose path is not inside the path of another row, shortest path first.

    The size of a collection is only included if none of its elements differ.
    """
    found: list[Row] = []
    rows = list(rows)
    parts = {row[0].rpartition("[")[0] or row[0].rpartition("{")[0] for row in rows}
    rows = [row for row in rows if not (row[0].endswith(SIZE_PART) and row[0][: -len(SIZE_PART)] in parts)]
    for row in sorted(rows, key=lambda item: (len(item[0]), item[0])):
        if not is_below_any(row[0], [item[0] for item in found]):
            found.append(row)
    return found


def is_below_any(path: str, others: Iterable[str]) -> bool:
    """Return whether a path is equal to or inside one of the other paths."""
    return any(path == other or (path.startswith(other) and path[len(other)] in "[{<(.") for other in others)


def _is_unknown_above(path: str, leaves: Leaves) -> bool:
    """Return whether the value at `path`, or a value that contains it, is unknown."""
    if leaves.get(path) == UNKNOWN_TEXT:
        return True
    return any(leaves.get(path[:end]) == UNKNOWN_TEXT for end, character in enumerate(path) if character in "[{<(.")
