"""The report built from the events of a run."""

from codriver.testing import runs


def report_of(*events):
    builder = runs.ReportBuilder()
    for event in events:
        builder.add(event)
    return builder.report()


def test_an_unfinished_test_run_reports_running_and_pending_tests():
    report = report_of(
        runs.Collected(4, 1, ("a", "b", "c")),
        runs.TestStarted("a"),
        runs.TestFinished("a", "passed"),
        runs.TestStarted("b"),
    )
    assert (report.running, report.not_started) == (("b",), ("c",))
    assert (report.counts.passed, report.counts.collected, report.counts.deselected) == (1, 4, 1)
    assert not report.passed


def test_a_finished_run_reports_the_counts_of_its_test_runner():
    counts = runs.OutcomeCounts(passed=1, errors=1, collected=1)
    report = report_of(
        runs.Collected(1, 0, ("a",)),
        runs.TestFinished("a", "error"),
        runs.RunFinished(exit_status=1, counts=counts),
    )
    assert report.counts == counts
    assert [failure.nodeid for failure in report.failures] == ["a"]
