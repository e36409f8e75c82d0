"""The places up to which callers were told an evaluation's texts, so that each byte is told once."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.recent import Recent

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

MOST_CALLERS: Final = 64
"""With more of them, the caller told longest ago begins again at 0, which `from` of the answer says."""
NOWHERE: Final[Mapping[str, int]] = MappingProxyType({})


class ToldPlaces:
    """By caller and part: the characters told, counted from the first. Lives as long as its transcript."""

    def __init__(self) -> None:
        self._places: Recent[Hashable, dict[str, int]] = Recent(MOST_CALLERS)

    def of(self, caller: Hashable) -> Mapping[str, int]:
        """The places of one caller, by part; a part without a place was never told."""
        return self._places.get(caller, NOWHERE)

    def move(self, caller: Hashable, places: Mapping[str, int]) -> None:
        """An answer that tells up to these places was handed out. No place ever moves back."""
        known = self._places.get(caller, {})
        self._places[caller] = known | {part: max(place, known.get(part, 0)) for part, place in places.items()}
