"""Inputs of queries as arguments of tools."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import WithJsonSchema

_SCALARS: Final = [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]
_COLLECTION: Final = {"type": "array", "items": {"anyOf": _SCALARS}}

# Any JSON is accepted. The schema lists the usual bindings of `:in`, because some clients reject an empty schema.
Input = Annotated[Any, WithJsonSchema({"anyOf": [*_SCALARS, _COLLECTION]})]
