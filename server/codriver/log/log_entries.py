"""Entries of the log, the history and the memory, with their attributes."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

from codriver_datalog.entity_store import Record, Schema, Value

Category = Literal[
    "evaluatedCode",
    "evaluationResults",
    "evaluationOutput",
    "evaluationErrorOutput",
    "otherOutput",
    "otherErrorOutput",
]


ENTRY_SCHEMA = Schema(
    namespace="output",
    attributes=(
        "line",
        "category",
        "text",
        "timestamp",
        "who",
        "ns",
        "repl-session-key",
        "evaluation",
        "run",
        "notebook",
        "file",
        "kind",
        "data",
    ),
    required=frozenset({"line", "category", "text", "timestamp"}),
    indexed=frozenset({"category", "who", "ns", "repl-session-key", "evaluation", "run", "kind"}),
)
"""The attributes of entries in the log, the history and the memory. Only those in the memory have a `run`."""


UNASSIGNED_LINE = 0
"""The line number of an entry that has not been added yet."""


class Entry(NamedTuple):
    """An entry in the output log, the history or the memory. `timestamp` is in epoch milliseconds.

    The fields are in the order of `ENTRY_SCHEMA`, so an entry is also a record of the store. Unknown fields are None.
    """

    line: int
    """The line number, or `UNASSIGNED_LINE` for an entry that has not been added yet."""
    category: Category
    text: str
    timestamp: int
    who: str | None = None
    namespace: str | None = None
    session_key: str | None = None
    evaluation: str | None = None
    run: str | None = None
    notebook: str | None = None
    """The path of the notebook from which code was evaluated without this server."""
    file: str | None = None
    """For loaded code, the path of the file that the text comes from."""
    kind: str | None = None
    """The type of event that the server reports, such as `edit`, or None for text from REPLs."""
    data: str | None = None
    """The structured data of an entry with a `kind`, as a JSON object."""

    @classmethod
    def from_record(cls, record: Record) -> Entry:
        """Create an entry from a record of the store."""
        return cls._make(cast("tuple[Any, ...]", record))

    def to_json(self) -> dict[str, Value]:
        """Return the entry as a JSON object whose keys are attribute names. Fields that are None are left out."""
        return ENTRY_SCHEMA.document(self)
