"""The README's CI recipe, run as in a job."""

import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from live_server import environ

README = Path(__file__).parents[2] / "README.md"
RECIPE_S = 300
ITS_OWN = "import sys\n\ndef test_own():\n    assert 'workspace/.venv' in sys.prefix\n"
GOOD = "(is (= 3 (reduce + [1 2])))"
BAD = '(is (= 4 (reduce + [1 2]))\n      "the sum")'


RECIPE = re.search(r"<!-- ci-recipe -->\n```sh\n(.*?)```", README.read_text(), re.DOTALL)[1]
LISP, PYTHON = ("test/shop_test.lpy", "CODRIVER_REPL=lisp "), ("test/test_shop.py", "CODRIVER_REPL=python ")


def of_python(recipe):
    """Return the recipe for a Python project, whose REPL needs a quarter of the processor time of a Lisp to start."""
    for lisp, python in zip(LISP, PYTHON, strict=True):
        assert lisp in recipe
        recipe = recipe.replace(lisp, python)
    return recipe


def job(folder, form, recipe=RECIPE):
    """Run the recipe on a workspace whose one test contains `form`; return its output and exit status."""
    workspace = folder / "workspace"
    (workspace / "test").mkdir(parents=True, exist_ok=True)
    text = f"(ns shop-test\n  (:require [basilisp.test :refer [deftest is]]))\n\n(deftest adds\n  {form})\n"
    (workspace / "test" / "shop_test.lpy").write_text(text)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", recipe], cwd=workspace, capture_output=True, text=True, timeout=RECIPE_S, check=False,
        env={
            **environ(folder), "PATH": path, "CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(workspace),
        },
    )  # fmt: skip
    assert not (workspace / ".calva" / "mcp-server" / "port").exists(), "the server is still there"
    return done


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """Return a directory with a workspace whose test fails, and the output of the recipe."""
    folder = tmp_path_factory.mktemp("failed")
    return folder, job(folder, BAD)


def test_a_passing_job_is_quiet_and_succeeds(tmp_path):
    done = job(tmp_path, GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "::error" not in done.stdout
    assert "stopped pid" in done.stdout


def test_a_python_project_is_tested_in_its_own_environment(tmp_path):
    workspace = tmp_path / "workspace"
    venv.create(workspace / ".venv", symlinks=True)
    (packages,) = workspace.glob(".venv/lib/python*/site-packages")
    (packages / "pytest.pth").write_text(str(Path(pytest.__file__).parents[1]))
    (workspace / "test").mkdir()
    (workspace / "test" / "test_shop.py").write_text(ITS_OWN)
    done = job(tmp_path, GOOD, of_python(RECIPE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_a_failing_test_is_an_annotation_at_its_line_and_fails_the_job(failed):
    _, done = failed
    assert done.returncode == 1, done.stdout + done.stderr
    (annotation,) = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert re.match(r"::error file=test/shop_test\.lpy,line=[45]::shop-test/adds: .*the sum", annotation), annotation
    assert "stopped pid" in done.stdout


@pytest.mark.parametrize("language", ["python", "lisp"])
def test_a_file_that_fails_to_load_fails_the_job_and_leaves_no_server(tmp_path, language):
    if language == "python":
        (tmp_path / "workspace" / "test").mkdir(parents=True)
        (tmp_path / "workspace" / "test" / "test_shop.py").write_text("def test_(:\n")
        done, text = job(tmp_path, GOOD, of_python(RECIPE)), "SyntaxError"
    else:
        done, text = job(tmp_path, "(is"), "Unexpected EOF in list"
    assert done.returncode == 1
    assert text in done.stdout
    assert "stopped pid" in done.stdout


def test_the_xml_report_names_what_failed(failed):
    folder, _ = failed
    report = ET.parse(folder / "workspace" / "report.xml").getroot()
    assert (report.get("tests"), report.get("failures")) == ("1", "1")
    assert report.find("testsuite/testcase/failure").get("message").startswith("the sum: ")
