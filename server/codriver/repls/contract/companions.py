"""Companions: extensions that features attach to connected REPLs.

A companion works with a program inside one REPL, in addition to the evaluations of callers. It is created after the
REPL has been connected and before callers use it. It lives as long as the adapter, which it accesses through a
`ReplAccess`. It takes part in evaluations by adding to the adapter's `EvaluationSteps`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from codriver.core.records import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from codriver.core.profiles import Capability, Profile
    from codriver.core.requests import Request
    from codriver.repls.contract.events import Listener


class ReplAccess(Protocol):
    """The operations and information that an adapter offers to its REPL's companions."""

    @property
    def dialect(self) -> str:
        """Return the dialect of the REPL."""

    @property
    def ops(self) -> Collection[str]:
        """Return the names of the ops that an nREPL server supports. The result is empty for other REPLs."""

    @property
    def description(self) -> Mapping[str, object]:
        """Return the fields of an nREPL server's description of itself, as unvalidated data."""

    @property
    def listener(self) -> Listener:
        """Return the listener for events from the REPL."""

    @property
    def connect_timeout_s(self) -> float:
        """Return the number of seconds that the creation of a companion may spend on queries to the REPL."""

    @property
    def is_busy(self) -> bool:
        """Return whether the REPL is running code and would therefore not answer."""

    async def evaluate(self, code: str, *, what: str) -> str:
        """Evaluate an expression whose value is a string, and return the string. Callers' `*1` does not change.

        `what` describes the expression in error messages.

        Raises:
            EvaluationFailedError: the expression failed, or its value is not a string.
        """

    async def stream(self, code: str, *, what: str, on_output: Callable[[str], None]) -> tuple[str, Callable[[], None]]:
        """Evaluate an expression like `evaluate`, and pass everything that it prints to `on_output`.

        This includes output printed after the evaluation has finished. Return the value, and a function that stops the
        output.
        """

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Call an op of the REPL. See `Adapter.call_op`."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A step that runs after certain evaluations, before their end is reported. It must not raise."""

    applies_to: Callable[[Request], bool]
    run: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class EvaluationSteps:
    """The steps, request fields and load functions that companions add to the evaluations in one REPL."""

    before: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Steps that run before the code is sent. They never raise."""
    after: list[FollowUp] = field(default_factory=list)
    fields: list[Callable[[Request], Mapping[str, Any]]] = field(default_factory=list)
    """Functions that return additional fields for a request."""
    loads: list[Callable[[Request], Request]] = field(default_factory=list)
    """Functions that may replace a request to load a file."""

    async def prepare(self) -> None:
        """Run the steps that precede an evaluation."""
        for step in self.before:
            await step()

    def has_follow_ups(self, request: Request) -> bool:
        """Return whether any step must run after this evaluation."""
        return any(step.applies_to(request) for step in self.after)

    async def run_follow_ups(self, request: Request) -> None:
        """Run the steps that apply after this evaluation."""
        for step in self.after:
            if step.applies_to(request):
                await step.run()

    def additional_fields(self, request: Request) -> dict[str, Any]:
        """Return the fields that companions add to a request."""
        return {name: value for added in self.fields for name, value in added(request).items()}

    def rewrite_load(self, request: Request) -> Request:
        """Return the request that replaces a request to load a file."""
        for change in self.loads:
            request = change(request)
        return request


class Companion(Protocol):
    """An object that a feature attaches to one connected REPL."""

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """Return the REPL's capabilities that the companion has found so far."""


CreateCompanion = Callable[[ReplAccess, EvaluationSteps], Awaitable[Companion]]
"""Creates a companion. It may query the REPL, but it never raises."""


async def create_companions(
    factories: Iterable[CreateCompanion], access: ReplAccess, steps: EvaluationSteps
) -> dict[type, Any]:
    """Create the companions of a connected REPL, and return them by type."""
    companions = [await create(access, steps) for create in factories]
    return {type(companion): companion for companion in companions}


def with_companions(profile: Profile, companions: Iterable[Companion]) -> Profile:
    """Return a copy of the profile with the capabilities found by companions."""
    found = {name: support for companion in companions for name, support in companion.capabilities.items()}
    return replace(profile, capabilities={**profile.capabilities, **found}) if found else profile
