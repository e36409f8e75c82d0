"""`codriver test`: run the tests of a project, for people and for CI, and write the results as JUnit XML.

Python tests are run by pytest, which receives all arguments after `--`, prints its own report and writes the XML. Tests
in other languages run in their REPL.

Exit status: 0 all passed, 1 a test failed or could not be collected, 2 wrong usage, 5 there are no tests; others as for
`codriver eval`. Everything is written to standard output, because CI servers interpret commands on both streams. Under
GitHub Actions, these commands are disabled while the tests' output is printed.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from codriver.commands.call import (
    EXIT_STATUS_HELP,
    NO_REPL,
    NO_TESTS,
    NOT_ACCEPTED,
    REPL_DEPENDENT_REASONS,
    STARTING_PHASES,
    connect_to_server,
    describe_starting_repls,
    exit_status,
    explain_missing_repl,
    explain_missing_result,
    list_repls,
    session_option,
    start_option,
)
from codriver.commands.followed_calls import MAX_TEST_RUN_S, FollowedTestRun
from codriver.commands.junit import render_junit_xml
from codriver.commands.options import Number, color_option, quiet_option, workspace_option
from codriver.commands.terminal import Styled, convert_field_errors, echo, waiting_line, write_file
from codriver.commands.test_cases import WHOLE_RUN_NAME, CaseResult, is_python_run, read_test_cases, stopped_case
from codriver.errors import CodriverError, format_count
from codriver.files import FileRules, Links, read
from codriver.log.control_characters import escape_controls, escape_to_one_line
from codriver.systems.programs import quote_command_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


MAX_XML_BYTES = 256 * 2**20
"""Maximum size of a report in bytes. A report has about 200 bytes per test, plus the output of failed tests."""
POLL_INTERVAL_S = 0.1
"""Interval at which the server is asked whether a REPL has started."""
INTERRUPTED_MESSAGE = "the tests were interrupted"
"""Message about a run that ended before its last test without any other message."""
MAX_ANNOTATIONS = 50
"""Maximum number of annotations in a job, which is also GitHub's limit."""
JUNIT_OPTIONS = ("--junitxml", "--junit-xml")
"""pytest's option that writes a JUnit XML report."""
SIGNS_BY_OUTCOME = {"fail": Styled("FAIL", fg="red", bold=True), "error": Styled("ERROR", fg="red", bold=True)}


class TestCommand(click.Command):
    """A command that passes the arguments after `--` to another program."""

    __test__ = False  # keeps pytest from collecting it

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments before `--`, and store the others in the context."""
        command_arguments = args[: args.index("--")] if "--" in args else args
        ctx.meta[PYTEST_ARGUMENTS_KEY] = tuple(args[len(command_arguments) + 1 :])
        return super().parse_args(ctx, list(command_arguments))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Add the arguments after `--` to the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- PYTEST_ARGS]"]


PYTEST_ARGUMENTS_KEY = "codriver.pytest"
"""The key in a command's context under which the arguments after `--` are stored."""


@click.command("test", cls=TestCommand, short_help="Run tests, locally or in CI.", epilog=EXIT_STATUS_HELP)
@click.argument("namespaces", nargs=-1, metavar="[PATH]...")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a JUnit XML report to this file.",
)
@click.option("--match", "-k", metavar="WORDS", help="Run only tests whose names match, as with pytest's -k.")
@click.option("--failed", is_flag=True, help="Run only tests that failed in the last run.")
@click.option("--directory", "-C", metavar="DIR", help="Run the tests in DIR, as in `cd DIR && pytest`.")
@click.option("--fresh", is_flag=True, help="Run the tests in a new process, which has not imported anything yet.")
@session_option
@click.option(
    "--timeout",
    type=Number(1, MAX_TEST_RUN_S),
    default=float(MAX_TEST_RUN_S),
    metavar="SECONDS",
    help="How long the tests may take before they are interrupted, "
    f"from 1 to {MAX_TEST_RUN_S} (default: {MAX_TEST_RUN_S}).",
)
@start_option
@workspace_option
@color_option
@quiet_option("Print only failures.")
def test_command(  # noqa: PLR0913  # one argument an option
    *,
    namespaces: tuple[str, ...],
    junit: Path | None,
    match: str | None,
    failed: bool,
    directory: str | None,
    fresh: bool,
    session: str | None,
    timeout: float,
    start: bool,
    workspace: Path,
    is_quiet: bool,
) -> None:
    """Run the given tests, or all that are found, and print which failed and where.

    A PATH is a file, a directory, the id of a Python test, or a Lisp namespace. Python tests are run by pytest in the
    project's environment, and pytest receives all arguments after --. Lisp tests run in their REPL. If GITHUB_ACTIONS
    is set, each failure also becomes an annotation.
    """
    root, started_at = workspace.resolve(), datetime.now(UTC)
    others, junit_name = _split_junit_option(click.get_current_context().meta[PYTEST_ARGUMENTS_KEY])
    temporary_directory = TemporaryDirectory(prefix="codriver-junit-")
    with connect_to_server(root, start=start) as connection, _without_workflow_commands(), temporary_directory as path:
        report_file = Path(path) / "report.xml"
        given = {
            "paths": [_workspace_relative(name, root) for name in namespaces], "args": others, "match": match,
            "failed": failed, "directory": directory, "fresh": fresh, "replSessionKey": session,
            "junit": str(report_file) if junit is not None else junit_name,
        }  # fmt: skip
        running = FollowedTestRun(connection, timeout, is_quiet)
        with waiting_line(lambda: describe_starting_repls(root) or running.progress_text()):
            answer = _await_answer(running, {key: value for key, value in given.items() if value}, root)
        with convert_field_errors("run_tests"):
            cases = _read_cases(answer, namespaces[0] if namespaces else "tests", root)
            output = str(answer.get("stdout", ""))
        _print_rest(output, running)
        if is_quiet or not _has_reported(answer, output):
            _print_failures(cases)
        if junit is not None:
            write_file(junit, _junit_report(answer, cases, started_at, report_file), root)
        elif junit_name and not _is_pytest_run(answer):
            written = render_junit_xml(cases, started_at, output)
            write_file(root / (directory or "") / junit_name, written, root)
        is_of_all = not (namespaces or others or match or failed or directory or session)
        rest = _describe_other_tests(answer, list_repls(connection), root) if is_of_all and cases else ""
    _annotate(cases, root)
    if not is_quiet:
        echo(_summary(cases, (datetime.now(UTC) - started_at).total_seconds()))
    if rest:
        echo(rest)
    sys.exit(_exit_status(answer))


def _describe_other_tests(answer: Mapping[str, Any], repls: Iterable[Mapping[str, Any]], workspace: Path) -> str:
    """Return a line about tests in other languages than those that ran, or an empty string if there are none."""
    from codriver.repls.nrepl.test_runner import find_test_namespaces  # noqa: PLC0415  # only needed here
    from codriver.testing.test_paths import find_python_test_file  # noqa: PLC0415  # as above

    connected = [row for row in repls if row["phase"] == "connected"]
    if is_python_run(answer):
        for row in connected:
            if row.get("dialect") != "python" and find_test_namespaces(workspace, str(row.get("dialect"))):
                return f"Only the Python tests ran. To run those of {row['key']}: codriver test --session {row['key']}"
        return ""
    file = find_python_test_file(workspace)
    if file is None:
        return ""
    relative = file.relative_to(workspace)
    directory = relative.parts[0]
    if any(find_test_namespaces(workspace, str(row.get("dialect")), directory) for row in connected):
        directory = relative.as_posix()
    ran = answer.get("sessionKey", "the REPL")
    command = quote_command_line(["codriver", "test", directory])
    return f"Only the tests of {ran} ran. To run the Python tests: {command}"


def _split_junit_option(arguments: Iterable[str]) -> tuple[list[str], str | None]:
    """Separate the file of pytest's option for a JUnit XML report from pytest's other arguments.

    Other programs that run tests do not have this option.
    """
    others: list[str] = []
    name: str | None = None
    remaining = iter(arguments)
    for argument in remaining:
        option, equals, value = argument.partition("=")
        if option in JUNIT_OPTIONS:
            name = value if equals else next(remaining, None)
        else:
            others.append(argument)
    return others, name


def _is_pytest_run(answer: Mapping[str, Any]) -> bool:
    """Return whether pytest ran the tests."""
    return is_python_run(answer) and "runner" not in answer


def _has_reported(answer: Mapping[str, Any], output: str) -> bool:
    """Return whether pytest has already printed the failures."""
    return is_python_run(answer) and bool(output) and (answer.get("ok") or answer.get("reason") == "tests-failed")


def _junit_report(
    answer: Mapping[str, Any], cases: Sequence[CaseResult], started_at: datetime, report_file: Path
) -> bytes:
    """Return the JUnit XML report. It is pytest's own if that exists and is complete, or else rendered from `cases`."""
    if _has_reported(answer, " ") and report_file.exists():
        return read(report_file, FileRules(Links.OF_USER, MAX_XML_BYTES))
    return render_junit_xml(cases, started_at, str(answer.get("stdout", "")))


def _print_rest(output: str, running: FollowedTestRun) -> None:
    """Print output from the tests that was not printed while they ran."""
    rest = "" if running.is_quiet else output[running.printed_characters :]
    echo(rest, end="" if rest.endswith("\n") or not rest else "\n")


def _workspace_relative(name: str, workspace: Path) -> str:
    """Make the path of a file relative to the workspace. Namespaces are returned unchanged."""
    path, separator, test = name.partition("::")
    file = Path.cwd() / path
    if not ("/" in path or file.is_file()) or not file.exists() or not file.is_relative_to(workspace):
        return name
    return file.relative_to(workspace).as_posix() + separator + test


def _await_answer(running: FollowedTestRun, arguments: dict[str, Any], workspace: Path) -> dict[str, Any]:
    """Run the tests and return the answer, or an answer with the error if the server is gone.

    Waits for REPLs that are starting.
    """
    deadline = time.monotonic() + running.timeout_s
    connection = running.connection
    seen: list[dict[str, Any]] = []
    try:
        while True:
            answer = running.await_answer(arguments)
            if answer.get("reason") not in REPL_DEPENDENT_REASONS:
                return answer
            # A REPL may have connected since the answer, so try once more.
            seen, repls = list_repls(connection), seen
            is_as_before = [(row["key"], row["phase"]) for row in seen] == [(r["key"], r["phase"]) for r in repls]
            if time.monotonic() > deadline or (is_as_before and not _is_any_starting(seen)):
                break
            while _is_any_starting(seen) and list_repls(connection) == seen and time.monotonic() < deadline:
                time.sleep(POLL_INTERVAL_S)
    except CodriverError as error:
        return {"ok": False, "message": str(error)}
    return explain_missing_repl(answer, seen, workspace)


def _is_any_starting(repls: Iterable[Mapping[str, Any]]) -> bool:
    return any(row["phase"] in STARTING_PHASES for row in repls)


def _read_cases(answer: dict[str, Any], namespace: str, workspace: Path) -> list[CaseResult]:
    """Return the test cases of an answer, with an additional one if the run failed or is incomplete."""
    cases = read_test_cases(answer, workspace)
    if answer.get("ok") or answer.get("reason") == "tests-failed":
        return cases
    if answer.get("stoppedIn"):
        # There is no message if a test ended the run itself, as `pytest.exit` does.
        stopped_in = stopped_case(answer, answer.get("message", INTERRUPTED_MESSAGE), workspace)
        return [*(case for case in cases if case.title != stopped_in.title), stopped_in]
    why, *rest = list(explain_missing_result(answer)) or [INTERRUPTED_MESSAGE]
    kind = {NO_TESTS: "no-tests", NO_REPL: "no-repl", NOT_ACCEPTED: "not-accepted"}.get(_exit_status(answer), "")
    kind = "switched-off" if answer.get("reason") == "switched-off" else kind
    return [*cases, CaseResult(namespace, WHOLE_RUN_NAME, "error", why, "\n".join([why, *rest]), kind=kind)]


def _exit_status(answer: dict[str, Any]) -> int:
    """Return the exit status for an answer. A namespace that does not exist counts as no tests."""
    return NO_TESTS if answer.get("reason") == "unknown-namespace" else exit_status(answer)


def _print_failures(cases: Sequence[CaseResult]) -> None:
    """Print the failed tests, or the reason why the run did not start."""
    for case in cases:
        if case.outcome not in SIGNS_BY_OUTCOME:
            continue
        if not case.kind:
            echo(SIGNS_BY_OUTCOME[case.outcome], f" {escape_to_one_line(case.title)}")
        for line in (case.details or case.message).splitlines():
            echo(line if case.kind else f"  {line}", hang=2 if case.kind else None)


def _annotate(cases: Sequence[CaseResult], workspace: Path) -> None:
    """Print an annotation for each failure if the command runs in GitHub Actions."""
    wrong = [case for case in cases if case.outcome in SIGNS_BY_OUTCOME]
    for case in wrong[:MAX_ANNOTATIONS] if os.environ.get("GITHUB_ACTIONS") else ():
        echo(format_annotation(case, workspace))


@contextmanager
def _without_workflow_commands() -> Iterator[None]:
    """Keep GitHub Actions from interpreting the tests' output while the context is active.

    The token that re-enables commands is random, so that no test can print it. Source: GitHub's workflow commands,
    `stop-commands`.
    """
    if not os.environ.get("GITHUB_ACTIONS"):
        yield
        return
    import secrets  # noqa: PLC0415  # only needed there

    word = secrets.token_hex(16)
    echo(f"::stop-commands::{word}")
    try:
        yield
    finally:
        echo(f"::{word}::")


def format_annotation(case: CaseResult, workspace: Path) -> str:
    """Format a failure as a GitHub workflow command that displays it at its line.

    The path is relative to the root of the checkout, `GITHUB_WORKSPACE`. Source: GitHub's workflow commands, `error`.
    """
    file = workspace / case.file
    root = os.environ.get("GITHUB_WORKSPACE", "")
    displayed_path = file.relative_to(root).as_posix() if root and file.is_relative_to(root) else str(file)
    properties = [f"file={_escape(displayed_path, is_property=True)}"] if case.file else []
    properties += [f"line={case.line}"] if case.file and case.line else []
    return f"::error {','.join(properties)}::{_escape(f'{case.title}: {case.message}')}"


def _escape(text: str, *, is_property: bool = False) -> str:
    """Escape text for a workflow command."""
    for character, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"), *((":", "%3A"), (",", "%2C")) * is_property):
        text = text.replace(character, code)
    return escape_controls(text)


def _summary(cases: Sequence[CaseResult], seconds: float) -> str:
    outcomes = [case.outcome for case in cases if not case.kind]
    if not outcomes:
        conclusion = "no tests found" if any(case.kind == "no-tests" for case in cases) else "no test ran"
        return f"{conclusion}, in {seconds:.1f} s"
    errors = outcomes.count("error")
    counts = [f"{outcomes.count('pass')} passed", f"{outcomes.count('fail')} failed"]
    counts += [format_count(errors, "error")] if errors else []
    counts += [f"{outcomes.count('skip')} skipped"] if "skip" in outcomes else []
    return f"{format_count(len(outcomes), 'test')}: {', '.join(counts)} in {seconds:.1f} s"
