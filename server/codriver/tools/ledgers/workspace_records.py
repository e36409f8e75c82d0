"""The records of callers' code and files, for the life of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codriver.editing.code_names import ImportGraph
from codriver.tools.ledgers.file_edits import FileEdits
from codriver.tools.ledgers.lisp_drift import LispKnown
from codriver.tools.ledgers.notebook_reads import NotebookReads
from codriver.tools.ledgers.own_saves import Saves
from codriver.tools.ledgers.python_test_runs import TestsRun
from codriver.tools.ledgers.recent_edits import Acts
from codriver.tools.ledgers.untested_edits import EditsNoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.tools.ledgers.cell_output_writes import CellWrites


@dataclass(slots=True)
class Ledger:
    """All registers of callers' code and files, for the life of one server."""

    cells: CellWrites
    """Outputs on their way into notebooks, by evaluation."""
    start_soon: Callable[..., object]
    """Begins work that no call waits for, given as function and arguments."""
    acts: Acts = field(default_factory=Acts)
    """Edits, in the form in which they can be taken back."""
    edits: EditsNoted = field(default_factory=EditsNoted)
    """Files that were edited and not tested since."""
    file_edits: FileEdits = field(default_factory=FileEdits)
    """The newest edits of files, by whoever."""
    notebooks: NotebookReads = field(default_factory=NotebookReads)
    """Versions of notebooks that callers know."""
    saves: Saves = field(default_factory=Saves)
    """Files that we wrote, which a watcher leaves alone."""
    tests: TestsRun = field(default_factory=TestsRun)
    """Runs of tests, and the known facts on their code."""
    imports: ImportGraph = field(default_factory=ImportGraph)
    """The imports between files of the workspace."""
    lisp: LispKnown = field(default_factory=LispKnown)
    """Forms of Lisp that each REPL is known to have loaded."""
