"""Models of the arguments that callers pass."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from codriver.core.records import dataclass

Json = Mapping[str, Any]


Schema = dict[str, Any]


MIN_WAIT_MS: Final = 100
"""The shortest time that a call waits for an evaluation."""
WaitMs = Annotated[int, Field(ge=0, le=600_000), AfterValidator(lambda wait_ms: max(wait_ms, MIN_WAIT_MS))]
"""Time that a call waits for an evaluation. A shorter time than `MIN_WAIT_MS` means to return as soon as possible."""
UNLISTED_KEY: Final = "unlisted"
"""Key in the schema of an argument that is accepted but not listed, which keeps the list short."""


class ArgumentModel(BaseModel):
    """Base class of models for objects that callers pass.

    Field names are camelCase for callers and snake_case in code. Unknown fields are rejected, and instances are
    immutable.
    """

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, populate_by_name=False)

    FILES: ClassVar[frozenset[str]] = frozenset({"file_path", "file_paths", "paths", "directory"})
    """Arguments that name files."""
    OTHER_NAMES: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Additional names of these arguments. See `codriver.tools.calls.argument_reading`."""


class Arguments(ArgumentModel):
    """Base class of models for a tool's arguments."""

    who: str | None = Field(None, json_schema_extra={UNLISTED_KEY: True})
    """The caller, for `Call.who`. Every tool accepts it, but only `evaluate_code` lists it."""

    CHOOSES_SESSION: ClassVar[bool] = False
    """Whether the tool chooses a session by rules if `repl_session_key` is omitted."""

    @property
    def chooses_session(self) -> bool:
        """Return whether the server chooses the session for this call because the caller did not name one."""
        return self.CHOOSES_SESSION and getattr(self, "repl_session_key", None) is None

    @property
    def session_files(self) -> tuple[str, ...]:
        """Return the files that determine the language of the session. If empty, any session will do."""
        return ()


@dataclass(frozen=True, slots=True)
class AddedArguments:
    """Arguments that a feature adds to base tools, and the feature's model that validates them."""

    tools: tuple[str, ...]
    model: type[ArgumentModel]
    inside: type[ArgumentModel] | None = None
    """The model of the objects inside any tool's arguments that get these arguments, which must be unlisted.

    None for arguments of the `tools` themselves.
    """


def remove_default(schema: Schema) -> None:
    """Remove the default value from an argument's schema, for use as `json_schema_extra`.

    This keeps the listed schema short if the default is obvious.
    """
    schema.pop("default", None)
