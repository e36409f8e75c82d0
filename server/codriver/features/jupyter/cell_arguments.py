"""Tool arguments that select a notebook cell."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from codriver.features.jupyter.notebook_edits import cell_part
from codriver.tools.calls.arguments import UNLISTED_KEY, ArgumentModel
from codriver.tools.edit_arguments import PartArguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.editing import FilePart

CellName = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    WithJsonSchema({"type": "string"}),
]
"""The id of a cell, or its index from 0.

Numbers are accepted as well. The schema does not list them, because some clients cannot handle a list of types.
"""


class StatusArguments(ArgumentModel):
    """The argument `cell` that the Jupyter feature adds to the tool `status`."""

    cell: CellName | None = Field(None, description="Show one cell's source, by id or index from 0.")


class CellOfEdit(PartArguments):
    """The argument `cell` that the Jupyter feature adds to each edit of the tool `edit_files`.

    To keep the tool's schema short, the argument is not part of it. The answers of `list_cells` mention it.
    """

    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({"cell_id": "cell", "cellId": "cell"})

    cell: CellName | None = Field(None, json_schema_extra={UNLISTED_KEY: True})

    def file_part(self) -> FilePart | None:
        """Return the cell that the edit is limited to, or None for the whole file."""
        return None if self.cell is None else cell_part(self.cell)
