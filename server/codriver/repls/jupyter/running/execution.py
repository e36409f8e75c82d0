"""One execution in a kernel, ours or another client's: its messages as events, and how it ended.

The end of an execution is its reply and the kernel's being idle again, in either order; of another client's, whose
replies are not seen, idle alone. It failed when either an `error` was published or the reply says so: one kernel does
only this, another only that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import anyio

from codriver.repls.contract.adapter_values import InputNeeded, Output, Value
from codriver.repls.contract.media import PICTURES, Display
from codriver.repls.contract.media import text_of as text_of_bundle
from codriver.repls.jupyter.messages import messages
from codriver.repls.jupyter.messages.messages import RATE_LIMIT, mapping_of, text_of
from codriver.repls.jupyter.running.failures import Told, is_interrupt, plain, read_error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from codriver.repls.contract.adapter_values import Event
    from codriver.repls.jupyter.messages.messages import Message
    from codriver.repls.jupyter.running.quirks import Quirks

PLAIN: Final = "text/plain"
CUT_BY_SERVER: Final = "the Jupyter Server left out some of it: more came at once than its rate limit lets through"
DISPLAYS_LEFT_OUT: Final = "[displays are left out from here on where more come at once than is held]\n"


def left_out_note(count: int, problem: str) -> str:
    """A note on an execution of whose messages so many bytes were not held."""
    left_out = f"{count:,} bytes of its output were left out, as more came at once than is held" if count else ""
    unread = f"a message of the kernel could not be read: {problem}" if problem else ""
    return "; ".join(filter(None, (left_out, unread)))


class Execution:
    """The course of one execution. Lives on after its end, for what comes late."""

    def __init__(self, tell: Callable[[Event], None], quirks: Quirks) -> None:
        self._tell = tell
        self._quirks = quirks
        self.error: Told | None = None
        self.locals: tuple[str, ...] = ()
        """The plain locals of the place where it failed, each as `name=value`."""
        self.count: int | None = None
        """The kernel's number of it."""
        self.status = ""
        """Of its reply."""
        self.has_value = anyio.Event()
        self.waits_for_input = False
        self.is_cut = False
        """Whether a server in between left some of its messages out."""
        self.left_out = 0
        """Bytes of its messages that were not held."""
        self.problem = ""
        """Why one of its messages could not be read, in words."""
        self._tells_gaps = False
        self.is_over = False

    @property
    def is_interrupted(self) -> bool:
        """Whether it ended by an interrupt, as far as the kernel says so."""
        return self.status == "abort" or (self.error is not None and is_interrupt(self.error))

    def take(self, message: Message) -> None:
        """A message about it."""
        content = message.content
        self.left_out += message.left_out
        self.problem = message.problem or self.problem
        if isinstance(count := content.get("execution_count"), int):
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
                self._ask(text_of(content, "prompt"))

    def _leave_out(self) -> None:
        """Say in its output where displays begin to be left out; how much that is, a note says at the end."""
        if not self._tells_gaps:
            self._tells_gaps = True
            self._tell(Output("err", DISPLAYS_LEFT_OUT))

    def _stream(self, name: str, text: str) -> None:
        if not text:
            return
        self.is_cut |= name == "stderr" and text.startswith(RATE_LIMIT)
        self._tell(Output("err" if name == "stderr" else "out", text))

    def _value(self, data: Mapping[str, object]) -> None:
        bundle = {kind: plain(item) if kind == PLAIN and isinstance(item, str) else item for kind, item in data.items()}
        text = bundle.get(PLAIN)
        is_text = set(bundle) <= {PLAIN}
        self._tell(
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
        if self._quirks.shows_values and PLAIN in data and not is_update and not data.keys() & set(PICTURES):
            self._value(data)
            return
        name = text_of(mapping_of(message.content, "transient"), "display_id")
        self._tell(Display(data, name, is_update))

    def _reply(self, message: Message) -> None:
        self.status = message.text("status")
        if self.status == "error" and (self.error is None or not self.error.name):
            self.error = read_error(message.content)
        payload = message.content.get("payload")
        for part in payload if isinstance(payload, list) else ():
            if isinstance(part, dict) and (text := text_of(mapping_of(part, "data"), PLAIN)):
                self._tell(Output("out", plain(text) + "\n"))

    def _ask(self, prompt: str) -> None:
        self.waits_for_input = True
        if prompt:
            self._tell(Output("out", prompt))
        self._tell(InputNeeded())
