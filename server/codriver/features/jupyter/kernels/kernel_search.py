"""The search for kernels in the workspace that another program started.

A kernel belongs to the workspace if its notebook does. The notebook is the one in the session that a Jupyter Server
lists for the kernel, or else the one in its connection file. For a kernel without a notebook, the working directory of
its process decides, where the system shows it.

The runtime directory is checked once a second, which costs one `stat`. Files are read after the directory has changed.
Servers are queried then, and every half minute. A connection file without a listener is not a kernel. It is reported
once and probed again: at each check while it is young, because a kernel takes some seconds to start, and later every 10
s.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core.state import Origin
from codriver.features.jupyter.kernels.connection_files import (
    ConnectionFile,
    Contents,
    NotebookServer,
    RuntimeDirectory,
)
from codriver.features.jupyter.kernels.kernel_processes import find_working_directories
from codriver.features.jupyter.kernels.server_sessions import (
    NotebookServerError,
    NotebookSession,
    is_alive,
    list_sessions,
)
from codriver.features.jupyter.kernels.session_keys import key_of_notebook
from codriver.repls.kinds import key_of_kernelspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

QUERY_SERVERS_S: Final = 30.0
RETRY_S: Final = 3.0
"""After a change: a server writes the kernel's file first, and has the session when the kernel is up."""
YOUNG_S: Final = 60.0
"""The time for a kernel to listen after its file was written."""
PROBE_S: Final = 10.0
STRANGE_PROBE_S: Final = 600.0
"""The rest between probes of dead files without an owner: there may be hundreds of them."""


@dataclass(frozen=True, slots=True)
class DiscoveredKernel:
    """A kernel that belongs to the workspace and seems to run, as far as can be told without asking the kernel."""

    identity: str
    origin: Origin
    address: str
    key: str
    kernel_id: str
    notebook: str | None
    written_ns: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """All kernels of the workspace at one time, and the problems with files without a kernel."""

    kernels: tuple[DiscoveredKernel, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    """Sentences on problems, by their cause."""


class KernelSearch:
    """The search for a workspace's kernels. Lives as long as whoever looks, one at a time; waits for disks and servers.

    `clock` gives seconds that only ever grow.
    """

    def __init__(
        self,
        workspace: Path,
        directory: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        directories_of: Callable[[Iterable[Path]], Mapping[Path, Path]] | None = None,
    ) -> None:
        self._workspace = workspace
        self._directory = RuntimeDirectory(directory)
        self._clock = clock
        self._directories_of = directories_of or find_working_directories
        self._contents: Contents | None = None
        self._found = Found()
        """The result of the last look."""
        self._sessions: tuple[NotebookSession, ...] = ()
        self._server_errors: dict[str, str] = {}
        self._query_at = 0.0
        self._verdicts: dict[ConnectionFile, tuple[bool, str | None]] = {}
        """Whether a kernel is the workspace's, and its notebook, once both are known."""
        self._alive: set[ConnectionFile] = set()
        self._doubted: frozenset[str] = frozenset()
        self._probe_at: dict[ConnectionFile, float] = {}

    def find(self) -> Found:
        """Return the present kernels."""
        contents, now = self._directory.contents(), self._clock()
        if contents is self._contents and not contents.kernels and now < self._query_at:
            return self._found
        self._found = self._search(contents, now)
        return self._found

    def _search(self, contents: Contents, now: float) -> Found:
        if contents is not self._contents:
            self._query_at = now if self._contents is None else min(self._query_at, now)
            self._contents = contents
            known = set(contents.kernels)
            self._verdicts = {file: verdict for file, verdict in self._verdicts.items() if file in known}
            self._probe_at = {file: due for file, due in self._probe_at.items() if file in known}
            self._alive &= known
        if now >= self._query_at:
            self._query_servers(contents.servers, now)
        self._assign(contents.kernels)
        self._probe(contents.kernels, now)
        self._assign(contents.kernels)  # the working folders of kernels found to run
        errors = [(str(path), f"the file {path} cannot be used: {why}") for path, why in contents.errors]
        errors += list(self._server_errors.items())
        kernels = []
        for file in contents.kernels:
            is_of_workspace, notebook = self._verdict(file)
            if is_of_workspace and file in self._alive:
                kernels.append(_of_file(file, notebook))
            elif is_of_workspace and not self._is_young(file):
                errors.append((str(file.path), _left_over(file, notebook)))
        kernels += self._without_file({file.kernel_id for file in contents.kernels})
        return Found(tuple(kernels), tuple(errors))

    def may_wait(self) -> bool:
        """True if a look may wait for more than the disk: for servers, or for listeners at a kernel's ports."""
        return self._contents is None or bool(self._contents.kernels or self._contents.servers)

    def probe_again(self, paths: Iterable[str]) -> None:
        """Find out again, only for kernels that were given up, whether anybody listens."""
        self._doubted = frozenset(paths)

    def _query_servers(self, servers: Iterable[NotebookServer], now: float) -> None:
        """Ask the servers for their sessions, and plan when to ask again."""
        concerned = [one for one in servers if one.overlaps(self._workspace) and is_alive(one)]
        sessions: list[NotebookSession] = []
        self._server_errors = {}
        for server in concerned:
            try:
                sessions += list_sessions(server)
            except NotebookServerError as error:
                self._server_errors[str(server.path)] = f"the Jupyter server of {server.root} is not used: {error}"
        has_more = self._sessions != tuple(sessions)
        self._sessions = tuple(sessions)
        is_awaited = any(file not in self._verdicts and self._is_young(file) for file in self._known())
        self._query_at = now + (RETRY_S if concerned and (is_awaited or has_more) else QUERY_SERVERS_S)

    def _known(self) -> tuple[ConnectionFile, ...]:
        return self._contents.kernels if self._contents is not None else ()

    def _is_young(self, file: ConnectionFile) -> bool:
        return time.time_ns() - file.written_ns < YOUNG_S * 10**9

    def _probe(self, kernels: Iterable[ConnectionFile], now: float) -> None:
        """Find out, if due, whether anybody listens at the ports of files not known to be alive."""
        for file in kernels:
            is_sure = file in self._alive and str(file.path) not in self._doubted
            if is_sure or self._verdicts.get(file, (True, None))[0] is False or now < self._probe_at.get(file, 0.0):
                continue
            was_alive = file in self._alive
            (self._alive.add if file.has_listener() else self._alive.discard)(file)
            self._probe_at[file] = now + self._probe_s(file, was_alive=was_alive)

    def _probe_s(self, file: ConnectionFile, *, was_alive: bool) -> float:
        """Return the time until the next probe for a listener."""
        if self._is_young(file) and not was_alive:
            return 0.0
        return PROBE_S if file in self._verdicts else STRANGE_PROBE_S

    def _assign(self, kernels: Iterable[ConnectionFile]) -> None:
        """Find out the working directory of each living kernel that tells no notebook, once a kernel."""
        by_id = {session.kernel_id: session for session in self._sessions}
        unknown = []
        for file in kernels:
            reported, session = Path(file.session), by_id.get(file.kernel_id)
            if file in self._verdicts and session is None:
                continue
            if session is not None:
                self._verdicts[file] = (self._is_within(session.path), _notebook(str(session.path)))
            elif reported.is_absolute():
                self._verdicts[file] = (self._is_within(reported), _notebook(file.session))
            elif file in self._alive:
                unknown.append(file)
        if unknown:
            directories = self._directories_of([file.path for file in unknown])
            for file in unknown:
                directory = directories.get(file.path)
                self._verdicts[file] = (directory is not None and self._is_within(directory), None)

    def _without_file(self, known: set[str]) -> list[DiscoveredKernel]:
        """Return the kernels of the workspace that only a server tells, without a file that we may read."""
        of_workspace = [one for one in self._sessions if one.kernel_id not in known and self._is_within(one.path)]
        return [_of_session(session) for session in {one.kernel_id: one for one in of_workspace}.values()]

    def _verdict(self, file: ConnectionFile) -> tuple[bool, str | None]:
        return self._verdicts.get(file, (False, None))

    def _is_within(self, path: Path) -> bool:
        return path.is_relative_to(self._workspace) or Path(os.path.realpath(path)).is_relative_to(self._workspace)


def _notebook(path: str) -> str | None:
    """Return the path of a notebook; a console has only a name in its server, and no file."""
    return path if key_of_notebook(path) else None


def _of_file(file: ConnectionFile, notebook: str | None) -> DiscoveredKernel:
    key = (key_of_notebook(notebook) if notebook else None) or key_of_kernelspec(file.kernel_name)
    origin = Origin("kernel", str(file.path), is_discovered_only=True)
    return DiscoveredKernel(f"kernel:{file.path}", origin, file.address, key, file.kernel_id, notebook, file.written_ns)


def _of_session(session: NotebookSession) -> DiscoveredKernel:
    notebook = _notebook(str(session.path))
    key = (key_of_notebook(notebook) if notebook else None) or key_of_kernelspec(session.kernel_name)
    origin = Origin("server", session.url, is_discovered_only=True)
    return DiscoveredKernel(
        f"server:{session.kernel_id}", origin, f"jupyter+{session.url}", key, session.kernel_id, notebook
    )


def _left_over(file: ConnectionFile, notebook: str | None) -> str:
    whose = f"the kernel of {notebook}" if notebook else "a kernel"
    return f"nobody listens at the port in {file.path}, the file of {whose}: it may be left from one that is gone"
