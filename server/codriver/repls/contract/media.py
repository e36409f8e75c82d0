"""Media of values and displays: a thing in several media types at once, and the one text that stands for it.

A picture is the text of a `data:` address, which answers give as image content. Source: Jupyter's messaging protocol,
"Display data"; RFC 2397.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

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
