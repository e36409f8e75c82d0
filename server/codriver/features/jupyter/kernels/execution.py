"""One execution of code in a kernel, whose messages are converted to events.

An execution ends with its reply and the kernel's `idle`, in either order. Replies to other clients are not visible, so
their executions end with `idle`. An execution failed if there was an `error` message or if the reply says so, because
some kernels send only one of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.features.jupyter.kernels import messages
from codriver.features.jupyter.kernels.kernel_failures import KernelError, is_interrupt, parse_error, strip_escapes
from codriver.features.jupyter.kernels.messages import RATE_LIMIT_PREFIXES
from codriver.repls.contract.display_data import IMAGE_TYPES, Display, bundle_text
from codriver.repls.contract.events import InputNeeded, Interruption, Output, Value
from codriver.wire.untrusted import mapping_at, text_at

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from codriver.features.jupyter.kernels.kernel_quirks import Quirks
    from codriver.features.jupyter.kernels.messages import Message
    from codriver.repls.contract.events import Event


PLAIN_TEXT_TYPE: Final = "text/plain"
CUT_BY_SERVER_MESSAGE: Final = "the Jupyter Server omitted some of the output, because it exceeded its rate limit"
INTERRUPT_TIMEOUT_S: Final = 2.0
"""Maximum time to wait for code to end after an interrupt."""
NOT_SENT_MESSAGE: Final = "the code was never sent, because the kernel was busy with other code"
DISPLAYS_OMITTED_MESSAGE: Final = "[some displays are omitted from here on, because too many were sent at once]\n"


def omission_note(omitted_bytes: int, cause: str) -> str:
    """Return a note about messages that were dropped or could not be read, or an empty string."""
    omission = f"{omitted_bytes:,} bytes of output were omitted, because too much was sent at once"
    unreadable = f"a message from the kernel could not be read: {cause}" if cause else ""
    return "; ".join(filter(None, (omission if omitted_bytes else "", unreadable)))


async def stop_evaluation(
    turn_scope: anyio.CancelScope | None, finished: anyio.Event, interrupt: Callable[[], Awaitable[str]]
) -> Interruption:
    """Interrupt running code, or withdraw it if it is still waiting in `turn_scope` for the shell.

    `interrupt` interrupts the kernel and returns a note to use if the code continues to run. `finished` is set when the
    code has ended.
    """
    if turn_scope is not None:
        turn_scope.cancel()
        await finished.wait()
        return Interruption("interrupted", note=NOT_SENT_MESSAGE)
    note = await interrupt()
    with anyio.move_on_after(INTERRUPT_TIMEOUT_S):
        await finished.wait()
    return Interruption("interrupted") if finished.is_set() else Interruption("requested", note=note)


class Execution:
    """An execution of code in a kernel, which converts the messages about the code to events.

    It remains in use after the code has ended, because messages about the code may be received late.
    """

    def __init__(self, notify: Callable[[Event], None], quirks: Quirks) -> None:
        self._notify = notify
        self._quirks = quirks
        self.error: KernelError | None = None
        self.locals: tuple[str, ...] = ()
        """Simple local variables at the point where the code failed, each as `name=value`."""
        self.count: int | None = None
        """The kernel's execution count."""
        self.status = ""
        """The status of the reply."""
        self.expressions: Mapping[str, object] = {}
        """Results of the expressions that were sent with the code."""
        self.has_value = anyio.Event()
        self.waits_for_input = False
        self.is_cut = False
        """Whether a Jupyter Server omitted some of the execution's messages."""
        self.omitted_bytes = 0
        """Number of bytes in the execution's messages that were not stored."""
        self.read_error_cause = ""
        """The reason why one of the execution's messages could not be read, or an empty string."""
        self._has_noted_gap = False
        self.is_finished = False

    @property
    def is_interrupted(self) -> bool:
        """Return whether the kernel reported that the execution was interrupted."""
        return self.status == "abort" or (self.error is not None and is_interrupt(self.error))

    def receive(self, message: Message) -> None:
        """Process a message that the kernel sent about this execution."""
        content = message.content
        self.omitted_bytes += message.omitted_bytes
        self.read_error_cause = message.read_error or self.read_error_cause
        # The first count is correct. The reply to code outside the history has the previous one.
        if self.count is None and isinstance(count := content.get("execution_count"), int):
            self.count = count
        match message.type:
            case messages.OMITTED_TYPE:
                self._mark_omission()
            case "stream":
                self._report_output(text_at(content, "name"), text_at(content, "text"))
            case "execute_result":
                self._report_value(message.mapping_field("data"))
            case "display_data" | "update_display_data":
                self._report_display(message)
            case "error":
                self.error = parse_error(content)
            case "execute_reply":
                self._handle_reply(message)
            case "input_request":
                self._request_input(text_at(content, "prompt"))

    def _mark_omission(self) -> None:
        """Print a marker at the position of the first omitted display."""
        if not self._has_noted_gap:
            self._has_noted_gap = True
            self._notify(Output("err", DISPLAYS_OMITTED_MESSAGE))

    def _report_output(self, name: str, text: str) -> None:
        if not text:
            return
        self.is_cut |= name == "stderr" and text.startswith(RATE_LIMIT_PREFIXES)
        self._notify(Output("err" if name == "stderr" else "out", text))

    def _report_value(self, data: Mapping[str, object]) -> None:
        bundle = {
            mime_type: strip_escapes(item) if mime_type == PLAIN_TEXT_TYPE and isinstance(item, str) else item
            for mime_type, item in data.items()
        }
        text = bundle.get(PLAIN_TEXT_TYPE)
        is_text = set(bundle) <= {PLAIN_TEXT_TYPE}
        self._notify(
            Value(
                text if isinstance(text, str) else bundle_text(bundle),
                is_late=self.is_finished,
                truncated=self.is_cut,
                bundle=None if is_text else bundle,
            )
        )
        self.has_value.set()

    def _report_display(self, message: Message) -> None:
        data = message.mapping_field("data")
        is_update = message.type == "update_display_data"
        if (
            self._quirks.displays_values
            and PLAIN_TEXT_TYPE in data
            and not is_update
            and not data.keys() & set(IMAGE_TYPES)
        ):
            self._report_value(data)
            return
        display_id = text_at(mapping_at(message.content, "transient"), "display_id")
        self._notify(Display(data, display_id, is_update))

    def _handle_reply(self, message: Message) -> None:
        self.status = message.text("status")
        self.expressions = message.mapping_field("user_expressions")
        if self.status == "error" and (self.error is None or not self.error.name):
            self.error = parse_error(message.content)
        payload = message.content.get("payload")
        for part in payload if isinstance(payload, list) else ():
            if isinstance(part, dict) and (text := text_at(mapping_at(part, "data"), PLAIN_TEXT_TYPE)):
                self._notify(Output("out", strip_escapes(text) + "\n"))

    def _request_input(self, prompt: str) -> None:
        self.waits_for_input = True
        if prompt:
            self._notify(Output("out", prompt))
        self._notify(InputNeeded())
