"""A file lock belongs to one descriptor at a time and is released when that descriptor is closed."""

import os

import pytest

from codriver.files.file_locks import remove_locked_file, try_lock


@pytest.fixture
def opened(tmp_path):
    descriptors = []

    def open_it():
        descriptors.append(os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT))
        return descriptors[-1]

    yield open_it
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError:
            assert descriptor == descriptors[0]


def test_a_lock_becomes_available_only_when_its_holder_closes_the_file(opened):
    first, second = opened(), opened()
    os.write(first, b"abc")
    assert try_lock(first)
    assert not try_lock(second)
    assert os.lseek(first, 0, os.SEEK_CUR) == 3
    assert os.read(second, 3) == b"abc"
    os.close(first)
    assert try_lock(second)


def test_removing_a_locked_file_deletes_and_closes_it(opened, tmp_path):
    retained = opened()
    assert try_lock(retained)
    remove_locked_file(tmp_path / "lock", retained)
    assert not (tmp_path / "lock").exists()
    with pytest.raises(OSError, match=r"descriptor|handle"):
        os.fstat(retained)
