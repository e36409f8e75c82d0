"""`tests/bench/real_commits.py` checks the commits of a repository, here one with six commits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

if sys.platform == "win32":
    pytest.skip("each commit is loaded in a fork", allow_module_level=True)

PROGRAM = Path(__file__).parents[2] / "bench" / "real_commits.py"
FUNCTION = "def f():\n    return LIMIT\n"
VERSIONS = (
    "LIMIT = 3\nDOUBLE = LIMIT * 2\n" + FUNCTION,
    "LIMIT = 4\nDOUBLE = LIMIT * 2\n" + FUNCTION,
    "LIMIT = 4\nDOUBLE = LIMIT * 2\n# a comment\n" + FUNCTION,
    "import time\nLIMIT = 4\nDOUBLE = [time.sleep(0), LIMIT]\n" + FUNCTION,
    "import time\nLIMIT = 5\nDOUBLE = [time.sleep(0), LIMIT]\n" + FUNCTION,
    "LIMIT = 5\nDOUBLE = unknown\n" + FUNCTION,
)


def git(folder, *arguments):
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    names = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *names, *arguments], check=True, capture_output=True, env=environ)


def test_the_commit_checker_checks_the_newest_commits_first(tmp_path):
    package = tmp_path / "src" / "shop"
    package.mkdir(parents=True)
    git(tmp_path, "init", "-q")
    for number, text in enumerate(VERSIONS):
        (package / "__init__.py").write_text(text)
        (package / "orders.py").write_text("from shop import f\nTOTAL = f()\n")
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", f"version {number}")
    command = [sys.executable, str(PROGRAM), str(tmp_path), "src/shop"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith(" ")][:-1]
    assert done.returncode == 0, done.stderr
    assert [(row[0], row[-1]) for row in rows] == [("broken", "5"), ("reported", "4"), ("right", "3"), ("right", "1")]
