"""Values that only adapters give: events, endings, media, and answers to questions about code.

Values shared with core and tools are in `codriver.core.values`; an adapter's promises about both are in
`codriver.repls.contract.adapter`. A value or display may come in several media types at once, and one text stands for
all of them. A picture is the text of a `data:` address, which answers give as image content. Source: Jupyter's
messaging protocol, "Display data"; RFC 2397.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path
    from socket import socket

    from codriver.core.values import Failure


Bundle = Mapping[str, object]
"""One value in several media types: by type a text, base64 of binary data, or an object of a JSON type."""


IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types of images that models can view, in order of preference. Their data is base64."""

TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/latex")
"""Media types that can be read without decoding, in order of preference."""

HTML: Final = "text/html"
JSON: Final = "application/json"
BARE: Final = re.compile(r"<(?P<name>[\w.<>]+)(?: object(?: at 0x[0-9A-Fa-f]+)?| at 0x[0-9A-Fa-f]+)>")
"""The plain text of a Python object that shows only its class: by `repr`, and by IPython's pretty printer."""


@dataclass(frozen=True, slots=True)
class Display:
    """Display data: something that the program displays, in one or more media types.

    `display_id` identifies the display, if it has an id. With `is_update` the data replaces the display's previous
    content.

    Source: Jupyter's messaging protocol, "Display data".
    """

    bundle: Bundle
    display_id: str = ""
    is_update: bool = False


@dataclass(frozen=True, slots=True)
class CellRun:
    """A notebook cell's run: its execution count, and its outputs in the notebook's format (nbformat 4, `output`)."""

    execution_count: int | None
    outputs: tuple[Mapping[str, object], ...]
    omitted: int = 0
    """The number of characters left out of too long outputs."""

    @property
    def has_started(self) -> bool:
        """Return whether the kernel has reported that the cell started."""
        return self.execution_count is not None or bool(self.outputs)


def text_of(bundle: Bundle) -> str:
    """Return the text that represents a bundle: its image, else its readable text, else its type.

    Any other type is represented by its name and size, and how to read the data.
    """
    image_type = next((name for name in IMAGE_TYPES if isinstance(bundle.get(name), str)), None)
    if image_type is not None:
        return f"data:{image_type};base64,{''.join(str(bundle[image_type]).split())}"
    readable = [text for name in TEXT_TYPES if isinstance(text := bundle.get(name), str) and text]
    if readable and (bare := BARE.fullmatch(readable[0])) and bundle.get(TEXT_TYPES[0]) == readable[0]:
        return _text_behind(bare, readable[1:], bundle)
    if readable:
        return readable[0]
    rest = [name for name in bundle if name not in TEXT_TYPES]
    return " ".join(f"<{name}, {_size(bundle[name])}: get_evaluation with path {json.dumps([name])}>" for name in rest)


def _text_behind(bare: re.Match[str], readable: Sequence[str], bundle: Bundle) -> str:
    """Return what a value displays apart from its bare plain text: other texts, the text of HTML, or JSON."""
    if behind := next((text for text in readable if text.strip()), None):
        return behind
    page = bundle.get(HTML)
    from codriver.repls.contract import html_text  # noqa: PLC0415  # rarely needed, and its parser delays each start

    if isinstance(page, str) and (text := html_text.text_of(page)):
        return f"<{bare['name'].rpartition('.')[2]}: {text}>"
    return data_of(bundle, JSON) if bundle.get(JSON) is not None else bare[0]


def data_of(bundle: Bundle, name: str) -> str:
    """Return the data of one type as text; of a JSON type the JSON."""
    data = bundle[name]
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _size(data: object) -> str:
    count = len(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))
    return f"{count} characters" if count < 1024 else f"{count // 1024} KB"


NAMESPACE_MISSING = "namespace-not-found"
"""The type of the failure of an evaluation in a missing namespace; nothing was evaluated then."""

READING = frozenset({"read", "read-source"})
"""The phases of a failure in which no part of its form has run."""

CAPABILITIES = (
    "evaluate",
    "load-file",
    "interrupt",
    "restart",
    "complete",
    "lookup",
    "stdin",
    "sessions",
    "print-limits",
    "macroexpand",
    "test",
    "stacktrace",
    "frame",
    "drift",
    "restore",
    "seam",
)
"""The names of the base's capabilities, in the order they are shown. The supervisor of the process gives `restart`, an
application in it gives `seam`.
"""


@dataclass(frozen=True, slots=True)
class ServerCapability:
    """A capability that a feature adds. A REPL has it if its server has one of the operations `ops`, the best first."""

    name: str
    ops: tuple[str, ...]
    missing: str
    """How to get the capability, or what to do without it, in one line."""
    missing_by_dialect: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The lines for the dialects in which that differs."""

    def hint_for(self, dialect: str) -> str:
        """Return how a REPL of a dialect gets the capability."""
        return self.missing_by_dialect.get(dialect, self.missing)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and port at which a REPL listens."""

    host: str
    port: int
    found_by: Path | None = field(default=None, compare=False)
    """The file that led to this endpoint, if the user did not name it. Its listener must belong to the user."""

    @classmethod
    def parse(cls, text: str, found_by: Path | None = None) -> Endpoint:
        """`host:port`, `[v6]:port` or `port` as an endpoint."""
        host, _, port = text.rpartition(":")
        return cls(host.strip("[]") or "127.0.0.1", int(port), found_by)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AcceptedStream:
    """A stream from a REPL that connected to Codriver. Its peer was checked when it was accepted.

    It serves one adapter, which closes it, and cannot be reconnected.
    """

    name: str
    """A description of what connected, for people."""
    socket: socket

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Output:
    """Text that the program printed, as it was received: possibly only a part of a line."""

    stream: Literal["out", "err"]
    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """The printed value of a form, as opaque text.

    `truncated`: the server cut the text. `is_late`: the form had already finished. `cut` describes what print limits
    left out, if the REPL reports that, and with `is_stored` the REPL retains the value. `bundle` has the value in all
    its media types if it is more than text.
    """

    text: str
    namespace: str | None = None
    truncated: bool = False
    is_late: bool = False
    cut: str = ""
    is_stored: bool = False
    bundle: Bundle | None = None


@dataclass(frozen=True, slots=True)
class ValueStored:
    """The REPL has stored the last reported value, which was cut when printed. `cut` describes what was left out."""

    cut: str


@dataclass(frozen=True, slots=True)
class SeamFound:
    """The application in the REPL has installed the seam. The session id is the same until the process ends."""

    session_id: str
    provider: str | None = None
    """The name of the provider, for a seam that is called by evaluating code."""


@dataclass(frozen=True, slots=True)
class AppEvents:
    """Events of the application in the REPL, as a subscription of its seam pushed them: one frame.

    The frame's keys: `sub`, the subscription; `dropped`, the number of events lost from its queue since the last frame;
    `depth`, the number still waiting; `events`, each with `id time opType operation line` and perhaps `frame eventId
    handlerId source origin dispatchId ms`. The frame is unchecked data of the REPL.
    """

    frame: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SensitiveSeen:
    """The values at sensitive paths of the application's state, sent before any output that may contain them.

    Each value has a name that may be displayed in its place. The values are for the redactor only.
    """

    values: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The evaluation reads from stdin and waits; `Adapter.send_input` gives it input."""


@dataclass(frozen=True, slots=True)
class OthersCode:
    """The start of an evaluation by another client of the same REPL, such as a person in a notebook.

    The adapter makes the id of this event and of all that follow it, up to `OthersEnding`.
    """

    code: str


@dataclass(frozen=True, slots=True)
class OthersEnding:
    """The end of an evaluation by another client."""

    status: Literal["done", "failed", "interrupted"]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """The result of an extra of an evaluation, as JSON: see `codriver.repls.contract.extras`."""

    name: str
    text: str = field(repr=False)


Event = (
    Output
    | Value
    | ValueStored
    | Display
    | InputNeeded
    | OthersCode
    | OthersEnding
    | SeamFound
    | AppEvents
    | SensitiveSeen
    | Reported
)

Listener = Callable[[str | None, Event], None]
"""Called on the event loop with (evaluation id, event). The id is None for output without a known evaluation; somebody
else's evaluation has the id of its `OthersCode`. A listener must return quickly and not raise.
"""


LOAD_IT: Final = ": load_file it"
"""The end of a note on a module whose file was edited since its load."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of an evaluation: its status, and the failure of one that failed."""

    status: Literal["done", "failed", "interrupted"]
    namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    log_line: str | None = None
    """One line for the log."""
    data: str | None = None
    """The facts behind that line, as a JSON object."""


OnEnd = Callable[[Ending | Exception], None]
"""Called once, on the event loop, with the ending of an evaluation, or an error. Must return quickly and not raise."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The outcome of an interrupt.

    `interrupted`: the server confirmed it. `requested`: the server's answer does not prove that the code stopped (a JVM
    keeps a busy thread for seconds). `idle`: nothing ran.
    """

    outcome: Literal["interrupted", "requested", "idle"]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol's documentation and place. `extra` has the server's other keys, without a field here."""

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
class SyntaxIssue:
    """The reason why a REPL cannot read code, and its position if known. Lines and columns count from 1."""

    message: str
    type: str = "SyntaxError"
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The text that defines a name, which may go on behind the definition; and the place of its beginning, if known."""

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
    line: int | None = None
    """The line of a member of a class, in the class's file."""


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names: the first of them, and how many more there are."""

    listed: tuple[Listed, ...]
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class Completion:
    """One candidate. `type` is the server's word for its kind (`function`, `macro`, `var`, `module`, …)."""

    candidate: str
    type: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One frame of a stack trace. `tooling`: its code is the language's or its tools', not the user's."""

    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    tooling: bool = False
    repeated: str = ""
    """How often the frame repeats in a row, as text, for a series that is reported once."""
    number: int | None = None
    """The frame's number, from 0 for the innermost, if code can be evaluated in the frame."""
    locals: Mapping[str, str] = field(default_factory=dict)
    """The printed values of the frame's variables by name, if requested and available."""


AROUND = "thrown around it"
"""The relation of a link that wraps the reported error."""


@dataclass(frozen=True, slots=True)
class StackTrace:
    """The last error of a session: the error that its REPL reports, with its frames, innermost first.

    On the JVM the reported error is the root cause. `chain` has the other errors, each with frames of its own; see
    `Failure`.
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
    """The stacks of a REPL's threads at one moment. `user` has only the frames in the user's code."""

    whole: str
    user: str


NO_MESSAGE: Final = "null"
"""The word that the JVM prints for a missing message of an error, as of a stack overflow."""

UNKNOWN_TEST: Final = "?"
"""The name for the stopped test if the REPL does not know it, or no test had begun."""


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
    """The frames of the thrown error, innermost first."""
    how: Literal["", "skipped", "xfailed", "xpassed"] = ""
    """For a test that did not simply pass, although its outcome is `pass`: as pytest calls that."""

    @property
    def is_skipped(self) -> bool:
        """Return whether the test passes because it was skipped, or because it was expected to fail."""
        return self.how in ("skipped", "xfailed")


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
    """The test that ran at the interrupt; no other count has it."""
    times: tuple[TestTime, ...] = ()
    """The duration of each finished test, including tests without assertions, if the REPL reports it."""
    of: int | None = None
    """The number of tests in a run that is in progress, if the REPL reports it."""
    skipped: int = 0
    xfailed: int = 0
    xpassed: int = 0
