"""The ledger: what each caller sent to a REPL and wrote to a file, for the life of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.core.recent import Recent
from codriver.editing.import_graph import ImportGraph
from codriver.tools.ledgers.conflict_ledger import Conflicts
from codriver.tools.ledgers.lisp_drift import LispKnown
from codriver.tools.ledgers.saves import Saves

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from codriver.tools.ledgers.cell_writes import CellWrites

MOST_EDITS_NOTED: Final = 200
MOST_RUNS: Final = 200
MOST_DIFF_CHARACTERS: Final = 20_000


@dataclass(slots=True)
class EditsNoted:
    """The files that each caller edited and whose tests have not run since, for the life of one server."""

    changed: Recent[tuple[str, Path], None] = field(default_factory=partial(Recent, MOST_EDITS_NOTED))

    def add(self, who: str, path: Path) -> None:
        """Note an edit; of very many files the oldest are forgotten."""
        self.changed[who, path] = None

    def take(self, who: str) -> tuple[Path, ...]:
        """The files of one caller, in the order of their edits, and none of them again."""
        taken = tuple(path for owner, path in self.changed if owner == who)
        for path in taken:
            del self.changed[who, path]
        return taken


@dataclass(slots=True)
class TestsRun:
    """The runs of tests in REPLs of Python, by evaluation, for the life of one server."""

    __test__ = False  # for pytest: it is none

    current: Recent[str, bool] = field(default_factory=partial(Recent, MOST_RUNS))
    """Whether what was loaded was as the files said when the run was over."""
    only_live: Recent[str, tuple[str, ...]] = field(default_factory=partial(Recent, MOST_RUNS))
    """Of runs whose red tests ran again in a new process: those that passed there."""
    put_off: Recent[str, str] = field(default_factory=partial(Recent, MOST_RUNS))
    """Who asked for runs that outlasted their call, so that their red tests have not run again yet."""


@dataclass(slots=True)
class Diffs:
    """The diffs of the newest batches of edits, by the line of the log that tells of each; as long as the server."""

    kept: Recent[int, tuple[tuple[str, str], ...]] = field(default_factory=partial(Recent, MOST_EDITS_NOTED))

    def keep(self, line: int, diffs: Iterable[tuple[str, str]]) -> None:
        """Keep the diffs of a batch: by file, as people name it, the first characters of its diff."""
        self.kept[line] = tuple((file, diff[:MOST_DIFF_CHARACTERS]) for file, diff in diffs)

    def of_line(self, line: int) -> tuple[tuple[str, str], ...]:
        """The diffs of the batch that this line tells of; none of another line, or where they are forgotten."""
        return self.kept.get(line, ())


@dataclass(slots=True)
class Ledger:
    """Everything that callers sent and wrote, for the life of one server."""

    cells: CellWrites
    """Outputs on their way into notebooks, by evaluation."""
    conflicts: Conflicts = field(default_factory=Conflicts)
    """Code by REPL and edits by file, and where one caller's meet another's."""
    diffs: Diffs = field(default_factory=Diffs)
    """What edits changed."""
    edits: EditsNoted = field(default_factory=EditsNoted)
    """Files that were edited and not tested since."""
    saves: Saves = field(default_factory=Saves)
    """Files that we wrote, which a watcher leaves alone."""
    tests: TestsRun = field(default_factory=TestsRun)
    """Runs of tests, and what is known of their code."""
    imports: ImportGraph = field(default_factory=ImportGraph)
    """The imports between files of the workspace."""
    lisp: LispKnown = field(default_factory=LispKnown)
    """Forms of Lisp that each REPL is known to have loaded."""
