"""Values that only adapters give: events, endings, media, and answers to questions about code.

Those that core and tools share with them are in `codriver.core.values`; an adapter's promises about both stand in
`codriver.repls.contract.adapter`. A value or display may come in several media types at once, and one text stands for
it. A picture is the text of a `data:` address, which answers give as image content. Source: Jupyter's messaging
protocol, "Display data"; RFC 2397.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.core.values import Failure


Bundle = Mapping[str, object]
"""One thing in several media types: by type a text, base64 of what is binary, or an object of a JSON type."""


PICTURES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types whose data is base64 and that models can look at, the best first."""

TEXTS: Final = ("text/plain", "text/markdown", "text/latex")
"""Types that are read as they are, the best first."""


@dataclass(frozen=True, slots=True)
class Display:
    """Display data: something that the program shows, in one or more media types.

    `display_id`: the display's own name, if it has one. `is_update`: it takes the place of what that display showed.
    Source: Jupyter's messaging protocol, "Display data".
    """

    bundle: Bundle
    display_id: str = ""
    is_update: bool = False


@dataclass(frozen=True, slots=True)
class CellRun:
    """A notebook cell's run: its number of execution, and its outputs as a notebook has them (nbformat 4, `output`)."""

    execution_count: int | None
    outputs: tuple[Mapping[str, object], ...]
    omitted: int = 0
    """How many characters of outputs were left out, as there were too many."""

    @property
    def has_begun(self) -> bool:
        """Whether the kernel began with it, as far as it told."""
        return self.execution_count is not None or bool(self.outputs)


def text_of(bundle: Bundle) -> str:
    """The text that stands for the thing: its picture, else what can be read of it, else what it is.

    Of a type that is neither there is its name and size, and the way to read it.
    """
    picture = next((name for name in PICTURES if isinstance(bundle.get(name), str)), None)
    if picture is not None:
        return f"data:{picture};base64,{''.join(str(bundle[picture]).split())}"
    for name in TEXTS:
        if isinstance(text := bundle.get(name), str) and text:
            return text
    rest = [name for name in bundle if name not in TEXTS]
    return " ".join(f"<{name}, {_size(bundle[name])}: get_evaluation with path {json.dumps([name])}>" for name in rest)


def data_of(bundle: Bundle, name: str) -> str:
    """The data of one type as text; of a JSON type the JSON."""
    data = bundle[name]
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _size(data: object) -> str:
    count = len(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))
    return f"{count} characters" if count < 1024 else f"{count // 1024} KB"


NAMESPACE_MISSING = "namespace-not-found"
"""The type of the failure of an evaluation in a namespace that is not there; nothing was evaluated then."""

READING = frozenset({"read", "read-source"})
"""The phases of a failure in which no part of its form has run."""

CAPABILITIES = (
    "evaluate",
    "load-file",
    "interrupt",
    "restart",
    "complete",
    "lookup",
    "clojuredocs",
    "stdin",
    "sessions",
    "print-limits",
    "macroexpand",
    "test",
    "stacktrace",
    "frame",
    "try",
    "drift",
    "restore",
    "seam",
)
"""All capability names, in the order they are shown. `restart` is given by whoever supervises the process, `seam` by an
application that runs in it."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and port at which a REPL listens."""

    host: str
    port: int
    found_by: Path | None = field(default=None, compare=False)
    """The file that led there, where nobody named it: then its listener has to be this user's, at each connection."""

    @classmethod
    def parse(cls, text: str, found_by: Path | None = None) -> Endpoint:
        """`host:port`, `[v6]:port` or `port` as an endpoint."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]") or "127.0.0.1", int(port), found_by)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Output:
    """Output: text that the program printed. `evaluation` events carry it as it comes; it may hold part of a line."""

    stream: Literal["out", "err"]
    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """A form's printed value, as opaque text. `truncated`: the server itself cut it. `is_late`: its form was over.

    `cut` says in words what its print limits left out, where the REPL tells; it keeps the value if `is_kept`.
    `bundle`: the value in all its media types, where it has more than text.
    """

    text: str
    namespace: str | None = None
    truncated: bool = False
    is_late: bool = False
    cut: str = ""
    is_kept: bool = False
    bundle: Bundle | None = None


@dataclass(frozen=True, slots=True)
class ValueKept:
    """The REPL keeps the value that was told last, as printing cut it; `cut` says in words what it left out."""

    cut: str


@dataclass(frozen=True, slots=True)
class SeamShown:
    """The application in the REPL shows itself by its seam, which has this session id for the life of its process."""

    session_id: str
    provider: str | None = None
    """The name of the provider, where the seam is asked by evaluation."""


@dataclass(frozen=True, slots=True)
class AppEvents:
    """Events of the application in the REPL, as a subscription of its seam pushed them: one frame.

    Its keys: `sub`, the subscription; `dropped`, how many fell out of its queue since the frame before; `depth`, how
    many still wait; `events`, each with `id time opType operation line` and `frame eventId handlerId source origin
    dispatchId ms` where they have them. It comes from the REPL as it is.
    """

    frame: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SensitiveSeen:
    """The application tells texts that stand at sensitive paths of its state, before anything that may hold them.

    Each with a name that may be shown in its place. They are for the redactor alone.
    """

    texts: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The evaluation reads from stdin and waits; `Adapter.send_input` serves it."""


@dataclass(frozen=True, slots=True)
class OthersCode:
    """Code that somebody evaluates in the same REPL past this server, such as a human in a notebook: it begins now.

    It and all that follows of it, its `OthersEnding` last, is told under an id that the adapter makes.
    """

    code: str


@dataclass(frozen=True, slots=True)
class OthersEnding:
    """The end of what somebody evaluated past this server."""

    status: Literal["done", "failed", "interrupted"]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class CallsRecorded:
    """The calls that an evaluation made, as its request asked: JSON, see `codriver.log.recorded_runs`."""

    text: str = field(repr=False)


Event = (
    Output
    | Value
    | ValueKept
    | Display
    | InputNeeded
    | OthersCode
    | OthersEnding
    | SeamShown
    | AppEvents
    | SensitiveSeen
    | CallsRecorded
)

Listener = Callable[[str | None, Event], None]
"""Called on the event loop with (evaluation id, event). The id is None for output that no evaluation is known to have
caused, and of somebody else's evaluation as `OthersCode` says. It must return quickly and not raise."""


LOAD_IT: Final = ": load_file it"
"""The end of a note on a module whose file was edited since its load."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an evaluation: its status, and the failure of one that failed."""

    status: Literal["done", "failed", "interrupted"]
    namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    said: str | None = None
    """One line for the log."""


Ended = Callable[[Ending | Exception], None]
"""Called once, on the event loop: how an evaluation ended, or why nobody knows. Must return quickly and not raise."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The outcome of an interrupt.

    `interrupted`: the server said so. `requested`: asked for, and the server's answer does not prove that the code
    stopped (a JVM keeps a busy thread for seconds). `idle`: nothing ran.
    """

    outcome: Literal["interrupted", "requested", "idle"]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol's documentation and place. Keys of `extra` are those the server gave, for what has no field here."""

    name: str
    namespace: str | None = None
    doc: str | None = None
    arglists: tuple[str, ...] = ()
    file: str | None = None
    line: int | None = None
    column: int | None = None
    macro: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SyntaxFault:
    """Why a REPL cannot read code, and where, as far as it tells; lines and columns count from 1."""

    message: str
    type: str = "SyntaxError"
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The text that defines a name, which may go on behind its end; and the place of its beginning, if known."""

    text: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A name in a list of names, for one line: its parameters, and the first line of its documentation."""

    name: str
    type: str | None = None
    """As of a `Completion`."""
    parameters: str = ""
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names: the first of them, and how many more there are."""

    listed: tuple[Listed, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One candidate. `type` is the server's word for what it is (`function`, `macro`, `var`, `module`, …)."""

    candidate: str
    type: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a stack trace. `tooling`: it belongs to the language or its tools, not to the user's program."""

    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    tooling: bool = False
    repeated: str = ""
    """How often the frame came in a row, in words, for a series that is told once."""
    number: int | None = None
    """Its number, from 0 for the innermost, where code can be evaluated in it."""
    locals: Mapping[str, str] = field(default_factory=dict)
    """The values of its variables by name, each printed, where they were asked for and the REPL has them."""


AROUND = "thrown around it"
"""The relation of a link that wraps the error which its REPL reports."""


@dataclass(frozen=True, slots=True)
class StackTrace:
    """The last error of a session: the one that its REPL reports, and its frames, innermost first.

    On the JVM that is the root cause. `chain` has the others, each with frames of its own; see `Failure`.
    """

    type: str
    message: str
    frames: tuple[StackFrame, ...]
    data: str | None = None
    """The value of `ex-data`, printed."""
    notes: tuple[str, ...] = ()
    relation: str = ""
    chain: tuple[StackTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The stacks of a REPL's threads at one moment. `own`: their frames in the user's code alone, empty without any."""

    whole: str
    own: str


NO_MESSAGE: Final = "null"
"""The word that the JVM prints as the message of an error without one, as of a stack overflow."""

UNKNOWN_TEST: Final = "?"
"""The name of the test that a run was stopped in, where the REPL does not know it, or was in none yet."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One assertion of a test run."""

    test: str
    namespace: str
    outcome: Literal["pass", "fail", "error"]
    message: str | None = None
    expected: str | None = None
    actual: str | None = None
    file: str | None = None
    line: int | None = None
    frames: tuple[StackFrame, ...] = ()
    """Of what was thrown, innermost first."""
    is_skipped: bool = False
    """Whether the test passes because it was skipped, or because it was expected to fail."""


@dataclass(frozen=True, slots=True)
class TestTime:
    """The time that one test took, fixtures of its namespace left out."""

    namespace: str
    test: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TestRun:
    """The results of a test run: assertions counted by outcome, and each result, failures and errors first."""

    tests: int
    passed: int
    failed: int
    errors: int
    results: tuple[TestResult, ...]
    output: str = ""
    """The output of the tests; of a long output its end."""
    stopped: TestResult | None = None
    """The test that ran when the run was interrupted; it is in no other count."""
    times: tuple[TestTime, ...] = ()
    """Of each test that ended, also of one that asserts nothing and so has no result; as far as the REPL tells."""
    of: int | None = None
    """Of a run under way: how many tests there are to run, where the REPL tells."""


@dataclass(frozen=True, slots=True)
class ClojureDocs:
    """The entry of a var on ClojureDocs: examples, notes, related vars."""

    name: str
    namespace: str
    examples: tuple[str, ...] = ()
    see_alsos: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    doc: str | None = None
    href: str | None = None
    """The path of its page on the site."""
