"""The file of a history: appends, syncs and compactions, also when the disk fails or the file changes."""

import errno
import itertools
import os
import sys

import pytest

from codriver.log import history_file
from codriver.log.history_file import HistoryFile
from codriver.log.log_entries import Entry
from codriver.log.transit_format import EntryDecoder, encode_entry, encode_file

SYNCS_OF_DIRECTORY = 0 if sys.platform == "win32" else 1
"""The number of syncs of a directory after a file in it was replaced, which Windows lacks."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "eval-history.transit.json"


def code(line, text="(+ 1 2)"):
    return Entry(line, "evaluatedCode", text, 1_700_000_000_000 + line, evaluation=f"e{line}")


def created(path, *entries, most_bytes=2**20):
    file = HistoryFile(path, most_bytes)
    file.append(entries, lambda: entries)
    return file


def no_entries():
    raise AssertionError("the file was rewritten")


def fail(*_):
    raise OSError(errno.EIO, "Input/output error")


def lines(path):
    decoder = EntryDecoder([path.read_bytes()])
    return [entry.line for entry in decoder.decode_entries()], decoder.broken


def test_nothing_is_appended_beyond_the_maximum_size(path):
    file = created(path, code(1), most_bytes=1000)
    whole = path.read_bytes()
    with pytest.raises(OSError, match="too large to be read"):
        file.append([code(2, "x" * 1000)], no_entries)
    assert path.read_bytes() == whole
    file.append([code(3)], no_entries)
    assert (file.size, lines(path)) == (path.stat().st_size, ([1, 3], 0))


def test_a_removed_file_is_created_again_with_all_entries(path):
    file = created(path, code(1))
    file.append([code(2)], no_entries)
    path.unlink()
    file.detect_replacement()
    file.append([code(3)], lambda: [code(1), code(2), code(3)])
    assert (file.size, lines(path)) == (path.stat().st_size, ([1, 2, 3], 0))


def test_a_file_that_was_replaced_is_continued(path):
    file = created(path, code(1))
    file.append([code(2)], no_entries)
    other = path.with_name("other")
    other.write_bytes(b"".join(encode_file([code(5)])))
    other.replace(path)
    file.detect_replacement()
    file.append([code(6)], no_entries)
    assert (file.size, lines(path)) == (path.stat().st_size, ([5, 6], 0))


def test_an_unchanged_file_stays_open(path):
    file = created(path, code(1))
    file.append([code(2)], no_entries)
    file.detect_replacement()
    file.append([code(3)], no_entries)
    file.close()
    file.detect_replacement()
    file.append([code(4)], no_entries)
    assert lines(path) == ([1, 2, 3, 4], 0)


def test_a_partial_line_that_cannot_be_removed_damages_no_other_line(path, monkeypatch):
    file = created(path, code(1))

    def write_part(descriptor, content):
        os.write(descriptor, content[:7])
        fail()

    with monkeypatch.context() as patch:
        patch.setattr(history_file, "_write", write_part)
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(OSError, match="Input/output"):
            file.append([code(2)], no_entries)
    file.append([code(3)], no_entries)
    assert lines(path) == ([1, 3], 1)
    assert file.size == path.stat().st_size


@pytest.mark.parametrize("is_appended", [False, True])
def test_a_failed_sync_is_repeated(path, monkeypatch, is_appended):
    file = created(path, code(1))
    if is_appended:
        file.append([code(2)], no_entries)
    synced = []
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            file.sync()
    assert file.has_unsynced
    monkeypatch.setattr(os, "fsync", synced.append)
    file.sync()
    file.sync()
    assert not file.has_unsynced
    assert len(synced) == 1 + SYNCS_OF_DIRECTORY


def test_syncing_after_the_file_was_removed_does_nothing(path):
    file = created(path, code(1))
    path.unlink()
    file.sync()
    assert not file.has_unsynced


def compact(file, *entries, appended):
    """Compact the file to these entries, and append others while it is written."""

    def written():
        yield from entries
        file.append(appended, no_entries)

    file.compact(written)


def test_a_compacted_file_includes_entries_appended_during_the_compaction(path):
    file = created(path, code(1), code(2), code(3))
    compact(file, code(2), code(3), appended=[code(4)])
    file.append([code(5)], no_entries)
    assert (file.size, lines(path)) == (path.stat().st_size, ([2, 3, 4, 5], 0))


def test_a_compaction_is_abandoned_if_too_much_is_appended(path):
    file = created(path, code(1), code(2), most_bytes=4000)
    with pytest.raises(OSError, match="too many entries were appended"):
        compact(file, code(2), appended=[code(3, "x" * 600)])
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    file.append([code(4)], no_entries)
    assert (file.size, lines(path)) == (path.stat().st_size, ([1, 2, 3, 4], 0))
    compact(file, code(3), code(4), appended=[])
    assert lines(path) == ([3, 4], 0)


def fails_on_call(number):
    """Return a function that fails when it is called for this time."""
    calls = itertools.count(1)

    def called(_):
        if next(calls) == number:
            fail()

    return called


@pytest.mark.parametrize("failing", [1, 2 + SYNCS_OF_DIRECTORY], ids=["compacted entries", "appended entries"])
def test_a_compaction_whose_sync_fails_leaves_the_file_as_it_was(path, monkeypatch, failing):
    file = created(path, code(1), code(2))
    monkeypatch.setattr(os, "fsync", fails_on_call(failing))
    with pytest.raises(OSError, match="Input/output"):
        compact(file, code(2), appended=[code(3)])
    assert [found.name for found in path.parent.iterdir()] == [path.name]
    assert lines(path) == ([1, 2, 3], 0)
    file.append([code(4)], no_entries)
    assert path.read_bytes().endswith(encode_entry(code(4)))
