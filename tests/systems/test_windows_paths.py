"""How Windows writes paths and commands, and where its programs are; Windows itself is asked."""

import os
import sys
from pathlib import Path

import pytest

from codriver.systems import programs
from codriver_relay import roots, workspace_search

pytestmark = pytest.mark.skipif(sys.platform != "win32", reason="is about paths of Windows")


@pytest.mark.parametrize(
    ("uri", "path"),
    [("file:///c%3A/a%20b/x", "c:\\a b\\x"), ("file:///C:/x", "C:\\x"), ("file://localhost/C:/x", "C:\\x")],
)
def test_a_root_uri_is_converted_to_a_windows_path(uri, path):
    assert roots.file_uri_to_path(uri) == path


@pytest.mark.parametrize("name", ["TEMP", "SystemRoot", "USERPROFILE"])
def test_system_and_temporary_directories_are_not_workspaces(name):
    assert workspace_search.is_search_boundary(os.environ[name])


def test_a_drive_is_not_a_workspace_but_a_users_directory_may_be(tmp_path):
    assert workspace_search.is_search_boundary(tmp_path.anchor)
    assert not workspace_search.is_search_boundary(str(tmp_path))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("C:\\tools\\lein.bat repl :headless", ["C:\\tools\\lein.bat", "repl", ":headless"]),
        ('"C:\\a b\\lein.bat" repl', ["C:\\a b\\lein.bat", "repl"]),
        ('clj -Sdeps "{:deps {}}"', ["clj", "-Sdeps", "{:deps {}}"]),
        ("  ", []),
    ],
)
def test_a_command_is_split_as_windows_programs_split_it(line, words):
    assert programs.split_command(line) == words
    assert programs.split_command(programs.quote_command_line(words)) == words


@pytest.mark.parametrize("folder", [".", "Scripts"])
def test_a_program_next_to_the_interpreter_is_found_with_its_suffix(tmp_path, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / folder / "basilisp.exe").write_bytes(b"MZ")
    found = programs.find_program(tmp_path, "basilisp")
    assert Path(str(found)).samefile(tmp_path / folder / "basilisp.exe")
    assert programs.find_program(tmp_path, "hy") is None


@pytest.mark.parametrize(("content", "is_one"), [(b"MZ", True), (b"", False)], ids=["a program", "the Store's"])
def test_an_empty_python_exe_stub_is_not_used_as_an_interpreter(tmp_path, content, is_one):
    (tmp_path / "python.exe").write_bytes(content)
    assert (programs.python_in_path(str(tmp_path)) is not None) == is_one


def test_paths_with_either_kind_of_slash_are_recognized():
    assert [programs.is_path(name) for name in ("C:/x/python", "C:\\x\\python", "python")] == [True, True, False]


def test_advice_uses_windows_commands():
    text = [programs.kill_command(7), programs.grant_access_command(Path("C:/x"))]
    assert text == ["taskkill /F /PID 7", 'icacls "C:\\x" /grant "%USERNAME%:(OI)(CI)F"']
