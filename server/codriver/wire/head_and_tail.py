"""The head and the tail of a byte string that arrives in chunks; its middle is dropped."""

from __future__ import annotations

from collections import deque


def left_out_mark(count: int) -> str:
    """Return the text that replaces the bytes left out."""
    return f"\n[... {count:,} bytes are left out here ...]\n"


class HeadAndTail:
    """Collects chunks of bytes, of which at most the first `most_head` and the last `most_tail` are stored."""

    def __init__(self, most_head: int, most_tail: int) -> None:
        self._head_capacity = most_head
        self._most_tail = most_tail
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.size = 0
        """Number of bytes received, including those that are not stored."""

    def add(self, data: bytes) -> None:
        """Add the next chunk."""
        self.size += len(data)
        if self._head_capacity:
            head, data = data[: self._head_capacity], data[self._head_capacity :]
            self._head_capacity -= len(head)
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
        """Return the beginning: all of it if nothing is left out."""
        return b"".join(self.chunks[0])

    @property
    def tail(self) -> bytes:
        """Return the end if something before it is left out, otherwise an empty value."""
        return b"".join(self.chunks[1])

    @property
    def chunks(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Return head and tail as the chunks that were received."""
        if not self.left_out:
            return (*self._head, *self._tail), ()
        if not self._most_tail:
            return tuple(self._head), ()
        first, *others = self._tail
        return tuple(self._head), (first[self._tail_bytes - self._most_tail :], *others)

    @property
    def left_out(self) -> int:
        """Return the number of bytes between head and tail that are not stored."""
        beyond = self.size - sum(map(len, self._head))
        return max(0, beyond - self._most_tail)
