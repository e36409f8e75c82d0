"""Evaluation extensions: values with which features extend evaluations, their requests and their messages.

Adapters do not know about any feature. They send the fields of an extension, or run its operations in a kernel, and
pass the REPL's report to the listener, with the name of the extension.
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

    from codriver.repls.contract.capabilities import ServerCapability
    from codriver.repls.contract.companions import CreateCompanion

Rewrite = Callable[[dict[str, Any]], dict[str, Any]]
"""Changes the fields of a request before it is sent."""


class EvaluationExtension(Protocol):
    """A frozen value in `Request.extensions` with which a feature extends one evaluation.

    An evaluation with an extension is never sent in the event loop iteration in which it was requested.
    """

    @property
    def fields(self) -> Mapping[str, Any]:
        """Return the additional fields for the request to Codriver's worker."""

    @property
    def report(self) -> str:
        """Return the name of the report that the extension produces."""

    def begin(self, directory: str) -> tuple[str, Mapping[str, object]]:
        """Return the operation that a Python kernel runs before the code, with its arguments.

        `directory` is the directory of the project.
        """

    @property
    def end(self) -> str:
        """Return the operation that a Python kernel runs after the code to obtain the report."""


class EvaluationWrapper(Protocol):
    """A feature's programs that run before and after the evaluations in one REPL.

    An instance is created and closed together with its adapter.
    """

    def run_around(self, evaluation: str, extension: Any) -> AbstractAsyncContextManager[Rewrite | None]:
        """Return a context manager to use around an evaluation. It yields a function to change its requests, or None.

        `extension` has the type for which the feature registered this object.
        """


@dataclass(frozen=True)
class AdapterHooks:
    """Everything that a server's features add to its adapters."""

    reply_fields: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The names of reports, by the message field that contains the report."""
    around: Mapping[type, Callable[..., EvaluationWrapper]] = field(default_factory=lambda: MappingProxyType({}))
    """Functions that create the wrapper for an nREPL server, by the type of the extension that needs the wrapper.

    Each is called as `make(sessions, probed, listener, workspace)`.
    """
    capabilities: Sequence[ServerCapability] = ()
    """The capabilities that features define."""
    companions: Sequence[CreateCompanion] = ()
    """Functions that create the companions of each REPL. See `contract.companions`."""


NO_HOOKS = AdapterHooks()
"""The hooks of a server without features."""


@dataclass(frozen=True)
class Programs:
    """The additions made by all features to one nREPL server's adapter. They live as long as the adapter."""

    report_fields: Sequence[tuple[str, str]]
    """The message fields that contain reports, each with the name of the report."""
    around: Mapping[type, EvaluationWrapper]

    @asynccontextmanager
    async def run_programs(
        self, evaluation: str, extensions: Sequence[EvaluationExtension]
    ) -> AsyncIterator[Rewrite | None]:
        """Run the programs that an evaluation's extensions need around it.

        Yields a function that changes the evaluation's requests, or None.
        """
        async with AsyncExitStack() as stack:
            rewrites: list[Rewrite] = []
            for extension in extensions:
                program = self.around.get(type(extension))
                if program is not None:
                    rewrite = await stack.enter_async_context(program.run_around(evaluation, extension))
                    rewrites += [] if rewrite is None else [rewrite]
            yield partial(_apply_rewrites, rewrites) if rewrites else None


def _apply_rewrites(rewrites: Sequence[Rewrite], fields: dict[str, Any]) -> dict[str, Any]:
    for rewrite in rewrites:
        fields = rewrite(fields)
    return fields
