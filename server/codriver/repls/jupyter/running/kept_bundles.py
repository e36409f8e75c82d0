"""Bundles kept for a while: the media of values and displays that no text can show, to be read in parts."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from codriver.core.recent import Recent
from codriver.repls.contract.adapter_values import Value
from codriver.repls.contract.media import PICTURES, TEXTS, data_of

if TYPE_CHECKING:
    from codriver.core.values import ValuePart
    from codriver.repls.contract.media import Bundle

MAX_CHARACTERS: Final = 8 * 2**20
"""The data that is kept of all evaluations together; of the oldest it is dropped first."""
MOST_COUNTED: Final = 1000
"""Evaluations whose values are counted on."""

PART_CHARACTERS: Final = 100_000
"""The part of a text that is given where nobody says how much."""


class KeptBundles:
    """The bundles of the newest evaluations of one kernel, for the life of its connection.

    Pictures are not kept: the answer has them, and numbers them.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._kept: OrderedDict[tuple[str, int], Bundle] = OrderedDict()
        self._counts: Recent[str, int] = Recent(MOST_COUNTED)
        self._characters = 0

    def keep(self, evaluation: str, bundle: Bundle) -> None:
        """Keep what a text does not show of one value or display of an evaluation, the next in its order."""
        number = self._counts.get(evaluation, 0) + 1
        self._counts[evaluation] = number
        rest = {name: data for name, data in bundle.items() if name not in PICTURES and name != TEXTS[0]}
        size = _size(rest)
        if not rest or size > self._max_characters:
            return
        self._kept[evaluation, number] = rest
        self._characters += size
        while self._characters > self._max_characters:
            _, dropped = self._kept.popitem(last=False)
            self._characters -= _size(dropped)

    def read(self, evaluation: str, part: ValuePart) -> Value | str:
        """A part of one type's data; in words why there is none.

        The path is the type, and before it `$2` for the evaluation's second value or display, where the last that has
        this type is not meant. `start` and `max_length` of the part count characters.
        """
        steps = list(part.path)
        number = None
        first = steps[0] if steps else None
        if isinstance(first, str) and first.startswith("$") and first[1:].isdecimal():
            number, steps = int(first[1:]), steps[1:]
        if len(steps) != 1 or not isinstance(steps[0], str):
            return 'a kernel keeps no values: the path names a type of one, such as ["text/html"]'
        name = steps[0]
        own = {at: bundle for (owner, at), bundle in self._kept.items() if owner == evaluation}
        found = [bundle for at, bundle in own.items() if name in bundle and number in (None, at)]
        if not found:
            types = sorted({one for bundle in own.values() for one in bundle})
            has = f"it has {', '.join(types)}" if types else "nothing is kept of it but text and pictures"
            return f"it has no {name}, or no more: {has}"
        text = data_of(found[-1], name)
        limits = part.limits
        length = limits.max_length if limits.length_is_asked and limits.max_length else PART_CHARACTERS
        shown = text[part.start : part.start + length]
        most = limits.max_value_bytes
        if most is not None and len(encoded := shown.encode()) > most:
            shown = encoded[:most].decode(errors="ignore")
        end = part.start + len(shown)
        cut = f"characters {part.start} to {end} of {len(text)}" if len(shown) < len(text) else ""
        return Value(shown, cut=cut)


def _size(bundle: Bundle) -> int:
    return sum(len(data_of(bundle, name)) for name in bundle)
