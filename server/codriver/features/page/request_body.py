"""The bodies of the page's requests: one JSON object each, whose members are read by their expected types. Pure."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_NUMBER: Final = 2**53
"""The page's whole numbers are JavaScript's."""


class BadBodyError(Exception):
    """The body is no JSON object, or a member is not of the expected type."""


@dataclass(frozen=True, slots=True)
class Body:
    """The object in a body."""

    members: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return the text of a member, empty for none."""
        found = self.members.get(name, "")
        if not isinstance(found, str):
            raise BadBodyError(name)
        return found

    def number(self, name: str) -> int:
        """Return the whole number of a member, 0 for none."""
        found = self.members.get(name, 0)
        if type(found) is not int or not 0 <= found < MAX_NUMBER:
            raise BadBodyError(name)
        return found

    def items(self, name: str) -> list[Any]:
        """Return the list of a member, empty for none."""
        found = self.members.get(name, [])
        if not isinstance(found, list):
            raise BadBodyError(name)
        return found


def read_body(data: bytes) -> Body:
    """Return the object in a body, which is empty for no bytes at all.

    Raises:
        BadBodyError: there is no object, or a number or a text in it that JSON cannot hold.
    """
    try:
        found = json.loads(data or b"{}", parse_float=_finite, parse_constant=_finite)
        json.dumps(found, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError) as error:
        raise BadBodyError("body") from error
    if not isinstance(found, dict):
        raise BadBodyError("body")
    return Body(found)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
