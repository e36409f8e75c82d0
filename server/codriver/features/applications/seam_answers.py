"""Query the seam of an application, and read its answers and its refusals."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from codriver.core.records import Recent
from codriver.features.applications.app_log import near
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.session_choice import resolve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call

    SeamAnswer = Mapping[str, Any]

SEAM: Final = "seam"
RESTARTED: Final = "the app was restarted, as session %s: its previous epochs, events and subscriptions are gone"
REASONS: Final = frozenset(
    {
        "no-such-accessor",
        "accessor-failed",
        "no-frame-resolved",
        "ambiguous-frame",
        "no-such-frame",
        "path-not-found",
        "no-such-epoch",
        "band-missing",
        "read-only-frame",
        "no-dispatch",
        "not-an-event-vector",
        "handler-failed",
        "during-drain",
        "unknown-epoch",
        "non-ok-record",
        "schema-mismatch",
        "missing-handler",
        "version-mismatch",
        "no-such-predicate",
        "unknown-topic",
        "too-many-subscriptions",
        "not-enabled",
    }
)
"""All values of `reason` with which a seam refuses."""

MAX_CLIENTS: Final = 1000
"""Maximum number of clients and REPLs that are remembered. The oldest are forgotten."""


@dataclass(slots=True)
class SeenApplications:
    """The application in each client's last answers, for the life of one server."""

    sessions: Recent[tuple[str, str], str] = field(default_factory=partial(Recent, MAX_CLIENTS))
    """Session id of the application's seam by client and REPL, for the most recent queries."""

    def is_another(self, client: str, repl: str, seam: str | None) -> bool:
        """Record the application of a client's answer, and return whether its last answer was about another one."""
        if seam is None:
            return False
        before = self.sessions.pop((client, repl), seam)
        self.sessions[client, repl] = seam
        return before != seam


async def query_seam(call: Call, repl: str, accessor: str, query: Mapping[str, Any]) -> SeamAnswer:
    """Return the answer of the application in a REPL."""
    return parse_answer(call, await call.services.repls.adapter(repl).call_seam(accessor, json.dumps(query)))


def with_restart_note(call: Call, repl: Repl, given: Answer) -> Answer:
    """Add a note to an answer if the client's last answer was about another process of the application."""
    now = call.state.repls.get(repl.id)
    seam = now.profile.seam if now is not None and now.profile is not None else None
    if not call.services.part(SeenApplications).is_another(call.client, repl.id, seam):
        return given
    before = given.fields.get("notes", ())
    notes = [*(before if isinstance(before, list | tuple) else ()), RESTARTED % seam]
    return replace(given, fields={**given.fields, "notes": notes})


def app_repl(call: Call, key: str | None) -> Repl:
    """Return the REPL with the given key, otherwise the only one with a seam, otherwise the only one.

    Raises:
        RefusedError: no REPL matches, or several do.
    """
    if key is None:
        able = [repl for repl in call.state.repls.values() if repl.profile and repl.profile.seam]
        if len(able) == 1:
            return able[0]
    return resolve(call.state, key).repl


def parse_answer(call: Call, text: str, *, shows_sensitive: bool = False) -> SeamAnswer:
    """Parse the answer of a seam and redact its secrets, before truncation could make a secret unrecognisable.

    With `shows_sensitive`, text that the application marked as sensitive is not redacted.
    """
    answer = call.services.transcripts.cleared(json.loads(text), shows_sensitive=shows_sensitive)
    assert isinstance(answer, dict)  # noqa: S101  # the seam's contract
    return answer


def refused(call: Call, answer: SeamAnswer) -> Answer:
    """Return the answer about a refusal by the seam."""
    reason = answer.get("reason") if answer.get("reason") in REASONS else "accessor-failed"
    at = {"at": near(answer["at"], call.services.workspace)} if "at" in answer else {}
    return Answer({**{key: value for key, value in answer.items() if key != "ok"}, "reason": reason, **at}, ok=False)
