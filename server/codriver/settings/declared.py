"""Settings that features declare, each in one place: its bounds, what it grants, and when a change of it counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Grants = Literal["nothing", "any value", "true", "false"]
"""The values of a setting that grant something: in a workspace's file they count only once the user accepts them."""


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """A setting that a feature adds, read by `Settings.value_of`.

    Its type is that of `default`: a boolean, an integer with bounds, or text that is not empty.
    """

    name: str
    """The name in code, in snake_case. Files spell it in camelCase."""
    default: T
    description: str
    least: int | None = None
    most: int | None = None
    grants: Grants = "nothing"
    policy: str = ""
    """The key of the machine's policy that turns the setting off, among `machine_policy.KEYS`; empty for none."""
    needs_restart: bool = False
    """Whether a running server keeps the value that it had at its start."""
