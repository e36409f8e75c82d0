"""Companions, with which features attach to connected REPLs.

A companion works with a program inside one REPL, in addition to the evaluations of callers. It is created when the REPL
has been connected and before callers use it. It lives as long as the adapter, which it reaches through a `ReplAccess`.
It takes part in evaluations by adding to the adapter's `EvaluationSteps`.
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
    """What an adapter offers to companions of its REPL."""

    @property
    def dialect(self) -> str:
        """Return the dialect of the REPL."""

    @property
    def ops(self) -> Collection[str]:
        """Return the ops of an nREPL server. Other REPLs have none."""

    @property
    def description(self) -> Mapping[str, object]:
        """Return the fields with which an nREPL server describes itself, as unvalidated data."""

    @property
    def listener(self) -> Listener:
        """Return the listener for events of the REPL."""

    @property
    def connect_timeout_s(self) -> float:
        """Return how long a companion may query the REPL while it is created."""

    @property
    def is_busy(self) -> bool:
        """Return whether the REPL is running code and would not answer."""

    async def evaluate(self, code: str, *, what: str) -> str:
        """Evaluate an expression whose value is a string, and return the value. Callers' last values do not change.

        `what` describes the expression in errors.

        Raises:
            EvaluationFailedError: the expression failed, or its value is not a string.
        """

    async def stream(self, code: str, *, what: str, on_output: Callable[[str], None]) -> tuple[str, Callable[[], None]]:
        """Evaluate an expression as `evaluate` does, and pass what it prints to `on_output`, even after its end.

        Return the value, and a function that ends the stream.
        """

    async def call_op(self, op: str, fields: Mapping[str, str]) -> str:
        """Call an op: see `Adapter.call_op`."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """A step that follows some evaluations, before their end is reported. It never raises."""

    applies_to: Callable[[Request], bool]
    run: Callable[[], Awaitable[None]]


@dataclass(slots=True)
class EvaluationSteps:
    """What companions add to the evaluations of one REPL. Each list is empty until a companion needs it."""

    before: list[Callable[[], Awaitable[None]]] = field(default_factory=list)
    """Steps that run before the code is sent. They never raise."""
    after: list[FollowUp] = field(default_factory=list)
    fields: list[Callable[[Request], Mapping[str, Any]]] = field(default_factory=list)
    """Functions that return additional fields of a request."""
    loads: list[Callable[[Request], Request]] = field(default_factory=list)
    """Functions that may replace a request to load a file."""

    async def prepare(self) -> None:
        """Run the steps that precede an evaluation."""
        for step in self.before:
            await step()

    def has_follow_ups(self, request: Request) -> bool:
        """Return whether a step follows this evaluation."""
        return any(step.applies_to(request) for step in self.after)

    async def run_follow_ups(self, request: Request) -> None:
        """Run the steps that follow an evaluation."""
        for step in self.after:
            if step.applies_to(request):
                await step.run()

    def additional_fields(self, request: Request) -> dict[str, Any]:
        """Return the additional fields of a request."""
        return {name: value for added in self.fields for name, value in added(request).items()}

    def rewrite_load(self, request: Request) -> Request:
        """Return the request to send instead of a request to load a file."""
        for change in self.loads:
            request = change(request)
        return request


class Companion(Protocol):
    """What a feature attaches to one connected REPL."""

    @property
    def capabilities(self) -> Mapping[str, Capability]:
        """Return the capabilities that the REPL has because of what the companion has found so far."""


CreateCompanion = Callable[[ReplAccess, EvaluationSteps], Awaitable[Companion]]
"""Creates a companion. It may query the REPL, but it never raises."""


async def create_companions(
    factories: Iterable[CreateCompanion], access: ReplAccess, steps: EvaluationSteps
) -> dict[type, Any]:
    """Create the companions of a connected REPL, by their type."""
    companions = [await create(access, steps) for create in factories]
    return {type(companion): companion for companion in companions}


def with_companions(profile: Profile, companions: Iterable[Companion]) -> Profile:
    """Return the profile with the capabilities that companions have found."""
    found = {name: support for companion in companions for name, support in companion.capabilities.items()}
    return replace(profile, capabilities={**profile.capabilities, **found}) if found else profile
