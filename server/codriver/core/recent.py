"""Recent: a mapping of the entries that were set last; beyond so many, what was set first leaves."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(dict[K, V]):
    """The newest entries, at most so many. To set one that is there makes it the newest."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        """Set an entry as the newest one, and let the oldest go if there is one too many."""
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            del self[next(iter(self))]

    def setdefault(self, key: K, default: V) -> V:
        """The value of an entry, which stays as old as it is, else this one."""
        if key not in self:
            self[key] = default
        return self[key]
