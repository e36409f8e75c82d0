"""The outputs of a notebook cell, collected from messages and converted to the notebook format.

Source: nbformat 4, "Code cell outputs"; Jupyter's messaging protocol, `clear_output` and `update_display_data`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.records import Recent
from codriver.wire.untrusted import mapping_at, strings_at, text_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.profiles import Capability
    from codriver.features.jupyter.kernels.messages import Message


CellOutput = dict[str, object]


MAX_WAITING_CELLS: Final = 100
"""Maximum number of cells whose outputs are waiting to be collected."""
MAX_OUTPUT_CHARACTERS: Final = 16 * 2**20
"""Maximum number of characters in a cell's outputs.

The limit keeps endless printing from filling the memory or the notebook.
"""


@dataclass(frozen=True, slots=True)
class CellRun:
    """The result of running a notebook cell: its execution count and its outputs in nbformat 4."""

    execution_count: int | None
    outputs: tuple[Mapping[str, object], ...]
    omitted: int = 0
    """Number of characters omitted from outputs that were too long."""

    @property
    def has_started(self) -> bool:
        """Return whether the kernel has reported the start of the cell."""
        return self.execution_count is not None or bool(self.outputs)


class CellOutputs:
    """Collects the outputs of a cell in order, up to a maximum number of characters.

    Consecutive texts from the same stream are joined into one output.
    """

    def __init__(self, max_characters: int = MAX_OUTPUT_CHARACTERS) -> None:
        self._max_characters = max_characters
        self._outputs: list[CellOutput] = []
        self._chunks: list[str] = []
        """The chunks of text in the last output, if it belongs to a stream."""
        self._characters = self._omitted = 0
        self._by_display: dict[str, list[CellOutput]] = {}
        self._count: int | None = None
        self._clears_next = False

    def receive(self, message: Message) -> None:
        """Process a message that the kernel sent about the cell."""
        content = message.content
        if isinstance(count := content.get("execution_count"), int):
            self._count = count
        match message.type:
            case "stream":
                self._add_text(text_at(content, "name"), text_at(content, "text"))
            case "execute_result":
                self._add_output(
                    {**_display_output("execute_result", message), "execution_count": content.get("execution_count")}
                )
            case "display_data":
                output = _display_output("display_data", message)
                if self._add_output(output) and (name := _display_id(message)):
                    self._by_display.setdefault(name, []).append(output)
            case "update_display_data":
                self._update_display(message)
            case "error":
                trace = list(strings_at(content, "traceback"))
                name, value = text_at(content, "ename"), text_at(content, "evalue")
                self._add_output({"output_type": "error", "ename": name, "evalue": value, "traceback": trace})
            case "clear_output":
                self._clear_outputs(waits=content.get("wait") is True)

    def run(self) -> CellRun:
        """Return the execution count and outputs received so far."""
        self._join_chunks()
        return CellRun(self._count, tuple(self._outputs), self._omitted)

    def _add_text(self, name: str, text: str) -> None:
        if not text:
            return
        if self._clears_next:
            self._clear_outputs(waits=False)
        stored_text = text[: self._max_characters - self._characters]
        self._characters += len(stored_text)
        self._omitted += len(text) - len(stored_text)
        if not stored_text:
            return
        last_output = self._outputs[-1] if self._outputs else {}
        if last_output.get("output_type") != "stream" or last_output.get("name") != name:
            self._join_chunks()
            self._outputs.append({"output_type": "stream", "name": name, "text": ""})
        self._chunks.append(stored_text)

    def _join_chunks(self) -> None:
        """Join the collected text of the last output.

        The text is collected in chunks, because appending to a growing string is slow.
        """
        if self._chunks:
            last_output = self._outputs[-1]
            last_output["text"] = "".join([str(last_output["text"]), *self._chunks])
            self._chunks = []

    def _add_output(self, output: CellOutput) -> bool:
        """Add an output. Return False if it was omitted because it does not fit."""
        if self._clears_next:
            self._clear_outputs(waits=False)
        self._join_chunks()
        if not self._reserve(_output_size(output)):
            return False
        self._outputs.append(output)
        return True

    def _reserve(self, size: int) -> bool:
        """Reserve space for `size` characters. If they do not fit, count them as omitted and return False."""
        if size > self._max_characters - self._characters:
            self._omitted += size
            return False
        self._characters += size
        return True

    def _update_display(self, message: Message) -> None:
        new_output = _display_output("display_data", message)
        for output in self._by_display.get(_display_id(message), ()):
            if self._reserve(_output_size(new_output) - _output_size(output)):
                output.update(new_output)

    def _clear_outputs(self, *, waits: bool) -> None:
        """Remove the outputs collected so far. With `waits`, remove them when the next output is received."""
        self._clears_next = waits
        if not waits:
            self._outputs.clear()
            self._by_display.clear()
            self._chunks.clear()
            self._characters = self._omitted = 0


def _display_output(output_type: str, message: Message) -> CellOutput:
    return {
        "output_type": output_type,
        "data": dict(message.mapping_field("data")),
        "metadata": dict(message.mapping_field("metadata")),
    }


def _output_size(output: CellOutput) -> int:
    return len(json.dumps(output, ensure_ascii=False))


def _display_id(message: Message) -> str:
    return text_at(mapping_at(message.content, "transient"), "display_id")


class CellRuns:
    """Collects the outputs of cells running in one kernel until they are written to the notebook."""

    capabilities: Mapping[str, Capability] = MappingProxyType({})

    def __init__(self) -> None:
        self._outputs: Recent[str, CellOutputs] = Recent(MAX_WAITING_CELLS)

    def start(self, evaluation: str) -> CellOutputs:
        """Return a new collector for the outputs of an evaluation that runs a cell."""
        outputs = self._outputs[evaluation] = CellOutputs()
        return outputs

    def collect(self, evaluation: str) -> CellRun | None:
        """Remove and return the outputs of a finished cell. Return None if the evaluation did not run a cell."""
        outputs = self._outputs.pop(evaluation, None)
        return outputs.run() if outputs else None
