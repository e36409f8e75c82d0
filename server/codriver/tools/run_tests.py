"""`run_tests`: the tests that are loaded in a REPL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
from pydantic import Field

from codriver.core.actions import Say
from codriver.errors import RefusedError
from codriver.repls.errors import OpTimedOutError
from codriver.tools.answer_budget import budget, fit, head, json_bytes, tail
from codriver.tools.base import ROWS, Answer, Call, Tool, answer_schema
from codriver.tools.lean_answers import Evaluating, lean, reader_with, wants_detail
from codriver.tools.session_choice import resolve

if TYPE_CHECKING:
    from codriver.repls.adapter_values import TestResult, TestRun

MAX_RESULTS = 100
"""Results of one answer: who fails more than this reads the first ones first."""
TEXT_BYTES = 4000
"""Longest text of one result's `expected` or `actual`."""


class NoTestsError(RefusedError):
    """The run found no test."""

    reason = "no-tests"

    def __init__(self, namespace: str | None, said: str) -> None:
        where = f"in {namespace}" if namespace else "in the namespaces that are loaded"
        super().__init__(
            f"there are no tests {where}",
            hint="load the test file with load_file first, or in Python give its module as namespace; "
            "only tests that the REPL knows are run",
            details={"stdout": said} if said else None,
        )


class TestsTimedOutError(RefusedError):
    """The tests took longer than the caller would wait."""

    reason = "timed-out"

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(
            f"the tests did not end within {timeout_ms} ms; they were interrupted where the REPL can",
            hint="give a longer timeoutMs or run fewer tests with namespace and test; "
            "list_sessions shows whether the REPL can interrupt",
        )


class TestArguments(Evaluating):
    """Arguments of `run_tests`."""

    namespace: str | None = Field(None, description="Python: module.")
    test: str | None = None
    repl_session_key: str | None = None
    who: str | None = None
    timeout_ms: int = Field(25_000, ge=1000, le=600_000)
    passed: bool = Field(default=False, description="List these too.")


async def run_tests(call: Call, arguments: TestArguments) -> Answer:
    """Run tests, and say what failed first."""
    target = resolve(call.state, arguments.repl_session_key)
    who = call.who(arguments.who)
    adapter = call.services.repls.adapter(target.repl.id)
    began = anyio.current_time()
    try:
        run = await adapter.run_tests(
            arguments.namespace, arguments.test, target.session.name, timeout_s=arguments.timeout_ms / 1000
        )
    except OpTimedOutError as error:
        raise TestsTimedOutError(arguments.timeout_ms) from error
    if not run.tests and not run.results:
        raise NoTestsError(arguments.namespace, tail(run.output, TEXT_BYTES).text)
    what = "/".join(part for part in (arguments.namespace, arguments.test) if part) or "all tests"
    counts = f"{run.tests} tests, {run.passed} passed, {run.failed} failed, {run.errors} errors"
    call.dispatch(Say(f"{who} ran {what}: {counts}", error=bool(run.failed + run.errors), repl=target.repl.key))
    fields = run_json(run, passed=arguments.passed, max_bytes=budget(call))
    fields |= {"elapsedMs": round(1000 * (anyio.current_time() - began)), "sessionKey": target.key}
    if not wants_detail(call, arguments):
        fields = lean(fields, reader_with(call, arguments, who))
    if run.failed + run.errors:
        hint = "results lists errors and failures first, with file and line; load_file what you change, then run again"
        return Answer({**fields, "reason": "tests-failed", "hint": hint}, ok=False)
    return Answer(fields)


def run_json(run: TestRun, *, passed: bool, max_bytes: int) -> dict[str, object]:
    """A test run under the keys of an answer; the output from its end."""
    listed = [result for result in run.results if passed or result.outcome != "pass"]
    output = tail(run.output, max_bytes // 4).text
    room = max_bytes - json_bytes(output)
    rows, note, _ = fit([_result_json(result) for result in listed[:MAX_RESULTS]], room)
    fields: dict[str, object] = {
        "tests": run.tests,
        "passed": run.passed,
        "failed": run.failed,
        "errors": run.errors,
        "results": rows,
        "count": len(rows),
    }
    if len(listed) > len(rows):
        fields["omitted"] = len(listed) - len(rows)
    if note:
        fields["notes"] = [note.partition(":")[0]]
    if run.output:
        fields["stdout"] = output
    return fields


def _result_json(result: TestResult) -> dict[str, object]:
    pairs: dict[str, object] = {
        "test": result.test,
        "ns": result.namespace,
        "outcome": result.outcome,
        "file": result.file,
        "line": result.line,
    }
    for name, text in (("message", result.message), ("expected", result.expected), ("actual", result.actual)):
        pairs[name] = head(text, TEXT_BYTES).text if text else None
    return {key: value for key, value in pairs.items() if value is not None}


TOOLS = (
    Tool(
        name="run_tests",
        title="Run tests",
        description="Run the tests loaded in the REPL (Python: by pytest), of one namespace or all; failures first.",
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
