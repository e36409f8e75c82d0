"""`codriver test`: test runs for people and for CI, and reports that other programs read."""

import re
import shutil
import string
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as ET

import forked
import junitparser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linked_tree import git
from live_server import environ, serving, until_connected
from python_projects import project
from real_repls import repl

from codriver.commands import testing
from codriver.commands.followed_calls import FollowedTestRun, overlong_run_hint
from codriver.commands.junit import render_junit_xml
from codriver.commands.test_cases import CaseResult, read_test_cases
from codriver.commands.testing import format_annotation

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TESTS = """import os, sys, time, unittest
import pytest

def test_right():
    time.sleep(0.05)

@pytest.mark.parametrize("text", ["\\x1b]0;title\\x07"])
def test_wrong(text):
    print("::error file=passwd::injected")
    sys.stdout.write("  ##[add-mask]a\\n::set-env name=PATH::/tmp")
    assert text == 1, "two\\n::lines"

@pytest.mark.skip(reason="later, maybe")
def test_skipped(): pass

@pytest.mark.xfail(reason="known")
def test_known(): assert 0

class TestMore(unittest.TestCase):
    def test_broken(self):
        raise OSError("gone")

def test_without_assertion(): pass
"""


@cache
def schema():
    """Return the schema of Jenkins' xUnit plugin, by Gregory Boissinot, under the MIT License, whose text it contains.

    It is read by the process that runs these tests, and not by each that collects them.
    """
    import xmlschema  # noqa: PLC0415

    return xmlschema.XMLSchema(Path(__file__).parents[1] / "cases" / "junit-10.xsd")


def texts():
    return st.text(st.characters(codec=None, categories=None), max_size=20)


def cases():
    return st.builds(
        CaseResult, texts(), texts(), st.sampled_from(["pass", "skip", "fail", "error"]), texts(), texts(), texts(),
        st.none() | st.integers(1, 10**6), st.floats(0, 10**5),
    )  # fmt: skip


@given(st.lists(cases(), max_size=6), texts())
def test_an_xml_report_with_arbitrary_text_is_valid_and_has_the_same_counts(reported_cases, output):
    content = render_junit_xml(reported_cases, BEGAN, output).decode()
    schema().validate(content)
    read = junitparser.JUnitXml.fromstring(content.encode())
    results = [type(result).__name__ for suite in read for case in suite for result in case.result]
    for outcome, name in {"skip": "Skipped", "fail": "Failure", "error": "Error"}.items():
        assert results.count(name) == sum(case.outcome == outcome for case in reported_cases)
    assert sum(suite.tests for suite in read) == len(reported_cases)
    assert (read.failures, read.errors) == (results.count("Failure"), results.count("Error"))


@given(cases())
def test_an_annotation_with_arbitrary_text_is_one_complete_ci_command(case):
    line = format_annotation(case, Path("/ws"))
    assert line.startswith("::error ")
    assert not re.search(r"[\x00-\x08\x0a-\x1f\x7f]", line)
    properties, _, message = line.removeprefix("::error ").partition("::")
    assert set(re.findall(r"(?:^|,)([a-z]+)=", properties)) <= {"file", "line"}
    assert "%0A" in message or "\n" not in case.message


def test_an_annotation_path_is_relative_to_the_checkout(monkeypatch):
    case = CaseResult("shop", "adds", "fail", "50%: no", file="test/a,b.py", line=3)
    assert format_annotation(case, Path("/co/ws")) == "::error file=/co/ws/test/a%2Cb.py,line=3::shop/adds: 50%25: no"
    monkeypatch.setenv("GITHUB_WORKSPACE", "/co")
    assert format_annotation(case, Path("/co/ws")) == "::error file=ws/test/a%2Cb.py,line=3::shop/adds: 50%25: no"


def test_a_test_with_many_assertions_is_one_case_and_a_test_without_assertions_passes():
    row = {"ns": "shop", "test": "adds", "file": "/ws/test/shop.clj"}
    results = [
        {**row, "outcome": "error", "line": 5, "actual": "E: oops", "frames": ["a.clj:1 in f"]},
        {**row, "outcome": "fail", "line": 3, "message": "the sum", "expected": "4", "actual": "3"},
        {**row, "outcome": "pass"},
    ]
    answer = {"results": results, "times": [["shop", "bare", 0.5], ["shop", "adds", 1]]}
    bare, adds = read_test_cases(answer, Path("/ws"))
    assert (bare.name, bare.outcome, bare.seconds) == ("bare", "pass", 0.5)
    assert (adds.outcome, adds.file, adds.line, adds.seconds) == ("error", "test/shop.clj", 5, 1)
    assert adds.details == (
        "test/shop.clj:5\nE: oops\n  at a.clj:1 in f\n\ntest/shop.clj:3: the sum\nexpected: 4\n  actual: 3"
    )


@pytest.fixture(scope="module")
def live(tmp_path_factory):
    folder = tmp_path_factory.mktemp("testing")
    tests = project(folder, has_pytest=True) / "checks"
    tests.mkdir()
    (tests / "test_shop.py").write_text(TESTS)
    (tests / "test_fine.py").write_text("def test_fine(): pass")
    (tests / "test_slow.py").write_text("import time\ndef test_slow(): time.sleep(600)")
    (folder / "outside").mkdir()
    (tests.parent / "link").symlink_to(folder / "outside")
    with serving(folder, "--repl", "python") as running:
        yield running


@pytest.mark.parametrize(("lapse", "words"), [(False, "you have not accepted"), (True, "git now tracks .venv")])
def test_tests_in_an_untrusted_workspace_have_their_own_status_and_message(tmp_path, lapse, words):
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "test_fine.py").write_text("def test_fine(): pass")
    env = environ(tmp_path) | {"CODRIVER_MCP_SOCKET_SERVER_PORT": "0"}
    if lapse:
        git("init", str(workspace))
        (workspace / ".venv").mkdir()
        (workspace / ".venv" / "kept").touch()
        assert forked.run(("trust",), env=env, cwd=workspace).returncode == 0
        git("-C", str(workspace), "add", "--force", ".venv")
    try:
        done = forked.run(("test", "--start", "--junit", "report.xml"), env=env, cwd=workspace, timeout=120)
    finally:
        forked.run(("stop",), env=env, cwd=workspace)
    output = " ".join(done.stdout.split())
    assert done.returncode == 7, done
    assert words in output
    assert f"run `codriver trust --workspace {workspace}`" in output
    assert "ask your human" not in output
    assert "error" not in output.replace("no test ran", "")
    assert 'type="not-accepted"' in (workspace / "report.xml").read_text()


def summary(done):
    """Return the last line without the time."""
    return done.stdout.splitlines()[-1].partition(" in ")[0]


def obeyed(text):
    """Return the commands that GitHub's runner would obey in the output of a step."""
    stopped, commands = None, []
    for line in text.splitlines():
        is_command = line.lstrip().startswith("::") or "##[" in line
        if stopped:
            stopped = None if line.strip() == f"::{stopped}::" else stopped
        elif line.startswith("::stop-commands::"):
            stopped = line.removeprefix("::stop-commands::")
        elif is_command:
            commands.append(line)
    return commands


def test_failures_are_printed_with_locations_and_reported_as_xml(live):
    done = live.run("test", "--junit", str(live.workspace / "out" / "report.xml"), "checks/test_shop.py")
    assert done.returncode == 1, done.stderr
    assert "FAILED checks/test_shop.py::TestMore::test_broken - OSError: gone\n" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("6 tests: 2 passed, 2 failed, 2 skipped in ")
    report = live.workspace / "out" / "report.xml"
    schema().validate(str(report))
    (suite,) = junitparser.JUnitXml.fromfile(str(report))
    assert (suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) == ("pytest", 6, 2, 0, 2)
    found = {case.name: case for case in suite}
    assert found["test_right"].time >= 0.05
    assert {case.classname for case in suite} == {"checks.test_shop", "checks.test_shop.TestMore"}
    assert found["test_skipped"].result[0].message == "later, maybe"


UNITTESTS = """import unittest

class Shop(unittest.TestCase):
    def test_right(self): pass
    def test_wrong(self): self.assertEqual(1, 2)
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_unexpected(self): pass

class Closed(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("closed")
    def test_it(self): pass
"""


@pytest.fixture(scope="module")
def without_pytest(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unittest")
    (project(folder, has_pytest=False) / "test_shop.py").write_text(UNITTESTS)
    with serving(folder, "--repl", "none") as running:
        yield running


def test_the_report_about_tests_without_pytest_is_written_by_codriver(without_pytest):
    report = without_pytest.workspace / "report.xml"
    done = without_pytest.run("test", "--junit", str(report))
    assert done.returncode == 1, done.stdout
    assert "unrecognized arguments" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("5 tests: 1 passed, 2 failed, 1 error, 1 skipped in ")
    schema().validate(str(report))
    suites = {suite.name: suite for suite in junitparser.JUnitXml.fromfile(str(report))}
    assert set(suites) == {"test_shop.Shop", "test_shop.Closed"}
    found = {case.name: case for suite in suites.values() for case in suite}
    assert {name: [type(result).__name__ for result in case.result] for name, case in found.items()} == {
        "setUpClass": ["Error"],
        "test_right": [],
        "test_skipped": ["Skipped"],
        "test_unexpected": ["Failure"],
        "test_wrong": ["Failure"],
    }
    assert found["test_wrong"].classname == "test_shop.Shop"
    assert found["test_wrong"].result[0].message == "AssertionError: 1 != 2"
    assert found["test_unexpected"].result[0].message == "unexpected success"


@pytest.mark.parametrize("words", [("--junitxml=xml/own.xml",), ("--junit-xml", "xml/own.xml", "-v")])
def test_the_report_requested_with_pytests_option_is_written_without_pytest(without_pytest, words):
    folder = without_pytest.workspace / "xml"
    folder.mkdir()
    done = without_pytest.run("test", "--", *words)
    assert (done.returncode, "unrecognized arguments" in done.stdout) == (1, False), done.stdout
    assert {suite.name for suite in junitparser.JUnitXml.fromfile(str(folder / "own.xml"))} == {
        "test_shop.Shop",
        "test_shop.Closed",
    }
    shutil.rmtree(folder)


def test_pytest_writes_the_report_that_is_requested_with_its_own_option(live):
    done = live.run("test", "-C", "checks", "test_fine.py", "--", "--junitxml=own.xml")
    assert done.returncode == 0, done.stdout
    (suite,) = junitparser.JUnitXml.fromfile(str(live.workspace / "checks" / "own.xml"))
    assert (suite.name, suite.tests) == ("pytest", 1)


def test_only_unittest_tests_that_failed_in_the_last_run_are_rerun(without_pytest):
    assert without_pytest.run("test").returncode == 1
    done = without_pytest.run("test", "--failed")
    assert (done.returncode, summary(done)) == (1, "2 tests: 0 passed, 1 failed, 1 error")


def test_a_run_that_finds_no_tests_without_pytest_says_what_to_install(without_pytest):
    (without_pytest.workspace / "more").mkdir()
    (without_pytest.workspace / "more" / "test_it.py").write_text("def test_it(): pass")
    done = without_pytest.run("test", "--directory", "more")
    assert done.returncode == 5, done.stdout
    printed = " ".join(done.stdout.split())
    assert "unittest ran the tests, because pytest is not installed." in printed
    assert "-m pip install pytest" in printed


def test_output_cannot_issue_ci_commands_and_each_failure_is_an_annotation(live, monkeypatch):
    monkeypatch.setitem(live.environ, "GITHUB_ACTIONS", "true")
    monkeypatch.setitem(live.environ, "GITHUB_WORKSPACE", str(live.workspace))
    done = live.run("test", "checks/test_shop.py")
    assert "::error file=passwd::injected" in done.stdout
    assert not obeyed(done.stderr)
    wrong, broken = obeyed(done.stdout)
    assert wrong.startswith("::error file=checks/test_shop.py,line=11::checks/test_shop.py::test_wrong[")
    assert "AssertionError: two" in wrong
    named = "checks/test_shop.py::TestMore::test_broken: OSError: gone"
    assert broken == f"::error file=checks/test_shop.py,line=21::{named}"


def test_a_passing_run_succeeds_and_prints_nothing_with_the_quiet_option(live):
    done = live.run("test", "checks/test_fine.py", "checks/test_shop.py::test_right")
    assert (done.returncode, summary(done)) == (0, "2 tests: 2 passed, 0 failed")
    quiet = live.run("test", "-q", "checks/test_fine.py")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_only_tests_that_failed_in_the_last_run_are_rerun(live):
    assert live.run("test", "checks/test_shop.py").returncode == 1
    assert summary(live.run("test", "--failed")) == "2 tests: 0 passed, 2 failed"


def test_a_run_that_finds_no_tests_fails_and_reports_the_reason(live):
    report = live.workspace / "none.xml"
    done = live.run("test", "--match", "zork", "--junit", str(report), "checks")
    assert done.returncode == 5
    assert "all 8 tests were deselected" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("no tests found, in ")
    (suite,) = junitparser.JUnitXml.fromfile(str(report))
    assert (suite.tests, suite.errors) == (1, 1)
    assert [result.type for case in suite for result in case.result] == ["no-tests"]
    unknown = live.run("test", "no.such.module")
    assert (unknown.returncode, "no.such.module" in unknown.stdout) == (2, True)


def test_arguments_after_two_dashes_go_to_pytest(live):
    done = live.run("test", "checks/test_shop.py", "--", "-x", "--co", "-q")
    assert done.returncode == 0, done.stdout
    assert "checks/test_shop.py::TestMore::test_broken\n" in done.stdout
    done = live.run("test", "--", "-k", "right or wrong", "checks")
    assert (done.returncode, summary(done)) == (1, "2 tests: 1 passed, 1 failed")
    assert "-- PYTEST_ARGS" in live.run("test", "--help").stdout


def test_tests_run_in_the_given_directory(live):
    done = live.run("test", "-C", "checks", "test_fine.py")
    assert (done.returncode, summary(done)) == (0, "1 test: 1 passed, 0 failed")


def test_a_run_that_times_out_has_its_own_status_and_a_report(live):
    report = live.workspace / "slow.xml"
    done = live.run("test", "--timeout", "2", "--junit", str(report), "checks/test_fine.py", "checks/test_slow.py")
    assert done.returncode == 4, done.stdout
    fine, slow = junitparser.JUnitXml.fromfile(str(report))
    assert (fine.tests, fine.errors) == (1, 0)
    (stopped,) = slow
    assert (stopped.name, type(stopped.result[0]).__name__) == ("test_slow", "Error")
    assert "did not finish within 2 s" in stopped.result[0].message


@pytest.mark.parametrize(("timeout_s", "is_advised"), [(599.0, True), (600.0, False)])
def test_a_longer_timeout_is_only_advised_if_it_is_accepted(timeout_s, is_advised):
    assert ("--timeout" in overlong_run_hint(timeout_s)) == is_advised
    assert "run fewer tests" in overlong_run_hint(timeout_s)


def test_a_report_is_not_written_through_a_link_out_of_the_workspace(live):
    done = live.run("test", "--junit", str(live.workspace / "link" / "report.xml"), "checks/test_fine.py")
    assert done.returncode == 1
    assert "the path leads outside of" in done.stderr
    assert not list((live.folder / "outside").iterdir())
    assert live.run("test", "--junit", str(live.folder / "outside" / "r.xml"), "checks/test_fine.py").returncode == 0
    assert (live.folder / "outside" / "r.xml").exists()


def test_paths_are_relative_to_the_directory_in_which_the_command_runs(live):
    done = live.run("test", "./test_fine.py", cwd=live.workspace / "checks")
    assert (done.returncode, summary(done)) == (0, "1 test: 1 passed, 0 failed")


def test_a_server_that_disappears_during_a_run_is_an_error_in_the_report(tmp_path):
    with serving(tmp_path, "--repl", "python") as live:
        with live.client() as client:
            until_connected(client)
        (live.workspace / "test_end.py").write_text(f"import os\ndef test_end(): os.kill({live.process.pid}, 9)")
        done = live.run("test", "--junit", str(live.workspace / "r.xml"), "test_end")
        assert done.returncode == 1
        (suite,) = junitparser.JUnitXml.fromfile(str(live.workspace / "r.xml"))
        assert suite.errors == 1
        assert "the server closed the connection before it answered" in done.stdout


def test_unprintable_characters_in_names_are_escaped_in_xml():
    case = CaseResult(string.printable, "a", "pass")
    root = ET.fromstring(render_junit_xml([case], BEGAN))
    assert root[0].get("name") == string.printable.replace("\x0b", r"\u000b").replace("\x0c", r"\u000c")


class Scripted:
    """A connection whose `run_tests` gives these answers in turn, repeating the last, next to one connected REPL."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    def call(self, tool, _arguments):
        if tool == "server_health":
            return {"repls": [{"key": "lpy", "phase": "connected"}]}
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


REFUSED = {"ok": False, "reason": "no-repl", "message": "no REPL is connected"}


def test_a_refused_run_is_retried_if_a_repl_appeared():
    connection = Scripted(REFUSED, {"ok": True, "passed": 1})
    assert testing._await_answer(FollowedTestRun(connection, 60, is_quiet=True), {}, Path("/ws"))["ok"]


def test_a_refused_run_fails_if_nothing_changed():
    connection = Scripted(REFUSED)
    assert testing._await_answer(FollowedTestRun(connection, 60, is_quiet=True), {}, Path("/ws")) == REFUSED
    assert connection.asked == 2


def test_a_test_that_ends_the_whole_run_is_reported_as_an_error(tmp_path):
    answer = {
        "ok": False,
        "reason": "interrupted",
        "passed": 0,
        "results": [],
        "stoppedIn": {"test": "test_a.py::test_a"},
    }
    (case,) = testing._read_cases(answer, "", tmp_path)
    assert (case.name, case.outcome, case.message) == ("test_a", "error", "the tests were interrupted")


def test_a_disabled_test_run_is_not_counted_as_a_test(tmp_path):
    answer = {"ok": False, "reason": "switched-off", "message": "run_tests is switched off on this machine by /p"}
    (case,) = testing._read_cases(answer, "tests", tmp_path)
    assert (case.kind, case.message) == ("switched-off", answer["message"])
    assert testing._summary([case], 1.0) == "no test ran, in 1.0 s"


LISP_TESTS = """(ns mixed.core-test (:require [basilisp.test :refer [deftest is]]))

(deftest adds (is (= 2 (+ 1 1))))
"""


def test_tests_in_other_languages_that_did_not_run_are_named(tmp_path):
    workspace = project(tmp_path, has_pytest=True)
    with serving(tmp_path, "--nrepl", f"x={repl('lisp').endpoint}") as live, live.client() as client:
        until_connected(client)
        tests = workspace / "test" / "mixed" / "core_test.lpy"
        tests.parent.mkdir(parents=True)
        tests.write_text(LISP_TESTS)
        assert client.call("load_file", filePath=str(tests))["ok"]
        done = live.run("test")  # other test modules may have loaded tests into this REPL
        assert (done.returncode, summary(done).endswith(" passed, 0 failed")) == (0, True), done.stdout
        assert "Only" not in done.stdout
        for place, command in (("test/test_shop.py", "test/test_shop.py"), ("checks/test_shop.py", "checks")):
            (workspace / "test" / "test_shop.py").unlink(missing_ok=True)
            (workspace / place).parent.mkdir(exist_ok=True)
            (workspace / place).write_text("def test_it():\n    pass\n")
            last = live.run("test").stdout.splitlines()[-1]
            assert last == f"Only the tests of x ran. To run the Python tests: codriver test {command}"
            done = live.run("test", command)
            assert (done.returncode, summary(done)) == (0, "1 test: 1 passed, 0 failed"), done.stdout
            assert "Only" not in done.stdout
