"""Settings that features declare: their bounds, what they grant, and when a change takes effect."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Grants = Literal["nothing", "any value", "true", "false"]
"""The values of a setting that grant something. In a workspace's file, they need the user's acceptance."""


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A setting that a feature adds, read with `Settings.value_of`.

    The type of `default` is the type of the setting: a boolean, an integer with bounds, or a non-empty string.
    """

    name: str
    """The name in snake_case, as code spells it. Files use camelCase."""
    default: T
    description: str
    least: int | None = None
    most: int | None = None
    grants: Grants = "nothing"
    policy: str = ""
    """The key of the machine policy that turns the setting off (one of `machine_policy.KEYS`); empty if none does."""
    needs_restart: bool = False
    """Whether a change takes effect only when the server restarts."""
