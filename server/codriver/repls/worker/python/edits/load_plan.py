"""The plan for loading an edited module: what to run, define, set and remove, and what cannot be updated."""

from __future__ import annotations

from ..statements import DOCSTRING, IMPORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..statements import Statement


class LoadPlan:
    """The plan for loading an edited module. Planners add to it, in any order.

    - `tops` contains the positions of top-level statements to run.
    - `defined` contains functions and methods to define again with their decorators, by the id of their syntax node.
    - `attributes` contains assignments in classes that are to be run, and functions whose default values and
      annotations are to be set, by the id of their syntax node. Each statement comes with its scope, such as `C.`.
    - `members` contains the names of members to update, by the scope of their enumeration.
    - `removed` contains dotted names that removed statements have bound.
    - `previous` contains the previous versions of function definitions, by the id of the new syntax node.
    - `cleared_caches` contains the cached properties whose values were cleared, each with the number of values.
    - `stays` contains the names that cannot be updated completely, each with the reason.
    """

    def __init__(self) -> None:
        self.tops: set[int] = set()
        self.defined: dict[int, Statement] = {}
        self.attributes: dict[int, tuple[str, Statement]] = {}
        self.members: dict[str, set[str]] = {}
        self.removed: list[str] = []
        self.previous: dict[int, Statement] = {}
        self.cleared_caches: list[tuple[str, int]] = []
        self.stays: list[tuple[str, str]] = []

    def runs(self, statement: Statement) -> bool:
        """Return whether a statement in the new source is to be run or defined again."""
        return (
            not statement.owner
            and statement.kind not in (IMPORT, DOCSTRING)
            and (statement.top in self.tops or id(statement.node) in self.defined)
        )
