"""A project environment that cannot be used is reported, and a directory without one is mentioned once."""

import sys

import pytest
from live_server import serving

from codriver.repls.launch.projects import find_projects, is_python_default, repls_to_start
from codriver.repls.launch.recipes import find_recipe


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


def write(workspace, files):
    for name, text in files.items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text(text)


def dangling(workspace, name=".venv"):
    python = workspace / name / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/opt/python3.8/bin/python3")
    return f"{python} leads to /opt/python3.8/bin/python3, which does not exist"


def dangling_directory(workspace):
    (workspace / ".venv").symlink_to("/nowhere/environment")
    return f"{workspace / '.venv'} leads to /nowhere/environment, which does not exist"


def without_interpreter(workspace):
    write(workspace, {".venv/pyvenv.cfg": "home = /opt\n"})
    return f"{workspace / '.venv' / 'bin' / 'python'} does not exist"


def not_executable(workspace):
    write(workspace, {".venv/bin/python": "#!/bin/sh\n"})
    return f"{workspace / '.venv' / 'bin' / 'python'} is not executable"


def directory_as_interpreter(workspace):
    (workspace / ".venv" / "bin" / "python").mkdir(parents=True)
    return f"{workspace / '.venv' / 'bin' / 'python'} is not executable"


def empty(workspace):
    not_executable(workspace)
    python = workspace / ".venv" / "bin" / "python"
    python.write_text("")
    python.chmod(0o755)
    return f"{python} is empty"


def script_of_a_missing_program(workspace):
    python = workspace / ".venv" / "bin" / "python"
    empty(workspace)
    python.write_text("#! /opt/python3.8/bin/python3 -I\n")
    return f"{python} starts /opt/python3.8/bin/python3, which does not exist"


BROKEN = [
    dangling,
    dangling_directory,
    without_interpreter,
    not_executable,
    directory_as_interpreter,
    empty,
    script_of_a_missing_program,
]


@pytest.mark.parametrize("break_it", BROKEN)
@pytest.mark.parametrize("files", [{}, {"pyproject.toml": ""}], ids=["bare", "project"])
def test_an_unusable_environment_is_reported_with_its_error(workspace, break_it, files):
    write(workspace, files)
    fault = break_it(workspace)
    made = find_recipe("python", workspace, {"PATH": ""})
    assert made.command[0] == sys.executable
    assert made.remark is None
    assert made.caution.startswith(f"the project's .venv is broken ({fault}), so Python code runs in {sys.executable}")


def test_a_missing_active_environment_is_reported(workspace):
    made = find_recipe("python", workspace, {"PATH": "", "VIRTUAL_ENV": str(workspace / "gone")})
    assert made.caution is None  # nothing of it remains
    fault = dangling(workspace, "mine")
    made = find_recipe("python", workspace, {"PATH": "", "VIRTUAL_ENV": str(workspace / "mine")})
    assert f"the active environment {workspace / 'mine'} is broken ({fault})" in made.caution


def test_a_source_directory_named_like_a_virtual_environment_is_not_mistaken_for_one(workspace):
    write(workspace, {"venv/__init__.py": ""})
    assert find_recipe("python", workspace, {"PATH": ""}).caution is None


def test_an_interpreter_that_is_a_script_is_used(workspace):
    empty(workspace)
    python = workspace / ".venv" / "bin" / "python"
    python.write_text('#!/bin/sh\nexec python3 "$@"\n')
    made = find_recipe("python", workspace, {"PATH": ""})
    assert (made.command[0], made.caution) == (str(python), None)


def test_a_usable_environment_next_to_a_broken_one_is_used(workspace):
    dangling(workspace, "venv")
    good = workspace / ".venv" / "bin" / "python"
    good.parent.mkdir(parents=True)
    good.symlink_to(sys.executable)
    made = find_recipe("python", workspace, {"PATH": ""})
    assert (made.command[0], made.caution) == (str(good), None)


def test_the_first_answer_status_and_doctor_report_a_broken_environment(tmp_path, workspace):
    fault = dangling(workspace)
    with serving(tmp_path) as live, live.client() as client:
        answer = client.call("evaluate_code", code="1+2", timeoutMs=60_000)
        assert answer["result"] == "3"
        assert any(fault in note for note in answer["notes"])
        for command in ("status", "doctor"):
            assert fault in " ".join(live.run(command).stdout.split())
    assert fault in " ".join(live.run("doctor", "-q").stdout.split())


def test_doctor_reports_an_interpreter_that_fails_before_a_server_runs(tmp_path, workspace):
    python = workspace / ".venv" / "bin" / "python"
    empty(workspace)
    with serving(tmp_path) as live:
        assert live.run("trust").returncode == 0
    python.write_text("#!/bin/sh\nexit 0\n")
    assert "cannot be evaluated" not in live.run("doctor").stdout
    python.write_text("#!/bin/sh\necho Fatal Python error: no encodings >&2\nexit 3\n")
    done = live.run("doctor")
    printed = " ".join(done.stdout.split())
    assert f"because {python} exits with status 3: Fatal Python error: no encodings" in printed
    assert done.returncode == 1


def test_a_missing_environment_is_reported_once_per_workspace(tmp_path, workspace):
    (workspace / "pyproject.toml").touch()
    reported = "has no virtual environment"
    with serving(tmp_path) as live, live.client() as client, live.client(name="other") as other:
        first = client.call("evaluate_code", code="1", timeoutMs=60_000)
        assert any(reported in note for note in first["notes"])
        again = client.call("get_evaluation", evaluationId=first["evaluationId"])
        assert [note for note in again.get("notes", ()) if reported not in note] == []
        assert reported not in str(client.call("evaluate_code", code="2"))
        assert reported not in str(other.call("evaluate_code", code="3"))
        assert any(reported in note for note in client.call("list_sessions")["sessions"][0]["notes"])
        assert reported in live.run("status").stdout
        assert reported in live.run("doctor").stdout
    with serving(tmp_path) as live, live.client() as client:
        assert reported not in live.greeting
        assert reported not in str(client.call("evaluate_code", code="1", timeoutMs=60_000))
        assert reported in str(client.call("list_sessions"))


OPEN = [
    {},
    {"x.csv": "a,b\n"},
    {"data/x.parquet": "", "README.md": "", "notes.txt": "", "run.sh": "", "query.sql": ""},
    {"AGENTS.md": "", "x.json": "{}"},
]
CLOSED = [
    {"main.go": ""},
    {"x.csv": "", "src/deep/index.ts": ""},
    {"package.json": "{}", "x.csv": ""},
    {"Cargo.toml": ""},
    {"a.clj": ""},
    {"analysis.R": "", "x.csv": ""},
]


@pytest.mark.parametrize("files", OPEN, ids=[",".join(files) or "nothing" for files in OPEN])
def test_a_python_repl_starts_unless_the_directory_has_sources_of_another_language(workspace, files):
    write(workspace, files)
    assert is_python_default(workspace)
    assert repls_to_start(workspace) == ("python",)
    assert find_projects(workspace) == ()


@pytest.mark.parametrize("files", CLOSED, ids=[",".join(files) for files in CLOSED])
def test_no_python_repl_starts_in_a_directory_of_another_language(workspace, files):
    write(workspace, files)
    assert not is_python_default(workspace)
    assert repls_to_start(workspace) == ()


def test_code_runs_in_a_directory_that_only_contains_data(tmp_path, workspace):
    write(workspace, {"x.csv": "a,b\n1,2\n"})
    with serving(tmp_path) as live, live.client() as client:
        answer = client.call("evaluate_code", code="open('x.csv').read()", timeoutMs=60_000)
        assert answer["result"] == repr("a,b\n1,2\n")
