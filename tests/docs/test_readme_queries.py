"""The queries in the log reference find what they are meant to find."""

import json
import re
from pathlib import Path

import pytest

from codriver.features.applications.app_log import APP_SOURCE, AppEvent, AppLog
from codriver.log.log_entries import UNASSIGNED_LINE, Entry
from codriver.log.output_log import OutputLog

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "log.md").read_text()
TABLE = re.search(r"<!-- queries -->\n(.*?)<!-- /queries -->", PAGE, re.DOTALL)[1]
ROWS = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in TABLE.splitlines()[2:]]

FOUND = {
    "What went wrong?": [[4, "Timeout: no answer"]],
    "Who evaluated how much?": [["jupyter", 1], ["me", 1], ["you", 1]],
    "What did others do since line 3?": [4, 5],
    "Which result belongs to which code?": [["(price 10)", "12"]],
    "Where was a time-out mentioned?": [[4, "Timeout: no answer"]],
    "How was it done last week?": ["(defn price [x] (* 1.2 x))"],
    "Which code in the kernel uses a value from Clojure?": [["12", "total = 12 * 3"]],
    "What did my changes do in the application?": [[6, "7 fx db/write app price/set d3"]],
    "What did the human evaluate in each notebook?": [["/shop/sales.ipynb", 5, "total = 12 * 3"]],
}


def log():
    log = OutputLog()
    log.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "(price 10)", 1, who="me", evaluation="e1"))
    log.append(Entry(UNASSIGNED_LINE, "evaluationResults", "12", 2, who="me", session_key="clj", evaluation="e1"))
    log.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "(fetch)", 3, who="you", evaluation="e2"))
    log.append(Entry(UNASSIGNED_LINE, "evaluationErrorOutput", "Timeout: no answer", 4, who="you", evaluation="e2"))
    cell = {"who": "jupyter", "session_key": "sales-ipynb", "notebook": "/shop/sales.ipynb", "evaluation": "e3"}
    log.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "total = 12 * 3", 5, **cell))
    return log


def app_of(log):
    app = AppLog(log.allocate_line)
    app.record(AppEvent("7 fx db/write app price/set d3", 6, who="me", evaluation="e1"))
    app.record(AppEvent("8 log app", 7))
    return app


def history():
    history = OutputLog()
    history.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "(defn price [x] (* 1.2 x))", 1, who="me"))
    history.append(Entry(UNASSIGNED_LINE, "evaluatedCode", "(fetch)", 2, who="me"))
    return history


def test_each_query_on_the_page_has_an_expected_answer():
    assert {row[0] for row in ROWS} == FOUND.keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_query_on_the_page_returns_its_expected_answer(row):
    question, query, inputs = row
    requested = log()
    requested.sources = requested.sources.with_sources([(APP_SOURCE, app_of(requested))])
    answer = requested.query(query, inputs=json.loads(inputs or "[]"), history=history())
    rows = [row[0]["line"] if isinstance(row[0], dict) else row for row in answer.result]
    assert sorted(rows) == FOUND[question]
