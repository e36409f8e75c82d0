"""The time limit of each test: an endless wait is a failure that shows which threads wait, and the run continues."""

import threading

import pytest
from hung_tests import HAS_TIMERS, ended_after

pytestmark = pytest.mark.skipif(not HAS_TIMERS, reason="Windows has no timer that ends what waits")


def test_an_endless_wait_fails_and_shows_all_threads():
    never, pending = threading.Event(), threading.Event()

    def waits_elsewhere():
        pending.set()
        never.wait()

    thread = threading.Thread(target=waits_elsewhere)
    thread.start()
    pending.wait()
    try:
        with pytest.raises(pytest.fail.Exception, match=r"not over after 0\.01 s") as failure, ended_after(0.01):
            never.wait()
    finally:
        never.set()
        thread.join()
    assert "in waits_elsewhere" in str(failure.value)
    assert "in test_an_endless_wait_fails_and_shows_all_threads" in str(failure.value)


def test_a_test_that_waits_again_during_teardown_is_stopped_again():
    never = threading.Event()

    def waits_twice():
        try:
            never.wait()
        finally:
            never.wait()

    with pytest.raises(pytest.fail.Exception), ended_after(0.01, more=0.02):
        waits_twice()


def test_a_test_that_ends_in_time_is_left_alone():
    with ended_after(60):
        pass
    with pytest.raises(KeyError), ended_after(60):
        raise KeyError
