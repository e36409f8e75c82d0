"""The queries of the log's page find what their questions ask for."""

import json
import re
from pathlib import Path

import pytest
from made_runs import TWO_PRICES

from codriver.features.traces.recorded_runs import RULES, RUN_SCHEMA, RUNS, RecordedRuns
from codriver.log.logbook import AppEvent, AppLog
from codriver.log.output_log import NO_LINE, Entry, OutputLog
from codriver.log.query_sources import QuerySource

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "log.md").read_text()
TABLE = re.search(r"<!-- queries -->\n(.*?)<!-- /queries -->", PAGE, re.DOTALL)[1]
ROWS = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in TABLE.splitlines()[2:]]
RUN_TABLE = re.search(r"<!-- queries of runs -->\n(.*?)<!-- /queries of runs -->", PAGE, re.DOTALL)[1]
OF_RUNS = [[cell.strip(" `") for cell in line.strip("|").split(" | ")] for line in RUN_TABLE.splitlines()[2:]]
FOUND_IN_RUNS = {
    "Which was the first call that returned None?": 3,
    "Which calls of price had an amount above 20?": [[4, "{'price': 2}, 25", "40.0"]],
    "Which errors left which calls?": [["shop.stored", "KeyError('rate')"]],
    "What was called under total, how often?": [["shop.price", 2], ["shop.stored", 1]],
    "What had been called before the error?": ["shop.price", "shop.stored", "shop.total"],
}

FOUND = {
    "What went wrong?": [[4, "Timeout: no answer"]],
    "Who evaluated how much?": [["jupyter", 1], ["me", 1], ["you", 1]],
    "What did others do since line 3?": [4, 5],
    "What came of which code?": [["(price 10)", "12"]],
    "Where was a time-out mentioned?": [[4, "Timeout: no answer"]],
    "How was it done last week?": ["(defn price [x] (* 1.2 x))"],
    "Which code of the kernel uses a value that Clojure gave?": [["12", "total = 12 * 3"]],
    "What came of my changes, in the application?": [[6, "7 fx db/write app price/set d3"]],
    "What did the human evaluate in which notebook?": [["/shop/sales.ipynb", 5, "total = 12 * 3"]],
}


def log():
    log = OutputLog()
    log.append(Entry(NO_LINE, "evaluatedCode", "(price 10)", 1, who="me", evaluation="e1"))
    log.append(Entry(NO_LINE, "evaluationResults", "12", 2, who="me", session_key="clj", evaluation="e1"))
    log.append(Entry(NO_LINE, "evaluatedCode", "(fetch)", 3, who="you", evaluation="e2"))
    log.append(Entry(NO_LINE, "evaluationErrorOutput", "Timeout: no answer", 4, who="you", evaluation="e2"))
    cell = {"who": "jupyter", "session_key": "sales-ipynb", "notebook": "/shop/sales.ipynb", "evaluation": "e3"}
    log.append(Entry(NO_LINE, "evaluatedCode", "total = 12 * 3", 5, **cell))
    return log


def app_of(log):
    app = AppLog(log.line_for_another)
    app.record(AppEvent("7 fx db/write app price/set d3", 6, who="me", evaluation="e1"))
    app.record(AppEvent("8 log app", 7))
    return app


def history():
    history = OutputLog()
    history.append(Entry(NO_LINE, "evaluatedCode", "(defn price [x] (* 1.2 x))", 1, who="me"))
    history.append(Entry(NO_LINE, "evaluatedCode", "(fetch)", 2, who="me"))
    return history


def test_each_question_of_the_page_has_its_answer_here():
    assert {row[0] for row in ROWS} == FOUND.keys()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_query_of_the_page_answers_its_question(row):
    question, query, inputs = row
    asked = log()
    answer = asked.query(query, inputs=json.loads(inputs or "[]"), app=app_of(asked), history=history())
    rows = [row[0]["line"] if isinstance(row[0], dict) else row for row in answer.result]
    assert sorted(rows) == FOUND[question]


def test_each_question_about_runs_has_its_answer_here():
    assert {row[0] for row in OF_RUNS} == FOUND_IN_RUNS.keys()


@pytest.mark.parametrize("row", OF_RUNS, ids=lambda row: row[0])
def test_a_query_of_the_page_about_runs_answers_its_question(row):
    question, query, inputs = row
    runs = RecordedRuns()
    runs.keep("e1", TWO_PRICES)
    asked = log()
    asked.sources = asked.sources.with_sources([(QuerySource(RUNS, RUN_SCHEMA, RULES), runs)])
    found = asked.query(query, inputs=json.loads(inputs or "[]")).result
    assert (sorted(found) if isinstance(found, list) else found) == FOUND_IN_RUNS[question]
