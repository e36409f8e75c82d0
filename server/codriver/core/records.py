"""Changing the frozen dataclasses that the core is made of: its state, its actions, its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    # To a type checker it is the same, and that one knows the fields.
    from dataclasses import replace as replace  # noqa: PLC0414  # said twice is what makes it ours to export
else:

    def replace(record: T, /, **changes: object) -> T:
        """The record with other values in the fields named; the given one is not changed.

        `dataclasses.replace` calls the constructor with every field, which takes six times as long, and an evaluation
        changes some fifteen records. For dataclasses without slots and without `__post_init__`.
        """
        changed = object.__new__(type(record))
        changed.__dict__.update(record.__dict__, **changes)
        return changed
