"""Search for the workspace's running kernels in connection files and on Jupyter Servers.

A kernel belongs to the workspace if its notebook does. The notebook is the one in the session that a Jupyter Server
lists for the kernel, or else the one in its connection file. For a kernel without a notebook, the working directory of
its process is used, if the system reveals it.

The runtime directory is checked once a second, which costs one `stat`. When the directory has changed, files are read
and servers are queried. Servers are also queried every half minute. A connection file without a listener is not a
kernel. It is reported once and probed again: on each check while it is new, because a kernel takes some seconds to
start, and later every 10 s.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.features.jupyter.kernel_kind import session_key_for_kernelspec, session_key_for_notebook
from codriver.features.jupyter.kernel_origins import kernel_of_file, kernel_of_server
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from codriver.core.state import Origin

SERVER_QUERY_INTERVAL_S: Final = 30.0
"""Interval between queries of the servers."""
CHANGE_QUERY_INTERVAL_S: Final = 3.0
"""Interval between queries of the servers while their kernels or sessions are changing.

A server writes a kernel's file before it lists the kernel's session.
"""
MAX_KERNEL_START_S: Final = 60.0
"""Maximum time that a kernel may take to start listening after its connection file is written."""
PROBE_INTERVAL_S: Final = 10.0
"""Interval between probes of a kernel that belongs to the workspace but is not listening."""
UNASSIGNED_PROBE_INTERVAL_S: Final = 600.0
"""Interval between probes of files that are not known to belong to the workspace. There may be hundreds of old ones."""


@dataclass(frozen=True, slots=True)
class DiscoveredKernel:
    """A kernel that belongs to the workspace and appears to be running."""

    identity: str
    origin: Origin
    address: str
    key: str
    kernel_id: str
    notebook: str | None
    written_ns: int = 0


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The workspace's kernels at the time of a search, and errors about unusable files."""

    kernels: tuple[DiscoveredKernel, ...] = ()
    errors: tuple[tuple[str, str], ...] = ()
    """The subject of each error, and a sentence about it."""


class KernelSearch:
    """Finds the kernels of a workspace. Not thread-safe.

    Searches block while reading the disk, querying servers and probing ports. `clock` returns monotonic seconds.
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
        self._result = SearchResult()
        """The result of the last search."""
        self._sessions: tuple[NotebookSession, ...] = ()
        self._server_errors: dict[str, str] = {}
        self._next_query_at = 0.0
        self._assignments: dict[ConnectionFile, tuple[bool, str | None]] = {}
        """Whether each kernel belongs to the workspace, and its notebook, once both are known."""
        self._alive: set[ConnectionFile] = set()
        self._suspects: frozenset[str] = frozenset()
        self._next_probe_at: dict[ConnectionFile, float] = {}

    def find(self) -> SearchResult:
        """Search for kernels, and return the result."""
        contents, now = self._directory.contents(), self._clock()
        if contents is self._contents and not contents.kernels and now < self._next_query_at:
            return self._result
        self._result = self._search(contents, now)
        return self._result

    def _search(self, contents: Contents, now: float) -> SearchResult:
        if contents is not self._contents:
            self._next_query_at = now if self._contents is None else min(self._next_query_at, now)
            self._contents = contents
            current = set(contents.kernels)
            self._assignments = {file: assignment for file, assignment in self._assignments.items() if file in current}
            self._next_probe_at = {file: probe_at for file, probe_at in self._next_probe_at.items() if file in current}
            self._alive &= current
        if now >= self._next_query_at:
            self._query_servers(contents.servers, now)
        self._assign_kernels(contents.kernels)
        self._probe(contents.kernels, now)
        self._assign_kernels(contents.kernels)  # the probes may have found kernels whose working directories are needed
        errors = [(str(path), f"the file {path} cannot be used: {reason}") for path, reason in contents.errors]
        errors += list(self._server_errors.items())
        kernels = []
        for file in contents.kernels:
            is_of_workspace, notebook = self._assignment(file)
            if is_of_workspace and file in self._alive:
                kernels.append(_kernel_with_file(file, notebook))
            elif is_of_workspace and not self._is_young(file):
                errors.append((str(file.path), _stale_file_message(file, notebook)))
        kernels += self._kernels_without_file({file.kernel_id for file in contents.kernels})
        return SearchResult(tuple(kernels), tuple(errors))

    def may_wait(self) -> bool:
        """Return whether the next search may block on servers or ports, and not just on the disk."""
        return self._contents is None or bool(self._contents.kernels or self._contents.servers)

    def probe_again(self, paths: Iterable[str]) -> None:
        """Probe the kernels with these connection files during the next search, even if they were alive before."""
        self._suspects = frozenset(paths)

    def _query_servers(self, servers: Iterable[NotebookServer], now: float) -> None:
        """Query the servers for their sessions, and schedule the next query."""
        relevant = [server for server in servers if server.overlaps(self._workspace) and is_alive(server)]
        sessions: list[NotebookSession] = []
        self._server_errors = {}
        for server in relevant:
            try:
                sessions += list_sessions(server)
            except NotebookServerError as error:
                self._server_errors[str(server.path)] = f"the Jupyter server in {server.root} is not used: {error}"
        has_changed = self._sessions != tuple(sessions)
        self._sessions = tuple(sessions)
        is_awaited = any(file not in self._assignments and self._is_young(file) for file in self._connection_files())
        self._next_query_at = now + (
            CHANGE_QUERY_INTERVAL_S if relevant and (is_awaited or has_changed) else SERVER_QUERY_INTERVAL_S
        )

    def _connection_files(self) -> tuple[ConnectionFile, ...]:
        return self._contents.kernels if self._contents is not None else ()

    def _is_young(self, file: ConnectionFile) -> bool:
        return time.time_ns() - file.written_ns < MAX_KERNEL_START_S * 10**9

    def _probe(self, kernels: Iterable[ConnectionFile], now: float) -> None:
        """Probe the ports of kernels that are not known to be alive and whose next probe is due."""
        for file in kernels:
            is_sure = file in self._alive and str(file.path) not in self._suspects
            if (
                is_sure
                or self._assignments.get(file, (True, None))[0] is False
                or now < self._next_probe_at.get(file, 0.0)
            ):
                continue
            was_alive = file in self._alive
            (self._alive.add if file.has_listener() else self._alive.discard)(file)
            self._next_probe_at[file] = now + self._probe_interval_s(file, was_alive=was_alive)

    def _probe_interval_s(self, file: ConnectionFile, *, was_alive: bool) -> float:
        """Return the interval in seconds until the next probe of a kernel."""
        if self._is_young(file) and not was_alive:
            return 0.0
        return PROBE_INTERVAL_S if file in self._assignments else UNASSIGNED_PROBE_INTERVAL_S

    def _assign_kernels(self, kernels: Iterable[ConnectionFile]) -> None:
        """Determine which kernels belong to the workspace.

        A kernel belongs to it if the kernel's notebook is in the workspace, or if the kernel has no notebook and its
        working directory is in the workspace.
        """
        sessions_by_kernel = {session.kernel_id: session for session in self._sessions}
        unassigned = []
        for file in kernels:
            notebook, session = Path(file.session), sessions_by_kernel.get(file.kernel_id)
            if file in self._assignments and session is None:
                continue
            if session is not None:
                self._assignments[file] = (self._is_within(session.path), _notebook_path(str(session.path)))
            elif notebook.is_absolute():
                self._assignments[file] = (self._is_within(notebook), _notebook_path(file.session))
            elif file in self._alive:
                unassigned.append(file)
        if unassigned:
            directories = self._directories_of([file.path for file in unassigned])
            for file in unassigned:
                directory = directories.get(file.path)
                self._assignments[file] = (directory is not None and self._is_within(directory), None)

    def _kernels_without_file(self, known_ids: set[str]) -> list[DiscoveredKernel]:
        """Return the workspace's kernels that are listed by a server but have no readable connection file."""
        sessions = {
            session.kernel_id: session
            for session in self._sessions
            if session.kernel_id not in known_ids and self._is_within(session.path)
        }
        return [_kernel_of_session(session) for session in sessions.values()]

    def _assignment(self, file: ConnectionFile) -> tuple[bool, str | None]:
        return self._assignments.get(file, (False, None))

    def _is_within(self, path: Path) -> bool:
        return path.is_relative_to(self._workspace) or Path(os.path.realpath(path)).is_relative_to(self._workspace)


def _notebook_path(path: str) -> str | None:
    """Return the path of a session if the session is a notebook, or None. Consoles are listed without a suffix."""
    return path if session_key_for_notebook(path) else None


def _kernel_with_file(file: ConnectionFile, notebook: str | None) -> DiscoveredKernel:
    key = (session_key_for_notebook(notebook) if notebook else None) or session_key_for_kernelspec(file.kernel_name)
    origin = kernel_of_file(file.path, is_discovered_only=True)
    return DiscoveredKernel(f"kernel:{file.path}", origin, file.address, key, file.kernel_id, notebook, file.written_ns)


def _kernel_of_session(session: NotebookSession) -> DiscoveredKernel:
    notebook = _notebook_path(str(session.path))
    key = (session_key_for_notebook(notebook) if notebook else None) or session_key_for_kernelspec(session.kernel_name)
    origin = kernel_of_server(session.url, is_discovered_only=True)
    return DiscoveredKernel(
        f"server:{session.kernel_id}", origin, f"jupyter+{session.url}", key, session.kernel_id, notebook
    )


def _stale_file_message(file: ConnectionFile, notebook: str | None) -> str:
    kernel = f"the kernel of {notebook}" if notebook else "a kernel"
    return f"nothing is listening on the port in {file.path}, the file of {kernel}. The kernel may have exited"
