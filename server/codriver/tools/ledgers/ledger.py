"""The ledger: the code that each caller sent to a REPL, its writes to files and its news, for the life of one server.

It has the saves of this server, which file watchers leave alone; the notes that callers had and need not have again, on
applications and on the places of their evaluations; and the queries that stand at once, of which one too many is
refused. Outputs of notebook cells on their way into their files are written at the end of the evaluation, whoever waits
for it, and only into a file in its state at the begin of the run, apart from the writes of other runs of this server.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections import Counter, deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

from codriver.core.records import Recent
from codriver.editing import FilesChangedError
from codriver.editing.code_names import ImportGraph
from codriver.editing.file_changes import UnreadableError
from codriver.editing.notebooks import left_out, with_outputs
from codriver.errors import RefusedError, ReplDisconnectedError, refused
from codriver.files import stamp_of
from codriver.tools.ledgers.conflict_ledger import Conflicts
from codriver.tools.ledgers.lisp_drift import LispKnown
from codriver.tools.ledgers.notebook_reads import NotebookReads

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.core.dispatch import Core
    from codriver.core.state import Repl
    from codriver.core.values import Evaluation
    from codriver.editing import Editor
    from codriver.editing.file_changes import Change
    from codriver.files import Stamp
    from codriver.log.transcripts import Transcripts
    from codriver.repls.contract.adapter_values import CellRun
    from codriver.repls.supervisor import Repls


@dataclass(slots=True)
class Saves:
    """The saves of ours that are loaded on request, for the life of one server: file watchers leave them alone."""

    stamps: dict[Path, Stamp] = field(default_factory=dict)
    """The stamps of the files as written."""
    _under_way: int = 0

    @property
    def is_writing(self) -> bool:
        """Whether an edit may be writing just now."""
        return self._under_way > 0

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """The context of an edit, from before its first file is written until the stamps of all are noted."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def note(self, paths: Iterable[Path]) -> None:
        """Note the present stamps of files. Blocks."""
        for path in paths:
            with contextlib.suppress(OSError):
                self.stamps[path] = stamp_of(path.stat())


MOST_EDITS_NOTED: Final = 200
MOST_RUNS: Final = 200
MOST_ACTS: Final = 20
MOST_ACT_BYTES: Final = 2**20


@dataclass(slots=True)
class EditsNoted:
    """The files that each caller edited and whose tests have not run since, for the life of one server."""

    changed: Recent[tuple[str, Path], None] = field(default_factory=partial(Recent, MOST_EDITS_NOTED))

    def add(self, who: str, path: Path) -> None:
        """Note an edit; of very many files the oldest are forgotten."""
        self.changed[who, path] = None

    def take(self, who: str) -> tuple[Path, ...]:
        """The files of one caller, in the order of their edits; they are forgotten."""
        taken = tuple(path for owner, path in self.changed if owner == who)
        for path in taken:
            del self.changed[who, path]
        return taken


@dataclass(slots=True)
class TestsRun:
    """The runs of tests in REPLs of Python, by evaluation, for the life of one server."""

    __test__ = False  # for pytest: the class is no test

    taken_back: Recent[str, bool] = field(default_factory=partial(Recent, MOST_RUNS))
    """Runs in a REPL of code that an act tried and took back: they tell nothing of the present code."""
    compared: Recent[str, str] = field(default_factory=partial(Recent, MOST_RUNS))
    """By run whose red tests were compared with their former calls: the difference in words, empty for none."""
    untold: Recent[str, str] = field(default_factory=partial(Recent, MOST_RUNS))
    """By caller the newest difference that is news to the caller."""

    def take_differences(self, who: str, evaluation: str = "") -> list[str]:
        """The differences found for a caller since its last answer, and that of this run."""
        of_run, untold = self.compared.get(evaluation, ""), self.untold.pop(who, "")
        return [one for one in dict.fromkeys((of_run, untold)) if one] if of_run or untold else []


@dataclass(slots=True)
class Acts:
    """The newest changes of files by `edit_files` and `undo_edit`, for the life of one server."""

    done: deque[tuple[int, tuple[Change, ...]]] = field(default_factory=partial(deque, maxlen=MOST_ACTS))

    def add(self, began_ms: int, changes: Iterable[Change]) -> None:
        """Note an act that began then; a very large one is not kept."""
        kept = tuple(changes)
        if sum(len(one.before.data or b"") + len(one.after or b"") for one in kept) <= MOST_ACT_BYTES:
            self.done.append((began_ms, kept))

    def since(self, when_ms: int) -> dict[Path, tuple[bytes | None, bytes | None]]:
        """The files that changed since, each in its states before and after all; None for no file."""
        found: dict[Path, tuple[bytes | None, bytes | None]] = {}
        for began_ms, changes in self.done:
            for one in changes if began_ms >= when_ms else ():
                found[one.path] = found.get(one.path, (one.before.data, None))[0], one.after
        return found


@dataclass(slots=True)
class Ledger:
    """All registers of callers' code and files, for the life of one server."""

    cells: CellWrites
    """Outputs on their way into notebooks, by evaluation."""
    start_soon: Callable[..., object]
    """Begins work that no call waits for, given as function and arguments."""
    acts: Acts = field(default_factory=Acts)
    """Edits, in the form in which they can be taken back."""
    conflicts: Conflicts = field(default_factory=Conflicts)
    """Code by REPL and edits by file, and the places in which one caller's meet another's."""
    edits: EditsNoted = field(default_factory=EditsNoted)
    """Files that were edited and not tested since."""
    notebooks: NotebookReads = field(default_factory=NotebookReads)
    """Versions of notebooks that callers know."""
    saves: Saves = field(default_factory=Saves)
    """Files that we wrote, which a watcher leaves alone."""
    tests: TestsRun = field(default_factory=TestsRun)
    """Runs of tests, and the known facts on their code."""
    imports: ImportGraph = field(default_factory=ImportGraph)
    """The imports between files of the workspace."""
    lisp: LispKnown = field(default_factory=LispKnown)
    """Forms of Lisp that each REPL is known to have loaded."""


COMMANDS: Final = "codriver-cli"
"""The caller's name of all commands: one caller for a server, though each command makes a connection of its own."""
MOST_TOLD: Final = 1000
"""The entries of one register; beyond them the oldest is forgotten."""


@dataclass(slots=True)
class AppsTold:
    """The applications of each client's last answers, for the life of one server."""

    sessions: Recent[tuple[str, str], str] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client and REPL: the session id of the application's seam. The last ones asked about."""

    def is_another(self, client: str, repl: str, seam: str | None) -> bool:
        """Whether the application differs from that of this client's last answer; from now on it counts as told."""
        if seam is None:
            return False
        before = self.sessions.pop((client, repl), seam)
        self.sessions[client, repl] = seam
        return before != seam


@dataclass(slots=True)
class NotesTold:
    """Notes that each caller needs once, for the life of one server: known by their words, or by their subjects."""

    told: Recent[tuple[Hashable, Hashable], None] = field(default_factory=partial(Recent, MOST_TOLD))

    def is_news(self, caller: Hashable, note: Hashable) -> bool:
        """True if no answer with this note was handed out to the caller."""
        return (caller, note) not in self.told

    def note(self, caller: Hashable, notes: Iterable[Hashable]) -> None:
        """Note that an answer with these notes was handed out to the caller."""
        for note in notes:
            self.told[caller, note] = None

    def take(self, caller: Hashable, note: Hashable) -> bool:
        """Whether the caller is to have the note; from now on the note counts as handed out."""
        is_news = self.is_news(caller, note)
        self.told[caller, note] = None
        return is_news


@dataclass(slots=True)
class PlacesTold:
    """The notes on REPLs that each caller had, for the life of one server: a restart does not make them news."""

    notes: Recent[tuple[str | None, str, str], str] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client, who and note: the evaluation whose answer has the note, however often that is fetched."""
    generations: Recent[tuple[str | None, str, str], int] = field(default_factory=partial(Recent, MOST_TOLD))
    """By client, who and REPL: the generation of the REPL in the caller's last answer about it."""

    def is_renewed(self, client: str, who: str, repl: Repl) -> bool:
        """Note that a caller has an answer from this generation of a REPL; True if its last was from another."""
        caller = (None if who == COMMANDS else client, who, repl.id)
        before = self.generations.get(caller)
        if before == repl.generation:
            return False
        self.generations[caller] = repl.generation
        return before is not None

    @staticmethod
    def client_of(evaluation: Evaluation) -> str | None:
        """The client of an evaluation; None for the commands, which are one, though each connects anew."""
        return None if evaluation.who == COMMANDS else evaluation.client

    def is_news(self, evaluation: Evaluation, note: str) -> bool:
        """Whether the answer of this evaluation is to have the note; from now on its caller counts as told."""
        client = self.client_of(evaluation)
        told = self.notes.setdefault((client, evaluation.who, note), evaluation.id)
        return told == evaluation.id


@dataclass(slots=True)
class Told:
    """Everything that callers were told and need not hear again, for the life of one server."""

    apps: AppsTold = field(default_factory=AppsTold)
    conflicts: NotesTold = field(default_factory=NotesTold)
    """Conflicts with others' code, by their keys."""
    notes: NotesTold = field(default_factory=NotesTold)
    """Notes on the ways on while code runs or reads, by their words."""
    places: PlacesTold = field(default_factory=PlacesTold)


MAX_WAITS_OF_A_CLIENT = 64
MAX_WAITS = 512
SURE_WAITS = 8
"""The standing queries that a client may always have, whatever the others have."""
MAX_ROWS_OF_A_CLIENT = 1_000_000
"""The rows remembered for a client: eight bytes each, to tell the new rows from the known ones."""
MAX_ROWS = 8_000_000
SURE_ROWS = 100_000


def _too_many_waits(standing: int, most: int, whose: str, unit: str) -> RefusedError:
    """One more standing query would exceed the most that a client, or all of them, may have."""
    return refused(
        "too-many-waits",
        f"{standing} {unit} of {whose} are standing already, and {most} are the most that is allowed",
        hint="wait for fewer things at once: ask one query with or, or end calls of wait_for that nobody needs",
        details={"standing": standing, "most": most},
    )


class Waits:
    """Counts the standing queries and the rows that they remember, for the life of one server."""

    def __init__(self) -> None:
        self._waits: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._waits.total()

    @contextmanager
    def standing(self, client: str) -> Iterator[None]:
        """Count one more query of this client as standing, for the length of the context.

        Raises:
            RefusedError: the query would be one too many.
        """
        _check(self._waits, client, 1, (SURE_WAITS, MAX_WAITS_OF_A_CLIENT, MAX_WAITS), "calls of wait_for")
        with _added(self._waits, client, 1):
            yield

    @contextmanager
    def remembering(self, client: str, rows: int) -> Iterator[None]:
        """Count so many rows more as remembered for this client, for the length of the context.

        Raises:
            RefusedError: the rows would be too many.
        """
        _check(self._rows, client, rows, (SURE_ROWS, MAX_ROWS_OF_A_CLIENT, MAX_ROWS), "rows of wait_for")
        with _added(self._rows, client, rows):
            yield


def _check(counted: Counter[str], client: str, more: int, limits: tuple[int, int, int], unit: str) -> None:
    sure, most_of_one, most_of_all = limits
    own, total = counted[client], counted.total()
    if own + more > most_of_one:
        raise _too_many_waits(own, most_of_one, "this client", unit)
    if own + more > sure and total + more > most_of_all:
        raise _too_many_waits(total, most_of_all, "all clients", unit)


@contextmanager
def _added(counted: Counter[str], client: str, more: int) -> Iterator[None]:
    counted[client] += more
    try:
        yield
    finally:
        counted[client] -= more
        if not counted[client]:
            del counted[client]


KEPT: Final = 1000
"""The runs whose outcome is still told: as many evaluations are remembered."""
LOOK_S: Final = 5.0
SETTLE_S: Final = 10.0
"""How long an answer waits for a disk, before it says that the outputs are still on their way."""


@dataclass(slots=True)
class Write:
    """The outputs of one run, and their place."""

    path: Path
    shown: str
    """The path in the form of answers."""
    index: int
    """The cell's, from 0."""
    cell_id: str | None
    stamp: bytes
    """The stamp of the file's content that the write expects."""
    find_open: Callable[[], str | None]
    """The place where a notebook is open, in words; None for a closed notebook. May wait for a server, 2 s at most."""
    count: int | None = None
    why_not: str = ""
    """The reason why nothing was written, in words."""
    over: anyio.Event = field(default_factory=anyio.Event)


def digest_of(data: bytes) -> bytes:
    """The stamp of a file's content."""
    return hashlib.blake2b(data, digest_size=16).digest()


class CellWrites:
    """The runs of cells whose outputs are being written, or were, by evaluation. Lives as long as its server."""

    def __init__(
        self,
        tasks: TaskGroup,
        core: Core,
        repls: Repls,
        transcripts: Transcripts,
        editor: Editor,
        reads: NotebookReads,
    ) -> None:
        self._tasks = tasks
        self._reads = reads
        self._core = core
        self._repls = repls
        self._transcripts = transcripts
        self._editor = editor
        self._writes: Recent[str, Write] = Recent(KEPT)

    def begin(self, evaluation: Evaluation, write: Write) -> None:
        """Write the outputs of an evaluation, just begun, at its end."""
        self._writes[evaluation.id] = write
        self._tasks.start_soon(self._follow, evaluation, write)

    async def told(self, evaluation: Evaluation) -> tuple[str, str] | None:
        """The cell and its file in words, and a note if the file lacks its outputs; None for other code.

        A finished evaluation is told once its outputs are written, or cannot be.
        """
        write = self._writes.get(evaluation.id)
        if write is None:
            return None
        if evaluation.over:
            with anyio.move_on_after(SETTLE_S):
                await write.over.wait()
        about = " ".join(filter(None, (str(write.index), write.cell_id)))
        count = "" if write.count is None else f" [{write.count}]"
        if write.why_not:
            words = f"the outputs were not written into {write.shown}: {write.why_not}"
            return f"{about}{count} of {write.shown}", words
        if not write.over.is_set():
            return f"{about} of {write.shown}", f"the outputs are written into {write.shown} when it is over"
        return f"{about}{count}, written into {write.shown}", ""

    async def _follow(self, evaluation: Evaluation, write: Write) -> None:
        transcript = self._transcripts.get(evaluation.id)
        while transcript is not None:
            current = self._core.state.evaluations.get(evaluation.id)
            if current is None or current.over:
                break
            with anyio.move_on_after(LOOK_S):
                await transcript.change()
        # The code that ran has to be known, even if the server stops just now.
        with anyio.CancelScope(shield=True):
            try:
                write.why_not = await self._finish(evaluation, write)
            finally:
                write.over.set()

    async def _finish(self, evaluation: Evaluation, write: Write) -> str:
        """Write the outputs into the notebook; in words the reason of a failure, empty for none."""
        try:
            run = self._repls.adapter(evaluation.repl).cell_run(evaluation.id)
        except ReplDisconnectedError:
            run = None
        if run is None or not run.has_begun:
            return "it did not run, or its kernel is gone, so the file is as it was"
        write.count = run.execution_count
        try:
            if where := await anyio.to_thread.run_sync(write.find_open):
                return f"meanwhile it was opened in {where}, which would not see them"
            made: list[bytes] = []
            await self._editor.rewrite(write.path, partial(_rewritten, write, run, made))
        except FilesChangedError:
            return "it changed since the run began; they are here alone: run the cell again if the file is to have them"
        except (RefusedError, UnreadableError) as error:
            return f"{error}; they are here alone"
        self._expect(write, digest_of(made[-1]))
        return ""

    def _expect(self, done: Write, stamp: bytes) -> None:
        """Let the other runs in this file know its present state."""
        before = (done.path, done.stamp)
        self._reads.follow(*before, stamp)
        for write in self._writes.values():
            if (write.path, write.stamp) == before and not write.over.is_set():
                write.stamp = stamp


def _rewritten(write: Write, run: CellRun, made: list[bytes], data: bytes | None) -> bytes:
    """The file with the outputs in it, which is kept in `made` too.

    Raises:
        FilesChangedError: the file has changed.
    """
    if data is None or digest_of(data) != write.stamp:
        raise FilesChangedError([write.shown])
    outputs = [*run.outputs, *([left_out(run.omitted)] if run.omitted else [])]
    made.append(with_outputs(data, write.shown, write.index, outputs, run.execution_count))
    return made[-1]
