"""A crashing test process fails only the test that crashed it, and the others continue."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = f"""\
import sys

sys.path.append({str(Path(__file__).parents[1] / "support")!r})


def pytest_xdist_make_scheduler(config, log):
    from unit_scheduler import UnitScheduling

    return UnitScheduling(config, log, unit_of=lambda test: test.partition("::")[0])
"""
QUIET = "def test_one(): pass\ndef test_two(): pass\n"


@pytest.mark.parametrize("after", ["", "def test_after(): pass\n", "def test_after(): pass\ndef test_more(): pass\n"])
def test_a_crash_fails_only_the_test_that_caused_it(tmp_path, after):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_crash.py").write_text(f"import os\ndef test_crash(): os._exit(3)\n{after}")
    (tmp_path / "test_quiet.py").write_text(QUIET)
    plugins = ["-p", "no:cacheprovider", "-p", "no:basilisp_test_runner", "-p", "no:hypothesispytest", "-p", "no:anyio"]
    arguments = ["-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *plugins, "--rootdir", tmp_path]
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert f"1 failed, {2 + after.count('def ')} passed" in done.stdout, done.stdout + done.stderr
