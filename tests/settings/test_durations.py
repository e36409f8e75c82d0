"""The durations that a server waits, as a variable gives them."""

import pytest
from live_server import Live

from codriver.settings.model import Durations, WrongDurationError, durations_from


def test_without_the_variable_all_are_as_they_were_written():
    assert durations_from({}) == Durations()


def test_those_that_are_named_are_others():
    given = durations_from({"CODRIVER_DURATIONS": "progress_s=0.2  drain_s=1"})
    assert given == Durations(progress_s=0.2, drain_s=1.0)


@pytest.mark.parametrize("words", ["progress_s", "progress_s=soon", "no_such_s=1", "stop_s=-1", "=1", "progress_s=nan"])
def test_what_names_none_or_gives_no_number_is_refused_with_those_that_there_are(words):
    with pytest.raises(WrongDurationError, match="settle_s"):
        durations_from({"CODRIVER_DURATIONS": f"drain_s=1 {words}"})


def test_a_server_does_not_start_with_wrong_ones(tmp_path):
    live = Live(tmp_path, "--repl", "none", durations="soon=1", is_awaited=False)
    assert "CODRIVER_DURATIONS has no duration 'soon=1'" in live.process.communicate()[0]
    assert live.process.returncode
