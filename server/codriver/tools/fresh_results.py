"""Where the tests of a new process end otherwise than those that ran in the REPL before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.tools.stale_objects import few

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from codriver.tools.base import Json

    Outcomes = Mapping[tuple[str, str], str]

PASSES: Final = "pass"
NEVER_LIVE: Final = "no test of these has run in the REPL: call without fresh, too, to see where they differ"


def outcomes(report: Json) -> dict[tuple[str, str], str]:
    """The outcome of each test of a report, by its file (its namespace where it has none) and name; the worst counts.

    The same file may be named as a module in one run and as a path in another.
    """
    ended: dict[tuple[str, str], str] = {}
    for row in report["results"]:
        known = (row.get("file") or row["ns"], row["test"])
        if ended.get(known, PASSES) == PASSES:
            ended[known] = row["outcome"]
    return ended


def notes_of_fresh(fresh: Outcomes, live: Iterable[Outcomes]) -> tuple[str, ...]:
    """Notes for who ran tests in a new process: which of them ended otherwise in the REPL, at last.

    `live`: the outcomes of the REPL's own runs, the newest first.
    """
    last: dict[tuple[str, str], str] = {}
    for run in live:
        last = {**run, **last}
    both = [known for known in fresh if known in last]
    if not both:
        return (NEVER_LIVE,) if fresh else ()
    only_live = [name for known in both if last[known] == PASSES != fresh[known] for name in known[1:]]
    only_fresh = [name for known in both if fresh[known] == PASSES != last[known] for name in known[1:]]
    notes = [f"passed in the REPL, not in a new process: {few(only_live)}"] if only_live else []
    notes += [f"passes in a new process, did not in the REPL: {few(only_fresh)}"] if only_fresh else []
    return tuple(notes)
