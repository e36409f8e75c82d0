"""Create the parts of a server in the order of their dependencies.

Nothing runs until `codriver.app.serve` starts the parts. It stops them in reverse order.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from codriver import __version__
from codriver.app import features
from codriver.app.first_answers import instructions_for
from codriver.app.hot_reload import SavedFileLoader
from codriver.app.live_settings import enabled_skills
from codriver.app.stored_answers import StoredLists
from codriver.core import evaluation_queue
from codriver.core.actions import AddServerLine, LatchError, WithdrawError
from codriver.core.dispatch import Core, Performer
from codriver.core.effects import (
    AppendEntry,
    Effect,
    NotifyClients,
    RunJob,
    SendLogMessage,
    StopEvaluation,
    StoreDocument,
)
from codriver.core.handlers import HANDLERS
from codriver.core.state import State
from codriver.editing import BatchRecords, Editor
from codriver.files.codriver_paths import history_file, workspace_state_directory
from codriver.log.evaluation_transcripts import SpillCapacity, Transcripts
from codriver.log.history import History
from codriver.log.image_files import ImageFiles
from codriver.log.logbook import Logbook
from codriver.log.memory import Document, Memory, run_id
from codriver.log.redaction import Redactor
from codriver.log.remarks import Remarks
from codriver.log.run_recorder import EarlierRuns, RunRecorder
from codriver.net.client_sessions import Clients
from codriver.net.seen_clients import SeenClients
from codriver.protocol.mcp_server import McpServer
from codriver.protocol.results import ServerOffer
from codriver.repls.kinds import NREPL_PROTOCOL, PYTHON_KIND
from codriver.repls.launch.recipes import Recipe, RecipeError, find_recipe, is_embedded_repl
from codriver.repls.nrepl.nrepl_adapter import connect_nrepl
from codriver.repls.nrepl.session_record import SessionRecord
from codriver.repls.supervisor import ReplSupervisor
from codriver.settings import acceptance_records
from codriver.settings.interpreter_grants import InterpreterGrants
from codriver.skills import SkillLibrary
from codriver.testing.changed_files import changed_files
from codriver.testing.plain_process import start_plain
from codriver.testing.test_jobs import TestJobs
from codriver.tools.calls.call import Services
from codriver.tools.calls.caller_slugs import client_slug
from codriver.tools.ledgers.workspace_records import WorkspaceRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from anyio.abc import TaskGroup

    from codriver.app.live_settings import LiveSettings
    from codriver.core.actions import Action
    from codriver.net.fair_threads import WorkThreads
    from codriver.protocol.mcp_server import MakesSdk
    from codriver.repls.contract.adapter import Connector
    from codriver.settings.durations import Durations
    from codriver.settings.model import Settings
    from codriver.tools.calls.tool import Manifest


MAX_STREAM_BYTES = 32 * 2**20
"""Maximum size of one evaluation's output in memory while the output cannot be written to disk."""
MAX_TRANSCRIPT_BYTES = 64 * 2**20
"""Maximum total size of transcripts in memory."""


def now_ms() -> int:
    """Return the current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def disk_error_reporter(core: Core, code: str) -> Callable[[str | None], None]:
    """Return a function that reports a disk error to the core. Calling it with None reports that the error is resolved.

    The function may be called in any thread. The core remembers the error under `code`. Must be called on the event
    loop.
    """
    loop = asyncio.get_running_loop()

    def report(message: str | None) -> None:
        actions = (
            (WithdrawError(code),)
            if message is None
            else (LatchError(code, message), AddServerLine(message, error=True))
        )
        with suppress(RuntimeError):  # a thread may outlive the event loop
            loop.call_soon_threadsafe(core.report, *actions)

    return report


@dataclass(frozen=True, slots=True)
class ServerParts:
    """All parts of a server. They exist for as long as the server does."""

    history: History
    reports: tuple[Action, ...]
    """Actions to dispatch first, which report errors in the history's file."""
    transcripts: Transcripts
    logbook: Logbook
    recorder: RunRecorder
    repls: ReplSupervisor
    recipe_of: Callable[[str], Recipe]
    clients: Clients
    services: Services
    work: WorkThreads
    skills: SkillLibrary
    core: Core
    protocol: McpServer
    watcher: SavedFileLoader
    stored_lists: StoredLists
    seen: SeenClients
    cut_off: tuple[AddServerLine, ...]
    """Actions to dispatch first, which report batches of edits that were undone because a server was killed."""


def build_server_parts(
    workspace: Path,
    live: LiveSettings,
    tasks: TaskGroup,
    performers: Mapping[type[Effect], Performer],
    *,
    session_id: str,
    durations: Durations,
    is_user_started: bool,
) -> ServerParts:
    """Create all parts of a server for a workspace.

    `performers` perform the effects that concern the server as a whole. `session_id` is the server's id. If
    `is_user_started` is true, the user has also requested its REPLs by starting it. Opens the history and undoes
    incomplete batches of edits, so it blocks.
    """
    redactor = Redactor.from_environment(os.environ)
    history, report, transcripts, logbook, recorder = _create_stores(workspace, live, session_id, redactor)
    skills = SkillLibrary(workspace, enabled_skills(live.settings))
    parts: ServerParts

    def reporting(core: Core) -> Mapping[type[Effect], Performer]:
        """Return the performers, which are created with the core that they report to."""
        nonlocal parts

        grants = InterpreterGrants(workspace, partial(_embedded_python, workspace, live))
        recipe_of = partial(_find_recipe, workspace, live, grants, is_user_started)
        repls = ReplSupervisor(
            core=core, tasks=tasks, connectors=_connectors(core, workspace), workspace=workspace,
            recipe_of=recipe_of, logbook=logbook, transcripts=transcripts, hooks=features.adapter_hooks(),
            stacks_s=durations.stacks_s,
        )  # fmt: skip
        stored_lists, seen = StoredLists(workspace), SeenClients()
        clients = Clients(core, introduced=lambda name: seen.record(client_slug(name)))
        tests = TestJobs(
            core=core, tasks=tasks, transcripts=transcripts, logbook=logbook, start_plain=start_plain,
            changed_since=partial(_find_changed_files, workspace),
        )  # fmt: skip
        services = _create_services(
            core, live, workspace, logbook, transcripts, repls, tests, recipe_of,
            lambda: is_user_started or acceptance_records.is_accepted(workspace), clients, tasks, durations,
        )  # fmt: skip
        services = replace(services, grants=grants, learn_secret=redactor.add_secret)
        features.attach_features(services, tasks)
        manifest = features.manifest()
        watcher = SavedFileLoader(services, manifest.by_name["load_file"])
        protocol = _create_protocol(services, manifest, clients, skills, redactor, stored_lists)
        parts = ServerParts(
            history=history, reports=history_error_actions(report), transcripts=transcripts, logbook=logbook,
            recorder=recorder,
            repls=repls, recipe_of=recipe_of, clients=clients, services=services,
            work=services.work, skills=skills, core=core, protocol=protocol, watcher=watcher,
            stored_lists=stored_lists, seen=seen,
            cut_off=tuple(AddServerLine(words, error=True) for words in services.editor.recover()),
        )  # fmt: skip
        return {**performers, **_performers(parts)}

    Core(
        state=State(rare=features.manifest().rare),
        settings=live.settings,
        now=now_ms,
        handlers=HANDLERS,
        performers=reporting,
    )
    return parts


async def _find_changed_files(workspace: Path, since_ms: int) -> Sequence[str]:
    """Return the files in the workspace that changed after a time, in epoch milliseconds."""
    return await anyio.to_thread.run_sync(changed_files, workspace, since_ms)


def _embedded_python(workspace: Path, live: LiveSettings) -> str | None:
    """Return the interpreter that the embedded REPL would use if the user accepted the workspace, or None."""
    try:
        return find_recipe(PYTHON_KIND.repl, workspace, os.environ, python=live.settings.python).command[0]
    except RecipeError:
        return None


def _find_recipe(
    workspace: Path,
    live: LiveSettings,
    grants: InterpreterGrants,
    is_user_started: bool,  # noqa: FBT001  # bound by `partial`
    words: str,
) -> Recipe:
    """Return the recipe for starting the REPL that is called `words` in the setting `repl`.

    A user who starts a server requests the configured REPLs, or the embedded one if none is configured.
    """
    settings = live.settings
    requested = is_user_started and (words in settings.repl or is_embedded_repl(words))
    python = settings.python
    if grants.is_given and is_embedded_repl(words):
        embedded_recipe = find_recipe(words, workspace, os.environ, is_requested=requested, python=python)
        if grants.allows(embedded_recipe.command[0]):
            return embedded_recipe
    acceptance_of = acceptance_records.environment_acceptance
    return find_recipe(
        words, workspace, os.environ, acceptance_of=acceptance_of, is_requested=requested, python=python,
        added_kinds=features.repl_kinds(),
    )  # fmt: skip


def _performers(parts: ServerParts) -> Mapping[type[Effect], Performer]:
    """Return the functions of the parts that perform effects."""
    return {
        **parts.repls.performers,
        RunJob: parts.services.tests.start_job,
        StopEvaluation: partial(_stop_evaluation, parts),
        AppendEntry: parts.logbook.perform,
        StoreDocument: lambda effect: parts.recorder.remember(
            Document(effect.kind, effect.name, effect.now, effect.text, effect.data)
        ),
        SendLogMessage: parts.protocol.log_messages.perform,
        NotifyClients: parts.protocol.broadcast.notify_list_changed,
    }


def _stop_evaluation(parts: ServerParts, effect: StopEvaluation) -> None:
    """Stop an evaluation that nobody needs any more, in its REPL or in its own process."""
    evaluation = parts.core.state.evaluations.get(effect.evaluation)
    if evaluation is not None and evaluation.is_job:
        parts.services.tests.interrupt(evaluation, effect.why)
    else:
        parts.repls.performers[StopEvaluation](effect)


def _connectors(core: Core, workspace: Path) -> Mapping[str, Connector]:
    """Return the connectors of the server, by protocol.

    They record the sessions that are opened in REPLs that may outlive the server.
    """

    def is_owned(address: str) -> bool:
        return any(repl.is_owned and repl.address == address for repl in core.state.repls.values())

    record = SessionRecord(workspace_state_directory(workspace) / "repl-sessions.json", is_used=is_owned)
    return {
        NREPL_PROTOCOL: partial(connect_nrepl, record=record, hooks=features.adapter_hooks()),
    }


def _create_stores(
    workspace: Path, live: LiveSettings, session_id: str, redactor: Redactor
) -> tuple[History, str | None, Transcripts, Logbook, RunRecorder]:
    """Create the stores for text: history, transcripts, log and memory.

    Also returns the error from opening the history, if any.
    """
    settings, directory = live.settings, workspace_state_directory(workspace)
    history = History(
        history_file(workspace),
        max_entities=settings.history_max_entities,
        max_bytes=settings.history_max_bytes,
    )
    next_line, report = history.start()
    transcripts = _create_transcripts(settings, directory / "spill", redactor)
    memory, started_ms = Memory(directory, redact=redactor), now_ms()
    logbook = Logbook(
        history,
        transcripts,
        EarlierRuns(memory, run_id(started_ms)),
        next_line=next_line,
        max_entities=settings.log_max_entities,
        max_bytes=settings.log_max_bytes,
        redactor=redactor,
    )
    recorder = RunRecorder(
        memory, logbook.log, session=session_id, started_ms=started_ms, max_runs=lambda: live.settings.remember_runs
    )
    return history, report, transcripts, logbook, recorder


def history_error_actions(report: str | None) -> tuple[Action, ...]:
    """Return actions that report an error in the history's file, or none if there is no error."""
    return () if report is None else (LatchError("history", report), AddServerLine(report, error=True))


def _create_services(  # noqa: PLR0913, PLR0917  # one parameter per part
    core: Core,
    live: LiveSettings,
    workspace: Path,
    logbook: Logbook,
    transcripts: Transcripts,
    repls: ReplSupervisor,
    tests: TestJobs,
    recipe_of: Callable[[str], Recipe],
    may_run_files: Callable[[], bool],
    clients: Clients,
    tasks: TaskGroup,
    durations: Durations,
) -> Services:
    """Create the services that tools use, from the parts of the server."""
    records = BatchRecords(workspace_state_directory(workspace) / "edits", workspace)
    editor = Editor(workspace, records, features.edit_languages())
    image_store = ImageFiles(workspace_state_directory(workspace) / "pictures", logbook.log)
    image_store.clear()
    logbook.on_evicted = image_store.delete_evicted
    return Services(
        core=core,
        live=live,
        hooks=features.call_hooks(),
        workspace=workspace,
        log=logbook.log,
        transcripts=transcripts,
        repls=repls,
        tests=tests,
        recipe_of=recipe_of,
        may_run_files=may_run_files,
        now=now_ms,
        client_counters=clients.counters,
        query=logbook.query,
        history=logbook.history,
        remembered=logbook.earlier_entries,
        editor=editor,
        image_files=image_store,
        durations=durations,
        remarks=Remarks(workspace_state_directory(workspace) / "remarks.json", tasks.start_soon),
        ledger=WorkspaceRecords(tasks.start_soon),
    )


def _create_transcripts(settings: Settings, directory: Path, redactor: Redactor) -> Transcripts:
    return Transcripts(
        stored=evaluation_queue.MAX_FINISHED,
        max_bytes=MAX_TRANSCRIPT_BYTES,
        max_stream_bytes=MAX_STREAM_BYTES,
        redactor=redactor,
        capacity=SpillCapacity(directory, settings.spill_max_bytes),
    )


def _create_protocol(
    services: Services,
    manifest: Manifest,
    clients: Clients,
    skills: SkillLibrary,
    redactor: Redactor,
    stored_lists: StoredLists,
) -> McpServer:
    return McpServer(
        services,
        clients,
        ServerOffer(
            version=__version__,
            manifest=manifest,
            instructions=partial(_instructions, services, manifest, skills),
            starting=partial(_instructions, services, manifest, skills, are_starting=True),
            store=stored_lists.store,
        ),
        redactor=redactor,
        skills=skills,
        load_sdk=_load_sdk,
        resources=features.resources(),
        prompts=features.prompts(),
    )


def _load_sdk() -> MakesSdk:
    """Import the part of the protocol that uses the SDK.

    This takes as long as all other imports together, and blocks.
    """
    gc.disable()  # garbage collection would take a third of the time, and imports leave no garbage
    try:
        from codriver.protocol.sdk.sdk_server import SdkServer  # noqa: PLC0415  # only needed for some clients
    finally:
        gc.freeze()
        gc.enable()
    return SdkServer


def _instructions(
    services: Services,
    manifest: Manifest,
    library: SkillLibrary,
    client_name: str,
    accepts_skills: bool,  # noqa: FBT001
    *,
    are_starting: bool = False,
) -> str:
    state, settings = services.core.state, services.live.settings
    skills = library.skills() if accepts_skills else ()
    return instructions_for(manifest, state, settings, skills, client_name, are_starting=are_starting)
