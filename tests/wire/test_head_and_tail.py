"""The head and tail of bytes that arrive in chunks."""

from hypothesis import given
from hypothesis import strategies as st

from codriver.wire.head_and_tail import HeadAndTail

PIECES = st.lists(st.binary(max_size=9), max_size=20)


@given(PIECES, st.integers(0, 12), st.integers(0, 12))
def test_head_omitted_count_and_tail_cover_the_whole_however_it_is_split(pieces, most_head, most_tail):
    kept, whole = HeadAndTail(most_head, most_tail), b"".join(pieces)
    for piece in pieces:
        kept.add(piece)
    assert kept.size == len(whole)
    assert kept.left_out == max(0, len(whole) - most_head - most_tail)
    if kept.left_out:
        assert kept.head == whole[:most_head]
        assert kept.tail == whole[len(whole) - most_tail :]
    else:
        assert (kept.head, kept.tail) == (whole, b"")


def test_no_more_than_head_tail_and_one_chunk_is_stored():
    kept = HeadAndTail(10, 10)
    for _ in range(1000):
        kept.add(b"12345678")
    assert sum(map(len, (*kept._head, *kept._tail))) < 10 + 10 + 8
