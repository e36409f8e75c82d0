"""Run the less likely tests of an edit after its answer, and report those that the edit broke.

Nobody waits for them, and the next run of tests ends them. The caller's next answer names the broken tests.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError, few
from codriver.testing.runs import FAILING_OUTCOMES
from codriver.tools.acts.edit_verdict import (
    EXPECTED_OUTCOMES,
    Verdict,
    checks,
    failed_tests_in,
    outcomes_in,
    previous_sources,
)
from codriver.tools.acts.python_tests import make_job, start_job
from codriver.tools.acts.test_arguments import TestArguments
from codriver.tools.acts.test_environments import TestEnvironment
from codriver.tools.acts.test_runs import location_of_run
from codriver.tools.calls.evaluation_waits import wait_for_evaluation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.editing import Outcome
    from codriver.testing.test_jobs import JobReport, TestJob
    from codriver.tools.calls.call import Call

logger = logging.getLogger(__name__)

START_DELAY_S: Final = 1.0
"""Time from the answer to the start of the tests, in seconds. Many callers request another run within it."""
TIME_LIMIT_S: Final = 50.0
"""Time limit of the tests, in seconds."""
RUN_GRACE_S: Final = 10.0
"""Extra time for a run to stop after its limit or to start after another run, in seconds."""
MAX_CHECKED_TESTS: Final = 20
"""Maximum number of failed tests that are repeated with the previous files."""
MAX_NAMED_TESTS: Final = 4
"""Maximum number of broken tests that a note names."""


@dataclass(frozen=True, slots=True)
class LaterTests:
    """Test files to run after the answer about an edit by `who`. `known_before` has outcomes before the edit."""

    who: str
    given_who: str | None
    files: tuple[str, ...]
    outcome: Outcome
    known_before: Mapping[str, str]


def begin(call: Call, later: LaterTests) -> None:
    """Start the tests. The caller's next answer names those that the edit broke."""
    call.services.ledger.start_soon(_run, call, later, call.services.tests.requests)


async def _run(call: Call, later: LaterTests, requests: int) -> None:
    """Run the tests, unless a caller has requested other tests since."""
    await anyio.sleep(START_DELAY_S)
    try:
        broken = await _broken(call, later, requests)
    except CodriverError as error:
        logger.debug("later tests of an edit: %s", error)
        return
    except Exception:  # nobody waits for these tests, so a failure only ends them
        logger.exception("the later tests of an edit failed")
        return
    if broken:
        files = few([file.display_path for file in later.outcome.files])
        note = f"your edit of {files} broke {few(broken, MAX_NAMED_TESTS)}: passed before, run after the answer"
        found = call.services.ledger.tests.unreported
        found[later.who] = "; ".join(filter(None, [found.get(later.who, ""), note]))


async def _broken(call: Call, later: LaterTests, requests: int) -> Sequence[str]:
    """Return the tests that passed before the edit and failed twice after it."""
    arguments = TestArguments(paths=list(later.files), who=later.given_who)
    location = await location_of_run(call, arguments, later.who)
    if not isinstance(location, TestEnvironment):
        return ()
    job = await make_job(call, arguments, location)
    spec = replace(job.spec, retains_failed_process=False)
    job = replace(job, spec=spec, purpose="later", limit_s=TIME_LIMIT_S, is_complete=False, without_pytest=None)
    job_report = await _report(call, later.who, job, requests)
    if job_report is None:
        return ()
    failed = [
        name for name in failed_tests_in(job_report.report) if later.known_before.get(name) not in FAILING_OUTCOMES
    ][:MAX_CHECKED_TESTS]
    known = {name: later.known_before[name] for name in failed if name in later.known_before}
    unknown = [name for name in failed if name not in known]
    before = {**known, **await _outcomes(call, later, job, unknown, requests, previous_sources(later.outcome))}
    passed = [name for name in failed if before.get(name) in EXPECTED_OUTCOMES]
    again = await _outcomes(call, later, job, passed, requests)
    return Verdict(failed=tuple(failed), before=before, again=again).broken


async def _outcomes(
    call: Call,
    later: LaterTests,
    job: TestJob,
    names: Sequence[str],
    requests: int,
    sources: Mapping[str, bytes | None] | None = None,
) -> dict[str, str]:
    """Run tests, with the given contents of files if any, and return their outcomes."""
    for check in checks(job, names, sources) if names else ():
        job_report = await _report(call, later.who, check, requests)
        if job_report is None:
            return {}
        if job_report.report.results:
            return outcomes_in(job_report.report, names)
    return {}


async def _report(call: Call, who: str, job: TestJob, requests: int) -> JobReport | None:
    """Run a job, and return its report, or None if a caller requested other tests or files changed."""
    tests = call.services.tests
    if tests.requests != requests:
        return None
    name = start_job(call, who, job)
    await wait_for_evaluation(call, name, TIME_LIMIT_S + RUN_GRACE_S, owns=False)
    job_report = tests.report(name)
    is_outdated = job_report is None or tests.requests != requests or job_report.changed_files
    return None if is_outdated else job_report
