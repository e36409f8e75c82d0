"""The hooks that add handoffs and notes about conflicts to a running server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from codriver.features.handoff import conflict_notes
from codriver.features.handoff.conflict_ledger import Conflicts
from codriver.features.handoff.live_handoff import write_handoff
from codriver.features.handoff.report import MAX_HANDOFF_BYTES
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.server_hooks import REPORT_PLACEHOLDER, Part, Prompt, ResourceFamily, ResourceRow, ServerHooks
from codriver.tools.calls.call import CallHooks
from codriver.tools.calls.caller_slugs import client_slug, to_slug

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.call import Call, ClientStart, Services

HANDOFF_TIMEOUT_S: Final = 2.0
"""Time limit for creating the handoff."""
MAX_NEW_AGENT_BYTES: Final = 1500
"""Maximum size of the handoff for an agent that starts from scratch and has not lost any context."""
CONTEXT_LOSS_SOURCES: Final = frozenset({"compact", "resume"})
"""The kinds of session start after which an agent has lost the context of its earlier work.

Source: Claude Code 2.1.330, `SessionStart`.
"""
NOTHING_EVALUATED_TEXT: Final = "Codriver: nothing has been evaluated in this workspace yet, and there is no REPL."


async def _handoff_for_client(services: Services, client: ClientSession, query: Mapping[str, str]) -> str:
    """Return the handoff for a client.

    The query field `who` names the reader of the handoff. The default is the client's caller, or nobody if the client
    is a command.
    """
    who = query.get("who", "")
    is_command = client.name.startswith(COMMAND_NAME_PREFIX)
    reader = to_slug(who) or ("" if is_command else client_slug(client.name))
    text = await write_handoff(
        services, reader, client=client.id, is_for_another=is_command or bool(who), wait_s=HANDOFF_TIMEOUT_S
    )
    return text or NOTHING_EVALUATED_TEXT


async def _read(services: Services, client: ClientSession, parts: Sequence[str], query: Mapping[str, str]) -> str:
    del parts
    return await _handoff_for_client(services, client, query)


async def _introduce(call: Call, start: ClientStart) -> str:
    """Return the full handoff for an agent that has lost its context, or a short one for a new agent."""
    return await write_handoff(
        call.services,
        start.who,
        client=call.client,
        is_for_another=call.client_name.startswith(COMMAND_NAME_PREFIX),
        wait_s=start.wait_s,
        most_bytes=MAX_HANDOFF_BYTES if start.source in CONTEXT_LOSS_SOURCES else MAX_NEW_AGENT_BYTES,
    )


SERVER: Final = ServerHooks(
    parts=(Part(Conflicts, lambda _services, _tasks: Conflicts()),),
    calls=CallHooks(
        sent=(conflict_notes.record_sent_code,),
        notes=(conflict_notes.conflict_notes,),
        edited=(conflict_notes.edit_notes,),
        started=(_introduce,),
    ),
    resources=(
        ResourceFamily(
            "handoff",
            0,
            "text/plain",
            _read,
            listed=(
                ResourceRow(
                    "codriver://handoff",
                    "Handoff",
                    "A summary of the work for whoever takes over or has lost the context: goals, failures, tests "
                    "and unsaved code.",
                ),
            ),
            templates=(
                ResourceRow(
                    "codriver://handoff{?who}",
                    "Handoff to a caller",
                    "A summary of the work, including what others have done since the last call of `who`.",
                ),
            ),
        ),
    ),
    prompts=(
        Prompt(
            "handoff",
            "Take over the work, or continue after a break",
            "A summary of the work in the REPLs: goals, failures, tests, unsaved code and connected clients.",
            "Take over or continue the work in this project's live REPLs. The state of the work, from their log:"
            f"\n\n{REPORT_PLACEHOLDER}\n\nStart with the first item: check it in the REPL and in the files, then "
            "report what you found and what you plan to do. When something works, evaluate with description "
            '"checkpoint: NAME".',
            (("who", "The caller whose work is continued.", ""),),
            _handoff_for_client,
        ),
    ),
)
