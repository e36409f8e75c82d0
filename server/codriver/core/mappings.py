"""Mappings of many items: one that keeps what was set last, and an immutable one whose newest items change often.

Of more than `Recent` may hold, what was set first leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, ValuesView
from typing import Any, Final, TypeVar, overload

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")


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


MOST_ON_TOP: Final = 32
"""Items that are copied by each change, before they go down to the others."""


class LayeredMap(Mapping[K, V]):
    """An immutable mapping in two layers: a change copies the one on top, which is small, and seldom the whole.

    Items stand in the order in which their keys came.
    """

    __slots__ = ("_below", "_size", "_top")

    def __init__(self, below: Mapping[K, V] | None = None) -> None:
        """`below`: the items that it begins with."""
        self._below: dict[K, V] = dict(below or {})
        self._top: dict[K, V] = {}
        self._size = len(self._below)

    def with_item(self, key: K, value: V) -> LayeredMap[K, V]:
        """The mapping with `key` set to `value`; this one is not changed."""
        changed: LayeredMap[K, V] = LayeredMap.__new__(LayeredMap)
        changed._size = self._size + (key not in self._top and key not in self._below)
        changed._below, changed._top = self._below, self._top | {key: value}
        if len(changed._top) > MOST_ON_TOP:
            changed._below, changed._top = self._below | changed._top, {}
        return changed

    def __getitem__(self, key: K) -> V:
        return self._top[key] if key in self._top else self._below[key]

    @overload
    def get(self, key: K, /) -> V | None: ...
    @overload
    def get(self, key: K, /, default: V | D) -> V | D: ...
    def get(self, key: K, /, default: Any = None) -> Any:
        """The value of the key, else `default`."""
        return self._top[key] if key in self._top else self._below.get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._top or key in self._below

    def __iter__(self) -> Iterator[K]:
        yield from self._below
        yield from [key for key in self._top if key not in self._below]

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return repr(self._below | self._top)

    def __reversed__(self) -> Iterator[K]:
        yield from [key for key in reversed(self._top) if key not in self._below]
        yield from reversed(self._below)

    def values(self) -> ValuesView[V]:
        """The values, in the order of their keys."""
        return (self._below | self._top).values()

    def newest_first(self) -> Iterator[V]:
        """The values, the one whose key came last first; none is looked at before it is asked for."""
        top, below = self._top, self._below
        for key in reversed(top):
            if key not in below:
                yield top[key]
        for key, value in reversed(below.items()):
            yield top.get(key, value)
