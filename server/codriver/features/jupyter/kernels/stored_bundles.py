"""Store recent results in all their MIME types, so that agents can read types other than text later."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.repls.contract.display_data import IMAGE_TYPES, TEXT_TYPES, media_type_text
from codriver.repls.contract.events import Value

if TYPE_CHECKING:
    from codriver.core.print_limits import ValuePart
    from codriver.repls.contract.display_data import Bundle


MAX_STORED_CHARACTERS: Final = 8 * 2**20
"""Maximum total number of characters stored for all evaluations. The oldest data is dropped first."""
MAX_COUNTED_EVALUATIONS: Final = 1000
"""Number of most recent evaluations whose values are counted."""

DEFAULT_PART_CHARACTERS: Final = 100_000
"""Maximum number of characters to read from a part if no length is requested."""


class StoredBundles:
    """Stores the MIME bundles of the latest evaluations on one connection to a kernel.

    Images are not stored, because they are returned directly in answers.
    """

    def __init__(self, max_characters: int = MAX_STORED_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._bundles: OrderedDict[tuple[str, int], Bundle] = OrderedDict()
        self._counts: Recent[str, int] = Recent(MAX_COUNTED_EVALUATIONS)
        self._characters = 0

    def store(self, evaluation: str, bundle: Bundle) -> None:
        """Store the next value or display of an evaluation, without its plain text and its images."""
        number = self._counts.get(evaluation, 0) + 1
        self._counts[evaluation] = number
        stored_bundle = {
            mime_type: data
            for mime_type, data in bundle.items()
            if mime_type not in IMAGE_TYPES and mime_type != TEXT_TYPES[0]
        }
        size = _bundle_size(stored_bundle)
        if not stored_bundle or size > self._max_characters:
            return
        self._bundles[evaluation, number] = stored_bundle
        self._characters += size
        while self._characters > self._max_characters:
            _, dropped = self._bundles.popitem(last=False)
            self._characters -= _bundle_size(dropped)

    def read(self, evaluation: str, part: ValuePart) -> Value | str:
        """Return a part of the stored data, or a message that explains why it is not available.

        The path of the part is a MIME type. It may be preceded by a number such as `$2`, which selects the second value
        or display of the evaluation. Without a number, the last one with this type is read. `start` and `max_length`
        are in characters.
        """
        steps = list(part.path)
        number = None
        first_step = steps[0] if steps else None
        if isinstance(first_step, str) and first_step.startswith("$") and first_step[1:].isdecimal():
            number, steps = int(first_step[1:]), steps[1:]
        if len(steps) != 1 or not isinstance(steps[0], str):
            return (
                "for a kernel, only the MIME data of values is stored. Pass a path with a MIME type, such as "
                '["text/html"]'
            )
        mime_type = steps[0]
        bundles_by_number = {index: bundle for (owner, index), bundle in self._bundles.items() if owner == evaluation}
        bundles = [
            bundle for index, bundle in bundles_by_number.items() if mime_type in bundle and number in (None, index)
        ]
        if not bundles:
            types = sorted({available_type for bundle in bundles_by_number.values() for available_type in bundle})
            available = (
                f"the stored types are {', '.join(types)}"
                if types
                else "text and images are in the evaluation's answer"
            )
            return f"the evaluation has no {mime_type}, or it is no longer stored: {available}"
        text = media_type_text(bundles[-1], mime_type)
        limits = part.limits
        length = limits.max_length if limits.is_length_explicit and limits.max_length else DEFAULT_PART_CHARACTERS
        part_text = text[part.start : part.start + length]
        max_bytes = limits.max_value_bytes
        if max_bytes is not None and len(encoded := part_text.encode()) > max_bytes:
            part_text = encoded[:max_bytes].decode(errors="ignore")
        end = part.start + len(part_text)
        cut_note = f"characters {part.start} to {end} of {len(text)}" if len(part_text) < len(text) else ""
        return Value(part_text, cut=cut_note)


def _bundle_size(bundle: Bundle) -> int:
    return sum(len(media_type_text(bundle, name)) for name in bundle)
