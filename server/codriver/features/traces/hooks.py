"""The hooks that add call traces to a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.features.traces import arguments, since_passed, trace_answers, watch_calls
from codriver.features.traces.call_log import CALL_SOURCE, CallLog
from codriver.features.traces.call_watches import CALLS_FIELD, CALLS_REPORT, WATCH_OP, CallWatches
from codriver.features.traces.nrepl_recording import CallTraces
from codriver.features.traces.recorded_runs import QUERY_RULES, RUN_SCHEMA, RUNS_SOURCE, RecordedRuns
from codriver.features.traces.recording_request import RUN_REPLY_FIELD, RUN_REPORT, RecordingRequest
from codriver.log.query_sources import QuerySource
from codriver.repls.contract.evaluation_extensions import AdapterHooks
from codriver.server_hooks import Part, Report, ServerHooks
from codriver.tools.calls.arguments import AddedArguments
from codriver.tools.calls.call import CallHooks

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from codriver.tools.calls.call import Services


def _make(services: Services, _tasks: TaskGroup) -> RecordedRuns:
    runs = RecordedRuns(redact=services.log.redact)
    services.tests.recorded += (runs.store_test_run,)
    return runs


def _log(services: Services, _tasks: TaskGroup) -> CallLog:
    log = services.log
    return CallLog(log.allocate_line, redact=log.redact, follower=services.history.record_used_line)


def _watches(services: Services, tasks: TaskGroup) -> CallWatches:
    async def end(repl: str, watch: str) -> str:
        return await services.repls.adapter(repl).call_op(WATCH_OP, {"watch": watch})

    return CallWatches(services.core, services.part(CallLog), tasks, end, services.workspace)


def _store_report(runs: RecordedRuns, _repl: str, evaluation: str | None, text: str) -> None:
    if evaluation is not None:
        runs.store(evaluation, text)


SERVER: Final = ServerHooks(
    tools=(watch_calls.TOOL,),
    parts=(Part(RecordedRuns, _make), Part(CallLog, _log), Part(CallWatches, _watches)),
    added_arguments=(
        AddedArguments(("evaluate_code",), arguments.TraceArguments),
        AddedArguments(("run_tests",), arguments.TestTraceArguments),
    ),
    calls=CallHooks(
        prepare=(arguments.requested_recording,),
        recorders=(arguments.requested_recorders,),
        complete=(trace_answers.with_trace,),
        hints=(arguments.tracing_hint,),
        failed=(since_passed.start_comparison,),
        evaluation_parts={"trace": trace_answers.describe_run_part},
    ),
    adapters=AdapterHooks(
        reply_fields={RUN_REPLY_FIELD: RUN_REPORT, CALLS_FIELD: CALLS_REPORT}, around={RecordingRequest: CallTraces}
    ),
    reports=(Report(RUN_REPORT, RecordedRuns, _store_report), Report(CALLS_REPORT, CallWatches, CallWatches.receive)),
    query_sources=((QuerySource(RUNS_SOURCE, RUN_SCHEMA, QUERY_RULES), RecordedRuns), (CALL_SOURCE, CallLog)),
)
