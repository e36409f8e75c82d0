"""`codriver test`: run the tests of a project, for people and for CI, and write the results as JUnit XML.

Python tests are run by pytest, which receives all arguments after `--`, prints its own report and writes the XML. Tests
in other languages run in their REPL.

Exit status: 0 all passed, 1 a test failed or could not be collected, 2 wrong usage, 5 there are no tests; others as for
`codriver eval`. Everything is written to standard output, because CI servers interpret commands on both streams. Under
GitHub Actions, that is disabled while the tests' output is printed.

Source of the XML format: the schema of Jenkins' xUnit plugin, `junit-10.xsd`, which pytest's own reports also follow.
It has no attributes for a test's file and line, so the text of a failure starts with them, where readers look for them.
A suite has its file.
"""

from __future__ import annotations

import os
import re
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

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
from codriver.commands.followed_calls import FollowedTestRun
from codriver.commands.options import Number, color_option, quiet_option, workspace_option
from codriver.commands.terminal import Styled, convert_field_errors, echo, waiting_line, write_file
from codriver.errors import CodriverError
from codriver.files import FileRules, Links, read
from codriver.log.control_characters import escape_controls, escape_to_one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from xml.etree import ElementTree as ET


Outcome = Literal["pass", "skip", "fail", "error"]
ELEMENTS_BY_OUTCOME = {"skip": "skipped", "fail": "failure", "error": "error"}
"""The XML element for each outcome."""
WHOLE_RUN_NAME = "(run)"
"""The name of the test case that represents a run without results, or with incomplete results."""
XML_FORBIDDEN_PATTERN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Matches characters that XML 1.0 cannot contain, escaped or not. Source: production 2, `Char`."""
MAX_XML_BYTES = 256 * 2**20
"""Maximum size of a report in bytes. Each test takes about 200 bytes plus the output of failed ones."""
POLL_INTERVAL_S = 0.1
"""Interval at which the server is queried for whether a REPL has started."""
MAX_ANNOTATIONS = 50
"""Maximum number of annotations in a job, which is also GitHub's limit."""
SIGNS_BY_OUTCOME = {"fail": Styled("FAIL", fg="red", bold=True), "error": Styled("ERROR", fg="red", bold=True)}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A test case and its result."""

    namespace: str
    name: str
    outcome: Outcome
    message: str = ""
    """The failure's message, usually one line."""
    details: str = ""
    """The text of all failed results, each starting with its location."""
    file: str = ""
    """The file's path, relative if it is in the workspace. Empty if unknown."""
    line: int | None = None
    seconds: float = 0.0
    kind: str = ""
    """Why the run could not start, such as `no-tests` or `no-repl`. Empty for a test."""
    joint: str = "/"
    """The separator between namespace and name: `::` for a Python test."""

    @property
    def title(self) -> str:
        """Return the full name of the test."""
        return f"{self.namespace}{self.joint}{self.name}" if self.name else self.namespace


def read_test_cases(answer: Mapping[str, Any], workspace: Path) -> list[CaseResult]:
    """Return the test cases in an answer of `run_tests`, in the order in which they finished.

    A test with several assertions is one case, which failed if any of them did. A test without assertions passed.
    """
    if is_python_run(answer):
        return [_case_of_pytest(row) for row in answer.get("results", ())]
    seconds = {(namespace, test): float(duration) for namespace, test, duration in answer.get("times", ())}
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {named: [] for named in seconds}
    for row in answer.get("results", ()):
        rows.setdefault((row["ns"], row["test"]), []).append(row)
    return [
        replace(_case(named, of_test, workspace), seconds=seconds.get(named, 0.0)) for named, of_test in rows.items()
    ]


def is_python_run(answer: Mapping[str, Any]) -> bool:
    """Return whether the answer is about Python tests."""
    return "exitStatus" in answer


SHORT_OUTCOMES: Mapping[str, Outcome] = {"passed": "pass", "xpassed": "pass", "skipped": "skip", "xfailed": "skip",
                                   "failed": "fail", "error": "error"}  # fmt: skip


def _case_of_pytest(row: Mapping[str, Any]) -> CaseResult:
    file, _, name = str(row["test"]).partition("::")
    outcome = SHORT_OUTCOMES[row["outcome"]]
    message = row.get("message", "") if outcome in ("fail", "error") else row.get("reason", "")
    return CaseResult(
        file, name, outcome, str(message).partition("\n")[0], str(row.get("text", "")), str(row.get("file", file)),
        row.get("line"), float(row.get("seconds", 0)), joint="::",
    )  # fmt: skip


def stopped_case(row: Mapping[str, Any], message: str, workspace: Path) -> CaseResult:
    """Return the test case during which a run was stopped, with the reason as its message."""
    if "ns" not in row:
        return replace(
            _case_of_pytest({"test": WHOLE_RUN_NAME, **row, "outcome": "error"}), message=message, details=message
        )
    return replace(_case((row["ns"], row["test"]), [{**row, "outcome": "error"}], workspace), message=message)


def _case(named: tuple[str, str], rows: Sequence[Mapping[str, Any]], workspace: Path) -> CaseResult:
    wrong = [row for row in rows if row["outcome"] != "pass"]
    skipped = [row for row in rows if row.get("skipped")]
    first_row = (wrong or skipped or rows or [{}])[0]
    outcome: Outcome = "pass"
    if wrong:
        outcome = "error" if any(row["outcome"] == "error" for row in wrong) else "fail"
    elif skipped:
        outcome = "skip"
    return CaseResult(
        *named,
        outcome,
        message=_message(first_row) if outcome != "pass" else "",
        details="\n\n".join(_details(row, workspace) for row in wrong),
        file=_display_path(first_row.get("file"), workspace),
        line=first_row.get("line"),
    )


def _message(row: Mapping[str, Any]) -> str:
    if row.get("skipped"):
        return str(row.get("message", "")).removeprefix("skipped: ")
    first = str(row.get("actual", "")).partition("\n")[0]
    against = f"expected {row['expected']}, got {first}" if _has_comparison(row) else first
    return ": ".join(part for part in (str(row.get("message", "")).removesuffix("."), against) if part)


def _has_comparison(row: Mapping[str, Any]) -> bool:
    """Return whether to print the expected and the actual value, which is not useful for errors."""
    return row["outcome"] == "fail" and bool(row.get("expected")) and row.get("actual") is not None


def _details(row: Mapping[str, Any], workspace: Path) -> str:
    """Return everything known about a result as text."""
    file, line = _display_path(row.get("file"), workspace), row.get("line")
    location = f"{file}:{line}" if file and line else file
    head = ": ".join(str(part) for part in (location, row.get("message")) if part)
    actual = str(row.get("actual") or "")
    against = [f"expected: {row['expected']}", f"  actual: {actual}"] if _has_comparison(row) else [actual]
    return "\n".join(
        [*(text for text in (head, *against) if text), *(f"  at {frame}" for frame in row.get("frames", ()))]
    )


def _display_path(file: object, workspace: Path) -> str:
    path = Path(str(file)) if file else None
    if path is None or not path.is_relative_to(workspace):
        return str(file or "")
    return path.relative_to(workspace).as_posix()


def render_junit_xml(cases: Iterable[CaseResult], started_at: datetime, output: str = "") -> bytes:
    """Return a JUnit report as XML with one suite per namespace.

    `output` is only included if there is a single suite.
    """
    from xml.etree import ElementTree as ET  # noqa: PLC0415  # only needed for a report

    suites = [(name, list(of)) for name, of in groupby(sorted(cases, key=_namespace), key=_namespace)]
    root = ET.Element("testsuites", {"name": "codriver test", **_counts([case for _, of in suites for case in of])})
    for name, of in suites:
        files = {case.file for case in of if case.file}
        about = {"name": _escape_for_xml(name), **_counts(of), "skipped": _count(of, "skip")}
        about |= {"file": _escape_for_xml(files.pop())} if len(files) == 1 else {}
        suite = ET.SubElement(root, "testsuite", {**about, "timestamp": started_at.isoformat(timespec="seconds")})
        suite.extend(map(_element, of))
        if output and len(suites) == 1:
            ET.SubElement(suite, "system-out").text = _escape_for_xml(output)
    ET.indent(root)
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode").encode() + b"\n"


def _namespace(case: CaseResult) -> str:
    return case.namespace


def _counts(cases: Sequence[CaseResult]) -> dict[str, str]:
    seconds = f"{sum(case.seconds for case in cases):.3f}"
    failures, errors = _count(cases, "fail"), _count(cases, "error")
    return {"tests": str(len(cases)), "failures": failures, "errors": errors, "time": seconds}


def _count(cases: Sequence[CaseResult], outcome: Outcome) -> str:
    return str(sum(case.outcome == outcome for case in cases))


def _element(case: CaseResult) -> ET.Element:
    """Return the XML element of a test case. Its class name is its namespace with dots instead of slashes."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415  # as above

    home = case.namespace.removesuffix(".py").replace("/", ".") if case.namespace.endswith(".py") else case.namespace
    named = {"classname": _escape_for_xml(home), "name": _escape_for_xml(case.name), "time": f"{case.seconds:.3f}"}
    element = ET.Element("testcase", named)
    if tag := ELEMENTS_BY_OUTCOME.get(case.outcome):
        kind = {"type": case.kind} if case.kind else {}
        ET.SubElement(element, tag, {"message": _escape_for_xml(case.message), **kind}).text = (
            _escape_for_xml(case.details) or None
        )
    return element


def _escape_for_xml(text: str) -> str:
    """Escape characters that XML cannot contain, as in source code."""
    return XML_FORBIDDEN_PATTERN.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\r\n", "\n"))


class TestCommand(click.Command):
    """A command that passes its arguments after `--` to another program."""

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
"""The key of a command's context under which the arguments after `--` are stored."""


@click.command("test", cls=TestCommand, short_help="Run tests, also in CI.", epilog=EXIT_STATUS_HELP)
@click.argument("namespaces", nargs=-1, metavar="[PATH]...")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a JUnit XML report to this file.",
)
@click.option("--match", "-k", metavar="WORDS", help="Only tests whose names match, as for pytest's -k.")
@click.option("--failed", is_flag=True, help="Only tests that failed in the last run.")
@click.option("--directory", "-C", metavar="DIR", help="Where to run the tests, as in cd DIR && pytest.")
@click.option("--fresh", is_flag=True, help="Run in a new process, in which nothing has been imported.")
@session_option
@click.option(
    "--timeout",
    type=Number(1, 600),
    default=600.0,
    metavar="SECONDS",
    help="How long the tests may take before they are interrupted, 1 to 600 (600).",
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

    A PATH is a file, a directory or the id of a Python test, or a namespace of a Lisp. Python tests are run by pytest
    in the project's environment, which receives everything after --. Others run in their REPL. If GITHUB_ACTIONS is
    set, each failure also becomes an annotation.
    """
    root, started_at = workspace.resolve(), datetime.now(UTC)
    others = click.get_current_context().meta[PYTEST_ARGUMENTS_KEY]
    temporary_directory = TemporaryDirectory(prefix="codriver-junit-")
    with connect_to_server(root, start=start) as connection, _without_workflow_commands(), temporary_directory as path:
        report_file = Path(path) / "report.xml"
        given = {
            "paths": [_workspace_relative(name, root) for name in namespaces], "args": list(others), "match": match,
            "failed": failed, "directory": directory, "fresh": fresh, "replSessionKey": session,
            "junit": str(report_file) if junit is not None else None,
        }  # fmt: skip
        running = FollowedTestRun(connection, timeout, is_quiet)
        with waiting_line(lambda: describe_starting_repls(root) or running.words()):
            answer = _answer(running, {key: value for key, value in given.items() if value}, root)
        with convert_field_errors("run_tests"):
            cases = _cases(answer, namespaces[0] if namespaces else "tests", root)
            output = str(answer.get("stdout", ""))
        _print_rest(output, running)
        if is_quiet or not _has_reported(answer, output):
            _print(cases)
        if junit is not None:
            write_file(junit, _report(answer, cases, started_at, report_file), root)
    _annotate(cases, root)
    if not is_quiet:
        echo(_summary(cases, (datetime.now(UTC) - started_at).total_seconds()))
    sys.exit(_status(answer))


def _has_reported(answer: Mapping[str, Any], output: str) -> bool:
    """Return whether pytest has already printed the failures."""
    return is_python_run(answer) and bool(output) and (answer.get("ok") or answer.get("reason") == "tests-failed")


def _report(answer: Mapping[str, Any], cases: Sequence[CaseResult], started_at: datetime, report_file: Path) -> bytes:
    """Return the JUnit XML: pytest's own report if it is complete, or else one rendered from `cases`."""
    if _has_reported(answer, " ") and report_file.exists():
        return read(report_file, FileRules(Links.OF_USER, MAX_XML_BYTES))
    return render_junit_xml(cases, started_at, str(answer.get("stdout", "")))


def _print_rest(output: str, running: FollowedTestRun) -> None:
    """Print output of the tests that has not been printed yet."""
    rest = "" if running.is_quiet else output[running.printed_characters :]
    echo(rest, end="" if rest.endswith("\n") or not rest else "\n")


def _workspace_relative(name: str, workspace: Path) -> str:
    """Make a file's path relative to the workspace. Namespaces are returned unchanged."""
    path, separator, test = name.partition("::")
    file = Path.cwd() / path
    if not ("/" in path or file.is_file()) or not file.exists() or not file.is_relative_to(workspace):
        return name
    return file.relative_to(workspace).as_posix() + separator + test


def _answer(running: FollowedTestRun, arguments: dict[str, Any], workspace: Path) -> dict[str, Any]:
    """Return the answer of `run_tests`, or one with the error if the server is gone.

    Waits for REPLs that are starting.
    """
    deadline = time.monotonic() + running.timeout_s
    connection = running.connection
    seen: list[dict[str, Any]] = []
    try:
        while True:
            answer = running.answer(arguments)
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


def _cases(answer: dict[str, Any], namespace: str, workspace: Path) -> list[CaseResult]:
    """Return the test cases of an answer, with an additional one if the run failed or is incomplete."""
    cases = read_test_cases(answer, workspace)
    if answer.get("ok") or answer.get("reason") == "tests-failed":
        return cases
    if stopped := answer.get("stoppedIn"):
        stopped_in = stopped_case(stopped, answer["message"], workspace)
        return [*(case for case in cases if case.title != stopped_in.title), stopped_in]
    why, *rest = list(explain_missing_result(answer)) or ["the tests were interrupted"]
    kind = {NO_TESTS: "no-tests", NO_REPL: "no-repl", NOT_ACCEPTED: "not-accepted"}.get(_status(answer), "")
    return [*cases, CaseResult(namespace, WHOLE_RUN_NAME, "error", why, "\n".join([why, *rest]), kind=kind)]


def _status(answer: dict[str, Any]) -> int:
    """Return the exit status of a run. A namespace that does not exist counts as no tests."""
    return NO_TESTS if answer.get("reason") == "unknown-namespace" else exit_status(answer)


def _print(cases: Sequence[CaseResult]) -> None:
    """Print the tests that failed, or the reason why the run did not start."""
    for case in cases:
        if case.outcome not in SIGNS_BY_OUTCOME:
            continue
        if not case.kind:
            echo(SIGNS_BY_OUTCOME[case.outcome], f" {escape_to_one_line(case.title)}")
        for line in (case.details or case.message).splitlines():
            echo(line if case.kind else f"  {line}", hang=2 if case.kind else None)


def _annotate(cases: Sequence[CaseResult], workspace: Path) -> None:
    """Print an annotation for each failure if GitHub Actions reads the output."""
    wrong = [case for case in cases if case.outcome in SIGNS_BY_OUTCOME]
    for case in wrong[:MAX_ANNOTATIONS] if os.environ.get("GITHUB_ACTIONS") else ():
        echo(format_annotation(case, workspace))


@contextmanager
def _without_workflow_commands() -> Iterator[None]:
    """Prevent GitHub Actions from interpreting the output within this context, as tests may print anything.

    The word that resumes interpretation is random, so that no test can print it. Source: GitHub's workflow commands,
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
    """Return the GitHub workflow command that displays a failure at its line.

    Files are relative to the root of the checkout, GITHUB_WORKSPACE. Source: GitHub's workflow commands, `error`.
    """
    file = workspace / case.file
    root = os.environ.get("GITHUB_WORKSPACE", "")
    displayed_path = file.relative_to(root).as_posix() if root and file.is_relative_to(root) else str(file)
    properties = [f"file={_escaped(displayed_path, is_property=True)}"] if case.file else []
    properties += [f"line={case.line}"] if case.file and case.line else []
    return f"::error {','.join(properties)}::{_escaped(f'{case.title}: {case.message}')}"


def _escaped(text: str, *, is_property: bool = False) -> str:
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
    counts += [f"{errors} error{'' if errors == 1 else 's'}"] if errors else []
    counts += [f"{outcomes.count('skip')} skipped"] if "skip" in outcomes else []
    return f"{len(outcomes)} test{'' if len(outcomes) == 1 else 's'}: {', '.join(counts)} in {seconds:.1f} s"
