"""Remember the latest name of each caller, and attribute the evaluations that it started before it had one.

A name stays valid until the caller gives a different one. Evaluations that the same conversation started before the
first name was given also belong to that caller. Sub-agents that use names of their own remain separate callers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codriver.core.bounded_mappings import with_newest
from codriver.core.dispatch import Outcome
from codriver.core.records import replace
from codriver.core.state import State, with_item, with_session

if TYPE_CHECKING:
    from codriver.core.actions import CallerNamed
    from codriver.core.evaluations import Evaluation


def name_caller(state: State, action: CallerNamed) -> Outcome:
    """Record the name of a caller.

    The caller keeps the lane and the record of reported evaluations that it had without a name.
    """
    client = state.clients.get(action.client)
    if client is None:
        return Outcome(state)
    was_unnamed = action.conversation not in client.names and action.formerly != action.who
    names = with_newest(client.names, action.conversation, action.who)
    knowledge, used = client.knowledge, client.used
    if was_unnamed and action.formerly in knowledge and action.who not in knowledge:
        knowledge = with_item(knowledge, action.who, knowledge[action.formerly])
    if was_unnamed and action.formerly in used and action.who not in used:
        used = with_item(used, action.who, used[action.formerly])
    generated = client.generated
    if (before := action.formerly if was_unnamed else generated.get(action.formerly)) is not None:
        generated = with_newest(generated, action.who, before)
    client = replace(client, names=names, generated=generated, knowledge=knowledge, used=used)
    state = replace(state, clients=with_item(state.clients, client.id, client))
    if action.client_name and action.conversation:
        key = _conversation_key(action.client_name, action.conversation)
        state = replace(state, conversations=with_newest(state.conversations, key, action.who))
    return Outcome(_with_lanes_renamed(state, action) if was_unnamed else state)


def _with_lanes_renamed(state: State, action: CallerNamed) -> State:
    """Rename the lanes that belonged to a caller while it was unnamed, unless its name already has a lane."""
    for repl in state.repls.values():
        lanes = [
            session
            for session in repl.sessions.values()
            if session.lane is not None and session.client == action.client
        ]
        mine = [renamed for renamed in lanes if renamed.lane and renamed.lane.conversation == action.conversation]
        if any(renamed.lane and renamed.lane.who == action.who for renamed in mine):
            continue
        for renamed in mine:
            if renamed.lane and renamed.lane.who == action.formerly:
                lane = replace(renamed.lane, who=action.who)
                state = with_session(state, repl.id, replace(renamed, who=action.who, lane=lane))
    return state


def caller_name(state: State, client: str, conversation: str, client_name: str = "") -> str | None:
    """Return the name that was last passed in a conversation, or None.

    If `client_name` is given, names passed over earlier connections by clients with this name are also considered.
    """
    known = state.clients.get(client)
    name = known.names.get(conversation) if known is not None else None
    if name is None and client_name and conversation:
        return state.conversations.get(_conversation_key(client_name, conversation))
    return name


def _conversation_key(client_name: str, conversation: str) -> str:
    return f"{client_name}\n{conversation}"


def is_by_caller(state: State, client: str | None, who: str, by: tuple[str | None, str]) -> bool:
    """Return whether the pair `by` of a client and a name refers to the caller `who` of `client`.

    The name may also be the one that was generated for the caller before it passed one.
    """
    other, name = by
    if other != client:
        return False
    known = state.clients.get(client or "")
    return name == who or (known is not None and name == known.generated.get(who))


def is_first_evaluation(state: State, evaluation: Evaluation) -> bool:
    """Return whether this is a caller's first evaluation since the REPL was connected or restarted."""
    return not any(
        (other.repl, other.generation) == (evaluation.repl, evaluation.generation)
        and is_by_caller(state, evaluation.client, evaluation.who, (other.client, other.who))
        for other in state.evaluations.values()
        if other.number < evaluation.number
    )
