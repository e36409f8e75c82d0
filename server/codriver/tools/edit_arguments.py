"""One edit of `edit_files` as an argument, with what each type of edit takes."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, WithJsonSchema, model_validator

from codriver.editing import Create, InsertDef, ReplaceDef, ReplaceText
from codriver.tools.calls.arguments import UNLISTED, Given, unsaid_default
from codriver.tools.list_cells import CellName  # noqa: TC001  # pydantic asks for it
from codriver_lisp.edit import Append, Insert, Move, Rename, Replace
from codriver_lisp.source_text import Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.editing import FileEdit

MAX_TEXT_CHARS = 8 * 2**20
UNDO: Final = "undo"
"""The type of edit that takes back the caller's last batch."""

_FIELDS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "text": (frozenset({"old_text", "new_text"}), frozenset({"name", "line", "cell"})),
    "replace": (frozenset({"line", "target_line_text", "code"}), frozenset()),
    "delete": (frozenset({"line", "target_line_text"}), frozenset()),
    "insert": (frozenset({"line", "target_line_text", "code"}), frozenset()),
    "append": (frozenset({"code"}), frozenset()),
    "create": (frozenset({"code"}), frozenset({"overwrite"})),
    "move": (frozenset({"line", "target_line_text", "to_line", "to_line_text"}), frozenset({"side"})),
    "rename": (frozenset({"old_text", "new_text"}), frozenset({"line", "target_line_text", "files"})),
    "replace_def": (frozenset({"name", "code"}), frozenset({"line"})),
    "insert_def": (frozenset({"code"}), frozenset({"name", "side", "line"})),
    "undo": (frozenset(), frozenset()),
}
"""By type of edit: its required fields, and its optional ones, beside its type and its file."""

OF_ANY: Final = (
    "Without type: oldText becomes newText. By type: replace_def (name, code), insert_def (code, side of name), "
    "append, create (code), undo (your last call)"
)

OF_LISP: Final = (
    "; Lisp: replace, insert before (code), delete the form at line, targetLineText (its first); move: toLine, "
    "toLineText; rename: oldText, newText"
)


class EditArguments(Given):
    """One edit of `edit_files`; what each type takes is for clients to read in its schema."""

    model_config = ConfigDict(json_schema_extra={"description": OF_ANY + OF_LISP})
    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "oldName": "oldText",
            "newName": "newText",
            "newForm": "code",
            "content": "code",
            "cell_id": "cell",
            "cellId": "cell",
        }
    )

    file_path: str = Field("", json_schema_extra=unsaid_default)
    """The file; only `undo` needs none."""
    type: Annotated[
        Literal[
            "text",
            "replace",
            "delete",
            "insert",
            "append",
            "create",
            "move",
            "rename",
            "replace_def",
            "insert_def",
            "undo",
        ],
        WithJsonSchema({"type": "string"}),  # the description names them all
    ] = Field("text", json_schema_extra=unsaid_default)
    old_text: str | None = Field(None, max_length=MAX_TEXT_CHARS)
    new_text: str | None = Field(None, max_length=MAX_TEXT_CHARS)
    name: str | None = None
    cell: CellName | None = Field(None, json_schema_extra={UNLISTED: True})
    """A notebook's cell, by id or index; listed with its cells."""
    line: int | None = None
    target_line_text: str | None = None
    code: str | None = None
    overwrite: bool | None = Field(None, json_schema_extra={UNLISTED: True})
    to_line: int | None = None
    to_line_text: str | None = None
    side: Literal["before", "after", "in"] | None = None
    files: str | None = Field(None, json_schema_extra={UNLISTED: True})

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        needed, possible = _FIELDS[self.type]
        given = {name for name in self.model_fields_set if getattr(self, name) is not None} - {"type", "file_path"}
        if self.type == "rename" and given & {"line", "target_line_text"}:
            needed |= {"line", "target_line_text"}
        lacking, strange = sorted(needed - given), sorted(given - needed - possible)
        if self.type != UNDO and not self.file_path:
            lacking.insert(0, "file_path")
        names = {name: field.alias or name for name, field in type(self).model_fields.items()}
        problems = [] if self.files in (None, "all") else ["files is all, or left out for this file alone"]
        if self.side is not None and self.name is None and self.type == "insert_def":
            problems.append("side is that of the definition name")
        if self.side == "in" and self.type == "move":
            problems.append("move takes side before or after")
        if lacking:
            problems.append(f"{self.type} needs {', '.join(names[name] for name in lacking)}")
        if strange:
            problems.append(f"{self.type} does not take {', '.join(names[name] for name in strange)}")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def to_edit(self) -> FileEdit | Create:
        """Return the edit in the editor's form. The type `undo` has none."""
        target = Target(self.line or 0, self.target_line_text or "")
        match self.type:
            case "text":
                return ReplaceText(self.old_text or "", self.new_text or "", self.name, self.line, self.cell)
            case "replace" | "delete":
                return Replace(target, self.code or "")
            case "insert":
                return Insert(target, self.code or "")
            case "append":
                return Append(self.code or "")
            case "create":
                return Create(self.code or "", overwrite=self.overwrite or False)
            case "move":
                side: Literal["before", "after"] = "after" if self.side == "after" else "before"
                return Move(target, Target(self.to_line or 0, self.to_line_text or ""), side)
            case "replace_def":
                return ReplaceDef(self.name or "", self.code or "", self.line)
            case "insert_def":
                return InsertDef(self.name, self.code or "", self.side or "after", self.line)
            case "undo":
                raise AssertionError("an edit is taken back by the editor, which has kept it")
            case "rename":
                return Rename(self.old_text or "", self.new_text or "", None if self.line is None else target)
