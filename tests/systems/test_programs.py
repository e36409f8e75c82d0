import os

import pytest

from codriver.systems import programs
from codriver.systems.programs import missing_program_directories, passes_arguments_unchanged, quote_command_line

SHORT = "/usr/bin:/bin:/usr/sbin:/sbin"


@pytest.fixture
def homebrew(tmp_path, monkeypatch):
    folder = tmp_path / "homebrew"
    folder.mkdir()
    monkeypatch.setattr(programs, "USUAL_DIRECTORIES", (str(folder), str(tmp_path / "none")))
    return str(folder)


def test_a_macos_app_gets_the_path_directories_of_a_shell(homebrew):
    assert missing_program_directories(SHORT, system="darwin") == [homebrew]


@pytest.mark.parametrize(
    ("path", "system"), [(f"/own{os.pathsep}{SHORT}", "darwin"), (SHORT, "linux"), (SHORT, "win32")]
)
def test_a_path_variable_customized_by_the_user_stays_unchanged(homebrew, path, system):
    assert missing_program_directories(path, system=system) == []


@pytest.mark.parametrize(
    ("program", "system", "passes"),
    [("clojure.CMD", "win32", False), ("x.bat", "win32", False), ("deps.exe", "win32", True), ("x.cmd", "linux", True)],
)
def test_a_windows_batch_file_cannot_receive_quotes_in_its_arguments(program, system, passes):
    assert passes_arguments_unchanged(program, system=system) is passes


@pytest.mark.parametrize(
    ("system", "line"), [("win32", '"C:\\a b\\codriver.exe" trust'), ("linux", "'C:\\a b\\codriver.exe' trust")]
)
def test_a_command_line_is_quoted_for_its_shell(system, line):
    assert quote_command_line(["C:\\a b\\codriver.exe", "trust"], system=system) == line
