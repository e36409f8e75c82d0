"""Arguments that name a cell of a notebook, for tools of the base."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from codriver.features.jupyter.notebook_edits import part_of_notebook
from codriver.tools.calls.arguments import UNLISTED, Given
from codriver.tools.edit_arguments import PartArguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.editing import FilePart

CellName = Annotated[
    str,
    BeforeValidator(lambda given: str(given) if type(given) is int else given),
    WithJsonSchema({"type": "string"}),
]
"""A cell as callers name it: its id, or its index from 0.

The schema names one type, since some clients accept no list of types. An index may be a number all the same.
"""


class StatusArguments(Given):
    """What `status` also takes."""

    cell: CellName | None = Field(None, description="One cell's source, by index or id.")


class CellOfEdit(PartArguments):
    """What each edit of `edit_files` also takes. `list_cells` mentions this argument."""

    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({"cell_id": "cell", "cellId": "cell"})

    cell: CellName | None = Field(None, json_schema_extra={UNLISTED: True})

    def part(self) -> FilePart | None:
        """Return the cell to which an edit is limited, or None for the whole file."""
        return None if self.cell is None else part_of_notebook(self.cell)
