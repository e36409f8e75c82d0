"""Make a Python process, and each Python that it starts, see different content in files, without changing the disk.

It runs as `sitecustomize`, from a directory in PYTHONPATH that contains the replacement content and a table of paths.
`open`, `stat`, directory listings and imports see this content. A path in the table without content does not exist.
Programs other than Python see the disk. Bytecode is neither read from caches nor written to them.
"""

from __future__ import annotations

import _thread
import builtins
import errno
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

TABLE_FILE_NAME = "table"
"""Name of the file that maps each replaced path to the file with the new content, or to None if the path is removed."""


class Replaced:
    """A wrapper around a built-in function that takes a path. It passes the path of the replacement file instead.

    Like a built-in function, it is not bound when it is an attribute of a class.
    """

    def __init__(self, call: Callable[..., Any], locate: Callable[[Any], Any]) -> None:
        self.__wrapped__ = call
        self.__name__ = getattr(call, "__name__", "open")
        self.__qualname__ = self.__name__
        self.__doc__ = call.__doc__
        self.__module__ = getattr(call, "__module__", "os") or "os"
        self._content = locate

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call the wrapped function with the path of the replacement file."""
        if named.get("dir_fd") is not None:
            return self.__wrapped__(*given, **named)
        if given:
            return self.__wrapped__(self._content(given[0]), *given[1:], **named)
        named = {key: self._content(entry) if key in ("file", "path") else entry for key, entry in named.items()}
        return self.__wrapped__(**named)


class Entry:
    """An entry in a directory, like those from `os.scandir`, whose content is in another file."""

    def __init__(self, directory: Any, name: str, content: str) -> None:
        is_bytes = isinstance(directory, bytes)
        self.name: Any = os.fsencode(name) if is_bytes else name
        self.path: Any = os.path.join(directory, self.name)
        self._content = content

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the entry is a directory."""
        return os.path.isdir(self._content)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Return whether the entry is a file."""
        return not os.path.isdir(self._content)

    def is_symlink(self) -> bool:
        """Return False, because an entry with replaced content is never a link."""
        return False

    def is_junction(self) -> bool:
        """Return False, because an entry with replaced content is never a junction."""
        return False

    def inode(self) -> int:
        """Return the inode of the file that contains the content."""
        return os.stat(self._content).st_ino

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the status of the file that contains the content."""
        return os.stat(self._content)

    def __fspath__(self) -> Any:
        return self.path


class Entries:
    """An iterator over directory entries, like that of `os.scandir`."""

    def __init__(self, entries: list[Any]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Entries:  # noqa: PYI034  # `Self` is newer
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the iterator. It yields no more entries."""
        self._entries = iter(())


class Contents:
    """Maps paths to the files that contain their replacement content."""

    def __init__(self, table: dict[str, str | None]) -> None:
        self._content_files = {os.path.realpath(path): content_file for path, content_file in table.items()}
        self._names = {os.path.basename(path) for path in self._content_files}
        self._changes: dict[str, dict[str, str | None]] = {}
        """The replacement of each changed entry, by directory."""
        for path, content_file in self._content_files.items():
            self._changes.setdefault(os.path.dirname(path), {})[os.path.basename(path)] = content_file
        self._resolving: set[int] = set()
        """Threads that are resolving a path, which has to use the disk."""
        self._listdir, self._scandir = os.listdir, os.scandir

    def _real(self, path: str) -> str:
        """Resolve the links in a path on disk, without replacements."""
        thread = _thread.get_ident()
        self._resolving.add(thread)
        try:
            return os.path.realpath(path)
        finally:
            self._resolving.discard(thread)

    def replacement_path(self, path: Any) -> Any:
        """Return the path of the file that replaces `path`, or `path` itself if it is not replaced."""
        try:
            text = os.fsdecode(path)
        except TypeError:  # a descriptor, or an error that the system reports
            return path
        if os.path.basename(text) not in self._names or _thread.get_ident() in self._resolving:
            return path
        content_file = self._content_files.get(self._real(text), path)
        if content_file is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return content_file

    def _changes_in(self, path: Any) -> dict[str, str | None]:
        """Return the changed entries in a directory by name.

        The value is the path of the replacement file, or None for an entry that is missing.
        """
        try:
            return self._changes.get(self._real(os.fsdecode(path)), {})
        except TypeError:
            return {}

    def listdir(self, path: Any = None) -> list[Any]:
        """Return the names in a directory, like `os.listdir`."""
        found = self._listdir(self.replacement_path(path))
        changed = self._changes_in("." if path is None else path)
        present = {os.fsdecode(entry) for entry in found}
        remaining = [entry for entry in found if changed.get(os.fsdecode(entry), "") is not None]
        added = [entry for entry, content_file in changed.items() if content_file is not None and entry not in present]
        return remaining + [os.fsencode(entry) if isinstance(path, bytes) else entry for entry in added]

    def scandir(self, path: Any = None) -> Any:
        """Return an iterator over the entries in a directory, like `os.scandir`."""
        changed = self._changes_in("." if path is None else path)
        plain: Any = self._scandir(self.replacement_path(path))
        if not changed:
            return plain
        with plain as found:
            entries = list(found)
        present = {os.fsdecode(entry.name) for entry in entries}
        remaining: list[Any] = [entry for entry in entries if changed.get(os.fsdecode(entry.name), "") is not None]
        added = [
            (added_name, content_file)
            for added_name, content_file in changed.items()
            if content_file is not None and added_name not in present
        ]
        return Entries(
            remaining
            + [Entry("." if path is None else path, added_name, content_file) for added_name, content_file in added]
        )


def replace_files(contents: Contents) -> None:
    """Replace the content of files for this process from now on."""
    external: Any = sys.modules["_frozen_importlib_external"]
    loader, plain_path_stats = external.SourceFileLoader, external.SourceFileLoader.path_stats

    def path_stats(self: object, path: str) -> object:
        if contents.replacement_path(path) != path:
            raise OSError("the code of a replaced file is not cached")
        return plain_path_stats(self, path)

    opening = (builtins.open, io.open_code, os.open, os.stat, os.lstat, os.access)
    replaced: dict[Any, Any] = {call: Replaced(call, contents.replacement_path) for call in opening}
    replaced[os.listdir], replaced[os.scandir] = contents.listdir, contents.scandir
    names = ("open", "open_code", "stat", "lstat", "access", "listdir", "scandir", "_builtin_open")
    owners = [builtins, io, os, *map(sys.modules.get, ("_io", os.name, "tokenize"))]
    for owner, name in ((owner, name) for owner in owners for name in names):
        call = getattr(owner, name, None)
        if call in replaced:
            setattr(owner, name, replaced[call])
    for able in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
        able.update([replaced[call] for call in replaced if call in able])
    loader.path_stats, sys.dont_write_bytecode = path_stats, True
    # Imports during the start have cached listings of directories.
    finders: list[Any] = list(sys.path_importer_cache.values())
    for finder in finders:
        if hasattr(finder, "invalidate_caches"):
            finder.invalidate_caches()


def run_project_sitecustomize(directory: str) -> None:
    """Run the project's own `sitecustomize`, which this module hides."""
    program_directory = os.path.realpath(directory)
    sys.path[:] = [entry for entry in sys.path if os.path.realpath(entry) != program_directory]
    sys.path_importer_cache.pop(directory, None)
    external: Any = sys.modules["_frozen_importlib_external"]
    spec = external.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules["sitecustomize"] = module = type(sys)("sitecustomize")
        module.__spec__, module.__file__, module.__loader__ = spec, spec.origin, spec.loader
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    with open(os.path.join(os.path.dirname(__file__), TABLE_FILE_NAME), encoding="utf-8") as file:
        replace_files(Contents(eval(file.read(), {})))
    run_project_sitecustomize(os.path.dirname(__file__))
