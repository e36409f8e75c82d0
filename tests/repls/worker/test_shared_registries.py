"""A registry in another module is filled again after an edit, unless entries were added to it at run time."""

import importlib
import sys

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

REGISTRY = """\
HANDLERS = {}
ORDER = []
def handler(name):
    def register(function):
        if name == 'broken':
            raise ValueError(name)
        HANDLERS[name] = function
        ORDER.append(function.__name__)
        return function
    return register
"""
HANDLERS = """\
from registry_in_project import handler
@handler('first')
def first():
    return 1
@handler('second')
def second():
    return 2
"""


class Project:
    def __init__(self, folder):
        self.folder = folder
        self.texts = ProjectTexts(folder)
        self.drift = Drift(self.texts)
        self.undo = UndoRecords([str(folder)])

    def load(self, text):
        file = self.folder / "handlers_in_project.py"
        file.write_text(text)
        load = ModuleLoad("handlers_in_project", str(file), text, self.undo.record_for("edit"), self.drift, home=sys)
        load.prepare()
        has_failed = True
        try:
            for step in load.plan_steps():
                step.act()
            has_failed = False
        finally:
            load.finish(has_failed=has_failed)
        return {row["name"] for row in load.renewed if row["kind"] == "stays"}


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Project(tmp_path)
    made.texts.start_recording()
    for name, text in (("registry_in_project", REGISTRY), ("handlers_in_project", HANDLERS)):
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        setattr(made, name.partition("_")[0], importlib.import_module(name))
    made.texts.record_names()
    made.texts.read_recent_sources()
    yield made
    made.texts.stop_recording()
    for name in ("registry_in_project", "handlers_in_project"):
        sys.modules.pop(name, None)


def test_a_renamed_definition_replaces_its_entry_in_a_registry(project):
    handlers, order = project.registry.HANDLERS, project.registry.ORDER
    assert project.load(HANDLERS.replace("def first", "def other").replace("'first'", "'other'")) == set()
    assert list(handlers) == ["other", "second"]
    assert order == ["other", "second"]
    assert handlers is project.registry.HANDLERS


def test_registry_entries_added_at_run_time_are_kept_and_the_old_entry_is_reported(project):
    project.registry.HANDLERS["added"] = print
    assert project.load(HANDLERS.replace("def first", "def other").replace("'first'", "'other'")) == {"first"}
    assert list(project.registry.HANDLERS) == ["first", "second", "added", "other"]


def test_a_failed_load_leaves_registry_entries_unchanged(project):
    with pytest.raises(ValueError, match="broken"):
        project.load(HANDLERS.replace("'second'", "'broken'"))
    assert list(project.registry.HANDLERS) == ["first", "second"]
    assert project.registry.ORDER == ["first", "second"]


def test_undoing_a_load_restores_registry_entries(project):
    project.load(HANDLERS.replace("@handler('first')\n", ""))
    assert list(project.registry.HANDLERS) == ["second"]
    project.undo.close_record("edit", puts_back=True)
    assert list(project.registry.HANDLERS) == ["first", "second"]
    assert project.registry.ORDER == ["first", "second"]
