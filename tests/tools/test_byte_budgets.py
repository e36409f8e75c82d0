"""Byte budgets for the lists and answers that a model has to read, the same on every machine.

Each bound is the current size of its answer. A change that makes an answer shorter lowers its bound.
"""

from dataclasses import replace

import pytest
from all_tools import BY_NAME
from reading_cost import PROFILES, CountingClient, answers_of, clojure, compact, python, skills_of, workspace_of
from reading_tasks import TASKS, run_calls
from real_repls import repl

BUDGETS = {
    # row: (bytes on the wire, bytes of the text that the model reads)
    "python, tools/list and instructions": (11_882, 8_793),
    "python, tools/list and instructions, claude": (11_920, 8_793),
    "python, output schemas": (1_016, 0),
    "python, output schemas, codex": (0, 0),
    "python, output schemas, cline": (0, 0),
    "python, 1+2, codex": (120, 24),
    "python, 1+2, cline": (120, 24),
    "python, 0, a client's first call": (225, 51),
    "python, 1+2": (165, 24),
    "python, 1/0": (394, 132),
    "python, exception six frames deep": (889, 369),
    "python, 10 MB printed": (6_614, 3_243),
    "python, 200,000 lines": (7_061, 3_232),
    "python, list of 1,000,000": (545, 210),
    "python, a test that fails": (1_022, 436),
    "python, a fix, loaded and tested": (469, 167),
    "clojure, tools/list and instructions": (11_067, 8_245),
    "clojure, tools/list and instructions, claude": (11_105, 8_245),
    "clojure, tools/list and instructions, codex": (9_926, 8_245),
    "clojure, tools/list and instructions, qwen": (11_067, 8_245),
    "clojure, output schemas": (981, 0),
    "clojure, output schemas, codex": (0, 0),
    "clojure, output schemas, qwen": (981, 0),
    "clojure, output schemas, cline": (0, 0),
    "clojure, 1+2, codex": (120, 24),
    "clojure, 1+2, cline": (120, 24),
    "clojure, 0, a client's first call": (225, 51),
    "clojure, 1+2": (165, 24),
    "clojure, 1/0": (414, 142),
    "clojure, exception six frames deep": (510, 188),
    "clojure, 10 MB printed": (6_648, 3_258),
    "clojure, 200,000 lines": (7_095, 3_247),
    "clojure, list of 1,000,000": (495, 185),
    "the two skills": (9_241, 8_586),
    "the skill of applications": (3_527, 3_189),
    "the skills with all their pages": (17_589, 16_231),
}
"""Of every client; a row with a profile behind it, such as `python, 1+2, codex`, is the bound of that client alone."""

OF_NOTEBOOKS = {"list_cells": 325, "run_cell": 659}
"""What a model reads of these where there is a notebook, and of the second a kernel; else neither is in a list."""
OF_APPS = {"inspect_app": 892, "change_app": 628, "watch_app": 493}
"""What a model reads of these where an application shows itself; else neither is in a list."""


def whose(row):
    """Return the table row for clients without their own limit."""
    rest, _, profile = row.rpartition(", ")
    return rest if profile in PROFILES and row not in BUDGETS else row


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
def test_no_answer_exceeds_its_byte_budget(language, request):
    costs = request.getfixturevalue(f"{language}_costs")
    other = "clojure, " if language == "python" else ("python, ", "the ")
    assert {whose(row) for row in costs} == {row for row in BUDGETS if not row.startswith(other)}
    grown = {
        row: f"{cost.wire} on the wire, {cost.read} read; at most {BUDGETS[whose(row)]}"
        for row, cost in costs.items()
        if cost.wire > BUDGETS[whose(row)][0] or cost.read > BUDGETS[whose(row)][1]
    }
    assert grown == {}


@pytest.mark.parametrize("budgets", [OF_NOTEBOOKS, OF_APPS])
def test_tools_added_by_notebooks_or_applications_have_an_exact_byte_budget(budgets):
    tools = [BY_NAME[name] for name in budgets]
    seen = {
        tool.name: {"name": tool.name, "description": tool.description, "inputSchema": tool.schema} for tool in tools
    }
    assert {name: len(compact(displayed)) for name, displayed in seen.items()} == budgets


OF_TASKS = {
    "fix a failing test": 1_200,
    "find a slow function": 8_830,
    "recover after an endless loop": 6_600,
    "take over from another agent": 6_950,
}
"""What a model reads of the answers for each task in Python, with room for the digits of counts that vary."""


def test_whole_tasks_stay_within_their_byte_budgets(tmp_path):
    tasks = [task for task in reversed(TASKS) if task.name in OF_TASKS]
    language = python()
    files = language.files | {name: text for task in tasks for name, text in task.files.items()}
    read = {}
    with workspace_of(replace(language, files=files), tmp_path) as live:
        for task in tasks:
            with live.client(name=f"before-{len(read)}") as other, live.client(name=f"agent-{len(read)}") as client:
                run_calls(CountingClient(other, live.workspace), task.before, live.workspace)
                counting = CountingClient(client, live.workspace)
                run_calls(counting, task.calls, live.workspace)
                read[task.name] = counting.read
    assert {name: count for name, count in read.items() if count > OF_TASKS[name]} == {}
