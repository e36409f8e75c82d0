"""Notes about the load of a file: what else was updated, what remains of previous loads, and what differs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver.errors import CodriverError, join_first
from codriver.repls.contract.fresh_imports import FreshImport, finding_lines
from codriver.tools.answers.loaded_code_comparison import drift_or_none
from codriver.tools.answers.stale_objects import STALE_KINDS, describe_stale_object, limit_lines

if TYPE_CHECKING:
    from collections.abc import Collection

    from codriver.core.state import Repl
    from codriver.repls.contract.drift import Difference
    from codriver.repls.contract.fresh_imports import FreshFinding
    from codriver.tools.calls.call import Call, ReplUser


WORKER_VERSION_KEY: Final = "codriver-worker"
"""The key in a REPL's versions that identifies the embedded REPL."""
MAX_FRESH_WAIT_MS: Final = 300
"""Maximum time that a load waits for a comparison with a fresh import. The next load reports a later result."""


async def load_notes(call: Call, repl: Repl, *, is_edit: bool = False) -> tuple[str, ...]:
    """Return notes about loading a file.

    They list objects that were updated elsewhere, remains of previous loads, and differences from a fresh import. With
    `is_edit`, a file that has not changed since its last load is not mentioned.
    """
    found = await drift_or_none(call, repl, "old")
    compared = stale_object_notes(
        [difference for difference in found if not (is_edit and difference.kind == "unchanged")]
    )
    finding = await fresh_finding(call, repl, MAX_FRESH_WAIT_MS)
    return compared if finding is None else (*compared, *finding_lines(finding))


async def fresh_finding(call: ReplUser, repl: Repl, wait_ms: int | None = None) -> FreshFinding | None:
    """Compare a Python REPL's last loads with fresh imports, and return the differences.

    Returns None if the comparison is not ready in time, or if the REPL cannot make it.
    """
    if repl.profile is None or WORKER_VERSION_KEY not in repl.profile.versions or repl.dialect != "python":
        return None
    with suppress(CodriverError):
        return await call.services.repls.adapter(repl.id).query(FreshImport(wait_ms))
    return None


def stale_object_notes(found: Collection[Difference]) -> tuple[str, ...]:
    """Describe objects that a load updated, or that remain from previous loads."""
    renewed = [
        f"{difference.of} of {difference.qualified_name}" if difference.of else difference.qualified_name
        for difference in found
        if difference.kind == "renewed"
    ]
    removed = [
        difference.qualified_name for difference in found if difference.kind == "removed" and not difference.holders
    ]
    notes = [f"also updated: {join_first(renewed)}"] if renewed else []
    notes += [f"removed, because the file no longer defines it: {join_first(removed)}"] if removed else []
    notes += limit_lines(
        f"no longer in the file, but still referenced: {difference.qualified_name} by {difference.holders}"
        for difference in found
        if difference.kind == "removed" and difference.holders
    )
    same = [difference.module for difference in found if difference.kind == "unchanged"]
    notes += (
        [f"{same[0]} has not changed since its load, so nothing ran. To run the whole module again, pass whole: true"]
        if same
        else []
    )
    emptied = [f"{difference.qualified_name} ({difference.of})" for difference in found if difference.kind == "emptied"]
    notes += [f"caches emptied: {join_first(emptied)}"] if emptied else []
    lost = [f"{difference.qualified_name} ({difference.of})" for difference in found if difference.kind == "lost"]
    notes += [f"entries removed that were added at run time: {join_first(lost)}"] if lost else []
    notes += limit_lines(
        f"not updated: {difference.qualified_name}, {difference.of}"
        for difference in found
        if difference.kind == "stays"
    )
    gone = [
        difference.qualified_name
        for difference in found
        if difference.joint == "/" and difference.kind == "gone" and not difference.evaluated
    ]
    notes += (
        [f"no longer defined in the file: {join_first(gone)}. To remove such names, pass prune: true"] if gone else []
    )
    if any(difference.joint == "/" and difference.kind in ("old", "former") for difference in found):
        notes.append("to load the namespaces that require this one too, pass dependents: true")
    return (
        *notes,
        *limit_lines(describe_stale_object(difference) for difference in found if difference.kind in STALE_KINDS),
    )
