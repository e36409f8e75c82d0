"""Differences between operating systems are handled in one package, and in one module each of the relay, the worker
and the seam.
"""

import ast
import gc
import re
from pathlib import Path

import needs
import not_on_windows
import pytest

ROOT = Path(__file__).parents[1]
SOURCES = [ROOT / "server" / "codriver", ROOT / "server" / "codriver_seam", ROOT / "relay" / "codriver_relay"]
MODULES = sorted(path for source in SOURCES for path in source.rglob("*.py"))
KNOWING = {
    "server/codriver/systems": "the room",
    "relay/codriver_relay/safe_files.py": "the relay's own, with `windows`, which that system alone imports",
    "relay/codriver_relay/windows.py": "the relay's own",
    "server/codriver/repls/worker/basics/systems.py": "the worker's own",
    "server/codriver/repls/worker/serving/embedded.py": "an application's own",
    "server/codriver/repls/worker/fresh/isolation.py": "namespaces, on Linux alone",
    "server/codriver/repls/worker/fresh/import_process.py": "a process that is paused and ended with its forks",
    "server/codriver/repls/worker/fresh/import_program.py": "forks where it can, and is told where it cannot",
    "server/codriver/repls/programs/python/new_process_launch.py": "a program that is sent to a REPL as a whole",
    "server/codriver/testing/test_paths.py": "reads lists of paths as pytest does, in every system",
    "server/codriver/testing/programs": "programs of test processes, without ours",
    "server/codriver/features/warm_tests/child": "forks, on Linux alone",
    "server/codriver/features/run": "signals and processes, except on Windows; its programs run without Codriver",
    "server/codriver/editing/vscode.py": "the folders in which VS Code keeps its state",
    "server/codriver/features/jupyter/kernels/connection_files.py": "who may write a connection file",
}
"""The places that may ask, and why."""
CALLS = {
    "os.geteuid", "os.getegid", "os.getuid", "os.getgid", "os.killpg", "os.getpgid", "os.setsid", "os.fork",
    "os.fchmod", "os.fchown",
    "shlex.join", "shlex.quote", "shlex.split", "stat.S_IMODE",
}  # fmt: skip


LAST_NAMES = {"startswith", *(name.rpartition(".")[2] for name in CALLS)}


@pytest.fixture(scope="module", autouse=True)
def _trees():
    """Exclude the trees of modules from garbage collection, which takes longer than parsing them."""
    gc.disable()
    yield
    gc.enable()


def questions(text):
    """Return the lines of a module that ask for something that differs between systems, with the question."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            last = getattr(node.func, "attr", getattr(node.func, "id", None))
            called = ast.unparse(node.func) if last in LAST_NAMES else ""
            if called in CALLS:
                yield node.lineno, called
            if any((keyword.arg or "").endswith("dir_fd") for keyword in node.keywords):
                yield node.lineno, "dir_fd"
            is_root = [ast.unparse(argument) for argument in node.args[:1]] == ["'/'"]
            owner = called.removesuffix(".startswith").rpartition(".")[2]
            if called.endswith(".startswith") and is_root and owner not in ("uri", "href"):
                yield node.lineno, called
        elif isinstance(node, ast.Attribute) and node.attr == "name" and ast.unparse(node) == "os.name":
            yield node.lineno, "os.name"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd) and "st_mode" in ast.unparse(node):
            yield node.lineno, "a bit of st_mode"


def test_only_listed_modules_check_which_platform_they_run_on():
    names = {path.relative_to(ROOT).as_posix(): path for path in MODULES}
    found = {
        name: requested
        for name, path in names.items()
        if not any(name == place or name.startswith(f"{place}/") for place in KNOWING)
        if (requested := list(questions(path.read_text(encoding="utf-8"))))
    }
    assert found == {}


@pytest.mark.parametrize("place", KNOWING)
def test_each_module_listed_as_checking_the_platform_does_so(place):
    needs.every_feature()
    paths = [path for path in MODULES if path.relative_to(ROOT).as_posix().startswith(place)]
    assert place.endswith("windows.py") or any(list(questions(path.read_text(encoding="utf-8"))) for path in paths)


@pytest.mark.parametrize(
    "line",
    ["os.open(a, dir_fd=b)", "os.geteuid()", "x.st_mode & 2", "os.name", "p.startswith('/')", "shlex.split(a)"],
)
def test_each_kind_of_platform_check_is_recognized(line):
    assert [number for number, _ in questions(line)] == [1]


@pytest.mark.parametrize("path", not_on_windows.REASONS)
def test_every_test_left_out_on_windows_exists(path):
    names = set(" ".join(not_on_windows.REASONS[path].values()).split())
    text = (ROOT / "tests" / path).read_text(encoding="utf-8")
    assert {name for name in names if f"def {name}(" not in text} == set()


HOLDING = re.compile(r"systems\.file_system import .*\b(OpenFolder|remove|remove_tree|rename)\b")


def test_only_the_files_package_keeps_directories_open():
    importing = {
        path.relative_to(ROOT / "server" / "codriver").parts[0]
        for path in (ROOT / "server" / "codriver").rglob("*.py")
        if HOLDING.search(path.read_text(encoding="utf-8"))
    }
    assert importing == {"files"}


REMOVING = ("unlink", "rename", "rmtree", "removedirs")
AT_ONCE = {
    "net/relay_install.py": "a file that somebody holds says that its folder is in use",
    "testing/running_process.py": "the directory of a run that is over",
    "features/warm_tests/process_pool.py": "the directory of all runs, once they are over",
    "features/warm_tests/warm_run.py": "the files of a run that is over",
}
"""The modules that remove a file without waiting for whoever holds it, and why."""
ELSEWHERE = ("systems/", "repls/worker/", "repls/programs/", "features/run/program/")
"""The room that waits, and what runs in a REPL, without it."""


def test_files_are_removed_and_renamed_only_by_functions_that_retry():
    needs.every_feature()
    room = ROOT / "server" / "codriver"
    names = {path.relative_to(room).as_posix(): path for path in MODULES if path.is_relative_to(room)}
    found = {name for name, path in names.items() if not name.startswith(ELSEWHERE) and _removes(path)}
    assert found == set(AT_ONCE)


def _removes(path):
    calls = [node.func for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
    return any(
        call.attr in REMOVING and ast.unparse(call.value) != "files"
        for call in calls
        if isinstance(call, ast.Attribute)
    )
