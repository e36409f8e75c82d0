"""Connect to running kernels in the workspace that other programs started.

Codriver lists these kernels and connects to them, but they still belong to the person who started them. It never shuts
them down, and restarts them only for a caller who names their session.
"""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from codriver.core.actions import Action, AddRepl, AddServerLine, DropRepl
from codriver.errors import install_command
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.workspace_kernels import DiscoveredKernel, KernelSearch, SearchResult
from codriver.files.polling import PORT_FILE_CHECK_INTERVAL_S, Poller
from codriver.repls.kinds import split_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core
    from codriver.core.state import Repl


SEARCH_INTERVAL_S: Final = 2 * PORT_FILE_CHECK_INTERVAL_S
"""Interval between searches."""
FIRST_RETRY_DELAY_S: Final = 15.0
"""Delay before retrying a failed connection to a kernel that is still listening. The delay doubles each time."""
MAX_RETRY_DELAY_S: Final = 600.0
"""Maximum delay before another attempt. A kernel with a different key prints a warning for each attempt."""
NOT_INSTALLED_MESSAGE: Final = (
    "the kernel cannot be used because jupyter_client is not installed: run "
    f"{install_command('jupyter')}, and restart the server"
)


class KernelDiscovery:
    """Searches the workspace for kernels that other programs started, and registers them as REPLs."""

    def __init__(
        self,
        *,
        core: Core,
        workspace: Path,
        environ: Mapping[str, str],
        protocols: Collection[str],
        named_ids: Callable[[], Collection[str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Initialize the discovery without starting to search.

        `protocols` contains the protocols of addresses that the server can connect to. `named_ids` returns the ids of
        kernels that are already REPLs. `clock` returns monotonic seconds.
        """
        self._core = core
        self._named_ids = named_ids
        self._search = KernelSearch(workspace, runtime_directory(environ))
        self._protocols = protocols
        self._clock = clock
        self._next_attempts: dict[str, tuple[float, float]] = {}
        """For each kernel that could not be connected, the time of the next attempt and the interval before it."""
        self._written_ns: dict[str, int] = {}
        self._reported: Mapping[str, str] = {}
        self._last_result: SearchResult | None = None

    async def run(self) -> None:
        """Search for kernels until cancelled."""
        poller = Poller(self._search.find, interval_s=SEARCH_INTERVAL_S, may_wait=self._search.may_wait)
        while True:
            try:
                self._reconcile(await poller.next_result(self._needs_reconciling))
            except Exception as error:  # noqa: BLE001  # it would end the server's task group
                self._report({"": f"the search for kernels failed: {error!r}"})

    def _needs_reconciling(self, result: SearchResult) -> bool:
        """Return whether a search result has to be compared with the registered REPLs. Called in a thread."""
        previous, self._last_result = self._last_result, result
        repls = self._core.state.repls.values()
        return result != previous or bool(result.kernels) or any(repl.origin.is_discovered_only for repl in repls)

    def _reconcile(self, result: SearchResult) -> None:
        """Register newly found kernels as REPLs, and remove REPLs whose kernels are gone."""
        repls = self._core.state.repls.values()
        discovered = {repl.id: repl for repl in repls if repl.origin.is_discovered_only}
        used_by = {
            _kernel_id(repl.address): repl.id
            for repl in repls
            if repl.address and (repl.id not in discovered or repl.phase == "connected")
        }
        used_by |= dict.fromkeys(self._named_ids(), "")
        expected = {
            kernel.identity: kernel
            for kernel in result.kernels
            # A kernel may be found both by its file and through its server.
            if used_by.get(kernel.kernel_id, kernel.identity) == kernel.identity
            and split_address(kernel.address)[0] in self._protocols
        }
        actions: list[Action] = [
            _found_action(kernel, rewritten=is_rewritten)
            for kernel in expected.values()
            if (is_rewritten := self._written_ns.get(kernel.identity, kernel.written_ns) != kernel.written_ns)
            or kernel.identity not in discovered
            or kernel.notebook not in (None, discovered[kernel.identity].document)
            or self._is_attempt_due(discovered[kernel.identity])
        ]
        actions += [
            DropRepl(repl.id, "the kernel is gone, which also happens when it is restarted in VS Code")
            for repl in discovered.values()
            if repl.id not in expected and repl.phase != "connected"
        ]
        self._written_ns = {kernel.identity: kernel.written_ns for kernel in expected.values()}
        self._next_attempts = {
            identity: attempt
            for identity, attempt in self._next_attempts.items()
            if identity in expected and discovered[identity].phase != "connected"
        }
        if actions:
            self._core.report(*actions)
        self._report(dict(result.errors))
        self._search.probe_again(repl.origin.text for repl in discovered.values() if repl.phase == "stopped")

    def _is_attempt_due(self, repl: Repl) -> bool:
        """Return whether to try connecting to a kernel again, and schedule the next attempt.

        The kernel is still listening, so it may just have been too busy to answer while it was starting.
        """
        if repl.phase != "stopped" or find_spec("jupyter_client") is None:
            return False
        now = self._clock()
        attempt_at, interval_s = self._next_attempts.get(repl.id, (now + FIRST_RETRY_DELAY_S, FIRST_RETRY_DELAY_S))
        if is_due := now >= attempt_at:
            interval_s = min(2 * interval_s, MAX_RETRY_DELAY_S)
            attempt_at = now + interval_s
        self._next_attempts[repl.id] = attempt_at, interval_s
        return is_due

    def _report(self, errors: Mapping[str, str]) -> None:
        """Report each error once until it is resolved."""
        lines = [
            AddServerLine(sentence) for subject, sentence in errors.items() if self._reported.get(subject) != sentence
        ]
        self._reported = errors
        if lines:
            self._core.report(*lines)


def _kernel_id(address: str) -> str:
    """Return the id of the kernel at an address. The id is part of the connection file's name or the URL."""
    name = address.partition("?")[0].rpartition("/")[2]
    return name.removeprefix("kernel-").removesuffix(".json")


def _found_action(kernel: DiscoveredKernel, *, rewritten: bool) -> AddRepl:
    error = NOT_INSTALLED_MESSAGE if find_spec("jupyter_client") is None else None
    return AddRepl(
        kernel.identity, kernel.key, kernel.origin, kernel.address, rewritten=rewritten, document=kernel.notebook,
        error=error,
    )  # fmt: skip
