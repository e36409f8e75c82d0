"""Arguments that describe a single edit in `edit_files`, and the fields that each type of edit accepts."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, WithJsonSchema, model_validator

from codriver.editing import CreateFile, InsertDef, ReplaceDef, ReplaceText
from codriver.tools.calls.argument_reading import model_fields, resolve_argument_name
from codriver.tools.calls.arguments import UNLISTED_KEY, ArgumentModel, remove_default
from codriver_lisp.edit import Append, Insert, Move, Replace
from codriver_lisp.edit_targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pydantic import ValidationInfo

    from codriver.editing import FileEdit, FilePart

MAX_TEXT_CHARACTERS = 8 * 2**20
"""Maximum number of characters in a string in an edit."""
UNDO_TYPE: Final = "undo"
"""Type of the edit that reverts the last batch of the caller, or of the caller that it names."""

_FIELDS_BY_TYPE: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "text": (frozenset({"old_text", "new_text"}), frozenset({"name", "line"})),
    "replace": (frozenset({"line", "target_line_text", "code"}), frozenset()),
    "delete": (frozenset({"line", "target_line_text"}), frozenset()),
    "insert": (frozenset({"line", "target_line_text", "code"}), frozenset()),
    "append": (frozenset({"code"}), frozenset()),
    "create": (frozenset({"code"}), frozenset({"overwrite"})),
    "move": (frozenset({"line", "target_line_text", "to_line", "to_line_text"}), frozenset({"side"})),
    "replace_def": (frozenset({"name", "code"}), frozenset({"line"})),
    "insert_def": (frozenset({"code"}), frozenset({"name", "side", "line"})),
    "undo": (frozenset(), frozenset({"name"})),
}
"""Required and optional fields by type of edit, in addition to the type and the file."""

COMMON_TYPES_DESCRIPTION: Final = (
    "Without type: oldText, found once (in name), becomes newText. By type: replace_def (name, code), insert_def "
    "(code, side of name), append, create (code), undo (your last call, or that of name)"
)
"""Description of the edit types that do not depend on Lisp."""

LISP_TYPES_DESCRIPTION: Final = (
    "; Lisp forms, by line and targetLineText (the form's first line): replace (code), insert before (code), delete, "
    "move (to toLine, toLineText)"
)
"""Description of the edit types for Lisp."""


class PartArguments(ArgumentModel):
    """Base class of arguments that features add to edits in `edit_files`. They limit an edit to a part of its file."""

    def file_part(self) -> FilePart | None:
        """Return the part of the file to edit, or None for the whole file."""
        raise NotImplementedError


class EditArguments(ArgumentModel):
    """The arguments that describe one edit of `edit_files`."""

    model_config = ConfigDict(json_schema_extra={"description": COMMON_TYPES_DESCRIPTION + LISP_TYPES_DESCRIPTION})
    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "newForm": "code",
            "content": "code",
        }
    )

    _part: FilePart | None = PrivateAttr(default=None)

    file_path: str = Field("", json_schema_extra=remove_default)
    """The file. Required, except for `undo`."""
    type: Annotated[
        Literal[
            "text",
            "replace",
            "delete",
            "insert",
            "append",
            "create",
            "move",
            "replace_def",
            "insert_def",
            "undo",
        ],
        WithJsonSchema({"type": "string"}),  # the description lists them
    ] = Field("text", json_schema_extra=remove_default)
    old_text: str | None = Field(None, max_length=MAX_TEXT_CHARACTERS)
    new_text: str | None = Field(None, max_length=MAX_TEXT_CHARACTERS)
    name: str | None = None
    line: int | None = None
    target_line_text: str | None = None
    code: str | None = None
    overwrite: bool | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    to_line: int | None = None
    to_line_text: str | None = None
    side: Literal["before", "after", "in"] | None = None

    @model_validator(mode="after")
    def _check_fields(self) -> Self:
        """Check that the edit has all the fields that its type requires, and only fields that its type accepts."""
        needed, possible = _FIELDS_BY_TYPE[self.type]
        given = {name for name in self.model_fields_set if getattr(self, name) is not None} - {"type", "file_path"}
        lacking, strange = sorted(needed - given), sorted(given - needed - possible)
        if self.type != UNDO_TYPE and not self.file_path:
            lacking.insert(0, "file_path")
        names = {name: field.alias or name for name, field in type(self).model_fields.items()}
        errors = []
        if self.side is not None and self.name is None and self.type == "insert_def":
            errors.append("side requires name, the definition next to which code is inserted")
        if self.side == "in" and self.type == "move":
            errors.append("side of move must be before or after")
        if lacking:
            errors.append(f"{self.type} needs {', '.join(names[name] for name in lacking)}")
        if strange:
            errors.append(f"{self.type} does not accept {', '.join(names[name] for name in strange)}")
        if errors:
            raise ValueError("; ".join(errors))
        return self

    @model_validator(mode="wrap")
    @classmethod
    def _validate_with_part(cls, arguments: Any, handler: Callable[[Any], Self], info: ValidationInfo) -> Self:
        """Validate the arguments of an edit together with those that features add."""
        models: tuple[type[PartArguments], ...] = (info.context or {}).get(EditArguments, ())
        if not models or not isinstance(arguments, dict):
            return handler(arguments)
        fields, part = dict(arguments), None
        for model in models:
            names = [name for name in fields if resolve_argument_name(model, name) in model_fields(model)]
            if part_fields := {resolve_argument_name(model, name): fields.pop(name) for name in names}:
                part = model.model_validate(part_fields).file_part() or part
        edit = handler(fields)
        if part is not None and edit.type != "text":
            raise ValueError(f"{edit.type} does not accept {part.argument}")
        edit._part = part  # noqa: SLF001  # of this class
        return edit

    def to_edit(self) -> FileEdit | CreateFile:
        """Convert the arguments to an edit for the editor. This is not possible for the type `undo`."""
        target = Target(self.line or 0, self.target_line_text or "")
        match self.type:
            case "text":
                return ReplaceText(self.old_text or "", self.new_text or "", self.name, self.line, self._part)
            case "replace" | "delete":
                return Replace(target, self.code or "")
            case "insert":
                return Insert(target, self.code or "")
            case "append":
                return Append(self.code or "")
            case "create":
                return CreateFile(self.code or "", overwrite=self.overwrite or False)
            case "move":
                side: Literal["before", "after"] = "after" if self.side == "after" else "before"
                return Move(target, Target(self.to_line or 0, self.to_line_text or ""), side)
            case "replace_def":
                return ReplaceDef(self.name or "", self.code or "", self.line)
            case "insert_def":
                return InsertDef(self.name, self.code or "", self.side or "after", self.line)
            case "undo":
                raise AssertionError(
                    "an undo cannot be applied as an edit: the editor reverts the batch that it recorded"
                )
