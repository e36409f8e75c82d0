"""A buffer for the beginning and end of a byte string that arrives in chunks."""

from __future__ import annotations

from collections import deque


def left_out_mark(count: int) -> str:
    """Return the text that replaces `count` omitted bytes."""
    return f"\n[... {count:,} bytes are left out here ...]\n"


class HeadAndTail:
    """A byte string of which only the first `most_head` and the last `most_tail` bytes are stored."""

    def __init__(self, most_head: int, most_tail: int) -> None:
        self._head_capacity = most_head
        self._most_tail = most_tail
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.size = 0
        """Number of bytes received, including those that were dropped."""

    def add(self, data: bytes) -> None:
        """Append a chunk. If there are too many bytes, drop some from the middle."""
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
        """Return the stored beginning, which is the whole string if nothing was dropped."""
        return b"".join(self.chunks[0])

    @property
    def tail(self) -> bytes:
        """Return the stored end, which is empty if nothing was dropped."""
        return b"".join(self.chunks[1])

    @property
    def chunks(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
        """Return the chunks of the head and of the tail, without joining them."""
        if not self.left_out:
            return (*self._head, *self._tail), ()
        if not self._most_tail:
            return tuple(self._head), ()
        first, *others = self._tail
        return tuple(self._head), (first[self._tail_bytes - self._most_tail :], *others)

    @property
    def left_out(self) -> int:
        """Return the number of bytes dropped between head and tail."""
        beyond = self.size - sum(map(len, self._head))
        return max(0, beyond - self._most_tail)
