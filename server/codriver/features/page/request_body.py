"""Parse the JSON bodies of the page's requests, and check the types of their members."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_INTEGER: Final = 2**53
"""Maximum absolute value of an integer. The page's JavaScript cannot represent all larger integers."""


class BadBodyError(Exception):
    """Raised when a request body is not a JSON object or one of its members has the wrong type."""


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The JSON object in the body of a request."""

    members: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a string member, or an empty string if it is missing."""
        found = self.members.get(name, "")
        if not isinstance(found, str):
            raise BadBodyError(name)
        return found

    def number(self, name: str) -> int:
        """Return an integer member, or 0 if it is missing."""
        found = self.members.get(name, 0)
        if type(found) is not int or not 0 <= found < MAX_INTEGER:
            raise BadBodyError(name)
        return found

    def items(self, name: str) -> list[Any]:
        """Return a list member, or an empty list if it is missing."""
        found = self.members.get(name, [])
        if not isinstance(found, list):
            raise BadBodyError(name)
        return found


def parse_body(data: bytes) -> RequestBody:
    """Parse the JSON object in a request body. An empty body counts as an empty object.

    Raises:
        BadBodyError: the body is not a JSON object, or contains numbers or strings that JSON does not allow.
    """
    try:
        found = json.loads(data or b"{}", parse_float=_finite_float, parse_constant=_finite_float)
        json.dumps(found, ensure_ascii=False).encode()  # fails for an unpaired surrogate
    except (ValueError, RecursionError) as error:
        raise BadBodyError("body") from error
    if not isinstance(found, dict):
        raise BadBodyError("body")
    return RequestBody(found)


def _finite_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
