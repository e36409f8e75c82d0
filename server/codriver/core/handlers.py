"""The handlers: one table of the function that serves each class of action."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core import actions, callers, evaluation_queue, lifecycle, mcp_clients, repl_connections
from codriver.core.evaluation_queue import of_unfinished
from codriver.core.repl_connections import announcing, of_known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.dispatch import Handler

HANDLERS: Final[Mapping[type[actions.Action], Handler]] = MappingProxyType(
    {
        actions.Start: lifecycle.start,
        actions.Listening: lifecycle.listening,
        actions.LanguagesSeen: announcing(lifecycle.languages_seen),
        actions.ProgramsSeen: lifecycle.programs_seen,
        actions.Searching: announcing(lifecycle.searching),
        actions.Stop: lifecycle.stop,
        actions.Stopped: lifecycle.stopped,
        actions.ClientConnected: mcp_clients.connected,
        actions.CallerNamed: callers.named,
        actions.ClientTold: mcp_clients.told,
        actions.ClientGone: mcp_clients.gone,
        actions.GraceOver: mcp_clients.grace_over,
        actions.ResourcesChanged: mcp_clients.resources_changed,
        actions.ToolsChanged: mcp_clients.tools_changed,
        actions.ReplFound: announcing(repl_connections.found),
        actions.ReplForgotten: of_known(repl_connections.forgotten),
        actions.ReplProgress: of_known(repl_connections.progress),
        actions.ReplStarted: of_known(repl_connections.started),
        actions.ReplConnected: of_known(repl_connections.connected),
        actions.SeamSeen: of_known(repl_connections.seam_seen),
        actions.AppStreamBegan: mcp_clients.began,
        actions.AppStreamRenewed: mcp_clients.renewed,
        actions.AppStreamEnded: mcp_clients.ended,
        actions.ReplLost: of_known(mcp_clients.over_with(repl_connections.lost)),
        actions.RetryDue: of_known(repl_connections.retry_due),
        actions.RestartRepl: of_known(mcp_clients.over_with(repl_connections.restart)),
        actions.SessionOpened: of_known(repl_connections.session_opened),
        actions.LaneWanted: of_known(callers.wanted),
        actions.SessionClosed: of_known(repl_connections.session_closed),
        actions.Evaluate: evaluation_queue.accept,
        actions.OthersEvaluation: evaluation_queue.note_others,
        actions.InputWanted: of_unfinished(evaluation_queue.want_input),
        actions.InputGiven: of_unfinished(evaluation_queue.give_input),
        actions.EvaluationEnded: of_unfinished(evaluation_queue.end),
        actions.RunningTold: of_unfinished(evaluation_queue.note_told),
        actions.StopAsked: of_unfinished(evaluation_queue.ask_to_stop),
        actions.CancelQueued: of_unfinished(evaluation_queue.cancel),
        actions.Say: lifecycle.say,
        actions.LatchError: lifecycle.latch_error,
        actions.WithdrawError: lifecycle.withdraw_error,
    }
)
