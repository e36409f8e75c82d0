"""What a feature adds to an evaluation, as adapters see it: values of a request, wire fields, and reports.

An adapter knows no feature. It sends the fields of an extra, or runs its operations in a kernel, and hands what the
REPL reports back to the listener of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from contextlib import AbstractAsyncContextManager

    from codriver.repls.contract.adapter_values import ServerCapability

Rewrite = Callable[[dict[str, Any]], dict[str, Any]]
"""Change the wire fields of one request."""


class Extra(Protocol):
    """What a feature adds to one evaluation: a frozen value in `Request.extras`.

    An evaluation with an extra is never sent in the turn of the event loop in which it was requested.
    """

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return the fields of the request to Codriver's own worker."""

    @property
    def report(self) -> str:
        """Return the name of the report that comes of it."""

    def begin(self, directory: str) -> tuple[str, Mapping[str, object]]:
        """Return the operation that begins it in a kernel of Python, with its arguments. `directory`: the project's."""

    @property
    def end(self) -> str:
        """Return the operation that ends it in a kernel of Python, and returns the report."""


class Around(Protocol):
    """Programs of a feature that run around the evaluations of one REPL. Lives as long as the REPL's adapter."""

    def around(self, evaluation: str, extra: Any) -> AbstractAsyncContextManager[Rewrite | None]:
        """Return the context of an evaluation, which may change the fields of its requests.

        `extra` is of the feature's own type.
        """


@dataclass(frozen=True)
class AdapterHooks:
    """What features add to the adapters of a server."""

    reply_fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The names of reports by the fields of replies that carry them, as JSON texts."""
    around: Mapping[type, Callable[..., Around]] = field(default_factory=lambda: MappingProxyType({}))
    """The makers of programs for nREPL servers, by the type of the extra that needs them. They are called as
    `make(sessions, probed, listener, workspace)`."""
    capabilities: Sequence[ServerCapability] = ()
    """The capabilities that REPLs have by operations of their servers."""


NO_HOOKS = AdapterHooks()


@dataclass(frozen=True)
class Programs:
    """What features add to the adapter of one nREPL server, for its life."""

    reply_fields: Mapping[str, str]
    around: Mapping[type, Around]

    @asynccontextmanager
    async def running(self, evaluation: str, extras: Sequence[Extra]) -> AsyncIterator[Rewrite | None]:
        """Run the programs that the extras of an evaluation need, and yield their change of its requests, if any."""
        async with AsyncExitStack() as stack:
            rewrites: list[Rewrite] = []
            for extra in extras:
                program = self.around.get(type(extra))
                if program is not None:
                    rewrite = await stack.enter_async_context(program.around(evaluation, extra))
                    rewrites += [] if rewrite is None else [rewrite]
            yield partial(_rewritten, rewrites) if rewrites else None


def _rewritten(rewrites: Sequence[Rewrite], fields: dict[str, Any]) -> dict[str, Any]:
    for rewrite in rewrites:
        fields = rewrite(fields)
    return fields
