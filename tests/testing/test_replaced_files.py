"""Test runs in which the contents of some files are replaced."""

import pytest
from process_runs import run, write_project

TESTS = """
import glob, os, pathlib, subprocess, sys
import lib

def test_import(): assert lib.VALUE == 2
def test_open(): assert "2" in open("lib.py").read() and "2" in pathlib.Path("lib.py").read_text()
def test_stat(): assert os.stat("lib.py").st_size == os.path.getsize("lib.py") == len("VALUE = 2 + 0\\n")
def test_child(): assert subprocess.check_output([sys.executable, "-c", "import lib; print(lib.VALUE)"]) == b"2\\n"
def test_module_of_a_new_package():
    from new.sub import mod
    assert mod.VALUE == 3
def test_new_files_are_listed():
    assert "new" in os.listdir() and os.listdir("new/sub") == ["mod.py"]
    assert [one.name for one in pathlib.Path("new/sub").iterdir()] == ["mod.py"]
    assert glob.glob("new/**/*.py", recursive=True) == ["new/sub/mod.py"]
    assert [names for _, _, names in os.walk("new")] == [[], ["mod.py"]]
def test_removed_files_cannot_be_found():
    assert not os.path.exists("gone.py") and "gone.py" not in os.listdir()
    assert "gone.py" not in [one.name for one in os.scandir()]
    try:
        open("gone.py")
    except FileNotFoundError as error:
        assert error.filename == "gone.py"
    try:
        import gone
    except ModuleNotFoundError:
        return
    raise AssertionError
"""


@pytest.fixture
def project(tmp_path):
    return write_project(
        tmp_path,
        {
            "pytest.ini": "[pytest]\n",
            "lib.py": "VALUE = 1\n",
            "gone.py": "",
            "conftest.py": "import pathlib, sys\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n",
        },
    )


def sources_of(folder, **more):
    return {
        str(folder / "lib.py"): b"VALUE = 2 + 0\n",
        str(folder / "gone.py"): None,
        str(folder / "test_it.py"): TESTS.encode(),
        str(folder / "new" / "sub" / "mod.py"): b"VALUE = 3\n",
        **{str(folder / name): content for name, content in more.items()},
    }


@pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_tests_and_their_subprocesses_see_the_replaced_contents(project, arguments):
    (project / "lib.py").write_text("VALUE = 1\n")
    assert run(project, env={"PYTHONPATH": str(project)}).report.exit_status == 5
    ran = run(project, *arguments, sources=sources_of(project), env={"PYTHONPATH": str(project)})
    assert (ran.report.passed, ran.report.counts.passed) == (True, 7), ran.output
    assert sorted(path.name for path in project.iterdir() if path.suffix == ".py") == [
        "conftest.py",
        "gone.py",
        "lib.py",
    ]


def test_no_bytecode_of_replaced_contents_remains(project):
    run(project, sources=sources_of(project), env={"PYTHONPATH": str(project)})
    write_project(project, {"test_it.py": "import lib\n\ndef test_it(): assert lib.VALUE == 1\n"})
    assert run(project, env={"PYTHONPATH": str(project)}).report.passed


def test_a_sitecustomize_of_the_project_still_runs(project):
    write_project(project, {"sitecustomize.py": "import os\nos.environ['SITE'] = 'yes'\n"})
    tests = b"import os, sys\ndef test_it():\n    assert os.environ['SITE'] == 'yes'\n"
    tests += b"    assert not [one for one in sys.path if 'codriver-tests' in one]\n"
    ran = run(project, sources={str(project / "test_it.py"): tests}, env={"PYTHONPATH": str(project)})
    assert ran.report.passed, ran.output


def test_a_failure_includes_lines_of_the_replaced_contents(project):
    tests = b"def test_it():\n    assert 'content' == 'other'\n"
    failure = run(project, sources={str(project / "test_it.py"): tests}).failure("test_it")
    assert "assert 'content' == 'other'" in failure.text
    assert failure.frames[0].file == str(project / "test_it.py")
