"""An object in which an application registers entries behaves like its new version for all code that references it."""

import importlib
import sys

import pytest
from project_texts import ProjectTexts

from codriver.repls.worker.basics.undo_records import UndoRecords
from codriver.repls.worker.python import successors
from codriver.repls.worker.python.module_loads import ModuleLoad
from codriver.repls.worker.python.python_drift import Drift

PARSER = """\
import argparse
NAME = 'first'
def build(prog=NAME):
    parser = argparse.ArgumentParser(prog=prog)
    parser.add_argument('--limit', type=int, default=1)
    return parser
PARSER = build()
OTHER = argparse.ArgumentParser(prog='other')
OTHER.add_argument('--depth', type=int, default=2)
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Return a function that edits a module, loads it and returns it with the record of the load."""
    monkeypatch.syspath_prepend(str(tmp_path))
    file = tmp_path / "parsers_in_project.py"
    file.write_text(PARSER)
    texts = ProjectTexts(tmp_path)
    texts.start_recording()
    importlib.invalidate_caches()
    module = importlib.import_module("parsers_in_project")
    texts.record_names()
    texts.read_recent_sources()
    drift, undo = Drift(texts), UndoRecords([str(tmp_path)])

    def load(old, new):
        text = PARSER.replace(old, new)
        file.write_text(text)
        found = ModuleLoad(module.__name__, str(file), text, undo.record_for("edit"), drift, home=sys)
        found.prepare()
        for step in found.plan_steps():
            step.act()
        found.finish(has_failed=False)
        assert [row for row in found.renewed if row["kind"] == "stays"] == []
        return undo

    yield module, load
    texts.stop_recording()
    sys.modules.pop("parsers_in_project", None)


def test_only_the_latest_successor_of_an_object_is_retained(load):
    _, edit = load
    before = len(successors._successors)
    for name in ("another", "third", "fourth"):
        edit("prog='other'", f"prog='{name}'")
    assert len(successors._successors) == before + 1


def test_an_edited_object_keeps_its_identity_and_the_entries_registered_in_it(load):
    module, edit = load
    parser = module.OTHER
    edit("prog='other'", "prog='another'")
    assert module.OTHER is parser
    assert parser.prog == "another"
    assert parser.parse_args([]).depth == 2


def test_an_object_created_by_a_factory_keeps_its_identity(load):
    module, edit = load
    parser = module.PARSER
    parser.parse_args([])
    edit("default=1", "default=3")
    assert module.PARSER is parser
    assert parser.parse_args([]).limit == 3


def test_undoing_the_load_restores_the_previous_attributes(load):
    module, edit = load
    parser = module.PARSER
    undo = edit("NAME = 'first'", "NAME = 'second'")
    assert parser.prog == "second"
    undo.close_record("edit", puts_back=True)
    assert module.PARSER is parser
    assert parser.prog == "first"
