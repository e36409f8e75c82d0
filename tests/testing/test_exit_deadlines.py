"""How long a test process may take to tear down its fixtures and to exit."""

import pytest

from codriver.testing.exit_deadlines import TimeSinceFinished, has_exit_time_left, has_grace_time_left


@pytest.mark.parametrize(
    ("elapsed_s", "starved_s", "may_go_on"),
    [(4.9, 0, True), (5.1, 0, False), (9, 5, True), (11, 5, False), (29, 29, True), (31, 31, False)],
)
def test_time_spent_waiting_for_a_processor_extends_the_grace_time_after_an_interrupt(elapsed_s, starved_s, may_go_on):
    assert has_grace_time_left(elapsed_s, starved_s) is may_go_on


@pytest.mark.parametrize(
    ("elapsed_s", "starved_s", "may_go_on"),
    [(9.9, 0, True), (10.1, 0, False), (29, 20, True), (31, 20, False), (59, 59, True), (61, 61, False)],
)
def test_time_spent_waiting_for_a_processor_extends_the_grace_time_after_the_last_test(elapsed_s, starved_s, may_go_on):
    assert has_exit_time_left(elapsed_s, starved_s) is may_go_on


def test_time_during_which_the_server_was_suspended_does_not_reduce_the_time_to_exit():
    finished = TimeSinceFinished()
    for now_s, starved_s in ((100.0, 3.0), (100.5, 3.25), (700.0, 4.0), (700.5, 4.0)):
        finished.advance(now_s, starved_s)
    assert (finished.elapsed_s, finished.starved_s) == (2.0, 1.0)


def test_the_time_that_an_ended_process_waited_for_a_processor_still_counts():
    """The exit of the process may be noticed later, when the time that it waited can no longer be read."""
    finished = TimeSinceFinished()
    for now_s, starved_s in ((100.0, 30.0), (100.5, 30.25), (101.0, 0.0)):
        finished.advance(now_s, starved_s)
    assert (finished.elapsed_s, finished.starved_s) == (1.0, 0.25)
