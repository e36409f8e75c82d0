"""Records of callers' code and files, for the lifetime of one server."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from codriver.editing.import_graph import ImportGraph
from codriver.tools.ledgers.file_edits import FileEdits
from codriver.tools.ledgers.lisp_drift import LispRecords
from codriver.tools.ledgers.own_saves import SavedFiles
from codriver.tools.ledgers.python_test_runs import TestRunRecords
from codriver.tools.ledgers.recent_edits import RecentEdits
from codriver.tools.ledgers.untested_edits import UntestedEdits

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class WorkspaceRecords:
    """All records about callers' code and files, for the lifetime of one server."""

    start_soon: Callable[..., object]
    """Starts a function with arguments in the background."""
    recent_edits: RecentEdits = field(default_factory=RecentEdits)
    """Edits that can be reverted."""
    edits: UntestedEdits = field(default_factory=UntestedEdits)
    """Files that have been edited but not tested since."""
    file_edits: FileEdits = field(default_factory=FileEdits)
    """Most recent edits to each file, by any caller."""
    saves: SavedFiles = field(default_factory=SavedFiles)
    """Files that the server wrote, and which file watchers ignore."""
    tests: TestRunRecords = field(default_factory=TestRunRecords)
    """Test runs and what is known about the code they executed."""
    imports: ImportGraph = field(default_factory=ImportGraph)
    """Imports between files in the workspace."""
    lisp: LispRecords = field(default_factory=LispRecords)
    """Lisp forms that each REPL has loaded."""
