"""Find what changed since a failed test last passed, by running it with the current and with the previous files.

The previous files are those that `edit_files` changed since the test passed, if nobody else changed them afterwards. No
answer waits for the comparison. It starts once the answer about the failed run has been sent, and the next test run
cancels it. The first difference is included in the caller's next answer and in later answers about the run.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.editing.editable_paths import NotEditableError
from codriver.editing.file_changes import UnreadableError
from codriver.errors import CodriverError
from codriver.features.traces.recorded_runs import MalformedRunError, RecordedRuns
from codriver.features.traces.run_comparison import compare_runs, format_difference
from codriver.testing.runs import FAILING_OUTCOMES
from codriver.tools.calls.evaluation_waits import wait_for_evaluation
from codriver.tools.execution.python_tests import start_job

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.features.traces.recorded_runs import Run
    from codriver.testing.runs import TestFinished
    from codriver.testing.test_jobs import JobReport, TestJob
    from codriver.tools.calls.call import Call

logger = logging.getLogger(__name__)

MAX_TEST_S: Final = 1.0
"""Maximum duration of a test to rerun automatically."""
COMPARISON_TIMEOUT_S: Final = 8.0
"""Maximum duration of a comparison."""
MAX_EDITED_FILES: Final = 20
"""Maximum number of edited files whose previous contents are used."""
MAX_LINE_BYTES: Final = 200
"""Maximum size of the line with the difference."""
LINE_PREFIX: Final = "since it passed: "
"""The beginning of the line with the difference."""


def start_comparison(call: Call, job: str) -> None:
    """Start comparing a failed test run with the last run in which its failed test passed.

    Do nothing if no test failed, or if the run was already compared.
    """
    job_report, ledger = call.services.tests.report(job), call.services.ledger
    if (
        job_report is not None
        and job_report.is_relevant
        and job_report.report.failures
        and job not in ledger.tests.compared
    ):
        ledger.tests.compared[job] = ""
        ledger.start_soon(_compare, call, job, job_report)


async def _compare(call: Call, job: str, job_report: JobReport) -> None:
    """Compare a test run with an earlier one, and add the difference to the notes of its evaluation."""
    try:
        words = await _find_difference(call, job, job_report)
    except (CodriverError, MalformedRunError) as error:
        logger.debug("could not compare the run %s with an earlier one: %s", job, error)
        return
    except Exception:  # nobody waits for the comparison, so a failure only ends the comparison
        logger.exception("comparing the run %s with an earlier one failed", job)
        return
    evaluation = call.state.evaluations.get(job)
    if words and evaluation is not None:
        tests = call.services.ledger.tests
        tests.compared[job] = tests.unreported[evaluation.who] = words


async def _find_difference(call: Call, job: str, job_report: JobReport) -> str:
    """Run a failed test with the current and the previous files. Return the first difference in its calls.

    Return an empty string if there is no such test or no difference.
    """
    found = _find_passed_before(call, job, job_report)
    if found is None:
        return ""
    test, passed_ms = found
    previous = await _previous_contents(call, passed_ms)
    if not previous:
        return ""
    spec = replace(
        job_report.job.spec,
        arguments=(test.nodeid,),
        recorders={"calls": {"names": []}},
        retains_failed_process=False,
    )
    comparison = replace(
        job_report.job, spec=spec, purpose="comparison", limit_s=COMPARISON_TIMEOUT_S, without_pytest=None
    )
    before = await _run_comparison(call, job, replace(comparison, spec=replace(spec, sources=previous)))
    now = await _run_comparison(call, job, comparison) if before is not None and before[0] == "passed" else None
    if before is None or now is None or now[0] not in FAILING_OUTCOMES:
        return ""
    return await call.services.work.editing.run(call.client, partial(_first_difference, test, before[1], now[1]))


def _find_passed_before(call: Call, job: str, job_report: JobReport) -> tuple[TestFinished, int] | None:
    """Return the first failed test that passed in its previous run, and the start of that run in epoch milliseconds.

    Slow tests are skipped.
    """
    runs = call.services.tests.finished_runs()
    older = runs[[name for name, _ in runs].index(job) + 1 :] if any(name == job for name, _ in runs) else []
    spec = job_report.job.spec
    for test in job_report.report.failures:
        if test.is_collector or test.seconds > MAX_TEST_S:
            continue
        for name, other in older:
            outcome = next((result.outcome for result in other.report.results if result.nodeid == test.nodeid), None)
            evaluation = call.state.evaluations.get(name)
            if outcome is None or other.job.spec.directory != spec.directory or evaluation is None:
                continue
            if outcome == "passed":
                return test, evaluation.started_at or 0
            break
    return None


async def _previous_contents(call: Call, since_ms: int) -> Mapping[str, bytes | None]:
    """Return the previous contents of the files that Codriver has edited since `since_ms`.

    Return an empty mapping if one of them has been changed in another way since then.
    """
    changed: Mapping[Path, tuple[bytes | None, bytes | None]] = call.services.ledger.recent_edits.changes_since(
        since_ms
    )
    if len(changed) > MAX_EDITED_FILES:
        return {}
    for path, (_, after_all) in changed.items():
        try:
            _, now = await call.services.editor.read(str(path), allow_outside=False)
        except (NotEditableError, UnreadableError):
            return {}
        if now.data != after_all:
            return {}
    return {str(path): before for path, (before, after_all) in changed.items() if before != after_all}


async def _run_comparison(call: Call, job: str, comparison: TestJob) -> tuple[str, Run] | None:
    """Run a test. Return its outcome and recorded calls, or None if it did not run."""
    evaluation = call.state.evaluations[job]
    name = start_job(call, evaluation.who, comparison)
    await wait_for_evaluation(call, name, 2 * COMPARISON_TIMEOUT_S, owns=False)
    job_report = call.services.tests.report(name)
    outcome = next((result.outcome for result in job_report.report.results), None) if job_report is not None else None
    recorded = (
        [recording for recording in job_report.report.recorded if recording.recorder == "calls"]
        if job_report is not None
        else []
    )
    if outcome is None or not recorded or recorded[0].error:
        return None
    return outcome, call.services.part(RecordedRuns).read(job, json.dumps(recorded[0].data))


def _first_difference(test: TestFinished, before: Run, now: Run) -> str:
    """Return a line about the first call that differs between two runs, or an empty string.

    Calls of the test function itself are ignored.
    """
    if now.refused or before.refused:
        return ""
    name = test.nodeid.rpartition("::")[2].partition("[")[0]
    found = [difference for difference in compare_runs(before, now) if not f".{difference.name}".endswith(f".{name}")]
    if not found:
        return ""
    line = format_difference(found[0])
    words = LINE_PREFIX + (line.partition(" ")[2] if line.startswith("#") else line)
    return words.encode()[:MAX_LINE_BYTES].decode("utf-8", "ignore")
