"""Discovery of kernels that somebody else started, with their notebook or their folder in the workspace.

A kernel belongs to the workspace by the session that a Jupyter Server has for it, else by the notebook in its
connection file, else by the working directory of its process, if the system tells. The kernel is listed and connected,
and stays its human's: nothing here ends it, and its server restarts it only for a caller who names its session.

The runtime folder is looked at once a second, which costs one `stat`; files are read after it changed, servers asked
after that and every half minute. A file without a listener at its port is no REPL: such a file is told once, and tried
again, often while it is young, as a kernel needs some seconds to come up, then every 10 s.

A server on this machine is asked for its sessions with its token. The exchange is one request and its whole answer,
bounded in time and length. It blocks, so it runs in a thread. No redirection is followed. Every GET asks not to be
taken for an activity of the user, after which the server would never cull an idle kernel. Source: Jupyter Server's REST
API, `GET /api/sessions`, `no_track_activity`.
"""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from codriver.core.actions import Action, AddServerLine, ReplForgotten, ReplFound
from codriver.core.state import Origin
from codriver.errors import CodriverError, install_extra
from codriver.features.jupyter.kernels.connection_files import (
    LOOPBACK,
    ConnectionFile,
    Contents,
    NotebookServer,
    RuntimeDirectory,
    key_of_notebook,
    runtime_directory,
)
from codriver.features.jupyter.kernels.kernel_processes import directories_of_processes
from codriver.files.polling import PORT_FILES_S, Poller
from codriver.repls.kinds import key_of_kernelspec, split_address
from codriver.systems.other_processes import is_running

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from http.client import HTTPConnection, HTTPResponse

    from codriver.core.dispatch import Core


ANSWER_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 1 << 20

ADDED_BY_EDITOR: Final = re.compile(r"-jvsc-[0-9a-f-]{32,36}(?=(?:\.ipynb)?$)")
"""The text that VS Code adds to the name of a notebook when it asks for a session. Source: vscode-jupyter,
`jvscIdentifier`.
"""


class NotebookServerError(CodriverError):
    """A Jupyter Server did not tell its sessions. The message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class NotebookSession:
    """A notebook or console that is open in a server, and its kernel."""

    path: Path
    """Absolute."""
    kernel_id: str
    kernel_name: str
    url: str
    """The kernel's own at the server, without a token."""


def is_alive(server: NotebookServer) -> bool:
    """Whether the process that wrote the server's file may still run: a dead one's port may be a stranger's now."""
    return is_running(server.process_id, of_this_user=True)  # another user's process did not write this user's file


def sessions_of(server: NotebookServer) -> tuple[NotebookSession, ...]:
    """Return the sessions of a server on this machine. Waits for its answer, 2 s at most.

    The token goes to loopback addresses alone, in a header, and no redirection is followed.

    Raises:
        NotebookServerError: the server did not tell.
    """
    from http.client import FORBIDDEN, OK, UNAUTHORIZED, HTTPException  # noqa: PLC0415  # a fifth of a MB that few servers need

    parts = urlsplit(server.url)
    if parts.hostname not in LOOPBACK or parts.scheme not in ("http", "https"):
        raise NotebookServerError(f"it is not asked at {server.url}, which is no loopback address")
    # A self-made certificate on loopback: nobody signs one for localhost.
    tls = ssl._create_unverified_context() if parts.scheme == "https" else None  # noqa: S323, SLF001  # its own name
    exchange = HttpExchange(server.url, timeout_s=ANSWER_S, max_bytes=MAX_ANSWER_BYTES)
    token = {"Authorization": f"token {server.token}"} if server.token else {}
    try:
        status, data = exchange.run("GET", "/api/sessions", headers={"Accept": "application/json", **token}, tls=tls)
    except (OSError, HTTPException) as error:
        raise NotebookServerError(f"nothing answers at {server.url} ({error})") from error
    if status in (UNAUTHORIZED, FORBIDDEN):
        raise NotebookServerError(f"the server at {server.url} refused the token in {server.path}")
    if status != OK:
        raise NotebookServerError(f"the server at {server.url} answered with status {status}")
    return read_sessions(server, data)


def where_open(notebook: Path, servers: Iterable[NotebookServer]) -> str | None:
    """The server in which a notebook is open, or may be, in words; None if none of these servers has it open.

    Waits for the answers of servers whose folder the notebook is in.
    """
    for server in servers:
        if not (notebook.is_relative_to(server.root.resolve()) and is_alive(server)):
            continue
        try:
            is_open = any(session.path.resolve() == notebook for session in sessions_of(server))
        except NotebookServerError as error:
            if isinstance(error.__cause__, ConnectionRefusedError):
                continue  # the server is gone, and its process id is another's
            return f"the Jupyter Server at {server.url}, perhaps ({error})"
        if is_open:
            return f"the Jupyter Server at {server.url}"
    return None


def read_sessions(server: NotebookServer, data: bytes) -> tuple[NotebookSession, ...]:
    """Return the sessions in a server's answer, without invalid rows.

    Raises:
        NotebookServerError: the answer is no list.
    """
    try:
        rows = json.loads(data)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list):
        raise NotebookServerError(f"the server at {server.url} answered with something else than a list")
    return tuple(found for row in rows if (found := _read(server, row)))


def _read(server: NotebookServer, row: object) -> NotebookSession | None:
    kernel = row.get("kernel") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(kernel, dict):
        return None
    path, id_, name = row.get("path"), kernel.get("id"), kernel.get("name")
    if not (isinstance(path, str) and path and isinstance(id_, str) and id_.replace("-", "").isalnum()):
        return None
    # As the server joins them: a path that begins with a slash is below its folder too.
    absolute = Path(os.path.normpath(server.root / ADDED_BY_EDITOR.sub("", path.lstrip("/"))))
    return NotebookSession(absolute, id_, str(name or ""), f"{server.url.rstrip('/')}/api/kernels/{id_}")


MOST_BYTES: Final = 16 * 2**20
CHUNK_BYTES: Final = 64 * 1024


class HttpExchange:
    """One exchange with the server at a URL. `abort` ends it from another thread: a slow server would hold it.

    `timeout_s` bounds the wait for each piece of the answer, and the answer as a whole.
    """

    def __init__(self, base: str, *, timeout_s: float, max_bytes: int = MOST_BYTES) -> None:
        self._base = urlsplit(base)
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._socket: socket.socket | None = None

    def run(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> tuple[int, bytes]:
        """The status and the body of the answer. `path`: from the base URL's own path on. `tls`: how HTTPS is spoken.

        Raises:
            OSError: the server is not reached, TLS fails, or the answer takes too long.
            HTTPException: the answer is no HTTP, or too long.
        """
        ends = time.monotonic() + self._timeout_s
        with closing(self._connection(tls)) as connection:
            connection.connect()
            self._socket = connection.sock  # an answer without a length takes it away from the connection
            query = "?no_track_activity=1" if method == "GET" else ""
            connection.request(method, self._base.path.rstrip("/") + path + query, body, dict(headers))
            with connection.getresponse() as answer:
                return answer.status, self._read(answer, ends)

    def abort(self) -> None:
        """End the exchange, if it is still under way."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _connection(self, tls: ssl.SSLContext | None) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415  # as above

        host, port = self._base.hostname or "", self._base.port
        if tls is None:
            return HTTPConnection(host, port, timeout=self._timeout_s)
        return HTTPSConnection(host, port, timeout=self._timeout_s, context=tls)

    def _read(self, answer: HTTPResponse, ends: float) -> bytes:
        from http.client import HTTPException  # noqa: PLC0415  # as above

        chunks, size = [], 0
        while chunk := answer.read1(CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > self._max_bytes:
                raise HTTPException(f"an answer of more than {self._max_bytes:,} bytes")
            if time.monotonic() > ends:
                raise TimeoutError(f"an answer that takes longer than {self._timeout_s:g} s")
        return b"".join(chunks)


POLL_S: Final = 2 * PORT_FILES_S
QUERY_SERVERS_S: Final = 30.0
RETRY_S: Final = 3.0
"""After a change: a server writes the kernel's file first, and has the session when the kernel is up."""
YOUNG_S: Final = 60.0
"""The time for a kernel to listen after its file was written."""
PROBE_S: Final = 10.0
STRANGE_PROBE_S: Final = 600.0
"""The rest between probes of dead files without an owner: there may be hundreds of them."""
MISSING: Final = (
    f"it cannot be used yet, as jupyter_client is not installed: {install_extra('jupyter')}, and start the server again"
)


@dataclass(frozen=True, slots=True)
class FoundKernel:
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

    kernels: tuple[FoundKernel, ...] = ()
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
        self._directories_of = directories_of or directories_of_processes
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

    def doubt(self, paths: Iterable[str]) -> None:
        """Find out again, only for kernels that were given up, whether anybody listens."""
        self._doubted = frozenset(paths)

    def _query_servers(self, servers: Iterable[NotebookServer], now: float) -> None:
        """Ask the servers for their sessions, and plan when to ask again."""
        concerned = [one for one in servers if one.concerns(self._workspace) and is_alive(one)]
        sessions: list[NotebookSession] = []
        self._server_errors = {}
        for server in concerned:
            try:
                sessions += sessions_of(server)
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
            (self._alive.add if file.is_listened_to() else self._alive.discard)(file)
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

    def _without_file(self, known: set[str]) -> list[FoundKernel]:
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


def _of_file(file: ConnectionFile, notebook: str | None) -> FoundKernel:
    key = (key_of_notebook(notebook) if notebook else None) or key_of_kernelspec(file.kernel_name)
    origin = Origin("kernel", str(file.path), is_discovered_only=True)
    return FoundKernel(f"kernel:{file.path}", origin, file.address, key, file.kernel_id, notebook, file.written_ns)


def _of_session(session: NotebookSession) -> FoundKernel:
    notebook = _notebook(str(session.path))
    key = (key_of_notebook(notebook) if notebook else None) or key_of_kernelspec(session.kernel_name)
    origin = Origin("server", session.url, is_discovered_only=True)
    return FoundKernel(
        f"server:{session.kernel_id}", origin, f"jupyter+{session.url}", key, session.kernel_id, notebook
    )


def _left_over(file: ConnectionFile, notebook: str | None) -> str:
    whose = f"the kernel of {notebook}" if notebook else "a kernel"
    return f"nobody listens at the port in {file.path}, the file of {whose}: it may be left from one that is gone"


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
        self._search.doubt(repl.origin.text for repl in known.values() if repl.phase == "stopped")

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


def _as_found(found: FoundKernel, *, rewritten: bool) -> ReplFound:
    missing = MISSING if find_spec("jupyter_client") is None else None
    return ReplFound(
        found.identity, found.key, found.origin, found.address, rewritten=rewritten, notebook=found.notebook,
        error=missing,
    )  # fmt: skip
