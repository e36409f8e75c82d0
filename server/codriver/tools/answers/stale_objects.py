"""Describe objects that remain from previous loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.repls.contract.drift import Difference


MAX_STALE_LINES: Final = 3
"""Maximum number of objects from previous loads that the notes describe, one per line."""
MAIN_MODULE: Final = "__main__"
"""Name of the module in which sent code is evaluated. No load changes it."""
STALE_KINDS: Final = ("old", "former", "instances", "closures", "kept", "unbound")
"""Kinds of differences that concern objects from previous loads."""


def describe_stale_object(difference: Difference) -> str:
    """Describe an object that remains from a previous load."""
    if difference.kind == "instances":
        holder = f", referenced by {difference.holders}" if difference.holders else ""
        verb = "exists" if difference.of == "1" else "exist"
        return f"{difference.of} of the old class {difference.qualified_name} still {verb}{holder}"
    if difference.kind == "closures":
        some = "1 closure" if difference.of == "1" else f"{difference.of} closures"
        verb = "exists" if difference.of == "1" else "exist"
        return f"{some} of the old {difference.qualified_name} still {verb}. Create them again"
    if difference.kind == "unbound":
        return (
            f"{difference.qualified_name} comes from {difference.of}, which no longer exists, so the import would "
            "fail in a new process"
        )
    if difference.kind == "kept":
        return (
            f"{difference.qualified_name} is defined only once, so a load does not update it. Remove it with "
            "ns-unmap, then call load_file"
        )
    if difference.kind == "former":
        return (
            f"{difference.qualified_name} implements the old protocol {difference.of}. Load {difference.module} as well"
        )
    instead = "bind it again" if difference.module == MAIN_MODULE else f"load {difference.module} as well"
    return f"{difference.qualified_name} is still the old {difference.of}: {instead}"


def limit_lines(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the first lines, followed by a line with the number of omitted ones, if any."""
    lines_list = tuple(lines)
    more = len(lines_list) - MAX_STALE_LINES
    return (*lines_list[:MAX_STALE_LINES], f"and {more} more: see what_changed") if more > 0 else lines_list
