"""The table of handlers by class of action, and the handlers for the server's own life cycle.

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
    LanguagesSeen,
    LatchError,
    Listening,
    PortFilesSeen,
    ProgramsSeen,
    Searching,
    Start,
    Stop,
    Stopped,
    WithdrawError,
    WorkspaceAccepted,
)
from codriver.core.dispatch import Announce, Append, Handler, Listen, LogMessage, Outcome, WindDown
from codriver.core.evaluation_queue import of_unfinished
from codriver.core.records import replace
from codriver.core.repl_connections import announcing, of_known
from codriver.core.state import Latch, Lifecycle, State, with_item, without_item

if TYPE_CHECKING:
    from collections.abc import Mapping


def start(state: State, action: Start) -> Outcome:
    """Open the listener. Clients can find the server only after that succeeds."""
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
    return Outcome(replace(state, lifecycle=lifecycle), effects=(Listen(then=(Listening(),)),))


def listening(state: State, action: Listening) -> Outcome:
    """Publish the server's address, with a note if it had to use a port other than the configured one."""
    if state.lifecycle.phase != "starting":
        return Outcome(state)
    note = None
    if action.requested_port not in (0, action.port):
        note = f"port {action.requested_port} is in use, so this server listens on {action.port}"
    lifecycle = replace(state.lifecycle, phase="started", host=action.host, port=action.port, port_note=note)
    return Outcome(replace(state, lifecycle=lifecycle), effects=(Announce(),))


def stop(state: State, action: Stop) -> Outcome:
    """Start to shut down. Repeated requests are ignored."""
    if state.lifecycle.phase not in ("starting", "started"):
        return Outcome(state)
    lifecycle = replace(state.lifecycle, phase="stopping")
    return Outcome(replace(state, lifecycle=lifecycle), effects=(WindDown(reason=action.reason),))


def languages_seen(state: State, action: LanguagesSeen) -> Outcome:
    """Store the languages of the workspace's files and the REPL that fits them."""
    return Outcome(
        replace(
            state,
            languages_of_files=action.languages,
            repl_of_files=action.repl,
            repl_needs_trust=action.needs_trust,
            is_accepted=action.is_accepted,
        )
    )


def workspace_accepted(state: State, _action: WorkspaceAccepted) -> Outcome:
    """Record that the user has accepted the workspace."""
    return Outcome(replace(state, repl_needs_trust=False, is_accepted=True))


def programs_seen(state: State, action: ProgramsSeen) -> Outcome:
    """Store the programs of the workspace that listen on a port."""
    return Outcome(replace(state, programs=action.programs))


def port_files_seen(state: State, action: PortFilesSeen) -> Outcome:
    """Record whether some port files still have to be read."""
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, has_unread_port_files=action.has_unread)))


def searching(state: State, action: Searching) -> Outcome:
    """Record whether the first search for REPLs is running."""
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, is_searching=action.is_under_way)))


def stopped(state: State, _action: Stopped) -> Outcome:
    """Complete the shutdown."""
    if state.lifecycle.phase != "stopping":
        return Outcome(state)
    return Outcome(replace(state, lifecycle=replace(state.lifecycle, phase="stopped")))


def add_server_line(state: State, action: AddServerLine) -> Outcome:
    """Append a line to the output log and send it to the clients that subscribed to log messages."""
    appended = Append(
        category="otherErrorOutput" if action.error else "otherOutput",
        text=action.text,
        who=action.who,
        session_key=action.repl,
        kind=action.kind,
        data=action.data,
    )
    notification = LogMessage("warning" if action.error else "info", action.text, action.repl)
    return Outcome(state, effects=(appended, notification))


def latch_error(state: State, action: LatchError) -> Outcome:
    """Remember an error. If its code is known already, increase the count and store the latest text."""
    known = state.latches.get(action.code)
    latch = Latch(action.code, action.text, action.now)
    if known is not None:
        latch = replace(known, text=action.text, count=known.count + 1)
    return Outcome(replace(state, latches=with_item(state.latches, action.code, latch)))


def withdraw_error(state: State, action: WithdrawError) -> Outcome:
    """Forget an error that has been resolved."""
    if action.code not in state.latches:
        return Outcome(state)
    return Outcome(replace(state, latches=without_item(state.latches, action.code)))


HANDLERS: Final[Mapping[type[actions.Action], Handler]] = MappingProxyType(
    {
        actions.Start: start,
        actions.Listening: listening,
        actions.LanguagesSeen: announcing(languages_seen),
        actions.WorkspaceAccepted: announcing(workspace_accepted),
        actions.ProgramsSeen: programs_seen,
        actions.PortFilesSeen: port_files_seen,
        actions.Searching: announcing(searching),
        actions.Stop: stop,
        actions.Stopped: stopped,
        actions.ClientConnected: clients.add_client,
        actions.CallerNamed: caller_names.name_caller,
        actions.EvaluationsReported: reported_evaluations.report_all,
        actions.ClientGone: clients.remove_client,
        actions.GraceOver: clients.end_client_grace,
        actions.ResourcesChanged: clients.notify_resources_changed,
        actions.ToolsChanged: clients.notify_tools_changed,
        actions.ReplFound: announcing(repl_connections.found),
        actions.ReplForgotten: of_known(repl_connections.forgotten),
        actions.ReplProgress: of_known(repl_connections.progress),
        actions.ReplStarted: of_known(repl_connections.started),
        actions.ReplConnected: of_known(repl_connections.connected),
        actions.SeamSeen: of_known(repl_connections.seam_seen),
        actions.ReplLost: of_known(repl_connections.lost),
        actions.RetryDue: of_known(repl_connections.retry_due),
        actions.RestartRepl: of_known(repl_connections.restart),
        actions.SessionOpened: of_known(repl_connections.session_opened),
        actions.LaneRequested: of_known(lanes.claim_lane),
        actions.SessionClosed: of_known(repl_connections.session_closed),
        actions.Evaluate: evaluation_queue.accept,
        actions.StartJob: evaluation_queue.accept_job,
        actions.OthersEvaluation: evaluation_queue.note_others,
        actions.InputRequested: of_unfinished(evaluation_queue.want_input),
        actions.InputGiven: of_unfinished(evaluation_queue.give_input),
        actions.EvaluationFinished: of_unfinished(evaluation_queue.end),
        actions.RunningReported: of_unfinished(evaluation_queue.note_reported),
        actions.StopRequested: of_unfinished(evaluation_queue.request_stop),
        actions.CancelQueued: of_unfinished(evaluation_queue.cancel),
        actions.AddServerLine: add_server_line,
        actions.LatchError: latch_error,
        actions.WithdrawError: withdraw_error,
    }
)
