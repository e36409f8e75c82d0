"""The README's CI recipe, run as a job would run it."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from live_server import environ

README = Path(__file__).parents[2] / "README.md"
RECIPE_S = 300
GOOD = "(is (= 3 (reduce + [1 2])))"
BAD = '(is (= 4 (reduce + [1 2]))\n      "the sum")'


@pytest.fixture
def job(tmp_path):
    """Runs the recipe on a workspace whose one test says `form`; what it printed, and its status."""
    recipe = re.search(r"<!-- ci-recipe -->\n```sh\n(.*?)```", README.read_text(), re.DOTALL)[1]
    workspace = tmp_path / "workspace"
    (workspace / "test").mkdir(parents=True)

    def job(form):
        text = f"(ns shop-test\n  (:require [basilisp.test :refer [deftest is]]))\n\n(deftest adds\n  {form})\n"
        (workspace / "test" / "shop_test.lpy").write_text(text)
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        return subprocess.run(
            ["bash", "-c", recipe], cwd=workspace, capture_output=True, text=True, timeout=RECIPE_S, check=False,
            env={
                **environ(tmp_path), "PATH": path, "CODRIVER_MCP_SOCKET_SERVER_PORT": "0", "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(workspace),
            },
        )  # fmt: skip

    yield job
    assert not (workspace / ".calva" / "mcp-server" / "port").exists(), "the server is still there"


def test_a_job_whose_tests_pass_is_quiet_and_ends_well(job):
    done = job(GOOD)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "::error" not in done.stdout
    assert "stopped pid" in done.stdout


def test_a_failing_test_is_an_annotation_at_its_line_and_fails_the_job(job):
    done = job(BAD)
    assert done.returncode == 1, done.stdout + done.stderr
    (annotation,) = [line for line in done.stdout.splitlines() if line.startswith("::error")]
    assert re.match(r"::error file=test/shop_test\.lpy,line=[45]::shop-test/adds: .*the sum", annotation), annotation
    assert "stopped pid" in done.stdout


def test_a_file_that_does_not_load_fails_the_job_and_leaves_no_server(job):
    done = job("(is")
    assert done.returncode == 1
    assert "Unexpected EOF in list" in done.stdout
    assert "stopped pid" in done.stdout


def test_the_report_is_xml_that_names_what_failed(job, tmp_path):
    job(BAD)
    report = ET.parse(tmp_path / "workspace" / "report.xml").getroot()
    assert (report.get("tests"), report.get("failures")) == ("1", "1")
    assert report.find("testsuite/testcase/failure").get("message").startswith("the sum: ")
