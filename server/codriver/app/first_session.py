"""The first session of a client in a workspace: its greeting and tools, kept before any server ran there.

Kept tools are there from the first request of a client that does not wait for the server it starts. A server keeps them
for the next time; `codriver init` keeps them for the first time, from the state in which a server would start: its
settings, the languages of the workspace's files, and the REPL that they call for. Languages and REPL are looked for
again while the workspace is served.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver import __version__
from codriver.app import features, kept_lists
from codriver.app.hot_reload import selection
from codriver.app.workspace_settings import load
from codriver.core.actions import LanguagesSeen, Start
from codriver.core.dispatch import EFFECTS, Core
from codriver.core.handlers import HANDLERS
from codriver.core.state import State, cautions
from codriver.core.values import LISP, NOTEBOOK, PYTHON
from codriver.editing.editable_paths import SUFFIXES as LISP_SUFFIXES
from codriver.files.polling import Poller
from codriver.files.working_trees import markers_in
from codriver.log.redaction import Redactor
from codriver.protocol.results import FirstAnswers
from codriver.repls.kinds import kind_of
from codriver.repls.launch.discovery import Discovery
from codriver.repls.launch.projects import repl_of_project
from codriver.repls.launch.recipes import recipe
from codriver.settings import trust
from codriver.settings.model import named_kernels
from codriver.skills import Connected, SkillLibrary, instructions
from codriver.tools.calls.gate import to_name_one
from codriver.tools.manifest import tools_offered

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from codriver.core.state import Repl
    from codriver.settings.model import Settings
    from codriver.skills import Skill
    from codriver.tools.calls.tool import Manifest


def keep(workspace: Path, clients: Iterable[tuple[str, str]]) -> None:
    """Keep for relays the first answers to clients, by the clients' names and the versions of MCP that they ask for.

    A client with more kept by a server is passed over. Blocks.

    Raises:
        SettingsError: the settings of the workspace cannot be read.
        OSError: the workspace cannot be read.
    """
    settings = load(workspace, environ=os.environ).settings
    state = expected_state(workspace, settings)
    manifest = features.manifest()
    skills, first = SkillLibrary(workspace, selection(settings)), FirstAnswers(__version__, manifest)
    without_secrets = Redactor.from_environment(os.environ)
    for name, protocol in clients:
        words = instructions_for(manifest, state, settings, skills.skills(), name, are_starting=True)
        offered = tools_offered(manifest, state, settings, name)
        kept = first.to_store(name, protocol, without_secrets, words, offered)
        kept_lists.write(workspace, kept, only_new=True)


def expected_state(workspace: Path, settings: Settings) -> State:
    """The state of a server that a client starts in the workspace, with its REPLs on their way. Starts nothing.

    Raises:
        OSError: the workspace cannot be read.
    """
    core = Core(
        state=State(), settings=settings, now=int, handlers=HANDLERS,
        performers=lambda _: dict.fromkeys(EFFECTS, _not_done),
    )  # fmt: skip
    core.report(Start("", 0, __version__, str(workspace)), look_for_languages(workspace))
    Discovery(
        core=core,
        workspace=workspace,
        addresses=settings.nrepl,
        commands=settings.repl,
        kernels=named_kernels(settings.kernels, os.environ),
        port_files=settings.port_files,
        recipe_of=partial(
            recipe, workspace=workspace, environ=os.environ, acceptance_of=trust.environment_acceptance,
            is_requested=False,
            python=settings.python,
        ),
    ).search_once()  # fmt: skip
    return core.state


def _not_done(effect: object) -> None:
    """Do nothing: no server runs, and none is started."""


def instructions_for(
    manifest: Manifest,
    state: State,
    settings: Settings,
    skills: Sequence[Skill],
    client_name: str,
    *,
    are_starting: bool = False,
) -> str:
    """Return the instructions that a client of this name gets in its handshake.

    `are_starting`: those for the next time, when the REPLs that are connected now are on their way.
    """
    known = state.repls.values()
    # A REPL that was given up will not start the next time either, if nothing has changed.
    phases = {repl.key: "starting" if are_starting and repl.phase != "stopped" else repl.phase for repl in known}
    repls = [
        Connected(
            repl.key, repl.dialect, phases[repl.key], repl.note or "", tuple(cautions(state, repl)), kind=_kind(repl)
        )
        for repl in known
    ]
    offered = {tool.name for tool in tools_offered(manifest, state, settings, client_name, expected=False)}
    evaluates = settings.enable_mcp_repl_evaluation
    is_told = state.repl_of_files and not settings.repl and not state.lifecycle.is_searching
    to_have_one = to_name_one(state) if is_told else ""
    return instructions(
        skills, repls, evaluates=evaluates, offered=offered, to_have_one=to_have_one,
        trust_adds=_trust_adds(state),
    )  # fmt: skip


def _kind(repl: Repl) -> str:
    """Return what a REPL is part of: a running application or a notebook; empty for a plain REPL."""
    if repl.profile is not None and repl.profile.application:
        return f"running application {repl.profile.application}"
    if repl.notebook:
        return f"kernel of {PurePath(repl.notebook).name}"
    return "Jupyter kernel" if repl.origin.kind in ("kernel", "server") else ""


def _trust_adds(state: State) -> str:
    """Return what the user's acceptance of the workspace would add; empty if it adds nothing."""
    if state.is_accepted or state.lifecycle.is_searching:
        return ""
    if state.repl_of_files and state.repl_of_files != PYTHON:
        return "the project's own REPL, with its tests"
    return "the project's own environment and its tests" if PYTHON in state.languages() else ""


LOOK_S: Final = 8.0
"""How often a workspace is looked at, at most."""
REST_TIMES: Final = 100
"""A search is followed by a rest of so many times its length."""
MAX_SEARCHED: Final = 50_000
SUFFIXES_SEARCHED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {LISP: LISP_SUFFIXES, NOTEBOOK: (".ipynb",), PYTHON: (".py",)}
)
"""By kind of tools: the suffixes of the files, the first of which brings these tools."""


async def watch_languages(core: Core, workspace: Path) -> None:
    """Report the languages that files call for, when first known and when they change; a language that came stays."""
    seen: LanguagesSeen | None = None

    def look() -> LanguagesSeen:
        return look_for_languages(workspace, seen.languages if seen else frozenset())

    def is_news(found: LanguagesSeen) -> bool:
        return found != seen

    poller = Poller(look, interval_s=LOOK_S, rest_times=REST_TIMES)
    while True:
        seen = await poller.next(is_news)
        core.report(seen)


def look_for_languages(workspace: Path, known: frozenset[str] = frozenset()) -> LanguagesSeen:
    """Return the tools and languages that the files call for now. `known`: the languages that came before. Blocks."""
    wanted = {name: suffixes for name, suffixes in SUFFIXES_SEARCHED.items() if name not in known}
    found = markers_in(workspace, wanted, max_entries=MAX_SEARCHED) if wanted else frozenset()
    repl = repl_of_project(workspace)
    is_accepted = trust.is_accepted(workspace)
    needs_trust = not is_accepted and _starts_programs(repl)
    return LanguagesSeen(known | found, repl, needs_trust=needs_trust, is_accepted=is_accepted)


def _starts_programs(repl: str) -> bool:
    """Return whether the REPL is started by a program that only an accepted workspace may choose."""
    kind = kind_of(repl) if repl else None
    return bool(repl) and (kind is None or kind.launcher != "worker")
