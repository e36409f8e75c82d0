"""The queries about recorded runs in the log reference return the expected results."""

import json
import re
from pathlib import Path

import pytest
from made_runs import TWO_PRICES

from codriver.features.traces.recorded_runs import QUERY_RULES, RUN_SCHEMA, RUNS_SOURCE, RecordedRuns
from codriver.log.output_log import OutputLog
from codriver.log.query_sources import QuerySource

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "log.md").read_text()
RUN_TABLE = re.search(r"<!-- queries of runs -->\n(.*?)<!-- /queries of runs -->", PAGE, re.DOTALL)[1]
OF_RUNS = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in RUN_TABLE.splitlines()[2:]]
FOUND_IN_RUNS = {
    "Which was the first call that returned None?": 3,
    "Which calls of price had an amount above 20?": [[4, "{'price': 2}, 25", "40.0"]],
    "Which calls raised an error?": [["shop.stored", "KeyError('rate')"]],
    "What did total call, and how often?": [["shop.price", 2], ["shop.stored", 1]],
    "What had been called before the error?": ["shop.price", "shop.stored", "shop.total"],
}


def test_each_query_about_runs_has_an_expected_answer():
    assert {row[0] for row in OF_RUNS} == FOUND_IN_RUNS.keys()


@pytest.mark.parametrize("row", OF_RUNS, ids=lambda row: row[0])
def test_a_query_about_runs_returns_its_expected_answer(row):
    question, query, inputs = row
    runs = RecordedRuns()
    runs.store("e1", TWO_PRICES)
    requested = OutputLog()
    requested.sources = requested.sources.with_sources([(QuerySource(RUNS_SOURCE, RUN_SCHEMA, QUERY_RULES), runs)])
    found = requested.query(query, inputs=json.loads(inputs or "[]")).result
    assert (sorted(found) if isinstance(found, list) else found) == FOUND_IN_RUNS[question]
