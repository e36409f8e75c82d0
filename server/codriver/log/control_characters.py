r"""Escape control characters, so that untrusted text can be printed safely.

A terminal interprets the characters sent to it. Text can set the clipboard or the window's title, move the cursor, hide
itself, or change the direction of the text after it. This module replaces such characters with source-code escapes such
as `\x1b` or `\u202e`.
"""

from __future__ import annotations

import json
import re

CONTROL_CHARACTER_PATTERN = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 but for tab and line feed, DEL, C1
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f"
    "\ud800-\udfff"  # unpaired surrogates, which cannot be encoded
    "]"
)
"""Matches the characters to escape: the categories Cc, Cf, Cs, Zl and Zp, except tab and line feed.

The two joiners in Cf are also excepted, because they occur in words and emoji. Source: Unicode 16, UnicodeData.txt.
"""
LINE_BREAK_ESCAPES = str.maketrans({"\n": r"\n", "\t": r"\t"})


def escape_controls(text: str) -> str:
    r"""Replace control characters with escapes such as `\x1b`, except line feeds and tabs.

    CRLF line endings become line feeds.
    """
    return CONTROL_CHARACTER_PATTERN.sub(_source_escape, text.replace("\r\n", "\n"))


def escape_to_one_line(text: str) -> str:
    """Replace control characters, tabs and line endings with escapes, so that the text stays on one line."""
    return CONTROL_CHARACTER_PATTERN.sub(_source_escape, text).translate(LINE_BREAK_ESCAPES)


def encode_for_terminal(value: object, *, indent: int | None = None) -> str:
    """Encode a value as JSON that is safe to print: control characters in strings are escaped."""
    return CONTROL_CHARACTER_PATTERN.sub(_json_escape, json.dumps(value, indent=indent, ensure_ascii=False))


def _source_escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else r"\u007f"
