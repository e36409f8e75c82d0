"""The tool argument that passes inputs to a query."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import WithJsonSchema

_SCALAR_SCHEMAS: Final = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
"""Schemas of an input that is a single value."""
_COLLECTION_SCHEMA: Final = {"type": "array", "items": {"anyOf": _SCALAR_SCHEMAS}}
"""Schema of an input that is a list of values."""

# Any JSON is accepted. The schema lists the usual bindings of `:in`, because some clients reject an empty schema.
Input = Annotated[Any, WithJsonSchema({"anyOf": [*_SCALAR_SCHEMAS, _COLLECTION_SCHEMA]})]
