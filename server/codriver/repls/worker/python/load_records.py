"""Record each load of a module: the file at that time, its source, and the names in the module afterwards."""

from __future__ import annotations

import weakref
import zlib

from .bound_names import BoundNames
from .import_stamps import read_file
from .remembered_names import Names
from .statements import PARSE_ERRORS, SourceText, decode_source
from .stored_attributes import module_dict

TYPE_CHECKING = False
if TYPE_CHECKING:
    import types

    from .import_stamps import Stamp
    from .module_text import Outline

COMPRESSION_LEVEL = 1
"""Compression level for stored sources. Level 1 compresses a megabyte to 30% in 7 ms."""
MAX_PARSED_BYTES = 2**20
"""Maximum size of a file whose statements are parsed. A larger file was probably generated."""
REWRITING_LOADERS = ("AssertionRewritingHook",)
"""Loaders that change the code of a file. Source: pytest, `_pytest.assertion.rewrite`."""


class Load:
    """A record of loading a module: the file at that time, and the names in the module afterwards.

    `stamp` is None if unknown. `gone` contains the names that an earlier source bound and this one does not.
    `mentions_module` is whether the source mentions `__module__`, or may do so because it is unknown.
    """

    __slots__ = (
        "_before",
        "_bound",
        "_data",
        "file",
        "gone",
        "is_read",
        "is_rewritten",
        "left",
        "mentions_module",
        "module",
        "outline",
        "stamp",
    )

    def __init__(self, module: types.ModuleType, file: str, stamp: Stamp | None, before: Load | None = None) -> None:
        space = module_dict(module)
        self.module = weakref.ref(module)
        self.file, self.stamp = file, stamp
        self.left = Names(space)
        self.gone: set[str] = set()
        self._before = before
        self.is_read = False
        self.outline: Outline | None = None
        self.mentions_module = True
        self.is_rewritten = type(getattr(space.get("__spec__"), "loader", None)).__name__ in REWRITING_LOADERS
        self._data: bytes | None = None
        self._bound: BoundNames | None = None

    def read(self) -> None:
        """Read the source of the file if its stamp is still that of the load."""
        if self.is_read:
            return
        self.is_read = True
        self.left.release()
        before, self._before = self._before, None
        if self.stamp is not None and self.file.endswith(".py"):
            found = read_file(self.file)
            if found is not None and found[0] == self.stamp:
                self.store(found[1], before)

    def store(self, data: bytes, before: Load | None = None) -> None:
        """Store the loaded source. `before` is the load that this load replaces."""
        self._data, self._bound, self.is_read = zlib.compress(data, COMPRESSION_LEVEL), None, True
        self.outline = None
        self.mentions_module = b"__module__" in data
        if before is not None and (before.gone or before.data != data):
            old, new = before.bound_names(), self.bound_names()
            names = {kind for kind in old.kinds if "." not in kind} if old is not None else set()
            self.gone = (names | before.gone).difference(new.kinds if new is not None else ())

    def with_present_names(self) -> Load:
        """Return a load of the same source with the module's current names."""
        module = self.module()
        if module is None:
            return self
        again = Load(module, self.file, self.stamp)
        again._data, again._bound, again.is_read, again.gone = self._data, self._bound, self.is_read, self.gone
        again.outline, again.mentions_module = self.outline, self.mentions_module
        again.left.release()
        return again

    @property
    def data(self) -> bytes | None:
        """Return the loaded source as bytes, or None if unknown."""
        return None if self._data is None else zlib.decompress(self._data)

    @property
    def compressed_source(self) -> bytes | None:
        """Return the loaded source in compressed form, or None if unknown."""
        return self._data

    @property
    def stored_bytes(self) -> int:
        """Return the size of the compressed source in bytes."""
        return len(self._data or b"")

    def bound_names(self) -> BoundNames | None:
        """Return the names that the source binds, or None if the source is unknown."""
        data = self.data if self._bound is None else None
        if data is not None and len(data) <= MAX_PARSED_BYTES:
            try:
                self._bound = BoundNames(SourceText(data, self.file).tree)
            except PARSE_ERRORS:  # it was loaded by something other than Python
                return None
        return self._bound


def loaded_content(load: Load, text: str, found: tuple[Stamp, bytes] | None) -> bytes:
    """Return the content of a loaded file. If it equals `text`, also store the stamp of the file in the load."""
    if found is not None:
        try:
            if decode_source(found[1]) == text.replace("\r\n", "\n").replace("\r", "\n"):
                load.stamp = found[0]
                return found[1]
        except (SyntaxError, ValueError, LookupError):
            pass
    load.stamp = None
    return b"\xef\xbb\xbf" + text.lstrip("\ufeff").encode("utf-8", "surrogatepass")
