"""The head and the tail of a text that comes in chunks, of which the middle is dropped."""

from __future__ import annotations

from collections import deque


def left_out_mark(count: int) -> str:
    """The words in the place of bytes that are left out."""
    return f"\n[... {count:,} bytes are left out here ...]\n"


class HeadAndTail:
    """Bytes as they come, of which at most `most_head` and then `most_tail` are held."""

    def __init__(self, most_head: int, most_tail: int) -> None:
        self._room = most_head
        self._most_tail = most_tail
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.size = 0
        """Bytes so far, those that are not held among them."""

    def add(self, data: bytes) -> None:
        """Take the next piece."""
        self.size += len(data)
        if self._room:
            head, data = data[: self._room], data[self._room :]
            self._room -= len(head)
            self._head.append(head)
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._most_tail:
                self._tail_bytes -= len(self._tail.popleft())
                if not self._tail:
                    break

    @property
    def head(self) -> bytes:
        """The beginning: all of it when nothing is left out."""
        return b"".join(self.pieces[0])

    @property
    def tail(self) -> bytes:
        """The end, if something before it is left out; empty otherwise."""
        return b"".join(self.pieces[1])

    @property
    def pieces(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Head and tail in pieces, as they came."""
        if not self.left_out:
            return (*self._head, *self._tail), ()
        if not self._most_tail:
            return tuple(self._head), ()
        first, *others = self._tail
        return tuple(self._head), (first[self._tail_bytes - self._most_tail :], *others)

    @property
    def left_out(self) -> int:
        """The bytes between head and tail that are not held."""
        beyond = self.size - sum(map(len, self._head))
        return max(0, beyond - self._most_tail)
