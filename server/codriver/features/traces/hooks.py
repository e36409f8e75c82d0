"""The hooks that add call traces to a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.features.traces import arguments, since_passed, trace_answers
from codriver.features.traces.extra import REPORT, RUN_REPLY_FIELD, CallTrace
from codriver.features.traces.nrepl_recording import CallTraces
from codriver.features.traces.recorded_runs import RULES, RUN_SCHEMA, RUNS, RecordedRuns
from codriver.log.query_sources import QuerySource
from codriver.repls.contract.extras import AdapterHooks
from codriver.server_hooks import Part, Report, ServerHooks
from codriver.tools.calls.arguments import AddedArguments
from codriver.tools.calls.call import CallHooks

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.tools.calls.call import Services


def _make(services: Services, _tasks: TaskGroup) -> RecordedRuns:
    runs = RecordedRuns(redact=services.log.without_secrets)
    services.tests.recorded += (runs.store_test_run,)
    return runs


def _store_report(runs: RecordedRuns, _repl: str, evaluation: str | None, text: str) -> None:
    if evaluation is not None:
        runs.store(evaluation, text)


SERVER: Final = ServerHooks(
    parts=(Part(RecordedRuns, _make),),
    added_arguments=(
        AddedArguments(("evaluate_code",), arguments.TraceArguments),
        AddedArguments(("run_tests",), arguments.TestTraceArguments),
    ),
    calls=CallHooks(
        prepare=(arguments.prepare,),
        recorders=(arguments.recorders,),
        complete=(trace_answers.with_trace,),
        hints=(arguments.hint,),
        failed=(since_passed.begin,),
        parts={"trace": trace_answers.read_part},
    ),
    adapters=AdapterHooks(reply_fields={RUN_REPLY_FIELD: REPORT}, around={CallTrace: CallTraces}),
    reports=(Report(REPORT, RecordedRuns, _store_report),),
    query_sources=((QuerySource(RUNS, RUN_SCHEMA, RULES), RecordedRuns),),
)
