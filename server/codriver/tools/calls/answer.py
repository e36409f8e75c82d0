"""Tool answers, and the schema parts that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.tools.calls.arguments import Json, Schema


@dataclass(frozen=True, slots=True)
class Image:
    """An image in an answer, base64-encoded."""

    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool. `fields` is JSON with camelCase keys, and `ok` is false for errors and refusals."""

    fields: Json
    ok: bool = True
    images: tuple[Image, ...] = ()
    has_numbers: bool = False
    """Whether the answer may contain numbers of any size, as the results of queries do."""
    is_bare: bool = False
    """Whether the answer has the format of another program, without Codriver's usual fields."""
    handed_out: Callable[[], None] | None = None
    """Called when the answer is being sent, after which the client is assumed to have read it."""
    shows_sensitive: bool = False
    """Whether text that an application marked as sensitive is left unredacted.

    Needs the user's permission and a request by the call.
    """


STRINGS_SCHEMA: Final = {"type": "array", "items": {"type": "string"}}
"""JSON schema of a list of strings."""


ROWS_SCHEMA: Final = {"type": "array", "items": {"type": "object"}}
"""JSON schema of a list of objects."""


ANY_ANSWER_SCHEMA: Final[Schema] = {"type": "object", "required": ["ok"]}
"""JSON schema that every answer satisfies."""


def answer_schema(**properties: Schema | str) -> Schema:
    """Return the JSON schema of a tool's answer.

    `properties` maps the name of each field to its schema or to the name of its JSON type.
    """
    typed_properties = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()}
    return {"type": "object", "properties": {"ok": {"type": "boolean"}, **typed_properties}, "required": ["ok"]}
