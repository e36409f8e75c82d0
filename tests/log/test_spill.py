"""Long texts of evaluations in files: whole, readable by offset, bounded, private, and removed in the end."""

import os
import random
import re
import secrets
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import anyio
import posix_only
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_server import until

from codriver.errors import RefusedError
from codriver.files.file_locks import try_lock
from codriver.log import growing_text as texts
from codriver.log import spill as spill_files
from codriver.log.evaluation_transcripts import GrowingText, SpillCapacity, SpillStore, Transcripts
from codriver.log.redaction import Redactor
from codriver.log.spill import SpillDirectory, SpillFile
from codriver.tools.answers import text_parts
from codriver.tools.answers.text_parts import matching_lines, text_difference, text_excerpt

MIB = 2**20
NOTHING_SECRET = Redactor({})


def make_parts_small(patch):
    """Choose sizes that make a text of a few hundred characters a long one."""
    patch.setattr(texts, "PART_CHARACTERS", 64)
    patch.setattr(texts, "MAX_WRITE_CHARACTERS", 100)
    patch.setattr(texts, "RETAINED_TAIL_CHARACTERS", 16)
    patch.setattr(texts, "MAX_BLOCK_CHARACTERS", 16)


@pytest.fixture
def small_parts(monkeypatch):
    make_parts_small(monkeypatch)


@pytest.fixture(autouse=True)
def hasty(monkeypatch):
    """Write immediately: nothing else needs the processor."""
    monkeypatch.setattr(spill_files, "WRITE_DELAY_S", 0)


@pytest.fixture
def make_store(tmp_path):
    """Return a function that creates stores, which are closed after the test."""
    stores = []

    def make(max_stored=32 * MIB, max_bytes=64 * MIB, root=tmp_path / "spill"):
        stores.append(SpillStore(max_stored, SpillCapacity(root, max_bytes)))
        return stores[-1]

    yield make
    for store in stores:
        store.close()


def written(store, *long):
    """Wait until all of these texts is written."""
    until(lambda: not any(text._is_moving for text in long), "the texts to be written")
    done = threading.Event()
    store.submit(done.set)
    assert done.wait(60)


@pytest.fixture
def blocked_store(make_store):
    """Return a store with a blocked disk, a text being written to it, and a function that unblocks the disk."""
    store, go_on = make_store(), threading.Event()
    store.submit(lambda: go_on.wait(60))
    text = GrowingText(store, "e.stdout", 0)
    text.add("x" * (spill_files.PAUSE_THRESHOLD_CHARACTERS + 1))
    yield store, text, go_on
    go_on.set()


@pytest.mark.anyio
async def test_a_writer_can_wait_until_output_is_on_disk(blocked_store, monkeypatch):
    monkeypatch.setattr(spill_files, "BLOCKED_DISK_THRESHOLD_S", 60)
    store, text, go_on = blocked_store
    over = anyio.Event()

    async def wait():
        await store.wait_until_written()
        over.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        with anyio.move_on_after(3 * spill_files.PAUSE_POLL_INTERVAL_S):
            await over.wait()
        assert not over.is_set()
        go_on.set()
    written(store, text)


@pytest.mark.anyio
async def test_a_hung_disk_is_waited_for_only_once(blocked_store, monkeypatch):
    monkeypatch.setattr(spill_files, "BLOCKED_DISK_THRESHOLD_S", 0.05)
    store, _, _ = blocked_store
    await store.wait_until_written()
    monkeypatch.setattr(spill_files, "BLOCKED_DISK_THRESHOLD_S", 3600)
    with anyio.fail_after(60):
        await store.wait_until_written()


def files_in(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")


def all_bytes(folder):
    return sum(path.stat().st_size for path in files_in(folder))


def numbered(count):
    return "".join(f"line {number}\n" for number in range(count))


# One text


ALPHABET = "ab\né€𝄞\ud800\r\x85"


@settings(max_examples=30)
@given(st.lists(st.text(ALPHABET, max_size=120), max_size=25), st.data())
def test_every_range_of_a_text_is_read_exactly(tmp_path_factory, chunks, data):
    with pytest.MonkeyPatch.context() as patch:
        make_parts_small(patch)
        store = SpillStore(MIB, SpillCapacity(tmp_path_factory.mktemp("store"), MIB))
        text = GrowingText(store, "e1.stdout", 1)
        for chunk in chunks:
            text.add(chunk)
        written(store, text)
        whole = "".join(chunks)
        for _ in range(5):
            start, end = data.draw(st.integers(-5, len(whole) + 5)), data.draw(st.integers(0, len(whole) + 5))
            piece = text.read(start, end)
            assert piece.text == whole[max(0, start) : end]
            assert (piece.total, piece.dropped) == (len(whole), 0)
        assert "".join(text.chunks()) == text.read_all() == whole
        assert text.last(50).text == whole[-50:]
        store.close()


@pytest.mark.usefixtures("small_parts")
def test_spilled_text_is_not_in_memory(make_store):
    store = make_store()
    text = GrowingText(store, "e1.stdout", 1)
    for number in range(1000):
        text.add(f"{number:05}\n")
    written(store, text)
    usage = store.usage()
    assert usage["keptBytes"] < 64 + 16
    assert usage["spilledBytes"] + usage["keptBytes"] >= 6000
    assert not text.is_in_memory
    assert text.read(6 * 500, 6 * 501).text == "00500\n"


def test_only_the_end_of_a_long_chunk_stays_in_memory(make_store):
    store = make_store()
    text = GrowingText(store, "e1.result", 1)
    text.add("x" * 10 * MIB)
    written(store, text)
    assert store.usage() == {"keptBytes": 64 * 1024, "spilledBytes": 10 * MIB}


@pytest.mark.skipif(sys.platform != "linux", reason="open files are listed in /proc, which only Linux has")
def test_a_written_text_keeps_no_file_open(make_store, tmp_path):
    store = make_store()
    text = GrowingText(store, "e1.stdout", 1)
    text.add("x" * MIB)
    written(store, text)

    def opened():
        links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.exists()]
        return [name for name in links if name.startswith(str(tmp_path)) and not name.endswith(".lock")]

    until(lambda: not opened(), "the file to be closed")


def test_a_short_text_is_never_written_to_disk(make_store, tmp_path):
    store = make_store()
    text = GrowingText(store, "e1.stdout", 1)
    text.add("x" * (256 * 1024 - 1))
    written(store, text)
    assert not (tmp_path / "spill").exists()
    assert text.is_in_memory


def test_files_and_directories_are_private(make_store, tmp_path):
    store = make_store()
    text = GrowingText(store, "e1.stdout", 1)
    before = os.umask(0)
    try:
        text.add("x" * MIB)
        written(store, text)
    finally:
        os.umask(before)
    found = [tmp_path / "spill", *(tmp_path / "spill").rglob("*")]
    assert len(found) == 4  # the directory, that of the server, the lock and one file
    for path in found:
        assert posix_only.has_mode(path, 0o700 if path.is_dir() else 0o600), path


@pytest.mark.usefixtures("small_parts")
def test_the_oldest_part_of_a_text_over_its_disk_limit_is_dropped(make_store, tmp_path):
    store = make_store(max_bytes=8000)  # 2000 for one text
    text = GrowingText(store, "e1.stdout", 1)
    whole = numbered(500)
    for start in range(0, len(whole), 100):
        text.add(whole[start : start + 100])
        written(store, text)
    assert 1500 <= all_bytes(tmp_path / "spill") <= 2000
    assert 0 < text.dropped <= len(whole) - 1500
    assert text.read_all() == whole[text.dropped :]
    assert text.total == len(whole)
    assert text.read(0, text.dropped + 5) == texts.Chunk(
        whole[text.dropped : text.dropped + 5], text.dropped, len(whole), text.dropped
    )


def test_a_slow_disk_drops_no_more_than_a_fast_one(make_store):
    store = make_store(max_bytes=32 * MIB)
    text = GrowingText(store, "e1.stdout", 1)
    for size in (3, 9):
        text.add("x" * size * MIB)
        written(store, text)
    assert 7 * MIB < text.total - text.dropped <= 8 * MIB + 64 * 1024


@pytest.mark.usefixtures("small_parts")
def test_the_oldest_text_is_dropped_first(make_store, tmp_path):
    store = make_store(max_bytes=8000)
    long = [GrowingText(store, f"e{number}.stdout", number) for number in range(6)]
    for text in reversed(long):
        text.add("x" * 1900)
        written(store, text)
    assert all_bytes(tmp_path / "spill") == store.usage()["spilledBytes"] <= 8000
    dropped = [text.dropped for text in long]
    assert dropped[0] >= 1800
    assert dropped[1] < dropped[0]
    assert dropped[2:] == [0, 0, 0, 0]
    assert [text.read_all() for text in long] == ["x" * (1900 - gone) for gone in dropped]


@pytest.mark.usefixtures("small_parts")
def test_removing_or_changing_a_file_loses_only_its_own_part(make_store, tmp_path):
    store = make_store(max_bytes=8000)
    text = GrowingText(store, "e1.stdout", 1)
    for _ in range(10):
        text.add("x" * 200)
        written(store, text)
    first, second, third, *_ = sorted(files_in(tmp_path / "spill"), key=lambda path: int(path.suffix[1:]))
    first.unlink()
    assert 0 < text.total - len(text.read_all()) == text.dropped < 400
    second.write_bytes(b"\xff" * second.stat().st_size)
    third.write_bytes(b"")
    assert text.read_all() == "x" * (2000 - text.dropped)
    assert 0 < text.dropped < 1000


@pytest.mark.usefixtures("small_parts")
def test_a_forgotten_text_leaves_no_file_and_accepts_no_more_output(make_store, tmp_path):
    store = make_store()
    text, other = GrowingText(store, "e1.stdout", 1), GrowingText(store, "e2.stdout", 2)
    for item in (text, other):
        item.add("x" * 500)
    written(store, text, other)
    text.discard()
    text.add("y" * 500)
    written(store, text, other)
    assert store.usage() == {"keptBytes": 16, "spilledBytes": 500}
    assert [path.name for path in files_in(tmp_path / "spill")] == ["e2.stdout.2"]
    assert (text.read_all(), text.total, text.dropped) == ("", 500, 500)


@pytest.mark.usefixtures("small_parts")
def test_texts_forgotten_while_being_written_leave_nothing_behind(make_store, tmp_path):
    store = make_store()
    for number in range(100):
        text = GrowingText(store, f"e{number}.stdout", number)
        text.add("x" * 300)
        text.discard()
    written(store)
    assert store.usage() == {"keptBytes": 0, "spilledBytes": 0}
    assert files_in(tmp_path) == []


def test_one_thread_can_print_while_others_read(make_store):
    store = make_store(max_bytes=256 * MIB)
    text = GrowingText(store, "e1.stdout", 1)
    whole = numbered(400_000)
    faults, over = [], threading.Event()

    def read(seed):
        random_place = random.Random(seed)
        while not over.is_set():
            start = random_place.randrange(len(whole))
            piece = text.read(start, start + random_place.choice((1, 100, 300_000)))
            if piece.text != whole[start : start + len(piece.text)] or piece.dropped:
                faults.append(piece)

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for start in range(0, len(whole), 10_000):
        text.add(whole[start : start + 10_000])
    written(store, text)
    over.set()
    for reader in readers:
        reader.join(60)
    assert not faults
    assert text.read_all() == whole


def test_a_failing_disk_and_its_recovery_are_each_reported_once(make_store, tmp_path, small_parts):
    (tmp_path / "spill").write_text("in the way")
    received = []
    store = make_store()
    store.start_cleanup(received.append)
    text = GrowingText(store, "e1.stdout", 1)
    for _ in range(3):
        text.add("x" * 1000)
        until(lambda: not text._is_moving, "the disk to be tried")
    (words,) = received
    assert words.startswith(f"long texts of evaluations cannot be written to {tmp_path / 'spill'} (")
    assert "kept, in memory" in words
    (tmp_path / "spill").unlink()
    text.add("x" * 1000)
    until(lambda: len(received) > 1, "the disk to work")
    assert received == [words, None]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a pipe stands for a disk that hangs, which this system lacks")
def test_a_hung_disk_blocks_nobody_and_memory_use_stays_limited(make_store, tmp_path, monkeypatch):
    store = make_store(max_bytes=1024 * MIB)
    folder = store._directory.path()
    pipe = tmp_path / "hanging"
    posix_only.make_pipe(pipe)
    opened = spill_files._open

    def open_slowly(file, flags):
        """Block opening the file of the first text until somebody reads it, which no regular file would do."""
        return os.open(pipe, os.O_WRONLY) if file.name == "e1.stdout.1" else opened(file, flags)

    monkeypatch.setattr(spill_files, "_open", open_slowly)
    hanging, other = GrowingText(store, "e1.stdout", 1), GrowingText(store, "e2.stdout", 2)
    for number in range(200):
        hanging.add(f"{number:04}" * (MIB // 4))
    other.add("x" * 50 * MIB)
    assert store.usage()["keptBytes"] <= (128 + 50 + 1) * MIB
    assert hanging.total == 200 * MIB
    assert hanging.dropped >= 72 * MIB
    assert hanging.last(4).text == "0199"
    assert hanging.read(hanging.dropped, hanging.dropped + 4).text == f"{hanging.dropped // MIB:04}"
    assert other.read_all() == "x" * 50 * MIB
    store.close()  # returns although the disk still hangs
    assert hanging.last(4).text == "0199"
    with pipe.open("rb") as stream:
        while stream.read(MIB):
            pass
    store._thread.join(60)
    assert not folder.exists()


# Parts of long texts


def long_transcripts(tmp_path, **room):
    return Transcripts(
        stored=10, max_bytes=64 * MIB, max_stream_bytes=32 * MIB, redactor=NOTHING_SECRET,
        capacity=SpillCapacity(tmp_path / "spill", room.get("max_bytes", 256 * MIB)),
    )  # fmt: skip


@pytest.fixture
def long_outputs(tmp_path):
    transcripts = long_transcripts(tmp_path)
    yield transcripts
    transcripts.store.close()


def test_excerpts_of_a_long_text_continue_where_they_ended(long_outputs):
    transcript = long_outputs.open("e1")
    whole = numbered(100_000)
    transcript.add_value(whole)
    written(long_outputs.store, transcript.result)
    parts, start = [], 0
    while start is not None:
        part = text_excerpt(transcript, "result", start=start, length=None, max_bytes=50 * 1024)
        parts.append(part["text"])
        start = part.get("next")
    assert "".join(parts) == whole


LINES = st.text("ab\n\r\x0b\u2028", max_size=200)


@given(LINES, st.sampled_from(["a", "ab", "aba", "bbbb"]), st.integers(1, 9))
def test_lines_are_found_as_in_the_whole_text(text, part, at_once):
    transcript = Transcripts(stored=1, max_bytes=MIB, max_stream_bytes=MIB, redactor=NOTHING_SECRET).open("e1")
    transcript.out.append(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "PART_CHARACTERS", at_once)
        found = matching_lines(transcript, part, max_bytes=100_000)
    lines = enumerate(text.splitlines(), 1)
    expected = [{"part": "stdout", "line": number, "text": line} for number, line in lines if part in line]
    assert found == {"matches": expected, "count": len(expected)}


@given(LINES, st.sampled_from(["a$", "^b+$", "a.b", "(", "[ab]"]), st.integers(1, 9))
def test_lines_match_a_regular_expression_or_contain_its_text(text, part, at_once):
    transcript = Transcripts(stored=1, max_bytes=MIB, max_stream_bytes=MIB, redactor=NOTHING_SECRET).open("e1")
    transcript.out.append(text.replace("a", "(") if part == "(" else text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts, "PART_CHARACTERS", at_once)
        found: Any = matching_lines(transcript, part, max_bytes=100_000)
    lines = enumerate("".join(transcript.out.chunks()).splitlines(), 1)
    expected = [number for number, line in lines if part in line or (part != "(" and re.search(part, line))]
    assert [match["line"] for match in found["matches"]] == expected


def test_a_search_for_a_slow_regular_expression_is_refused(monkeypatch):
    monkeypatch.setattr(text_parts, "SEARCH_TIMEOUT_S", 0)
    transcript = Transcripts(stored=1, max_bytes=MIB, max_stream_bytes=MIB, redactor=NOTHING_SECRET).open("e1")
    transcript.out.append("ab\n")
    with pytest.raises(RefusedError, match="too much time"):
        matching_lines(transcript, "a.c", max_bytes=1000)


def test_lines_of_a_long_text_are_found_with_their_numbers(long_outputs):
    transcript = long_outputs.open("e1")
    transcript.out.append(numbered(300_000))
    transcript.out.append("x" * (2 * MIB) + "needle" + "y" * (2 * MIB) + "\nafter\n")
    written(long_outputs.store, transcript.out)
    assert not transcript.is_in_memory
    found: Any = matching_lines(transcript, "line 29999", max_bytes=50_000)
    assert [match["line"] for match in found["matches"]] == [30_000, *range(299_991, 300_001)]
    found = matching_lines(transcript, "needle", max_bytes=50_000)
    [match] = found["matches"]
    assert (match["line"], match["text"]) == (300_001, "x" * 2000)
    found = matching_lines(transcript, "xneedley|no.such", max_bytes=50_000)
    assert found["count"] == 0, "a regular expression is searched only in the beginning of a line"
    transcript.out.append("z" * MIB + "a (text)\n")
    found = matching_lines(transcript, "a (text)", max_bytes=50_000)
    assert [match["line"] for match in found["matches"]] == [300_003]
    found = matching_lines(transcript, "after", max_bytes=50_000)
    [match] = found["matches"]
    assert match["line"] == 300_002


def test_long_texts_are_compared_up_to_a_limit(long_outputs):
    item, another, different = (long_outputs.open(name) for name in ("e1", "e2", "e3"))
    whole = numbered(300_000)
    for transcript, end in ((item, "end"), (another, "end"), (different, "END")):
        transcript.out.append(whole + end)
    written(long_outputs.store, item.out, another.out, different.out)
    assert text_difference(item, another, max_bytes=1000) == {"same": True, "diff": ""}
    text = text_difference(item, different, max_bytes=1000)
    assert not text["same"]
    assert text["diff"] == "(only the first 2000 lines of stdout were compared)"


def test_a_difference_in_the_first_lines_of_long_texts_is_reported(long_outputs):
    item, another = long_outputs.open("e1"), long_outputs.open("e2")
    item.out.append("same\nold\n" + "x" * 20 * MIB)
    another.out.append("same\nnew\n" + "x" * 20 * MIB)
    written(long_outputs.store, item.out, another.out)
    text = text_difference(another, item, max_bytes=1000)
    assert "-old" in text["diff"]
    assert "+new" in text["diff"]
    assert "only the first 2 lines" in text["diff"]


# Directories of servers


def spilled(root):
    store = SpillStore(MIB, SpillCapacity(root, 64 * MIB))
    text = GrowingText(store, "e1.stdout", 1)
    text.add("x" * MIB)
    written(store, text)
    return store, text


def test_closing_the_store_leaves_no_files(tmp_path):
    store, text = spilled(tmp_path)
    assert files_in(tmp_path)
    store.close()
    store.close()
    assert list(tmp_path.iterdir()) == []
    text.add("y")
    assert text.last(1).text == "y"


def test_a_sweep_removes_only_leftovers_of_dead_servers(tmp_path):
    store, text = spilled(tmp_path)
    dead = tmp_path / "0123456789ab"
    dead.mkdir()
    (dead / "e1.stdout.1").write_text("left behind")
    (tmp_path / "0123456789ab.lock").touch()
    (tmp_path / "of-others").mkdir()
    (tmp_path / "of-others.lock").touch()
    SpillDirectory(tmp_path).remove_abandoned()
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == 4
    assert {"of-others", "of-others.lock"} < left
    assert text.read_all() == "x" * MIB
    store.close()


def test_two_servers_have_separate_directories(tmp_path):
    (item, first), (other, second) = spilled(tmp_path), spilled(tmp_path)
    assert len(files_in(tmp_path)) == 2
    item.close()
    assert len(files_in(tmp_path)) == 1
    assert second.read_all() == "x" * MIB
    assert first.last(5).text == "xxxxx"
    other.close()


def test_a_directory_swept_during_its_creation_is_replaced_by_another(tmp_path, monkeypatch):
    names = iter(["1" * 12, "2" * 12])
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(names))
    lock, swept = try_lock, []

    def beaten(descriptor):
        if not swept:
            swept.append(1)
            SpillDirectory(tmp_path).remove_abandoned()
        return lock(descriptor)

    monkeypatch.setattr(spill_files, "try_lock", beaten)
    folder = SpillDirectory(tmp_path)
    assert folder.path() == tmp_path / ("2" * 12)
    folder.remove()


def test_output_is_stored_again_after_the_directory_was_deleted(tmp_path):
    store, text = spilled(tmp_path / "spill")
    shutil.rmtree(tmp_path / "spill")
    later = GrowingText(store, "e2.stdout", 2)
    later.add("z" * MIB)
    written(store, later)
    text.add("y" * MIB)  # to a file that is gone, for what it knows
    written(store, text)
    assert later.read_all() == "z" * MIB
    assert not later.is_in_memory
    assert set(text.read_all()) == {"y"}
    assert text.total == 2 * MIB
    store.close()
    assert list((tmp_path / "spill").iterdir()) == []


def test_a_link_in_place_of_a_file_is_not_followed(tmp_path):
    folder = SpillDirectory(tmp_path / "spill")
    target = tmp_path / "target"
    target.write_text("of somebody else")
    posix_only.make_link(folder.path() / "e1.stdout.1", target)
    file = SpillFile(folder, "e1.stdout.1", 0)
    with pytest.raises(OSError, match="the path is a link"):
        file.append(["mine"])
    assert target.read_text() == "of somebody else"
    folder.remove()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_or_a_link_in_place_of_a_file_does_not_block_readers(tmp_path):
    folder = SpillDirectory(tmp_path / "spill")
    file = SpillFile(folder, "e1.stdout.1", 0)
    file.append(["mine"])
    file.close_until_append()
    place = folder.path() / "e1.stdout.1"
    place.unlink()
    posix_only.make_pipe(place)
    with pytest.raises(OSError, match="a pipe"):
        file.read(0, 4)
    place.unlink()
    (tmp_path / "target").write_text("not mine")
    place.symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="a link"):
        file.read(0, 4)
    folder.remove()
