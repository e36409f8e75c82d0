"""Files that stay whole, whenever the process or the machine ends.

Everything here blocks, and raises `OSError` where the disk does not allow it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def append(path: Path, content: bytes) -> None:
    """Append to a file that only its owner can read, and wait until it is on disk.

    A line that an earlier failure tore is ended first, so that it takes no other with it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            content = b"\n" + content
        _write(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if not size:
        _sync_folder(path.parent)


def replace(path: Path, content: bytes, *, is_durable: bool = True) -> None:
    """Replace a file, as a whole or not at all, and wait until it is on disk if it is to be durable."""
    temporary = path.with_name(f"{path.name}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        _write(descriptor, content)
        if is_durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    temporary.replace(path)
    if is_durable:
        _sync_folder(path.parent)


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def set_aside(path: Path) -> Path:
    """Rename a file to one that says when; the new path."""
    stamp = time.strftime("%Y-%m-%dT%H-%M-%S")
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.unreadable-{stamp}" + (f"-{number}" if number else ""))
        if not aside.exists():
            path.rename(aside)
            return aside
        number += 1
