"""Whether a run is warm: the pure function, and what changes its mind."""

from dataclasses import replace
from pathlib import Path

import pytest

from codriver.testing.runs import RunSpec
from codriver.warm_tests import decisions
from codriver.warm_tests.comparison import Comparison
from codriver.warm_tests.decisions import Project, WarmState, after_obstacle, after_saving, decide
from codriver.warm_tests.plans import Obstacle, Plan, RunRecord, corrected, learned

SPEC = RunSpec(python="/python", directory=Path("/project"), environment={"HOME": "/home", "LANG": "C"})
PLAN = Plan(libraries=("/lib/",), early=("pytest",))
PROJECT = Project(plan=PLAN)
READY = WarmState(is_ready=True, environment={"LANG": "C"})


def test_a_run_is_warm_where_nothing_stands_against_it():
    assert decide(SPEC, PROJECT, READY).is_warm


@pytest.mark.parametrize(
    ("spec", "project", "state", "reason"),
    [
        ({"runner": "unittest"}, {}, {}, "unittest"),
        ({"sources": {"/a.py": b""}}, {}, {}, "contents"),
        ({"environment": {"LANG": "C", "PYTHONHASHSEED": "1"}}, {}, {}, "PYTHONHASHSEED"),
        ({"environment": {"LANG": "de_DE.UTF-8"}}, {}, {}, "at its start"),
        ({}, {"plan": None}, {}, "first run"),
        ({}, {"off": "differs"}, {}, "differs"),
        ({}, {"stalled": "test_a"}, {}, "test_a"),
        ({}, {}, {"is_ready": False}, "not ready"),
        ({}, {}, {"runs": decisions.MOST_RUNS}, "renewed"),
        ({}, {}, {"age_s": decisions.MOST_AGE_S}, "renewed"),
    ],
)
def test_a_run_is_plain_with_a_reason(spec, project, state, reason):
    found = decide(replace(SPEC, **spec), replace(PROJECT, **project), replace(READY, **state))
    assert not found.is_warm
    assert reason in found.reason


def test_a_difference_counts_when_each_side_shows_it_three_times():
    found = Comparison("stamp").added({"test_a": "passed", "test_b": "passed"}, is_warm=False)
    found = found.added({"test_a": "failed", "test_b": "passed"}, is_warm=True)
    assert found.suspects() == ("test_a",)
    assert found.needs_plain_run()
    assert found.differences() == ()
    for _ in range(2):
        found = found.added({"test_a": "passed"}, is_warm=False).added({"test_a": "failed"}, is_warm=True)
    assert found.differences() == ("test_a",)


def test_a_test_that_depends_on_chance_is_no_difference():
    found = Comparison("stamp").added({"test_a": "passed"}, is_warm=False).added({"test_a": "failed"}, is_warm=True)
    found = found.added({"test_a": "failed"}, is_warm=False)
    assert found.suspects() == ()
    assert not found.needs_plain_run()


def test_a_suspected_difference_makes_the_next_run_plain():
    suspected = Comparison("stamp").added({"t": "passed"}, is_warm=False).added({"t": "failed"}, is_warm=True)
    assert not decide(SPEC, replace(PROJECT, comparison=suspected), READY).is_warm


def test_three_runs_that_save_little_end_the_warming():
    project = replace(PROJECT, plain_start_s=1.0)
    for _ in range(2):
        project = after_saving(project, 0.9, 0.2)
        assert project.off == ""
    assert after_saving(after_saving(project, 0.1, 0.2), 0.9, 0.2).off == ""
    assert after_saving(project, 0.9, 0.2).off == decisions.SAVES_LITTLE


def test_a_project_that_keeps_needing_plain_processes_stays_plain():
    project = PROJECT
    for _ in range(decisions.MOST_CORRECTIONS):
        assert project.off == ""
        project = after_obstacle(project, PLAN, "why")
    assert "why" in project.off


def obstacle(kind, about="", **variables):
    return Obstacle("m", kind, about, variables, has_begun=False)


def test_a_variable_is_learned_once_and_then_its_reader_is_left_out():
    plan = corrected(PLAN, obstacle("variable", "A", A="1"))
    assert plan.variables == {"A": "1"}
    plan = corrected(plan, obstacle("variable", "A", A=None))
    assert plan.variables == {}
    plan = corrected(plan, obstacle("variable", "A", A="1"))
    assert plan.variables == {}
    assert "A" in plan.excluded["m"]


@pytest.mark.parametrize("kind", ["hidden", "found", "rewriting", "warning", "replaced", "finder", "logger"])
def test_a_module_that_cannot_be_revealed_is_left_out(kind):
    assert "m" in corrected(PLAN, obstacle(kind, "x")).excluded


def test_a_changed_file_is_read_by_the_next_process():
    assert corrected(PLAN, obstacle("file", "/lib/m.py")) == PLAN


def test_a_plan_has_the_libraries_of_a_run_before_and_after_its_first_module():
    record = RunRecord(
        (("pytest", "/lib/pytest.py"), ("conftest", "/project/conftest.py"), ("click", "/lib/click.py"), ("sys2", "")),
        {},
        ("/lib/",),
    )
    plan = learned(record, ["mine"])
    assert plan.early == ("pytest",)
    assert plan.late == ("click", "sys2")
    assert set(plan.excluded) == {"mine"}
