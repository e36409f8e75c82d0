"""One execution in a kernel, by Codriver or another client: its messages as events, its end, and its error.

An execution ends with its reply and the kernel's `idle`, in any order. Replies to other clients are not visible, so
their executions end with `idle`. An execution failed if there was an `error` message or if the reply says so, because
some kernels send only one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.features.jupyter.kernels import messages
from codriver.features.jupyter.kernels.kernel_failures import KernelError, is_interrupt, plain, read_error
from codriver.features.jupyter.kernels.messages import RATE_LIMIT
from codriver.repls.contract.adapter_values import IMAGE_TYPES, Display, InputNeeded, Interruption, Output, Value
from codriver.repls.contract.adapter_values import text_of as text_of_bundle
from codriver.wire.untrusted import mapping_of, text_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.features.jupyter.kernels.kernel_quirks import Quirks
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.adapter_values import Event


PLAIN: Final = "text/plain"
CUT_BY_SERVER: Final = "the Jupyter Server left out some of it: more came at once than its rate limit lets through"
AFTER_INTERRUPT_S: Final = 2.0
NOT_SENT: Final = "it was not sent yet: the kernel was busy with other code"
DISPLAYS_LEFT_OUT: Final = "[displays are left out from here on where more come at once than is held]\n"


def omission_note(count: int, cause: str) -> str:
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
        self.omitted_bytes = 0
        """Number of bytes of its messages that were not stored."""
        self.read_error_cause = ""
        """Why a message of it could not be read, or empty."""
        self._has_noted_gap = False
        self.is_over = False

    @property
    def is_interrupted(self) -> bool:
        """Return whether the execution ended by an interrupt, as far as the kernel says so."""
        return self.status == "abort" or (self.error is not None and is_interrupt(self.error))

    def receive(self, message: Message) -> None:
        """Take a message about the execution."""
        content = message.content
        self.omitted_bytes += message.omitted_bytes
        self.read_error_cause = message.read_error or self.read_error_cause
        # The first number told counts: the reply to code outside of the history has the number before.
        if self.count is None and isinstance(count := content.get("execution_count"), int):
            self.count = count
        match message.type:
            case messages.OMITTED:
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
        if self._quirks.displays_values and PLAIN in data and not is_update and not data.keys() & set(IMAGE_TYPES):
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
