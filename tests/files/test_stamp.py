"""Stamps of files: everything that caches a file's content uses the same kind, so that a file cannot be fresh for
one reader and stale for another.
"""

import os
import re
import sys
import time
from pathlib import Path

import needs
import pytest

from codriver.app import stored_answers
from codriver.files import stamp_from_status
from codriver.log import memory
from codriver.skills import folders
from codriver.tools.answers import file_editors
from codriver_relay import stored_answers as of_relay

CLOCK_MS = 20
"""The kernel's own clock may lag so far behind, by which it stamps files."""
SERVER = Path(stamp_from_status.__code__.co_filename).parents[1]
READERS = {
    "files": lambda path: stamp_from_status(path.stat()),
    "kept lists": stored_answers.json_stamp,
    "kept lists of the relay": lambda path: of_relay.file_stamp(str(path)),
    "memory": memory._stamp,
    "skills": folders.file_stamp,
}


@pytest.mark.parametrize("reader", READERS)
def test_restoring_the_modification_time_does_not_hide_a_change(tmp_path, reader):
    path = tmp_path / "file"
    path.write_text("one")
    before, status = READERS[reader](path), path.stat()
    assert READERS[reader](path) == before
    path.write_text("two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert READERS[reader](path) != before


@pytest.mark.skipif(sys.platform == "win32", reason="a path tells no time of the last change of its status there")
def test_a_file_restored_with_its_old_time_is_not_attributed_to_its_last_editor(tmp_path):
    path = tmp_path / "file"
    path.write_text("one")
    status = path.stat()
    edited_ms = max(status.st_mtime_ns, status.st_ctime_ns) // 1_000_000
    assert file_editors._is_unchanged_since(path, edited_ms)
    while time.time_ns() // 1_000_000 <= edited_ms + CLOCK_MS:
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert not file_editors._is_unchanged_since(path, edited_ms)


def test_the_relay_and_the_server_compute_the_same_file_stamp(tmp_path):
    (tmp_path / "file").write_text("one")
    assert of_relay.file_stamp(str(tmp_path / "file")) == stored_answers.json_stamp(tmp_path / "file")
    assert of_relay.file_stamp(str(tmp_path / "none")) == stored_answers.json_stamp(tmp_path / "none") is None


# Who asks for the time of a file, and not to tell whether it is the same.
ASKS_FOR_TIMES = {
    "files/whole_files.py": "the one shape, and what may be written again within its clock's step",
    "files/directory_entry.py": "a replaced file in the same second",
    "systems/file_system.py": "the last write of a file",
    "app/stored_answers.py": "the oldest goes first",
    "features/warm_tests/saved_plans.py": "the plans used longest ago",
    "features/warm_tests/stamps.py": "the packages that were imported before",
    "features/warm_tests/child/process_state.py": "the files that an import read",
    "net/relay_install.py": "the oldest goes first",
    "features/jupyter/kernels/connection_files.py": "the newest kernel, and a folder within its clock's step",
    "features/run/final_output.py": "the newest output of an ended process",
    "repls/launch/port_files.py": "a port file older than the REPL that listens",
}


def test_no_module_compares_file_times_in_its_own_way():
    needs.every_feature()
    asking = {
        path.relative_to(SERVER).as_posix()
        for path in SERVER.rglob("*.py")
        if re.search(r"st_mtime_ns", path.read_text())
        and not {"worker", "programs"} & set(path.relative_to(SERVER).parts)
    }
    assert asking == ASKS_FOR_TIMES.keys()
