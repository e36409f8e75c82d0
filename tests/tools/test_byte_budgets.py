"""No answer grows: the bytes of the lists and answers that a model has to read have bounds, the same on every machine.

Each bound is the size that its answer has now. A change that makes an answer shorter lowers its bound.
"""

import pytest
from reading_cost import READERS, answers_of, clojure, python, skills_of, workspace_of
from real_repls import repl

BUDGETS = {
    # row: (bytes on the wire, bytes of the text that the model reads)
    "python, tools/list and instructions": (15_126, 6_645),
    "python, tools/list and instructions, claude": (15_202, 6_645),
    "python, tools/list and instructions, lean": (5322, 3343),
    "python, output schemas": (5882, 0),
    "python, output schemas, lean": (1722, 0),
    "python, 0, a client's first call": (595, 221),
    "python, 1+2": (527, 189),
    "python, 1/0": (1361, 586),
    "python, exception six frames deep": (3677, 1695),
    "python, 10 MB printed": (12_430, 6136),
    "python, 200,000 lines": (13_346, 6119),
    "python, list of 1,000,000": (831, 340),
    "clojure, tools/list and instructions": (18_834, 8_547),
    "clojure, tools/list and instructions, claude": (18_910, 8_547),
    "clojure, tools/list and instructions, codex": (19_538, 8_812),
    "clojure, tools/list and instructions, qwen": (19_538, 8_812),
    "clojure, tools/list and instructions, lean": (6832, 4542),
    "clojure, output schemas": (6875, 0),
    "clojure, output schemas, codex": (7089, 0),
    "clojure, output schemas, qwen": (7089, 0),
    "clojure, output schemas, lean": (1902, 0),
    "clojure, 0, a client's first call": (597, 222),
    "clojure, 1+2": (529, 190),
    "clojure, 1/0": (1214, 517),
    "clojure, exception six frames deep": (1334, 575),
    "clojure, 10 MB printed": (12_430, 6136),
    "clojure, 200,000 lines": (13_354, 6122),
    "clojure, list of 1,000,000": (751, 300),
    "the two skills": (8196, 7543),
    "the skills with all their pages": (17_292, 15_939),
}
"""Of every client; a row with a profile behind it, such as `python, 1+2, codex`, is the bound of that client alone."""


def whose(row):
    """The row of every client that this one is measured by, where its client has no bound of its own."""
    rest, _, profile = row.rpartition(", ")
    return rest if profile in READERS and row not in BUDGETS else row


@pytest.fixture(scope="module")
def python_costs(tmp_path_factory):
    with workspace_of(python(), tmp_path_factory.mktemp("python")) as live:
        return answers_of(python(), live) | skills_of(live)


@pytest.fixture(scope="module")
def clojure_costs(tmp_path_factory):
    language = clojure(repl("jvm").endpoint)
    with workspace_of(language, tmp_path_factory.mktemp("clojure")) as live:
        return answers_of(language, live)


@pytest.mark.parametrize("language", ["python", "clojure"])
def test_no_answer_has_more_bytes_than_its_budget(language, request):
    costs = request.getfixturevalue(f"{language}_costs")
    other = "clojure, " if language == "python" else ("python, ", "the ")
    assert {whose(row) for row in costs} == {row for row in BUDGETS if not row.startswith(other)}
    grown = {
        row: f"{cost.wire} on the wire, {cost.read} read; at most {BUDGETS[whose(row)]}"
        for row, cost in costs.items()
        if cost.wire > BUDGETS[whose(row)][0] or cost.read > BUDGETS[whose(row)][1]
    }
    assert grown == {}
