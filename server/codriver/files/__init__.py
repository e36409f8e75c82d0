"""The one safe way to open and replace a file of a workspace, a state folder or a client's configuration.

Such a file may be a stranger's words, and its name may lead anywhere: a link to a private key, a pipe that nobody
writes to, a device without end, a folder that is exchanged for a link at the moment it is used. So a path is walked
part by part, each folder opened by a descriptor, and everything is done by the last of them: read, replace, remove.
Only regular files are opened, without waiting, and read up to a bound that the caller names.

Everything here may wait for a disk: call it in a thread, not on the event loop.
"""

from codriver.files.place import (
    KIBIBYTE,
    MEBIBYTE,
    OTHERS,
    PRIVATE_DIRECTORY_MODE,
    PRIVATE_FILE,
    DirectoryEntry,
    LinkRefusedError,
    Links,
    NotOwnedError,
    NotRegularError,
    Rules,
    TooLargeError,
    UnsafeFileError,
    is_owned_by_user,
    is_private,
    temporary_name,
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
    read_stamped,
    read_text,
    replace,
    stamp_of,
)
from codriver.systems.file_system import remove, remove_tree, rename
from codriver.systems.machine import put_on_disk

__all__ = [
    "KIBIBYTE",
    "MAX_DIRECTORIES",
    "MAX_LINKS",
    "MEBIBYTE",
    "OTHERS",
    "PRIVATE_DIRECTORY_MODE",
    "PRIVATE_FILE",
    "DirectoryEntry",
    "LinkRefusedError",
    "Links",
    "NotOwnedError",
    "NotRegularError",
    "Rules",
    "Stamp",
    "TooLargeError",
    "UnsafeFileError",
    "is_owned_by_user",
    "is_private",
    "locate",
    "open_for_writing",
    "put_on_disk",
    "read",
    "read_chunks",
    "read_head",
    "read_json",
    "read_stamped",
    "read_text",
    "remove",
    "remove_tree",
    "rename",
    "replace",
    "stamp_of",
    "temporary_name",
]
