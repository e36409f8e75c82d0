"""The user's own files, opened without following a link, waiting for a pipe's other end, or taking a terminal.

The files may have come with a checkout, so only the beginning of a regular file of this user's is read.
"""

from __future__ import annotations

import os
import sys

RECORD_BYTES = 4096
"""Ten times the size of a record that a server writes beside its port file."""
PLACE = (".calva", "mcp-server")
"""The folder of the port file, below the workspace. No link is followed there: one may have come with a checkout."""
NOFOLLOW, CLOEXEC = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_CLOEXEC", 0)
FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
UNTOUCHED = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | CLOEXEC | getattr(os, "O_NOCTTY", 0)
"""Flags to open a file without following a link, waiting for a pipe's other end, or taking a terminal."""
KIND, REGULAR, OTHERS = 0o170000, 0o100000, 0o077
"""The bits of a mode for the kind of a file; a regular file; all rights of others. Source: inode(7)."""
DOORS = "doors"
"""The folder of tokens by their servers' ports, among the user's state of all programs."""
TOKEN_LENGTH = 43
"""The length of a server's token. Any other text is no token, but perhaps somebody's key."""


if sys.platform == "win32":
    from codriver_relay import windows

    Folder = str
    open_folder, close_folder, make_private = windows.open_folder, windows.close_folder, windows.make_private
    status_of, status_in, open_in = windows.status_of, windows.status_in, windows.open_in
    make_in, remove_in = windows.make_in, windows.remove_in
    is_mine, is_trusted, is_open = windows.is_mine, windows.is_trusted, windows.is_open
else:
    Folder = int
    """A folder held open: whatever happens to its path, everything is done in that very folder."""

    close_folder, status_of = os.close, os.fstat

    def open_folder(path: str, above: int | None = None) -> int:
        """Return a descriptor of a directory; below `above` it is a name, and no link is followed."""
        return os.open(path, FOLDER if above is None else FOLDER | NOFOLLOW, dir_fd=above)

    def status_in(folder: int, name: str) -> os.stat_result:
        """Return the status of the entry with this name in a directory, of a link itself."""
        return os.stat(name, dir_fd=folder, follow_symlinks=False)

    def open_in(folder: int, name: str, flags: int) -> int:
        """Return a descriptor of a file in a directory."""
        return os.open(name, flags, 0o600, dir_fd=folder)

    def make_in(folder: int, name: str) -> None:
        """Make a directory in a directory."""
        os.mkdir(name, dir_fd=folder)

    def remove_in(folder: int, name: str) -> None:
        """Remove a file in a directory."""
        os.unlink(name, dir_fd=folder)

    def make_private(folder: int) -> None:
        """Let no one but this user into a directory."""
        os.fchmod(folder, 0o700)

    def is_mine(user: int) -> bool:
        """Return true for this user."""
        return user == os.geteuid()

    def is_trusted(user: int) -> bool:
        """Return true for this user and for root, who has everything already."""
        return user in (os.geteuid(), 0)

    def is_open(status: os.stat_result, rights: int) -> bool:
        """Return true where a mode gives any of these rights."""
        return bool(status.st_mode & rights)


def state_folder(name: str) -> str:
    """Return a directory in which servers keep what is this user's.

    Source: `codriver.files.own_folders`, platformdirs.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        if sys.platform == "win32":
            base = windows.state_folder()
        elif sys.platform == "darwin":
            base = "~/Library/Application Support"
        else:
            base = "~/.local/state"
    return os.path.join(os.path.expanduser(base), "codriver", name)


def open_below(workspace: str) -> Folder:
    """Return the directory with the port file in a workspace, reached without a link."""
    folder = open_folder(workspace)
    for name in PLACE:
        above = folder
        try:
            folder = open_folder(name, above)
        finally:
            close_folder(above)
    return folder


def open_file(folder: Folder, name: str, flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of this user's own regular file in a directory, made if `flags` say so.

    Raises:
        OSError: the file is missing, or something else.
    """
    try:  # asked before the opening: some devices act when they are opened
        refuse_strange(status_in(folder, name))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    file = open_in(folder, name, flags | UNTOUCHED)
    try:
        refuse_strange(os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def refuse_strange(status: os.stat_result) -> None:
    """Raise OSError for anything but a regular file of this user's own."""
    if status.st_mode & KIND != REGULAR:
        raise OSError(1, "it is a link, a pipe, a device or a folder, not a regular file")
    if not is_trusted(status.st_uid) or is_open(status, 0o002) or status.st_nlink > 1:
        raise OSError(1, "it is another user's, or others may write to it, or it has another name by a hard link")


def read_file(folder: Folder, name: str, most: int = RECORD_BYTES) -> bytes:
    """Return the first bytes of such a file. Raises like `open_file`."""
    file = open_file(folder, name)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def read_beside(folder: Folder, name: str) -> bytes:
    """The first bytes of a file in a folder, as `read_file` reads it; empty when it cannot be had."""
    try:
        return read_file(folder, name)
    except OSError:
        return b""


def read_token(folder: Folder, name: str = "token") -> str:
    """Return the token in a directory; empty without a token-like secret of this user's alone."""
    text = read_beside(folder, name).strip()
    if len(text) != TOKEN_LENGTH or not text.replace(b"-", b"").replace(b"_", b"").isalnum():
        return ""
    return "" if is_open(status_in(folder, name), OTHERS) else text.decode()


def read_token_of(port: int) -> str:
    """Return the token for this user's server at a port; empty without a sign that it wants one."""
    try:
        folder = open_folder(state_folder(DOORS))
    except OSError:
        return ""
    try:
        return read_token(folder, str(port))
    finally:
        close_folder(folder)


def value_of(record: bytes, name: bytes) -> bytes:
    """The plain value of a member of a JSON object, as it is written there; `json` would take too long to load."""
    behind = record.partition(b'"%s":' % name)[2]
    return behind.partition(b",")[0].partition(b"}")[0].strip()
