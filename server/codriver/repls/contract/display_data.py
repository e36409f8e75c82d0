"""Display data: a value or display in several media types.

`bundle_text` picks the text that represents all of them. An image is represented by a `data:` URL, which becomes
image content in answers. Source: Jupyter's messaging protocol, "Display data"; RFC 2397.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from codriver.core.records import dataclass

Bundle = Mapping[str, object]
"""One value in several media types. Maps each type to text, base64 for binary data, or an object for a JSON type."""
IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types of images that models can view, in order of preference. Their data is base64."""
TEXT_TYPES: Final = ("text/plain", "text/markdown", "text/latex")
"""Media types that are readable without decoding, in order of preference."""
HTML_TYPE: Final = "text/html"
"""Media type of HTML. Its visible text may be displayed as the value."""
JSON_TYPE: Final = "application/json"
"""Media type of JSON, which is displayed as the value if there is no other suitable type."""
BARE_OBJECT_PATTERN: Final = re.compile(r"<(?P<name>[\w.<>]+)(?: object(?: at 0x[0-9A-Fa-f]+)?| at 0x[0-9A-Fa-f]+)>")
"""Matches the text of a Python object that names only its class, as `object.__repr__` and IPython print it."""


@dataclass(frozen=True, slots=True)
class Display:
    """Data that the program displays, in one or more media types.

    `display_id` is empty for a display without an id. With `is_update`, the data replaces the previous content of the
    display with this id.

    Source: Jupyter's messaging protocol, "Display data".
    """

    bundle: Bundle
    display_id: str = ""
    is_update: bool = False


def bundle_text(bundle: Bundle) -> str:
    """Return the text that represents a bundle: an image as a `data:` URL, or else the most readable text.

    A bundle without either is represented by the names and sizes of its types, and instructions for reading their data.
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
    """Return the text, HTML or JSON of a value whose plain text only names its class."""
    if behind := next((text for text in readable if text.strip()), None):
        return behind
    page = bundle.get(HTML_TYPE)
    from codriver.repls.contract import html_text  # noqa: PLC0415  # rarely needed, and the parser delays each start

    if isinstance(page, str) and (text := html_text.html_to_text(page)):
        return f"<{bare['name'].rpartition('.')[2]}: {text}>"
    return media_type_text(bundle, JSON_TYPE) if bundle.get(JSON_TYPE) is not None else bare[0]


def media_type_text(bundle: Bundle, name: str) -> str:
    """Return the data of one media type as text. JSON objects are encoded."""
    data = bundle[name]
    return data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)


def _size(data: object) -> str:
    count = len(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))
    return f"{count} characters" if count < 1024 else f"{count // 1024} KB"
