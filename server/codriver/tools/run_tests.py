"""`run_tests`: the tests of a project, found and run in its REPL as an evaluation of their own."""

from __future__ import annotations

from codriver.tools.acts.test_runs import TestArguments, run_tests
from codriver.tools.calls.base import ROWS, TEXTS, Tool, answer_schema

TOOLS = (
    Tool(
        name="run_tests",
        title="Run tests",
        description="Run tests in the REPL (Python: pytest); failures first.",
        arguments=TestArguments,
        output=answer_schema(
            tests="integer",
            passed="integer",
            failed="integer",
            errors="integer",
            results=ROWS,
            count="integer",
            omitted="integer",
            stdout="string",
            onlyInThisRepl=TEXTS,
            evaluationId="string",
            status="string",
            elapsedMs="integer",
            sessionKey="string",
        ),
        run=run_tests,
        needs=("test",),
        setting="enable_mcp_repl_evaluation",
        destructive=True,
        open_world=True,
        search_hint="run unit tests pytest clojure.test",
    ),
)
