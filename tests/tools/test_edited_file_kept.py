"""What an edit preserves of a file besides its text, and edits that would make a file too large."""

import os
import subprocess
import sys
import time

import pytest

from codriver.editing.file_changes import MAX_FILE_BYTES, MAX_LINES
from codriver.editing.python_source import MAX_PARSED_CHARACTERS

pytestmark = pytest.mark.served("memory")


def replace(client, name, old, new):
    return client.call("edit_files", edits=[{"filePath": name, "oldText": old, "newText": new}])


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="this system has no extended attributes by Python")
def test_an_edit_and_its_undo_preserve_extended_attributes(client, live):
    file = live.workspace / "tagged.txt"
    file.write_text("one\n")
    try:
        os.setxattr(file, "user.origin", b"elsewhere")
    except OSError as error:
        pytest.skip(f"this file system has no extended attributes: {error}")
    assert replace(client, "tagged.txt", "one", "two")["ok"]
    assert (file.read_text(), os.getxattr(file, "user.origin")) == ("two\n", b"elsewhere")
    assert client.call("undo_edit")["ok"]
    assert (file.read_text(), os.getxattr(file, "user.origin")) == ("one\n", b"elsewhere")


def test_quick_edits_of_the_same_length_never_leave_the_bytecode_of_an_earlier_text_valid(client, live, tmp_path):
    file = live.workspace / "priced.py"
    command = [sys.executable, "-c", "import priced; print(priced.PRICE)"]

    def imported_price() -> str:
        environ = {**os.environ, "PYTHONPATH": str(live.workspace), "PYTHONPYCACHEPREFIX": str(tmp_path / "cache")}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout.strip()

    file.write_text("PRICE = 1\n")
    second = (
        time.time_ns() // 10**9 + 60
    )  # whatever the speed of this test, all edits come within this second or before
    os.utime(file, ns=(second * 10**9, second * 10**9))
    assert imported_price() == "1"
    for old, new in ((1, 2), (2, 1), (1, 3)):
        assert replace(client, "priced.py", f"PRICE = {old}", f"PRICE = {new}")["ok"]
        assert imported_price() == str(new)
    assert client.call("undo_edit")["ok"]
    assert imported_price() == "1"


def test_an_edit_that_makes_a_file_too_large_is_refused(client, live):
    file = live.workspace / "large.txt"
    before = "end\n" + "x" * (MAX_FILE_BYTES - 100)
    file.write_text(before)
    refused = replace(client, "large.txt", "end", "y" * 200)
    assert not refused["ok"]
    assert "can be edited: move part of it to another file" in str(refused)
    assert file.read_text() == before
    assert replace(client, "large.txt", "end", "y" * 90)["ok"]
    assert client.call("undo_edit")["ok"]
    assert file.read_text() == before


def test_python_that_would_take_too_long_to_parse_is_edited_as_text_only(client, live):
    """Python runs no other thread while it parses, so a long file would delay all other clients."""
    file = live.workspace / "long.py"
    before = "def first(): pass\n" + "a = 1\n" * (MAX_PARSED_CHARACTERS // 6)
    file.write_text(before)
    replaced = {"filePath": "long.py", "type": "replace_def", "name": "first", "code": "def first(): return 1"}
    refused = client.call("edit_files", edits=[replaced])
    assert not refused["ok"]
    assert f"the file is too long: the text has {len(before):,} characters" in str(refused)
    assert "Edit it with oldText and newText" in str(refused)
    within = {"filePath": "long.py", "oldText": "pass", "newText": "return 1", "name": "first"}
    assert "name cannot be used, because the file is too long" in str(client.call("edit_files", edits=[within]))
    assert file.read_text() == before
    assert replace(client, "long.py", "pass", "return 1 +")["ok"]
    assert file.read_text() == before.replace("pass", "return 1 +")
    loaded = client.call("edit_files", edits=[{**within, "oldText": "1 +", "newText": "1", "name": None}], load=True)
    assert "the file is too long" in str(loaded)


def test_an_edit_of_a_file_with_too_many_lines_is_refused(client, live):
    file = live.workspace / "long.txt"
    file.write_text("end\n" * (MAX_LINES + 1))
    refused = client.call("edit_files", edits=[{"filePath": "long.txt", "type": "append", "code": "x"}])
    assert not refused["ok"]
    assert "400,001 lines, but at most 400,000 can be edited" in str(refused)
    before = "begin\n" + "x\n" * (MAX_LINES - 2)
    file.write_text(before)
    assert "at most 400,000 can be edited" in str(replace(client, "long.txt", "begin", "y\n" * 3))
    assert file.read_text() == before
    assert replace(client, "long.txt", "begin", "end")["ok"]
