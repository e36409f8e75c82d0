"""Safe access to files in a workspace, in Codriver's state and in clients' configurations.

Such a file may have been written by a stranger, and its path may lead anywhere: a link to a private key, a pipe that
nobody writes to, an endless device, or a directory that is replaced by a link just before it is used. So a path is
resolved one part at a time, each directory is opened as a descriptor, and files are read, replaced and removed relative
to the last one. Only regular files are opened, without blocking, and read up to a limit that the caller gives.

All functions may block on the disk, so call them in a thread and not on the event loop.
"""

from codriver.files.directory_entry import PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE, DirectoryEntry, temporary_name
from codriver.files.file_rules import (
    KIBIBYTE,
    MEBIBYTE,
    OTHERS_PERMISSIONS,
    FileRules,
    LinkRefusedError,
    Links,
    NotOwnedError,
    NotRegularError,
    TooLargeError,
    UnsafeFileError,
    is_owned_by_user,
    is_private_directory,
)
from codriver.files.whole_files import (
    MAX_DIRECTORIES,
    MAX_LINKS,
    Stamp,
    locate,
    open_for_writing,
    read,
    read_chunks,
    read_head,
    read_json,
    read_text,
    read_with_status,
    replace,
    stamp_from_status,
)
from codriver.systems.file_system import last_write_ns, remove, remove_tree, rename
from codriver.systems.machine import sync_to_disk

__all__ = [
    "KIBIBYTE",
    "MAX_DIRECTORIES",
    "MAX_LINKS",
    "MEBIBYTE",
    "OTHERS_PERMISSIONS",
    "PRIVATE_DIRECTORY_MODE",
    "PRIVATE_FILE_MODE",
    "DirectoryEntry",
    "FileRules",
    "LinkRefusedError",
    "Links",
    "NotOwnedError",
    "NotRegularError",
    "Stamp",
    "TooLargeError",
    "UnsafeFileError",
    "is_owned_by_user",
    "is_private_directory",
    "last_write_ns",
    "locate",
    "open_for_writing",
    "read",
    "read_chunks",
    "read_head",
    "read_json",
    "read_text",
    "read_with_status",
    "remove",
    "remove_tree",
    "rename",
    "replace",
    "stamp_from_status",
    "sync_to_disk",
    "temporary_name",
]
