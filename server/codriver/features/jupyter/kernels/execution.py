"""One execution in a kernel, ours or another client's: its messages as events, its end, and its failure.

The end of an execution is its reply and the kernel's `idle`, in either order; for another client's, whose replies are
not seen, `idle` alone. An execution failed if an `error` was published or the reply says so: some kernels do only the
one, some only the other.

A failure is read from few parts (`ename`, `evalue`, `traceback`), and a traceback is a text for a terminal. IPython's
tracebacks give all places; those of other languages the first place that the engine names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.values import Failure
from codriver.features.jupyter.kernels import messages
from codriver.features.jupyter.kernels.messages import RATE_LIMIT
from codriver.repls.contract.adapter_values import IMAGE_TYPES, Display, InputNeeded, Interruption, Output, Value
from codriver.repls.contract.adapter_values import text_of as text_of_bundle
from codriver.repls.contract.reports import FRAME
from codriver.wire.untrusted import mapping_of, strings_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.features.jupyter.kernels.kernel import Quirks
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.adapter_values import Event


PLAIN: Final = "text/plain"
CUT_BY_SERVER: Final = "the Jupyter Server left out some of it: more came at once than its rate limit lets through"
AFTER_INTERRUPT_S: Final = 2.0
NOT_SENT: Final = "it was not sent yet: the kernel was busy with other code"
DISPLAYS_LEFT_OUT: Final = "[displays are left out from here on where more come at once than is held]\n"


def left_out_note(count: int, cause: str) -> str:
    """Return a note on the bytes of an execution's messages that were not held."""
    left_out = f"{count:,} bytes of its output were left out, as more came at once than is held" if count else ""
    unread = f"a message of the kernel could not be read: {cause}" if cause else ""
    return "; ".join(filter(None, (left_out, unread)))


async def stop(
    waiting: anyio.CancelScope | None, over: anyio.Event, interrupt: Callable[[], Awaitable[str]]
) -> Interruption:
    """Stop our running code in a kernel, or take back code still `waiting` for its turn.

    `interrupt` gives a sentence on its limits; `over` is set when the stopped code ends.
    """
    if waiting is not None:
        waiting.cancel()
        await over.wait()
        return Interruption("interrupted", note=NOT_SENT)
    note = await interrupt()
    with anyio.move_on_after(AFTER_INTERRUPT_S):
        await over.wait()
    return Interruption("interrupted") if over.is_set() else Interruption("requested", note=note)


class Execution:
    """The course of one execution. Lives on after its end, for late messages."""

    def __init__(self, notify: Callable[[Event], None], quirks: Quirks) -> None:
        self._notify = notify
        self._quirks = quirks
        self.error: KernelError | None = None
        self.locals: tuple[str, ...] = ()
        """The plain locals at the place of the failure, each as `name=value`."""
        self.count: int | None = None
        """The kernel's number of the execution."""
        self.status = ""
        """The status of the reply."""
        self.expressions: Mapping[str, object] = {}
        """The values of the expressions sent with it."""
        self.has_value = anyio.Event()
        self.waits_for_input = False
        self.is_cut = False
        """Whether a server in between left some of its messages out."""
        self.left_out = 0
        """Bytes of its messages that were not held."""
        self.read_error_text = ""
        """The reason in words why a message of it could not be read."""
        self._has_noted_gap = False
        self.is_over = False

    @property
    def is_interrupted(self) -> bool:
        """Return whether the execution ended by an interrupt, as far as the kernel says so."""
        return self.status == "abort" or (self.error is not None and is_interrupt(self.error))

    def receive(self, message: Message) -> None:
        """Take a message about the execution."""
        content = message.content
        self.left_out += message.left_out
        self.read_error_text = message.read_error or self.read_error_text
        # The first number told counts: the reply to code outside of the history has the number before.
        if self.count is None and isinstance(count := content.get("execution_count"), int):
            self.count = count
        match message.type:
            case messages.LEFT_OUT:
                self._leave_out()
            case "stream":
                self._stream(text_of(content, "name"), text_of(content, "text"))
            case "execute_result":
                self._value(message.mapping("data"))
            case "display_data" | "update_display_data":
                self._display(message)
            case "error":
                self.error = read_error(content)
            case "execute_reply":
                self._reply(message)
            case "input_request":
                self._request_input(text_of(content, "prompt"))

    def _leave_out(self) -> None:
        """Mark the place in the output from which displays are left out; a note at the end tells the amount."""
        if not self._has_noted_gap:
            self._has_noted_gap = True
            self._notify(Output("err", DISPLAYS_LEFT_OUT))

    def _stream(self, name: str, text: str) -> None:
        if not text:
            return
        self.is_cut |= name == "stderr" and text.startswith(RATE_LIMIT)
        self._notify(Output("err" if name == "stderr" else "out", text))

    def _value(self, data: Mapping[str, object]) -> None:
        bundle = {kind: plain(item) if kind == PLAIN and isinstance(item, str) else item for kind, item in data.items()}
        text = bundle.get(PLAIN)
        is_text = set(bundle) <= {PLAIN}
        self._notify(
            Value(
                text if isinstance(text, str) else text_of_bundle(bundle),
                is_late=self.is_over,
                truncated=self.is_cut,
                bundle=None if is_text else bundle,
            )
        )
        self.has_value.set()

    def _display(self, message: Message) -> None:
        data = message.mapping("data")
        is_update = message.type == "update_display_data"
        if self._quirks.shows_values and PLAIN in data and not is_update and not data.keys() & set(IMAGE_TYPES):
            self._value(data)
            return
        name = text_of(mapping_of(message.content, "transient"), "display_id")
        self._notify(Display(data, name, is_update))

    def _reply(self, message: Message) -> None:
        self.status = message.text("status")
        self.expressions = message.mapping("user_expressions")
        if self.status == "error" and (self.error is None or not self.error.name):
            self.error = read_error(message.content)
        payload = message.content.get("payload")
        for part in payload if isinstance(payload, list) else ():
            if isinstance(part, dict) and (text := text_of(mapping_of(part, "data"), PLAIN)):
                self._notify(Output("out", plain(text) + "\n"))

    def _request_input(self, prompt: str) -> None:
        self.waits_for_input = True
        if prompt:
            self._notify(Output("out", prompt))
        self._notify(InputNeeded())


NOT_RUN: Final = "not-run"
"""The type of the failure of code that the kernel dropped before it began."""

WORKER_DIRECTORY: Final = "/codriver/worker/"
"""The folder of our modules in a kernel's tracebacks: a frame in it is not the user's."""

TRACE_FRAMES: Final = 10
LINK_FRAMES: Final = 3
"""Frames kept of a failure, and of each of its causes."""

_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CLASS: Final = re.compile(r"<class '(?:builtins\.)?([^']+)'>")
_FRAME: Final = re.compile(
    r"^ *(?:(?:Cell|Input) In ?\[(?P<cell>\d+)\], line (?P<line>\d+)"
    r"|File (?P<file>.+?)(?::(?P<at>\d+)|, line (?P<row>\d+)))(?:, in (?P<function>[^\s(]+))?.*$",
    re.MULTILINE,
)
"""Source: IPython, `core.ultratb`."""
_IN_CELL: Final = re.compile(r" \(\d+\.py, line \d+\)$")
"""The non-existing file that IPython names for a syntax error in a cell."""
_V8_POSITION: Final = re.compile(r"<anonymous>:(\d+):(\d+)")
_RELATIONS: Final = {
    "The above exception was the direct cause of the following exception:": "cause",
    "During handling of the above exception, another exception occurred:": "context",
}
_WORDS: Final = {relation: words for words, relation in _RELATIONS.items()}
_BETWEEN: Final = re.compile("|".join(f"({re.escape(words)})" for words in _RELATIONS))
_LAST: Final = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$", re.MULTILINE)
_READING: Final = frozenset({"SyntaxError", "IndentationError", "TabError"})
_LIBRARY: Final = re.compile(r"[/\\](?:site-packages|dist-packages|lib[/\\]python\d[\d.]*)[/\\]|^<")


@dataclass(frozen=True, slots=True)
class KernelError:
    """An error in a kernel's words."""

    name: str
    value: str
    traceback: str


def plain(text: str) -> str:
    """Return the text without the escape sequences of terminals."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def read_error(content: Mapping[str, object]) -> KernelError:
    """Return the error in the content of an `error` message, or of a reply whose status is `error`."""
    name = text_of(content, "ename")
    match = _CLASS.fullmatch(name)
    lines = (plain(line) for line in strings_of(content, "traceback"))
    return KernelError(match[1] if match else name, plain(text_of(content, "evalue")), "\n".join(lines))


def is_interrupt(error: KernelError) -> bool:
    """Return whether the error is an interrupt."""
    return error.name == "KeyboardInterrupt"


def not_run() -> Failure:
    """Return the failure of code that the kernel dropped before it started."""
    words = "the kernel dropped this before it began, as something before it failed: it did not run, and can be sent"
    return Failure(NOT_RUN, f"{words} again")


def failure_of(error: KernelError, *, language: str, cell: int | None) -> Failure:
    """Return the failure. `cell`: the number of the failed execution, whose lines count as the code's own."""
    if language == "python":
        return _of_python(error, cell)
    kind = "exit status" if language == "bash" else error.name or "Error"
    position = _V8_POSITION.search(error.traceback)
    return Failure(
        kind,
        error.value.strip() or error.traceback.strip(),
        line=int(position[1]) if position else None,  # its column counts in the engine's code around ours
        trace=tuple(line.strip() for line in error.traceback.splitlines()[1 : TRACE_FRAMES + 1] if line.strip()),
    )


def report_of(failure: Failure, *, language: str) -> str:
    """Return the failure as a report for the error output: in Python's form, or in one line and its trace."""
    if language != "python":
        return f"{_words(failure)}\n" + "".join(f"  at {frame}\n" for frame in failure.trace)
    report = ""
    for link in reversed(failure.chain):
        report += f"{_python_report(link)}\n{_WORDS[link.relation]}\n\n"
    return report + _python_report(failure)


def _python_report(failure: Failure) -> str:
    frames = [frame for text in reversed(failure.trace) if (frame := FRAME.match(text))]
    lines = [f'  File "{frame["file"]}", line {frame["line"]}, in {frame["function"]}\n' for frame in frames]
    return f"Traceback (most recent call last):\n{''.join(lines)}{_words(failure)}\n"


def _words(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}" if failure.message else failure.type


def _of_python(error: KernelError, cell: int | None) -> Failure:
    """Return the last traceback's failure, with the tracebacks before it as its chain, the nearest first."""
    parts = _BETWEEN.split(error.traceback)
    width = 1 + len(_RELATIONS)
    tracebacks = parts[::width]
    relations = [next(filter(None, parts[start + 1 : start + width]), "") for start in range(0, len(parts) - 1, width)]
    failure = replace(
        _placed(Failure(error.name or "Error", _IN_CELL.sub("", error.value)), tracebacks[-1], cell),
        phase="read" if error.name in _READING else "execution",
    )
    chain = [
        _placed(replace(_last_line(text), relation=_RELATIONS[words]), text, cell)
        for text, words in zip(tracebacks, relations, strict=False)
    ]
    links = tuple(replace(link, trace=link.trace[:LINK_FRAMES]) for link in reversed(chain))
    return replace(failure, chain=links)


def _last_line(text: str) -> Failure:
    """Return the type and message at the end of a traceback."""
    found = list(_LAST.finditer(text))
    return Failure(found[-1]["type"], found[-1]["message"] or "") if found else Failure("Error", "")


def _placed(failure: Failure, text: str, cell: int | None) -> Failure:
    """The failure with its trace, innermost frame first, and the place of the user's innermost frame."""
    every = list(_FRAME.finditer(text))[::-1]
    # Around our own load there is only the cell that calls it.
    frames = list(takewhile(lambda frame: not (frame["file"] or "").startswith(WORKER_DIRECTORY), every))
    trace = tuple(_text(frame) for frame in frames[:TRACE_FRAMES])
    running = frames[-1]["cell"] if frames and not frames[-1]["function"] else None
    if running is not None:  # executions side by side share a count, so the outermost frame tells its own
        cell = int(running)
    for frame in frames:
        if frame["cell"] is not None and (cell is None or int(frame["cell"]) == cell):
            return replace(failure, line=int(frame["line"]), trace=trace)
        if frame["file"] is not None and not _LIBRARY.search(frame["file"]):
            return replace(failure, file=_whole(frame["file"]), line=int(frame["at"] or frame["row"]), trace=trace)
    return replace(failure, trace=trace)


def _text(frame: re.Match[str]) -> str:
    function = frame["function"] or "<module>"
    if frame["cell"] is not None:
        return f"{function} (<In[{frame['cell']}]>:{frame['line']})"
    return f"{function} ({_whole(frame['file'])}:{frame['at'] or frame['row']})"


def _whole(file: str) -> str:
    """Return the full path: IPython writes the home directory as `~`."""
    return str(Path(file).expanduser()) if file.startswith("~") else file
