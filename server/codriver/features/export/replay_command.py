"""`codriver replay`: run a recorded session in a fresh REPL and compare the results with the recorded ones.

The exit status is 0 if all results are the same, 1 if a result differs, and 2 for wrong usage.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from codriver import files
from codriver.commands.call import FAILED
from codriver.commands.junit import render_junit_xml
from codriver.commands.options import (
    STRICT_CHOICE,
    Number,
    images_option,
    python_option,
    quiet_option,
    workspace_option,
)
from codriver.commands.terminal import echo, waiting_line, write_file
from codriver.commands.test_cases import CaseResult
from codriver.errors import format_count
from codriver.features.export.documents.recordings import Recording, RecordingError, parse_recording
from codriver.features.jupyter.kernel_kind import KERNEL_KIND
from codriver.files import MEBIBYTE, FileRules, Links
from codriver.log.control_characters import escape_to_one_line
from codriver.repls.kinds import find_kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.commands.test_cases import Outcome
    from codriver.features.export.documents.step_verification import CheckedStep


MAX_RECORDING_BYTES = 64 * MEBIBYTE
"""Maximum size of a recording to read."""


@click.command(
    "replay",
    short_help="Run a recorded session in a fresh REPL.",
    epilog="Exit status: 0 everything is the same, 1 something differs, 2 wrong usage.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--repl",
    metavar="WORDS",
    help="Command or kind of the fresh REPL, as for `serve --repl`. Default: the one that was recorded.",
)
@python_option
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write a JUnit XML report to this file.",
)
@click.option(
    "--timeout",
    type=Number(1, 600),
    default=60.0,
    metavar="SECONDS",
    help="Time limit for each step, from 1 to 600 (default: 60).",
)
@images_option
@workspace_option
@quiet_option("Print only the differences.")
def replay_command(
    *,
    file: Path,
    repl: str | None,
    python: str,
    junit: Path | None,
    timeout: float,
    pictures: str,
    workspace: Path,
    is_quiet: bool,
) -> None:
    """Run the recording FILE in a fresh REPL, and compare the results with the recorded ones.

    FILE was written by `codriver export --format recording`. The code runs with all its side effects, so read a
    recording from someone else first. Values are considered the same if they differ only in parts that change between
    runs, such as addresses and times. Images that differ are considered the same if they have the same type and size in
    pixels, but they are reported. The output of the code is printed to standard error.
    """
    import anyio  # noqa: PLC0415  # as below

    from codriver.features.export.fresh_runs import FreshRuns  # noqa: PLC0415  # it imports everything that starts REPLs

    workspace, started_at, started_s = workspace.resolve(), datetime.now(UTC), time.monotonic()
    recording = _read_recording(file)
    if repl is None and find_kind(recording.repl, [KERNEL_KIND]) is None:
        raise click.UsageError(
            f"the recording names a command line as its REPL, {recording.repl!r}, which replay does not run. Pass "
            "--repl"
        )
    runs = FreshRuns(
        workspace,
        repl or recording.repl,
        timeout,
        is_strict=pictures == STRICT_CHOICE,
        is_quiet=is_quiet,
        is_chosen=bool(repl),
        python=python,
    )
    with waiting_line(lambda: runs.progress.describe(runs.words)):
        checked = anyio.run(runs.verify, recording)
    cases = _junit_cases(recording, checked, file.stem)
    if junit is not None:
        write_file(junit, render_junit_xml(cases, started_at), workspace)
    for case in cases:
        if case.outcome == "fail":
            echo(escape_to_one_line(case.name))
            echo("".join(f"  {line}\n" for line in case.details.splitlines()), end="")
    for check in () if is_quiet else checked:
        if check.is_alike and check.reproduces:
            echo(escape_to_one_line(f"{check.of.id} {check.note}"), hang=2)
    wrong, skipped = (sum(case.outcome == outcome for case in cases) for outcome in ("fail", "skip"))
    if not is_quiet:
        echo(f"{_summary(len(cases), wrong, skipped)}, in {time.monotonic() - started_s:.1f} s", hang=2)
    sys.exit(FAILED if wrong else 0)


def _summary(count: int, wrong: int, skipped: int) -> str:
    """Return a line with the numbers of steps that were reproduced, that differed, and that were skipped."""
    text = f"{format_count(count, 'evaluation')}: {count - wrong - skipped} the same, {wrong} differ"
    return f"{text}, {skipped} cannot run again" if skipped else text


def _read_recording(file: Path) -> Recording:
    """Read a recording from a file.

    Raises:
        RecordingError: the file is not a recording.
    """
    try:
        return parse_recording(files.read(file, FileRules(Links.OF_USER, MAX_RECORDING_BYTES)).decode())
    except UnicodeDecodeError as error:
        raise RecordingError("the file is not a text file") from error


def _junit_cases(recording: Recording, checked: Sequence[CheckedStep], name: str) -> list[CaseResult]:
    """Return a JUnit test case for each evaluation.

    Evaluations are skipped if a secret was redacted from their code.
    """
    cases = []
    for evaluation in recording.evaluations:
        steps = [check for check in checked if check.of is evaluation]
        wrong = [step for step in steps if not step.reproduces]
        outcome: Outcome = "fail" if wrong else "pass"
        if wrong and all(check.is_hidden for check in wrong):
            outcome = "skip"
        head = evaluation.code.strip().partition("\n")[0][:60]
        details = "\n".join(f"{check.step.text.strip()}\n  {check.note}" for check in wrong)
        message = wrong[0].note if wrong else ""
        cases.append(CaseResult(name, f"{evaluation.id} {head}", outcome, message=message, details=details))
    return cases
