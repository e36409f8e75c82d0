"""An error in the worker while it follows a change becomes a note of the load, which itself succeeds."""

import importlib
import sys
from unittest import mock

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python import module_loads
from codriver.repls.worker.python.dependent_modules import DependentModules
from codriver.repls.worker.python.edits import edited_module
from codriver.repls.worker.python.edits.change_planner import ChangePlanner
from codriver.repls.worker.python.edits.load_steps import LoadStepBuilder
from codriver.repls.worker.python.edits.refill_planner import RefillPlanner
from codriver.repls.worker.python.follow_up.followers import Followers
from codriver.repls.worker.python.follow_up.reports import Reports
from codriver.repls.worker.python.live_functions import LiveCode
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift
from codriver.repls.worker.python.rebuilds import Rebuilds

SHOP = """\
RATE = 2
def price(x):
    return x * RATE
class Cart:
    limit = 3
DOUBLE = RATE * 2
TABLE = {}
TABLE['rate'] = RATE
"""
BASKET = """\
from shop_of_faults import RATE
TOTAL = RATE + 1
"""
FAULTS = {
    "seeds": (Followers, "prepare"),
    "changed code": (Followers, "find_changes"),
    "statement": (Followers, "follow"),
    "other modules": (Followers, "other_sources"),
    "order of modules": (DependentModules, "find_importers"),
    "late statements": (Followers, "update_late_dependents"),
    "registrations": (Reports, "report_grown"),
    "chain": (Rebuilds, "statement_chain"),
    "plan": (ChangePlanner, "plan_change"),
    "chains": (RefillPlanner, "plan_refills"),
    "steps": (LoadStepBuilder, "in_source_order"),
    "functions": (LiveCode, "update_functions"),
    "comparison": (edited_module, "compare"),
    "references": (module_loads, "update_remaining_objects"),
    "rows": (ModuleLoad, "_report_rows"),
}


@pytest.fixture
def load_edit(tmp_path, monkeypatch):
    """Return a function that imports two modules, edits the first one, and returns the rows of its load."""
    monkeypatch.syspath_prepend(str(tmp_path))
    texts = ProjectTexts(tmp_path)
    texts.start_recording()

    def load(*changes):
        file = tmp_path / "shop_of_faults.py"
        file.write_text(SHOP)
        (tmp_path / "basket_of_faults.py").write_text(BASKET)
        importlib.invalidate_caches()
        for name in ("shop_of_faults", "basket_of_faults"):
            importlib.import_module(name)
        texts.record_names()
        texts.read_recent_sources()
        text = SHOP
        for old, new in changes:
            text = text.replace(old, new)
        file.write_text(text)
        load = ModuleLoad("shop_of_faults", str(file), text, UndoRecords([]).record_for(""), Drift(texts), home=sys)
        load.prepare()
        has_failed = True
        try:
            steps = load.plan_steps()
            if steps is None:
                exec(compile(text, str(file), "exec"), load.module.__dict__)
            for step in steps or ():
                step.act()
            has_failed = False
        finally:
            load.finish(has_failed=has_failed)
        return load.module, load.renewed

    yield load
    texts.stop_recording()
    for name in ("shop_of_faults", "basket_of_faults"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_while_updating_dependents_is_noted_in_the_answer_to_the_load(load_edit, fault):
    with mock.patch.object(*FAULTS[fault], side_effect=KeyError("injected")) as broken:
        shop, rows = load_edit(("RATE = 2", "RATE = 5"), ("x * RATE", "x * RATE + 1"))
    assert broken.called
    reported = [row for row in rows if row["kind"] == "stays" and "could not be applied to everything" in row["of"]]
    assert reported, rows
    assert all("KeyError: 'injected'" in row["of"] and "`whole: true`" in row["of"] for row in reported)
    if fault != "plan":  # there, the failed step is the change itself
        assert (shop.RATE, shop.price(1)) == (5, 6)


def test_a_load_without_errors_adds_no_note(load_edit):
    shop, rows = load_edit(("RATE = 2", "RATE = 5"), ("x * RATE", "x * RATE + 1"))
    assert (shop.DOUBLE, shop.TABLE, sys.modules["basket_of_faults"].TOTAL) == (10, {"rate": 5}, 6)
    assert [row for row in rows if row["kind"] == "stays"] == []


def test_an_edited_statement_that_fails_still_fails_the_load(load_edit):
    with pytest.raises(ZeroDivisionError):
        load_edit(("RATE = 2", "RATE = 1 / 0"))


def test_a_dependent_statement_that_fails_after_the_change_is_reported(load_edit):
    shop, rows = load_edit(("RATE = 2", "RATE = None"))
    assert shop.RATE is None
    assert [(row["name"], row["of"]) for row in rows if row["kind"] == "stays"] == [
        ("DOUBLE", "line 6: the statement used RATE, which has changed, and running it again raised TypeError"),
        ("TOTAL", "line 2: the statement used RATE, which has changed, and running it again raised TypeError"),
    ]
