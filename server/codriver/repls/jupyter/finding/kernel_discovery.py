"""Discovery of kernels that somebody else started: those whose notebook, or whose folder, lies in the workspace.

A kernel belongs to the workspace by the session that a Jupyter Server has for it, else by the notebook in its
connection file, else by the working directory of its process, where the system tells it. It is listed and connected,
and it is its human's: nothing here ends one, and only who names its session has its server restart it.

The runtime folder is looked at once a second, which costs one `stat`; files are read after it changed, servers asked
after that and every half minute. A file at whose port nobody listens is no REPL: it is told of once, and tried again
while it is young, as a kernel needs some seconds to come up, then every 10 s.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core.actions import ReplForgotten, ReplFound, Say
from codriver.core.state import Origin
from codriver.errors import install_extra
from codriver.files.polling import PORT_FILES_S, Poller
from codriver.repls.jupyter.finding.connection_files import (
    RuntimeFolder,
    key_of_kernel,
    key_of_notebook,
    runtime_folder,
)
from codriver.repls.jupyter.finding.notebook_servers import NotebookServerError, is_alive, sessions_of
from codriver.repls.jupyter.finding.started_kernels import folders_of_processes
from codriver.repls.kinds import split_address

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from codriver.core.actions import Action
    from codriver.core.dispatch import Core
    from codriver.repls.jupyter.finding.connection_files import ConnectionFile, Contents, NotebookServer
    from codriver.repls.jupyter.finding.notebook_servers import NotebookSession

LOOK_S: Final = 2 * PORT_FILES_S
ASK_SERVERS_S: Final = 30.0
ASK_AGAIN_S: Final = 3.0
"""After a change: a server writes the kernel's file first, and has the session when the kernel is up."""
YOUNG_S: Final = 60.0
"""How long a kernel may take to listen after its file was written."""
PROBE_S: Final = 10.0
STRANGE_PROBE_S: Final = 600.0
"""Of a dead file that does not tell whose it is: there may be hundreds of them."""
MISSING: Final = (
    f"it cannot be used yet, as jupyter_client is not installed: {install_extra('jupyter')}, and start the server again"
)


@dataclass(frozen=True, slots=True)
class FoundKernel:
    """A kernel that belongs to the workspace, and is there as far as can be told without asking it."""

    identity: str
    origin: Origin
    address: str
    key: str
    kernel_id: str
    notebook: str | None
    written_ns: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """All kernels of the workspace at one time, and what is to be said of files of which there is none."""

    kernels: tuple[FoundKernel, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    """By what: a sentence."""


class KernelSearch:
    """The search for a workspace's kernels. Lives as long as whoever looks, one at a time; waits for disks and servers.

    `clock` gives seconds that only ever grow.
    """

    def __init__(
        self,
        workspace: Path,
        folder: Path,
        *,
        clock: Callable[[], float] = time.monotonic,
        folders_of: Callable[[Iterable[Path]], Mapping[Path, Path]] | None = None,
    ) -> None:
        self._workspace = workspace
        self._folder = RuntimeFolder(folder)
        self._clock = clock
        self._folders_of = folders_of or folders_of_processes
        self._contents: Contents | None = None
        self._found = Found()
        """As of the last look."""
        self._sessions: tuple[NotebookSession, ...] = ()
        self._server_problems: dict[str, str] = {}
        self._ask_at = 0.0
        self._verdicts: dict[ConnectionFile, tuple[bool, str | None]] = {}
        """Whether a kernel is the workspace's, and its notebook, once that is known."""
        self._alive: set[ConnectionFile] = set()
        self._doubted: frozenset[str] = frozenset()
        self._probe_at: dict[ConnectionFile, float] = {}

    def look(self) -> Found:
        """The kernels that are there now."""
        contents, now = self._folder.look(), self._clock()
        if contents is self._contents and not contents.kernels and now < self._ask_at:
            return self._found
        self._found = self._search(contents, now)
        return self._found

    def _search(self, contents: Contents, now: float) -> Found:
        if contents is not self._contents:
            self._ask_at = now if self._contents is None else min(self._ask_at, now)
            self._contents = contents
            known = set(contents.kernels)
            self._verdicts = {file: verdict for file, verdict in self._verdicts.items() if file in known}
            self._probe_at = {file: due for file, due in self._probe_at.items() if file in known}
            self._alive &= known
        if now >= self._ask_at:
            self._ask(contents.servers, now)
        self._judge(contents.kernels)
        self._probe(contents.kernels, now)
        self._judge(contents.kernels)  # of those that turned out to be there, in whose folder they work
        problems = [(str(path), f"the file {path} cannot be used: {why}") for path, why in contents.problems]
        problems += list(self._server_problems.items())
        kernels = []
        for file in contents.kernels:
            is_ours, notebook = self._verdict(file)
            if is_ours and file in self._alive:
                kernels.append(_of_file(file, notebook))
            elif is_ours and not self._is_young(file):
                problems.append((str(file.path), _left_over(file, notebook)))
        kernels += self._without_file({file.kernel_id for file in contents.kernels})
        return Found(tuple(kernels), tuple(problems))

    def may_wait(self) -> bool:
        """True where a look may wait for others than the disk: for servers, or for who listens at a kernel's ports."""
        return self._contents is None or bool(self._contents.kernels or self._contents.servers)

    def doubt(self, paths: Iterable[str]) -> None:
        """Find out again whether anybody listens, of kernels that were given up; of no others than these."""
        self._doubted = frozenset(paths)

    def _ask(self, servers: Iterable[NotebookServer], now: float) -> None:
        """Ask the servers for their sessions, and plan when to ask again."""
        concerned = [one for one in servers if one.concerns(self._workspace) and is_alive(one)]
        sessions: list[NotebookSession] = []
        self._server_problems = {}
        for server in concerned:
            try:
                sessions += sessions_of(server)
            except NotebookServerError as error:
                self._server_problems[str(server.path)] = f"the Jupyter server of {server.root} is not used: {error}"
        has_more = self._sessions != tuple(sessions)
        self._sessions = tuple(sessions)
        is_awaited = any(file not in self._verdicts and self._is_young(file) for file in self._known())
        self._ask_at = now + (ASK_AGAIN_S if concerned and (is_awaited or has_more) else ASK_SERVERS_S)

    def _known(self) -> tuple[ConnectionFile, ...]:
        return self._contents.kernels if self._contents is not None else ()

    def _is_young(self, file: ConnectionFile) -> bool:
        return time.time_ns() - file.written_ns < YOUNG_S * 10**9

    def _probe(self, kernels: Iterable[ConnectionFile], now: float) -> None:
        """Find out of those files that are not known to be alive whether anybody listens, if that is due."""
        for file in kernels:
            is_sure = file in self._alive and str(file.path) not in self._doubted
            if is_sure or self._verdicts.get(file, (True, None))[0] is False or now < self._probe_at.get(file, 0.0):
                continue
            was_alive = file in self._alive
            (self._alive.add if file.is_listened_to() else self._alive.discard)(file)
            self._probe_at[file] = now + self._probe_s(file, was_alive=was_alive)

    def _probe_s(self, file: ConnectionFile, *, was_alive: bool) -> float:
        """The time until it is asked again whether anybody listens."""
        if self._is_young(file) and not was_alive:
            return 0.0
        return PROBE_S if file in self._verdicts else STRANGE_PROBE_S

    def _judge(self, kernels: Iterable[ConnectionFile]) -> None:
        """Find out of those kernels that are alive and tell no notebook in whose folder they work, once."""
        by_id = {session.kernel_id: session for session in self._sessions}
        unknown = []
        for file in kernels:
            told, session = Path(file.session), by_id.get(file.kernel_id)
            if file in self._verdicts and session is None:
                continue
            if session is not None:
                self._verdicts[file] = (self._is_within(session.path), _notebook(str(session.path)))
            elif told.is_absolute():
                self._verdicts[file] = (self._is_within(told), _notebook(file.session))
            elif file in self._alive:
                unknown.append(file)
        if unknown:
            folders = self._folders_of([file.path for file in unknown])
            for file in unknown:
                folder = folders.get(file.path)
                self._verdicts[file] = (folder is not None and self._is_within(folder), None)

    def _without_file(self, known: set[str]) -> list[FoundKernel]:
        """The kernels of the workspace that a server tells of, and that have no file which we may read."""
        ours = [one for one in self._sessions if one.kernel_id not in known and self._is_within(one.path)]
        return [_of_session(session) for session in {one.kernel_id: one for one in ours}.values()]

    def _verdict(self, file: ConnectionFile) -> tuple[bool, str | None]:
        return self._verdicts.get(file, (False, None))

    def _is_within(self, path: Path) -> bool:
        return path.is_relative_to(self._workspace) or Path(os.path.realpath(path)).is_relative_to(self._workspace)


def _notebook(path: str) -> str | None:
    """The path, where it is a notebook's: a console has a name in its server, and no file."""
    return path if key_of_notebook(path) else None


def _of_file(file: ConnectionFile, notebook: str | None) -> FoundKernel:
    key = (key_of_notebook(notebook) if notebook else None) or key_of_kernel(file.kernel_name)
    origin = Origin("kernel", str(file.path), is_merely_found=True)
    return FoundKernel(f"kernel:{file.path}", origin, file.address, key, file.kernel_id, notebook, file.written_ns)


def _of_session(session: NotebookSession) -> FoundKernel:
    notebook = _notebook(str(session.path))
    key = (key_of_notebook(notebook) if notebook else None) or key_of_kernel(session.kernel_name)
    origin = Origin("server", session.url, is_merely_found=True)
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
        """`protocols`: those of the addresses that can be connected to. `named_ids`: kernels that are REPLs already."""
        self._core = core
        self._named_ids = named_ids
        self._search = KernelSearch(workspace, runtime_folder(environ))
        self._protocols = protocols
        self._written: dict[str, int] = {}
        self._told: Mapping[str, str] = {}
        self._seen: Found | None = None

    async def run(self) -> None:
        """Look for kernels until cancelled."""
        poller = Poller(self._search.look, interval_s=LOOK_S, may_wait=self._search.may_wait)
        while True:
            try:
                self._reconcile(await poller.next(self._is_news))
            except Exception as error:  # noqa: BLE001  # in the server's task group it would end the server
                self._tell({"": f"kernels could not be looked for: {error!r}"})

    def _is_news(self, found: Found) -> bool:
        """True if it is other than the last, or there are kernels, whose fate the state decides. In a thread."""
        before, self._seen = self._seen, found
        repls = self._core.state.repls.values()
        return found != before or bool(found.kernels) or any(repl.origin.is_merely_found for repl in repls)

    def _reconcile(self, found: Found) -> None:
        """Make the core's found kernels those that are there and that it does not know by another way."""
        repls = self._core.state.repls.values()
        known = {repl.id: repl for repl in repls if repl.origin.is_merely_found}
        taken = {
            _kernel_id(repl.address): repl.id
            for repl in repls
            if repl.address and (repl.id not in known or repl.phase == "connected")
        }
        taken |= dict.fromkeys(self._named_ids(), "")
        wanted = {
            one.identity: one
            for one in found.kernels
            # One kernel may be known by its file and by its server.
            if taken.get(one.kernel_id, one.identity) == one.identity
            and split_address(one.address)[0] in self._protocols
        }
        actions: list[Action] = [
            _as_found(one, rewritten=is_rewritten)
            for one in wanted.values()
            if (is_rewritten := self._written.get(one.identity, one.written_ns) != one.written_ns)
            or one.identity not in known
            or one.notebook not in (None, known[one.identity].notebook)
        ]
        actions += [
            ReplForgotten(repl.id) for repl in known.values() if repl.id not in wanted and repl.phase != "connected"
        ]
        self._written = {one.identity: one.written_ns for one in wanted.values()}
        if actions:
            self._core.report(*actions)
        self._tell(dict(found.problems))
        self._search.doubt(repl.origin.text for repl in known.values() if repl.phase == "stopped")

    def _tell(self, problems: Mapping[str, str]) -> None:
        """Say what is wrong, once while it is."""
        says = [Say(sentence) for what, sentence in problems.items() if self._told.get(what) != sentence]
        self._told = problems
        if says:
            self._core.report(*says)


def _kernel_id(address: str) -> str:
    """The id of the kernel at an address, as its connection file or its URL has it."""
    name = address.partition("?")[0].rpartition("/")[2]
    return name.removeprefix("kernel-").removesuffix(".json")


def _as_found(found: FoundKernel, *, rewritten: bool) -> ReplFound:
    problem = MISSING if find_spec("jupyter_client") is None else None
    return ReplFound(
        found.identity, found.key, found.origin, found.address, rewritten=rewritten, notebook=found.notebook,
        problem=problem,
    )  # fmt: skip
