"""Files that are checked repeatedly are read again only when they may have changed."""

import os
import time

import pytest

from codriver.files.whole_files import SETTLED_AGE_NS, ReadCache


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "port"
    path.write_text("7888")
    return path


class Reader:
    """Reads a file through the cache, and counts the actual reads."""

    def __init__(self, path):
        self.path, self.count, self.cache = path, 0, ReadCache()

    def read(self):
        self.count += 1
        return self.path.read_text()

    def get(self):
        return self.cache.get(self.path, self.read)


def make_old(path):
    """Set the times of a file into the past, as if nothing had written to it for a while."""
    then = time.time_ns() - 2 * SETTLED_AGE_NS
    os.utime(path, ns=(then, then))


@pytest.fixture
def settled(monkeypatch):
    """Wait until the clock is later than the status change of the file just written, which cannot be set back."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 2 * SETTLED_AGE_NS)


def test_an_unchanged_file_is_read_once(file, settled):
    reader = Reader(file)
    assert [reader.get() for _ in range(5)] == ["7888"] * 5
    assert reader.count == 1


def test_a_written_file_is_read_again(file, settled):
    reader = Reader(file)
    assert reader.get() == "7888"
    file.write_text("7889")  # of the same length
    assert reader.get() == "7889"


def test_a_replaced_file_is_read_again(file, settled, tmp_path):
    reader = Reader(file)
    assert reader.get() == "7888"
    other = tmp_path / "other"
    other.write_text("7889")
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)
    assert reader.get() == "7889"


def test_a_file_that_was_just_written_is_not_cached(file):
    reader = Reader(file)
    make_old(file)  # the status of the file has changed just now all the same
    assert [reader.get() for _ in range(3)] == ["7888"] * 3
    assert reader.count == 3


def test_a_symlink_is_never_cached(file, settled, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(file)
    reader = Reader(link)
    assert (reader.get(), reader.get(), reader.count) == ("7888", "7888", 2)


def test_a_deleted_and_recreated_file_is_read_again(file, settled):
    reader = Reader(file)
    reader.get()
    file.unlink()
    with pytest.raises(FileNotFoundError):
        reader.get()
    file.write_text("7889")
    assert reader.get() == "7889"


def test_a_read_error_is_raised_each_time(file, settled):
    cache = ReadCache()

    def refuse():
        raise PermissionError("not yours")

    for _ in range(2):
        with pytest.raises(PermissionError, match="not yours"):
            cache.get(file, refuse)
