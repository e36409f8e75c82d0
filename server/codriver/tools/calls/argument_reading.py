"""Normalize the arguments that agents send, before they are validated.

Only forms with a single possible meaning are accepted:

- null, for an argument that does not distinguish null from absence: the argument is absent;
- JSON text for the expected list, object, number, boolean or null, unless the argument accepts text;
- a single item for a list, and a list of one item for that item;
- the arguments of such an item next to the list, or instead of it;
- a whole number for an argument that accepts text;
- a common alternative name of an argument, unless a different argument has that name;
- a common argument of other tools that requests what the tool does anyway;
- a file as a URI, with a line number appended, or prefixed with @.

The rules follow from the model of the arguments. Everything else is unchanged, and the model rejects it.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BeforeValidator
from pydantic.alias_generators import to_camel

from codriver.files.written_paths import convert_written_path, may_need_conversion
from codriver.tools.calls.arguments import ArgumentModel
from codriver.wire.untrusted import find_exceeded_limit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pydantic.fields import FieldInfo

Position: TypeAlias = tuple[str | int, ...]
"""Position of an argument, as a path of argument names and list indexes."""

OTHER_NAMES: Final[Mapping[str, tuple[str, ...]]] = types.MappingProxyType(
    {
        "path": ("filePath", "paths", "file"),
        "filePath": ("paths", "file"),
        "file": ("filePath", "paths"),
        "file_path": ("filePath", "paths", "file"),
        "filename": ("filePath", "file"),
        "old_string": ("oldText",),
        "oldString": ("oldText",),
        "new_string": ("newText",),
        "newString": ("newText",),
        "session": ("replSessionKey",),
        "sessionKey": ("replSessionKey",),
        "names": ("test", "symbol"),
        "timeoutMs": ("limitMs",),
    }
)
"""Arguments that a common name can refer to, for any tool. The first one that the tool has is used.

`timeout` is not included, because some clients mean seconds and others milliseconds.
"""

DEFAULTS_OF_OTHERS: Final[Mapping[str, object]] = types.MappingProxyType({"replace_all": False, "replaceAll": False})
"""Arguments of other tools, each with the value that requests what Codriver's tools do."""

COMMON_ARGUMENTS: Final = frozenset({"detail", "who"})
"""Arguments that many tools have, which are listed last."""

HALF_CHARACTER_MESSAGE: Final = (
    "the text contains half of a surrogate pair, which is not valid in UTF-8. Send the whole character, or its "
    "escape sequence if the text is code"
)
"""Error message about text with half of a surrogate pair."""

MIN_SUGGESTION_SIMILARITY: Final = 0.6
"""Minimum similarity, from 0 to 1, between a suggested name and the name that was passed."""

MIN_MISSPELLING_SIMILARITY: Final = 0.8
"""Minimum similarity, from 0 to 1, of a name that counts as a misspelling even if a different argument is missing."""


@dataclass(frozen=True, slots=True)
class ExpectedValues:
    """Describes the values that an argument accepts."""

    accepts_text: bool = False
    accepts_anything: bool = False
    """Whether any value is accepted, and left to the argument's own validator."""
    scalars: tuple[type, ...] = ()
    """Accepted types among numbers and booleans."""
    item: ExpectedValues | None = None
    """The items of a list, if a list is accepted."""
    is_object: bool = False
    model: type[ArgumentModel] | None = None
    """The model of an object, if it has one."""


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """Describes one argument of a model: its name, its expected values, and how null is treated."""

    name: str
    """Name that callers use."""
    expected: ExpectedValues
    is_file: bool
    is_required: bool
    distinguishes_null: bool
    """Whether null differs from an absent argument."""


@dataclass(frozen=True, slots=True)
class ArgumentError:
    """An error found while reading the arguments of a call."""

    position: Position
    text: str


def _expected_values(annotation: object, *, has_reader: bool = False) -> ExpectedValues:
    """Convert a type annotation to the values that it accepts."""
    if has_reader or annotation is Any:
        return ExpectedValues(accepts_anything=True)
    origin = get_origin(annotation)
    if hasattr(annotation, "__metadata__"):
        reads = any(isinstance(entry, BeforeValidator) for entry in annotation.__metadata__)
        return _expected_values(annotation.__origin__, has_reader=reads)  # type: ignore[attr-defined]
    if origin in (Union, types.UnionType):
        return _merge_options(
            [_expected_values(argument) for argument in get_args(annotation) if argument is not type(None)]
        )
    if origin is Literal:
        kinds = {type(argument) for argument in get_args(annotation)}
        return ExpectedValues(accepts_text=str in kinds, scalars=tuple(kinds - {str}))
    if origin in (list, tuple, Sequence) or annotation in (list, tuple):
        items = [argument for argument in get_args(annotation) if argument is not Ellipsis]
        return ExpectedValues(item=_merge_options([_expected_values(item) for item in items]))
    if origin in (dict, Mapping) or annotation is dict:
        return ExpectedValues(is_object=True)
    if isinstance(annotation, type):
        if issubclass(annotation, ArgumentModel):
            return ExpectedValues(is_object=True, model=annotation)
        if issubclass(annotation, bool | int | float):
            return ExpectedValues(scalars=(annotation,))
        return ExpectedValues(
            accepts_text=issubclass(annotation, str), accepts_anything=not issubclass(annotation, str)
        )
    return ExpectedValues(accepts_anything=True)


def _merge_options(options: Sequence[ExpectedValues]) -> ExpectedValues:
    """Combine alternatives into one description that accepts the values of each."""
    if not options:
        return ExpectedValues(accepts_anything=True)
    return ExpectedValues(
        accepts_text=any(option.accepts_text for option in options),
        accepts_anything=any(option.accepts_anything for option in options),
        scalars=tuple(kind for option in options for kind in option.scalars),
        item=next((option.item for option in options if option.item is not None), None),
        is_object=any(option.is_object for option in options),
        model=next((option.model for option in options if option.model is not None), None),
    )


@lru_cache(maxsize=256)
def model_fields(model: type[ArgumentModel]) -> Mapping[str, ArgumentField]:
    """Return the arguments of a model by the names that callers use, including unlisted ones.

    Required arguments come first, and arguments common to every tool come last.
    """
    fields = [_describe_field(model, python_name, info) for python_name, info in model.model_fields.items()]
    return types.MappingProxyType(
        {
            field.name: field
            for field in sorted(fields, key=lambda item: (not item.is_required, item.name in COMMON_ARGUMENTS))
        }
    )


def _describe_field(model: type[ArgumentModel], python_name: str, info: FieldInfo) -> ArgumentField:
    """Describe the argument that a field of a model defines."""
    reads = any(isinstance(item, BeforeValidator) for item in info.metadata)
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    return ArgumentField(
        name=info.alias or to_camel(python_name),
        expected=_expected_values(info.annotation, has_reader=reads),
        is_file=python_name in model.FILES,
        is_required=info.is_required(),
        distinguishes_null=type(None) in get_args(info.annotation) and default is not None,
    )


class ArgumentReader:
    """Reads the arguments of one call.

    `path_of` converts a file argument as written by the caller to a path. `errors` collects the errors found by `read`.
    """

    def __init__(self, path_of: Callable[[str], str]) -> None:
        self.errors: list[ArgumentError] = []
        self._path_of = path_of

    def read(
        self, model: type[ArgumentModel], given: Mapping[str, object], position: Position = ()
    ) -> dict[str, object]:
        """Convert arguments to the names and values that the model accepts.

        Values whose meaning is unclear are returned unchanged, so that the model rejects them.
        """
        fields = model_fields(model)
        found: dict[str, object] = {}
        written_as: dict[str, str] = {}
        for written, value in _move_into_items(model, given).items():
            name = resolve_argument_name(model, written)
            field = fields.get(name)
            if value is None and (field is None or not field.distinguishes_null):
                continue
            if field is not None and _is_null_text(field, value):
                continue
            if field is None and written in DEFAULTS_OF_OTHERS and value == DEFAULTS_OF_OTHERS[written]:
                continue
            if name in found:
                self._add_duplicate_error(name, written, written_as[name], position)
                continue
            found[name] = value if field is None else self._convert_value(field, value, (*position, name))
            written_as[name] = written
        return found

    def _add_duplicate_error(self, name: str, written: str, first: str, position: Position) -> None:
        """Record that an argument was passed under two names."""
        other, given = (first, written) if written == name else (written, first)
        also = "" if given == name else f" as {given}"
        self.errors.append(ArgumentError((*position, other), f"is another name for {name}, which is also given{also}"))

    def _convert_value(self, field: ArgumentField, value: object, position: Position) -> object:
        """Convert the value of an argument to the form that its field expects, and resolve paths in it."""
        value = self._convert(field.expected, value, position)
        if field.is_file:
            if isinstance(value, str):
                return self._path_of(value)
            if isinstance(value, list):
                return [self._path_of(item) if isinstance(item, str) else item for item in value]
        return value

    def _convert(self, expected: ExpectedValues, value: object, position: Position) -> object:
        """Convert a value to the expected form if its meaning is clear, and return other values unchanged."""
        if expected.accepts_anything:
            return value
        if isinstance(value, str) and not expected.accepts_text:
            value = _parse_json(expected, value)
            if _has_half_character(value):
                self.errors.append(ArgumentError(position, HALF_CHARACTER_MESSAGE))
                return None
        if type(value) is int and expected.accepts_text and not expected.scalars:
            return str(value)
        if expected.item is None and isinstance(value, list) and len(value) == 1:
            value = value[0] if _accepts_unlisted(expected, value[0]) else value
        if expected.model is not None and isinstance(value, dict):
            return self.read(expected.model, value, position)
        if expected.item is None or _accepts_unlisted(expected, value):
            return value
        if not isinstance(value, list | tuple):
            value = [value]
        return [self._convert(expected.item, item, (*position, index)) for index, item in enumerate(value)]


def _move_into_items(model: type[ArgumentModel], given: Mapping[str, object]) -> Mapping[str, object]:
    """Move arguments into the items of a list if only these items accept them.

    If there is no list, a list with one new item is created. For example, some callers pass `{"filePath": …, "oldText":
    …}` or `{"filePath": …, "edits": [{"oldText": …}]}`, as other editing tools expect.
    """
    of_items = _item_field(model)
    if of_items is None:
        return given
    name, inner = of_items
    fields, within = model_fields(model), model_fields(inner)
    moved = {
        written: value
        for written, value in given.items()
        if resolve_argument_name(model, written) not in fields and resolve_argument_name(inner, written) in within
    }
    if not moved:
        return given
    written_as = next((argument for argument in given if resolve_argument_name(model, argument) == name), name)
    field, listed = fields[name], given.get(written_as)
    if isinstance(listed, str):
        listed = _parse_json(field.expected, listed)
    items = [{}] if listed is None else listed if isinstance(listed, list) else [listed]
    names = {resolve_argument_name(inner, written) for written in moved}
    objects = [item for item in items if isinstance(item, dict)]
    if len(objects) < len(items) or any(
        resolve_argument_name(inner, key) in names for entry in objects for key in entry
    ):
        return given
    others = {written: value for written, value in given.items() if written not in moved}
    return {**others, written_as: [{**moved, **entry} for entry in objects]}


@lru_cache(maxsize=256)
def _item_field(model: type[ArgumentModel]) -> tuple[str, type[ArgumentModel]] | None:
    """Return the name of the only required argument that is a list of objects, and the model of these objects.

    Returns None if there is no such argument, or more than one.
    """
    found = [
        (field.name, field.expected.item.model)
        for field in model_fields(model).values()
        if field.is_required and field.expected.item is not None and field.expected.item.model is not None
    ]
    return found[0] if len(found) == 1 else None


def _has_half_character(value: object) -> bool:
    """Return whether a value contains text with a lone surrogate, which cannot be encoded as UTF-8."""
    if isinstance(value, str):
        return any("\ud800" <= character <= "\udfff" for character in value) if not value.isascii() else False
    if isinstance(value, dict):
        return any(map(_has_half_character, value)) or any(map(_has_half_character, value.values()))
    return isinstance(value, list) and any(map(_has_half_character, value))


def _is_null_text(field: ArgumentField, value: object) -> bool:
    """Return whether a value is the text `null`, passed for an argument that does not accept text."""
    expected = field.expected
    if not isinstance(value, str) or value.strip() != "null" or field.distinguishes_null:
        return False
    options = [expected] if expected.item is None else [expected, expected.item]
    return not any(option.accepts_text or option.accepts_anything for option in options)


def _accepts_unlisted(expected: ExpectedValues, value: object) -> bool:
    """Return whether a value is accepted on its own, outside a list."""
    if isinstance(value, str):
        return expected.accepts_text
    if isinstance(value, dict):
        return expected.is_object
    return not isinstance(value, list | tuple) and isinstance(value, expected.scalars)


def _parse_json(expected: ExpectedValues, text: str) -> object:
    """Parse JSON text, or return the text unchanged if it is not JSON or its value is not expected."""
    if find_exceeded_limit(text.encode("utf-8", "surrogatepass")) is not None:
        return text
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text
    return value if _expects_non_text(expected, value) else text


def _expects_non_text(expected: ExpectedValues, value: object) -> bool:
    """Return whether a value that is not text is accepted, either by itself or as the only item in a list."""
    if isinstance(value, list):
        return expected.item is not None
    if isinstance(value, dict) and expected.is_object:
        return True
    if isinstance(value, bool) and bool in expected.scalars:
        return True
    if isinstance(value, int | float) and not isinstance(value, bool) and {int, float} & set(expected.scalars):
        return True
    item = expected.item
    return item is not None and not item.accepts_text and not item.accepts_anything and _expects_non_text(item, value)


def _refuse_constant(name: str) -> float:
    """Reject a constant such as `NaN`, which is not JSON, with a `ValueError`."""
    raise ValueError(f"{name} is not JSON")


@lru_cache(maxsize=4096)
def resolve_argument_name(model: type[ArgumentModel], written: str) -> str:
    """Return the name of the argument that `written` refers to, or `written` itself if there is no such argument."""
    fields = model_fields(model)
    if written in fields:
        return written
    mapped = model.OTHER_NAMES.get(written)
    if mapped is not None:
        return mapped
    for name in OTHER_NAMES.get(written, ()):
        if name in fields:
            return name
    spelled = to_camel(written.replace("-", "_")) if "_" in written or "-" in written else written
    return spelled if spelled in fields else written


def suggest_argument(model: type[ArgumentModel], written: str, missing: str | None = None) -> str | None:
    """Suggest the argument that a caller probably meant with an unknown name, or return None if no name is similar.

    `missing` is the missing argument, passed only if exactly one argument is missing and exactly one name is unknown.
    """
    by_small = {name.lower(): name for name in model_fields(model)}
    small = written.lower().replace("_", "").replace("-", "")
    if misspelt := get_close_matches(small, by_small, n=1, cutoff=MIN_MISSPELLING_SIMILARITY):
        return by_small[misspelt[0]]
    if missing is not None:
        return missing
    longer = [name for name in by_small if name.startswith(small) or (len(small) > 1 and name.endswith(small))]
    found = longer or get_close_matches(small, by_small, n=1, cutoff=MIN_SUGGESTION_SIMILARITY)
    return by_small[found[0]] if found else None


def find_model(model: type[ArgumentModel], position: Position) -> tuple[type[ArgumentModel], Position]:
    """Return the model of the object that contains an argument, and the position of this object."""
    found: tuple[type[ArgumentModel], Position] = model, ()
    for index, step in enumerate(position[:-1]):
        if isinstance(step, int):
            continue
        field = model_fields(found[0]).get(step)
        expected = field.expected if field is not None else ExpectedValues()
        inner = expected.model or (expected.item.model if expected.item is not None else None)
        if inner is None:
            break
        found = inner, position[: index + 1]
    return found


@lru_cache(maxsize=256)
def _names_files(model: type[ArgumentModel]) -> bool:
    """Return whether a model, or a model nested in it, has an argument that names files."""
    inner = [field.expected.item or field.expected for field in model_fields(model).values()]
    within = [shape.model for shape in inner if shape.model is not None]
    return any(field.is_file for field in model_fields(model).values()) or any(map(_names_files, within))


def has_unusual_path(model: type[ArgumentModel], given: Mapping[str, object]) -> bool:
    """Return whether a file argument may have to be converted by `convert_written_path`."""
    if not _names_files(model):
        return False
    found = False

    def note(path: str) -> str:
        nonlocal found
        found = found or may_need_conversion(path)
        return path

    ArgumentReader(note).read(model, given)
    return found


def make_path_reader(root: Path) -> Callable[[str], str]:
    """Return a function that converts file arguments to paths in a workspace.

    The function blocks only for unusual paths, which it has to look up in the file system.
    """
    return lambda given: convert_written_path(given, root) if may_need_conversion(given) else given
