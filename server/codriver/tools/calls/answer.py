"""The answer of a tool, and the parts of its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from codriver.tools.calls.arguments import Json, Schema


@dataclass(frozen=True, slots=True)
class Image:
    """A picture of an answer, base64 as it came."""

    data: str
    mime_type: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a tool: JSON fields under camelCase keys. `ok` is false for a failure or a refusal."""

    fields: Json
    ok: bool = True
    images: tuple[Image, ...] = ()
    has_numbers: bool = False
    """Whether the answer holds numbers of a query, of any size."""
    is_bare: bool = False
    """Whether the answer has another program's shape, and so nothing around it."""
    handed_out: Callable[[], None] | None = None
    """Called when the answer is on its way to its client, which has read its content from then on."""
    shows_sensitive: bool = False
    """Whether the answer may hold texts that an application calls sensitive, as the user allowed and the call asked
    for."""


TEXTS: Final = {"type": "array", "items": {"type": "string"}}
"""The schema of a list of texts."""


ROWS: Final = {"type": "array", "items": {"type": "object"}}
"""The schema of a list of objects."""


ANY_ANSWER: Final[Schema] = {"type": "object", "required": ["ok"]}
"""The schema of every answer."""


def answer_schema(**properties: Schema | str) -> Schema:
    """The schema of a tool's answer: the envelope, and `properties` by name, each a schema or a JSON type."""
    shown = {name: {"type": kind} if isinstance(kind, str) else kind for name, kind in properties.items()}
    return {"type": "object", "properties": {"ok": {"type": "boolean"}, **shown}, "required": ["ok"]}
