"""A file that another program holds open for a moment, as virus scanners on Windows do with new files, is waited
for.
"""

import contextlib
import importlib
import os
import sys
import threading
import time

import posix_only
import pytest

from codriver import files
from codriver.files import FileRules, Links

RULES = FileRules(Links.NEVER, 100)


@contextlib.contextmanager
def opened_exclusively(path):
    """Let another program hold a file without sharing it, and release it while somebody waits for it."""
    release = posix_only.open_exclusively(path)
    waits, wait = threading.Event(), time.sleep

    def pause(seconds):
        if not waits.is_set():
            waits.set()
            release()
        wait(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "sleep", pause)
        yield waits
    if not waits.is_set():
        release()


def located(path):
    return files.locate(path, Links.NEVER, root=path.parent)


def read_by_location(path):
    with located(path) as place:
        return place.read(RULES)


def write_private(path):
    os.close(files.open_for_writing(path, links=Links.NEVER, root=path.parent))


def remove_by_location(path):
    with located(path) as place:
        place.remove()


ACTS = {
    "read": lambda path: files.read(path, RULES),
    "read by its place": read_by_location,
    "open to append": write_private,
    "replace": lambda path: files.replace(path, b"new", links=Links.NEVER),
    "remove": files.remove,
    "remove by its place": remove_by_location,
    "rename": lambda path: files.rename(path, path.with_name("aside")),
    "remove with its folder": lambda path: files.remove_tree(path.parent),
}


@pytest.mark.parametrize("name", ACTS)
def test_opening_a_file_waits_while_another_program_holds_it(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    file = folder / "file"
    file.write_bytes(b"old")
    with opened_exclusively(file) as waits:
        ACTS[name](file)
    assert waits.is_set()
    assert folder.exists() != (name == "remove with its folder")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows is about the other test")
@pytest.mark.parametrize("name", ACTS)
def test_each_operation_works_while_no_other_program_holds_the_file(tmp_path, name):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(b"old")
    ACTS[name](folder / "file")


@pytest.mark.skipif(sys.platform != "win32", reason="files are shared with everybody but on Windows")
def test_a_permission_error_that_persists_is_raised_after_retries(tmp_path):
    (tmp_path / "file").touch()
    release = posix_only.open_exclusively(tmp_path / "file")
    windows = importlib.import_module("codriver_relay.windows")
    with pytest.raises(PermissionError):
        windows.patiently((tmp_path / "file").unlink, 0)
    release()
