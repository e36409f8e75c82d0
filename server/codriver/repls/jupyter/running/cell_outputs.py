"""A notebook cell's outputs, gathered from the messages of its execution as a notebook keeps them.

Pure. Source: nbformat 4, "Code cell outputs"; Jupyter's messaging protocol, `clear_output`, `update_display_data`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from codriver.repls.contract.media import CellRun
from codriver.repls.jupyter.messages.messages import mapping_of, text_of, texts_of

if TYPE_CHECKING:
    from codriver.repls.jupyter.messages.messages import Message

Output = dict[str, object]


MOST_CHARACTERS: Final = 16 * 2**20
"""Of one cell's outputs: a cell that prints without end is not to fill the memory, nor a file that somebody opens."""


class CellOutputs:
    """The outputs of one cell, in their order, the first `most_characters` of them.

    Consecutive texts of one stream are one output.
    """

    def __init__(self, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most_characters
        self._outputs: list[Output] = []
        self._texts: list[str] = []
        """The texts of the last output, if that is a stream."""
        self._held = self._omitted = 0
        self._by_display: dict[str, list[Output]] = {}
        self._count: int | None = None
        self._clears_next = False

    def take(self, message: Message) -> None:
        """A message about the execution."""
        content = message.content
        if isinstance(count := content.get("execution_count"), int):
            self._count = count
        match message.type:
            case "stream":
                self._stream(text_of(content, "name"), text_of(content, "text"))
            case "execute_result":
                self._add({**_shown("execute_result", message), "execution_count": content.get("execution_count")})
            case "display_data":
                output = _shown("display_data", message)
                if self._add(output) and (name := _display_id(message)):
                    self._by_display.setdefault(name, []).append(output)
            case "update_display_data":
                self._update(message)
            case "error":
                trace = list(texts_of(content, "traceback"))
                name, value = text_of(content, "ename"), text_of(content, "evalue")
                self._add({"output_type": "error", "ename": name, "evalue": value, "traceback": trace})
            case "clear_output":
                self._clear(waits=content.get("wait") is True)

    def run(self) -> CellRun:
        """The outputs so far."""
        self._join()
        return CellRun(self._count, tuple(self._outputs), self._omitted)

    def _stream(self, name: str, text: str) -> None:
        if not text:
            return
        if self._clears_next:
            self._clear(waits=False)
        kept = text[: self._most - self._held]
        self._held += len(kept)
        self._omitted += len(text) - len(kept)
        if not kept:
            return
        last = self._outputs[-1] if self._outputs else {}
        if last.get("output_type") != "stream" or last.get("name") != name:
            self._join()
            self._outputs.append({"output_type": "stream", "name": name, "text": ""})
        self._texts.append(kept)

    def _join(self) -> None:
        """Put the texts together that came of the last output, once: to lengthen one text again and again is slow."""
        if self._texts:
            last = self._outputs[-1]
            last["text"] = "".join([str(last["text"]), *self._texts])
            self._texts = []

    def _add(self, output: Output) -> bool:
        """Add an output where there is room for it; False where it is left out."""
        if self._clears_next:
            self._clear(waits=False)
        self._join()
        if not self._has_room(_size(output)):
            return False
        self._outputs.append(output)
        return True

    def _has_room(self, size: int) -> bool:
        """True where so many more characters are held, which count from now on; else they are left out."""
        if size > self._most - self._held:
            self._omitted += size
            return False
        self._held += size
        return True

    def _update(self, message: Message) -> None:
        new = _shown("display_data", message)
        for output in self._by_display.get(_display_id(message), ()):
            if self._has_room(_size(new) - _size(output)):
                output.update(new)

    def _clear(self, *, waits: bool) -> None:
        """Forget what was put out; with `waits`, when the next output comes."""
        self._clears_next = waits
        if not waits:
            self._outputs.clear()
            self._by_display.clear()
            self._texts.clear()
            self._held = self._omitted = 0


def _shown(kind: str, message: Message) -> Output:
    return {"output_type": kind, "data": dict(message.mapping("data")), "metadata": dict(message.mapping("metadata"))}


def _size(output: Output) -> int:
    return len(json.dumps(output, ensure_ascii=False))


def _display_id(message: Message) -> str:
    return text_of(mapping_of(message.content, "transient"), "display_id")
