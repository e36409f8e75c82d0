"""The models of the arguments that callers give."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from codriver.core.records import dataclass

Json = Mapping[str, Any]


Schema = dict[str, Any]


UNLISTED: Final = "unlisted"
"""The mark, in a model's schema, of an argument that is taken and not listed, as it costs more than it is worth."""


class Given(BaseModel):
    """An object that a caller gives: camelCase outside, snake_case inside, nothing unknown, never changed."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=False)

    FILES: ClassVar[frozenset[str]] = frozenset({"file_path", "file_paths", "paths", "directory"})
    """The arguments that name files."""
    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Other names of these arguments, besides those of any tool: see `codriver.tools.calls.argument_reading`."""


class Arguments(Given):
    """The arguments of a tool."""

    who: str | None = Field(None, json_schema_extra={UNLISTED: True})
    """The caller, for `Call.who`. Every tool takes it; `evaluate_code` lists it and says so."""


@dataclass(frozen=True, slots=True)
class AddedArguments:
    """Arguments of a feature for tools of the base: listed with theirs, and validated by a model of the feature."""

    tools: tuple[str, ...]
    model: type[Given]


def unsaid_default(schema: Schema) -> None:
    """Take the default out of an argument's schema: for `json_schema_extra` of one whose default needs no telling."""
    schema.pop("default", None)
