"""The pure functions that decide whether a run is warm."""

from dataclasses import replace
from pathlib import Path

import pytest

from codriver.features.warm_tests import decisions
from codriver.features.warm_tests.comparison import Comparison
from codriver.features.warm_tests.decisions import (
    Project,
    WarmState,
    allow_retry,
    decide_start,
    record_failed_start,
    record_obstacle,
    record_plain_start,
    record_warm_start,
)
from codriver.features.warm_tests.known_packages import KNOWN_PACKAGES
from codriver.features.warm_tests.plans import (
    MAX_FILE_CHANGES,
    Obstacle,
    Plan,
    RunRecord,
    correct_plan,
    lasting_exclusions,
    plan_from_run,
)
from codriver.features.warm_tests.saved_plans import MAX_PLANS, SavedPlans
from codriver.testing.runs import RunSpec

SPEC = RunSpec(python="/python", directory=Path("/project"), environment={"HOME": "/home", "LANG": "C"})
PLAN = Plan(libraries=("/lib/",), early=("pytest",))
PROJECT = Project(plan=PLAN)
READY = WarmState(is_ready=True, environment={"HOME": "/other", "LANG": "C"})


def test_a_test_run_uses_a_preloaded_process_if_nothing_prevents_it():
    assert decide_start(SPEC, PROJECT, READY).is_warm


@pytest.mark.parametrize(
    ("spec", "project", "state", "reason"),
    [
        ({"runner": "unittest"}, {}, {}, "unittest"),
        ({"sources": {"/a.py": b""}}, {}, {}, "contents"),
        ({"environment": {"LANG": "C", "PYTHONHASHSEED": "1"}}, {}, {}, "PYTHONHASHSEED"),
        ({"environment": {"LANG": "de_DE.UTF-8"}}, {}, {}, "when it starts"),
        ({}, {}, {"has_startup_code": True}, "may read have changed"),
        ({}, {"plan": None}, {}, "first run"),
        ({}, {"off": "differs"}, {}, "differs"),
        ({}, {"unfit": "too large"}, {}, "too large"),
        ({}, {"stalled": "test_a"}, {}, "test_a"),
        ({}, {"unfinished": "queue has changed"}, {}, "not finished: queue"),
        ({}, {}, {"is_ready": False}, "not ready"),
        ({}, {}, {"runs": decisions.MAX_RUNS_PER_SEED}, "replaced"),
        ({}, {}, {"age_s": decisions.MAX_AGE_S}, "replaced"),
    ],
)
def test_the_decision_for_a_plain_run_states_its_reason(spec, project, state, reason):
    found = decide_start(replace(SPEC, **spec), replace(PROJECT, **project), replace(READY, **state))
    assert not found.is_warm
    assert reason in found.reason


def test_a_difference_is_confirmed_after_three_observations_of_warm_and_plain_runs():
    found = Comparison("stamp").with_outcomes({"test_a": "passed", "test_b": "passed"}, is_warm=False)
    found = found.with_outcomes({"test_a": "failed", "test_b": "passed"}, is_warm=True)
    assert found.suspects() == ("test_a",)
    assert found.needs_plain_run()
    assert found.differences() == ()
    for _ in range(2):
        found = found.with_outcomes({"test_a": "passed"}, is_warm=False).with_outcomes(
            {"test_a": "failed"}, is_warm=True
        )
    assert found.differences() == ("test_a",)


def test_a_flaky_test_does_not_count_as_a_difference_between_warm_and_plain_runs():
    found = (
        Comparison("stamp")
        .with_outcomes({"test_a": "passed"}, is_warm=False)
        .with_outcomes({"test_a": "failed"}, is_warm=True)
    )
    found = found.with_outcomes({"test_a": "failed"}, is_warm=False)
    assert found.suspects() == ()
    assert not found.needs_plain_run()


def test_a_suspected_difference_makes_the_next_run_plain():
    suspected = (
        Comparison("stamp").with_outcomes({"t": "passed"}, is_warm=False).with_outcomes({"t": "failed"}, is_warm=True)
    )
    assert not decide_start(SPEC, replace(PROJECT, comparison=suspected), READY).is_warm


def test_three_test_runs_that_save_little_time_disable_preloading():
    project = replace(PROJECT, plain_start_s=1.0, plain_arguments=("a",))
    for _ in range(2):
        project = record_warm_start(project, ("a",), 0.9, 0.2)
        assert project.off == ""
    assert record_warm_start(record_warm_start(project, ("a",), 0.1, 0.2), ("a",), 0.9, 0.2).off == ""
    assert record_warm_start(project, ("b",), 0.9, 0.2).off == ""
    assert record_warm_start(project, ("a",), 0.9, 0.2).off == decisions.SAVES_TOO_LITTLE_REASON


def test_a_project_with_little_savings_is_reconsidered_when_its_tests_import_more():
    project = record_plain_start(PROJECT, ("a",), 0.1, 0.2)
    assert project.off == decisions.SAVES_TOO_LITTLE_REASON
    assert record_plain_start(project, ("a",), 0.3, 0.2).off == decisions.SAVES_TOO_LITTLE_REASON
    assert record_plain_start(project, ("b",), 1.0, 0.2) == Project()


def test_warming_is_disabled_for_a_project_that_repeatedly_needs_plain_processes():
    project = PROJECT
    for _ in range(decisions.MAX_CORRECTIONS):
        assert project.off == ""
        project = record_obstacle(project, PLAN, "why", has_started=False)
    assert "why" in project.off


def test_the_test_run_after_an_unfinished_one_uses_a_new_process():
    unfinished = record_obstacle(PROJECT, PLAN, "why", has_started=True)
    assert not decide_start(SPEC, unfinished, READY).is_warm
    assert decide_start(SPEC, record_obstacle(PROJECT, PLAN, "why", has_started=False), READY).is_warm


def test_starting_a_warm_process_is_retried_after_changes_up_to_a_limit():
    project = record_failed_start(PROJECT, "why", "first")
    assert allow_retry(project, "first").unfit == "why"
    assert allow_retry(project, "second").unfit == ""
    for number in range(decisions.MAX_FAILED_STARTS):
        project = record_failed_start(project, "why", str(number))
    assert allow_retry(project, "other").unfit == "why"


def obstacle(kind, about="", others=(), **variables):
    return Obstacle("m", kind, about, others, variables, has_started=False)


def test_a_module_is_excluded_if_a_variable_it_reads_differs_a_second_time():
    plan = correct_plan(PLAN, obstacle("variable", "A", A="1"))
    assert plan.variables == {"A": "1"}
    plan = correct_plan(plan, obstacle("variable", "A", A=None))
    assert plan.variables == {}
    plan = correct_plan(plan, obstacle("variable", "A", A="1"))
    assert plan.variables == {}
    assert "A" in plan.excluded["m"]


@pytest.mark.parametrize(
    "kind", ["hidden", "found", "rewriting", "warning", "replaced", "module", "directory", "finder", "logger"]
)
def test_a_module_whose_import_cannot_be_reproduced_is_excluded(kind):
    assert "m" in correct_plan(PLAN, obstacle(kind, "x")).excluded


def test_all_users_of_a_replaced_module_are_excluded():
    assert {"m", "n"} <= correct_plan(PLAN, obstacle("module", "x", ["n"])).excluded.keys()


def test_a_module_shadowed_by_the_workspace_stays_in_the_plan():
    hidden = obstacle("hidden", "x")
    assert hidden.hidden_module == "m"
    assert obstacle("found", "x").hidden_module == "x"
    assert obstacle("warning", "x").hidden_module == ""
    assert correct_plan(PLAN, hidden, is_hidden_by_workspace=True) == PLAN


def test_modules_that_import_a_workspace_module_are_not_excluded_permanently():
    found = {
        "importer": "imports calendar",
        "package.importer": "imports importer",
        "threads": "changes threads",
        "user": "imports threads.pool",
        "of_project": "imports mine.sub",
    }
    known = {"mine": "belongs to the workspace"}
    assert lasting_exclusions(found, known).keys() == {"threads", "user", "of_project"}


def test_all_modules_of_an_import_that_may_keep_replaced_functions_are_excluded():
    assert correct_plan(PLAN, obstacle("replaced", "time", ("n", "o"))).excluded.keys() == {"m", "n", "o"}
    assert correct_plan(PLAN, obstacle("hidden", "x", ("n",))).excluded.keys() == {"m"}


def test_a_changed_file_is_reread_unless_it_keeps_changing():
    plan = PLAN
    for _ in range(MAX_FILE_CHANGES - 1):
        plan = correct_plan(plan, obstacle("file", "/lib/m.py"))
        assert "m" not in plan.excluded
    assert "m" in correct_plan(plan, obstacle("file", "/lib/m.py")).excluded


def test_a_learned_plan_round_trips_through_its_file(tmp_path):
    saved = SavedPlans(tmp_path / "plans")
    plan = replace(
        PLAN,
        late=("numpy",),
        variables={"OMP_NUM_THREADS": "1", "TOKEN": "x"},
        excluded={"m": "why"},
        registries={"m": ("a",)},
    )
    project = Project(plan=plan, stamp="s", off="differs", plain_start_s=1.5)
    saved.save("/python", tmp_path, KNOWN_PACKAGES, project)
    loaded = saved.load("/python", tmp_path, KNOWN_PACKAGES)
    assert loaded == replace(project, plan=replace(plan, variables={"OMP_NUM_THREADS": "1"}))
    assert saved.load("/other", tmp_path, KNOWN_PACKAGES) is None
    (saved_file,) = (tmp_path / "plans").iterdir()
    assert saved_file.stat().st_mode & 0o777 == 0o600
    saved_file.write_text('{"version": 1}')
    assert saved.load("/python", tmp_path, KNOWN_PACKAGES) is None


def test_the_oldest_plans_are_deleted(tmp_path):
    saved = SavedPlans(tmp_path)
    for number in range(MAX_PLANS + 3):
        saved.save(f"/python{number}", tmp_path, KNOWN_PACKAGES, PROJECT)
    assert len(list(tmp_path.iterdir())) == MAX_PLANS
    assert saved.load(f"/python{MAX_PLANS + 2}", tmp_path, KNOWN_PACKAGES) is not None


def test_a_plan_separates_libraries_imported_before_and_after_the_first_module():
    record = RunRecord(
        (("pytest", "/lib/pytest.py"), ("conftest", "/project/conftest.py"), ("click", "/lib/click.py"), ("zlib", "")),
        ("/lib/",),
    )
    plan = plan_from_run(record, ["mine"])
    assert plan.early == ("pytest",)
    assert plan.late == ("click", "zlib")
    assert set(plan.excluded) == {"mine"}


def test_a_plan_has_only_known_packages_and_the_standard_library():
    names = (
        "pytest",
        "_pytest.config",
        "queue",
        "logic",
        "_pytest.pathlib",
        "click",
        "mystery",
        "click_mystery",
        "google.x",
    )
    modules = tuple((name, f"/{'project' if name == 'logic' else 'lib'}/{name}.py") for name in names)
    plan = plan_from_run(RunRecord(modules, ("/lib/",)), [])
    assert plan.early == ("pytest", "_pytest.config", "queue")
    assert plan.late == ("_pytest.pathlib", "click")
    later = (*modules, ("click.testing", "/lib/click/testing.py"), ("other", "/lib/other.py"))
    assert RunRecord(later, ("/lib/",)).missing_modules(plan) == ("click.testing",)


def test_a_plan_made_for_other_packages_is_not_used(tmp_path):
    saved = SavedPlans(tmp_path)
    saved.save("/python", tmp_path, frozenset({"click"}), PROJECT)
    assert saved.load("/python", tmp_path, frozenset({"click"})) is not None
    assert saved.load("/python", tmp_path, frozenset({"click", "other"})) is None


def test_a_change_to_a_file_read_at_startup_replaces_the_process_but_not_the_plan():
    assert correct_plan(PLAN, obstacle("startup", "/lib/sitecustomize.py")) == PLAN


def test_a_library_imported_under_a_replaced_clock_is_excluded():
    modules = (("click", "/lib/click.py"), ("queue", "/lib/queue.py"), ("logic", "/project/logic.py"))
    record = RunRecord(modules, ("/lib/",), under_replaced_clock=frozenset({"queue", "logic"}))
    assert set(plan_from_run(record, []).excluded) == {"queue"}
