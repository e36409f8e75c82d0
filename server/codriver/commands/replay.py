"""`codriver replay`: a recorded session run once more in a fresh REPL, its results compared with the recorded ones.

Exit status: 0 all is the same, 1 something differs, 2 wrong usage.
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
from codriver.commands.options import STRICT, Number, pictures_option, python_option, quiet_option, workspace_option
from codriver.commands.terminal import patience, say, write_file
from codriver.commands.testing import Case, xml_of
from codriver.documents.recordings import Recording, RecordingError, from_lines
from codriver.files import MEBIBYTE, Links, Rules
from codriver.log.control_characters import one_line
from codriver.repls.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.commands.testing import Outcome
    from codriver.documents.verification import Checked

MOST_BYTES = 64 * MEBIBYTE


@click.command(
    "replay",
    short_help="Run a recorded session in a fresh REPL.",
    epilog="Exit status: 0 all is the same, 1 something differs, 2 wrong usage.",
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--repl", metavar="WORDS", help="What starts the fresh REPL, as for `serve`; by default as recorded.")
@python_option
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML there.")
@click.option(
    "--timeout",
    type=Number(1, 600),
    default=60.0,
    metavar="SECONDS",
    help="How long each step may take, 1 to 600 (60).",
)
@pictures_option
@workspace_option
@quiet_option("Print what differs, and nothing else.")
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
    """Run the code of FILE, which `codriver export --format recording` wrote, in a fresh REPL, and compare.

    The code runs with all its effects, so read a recording that is not yours first. Values that differ in nothing but
    addresses, times and their like are the same; so are pictures of the same kind and size, with a word on it. What the
    code prints goes to standard error as it comes.
    """
    import anyio  # noqa: PLC0415  # as below

    from codriver.commands.fresh_runs import FreshRuns  # noqa: PLC0415  # it loads what REPLs are started by

    workspace, began, started_s = workspace.resolve(), datetime.now(UTC), time.monotonic()
    recording = _read(file)
    if repl is None and kind_of(recording.repl) is None:
        raise click.UsageError(f"the recording names a command line, {recording.repl!r}: say it yourself with --repl")
    runs = FreshRuns(
        workspace,
        repl or recording.repl,
        timeout,
        is_strict=pictures == STRICT,
        is_quiet=is_quiet,
        is_chosen=bool(repl),
        python=python,
    )
    with patience(lambda: runs.progress.words(runs.words)):
        checked = anyio.run(runs.verify, recording)
    cases = _cases(recording, checked, file.stem)
    if junit is not None:
        write_file(junit, xml_of(cases, began), workspace)
    for case in cases:
        if case.outcome == "fail":
            say(one_line(case.name))
            say("".join(f"  {line}\n" for line in case.details.splitlines()), end="")
    for one in () if is_quiet else checked:
        if one.is_alike and one.reproduces:
            say(one_line(f"{one.of.id} {one.note}"), hang=2)
    wrong, skipped = (sum(case.outcome == outcome for case in cases) for outcome in ("fail", "skip"))
    if not is_quiet:
        say(f"{_told(len(cases), wrong, skipped)}, in {time.monotonic() - started_s:.1f} s", hang=2)
    sys.exit(FAILED if wrong else 0)


def _told(count: int, wrong: int, skipped: int) -> str:
    told = f"{count} evaluations: {count - wrong - skipped} the same, {wrong} differ"
    return f"{told}, {skipped} cannot run again" if skipped else told


def _read(file: Path) -> Recording:
    try:
        return from_lines(files.read(file, Rules(Links.OWN, MOST_BYTES)).decode())
    except UnicodeDecodeError as error:
        raise RecordingError("it is no text") from error


def _cases(recording: Recording, checked: Sequence[Checked], name: str) -> list[Case]:
    """A case for each evaluation: skipped where the log holds no more of it than a name for a secret."""
    cases = []
    for evaluation in recording.evaluations:
        steps = [one for one in checked if one.of is evaluation]
        wrong = [one for one in steps if not one.reproduces]
        outcome: Outcome = "fail" if wrong else "pass"
        if wrong and all(one.is_hidden for one in wrong):
            outcome = "skip"
        head = evaluation.code.strip().partition("\n")[0][:60]
        details = "\n".join(f"{one.step.text.strip()}\n  {one.note}" for one in wrong)
        message = wrong[0].note if wrong else ""
        cases.append(Case(name, f"{evaluation.id} {head}", outcome, message=message, details=details))
    return cases
