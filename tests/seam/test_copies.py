"""The seam without an installed Codriver: `codriver seam path` and `copy`, and a bare `pip install --no-deps`."""

import contextlib
import hashlib
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import forked
import pytest
from live_server import WAIT_S, environ
from needs import do_without, interpreter
from worker_client import NAMES, Repl, texts

import codriver

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "server" / "codriver_seam"
INSTALL_S = 300
PROGRAM = """\
import sys
sys.path[:0] = FOLDERS
import codriver_seam as seam

state = {"count": 1}
assert seam.install(True)
seam.frame("shop", get=lambda: state, snapshot="none")
repl = seam.start_repl()
print("listens:%d" % repl.port, flush=True)
sys.stdin.read()
"""
"""An application with the seam and a REPL, which ends when its standard input does."""
LOOK = "import json, sys, codriver_seam as seam\n"
STATE = LOOK + "json.loads(seam.call('state'))['ok'], state, seam.__file__, 'codriver' in sys.modules"


def run(folder, *words):
    return forked.run(words, env=environ(folder), cwd=folder, timeout=WAIT_S)


@pytest.fixture
def project(tmp_path):
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """Create a directory with a copy in it."""
    folder = tmp_path_factory.mktemp("copied")
    assert run(folder, "seam", "copy", ".").returncode == 0
    return folder


def shows_itself(folder, python, *folders):
    """Run an application with `python` and only these directories on its path; return where its seam came from."""
    program = folder / "shop.py"
    program.write_text(PROGRAM.replace("FOLDERS", repr([str(place) for place in folders])))
    with contextlib.closing(Repl(folder, python=python, how=("-I", str(program)))) as repl:
        repl.connect()
        (answer,) = texts(repl.evaluate(STATE), "value")
        is_ok, state, file, has_server = eval(answer)
        assert (is_ok, state, has_server) == (True, {"count": 1}, False)
        assert texts(repl.evaluate("state['count'] += 1\nstate['count']"), "value") == ["2"]
        return Path(file).parent


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_works_in_an_application_on_every_python(copied, tmp_path, name):
    assert shows_itself(tmp_path, interpreter(name), copied) == copied / "codriver_seam"


def test_the_printed_python_path_contains_only_the_seam_package_and_is_sufficient(project):
    done = run(project, "seam", "path", "python")
    folder = Path(done.stdout.removesuffix("\n"))
    assert [path.name for path in folder.iterdir()] == ["codriver_seam"]
    assert shows_itself(project, sys.executable, folder) == folder / "codriver_seam"
    (folder / "codriver_seam" / "streams.py").write_text("broken(")
    assert run(project, "seam", "path", "python").stdout == done.stdout
    assert shows_itself(project, sys.executable, folder) == folder / "codriver_seam"


def test_the_printed_clojure_path_contains_only_the_seam_namespace(project):
    folder = Path(run(project, "seam", "path", "clojure").stdout.removesuffix("\n"))
    assert [path.relative_to(folder).as_posix() for path in folder.rglob("*.*")] == ["codriver/seam.cljc"]


def test_a_copy_contains_every_file_unchanged_and_the_command_says_what_to_add(project):
    done = run(project, "seam", "copy", ".")
    package = project / "codriver_seam"
    worker = ROOT / "server/codriver/repls/worker"
    ours = {
        **{path.relative_to(PACKAGE): path for path in PACKAGE.rglob("*.py")},
        Path("clojure/codriver/seam.cljc"): PACKAGE / "clojure/codriver/seam.cljc",
        **{Path("worker", path.relative_to(worker)): path for path in worker.rglob("*.py")},
    }
    there = {path.relative_to(package): path for path in package.rglob("*") if path.is_file()}
    there.pop(Path("copied-files.txt"))
    assert {name: path.read_bytes() for name, path in there.items()} == {
        name: path.read_bytes() for name, path in ours.items()
    }
    assert done.stdout.splitlines() == [
        f"{package}: {len(ours)} files written, 0 unchanged",
        f"If {project} is on the application's sys.path, add these two lines:",
        "    import codriver_seam",
        "    codriver_seam.start_repl(True)  # or app.debug, or no argument if the environment has CODRIVER_SEAM=1",
        f"For Clojure, add {package}/clojure to the classpath.",
    ]
    assert f": 0 files written, {len(ours)} unchanged\n" in run(project, "seam", "copy", ".").stdout


def as_older(package, name, text):
    """Make a file one of an older version, as written according to the record."""
    (package / name).write_text(text)
    record = package / "copied-files.txt"
    lines = [line for line in record.read_text().splitlines() if not line.endswith(f"  {name}")]
    record.write_text("\n".join([*lines, f"{hashlib.sha256(text.encode()).hexdigest()}  {name}", ""]))


def test_an_older_copy_is_updated_and_obsolete_files_are_removed(project):
    run(project, "seam", "copy", ".")
    package = project / "codriver_seam"
    as_older(package, "streams.py", "older = 1\n")
    as_older(package, "worker/gone.py", "gone = 1\n")
    (package / "own.py").write_text("own = 1\n")
    (package / "values.py").write_bytes((package / "values.py").read_bytes().replace(b"\n", b"\r\n"))
    done = run(project, "seam", "copy", ".")
    first = done.stdout.splitlines()[0]
    assert first.startswith(f"{package}: 1 file written, ")
    assert first.endswith(" unchanged, 1 from an earlier version removed")
    assert (package / "streams.py").read_bytes() == (PACKAGE / "streams.py").read_bytes()
    assert not (package / "worker/gone.py").exists()
    assert (package / "own.py").exists()
    assert b"\r\n" in (package / "values.py").read_bytes(), "line ends are git's"
    assert "gone" not in (package / "copied-files.txt").read_text()


@pytest.mark.parametrize("how", ["changed", "never copied", "a record of somebody else", "no record"])
def test_files_not_written_by_codriver_are_never_replaced(project, how):
    package = project / "codriver_seam"
    if how == "never copied":
        package.mkdir()
        theirs = package / "streams.py"
    else:
        run(project, "seam", "copy", ".")
        theirs = package / ("copied-files.txt" if how == "a record of somebody else" else "streams.py")
    if how == "no record":
        (package / "copied-files.txt").unlink()
    theirs.write_text("theirs = 1\n")
    (package / "values.py").unlink(missing_ok=True)
    done = run(project, "seam", "copy", ".")
    assert done.returncode == 1
    assert done.stderr == (
        f"codriver: nothing was copied: {theirs} already exists, and it was not written by Codriver or "
        "has been changed since. Move it away, or name another folder\n"
    )
    assert theirs.read_text() == "theirs = 1\n"
    assert not (package / "values.py").exists()


def test_copying_writes_nothing_outside_its_directory_through_a_link_or_a_record(project):
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    (project / "codriver_seam").symlink_to(elsewhere)
    done = run(project, "seam", "copy", ".")
    assert (done.returncode, list(elsewhere.iterdir())) == (1, [])
    assert "Traceback" not in done.stderr
    (project / "codriver_seam").unlink()
    run(project, "seam", "copy", ".")
    victim = elsewhere / "victim.py"
    record = project / "codriver_seam" / "copied-files.txt"
    victim.write_text("victim = 1\n")
    digest = hashlib.sha256(victim.read_bytes()).hexdigest()
    record.write_text(f"{record.read_text()}{digest}  ../../elsewhere/victim.py\n{digest}  {victim}\n")
    assert run(project, "seam", "copy", ".").returncode == 0
    assert victim.exists()


def test_the_package_is_not_copied_onto_itself(project):
    done = run(project, "seam", "copy", str(PACKAGE.parent))
    assert done.returncode == 1
    assert done.stderr.startswith(f"codriver: nothing was copied: {Path(codriver.__file__).parents[1]} contains")
    assert not (PACKAGE / "worker").exists()


@pytest.mark.slow
def test_an_installation_without_dependencies_is_sufficient_for_an_application(tmp_path):
    if find_spec("pip") is None:
        do_without(f"pip is not installed: run {sys.executable} -m ensurepip")
    home = tmp_path / "bare"
    venv.create(home)
    python = home / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python]  # one of its own would take longer than all else here
    words = [*pip, "install", "-q", "--disable-pip-version-check", "--no-deps", str(ROOT)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if "No matching distribution found for hatchling" in done.stderr:
        do_without("pip has to reach a package registry that has hatchling")
    assert done.returncode == 0, done.stderr
    listed = {path.name.split("-")[0] for path in home.glob("lib/*/site-packages/*.dist-info")}
    assert listed == {"codriver"}
    assert shows_itself(tmp_path, str(python)).is_relative_to(home)
    assert (next(home.glob("lib/*/site-packages")) / "codriver_seam/clojure/codriver/seam.cljc").exists()
