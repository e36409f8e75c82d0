"""Values that adapters return: events, endings, display data, and answers to queries about code.

Values that the core and the tools share with adapters are in `codriver.core.values`. A value or display may be
available in several media types, and `text_of` picks the text that represents all of them. An image is represented by a
`data:` URL, which answers turn into image content. Source: Jupyter's messaging protocol, "Display data"; RFC 2397.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from codriver.core.records import dataclass

if TYPE_CHECKING:
    from pathlib import Path
    from socket import socket

    from codriver.core.values import Failure


Bundle = Mapping[str, object]
"""One value in several media types. Maps each type to text, base64 for binary data, or an object for a JSON type."""


IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types of images that models can view, in order of preference. Their data is base64."""

TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/latex")
"""Media types that are readable without decoding, in order of preference."""

HTML_TYPE: Final = "text/html"
"""Media type whose displayed text may represent a value."""
JSON_TYPE: Final = "application/json"
"""Media type that represents a value if nothing else does."""
BARE_OBJECT_PATTERN: Final = re.compile(r"<(?P<name>[\w.<>]+)(?: object(?: at 0x[0-9A-Fa-f]+)?| at 0x[0-9A-Fa-f]+)>")
"""Matches the text of a Python object that names only its class, as `object.__repr__` and IPython print it."""


@dataclass(frozen=True, slots=True)
class Display:
    """Display data: something that the program displays, in one or more media types.

    `display_id` is empty for a display without an id. With `is_update`, the data replaces the previous content of the
    display with this id.

    Source: Jupyter's messaging protocol, "Display data".
    """

    bundle: Bundle
    display_id: str = ""
    is_update: bool = False


def text_of(bundle: Bundle) -> str:
    """Return the text that represents a bundle: its image as a `data:` URL, or its most readable text.

    A bundle without either is represented by the names and sizes of its types, and how to read their data.
    """
    image_type = next((name for name in IMAGE_TYPES if isinstance(bundle.get(name), str)), None)
    if image_type is not None:
        return f"data:{image_type};base64,{''.join(str(bundle[image_type]).split())}"
    readable = [text for name in TEXT_TYPES if isinstance(text := bundle.get(name), str) and text]
    if readable and (bare := BARE_OBJECT_PATTERN.fullmatch(readable[0])) and bundle.get(TEXT_TYPES[0]) == readable[0]:
        return _informative_text(bare, readable[1:], bundle)
    if readable:
        return readable[0]
    rest = [name for name in bundle if name not in TEXT_TYPES]
    return " ".join(f"<{name}, {_size(bundle[name])}: get_evaluation with path {json.dumps([name])}>" for name in rest)


def _informative_text(bare: re.Match[str], readable: Sequence[str], bundle: Bundle) -> str:
    """Return the most useful text of a value whose plain text names only its class: other text, HTML or JSON."""
    if behind := next((text for text in readable if text.strip()), None):
        return behind
    page = bundle.get(HTML_TYPE)
    from codriver.repls.contract import html_text  # noqa: PLC0415  # rarely needed, and the parser delays each start

    if isinstance(page, str) and (text := html_text.text_of(page)):
        return f"<{bare['name'].rpartition('.')[2]}: {text}>"
    return data_of(bundle, JSON_TYPE) if bundle.get(JSON_TYPE) is not None else bare[0]


def data_of(bundle: Bundle, name: str) -> str:
    """Return the data of one media type as text, encoding JSON objects."""
    data = bundle[name]
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _size(data: object) -> str:
    count = len(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))
    return f"{count} characters" if count < 1024 else f"{count // 1024} KB"


NAMESPACE_MISSING_TYPE = "namespace-not-found"
"""The type of the failure of an evaluation in a missing namespace. Nothing was evaluated."""

READING_PHASES = frozenset({"read", "read-source"})
"""Phases of failures in which no part of the failed form has run."""

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
)
"""The capabilities that exist without features, in the order in which they are displayed.

`restart` depends on who started the process.
"""


@dataclass(frozen=True, slots=True)
class ServerCapability:
    """A capability that a feature defines.

    A REPL has it if its server supports one of `ops`, which are in order of preference, or if a companion finds it.
    """

    name: str
    ops: tuple[str, ...]
    missing: str
    """A one-line hint on how to get the capability, or what to do without it."""
    missing_by_dialect: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Hints for dialects that need a different one."""

    def hint_for(self, dialect: str) -> str:
        """Return the hint for a REPL of this dialect that lacks the capability."""
        return self.missing_by_dialect.get(dialect, self.missing)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A host and port at which a REPL listens."""

    host: str
    port: int
    found_by: Path | None = field(default=None, compare=False)
    """The file that contained the endpoint, if the user did not name it. The listener must then belong to the user."""

    @classmethod
    def parse(cls, text: str, found_by: Path | None = None) -> Endpoint:
        """Parse `host:port`, `[v6]:port` or `port`. The default host is 127.0.0.1.

        Raises:
            ValueError: the port is not a number.
        """
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
    """A description of the peer, for messages."""
    socket: socket

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Output:
    """Text that the program printed, as it was received. It may end in the middle of a line."""

    stream: Literal["out", "err"]
    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """The printed value of a form, as opaque text.

    `truncated` means that the server cut the text, and `is_late` that the form had already finished. `cut` describes
    what print limits left out, if the REPL reports that. With `is_stored` the REPL retains the value. `bundle` has the
    value in all its media types if it has more than text.
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
    """The REPL retains the last reported value, which was cut when printed. `cut` describes what was left out."""

    cut: str


@dataclass(frozen=True, slots=True)
class SensitiveSeen:
    """The values at sensitive paths of the application's state, sent before any output that may contain them.

    Each is a pair of a name to display instead and the value. Only the redactor may use the values.
    """

    values: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InputNeeded:
    """The evaluation reads from stdin and waits for `Adapter.send_input`."""


@dataclass(frozen=True, slots=True)
class ForeignCodeStarted:
    """The start of an evaluation by another client of the same REPL, such as a person using a notebook.

    The adapter creates the id of this event and of all events that follow it, up to `ForeignCodeFinished`.
    """

    code: str


@dataclass(frozen=True, slots=True)
class ForeignCodeFinished:
    """The end of an evaluation by another client."""

    status: Literal["done", "failed", "interrupted"]
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """A report for a feature, usually the result of an extra of an evaluation. See `server_hooks.Report`."""

    name: str
    text: str = field(repr=False)


Event = (
    Output
    | Value
    | ValueStored
    | Display
    | InputNeeded
    | ForeignCodeStarted
    | ForeignCodeFinished
    | SensitiveSeen
    | Reported
)

Listener = Callable[[str | None, Event], None]
"""Called on the event loop with the id of an evaluation and an event. It must return quickly and not raise.

The id is None for output that belongs to no known evaluation. Evaluations of other clients have the id of their
`ForeignCodeStarted`.
"""


LOAD_IT_SUFFIX: Final = ": load_file it"
"""The end of a note on a module whose file was edited after it was loaded."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How an evaluation ended: its status, and its failure if it failed."""

    status: Literal["done", "failed", "interrupted"]
    namespace: str | None = None
    failure: Failure | None = None
    notes: tuple[str, ...] = ()
    log_line: str | None = None
    """The line that describes the end in the log."""
    data: str | None = None
    """The facts behind `log_line`, as a JSON object."""


OnEnd = Callable[[Ending | Exception], None]
"""Called on the event loop once, with the ending of an evaluation or an error. It must return quickly and not raise."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """The outcome of an interrupt.

    `interrupted`: the server confirmed it. `requested`: the code may still run, as a JVM takes seconds to stop a busy
    thread. `idle`: nothing was running.
    """

    outcome: Literal["interrupted", "requested", "idle"]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """The documentation and position of a symbol. `extra` has keys of the server's reply without a field here."""

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
    """A syntax error that a REPL reports without running the code. Lines and columns start at 1."""

    message: str
    type: str = "SyntaxError"
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The text that defines a name and its position, if known.

    The text may continue after the end of the definition.
    """

    text: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """A name in a list of names, with its parameters and the first line of its documentation."""

    name: str
    type: str | None = None
    """The type, as in `Completion`."""
    parameters: str = ""
    doc: str = ""
    line: int | None = None
    """For a member of a class, its line in the file of the class."""


@dataclass(frozen=True, slots=True)
class Names:
    """A list of names, which may be incomplete. `omitted` is the number of names left out."""

    listed: tuple[Listed, ...]
    omitted: int = 0
    private: int = 0
    """Number of private names that are not listed and not counted as omitted, if known."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A candidate for a completion.

    `type` is the server's name for its kind, such as `function`, `macro` or `module`.
    """

    candidate: str
    type: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class StackFrame:
    """A frame of a stack trace. With `tooling` its code belongs to the language or its tools instead of the user."""

    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    tooling: bool = False
    repeated: str = ""
    """How often the frame repeats in a row, as text. The repetitions themselves are left out."""
    number: int | None = None
    """The number of the frame, 0 for the innermost, if code can be evaluated in it."""
    locals: Mapping[str, str] = field(default_factory=dict)
    """The printed values of local variables by name, if they were requested and are available."""


WRAPPER_RELATION = "thrown around it"
"""The relation of an error that wraps the reported error."""


@dataclass(frozen=True, slots=True)
class StackTrace:
    """The last error of a session with its frames, innermost first.

    On the JVM the reported error is the root cause. `chain` has the other errors, each with its own frames. See
    `Failure`.
    """

    type: str
    message: str
    frames: tuple[StackFrame, ...]
    data: str | None = None
    """The printed value of `ex-data`."""
    notes: tuple[str, ...] = ()
    relation: str = ""
    chain: tuple[StackTrace, ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadDump:
    """The stacks of a REPL's threads at one moment. `user` has only the frames of the user's code."""

    whole: str
    user: str


NO_MESSAGE_TEXT: Final = "null"
"""What the JVM prints for an error without a message, such as a stack overflow."""

UNKNOWN_TEST_NAME: Final = "?"
"""The name of the stopped test if the REPL does not know it, or if no test had started."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of one assertion in a test run."""

    test: str
    namespace: str
    outcome: Literal["pass", "fail", "error"]
    message: str | None = None
    expected: str | None = None
    actual: str | None = None
    file: str | None = None
    line: int | None = None
    frames: tuple[StackFrame, ...] = ()
    """The frames of the error that was thrown, innermost first."""
    how: Literal["", "skipped", "xfailed", "xpassed"] = ""
    """pytest's term for a test that did not simply pass, although its `outcome` is `pass`."""

    @property
    def is_skipped(self) -> bool:
        """Return whether the test counts as passed because it was skipped or expected to fail."""
        return self.how in ("skipped", "xfailed")


@dataclass(frozen=True, slots=True)
class TestTime:
    """The duration of one test in seconds, without the fixtures of its namespace."""

    namespace: str
    test: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TestRun:
    """The results of a test run. Assertions are counted by outcome, and failures and errors come first in `results`."""

    tests: int
    passed: int
    failed: int
    errors: int
    results: tuple[TestResult, ...]
    output: str = ""
    """The output of the tests, or the end of a long output."""
    stopped: TestResult | None = None
    """The test that was running when the run was interrupted. It is not in the counts."""
    times: tuple[TestTime, ...] = ()
    """The duration of each finished test, including tests without assertions, if the REPL reports it."""
    of: int | None = None
    """The total number of tests of a run in progress, if the REPL reports it."""
    skipped: int = 0
    xfailed: int = 0
    xpassed: int = 0
