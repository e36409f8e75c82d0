"""The handoff is built from data: without Codriver's log messages it is the same."""

import pytest
from recorded_work import record_work, without_sentences

from codriver.core.checkpoints import CHECKPOINT_PREFIX
from codriver.core.log_facts import (
    CONNECTED_KIND,
    EDIT_KIND,
    FINISHED_KIND,
    LOAD_KIND,
    PURPOSE_KIND,
    TESTS_KIND,
    UNDO_KIND,
)
from codriver.features.handoff.report import LiveState, render_handoff
from codriver.features.handoff.work_story import read_story

NAME = "test_shop.py::test_total"


def handoff(entries):
    return render_handoff(read_story(entries, {}), LiveState(entries[-1].timestamp), "ann")


def section(entries, title):
    return next((line.partition(": ")[2] for line in handoff(entries).splitlines() if line.startswith(title)), None)


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    """Return the log of a session that produces every kind of entry: after a failed test, and at the end."""
    return record_work(tmp_path_factory.mktemp("handoff"))


def test_the_handoff_does_not_depend_on_log_messages(entries):
    failed, ended = entries
    assert {item.kind for item in ended} >= {
        CONNECTED_KIND,
        PURPOSE_KIND,
        CHECKPOINT_PREFIX,
        LOAD_KIND,
        FINISHED_KIND,
        TESTS_KIND,
        EDIT_KIND,
        UNDO_KIND,
    }
    for log in (failed, ended):
        assert handoff(without_sentences(log)) == handoff(log)
    assert section(without_sentences(ended), "Goals") == "find the price (ann)"
    assert section(without_sentences(ended), "Edited") == "shop.py (bob)"
    assert "not resolved" in section(without_sentences(ended), "Failed")


def test_a_test_that_passed_later_for_another_caller_is_not_failing(entries):
    failed, ended = entries
    assert section(failed, "Failing tests").startswith(f"{NAME} (ann ")
    assert section(ended, "Failing tests") is None
