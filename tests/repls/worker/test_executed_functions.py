"""Functions that tests executed: noted by events where Python has them, else by a profile function if that is asked."""

import sys

import pytest

from codriver.repls.worker.python.live_recording import NO_TOOL, ExecutedFunctions

MONITORING = getattr(sys, "monitoring", None)
OLD = MONITORING is None
MODULE = "def used():\n    return 1\n\ndef unused():\n    return 2\n"


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "noted.py"
    file.write_text(MODULE)
    space = {}
    exec(compile(MODULE, str(file), "exec"), space)
    return str(file), space


@pytest.fixture
def executed(tmp_path):
    return ExecutedFunctions([str(tmp_path)])


def run(executed, file, used):
    executed.uses("test_noted.py", "test_used", file, [])
    executed.enter("test_noted.py", "test_used")
    used()
    executed.enter("", "")
    executed.end()


@pytest.mark.skipif(not OLD, reason="Python has sys.monitoring")
def test_before_python_3_12_what_tests_execute_is_noted_where_that_is_asked_for_alone(executed, module):
    file, space = module
    assert not executed.begin()
    executed.is_asked = True
    assert executed.begin()
    run(executed, file, space["used"])
    assert sys.getprofile() is None
    assert executed.tests_of([(file, "used")])["tests"] == [["test_noted.py", "test_used"]]
    assert executed.tests_of([(file, "unused")])["tests"] == []


@pytest.mark.skipif(not OLD, reason="Python has sys.monitoring")
def test_another_profile_function_is_left_alone(executed):
    executed.is_asked = True

    def other(*_):
        pass

    sys.setprofile(other)
    try:
        assert not executed.begin()
        assert sys.getprofile() is other
    finally:
        sys.setprofile(None)


@pytest.mark.skipif(OLD, reason="Python has no sys.monitoring")
def test_where_no_tool_id_is_free_it_says_so(executed, module):
    file, space = module
    taken = [one for one in range(6) if MONITORING.get_tool(one) is None]
    for one in taken:
        MONITORING.use_tool_id(one, "another")
    try:
        assert not executed.begin()
    finally:
        for one in taken:
            MONITORING.free_tool_id(one)
    assert executed.tests_of([(file, "used")])["unseen"] == [[NO_TOOL]]
    assert executed.begin()
    run(executed, file, space["used"])
    told = executed.tests_of([(file, "used")])
    assert (told["tests"], told["unseen"]) == ([["test_noted.py", "test_used"]], [])
