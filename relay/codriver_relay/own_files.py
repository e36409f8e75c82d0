"""The user's own files, opened without following a link, waiting for a pipe's other end, or taking a terminal.

They may have come with a checkout, so nothing but a regular file of this user's is read, and of that the beginning.
"""

from __future__ import annotations

import os

RECORD_BYTES = 4096
"""What a server writes beside its port file is a tenth of this."""
PLACE = (".calva", "mcp-server")
"""Where the port file of a workspace lies, below it. No link is followed there: it may have come with a checkout."""
NOFOLLOW, CLOEXEC = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_CLOEXEC", 0)
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
UNTOUCHED = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | CLOEXEC | getattr(os, "O_NOCTTY", 0)
"""To open a file without following a link, waiting for a pipe's other end, or taking a terminal."""
KIND, REGULAR, OTHERS = 0o170000, 0o100000, 0o077
"""The bits of a mode that say what a file is; a regular file; all that anybody but its user may. Source: inode(7)."""
TOKEN_LENGTH = 43
"""How long a token is that a server makes. Anything else is no token, but perhaps somebody's key."""


def open_below(workspace: str) -> int:
    """A descriptor of the folder with the port file in a workspace, reached without a link."""
    folder = os.open(workspace, FOLDER)
    for name in PLACE:
        above = folder
        try:
            folder = os.open(name, FOLDER | NOFOLLOW, dir_fd=above)
        finally:
            os.close(above)
    return folder


def open_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """A descriptor of this user's own regular file in a folder, made where `flags` say so.

    Raises:
        OSError: there is none, or it is something else.
    """
    try:  # asked before it is opened: to open some devices is to do something
        refuse_strange(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    file = os.open(name, flags | UNTOUCHED, 0o600, dir_fd=folder)
    try:
        refuse_strange(os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def refuse_strange(status: os.stat_result) -> None:
    """Raise OSError for what is no regular file, or not this user's own."""
    if status.st_mode & KIND != REGULAR:
        raise OSError(1, "it is a link, a pipe, a device or a folder, not a regular file")
    if status.st_uid not in (os.geteuid(), 0) or status.st_mode & 0o002 or status.st_nlink > 1:
        raise OSError(1, "it is another user's, or others may write to it, or it has another name by a hard link")


def read_file(folder: int, name: str, most: int = RECORD_BYTES) -> bytes:
    """The first bytes of such a file. Raises like `open_file`."""
    file = open_file(folder, name)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def read_beside(folder: int, name: str) -> bytes:
    """The first bytes of a file in a folder, as `read_file` reads it; empty when it cannot be had."""
    try:
        return read_file(folder, name)
    except OSError:
        return b""


def read_token(folder: int) -> str:
    """The token in a folder; empty where there is none, or no secret of this user's alone that looks like one."""
    text = read_beside(folder, "token").strip()
    if len(text) != TOKEN_LENGTH or not text.replace(b"-", b"").replace(b"_", b"").isalnum():
        return ""
    return "" if os.stat("token", dir_fd=folder, follow_symlinks=False).st_mode & OTHERS else text.decode()


def value_of(record: bytes, name: bytes) -> bytes:
    """The plain value of a member of a JSON object, as it is written there; `json` would take too long to load."""
    behind = record.partition(b'"%s":' % name)[2]
    return behind.partition(b",")[0].partition(b"}")[0].strip()
