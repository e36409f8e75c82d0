"""The MIME bundles of recent values and displays, so that agents can read types other than text later."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.repls.contract.adapter_values import IMAGE_TYPES, TEXT_TYPES, Value, data_of

if TYPE_CHECKING:
    from codriver.core.values import ValuePart
    from codriver.repls.contract.adapter_values import (
        Bundle,
    )


MAX_CHARACTERS: Final = 8 * 2**20
"""The data kept of all evaluations together; the oldest data is dropped first."""
MAX_COUNTED: Final = 1000
"""Evaluations whose values are still counted."""

PART_CHARACTERS: Final = 100_000
"""The part of a text that is given without a wanted length."""


class StoredBundles:
    """The bundles of the newest evaluations of one kernel, for the life of its connection.

    Pictures are not kept: the answer has them, and numbers them.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._bundles: OrderedDict[tuple[str, int], Bundle] = OrderedDict()
        self._counts: Recent[str, int] = Recent(MAX_COUNTED)
        self._characters = 0

    def store(self, evaluation: str, bundle: Bundle) -> None:
        """Keep the data that a text does not show of an evaluation's next value or display."""
        number = self._counts.get(evaluation, 0) + 1
        self._counts[evaluation] = number
        rest = {name: data for name, data in bundle.items() if name not in IMAGE_TYPES and name != TEXT_TYPES[0]}
        size = _size(rest)
        if not rest or size > self._max_characters:
            return
        self._bundles[evaluation, number] = rest
        self._characters += size
        while self._characters > self._max_characters:
            _, dropped = self._bundles.popitem(last=False)
            self._characters -= _size(dropped)

    def read(self, evaluation: str, part: ValuePart) -> Value | str:
        """A part of one type's data; without any, the reason in words.

        The path is the type, with `$2` before it for the evaluation's second value or display; without that, the last
        one of this type is meant. `start` and `max_length` of the part count characters.
        """
        steps = list(part.path)
        number = None
        first = steps[0] if steps else None
        if isinstance(first, str) and first.startswith("$") and first[1:].isdecimal():
            number, steps = int(first[1:]), steps[1:]
        if len(steps) != 1 or not isinstance(steps[0], str):
            return 'a kernel keeps no values: the path names a type of one, such as ["text/html"]'
        name = steps[0]
        of_evaluation = {at: bundle for (owner, at), bundle in self._bundles.items() if owner == evaluation}
        found = [bundle for at, bundle in of_evaluation.items() if name in bundle and number in (None, at)]
        if not found:
            types = sorted({one for bundle in of_evaluation.values() for one in bundle})
            has = f"it has {', '.join(types)}" if types else "nothing is kept of it but text and pictures"
            return f"it has no {name}, or no more: {has}"
        text = data_of(found[-1], name)
        limits = part.limits
        length = limits.max_length if limits.is_length_explicit and limits.max_length else PART_CHARACTERS
        part_text = text[part.start : part.start + length]
        most = limits.max_value_bytes
        if most is not None and len(encoded := part_text.encode()) > most:
            part_text = encoded[:most].decode(errors="ignore")
        end = part.start + len(part_text)
        cut = f"characters {part.start} to {end} of {len(text)}" if len(part_text) < len(text) else ""
        return Value(part_text, cut=cut)


def _size(bundle: Bundle) -> int:
    return sum(len(data_of(bundle, name)) for name in bundle)
