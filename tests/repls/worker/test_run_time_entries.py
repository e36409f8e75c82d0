"""Entries that were added to a collection at run time survive a load that fills the collection again, or are named."""

import importlib
import sys

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

MODULE = """\
RATE = 2
HANDLERS = {}
NAMES = ['base']
class Bus:
    def __init__(self):
        self.listeners = {}
    def on(self, name):
        def register(function):
            self.listeners[name] = function, RATE
            return function
        return register
BUS = Bus()
def handler(name, rate=RATE):
    def register(function):
        HANDLERS[name] = function, rate
        NAMES.append(name)
        return function
    return register
@handler('first')
@BUS.on('start')
def first():
    return 1
@handler('second')
def second():
    return 2
"""


class Module:
    def __init__(self, folder):
        self.shop = None
        self.file = folder / "shop_in_project.py"
        self.texts = ProjectTexts(folder)
        self.drift = Drift(self.texts)
        self.undo = UndoRecords([str(folder)])

    def load(self, text):
        """Load a source, and return the entries that the load reports as removed."""
        self.file.write_text(text)
        load = ModuleLoad("shop_in_project", str(self.file), text, self.undo.record_for("edit"), self.drift, home=sys)
        load.prepare()
        has_failed = True
        try:
            for step in load.plan_steps():
                step.act()
            has_failed = False
        finally:
            load.finish(has_failed=has_failed)
        return [(row["name"], row["of"]) for row in load.renewed if row["kind"] == "lost"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    found = Module(tmp_path)
    found.file.write_text(MODULE)
    found.texts.start_recording()
    found.shop = importlib.import_module("shop_in_project")
    found.texts.record_names()
    found.texts.read_recent_sources()
    yield found
    found.texts.stop_recording()
    sys.modules.pop("shop_in_project", None)


def test_entries_added_at_run_time_survive_a_renamed_registration(module):
    shop = module.shop
    shop.HANDLERS["later"] = (len, 5)
    shop.NAMES.append("later")
    assert module.load(MODULE.replace("'second'", "'other'")) == []
    assert {name: value[1] for name, value in shop.HANDLERS.items()} == {"first": 2, "other": 2, "later": 5}
    assert shop.NAMES == ["base", "first", "other", "later"]


def test_entries_added_at_run_time_survive_a_second_load(module):
    module.shop.HANDLERS["later"] = (len, 5)
    module.load(MODULE.replace("'second'", "'other'"))
    module.load(MODULE.replace("'second'", "'third'"))
    assert list(module.shop.HANDLERS) == ["first", "third", "later"]


def test_entries_in_an_object_survive_when_the_object_is_created_again(module):
    module.shop.BUS.listeners["later"] = (len, 5)
    assert module.load(MODULE.replace("'start'", "'begin'")) == []
    assert list(module.shop.BUS.listeners) == ["begin", "later"]


def test_entries_are_named_when_the_collection_is_assigned_differently(module):
    module.shop.NAMES.append("later")
    assert module.load(MODULE.replace("['base']", "['root']")) == [("NAMES", "1")]
    assert module.shop.NAMES == ["root", "first", "second"]


def test_a_removed_registration_does_not_come_back(module):
    assert module.load(MODULE.replace("@handler('second')\n", "")) == []
    assert list(module.shop.HANDLERS) == ["first"]
    assert module.shop.NAMES == ["base", "first"]


ORDER = """\
def first():
    return 1
READERS = {'csv': len, 'json': first}
COMMANDS = {}
def command(name):
    return lambda function: COMMANDS.setdefault(name, function)
@command('build')
def build():
    pass
USAGE = 'commands: ' + ', '.join(COMMANDS)
COMMANDS['make'] = COMMANDS['build']
def score(word):
    return len(word)
def best_of(items):
    best = None
    for item in items:
        if best is None:
            best = item
        elif score(item) > score(best):
            best = item
    return best
NAMES = ['a', 'bb']
BEST = best_of(NAMES)
"""


@pytest.fixture
def ordered(module):
    module.load(ORDER)
    assert (module.shop.USAGE, module.shop.BEST) == ("commands: build", "bb")
    return module


def test_an_edited_order_of_a_dictionary_is_kept(ordered):
    ordered.load(ORDER.replace("{'csv': len, 'json': first}", "{'json': first, 'csv': len}"))
    assert list(ordered.shop.READERS) == ["json", "csv"]


def test_entries_that_later_statements_only_read_are_not_hidden(ordered):
    ordered.load(ORDER.replace("'commands: '", "'all: '"))
    assert ordered.shop.USAGE == "all: build"
    assert list(ordered.shop.COMMANDS) == ["build", "make"]


def test_a_function_that_is_called_in_a_branch_after_a_comparison_with_none_is_followed(ordered):
    ordered.load(ORDER.replace("return len(word)", "return -len(word)"))
    assert ordered.shop.BEST == "a"
