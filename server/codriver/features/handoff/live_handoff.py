"""Create the handoff of a running server from its log, its memory, and its current REPLs and clients."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.errors import CodriverError
from codriver.features.handoff.defined_names import names_on_disk
from codriver.features.handoff.report import MAX_HANDOFF_BYTES, LiveState, render_handoff
from codriver.features.handoff.work_story import Story, read_story
from codriver.net.seen_clients import COMMAND_NAME_PREFIX
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.answers.drift_notes import drift_lines
from codriver.tools.answers.loaded_code_comparison import find_drift
from codriver.tools.calls.call import ServerReplUser
from codriver.tools.calls.caller_slugs import client_slug

if TYPE_CHECKING:
    from codriver.core.evaluations import Evaluation
    from codriver.core.state import Repl
    from codriver.tools.calls.call import Services

DRIFT_TIME_FRACTION: Final = 0.2
"""Fraction of the time limit that may be spent on querying the REPLs for drift."""
SEARCH_TIME_FRACTION: Final = 0.5
"""Fraction of the time limit that may be spent on reading the log and searching source files."""
MAX_ENTITIES: Final = 4000
"""Maximum number of log entities to process, which takes about a tenth of a second."""


async def write_handoff(
    services: Services,
    reader: str,
    *,
    client: str,
    is_for_another: bool,
    wait_s: float,
    most_bytes: int = MAX_HANDOFF_BYTES,
) -> str:
    """Return the handoff for the caller `reader`, or an empty string if there is nothing to report.

    `client` is the client that requests the handoff. If `is_for_another` is true, it is a command or a hook, and the
    reader may use a different client.
    """
    story, on_disk = await services.work.files.run(
        client, partial(_read_story, services, SEARCH_TIME_FRACTION * wait_s)
    )
    state = services.core.state
    drift: list[str] = []
    with anyio.move_on_after(DRIFT_TIME_FRACTION * wait_s):
        for repl in state.repls.values():
            drift += await _describe_drift(ServerReplUser(services, client), repl)
    present = LiveState(
        now=services.now(),
        repls=tuple(map(_describe_repl, state.repls.values())),
        running=tuple([_describe_running(evaluation, services.now()) for evaluation in state.unfinished()]),
        others=_other_callers(services, reader, client, is_for_another=is_for_another),
        on_disk=on_disk,
        drift=tuple(drift),
    )
    return render_handoff(story, present, reader, most_bytes=most_bytes)


def _read_story(services: Services, search_s: float) -> tuple[Story, frozenset[str]]:
    """Return the story of the work, and the names defined in it that exist in files. Blocks."""
    ends_at = time.monotonic() + search_s
    over = [
        evaluation for evaluation in services.core.state.evaluations.values() if evaluation.status in ("done", "failed")
    ]
    entries = (*services.remembered(), *services.log.entries())[-MAX_ENTITIES:]
    story = read_story(entries, {finished.id: _error_line(finished) for finished in over})
    defined = {name for step in story.steps for name in step.names}
    left_s = ends_at - time.monotonic()
    return story, names_on_disk(services.workspace, defined, tuple(dialects_by_suffix()), left_s)


async def _describe_drift(asker: ServerReplUser, repl: Repl) -> list[str]:
    """Return the differences between the code loaded in a REPL and its files, if the REPL reports them."""
    if repl.phase != "connected" or repl.profile is None or "drift" not in repl.profile.capabilities:
        return []
    with suppress(CodriverError):
        return drift_lines(asker, repl, await find_drift(asker, repl))
    return []


def _error_line(evaluation: Evaluation) -> str | None:
    """Return the error of an evaluation as one line, or None if it did not fail."""
    failure = evaluation.failure
    return f"{failure.type}: {failure.message.strip().partition(chr(10))[0]}" if failure else None


def _describe_repl(repl: Repl) -> str:
    """Describe a REPL by its key, dialect, phase and generation."""
    generation = f", generation {repl.generation}" if repl.generation else ""
    return f"{repl.key} ({repl.dialect}, {repl.phase}{generation})"


def _describe_running(evaluation: Evaluation, now: int) -> str:
    """Describe a running evaluation by its id, caller, status, duration and the start of its code."""
    since = f" for {max(0, now - evaluation.started_at) // 1000} s" if evaluation.started_at else ""
    return f"{evaluation.id} by {evaluation.who}, {evaluation.status}{since}: {evaluation.head}"


def _other_callers(services: Services, reader: str, client: str, *, is_for_another: bool) -> tuple[str, ...]:
    """Return the names of the other callers, without duplicates and without `codriver` commands."""
    rows = services.client_counters()
    names = [str(row["name"]) for row in rows if row["id"] != client and row["name"]]
    found = [client_slug(name) for name in names if not name.startswith(COMMAND_NAME_PREFIX)]
    if is_for_another and reader in found:
        found.remove(reader)
    return tuple(sorted(set(found)))
