"""Find the line in error output that names the error."""

from __future__ import annotations

import re
from typing import Final

ERROR_WORD_PATTERN: Final = re.compile(r"(?i)error|exception|traceback|interrupt")
"""Matches words that occur in lines that name an error."""


def error_line(text: str) -> str:
    """Return the line in error output that names the error, or "" if the output does not mention an error.

    This is the last line of a Python traceback. For other output, it is the first two lines, joined by a space.
    """
    text = text.strip()
    if not ERROR_WORD_PATTERN.search(text):
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    if "Traceback " in text:
        return next((line for line in reversed(lines) if not line[0].isspace()), lines[-1])
    return " ".join(lines[:2])
