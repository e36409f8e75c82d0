"""Whole files, read and replaced atomically by their paths, as the rules allow; each is one walk and one place."""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING

from codriver.files.file_rules import Links, NotRegularError, Rules
from codriver.files.path_walk import locate
from codriver.files.place import PRIVATE_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


def read(path: Path, rules: Rules, *, root: Path | None = None) -> bytes:
    """The whole file at `path`, walked to as `locate` does.

    Raises:
        FileNotFoundError: there is none.
        UnsafeFileError: it is not what the rules want; `strerror` says why.
        OSError: it cannot be read.
    """
    with locate(path, rules.links, root=root) as place:
        return place.read(rules)


def read_pieces(path: Path, rules: Rules, *, root: Path | None = None) -> Iterator[bytes]:
    """The file at `path` in pieces of up to 1 MiB, where it may be larger than what is to be held of it.

    Raises like `read`: before the first piece, but for a file that grows meanwhile.
    """
    with locate(path, rules.links, root=root) as place:
        yield from place.read_pieces(rules)


def read_stamped(path: Path, rules: Rules, *, root: Path | None = None) -> tuple[bytes, os.stat_result]:
    """The whole file and the status of what was read. Raises like `read`."""
    with locate(path, rules.links, root=root) as place:
        return place.read_with_status(rules)


def read_head(path: Path, rules: Rules, *, root: Path | None = None) -> bytes:
    """The first `most_bytes` of a file of any size. Raises like `read`, but for TooLargeError."""
    with locate(path, rules.links, root=root) as place:
        return place.read_head(rules)


def read_text(path: Path, rules: Rules, *, root: Path | None = None) -> str:
    """The file as text: UTF-8, without its byte order mark. Raises UnicodeDecodeError, a ValueError, for no text."""
    return read(path, rules, root=root).decode("utf-8-sig")


def read_json(path: Path, rules: Rules) -> object:
    """The JSON value in a record of ours; None where there is none that can be read, as records are only kept for use.

    Its shape is for the caller to check, as anybody may have written it.
    """
    try:
        found: object = json.loads(read(path, rules).decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None
    return found


def replace(
    path: Path,
    data: bytes | Iterable[bytes],
    *,
    links: Links,
    root: Path | None = None,
    mode: int | None = PRIVATE_FILE,
    make_mode: int | None = None,
    is_durable: bool = True,
) -> None:
    """Write the whole file, so that nobody ever sees half of it, also after a loss of power.

    Its folder must be there, unless `make_mode` says how to make what is missing.

    What is not durable outlives the process, and the machine only when the system has written it meanwhile.

    Raises:
        UnsafeFileError: what is there is no regular file, or is reached by a link that is not followed.
        OSError: it cannot be written.
    """
    with locate(path, links, root=root, make_mode=make_mode) as place:
        now = place.status()
        if now is not None and not stat.S_ISREG(now.st_mode) and not stat.S_ISLNK(now.st_mode):
            raise NotRegularError(place.path, now.st_mode)
        place.replace(data, mode=mode, is_durable=is_durable)


def open_for_writing(path: Path, *, links: Links, root: Path) -> int:
    """A descriptor of a private regular file to append to, made where there is none; the caller closes it.

    Raises:
        UnsafeFileError: what is there is a link, no regular file, or another user's.
    """
    with locate(path, links, root=root) as place:
        return place.open_private(os.O_WRONLY | os.O_APPEND | os.O_CREAT)
