"""Measure log entries, and truncate long ones."""

from __future__ import annotations

import sys
from json.encoder import encode_basestring
from typing import TYPE_CHECKING

from codriver_datalog.entity_store import utf8_bytes

if TYPE_CHECKING:
    from codriver.log.log_entries import Entry


MAX_TEXT_BYTES = 64 * 2**10
"""Maximum size of an entry's text in UTF-8. Longer texts are truncated in the middle."""
RETAINED_END_BYTES = MAX_TEXT_BYTES // 2 - 100
"""Number of bytes retained at each end of a truncated text. The rest is for the marker between them."""
EMPTY_TEXT_BYTES = sys.getsizeof("")
"""Size of an empty string in memory, in bytes."""


def truncate_entry(entry: Entry) -> Entry:
    """Return the entry with the middle of its text left out if the text is larger than `MAX_TEXT_BYTES`."""
    text = entry.text
    if len(text) * 4 <= MAX_TEXT_BYTES or (len(text) <= MAX_TEXT_BYTES and utf8_bytes(text) <= MAX_TEXT_BYTES):
        return entry
    head = text[:RETAINED_END_BYTES].encode("utf-8", "replace")[:RETAINED_END_BYTES].decode("utf-8", "ignore")
    tail = text[-RETAINED_END_BYTES:].encode("utf-8", "replace")[-RETAINED_END_BYTES:].decode("utf-8", "ignore")
    omitted = len(text) - len(head) - len(tail)
    return entry._replace(text=f"{head}\n... {omitted:,} of {len(text):,} characters are left out here ...\n{tail}")


def entry_bytes(entry: Entry) -> int:
    """Return the size of an entry's strings in bytes, in memory or in the history's file, whichever is larger."""
    others = (entry.who, entry.namespace, entry.session_key, entry.evaluation, entry.category)
    names = [text for text in others if text]
    if entry.text.isascii() and (joined := "".join(names)).isascii():  # ASCII characters take one byte each in memory
        return _json_bytes(entry.text) + len(joined)
    size = max(sys.getsizeof(entry.text) - EMPTY_TEXT_BYTES, _json_bytes(entry.text))
    return size + sum([sys.getsizeof(text) - EMPTY_TEXT_BYTES for text in names])


def _json_bytes(text: str) -> int:
    return utf8_bytes(encode_basestring(text)) - 2
