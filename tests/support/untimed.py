"""Compare whole answers without what depends on the speed of the machine."""

from collections.abc import Mapping


def untimed(answer: Mapping[str, object]) -> dict[str, object]:
    """Return an answer without `elapsedMs`, which a lean answer has only if its code ran for a noticeable time."""
    return {name: value for name, value in answer.items() if name != "elapsedMs"}
