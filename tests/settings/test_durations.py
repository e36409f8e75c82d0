"""The server's timeouts and intervals, as a variable overrides them."""

import pytest
from live_server import Live

from codriver.settings.durations import Durations, WrongDurationError, durations_from_environment


def test_without_the_variable_the_default_durations_apply():
    assert durations_from_environment({}) == Durations()


def test_named_durations_are_overridden():
    given = durations_from_environment({"CODRIVER_DURATIONS": "progress_s=0.2  drain_s=1"})
    assert given == Durations(progress_s=0.2, drain_s=1.0)


@pytest.mark.parametrize("words", ["progress_s", "progress_s=soon", "no_such_s=1", "stop_s=-1", "=1", "progress_s=nan"])
def test_an_unknown_name_or_a_non_number_is_refused_with_the_known_names(words):
    with pytest.raises(WrongDurationError, match="settle_s"):
        durations_from_environment({"CODRIVER_DURATIONS": f"drain_s=1 {words}"})


def test_a_server_does_not_start_with_invalid_durations(tmp_path):
    live = Live(tmp_path, "--repl", "none", durations="soon=1", is_awaited=False)
    assert "CODRIVER_DURATIONS contains the unknown duration 'soon=1'" in live.process.communicate()[0]
    assert live.process.returncode
