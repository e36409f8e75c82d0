"""Sanitize the markup of tables that programs produce, so that it cannot run code or open connections.

The frame's policy forbids loading, but browsers still connect for some elements, such as `<link rel=preconnect>`,
frames and prefetched links. The markup is therefore parsed, and only known elements and attributes without external
addresses are written. The frame's policy (no scripts, forms, loads or origin) applies to the result.

Source: HTML Living Standard, "serializing HTML fragments"; Resource Hints.
"""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser
from typing import Final

VOID_ELEMENTS: Final = frozenset({"br", "col", "hr", "img", "input", "wbr"})
"""Elements without content and end tags."""
_ALLOWED_ELEMENT_NAMES: Final = (
    "table caption colgroup thead tbody tfoot tr th td a abbr article b bdi bdo big blockquote center cite code "
    "data dd del details dfn div dl dt em figcaption figure font footer h1 h2 h3 h4 h5 h6 header i ins kbd label "
    "li main mark nobr ol p pre q rp rt ruby s samp section small span strike strong sub summary sup time tt u ul "
    "var svg g path rect circle ellipse line polyline polygon text tspan defs clippath lineargradient "
    "radialgradient stop title desc symbol use marker"
)
_REMOVED_ELEMENT_NAMES: Final = (
    "script noscript iframe frameset noframes object applet template textarea select math audio video picture "
    "canvas portal fencedframe xmp plaintext listing"
)
_ALLOWED_ATTRIBUTE_NAMES: Final = (
    "align alt bgcolor border cellpadding cellspacing checked class color colspan datetime dir disabled for frame "
    "headers height hidden id lang nowrap open rowspan rules scope span start style title type valign value width "
    "clip-path clip-rule clippathunits cx cy d dominant-baseline dx dy fill fill-opacity fill-rule font-family "
    "font-size font-style font-weight fx fy gradienttransform gradientunits letter-spacing markerheight "
    "markerunits markerwidth offset opacity orient pathlength points preserveaspectratio r refx refy rotate rx ry "
    "stop-color stop-opacity stroke stroke-dasharray stroke-dashoffset stroke-linecap stroke-linejoin stroke- "
    "miterlimit stroke-opacity stroke-width text-anchor transform vector-effect version viewbox visibility x x1 "
    "x2 xmlns y y1 y2 role tabindex"
)
ALLOWED_ELEMENTS: Final = VOID_ELEMENTS | frozenset(_ALLOWED_ELEMENT_NAMES.split())
"""Elements that are allowed."""
REMOVED_ELEMENTS: Final = frozenset(_REMOVED_ELEMENT_NAMES.split())
"""Elements that are removed along with their content."""
ALLOWED_ATTRIBUTES: Final = frozenset(_ALLOWED_ATTRIBUTE_NAMES.split())
"""Attributes that are allowed."""
LINK_ATTRIBUTES: Final = {"href": re.compile(r"#[\w.:-]*"), "xlink:href": re.compile(r"#[\w.:-]*")}
"""Attributes that may refer to another part of the same markup, each with a pattern that its values must match."""
INLINE_IMAGE_ADDRESS: Final = re.compile(r"data:image/[\w.+-]+[;,].*", re.DOTALL)
"""Matches the address of an image embedded in the markup."""
SWITCH_INPUT_TYPES: Final = frozenset({"checkbox", "radio"})
"""Types of inputs that tables use to fold and unfold parts."""
REMOTE_STYLE: Final = re.compile(r"url\s*\(\s*(?![\"']?\s*(?:data:image/|#))|@import|image-set", re.IGNORECASE)
"""Matches parts of a style that may load something: addresses other than inline images or parts of the markup."""


def remove_external_references(markup: str) -> str:
    """Remove everything from HTML except known elements, and attributes without external addresses."""
    writer = _Writer()
    writer.feed(markup)
    writer.close()
    return "".join(writer.written)


class _Writer(HTMLParser):
    """An HTML parser that writes the allowed elements and attributes, and omits all others."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.written: list[str] = []
        self._hidden: list[str] = []
        """Open elements whose content is omitted."""
        self._style: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in REMOVED_ELEMENTS:
            self._hidden.append(tag)
        elif tag == "style" and not self._hidden:
            self._style = []
        elif tag in ALLOWED_ELEMENTS and not self._hidden and _is_allowed(tag, dict(attrs)):
            given = "".join(f' {name}="{html.escape(value)}"' for name, value in _allowed_attributes(tag, attrs))
            self.written.append(f"<{tag}{given}>")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in REMOVED_ELEMENTS:
            self.handle_starttag(tag, attrs)
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._hidden:
            del self._hidden[self._hidden.index(tag) :]
        elif tag == "style" and self._style is not None:
            text, self._style = "".join(self._style), None
            if "<" not in text and not REMOTE_STYLE.search(text):
                self.written.append(f"<style>{text}</style>")
        elif tag in ALLOWED_ELEMENTS and tag not in VOID_ELEMENTS and not self._hidden:
            self.written.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        if self._style is not None:
            self._style.append(data)
        elif not self._hidden:
            self.written.append(html.escape(data, quote=False))


def _is_allowed(tag: str, attributes: dict[str, str | None]) -> bool:
    """Return whether an element with these attributes is allowed. Images and inputs require certain attributes."""
    if tag == "img":
        return bool(INLINE_IMAGE_ADDRESS.fullmatch((attributes.get("src") or "").strip()))
    return tag != "input" or (attributes.get("type") or "").lower() in SWITCH_INPUT_TYPES


def _allowed_attributes(tag: str, attrs: list[tuple[str, str | None]]) -> list[tuple[str, str]]:
    """Return the allowed attributes of an element, without duplicates."""
    found: dict[str, str] = {}
    for name, value in attrs:
        text = value or ""
        is_image = tag == "img" and name == "src"
        is_link = tag != "a" and name in LINK_ATTRIBUTES and LINK_ATTRIBUTES[name].fullmatch(text.strip()) is not None
        is_plain = name in ALLOWED_ATTRIBUTES and not REMOTE_STYLE.search(text)
        if is_image or is_link or is_plain:
            found.setdefault(name, text)
    return [*found.items()]
