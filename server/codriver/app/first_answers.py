"""Store the instructions and tools for a client's first session in a workspace that has had no server yet.

A relay that starts a server answers its client's first requests from stored lists, so that even a client that does not
wait gets its tools. A running server stores these lists for the next session. For the first session, `codriver init`
derives them from the state that a server would start with: its settings, the languages of the workspace's files, and
the REPL that fits them. A running server scans for languages and a suitable REPL again from time to time.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver import __version__
from codriver.app import features, stored_answers
from codriver.app.live_settings import enabled_skills
from codriver.app.workspace_settings import load_workspace_settings
from codriver.core.actions import LanguagesFound, StartServer
from codriver.core.dispatch import Core
from codriver.core.effects import EFFECTS
from codriver.core.handlers import HANDLERS
from codriver.core.profiles import LISP, PYTHON
from codriver.core.state import State, first_answer_warnings
from codriver.editing.editable_paths import LISP_SUFFIXES
from codriver.files.polling import Poller
from codriver.files.tree_walk import find_file_kinds
from codriver.log.redaction import Redactor
from codriver.protocol.results import FirstAnswers
from codriver.repls.kinds import find_kind
from codriver.repls.launch.projects import suggested_repl
from codriver.repls.launch.recipes import find_recipe
from codriver.repls.launch.repl_discovery import Discovery
from codriver.settings import acceptance_records
from codriver.skills import DescribedRepl, SkillLibrary, build_instructions
from codriver.tools.calls.client_traits import find_traits
from codriver.tools.calls.gate import describe_repl_setup
from codriver.tools.manifest import offered_tools

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.settings.model import Settings
    from codriver.skills import Skill
    from codriver.tools.calls.tool import Manifest


def store_first_answers(workspace: Path, clients: Iterable[tuple[str, str]]) -> None:
    """Store the answers to clients' first requests, which relays send while a server is starting.

    `clients` contains the name and the MCP version of each client. Clients that already have an entry are skipped.
    Writes files, so it blocks.

    Raises:
        SettingsError: the settings of the workspace are invalid.
        OSError: the workspace cannot be read.
    """
    settings = load_workspace_settings(workspace, environ=os.environ).settings
    state = expected_state(workspace, settings)
    manifest = features.manifest()
    skills, first = SkillLibrary(workspace, enabled_skills(settings)), FirstAnswers(__version__, manifest)
    without_secrets = Redactor.from_environment(os.environ)
    for name, protocol in clients:
        instructions = instructions_for(manifest, state, settings, skills.skills(), name, are_starting=True)
        offered = offered_tools(manifest, state, settings, name)
        first_answers = first.stored_answers(name, protocol, without_secrets, instructions, offered)
        stored_answers.store_client_entry(workspace, first_answers, only_new=True)


def expected_state(workspace: Path, settings: Settings) -> State:
    """Return the state that a server would have after starting in a workspace. Nothing is started.

    Raises:
        OSError: the workspace cannot be read.
    """
    core = Core(
        state=State(), settings=settings, now=int, handlers=HANDLERS,
        performers=lambda _: dict.fromkeys(EFFECTS, _ignore_effect),
    )  # fmt: skip
    core.report(StartServer("", 0, __version__, str(workspace)), find_languages(workspace))
    Discovery(
        core=core,
        workspace=workspace,
        addresses=settings.nrepl,
        commands=settings.repl,
        named=features.named_repls(settings, os.environ),
        port_files=settings.port_files,
        recipe_of=partial(
            find_recipe, workspace=workspace, environ=os.environ,
            acceptance_of=acceptance_records.environment_acceptance, is_requested=False,
            python=settings.python, added_kinds=features.repl_kinds(),
        ),
        added_kinds=features.repl_kinds(),
    ).search_once()  # fmt: skip
    return core.state


def _ignore_effect(effect: object) -> None:
    """Ignore an effect, because no server is running."""


def instructions_for(
    manifest: Manifest,
    state: State,
    settings: Settings,
    skills: Sequence[Skill],
    client_name: str,
    *,
    are_starting: bool = False,
) -> str:
    """Return the instructions that a client receives in its handshake.

    With `are_starting`, they are those for the next start of the server, when its REPLs are not connected yet.
    """
    known = state.repls.values()
    # A REPL that was given up on will probably not start the next time either.
    phases = {repl.key: "starting" if are_starting and repl.phase != "stopped" else repl.phase for repl in known}
    repls = [
        DescribedRepl(
            repl.key,
            repl.dialect,
            phases[repl.key],
            repl.note or "",
            tuple(first_answer_warnings(state, repl)),
            kind=_describe_kind(repl),
        )
        for repl in known
    ]
    offered = {tool.name for tool in offered_tools(manifest, state, settings, client_name, expected=False)}
    evaluates = settings.enable_mcp_repl_evaluation
    is_suggested = state.repl_of_files and not settings.repl and not state.lifecycle.is_searching
    to_have_one = describe_repl_setup(state) if is_suggested else ""
    return build_instructions(
        skills, repls, evaluates=evaluates, offered=offered, guides=manifest.guides, to_have_one=to_have_one,
        trust_adds=_describe_trust_benefit(state), reads_resources=find_traits(client_name).reads_resources,
    )  # fmt: skip


def _describe_kind(repl: Repl) -> str:
    """Describe the application or the document that a REPL belongs to. Return an empty string for any other REPL."""
    if repl.profile is not None and repl.profile.application:
        return f"running application {repl.profile.application}"
    if repl.document:
        return f"{repl.origin.title or 'REPL'} of {PurePath(repl.document).name}"
    return repl.origin.title


def _describe_trust_benefit(state: State) -> str:
    """Describe what the user gains by accepting the workspace. Return an empty string if there is nothing to gain."""
    if state.is_accepted or state.lifecycle.is_searching:
        return ""
    if state.repl_of_files and state.repl_of_files != PYTHON:
        return "the project's own REPL, with its tests"
    return "the project's own environment and its tests" if PYTHON in state.languages() else ""


SCAN_INTERVAL_S: Final = 8.0
"""Minimum interval between scans of a workspace."""
PAUSE_FACTOR: Final = 100
"""The pause after a scan, as a multiple of its duration."""
MAX_SCANNED_ENTRIES: Final = 50_000
"""Maximum number of directory entries that a scan visits."""
SUFFIXES_BY_LANGUAGE: Mapping[str, tuple[str, ...]] = MappingProxyType({LISP: LISP_SUFFIXES, PYTHON: (".py",)})
"""For each base language, the suffixes of the files that make its tools available."""


async def watch_languages(core: Core, workspace: Path) -> None:
    """Report the languages of the workspace's files on startup, and whenever a language is added.

    Languages are never removed.
    """
    seen: LanguagesFound | None = None

    def scan() -> LanguagesFound:
        return find_languages(workspace, seen.languages if seen else frozenset())

    def is_changed(found: LanguagesFound) -> bool:
        return found != seen

    poller = Poller(scan, interval_s=SCAN_INTERVAL_S, rest_times=PAUSE_FACTOR)
    while True:
        seen = await poller.next_result(is_changed)
        core.report(seen)


def find_languages(workspace: Path, known: frozenset[str] = frozenset()) -> LanguagesFound:
    """Scan the workspace for the languages of its files and a suitable REPL.

    `known` are languages that are already known, for which it does not search. Reads directories, so it blocks.
    """
    languages = {**SUFFIXES_BY_LANGUAGE, **features.languages()}
    missing = {name: suffixes for name, suffixes in languages.items() if name not in known}
    found = find_file_kinds(workspace, missing, max_entries=MAX_SCANNED_ENTRIES) if missing else frozenset()
    repl = suggested_repl(workspace)
    is_accepted = acceptance_records.is_accepted(workspace)
    needs_trust = not is_accepted and _starts_programs(repl)
    return LanguagesFound(known | found, repl, needs_trust=needs_trust, is_accepted=is_accepted)


def _starts_programs(repl: str) -> bool:
    """Return whether starting a REPL runs a program of the project, so the user has to accept the workspace first."""
    kind = find_kind(repl) if repl else None
    return bool(repl) and (kind is None or kind.launcher != "worker")
