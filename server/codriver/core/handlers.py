"""Map each class of actions to its handler, and handle the actions of the server itself.

The server's phases are stopped → starting → started → stopping → stopped. An action that does not fit the current phase
changes nothing. The server reports its own events as lines in the log, and as errors that are remembered until they are
resolved.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core import (
    actions,
    caller_names,
    clients,
    evaluation_queue,
    lanes,
    repl_connections,
    reported_evaluations,
)
from codriver.core.actions import (
    AddServerLine,
    LanguagesFound,
    LatchError,
    ListenerOpened,
    PortFilesScanned,
    ProgramsFound,
    ReplSearchChanged,
    ServerStopped,
    StartServer,
    StopServer,
    WithdrawError,
    WorkspaceAccepted,
)
from codriver.core.dispatch import Handler, Outcome
from codriver.core.effects import AppendEntry, OpenListener, PublishAddress, SendLogMessage, ShutDownServer
from codriver.core.evaluation_queue import for_unfinished_evaluation
from codriver.core.records import replace
from codriver.core.repl_connections import for_known_repl, notifying_of_tool_changes
from codriver.core.state import LatchedError, Lifecycle, State, with_item, without_item

if TYPE_CHECKING:
    from collections.abc import Mapping


def start_server(state: State, action: StartServer) -> Outcome:
    """Open the listener. The server's address is published when it is open."""
    if state.lifecycle.phase != "stopped":
        return Outcome(state)
    lifecycle = Lifecycle(
        phase="starting",
        session_id=action.session_id,
        process_id=action.process_id,
        version=action.version,
        workspace=action.workspace,
        started_at=action.now,
    )
    return Outcome(replace(state, lifecycle=lifecycle), effects=(OpenListener(then=(ListenerOpened(),)),))


def record_listener(state: State, action: ListenerOpened) -> Outcome:
    """Publish the server's address. Add a note if the port is not the one that a user chose."""
    if state.lifecycle.phase != "starting":
        return Outcome(state)
    note = None
    if action.is_port_chosen and action.requested_port not in (0, action.port):
        note = f"port {action.requested_port} is in use, so this server listens on {action.port}"
    lifecycle = replace(state.lifecycle, phase="started", host=action.host, port=action.port, port_note=note)
    return Outcome(replace(state, lifecycle=lifecycle), effects=(PublishAddress(),))


def begin_shutdown(state: State, action: StopServer) -> Outcome:
    """Start shutting down. Repeated requests are ignored."""
    if state.lifecycle.phase not in ("starting", "started"):
        return Outcome(state)
    lifecycle = replace(state.lifecycle, phase="stopping")
    return Outcome(replace(state, lifecycle=lifecycle), effects=(ShutDownServer(reason=action.reason),))


def store_languages(state: State, action: LanguagesFound) -> Outcome:
    """Store the languages of the workspace's files, and the REPL that they suggest."""
    return Outcome(
        replace(
            state,
            languages_of_files=action.languages,
            repl_of_files=action.repl,
            repl_needs_trust=action.needs_trust,
            is_accepted=action.is_accepted,
        )
    )


def record_acceptance(state: State, _action: WorkspaceAccepted) -> Outcome:
    """Record that the user has accepted the workspace."""
    return Outcome(replace(state, repl_needs_trust=False, is_accepted=True))


def store_programs(state: State, action: ProgramsFound) -> Outcome:
    """Store the workspace's programs that are listening on a port."""
    return Outcome(replace(state, programs=action.programs))


def record_port_file_scan(state: State, action: PortFilesScanned) -> Outcome:
    """Record whether some port files have not been read yet."""
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, has_unread_port_files=action.has_unread)))


def record_search_status(state: State, action: ReplSearchChanged) -> Outcome:
    """Record whether the first search for REPLs is running."""
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, is_searching=action.is_under_way)))


def complete_shutdown(state: State, _action: ServerStopped) -> Outcome:
    """Mark the server as stopped."""
    if state.lifecycle.phase != "stopping":
        return Outcome(state)
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, phase="stopped")))


def add_server_line(state: State, action: AddServerLine) -> Outcome:
    """Append a line to the output log, and send it to clients that have subscribed to log messages."""
    appended = AppendEntry(
        category="otherErrorOutput" if action.error else "otherOutput",
        text=action.text,
        who=action.who,
        session_key=action.repl,
        kind=action.kind,
        data=action.data,
    )
    notification = SendLogMessage("warning" if action.error else "info", action.text, action.repl)
    return Outcome(state, effects=(appended, notification))


def latch_error(state: State, action: LatchError) -> Outcome:
    """Remember an error. If there is one with the same code, increase its count and replace its text."""
    known = state.latches.get(action.code)
    latch = LatchedError(action.code, action.text, action.now)
    if known is not None:
        latch = replace(known, text=action.text, count=known.count + 1)
    return Outcome(replace(state, latches=with_item(state.latches, action.code, latch)))


def withdraw_error(state: State, action: WithdrawError) -> Outcome:
    """Forget an error that was resolved."""
    if action.code not in state.latches:
        return Outcome(state)
    return Outcome(replace(state, latches=without_item(state.latches, action.code)))


HANDLERS: Final[Mapping[type[actions.Action], Handler]] = MappingProxyType(
    {
        actions.StartServer: start_server,
        actions.ListenerOpened: record_listener,
        actions.LanguagesFound: notifying_of_tool_changes(store_languages),
        actions.WorkspaceAccepted: notifying_of_tool_changes(record_acceptance),
        actions.ProgramsFound: store_programs,
        actions.PortFilesScanned: record_port_file_scan,
        actions.ReplSearchChanged: notifying_of_tool_changes(record_search_status),
        actions.StopServer: begin_shutdown,
        actions.ServerStopped: complete_shutdown,
        actions.ClientConnected: clients.add_client,
        actions.CallerNamed: caller_names.name_caller,
        actions.EvaluationsReported: reported_evaluations.record_all_reported,
        actions.ClientDisconnected: clients.remove_client,
        actions.GracePeriodExpired: clients.end_client_grace,
        actions.ResourcesChanged: clients.notify_resources_changed,
        actions.ToolsChanged: clients.notify_tools_changed,
        actions.AddRepl: notifying_of_tool_changes(repl_connections.add_repl),
        actions.DropRepl: for_known_repl(repl_connections.drop_repl),
        actions.ReplProgress: for_known_repl(repl_connections.store_progress),
        actions.ReplStarted: for_known_repl(repl_connections.record_started_process),
        actions.ReplConnected: for_known_repl(repl_connections.use_new_connection),
        actions.CapabilityFound: for_known_repl(repl_connections.add_capability),
        actions.ReplLost: for_known_repl(repl_connections.handle_lost_connection),
        actions.RetryDue: for_known_repl(repl_connections.retry_connection),
        actions.RestartRepl: for_known_repl(repl_connections.restart_repl),
        actions.SessionOpened: for_known_repl(repl_connections.add_session),
        actions.RequestLane: for_known_repl(lanes.claim_lane),
        actions.SessionClosed: for_known_repl(repl_connections.remove_session),
        actions.Evaluate: evaluation_queue.accept_evaluation,
        actions.StartJob: evaluation_queue.accept_job,
        actions.ExternalEvaluationStarted: evaluation_queue.record_external_evaluation,
        actions.InputRequested: for_unfinished_evaluation(evaluation_queue.record_input_request),
        actions.InputSent: for_unfinished_evaluation(evaluation_queue.record_input_sent),
        actions.EvaluationFinished: for_unfinished_evaluation(evaluation_queue.finish_evaluation),
        actions.RunningReported: for_unfinished_evaluation(evaluation_queue.record_running_reported),
        actions.StopRequested: for_unfinished_evaluation(evaluation_queue.request_stop),
        actions.CancelQueued: for_unfinished_evaluation(evaluation_queue.cancel_queued),
        actions.AddServerLine: add_server_line,
        actions.LatchError: latch_error,
        actions.WithdrawError: withdraw_error,
    }
)
"""The handler for each class of actions."""
