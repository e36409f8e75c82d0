"""Pull: the attributes of an entity, on its own and in a query."""

import pytest

from codriver.log.log_entries import ENTRY_SCHEMA, UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog
from codriver_datalog.edn import Text, read_form
from codriver_datalog.query_parser import parse_pull
from codriver_datalog.solve import pull_entity


@pytest.fixture
def snapshot():
    log = OutputLog()
    log.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "(+ 1 1)", 5, who="ann"))
    log.append(Entry(UNASSIGNED_LINE, "otherOutput", "2", 6))
    return log.snapshot()


def pulled(snapshot, entity, pattern):
    text = Text(pattern, "pull pattern")
    return pull_entity(snapshot, entity, parse_pull(text, read_form(text), ENTRY_SCHEMA))


def test_a_pull_returns_every_attribute_without_its_namespace(snapshot):
    whole = {"id": 1, "line": 1, "category": "evaluatedCode", "text": "(+ 1 1)", "timestamp": 5, "who": "ann"}
    assert pulled(snapshot, 1, "[*]") == whole


def test_a_missing_attribute_is_omitted_or_has_its_default(snapshot):
    assert pulled(snapshot, 2, "[:output/who :output/text]") == {"id": 2, "text": "2"}
    assert pulled(snapshot, 2, '[(:output/who :default "nobody")]') == {"id": 2, "who": "nobody"}
    assert pulled(snapshot, 1, '[(:output/who :default "nobody")]') == {"id": 1, "who": "ann"}


def test_a_wildcard_pull_can_also_rename_an_attribute(snapshot):
    displayed = pulled(snapshot, 2, "[* [:output/text :as :said]]")
    assert (displayed["said"], displayed["text"]) == ("2", "2")


@pytest.mark.parametrize("entity", [3, 0, "1", None, 1.5])
def test_a_missing_entity_pulls_nothing(snapshot, entity):
    assert pulled(snapshot, entity, "[*]") is None
