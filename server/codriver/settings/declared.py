"""Declarations of the settings that features add to the settings model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import ValidationError

T = TypeVar("T")

Grants = Literal["nothing", "any value", "true", "false"]
"""The values of a setting that grant something. In a workspace's file, they need the user's acceptance."""


@dataclass(frozen=True, slots=True)
class DeclaredSetting(Generic[T]):
    """A setting that a feature adds. `Settings.value_of` returns its value.

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
    """The policy key that turns the setting off (one of `machine_policy.POLICY_KEYS`); empty if none does."""
    needs_restart: bool = False
    """Whether a change takes effect only when the server restarts."""
    annotation: Callable[[], Any] | None = None
    """Return the type of the values, if it is not that of `default`. Called when settings are loaded."""
    allowed: str = ""
    """A description of the valid values, if the type does not make them clear."""
    describe_error: Callable[[ValidationError], str] | None = None
    """Describe an invalid value without showing it, for values that may contain secrets."""
    reason_ignored: str = ""
    """The reason why a workspace's file must not decide the setting, even if the user accepts it; empty if it may."""
    extends: bool = False
    """Whether a stronger layer extends the list instead of replacing it."""
    grows: bool = False
    """Whether a running server adds new list entries at once."""
    variables: tuple[str, ...] = ()
    """Environment variables with the prefix `CODRIVER_` that the feature reads and that are not settings."""
