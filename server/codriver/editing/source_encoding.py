"""Decode source files: Python files in the encoding declared in their first lines, and others as UTF-8.

Source: PEP 263.
"""

from __future__ import annotations

import io
import tokenize
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import PYTHON_SUFFIXES
from codriver_lisp.errors import EditError, EditFailedError

if TYPE_CHECKING:
    from pathlib import Path

DEFAULT_ENCODING: Final = "utf-8"
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8."""
NOT_TEXT_ENCODING_REASON: Final = "which is not a text encoding. Declare the actual encoding, such as UTF-8"
"""End of a message about an encoding that Python knows but cannot use to decode a file."""


def is_python(path: Path) -> bool:
    """Return whether a file is Python, judging by its suffix."""
    return path.suffix.lower() in PYTHON_SUFFIXES


def detect_encoding(path: Path, data: bytes) -> str:
    """Return the encoding of a file, not counting its byte order mark.

    Raises:
        EditFailedError: the file declares an unknown encoding, or two encodings.
    """
    if not is_python(path):
        return DEFAULT_ENCODING
    try:
        found = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
    except SyntaxError as error:
        raise EditFailedError(EditError(f"the file's encoding cannot be determined: {error.msg}")) from error
    return DEFAULT_ENCODING if found == "utf-8-sig" else found


def decode_source(path: Path, data: bytes) -> str:
    """Return the text of a file without its byte order mark.

    Raises:
        EditFailedError: the file is not in its encoding, or declares an unknown encoding, or two encodings.
    """
    encoding = detect_encoding(path, data)
    content = data.removeprefix(BOM)
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        offset = len(data) - len(content) + error.start
        message = f"the file is not valid {display_name(encoding)}: the byte at offset {offset} is invalid"
        raise EditFailedError(EditError(message)) from error
    except (LookupError, UnicodeError) as error:  # `hex` is the first, and `undefined` the second
        raise EditFailedError(EditError(f"the file declares {encoding}, {NOT_TEXT_ENCODING_REASON}")) from error


def decode_with_replacement(path: Path, data: bytes) -> str:
    """Return the text of a file without its byte order mark. Invalid bytes are replaced."""
    try:
        return decode_source(path, data)
    except EditFailedError:
        return data.decode("utf-8-sig", "replace")


def display_name(encoding: str) -> str:
    """Return the name of an encoding for messages."""
    return "UTF-8" if encoding == DEFAULT_ENCODING else encoding
