"""What comes back from one form: passed on as events while it comes, kept as far as its ending needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.repls.adapter_values import InputNeeded, Listener, Output, Value
from codriver.repls.nrepl.failures import SentFailure
from codriver.repls.nrepl.message import (
    FAILED,
    NOTHING,
    Message,
    as_map,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.wire.bencode import Value as Bencode

ERR_CHARS: Final = 64 * 1024
"""How much of the end of `err` is kept to read a failure from: more than any traceback seen, whatever was printed."""

TRUNCATED: Final = "nrepl.middleware.print/truncated"
NEED_INPUT: Final = "need-input"


class Reply:
    """The answer to one request that evaluates. Lives as long as messages for it may come."""

    def __init__(self, evaluation: str | None, listener: Listener) -> None:
        self._evaluation = evaluation
        self._listener = listener
        self._err = ""
        self._ex: str | None = None
        self._root_ex: str | None = None
        self._parts: Mapping[str, Bencode] = NOTHING
        self.status: set[str] = set()
        self.namespace: str | None = None
        self.values: list[str] = []
        self.is_failed = False

    def take(self, message: Message) -> None:
        """Pass on what `message` says, in its order: output, value, request for input.

        What comes behind `done` is passed on too, a value as a late one, and changes nothing of how it ended.
        """
        for stream in ("out", "err"):
            if text := message.text(stream):
                self._listener(self._evaluation, Output("out" if stream == "out" else "err", text))
        if self.is_over:
            self._pass_on_value(message, is_late=True)
            return
        if err := message.text("err"):
            self._err = (self._err + err)[-ERR_CHARS:]
        self.namespace = message.text("ns") or self.namespace
        self._ex = message.text("ex") or self._ex
        self._root_ex = message.text("root-ex") or self._root_ex
        self._parts = as_map(message.fields.get("codriver/error")) or self._parts
        self.status |= message.status
        # `error` also stands beside `done` of an interrupt's own answer; `interrupted` then says what happened.
        self.is_failed = self.is_failed or bool(self._ex or self._parts) or not FAILED.isdisjoint(message.status)
        if (value := message.text("value")) is not None:
            self.values.append(value[:ERR_CHARS])
        self._pass_on_value(message, is_late=False)
        if NEED_INPUT in message.status:
            self._listener(self._evaluation, InputNeeded())

    def _pass_on_value(self, message: Message, *, is_late: bool) -> None:
        if (text := message.text("value")) is not None:
            is_cut = TRUNCATED in message.status
            self._listener(self._evaluation, Value(text, message.text("ns"), truncated=is_cut, is_late=is_late))

    @property
    def is_over(self) -> bool:
        """Whether the server said that it is finished with the request."""
        return "done" in self.status

    @property
    def is_interrupted(self) -> bool:
        """Whether the server said that it interrupted the evaluation."""
        return "interrupted" in self.status

    @property
    def failure(self) -> SentFailure:
        """What was sent about the failure."""
        return SentFailure(self._err, self._ex, self._root_ex, frozenset(self.status), self._parts)
