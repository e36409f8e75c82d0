"""Extraction of the line that names the error from error output."""

from __future__ import annotations

import re
from typing import Final

ERROR_WORD_PATTERN: Final = re.compile(r"(?i)error|exception|traceback|interrupt")


def error_line(text: str) -> str:
    """Return the line that names the error: the last line of a traceback, or else the first two lines.

    Returns an empty string for text without any sign of an error.
    """
    text = text.strip()
    if not ERROR_WORD_PATTERN.search(text):
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback " in text:
        return next((line for line in reversed(lines) if not line[0].isspace()), lines[-1])
    return " ".join(lines[:2])
