"""Extract the visible text of an HTML page."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Final

MAX_PARSED_CHARS: Final = 40_000
"""Maximum number of characters parsed from a page."""
HIDDEN_ELEMENTS: Final = frozenset({"script", "style"})
"""Elements whose content is not displayed."""


class _TextParser(HTMLParser):
    """A parser that collects the visible text of an HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.chunks: list[str] = []
        self._hidden = ""
        """The hidden element that contains the current position, if any."""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        """Start skipping text if the element is hidden."""
        del attrs
        self._hidden = tag if tag in HIDDEN_ELEMENTS else self._hidden

    def handle_endtag(self, tag: str) -> None:
        """Stop skipping text at the end of the hidden element."""
        self._hidden = "" if tag == self._hidden else self._hidden

    def handle_data(self, data: str) -> None:
        """Collect text outside hidden elements."""
        if not self._hidden:
            self.chunks.append(data)


def html_to_text(page: str) -> str:
    """Return the visible text of an HTML page as one line."""
    parser = _TextParser()
    parser.feed(page[:MAX_PARSED_CHARS])
    parser.close()
    return " ".join(" ".join(parser.chunks).split())
