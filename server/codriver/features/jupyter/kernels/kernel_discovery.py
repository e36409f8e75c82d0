"""Discovery of kernels that another program started in the workspace.

They are listed and connected, but still belong to the person who started them. Codriver never shuts them down, and they
are only restarted for a caller who names their session.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from codriver.core.actions import Action, AddServerLine, ReplForgotten, ReplFound
from codriver.errors import install_extra
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.kernel_search import DiscoveredKernel, Found, KernelSearch
from codriver.files.polling import PORT_FILES_S, Poller
from codriver.repls.kinds import split_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core


POLL_S: Final = 2 * PORT_FILES_S
MISSING: Final = (
    f"it cannot be used yet, as jupyter_client is not installed: {install_extra('jupyter')}, and start the server again"
)


class KernelDiscovery:
    """Discovers kernels and tells the core of them, for the life of one server."""

    def __init__(
        self,
        *,
        core: Core,
        workspace: Path,
        environ: Mapping[str, str],
        protocols: Collection[str],
        named_ids: Callable[[], Collection[str]],
    ) -> None:
        """`protocols`: the protocols of connectable addresses. `named_ids`: kernels that are REPLs already."""
        self._core = core
        self._named_ids = named_ids
        self._search = KernelSearch(workspace, runtime_directory(environ))
        self._protocols = protocols
        self._written: dict[str, int] = {}
        self._reported: Mapping[str, str] = {}
        self._seen: Found | None = None

    async def run(self) -> None:
        """Search for kernels until cancelled."""
        poller = Poller(self._search.find, interval_s=POLL_S, may_wait=self._search.may_wait)
        while True:
            try:
                self._reconcile(await poller.next(self._is_changed))
            except Exception as error:  # noqa: BLE001  # in the server's task group it would end the server
                self._report({"": f"kernels could not be looked for: {error!r}"})

    def _is_changed(self, found: Found) -> bool:
        """Return true if the finding differs from the last, or has kernels, whose fate the state decides.

        In a thread.
        """
        before, self._seen = self._seen, found
        repls = self._core.state.repls.values()
        return found != before or bool(found.kernels) or any(repl.origin.is_discovered_only for repl in repls)

    def _reconcile(self, found: Found) -> None:
        """Give the core the present kernels that it does not know by another way as its found kernels."""
        repls = self._core.state.repls.values()
        known = {repl.id: repl for repl in repls if repl.origin.is_discovered_only}
        used = {
            _kernel_id(repl.address): repl.id
            for repl in repls
            if repl.address and (repl.id not in known or repl.phase == "connected")
        }
        used |= dict.fromkeys(self._named_ids(), "")
        expected = {
            one.identity: one
            for one in found.kernels
            # One kernel may be known by its file and by its server.
            if used.get(one.kernel_id, one.identity) == one.identity
            and split_address(one.address)[0] in self._protocols
        }
        actions: list[Action] = [
            _as_found(one, rewritten=is_rewritten)
            for one in expected.values()
            if (is_rewritten := self._written.get(one.identity, one.written_ns) != one.written_ns)
            or one.identity not in known
            or one.notebook not in (None, known[one.identity].notebook)
        ]
        actions += [
            ReplForgotten(repl.id) for repl in known.values() if repl.id not in expected and repl.phase != "connected"
        ]
        self._written = {one.identity: one.written_ns for one in expected.values()}
        if actions:
            self._core.report(*actions)
        self._report(dict(found.errors))
        self._search.probe_again(repl.origin.text for repl in known.values() if repl.phase == "stopped")

    def _report(self, errors: Mapping[str, str]) -> None:
        """Tell each problem, once while it lasts."""
        lines = [AddServerLine(sentence) for what, sentence in errors.items() if self._reported.get(what) != sentence]
        self._reported = errors
        if lines:
            self._core.report(*lines)


def _kernel_id(address: str) -> str:
    """Return the id of the kernel at an address, from its connection file or its URL."""
    name = address.partition("?")[0].rpartition("/")[2]
    return name.removeprefix("kernel-").removesuffix(".json")


def _as_found(found: DiscoveredKernel, *, rewritten: bool) -> ReplFound:
    missing = MISSING if find_spec("jupyter_client") is None else None
    return ReplFound(
        found.identity, found.key, found.origin, found.address, rewritten=rewritten, notebook=found.notebook,
        error=missing,
    )  # fmt: skip
