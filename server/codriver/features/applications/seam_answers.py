"""Query an application's seam, and parse the answers and refusals that it returns."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from codriver.core.records import Recent
from codriver.features.applications.app_log import shorten_paths
from codriver.features.applications.seam import SEAM_CAPABILITY, SeamSessions, require_seam
from codriver.tools.calls.answer import Answer
from codriver.tools.calls.session_choice import resolve_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.state import Repl
    from codriver.tools.calls.call import Call

    SeamAnswer = Mapping[str, Any]

RESTARTED_TEMPLATE: Final = (
    "the application was restarted as session %s, so its previous epochs, events and subscriptions are gone"
)
REFUSAL_REASONS: Final = frozenset(
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
        "capability-missing",
    }
)
"""All values of `reason` in the refusals of an application's seam."""

MAX_REMEMBERED_PAIRS: Final = 1000
"""Maximum number of (client, REPL) pairs to remember."""


@dataclass(slots=True)
class LastApplications:
    """Remembers, for each client and REPL, the application that last answered a query of the client."""

    sessions: Recent[tuple[str, str], str] = field(default_factory=partial(Recent, MAX_REMEMBERED_PAIRS))
    """Session id of the application's seam, by client and REPL."""

    def replace(self, client: str, repl: str, application: str | None) -> bool:
        """Record which application answered a client. Return whether a different one answered the client before.

        If the application is None, it is unknown, and nothing is recorded.
        """
        if application is None:
            return False
        previous = self.sessions.pop((client, repl), application)
        self.sessions[client, repl] = application
        return previous != application


async def query_seam(call: Call, repl: str, accessor: str, query: Mapping[str, Any]) -> SeamAnswer:
    """Query an accessor of the seam in a REPL, and return the parsed answer."""
    return parse_answer(call, await require_seam(call.services.repls, repl).call(accessor, json.dumps(query)))


def with_restart_note(call: Call, repl: Repl, answer: Answer) -> Answer:
    """Add a note to an answer if the application has been restarted since the client's last answer."""
    session_id = call.services.part(SeamSessions).current_session_id(repl.id)
    if not call.services.part(LastApplications).replace(call.client, repl.id, session_id):
        return answer
    previous_notes = answer.fields.get("notes", ())
    notes = [*(previous_notes if isinstance(previous_notes, list | tuple) else ()), RESTARTED_TEMPLATE % session_id]
    return replace(answer, fields={**answer.fields, "notes": notes})


def app_repl(call: Call, key: str | None) -> Repl:
    """Return the REPL with the given key. Without a key, return the only REPL with a seam, or else the only REPL.

    Raises:
        RefusedError: no REPL matches, or several do.
    """
    if key is None:
        candidates = [
            repl for repl in call.state.repls.values() if repl.profile and SEAM_CAPABILITY in repl.profile.capabilities
        ]
        if len(candidates) == 1:
            return candidates[0]
    return resolve_session(call.state, key).repl


def parse_answer(call: Call, text: str, *, shows_sensitive: bool = False) -> SeamAnswer:
    """Parse the answer of an application's seam, and redact secrets. This must be done before texts are shortened.

    With `shows_sensitive`, values that the application declares as sensitive are not redacted.
    """
    answer = call.services.transcripts.redact(json.loads(text), shows_sensitive=shows_sensitive)
    assert isinstance(answer, dict)  # noqa: S101  # the seam's contract
    return answer


def refusal_answer(call: Call, answer: SeamAnswer) -> Answer:
    """Convert a refusal by the seam to an answer."""
    reason = answer.get("reason") if answer.get("reason") in REFUSAL_REASONS else "accessor-failed"
    location = {"at": shorten_paths(answer["at"], call.services.workspace)} if "at" in answer else {}
    return Answer(
        {**{key: value for key, value in answer.items() if key != "ok"}, "reason": reason, **location}, ok=False
    )
