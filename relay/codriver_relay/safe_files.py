"""Open the user's files safely: follow no links, and never wait for a pipe.

The files may come from a checkout, so only the beginning of regular files that belong to the user is read.
"""

from __future__ import annotations

import os
import sys

MAX_RECORD_BYTES = 4096
"""Maximum size of the record that a server writes next to its port file, ten times the usual size."""
SERVER_DIRECTORY = (".calva", "mcp-server")
"""The directory of the port file, relative to the workspace.

Links in this path are not followed, because a checkout may contain links.
"""
NOFOLLOW, CLOEXEC = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_CLOEXEC", 0)
DIRECTORY_OPEN_FLAGS = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | CLOEXEC
"""Flags for opening a directory."""
SAFE_OPEN_FLAGS = NOFOLLOW | getattr(os, "O_NONBLOCK", 0) | CLOEXEC | getattr(os, "O_NOCTTY", 0)
"""Flags for opening a file without following a link, waiting for the other end of a pipe, or acquiring a terminal."""
KIND, REGULAR, OTHERS = 0o170000, 0o100000, 0o077
"""The mode bits for the file type, the type of a regular file, and all permissions for others. Source: inode(7).
"""
TOKENS_DIRECTORY = "doors"
"""The subdirectory of Codriver's state directory that contains the servers' tokens, by port."""
TOKEN_CHARACTERS = 43
"""Number of characters in a server's token. Text of any other length is not a token, but may be somebody's key."""


if sys.platform == "win32":
    from codriver_relay import windows

    Directory = str
    open_directory, close_directory, make_private = (
        windows.open_directory,
        windows.close_directory,
        windows.make_private,
    )
    status_of, status_in, open_in = windows.status_of, windows.status_in, windows.open_in
    make_in, remove_in = windows.make_in, windows.remove_in
    is_mine, is_trusted, is_open = windows.is_mine, windows.is_trusted, windows.is_open
else:
    Directory = int
    """A descriptor of an open directory, so that operations refer to it even if its path changes."""

    close_directory, status_of = os.close, os.fstat

    def open_directory(path: str, above: int | None = None) -> int:
        """Open a directory, and return its descriptor.

        If the descriptor `above` is given, `path` is the name of a subdirectory of that directory. A link is refused.
        """
        return os.open(path, DIRECTORY_OPEN_FLAGS if above is None else DIRECTORY_OPEN_FLAGS | NOFOLLOW, dir_fd=above)

    def status_in(directory: int, name: str) -> os.stat_result:
        """Return the status of an entry in a directory, without following links."""
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def open_in(directory: int, name: str, flags: int) -> int:
        """Open a file in a directory, and return its descriptor."""
        return os.open(name, flags, 0o600, dir_fd=directory)

    def make_in(directory: int, name: str) -> None:
        """Create a directory in a directory."""
        os.mkdir(name, dir_fd=directory)

    def remove_in(directory: int, name: str) -> None:
        """Remove a file from a directory."""
        os.unlink(name, dir_fd=directory)

    def make_private(directory: int) -> None:
        """Deny others access to a directory."""
        os.fchmod(directory, 0o700)

    def is_mine(user: int) -> bool:
        """Return whether this is the id of the current user."""
        return user == os.geteuid()

    def is_trusted(user: int) -> bool:
        """Return whether this is the id of the current user or of root, who can access everything anyway."""
        return user in (os.geteuid(), 0)

    def is_open(status: os.stat_result, rights: int) -> bool:
        """Return whether a mode grants any of these permissions."""
        return bool(status.st_mode & rights)


def state_directory(name: str) -> str:
    """Return the path of a subdirectory of Codriver's state directory.

    Source: `codriver.files.codriver_paths`, platformdirs.
    """
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        if sys.platform == "win32":
            base = windows.state_directory()
        elif sys.platform == "darwin":
            base = "~/Library/Application Support"
        else:
            base = "~/.local/state"
    return os.path.join(os.path.expanduser(base), "codriver", name)


def open_server_directory(workspace: str) -> Directory:
    """Open the server's directory in a workspace, without following links below the workspace."""
    directory = open_directory(workspace)
    for name in SERVER_DIRECTORY:
        above = directory
        try:
            directory = open_directory(name, above)
        finally:
            close_directory(above)
    return directory


def open_file(directory: Directory, name: str, flags: int = os.O_RDONLY) -> int:
    """Open one of the user's regular files in a directory and return its descriptor.

    `flags` are those of `os.open`. With `os.O_CREAT`, a missing file is created.

    Raises:
        OSError: the file is missing, or is not a regular file owned by the user.
    """
    try:  # check first, because some devices act when they are opened
        require_private_file(status_in(directory, name))
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    file = open_in(directory, name, flags | SAFE_OPEN_FLAGS)
    try:
        require_private_file(os.fstat(file))
    except OSError:
        os.close(file)
        raise
    return file


def require_private_file(status: os.stat_result) -> None:
    """Check that a file is a regular file that no other user can write to.

    Raises:
        OSError: the file is of a different kind, belongs to another user, is writable by others, or has several links.
    """
    if status.st_mode & KIND != REGULAR:
        raise OSError(1, "the path is a link, pipe, device or directory, not a regular file")
    if not is_trusted(status.st_uid) or is_open(status, 0o002) or status.st_nlink > 1:
        raise OSError(1, "the file belongs to another user, other users can write to it, or it has another hard link")


def read_file(directory: Directory, name: str, most: int = MAX_RECORD_BYTES) -> bytes:
    """Return the first `most` bytes of one of the user's files.

    Raises:
        OSError: the file is missing, or is not a regular file owned by the user.
    """
    file = open_file(directory, name)
    try:
        return os.read(file, most)
    finally:
        os.close(file)


def read_if_possible(directory: Directory, name: str) -> bytes:
    """Return the first bytes of one of the user's files, or b"" if the file cannot be read."""
    try:
        return read_file(directory, name)
    except OSError:
        return b""


def read_token(directory: Directory, name: str = "token") -> str:
    """Return the token in a directory, or "" if it is missing, invalid or readable by others."""
    text = read_if_possible(directory, name).strip()
    if len(text) != TOKEN_CHARACTERS or not text.replace(b"-", b"").replace(b"_", b"").isalnum():
        return ""
    return "" if is_open(status_in(directory, name), OTHERS) else text.decode()


def read_token_for_port(port: int) -> str:
    """Return the token for the user's server at a port, or "" if that server requires none."""
    try:
        directory = open_directory(state_directory(TOKENS_DIRECTORY))
    except OSError:
        return ""
    try:
        return read_token(directory, str(port))
    finally:
        close_directory(directory)


def json_member(record: bytes, name: bytes) -> bytes:
    """Return the value of a member of a JSON object as JSON text, or b"" if there is none.

    Only values without escapes or nesting are supported. This does not import `json`, which would take too long.
    """
    behind = record.partition(b'"%s":' % name)[2]
    return behind.partition(b",")[0].partition(b"}")[0].strip()
