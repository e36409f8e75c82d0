"""Print values with the methods of IPython's display protocol, if they have any.

Their output replaces the text for a class without its own `repr`, such as `<a.Chart object at 0x7f…>`. In order of
preference, it is the plain text in a MIME bundle, the pretty printer's output, Markdown, LaTeX, or the text in HTML.
Methods that fail or return nothing are skipped. Source: IPython, `core.formatters` and `lib.pretty`.
"""

from __future__ import annotations

import contextlib
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Callable


MAX_TEXT_CHARACTERS = 2000
"""Maximum length of text that is displayed instead of a value."""
MAX_HTML_CHARACTERS = 20 * MAX_TEXT_CHARACTERS
"""Maximum length of HTML from which text is extracted."""
BARE_OBJECT_PATTERN = re.compile(r"<[\w.<>]+ object(?: at 0x[0-9A-Fa-f]+)?>")
"""Matches a representation that contains only an object's class and possibly its address.

IPython's display objects omit the address.
"""
BUNDLE, PRETTY = "_repr_mimebundle_", "_repr_pretty_"
PLAIN, MARKDOWN, LATEX, HTML = "text/plain", "text/markdown", "text/latex", "text/html"
DISPLAY_METHODS = {MARKDOWN: "_repr_markdown_", LATEX: "_repr_latex_", HTML: "_repr_html_"}


def displayed_text(value: object, text: str, to_text: Callable[[Any], str]) -> str:
    """Return the text displayed for a value if `text` only names its class. Otherwise, return `text`.

    `to_text` converts the parts that a pretty printer prints.
    """
    kind = type(value)
    if isinstance(value, type) or not any(
        hasattr(kind, method) for method in (BUNDLE, PRETTY, *DISPLAY_METHODS.values())
    ):
        return text
    return (_display(value, to_text) or text) if BARE_OBJECT_PATTERN.fullmatch(text) else text


def pretty_printed_text(value: object, text: str, to_text: Callable[[Any], str]) -> str:
    """Return the text from a value's pretty printer if `text` only names its class. Otherwise, return `text`.

    Other displays are not used, because they may return whole pages, and the value may be part of a collection.
    """
    if not hasattr(type(value), PRETTY) or isinstance(value, type) or not BARE_OBJECT_PATTERN.fullmatch(text):
        return text
    return _pretty(value, to_text) or text


def _display(value: Any, to_text: Callable[[Any], str]) -> str | None:
    """Return the text of the first display method that succeeds, or None if there is none."""
    kind = type(value)
    bundle: dict[str, object] = {}
    if hasattr(kind, BUNDLE):
        with contextlib.suppress(Exception):
            found = getattr(value, BUNDLE)(include=None, exclude=None)
            bundle.update(found[0] if isinstance(found, tuple) else found)
    if (plain := _clean(bundle.get(PLAIN))) and not BARE_OBJECT_PATTERN.fullmatch(plain):
        return plain
    if pretty := _pretty(value, to_text):
        return pretty
    for media, method in DISPLAY_METHODS.items():
        found = bundle.get(media)
        if not found and hasattr(kind, method):
            with contextlib.suppress(Exception):
                found = getattr(value, method)()
        page = found[0] if isinstance(found, tuple) and found else found
        if media == HTML and isinstance(page, str):
            text = _text_of_html(page)
            page = f"<{kind.__name__}: {text}>" if text else None
        if page_text := _clean(page):
            return page_text
    return None


def _clean(text: object) -> str | None:
    """Truncate a string to `MAX_TEXT_CHARACTERS`. Return None if it is blank or not a string."""
    if not isinstance(text, str) or not text.strip():
        return None
    return (
        text
        if len(text) <= MAX_TEXT_CHARACTERS
        else f"{text[:MAX_TEXT_CHARACTERS]}... ({len(text) - MAX_TEXT_CHARACTERS} more characters)"
    )


def _pretty(value: Any, to_text: Callable[[Any], str]) -> str | None:
    if not hasattr(type(value), PRETTY):
        return None
    with contextlib.suppress(Exception):
        library = sys.modules.get("IPython.lib.pretty")
        if library is not None:
            return _clean(library.pretty(value))
        printer = PrettyPrinter(to_text)
        printer.pretty(value)
        return _clean("".join(printer.chunks))
    return None


class PrettyPrinter:
    """A printer for `_repr_pretty_` that is used if IPython is not loaded. It prints everything on one line."""

    max_width = 79

    def __init__(self, to_text: Callable[[Any], str]) -> None:
        self.chunks: list[str] = []
        self.stack: list[int] = []
        """The ids of the values that are being printed, to detect cycles."""
        self._to_text = to_text

    def text(self, text: str) -> None:
        """Add text."""
        self.chunks.append(text)

    def breakable(self, sep: str = " ") -> None:
        """Add a separator. IPython's printer may break the line instead."""
        self.chunks.append(sep)

    def break_(self) -> None:
        """Start a new line."""
        self.chunks.append("\n")

    def begin_group(self, _indent: int = 0, open: str = "") -> None:  # noqa: A002  # IPython's name
        """Start a group with the text `open`."""
        self.chunks.append(open)

    def end_group(self, _dedent: int = 0, close: str = "") -> None:
        """End a group with the text `close`."""
        self.chunks.append(close)

    @contextlib.contextmanager
    def group(self, _indent: int = 0, open: str = "", close: str = "") -> Iterator[None]:  # noqa: A002  # as above
        """Print `open` before and `close` after the text that is printed while the context is active."""
        self.chunks.append(open)
        try:
            yield
        finally:
            self.chunks.append(close)

    @contextlib.contextmanager
    def indent(self, _indent: int) -> Iterator[None]:
        """Do nothing. IPython's printer would indent the text."""
        yield

    def flush(self) -> None:
        """Do nothing, because no text is buffered."""

    def pretty(self, value: Any) -> None:
        """Add a value, using the pretty printer of its class if there is one."""
        if isinstance(value, type) or not hasattr(type(value), PRETTY):
            self.chunks.append(self._to_text(value))
            return
        is_cycle = id(value) in self.stack
        self.stack.append(id(value))
        try:
            value._repr_pretty_(self, is_cycle)
        finally:
            self.stack.pop()


def _text_of_html(page: str) -> str:
    from html.parser import HTMLParser

    class TextParser(HTMLParser):
        def handle_data(self, data: str) -> None:
            chunks.append(data)

    chunks: list[str] = []
    parser = TextParser()
    with contextlib.suppress(Exception):
        parser.feed(page[:MAX_HTML_CHARACTERS])
    return " ".join(" ".join(chunks).split())[:MAX_TEXT_CHARACTERS]
