"""`run_tests`: run tests, and describe each failure with its values."""

from __future__ import annotations

from codriver.tools.calls.answer import ROWS_SCHEMA, STRINGS_SCHEMA, answer_schema
from codriver.tools.calls.tool import Tool
from codriver.tools.execution.affected_runs import run_chosen_tests
from codriver.tools.execution.test_arguments import TestArguments

TOOL = Tool(
    name="run_tests",
    title="Run tests",
    description="Run tests. Return counts and, for each failure, the values and code involved. pytest runs Python "
    "tests in a new process. After a failure, evaluate_code with frame runs code in it. Lisp tests run in the session.",
    arguments=TestArguments,
    output=answer_schema(
        passed="integer",
        failed="integer",
        errors="integer",
        skipped="integer",
        xfailed="integer",
        xpassed="integer",
        deselected="integer",
        collected="integer",
        warnings="integer",
        exitStatus="integer",
        runs="object",
        results=ROWS_SCHEMA,
        omitted="integer",
        stdout="string",
        changedDuring=STRINGS_SCHEMA,
        chosen="string",
        unfinished="integer",
        notFinished=STRINGS_SCHEMA,
        hashSeed="integer",
        repeat="string",
        evaluationId="string",
        status="string",
        elapsedMs="integer",
        sessionKey="string",
    ),
    run=run_chosen_tests,
    may_be_task=True,
    needs=("test",),
    setting="enable_mcp_repl_evaluation",
    destructive=True,
    open_world=True,
    search_hint="run unit tests pytest clojure.test",
)
