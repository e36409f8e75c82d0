"""The languages that a workspace's files are written in, and the REPL they call for, looked for while it is served."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.core.actions import LanguagesSeen
from codriver.core.values import LISP, NOTEBOOK
from codriver.editing.file_changes import SUFFIXES as LISP_SUFFIXES
from codriver.files.polling import Poller
from codriver.files.workspace_walk import kinds_held
from codriver.repls.kinds import kind_of
from codriver.repls.launch.projects import repl_of_project
from codriver.settings import trust

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core

LOOK_S: Final = 8.0
"""How often a workspace is looked at, at most."""
REST_TIMES: Final = 100
"""Searches take no more than this part of the time."""
MAX_SEARCHED: Final = 50_000
SUFFIXES_SEARCHED: Mapping[str, tuple[str, ...]] = MappingProxyType({LISP: LISP_SUFFIXES, NOTEBOOK: (".ipynb",)})
"""How the files end whose first one brings tools with it."""


async def watch_languages(core: Core, workspace: Path) -> None:
    """Report what the files call for, when that is known and when it changes; a language that came stays."""
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
    """The report of what the files call for now. `known`: the languages that came before. Blocks."""
    wanted = {name: suffixes for name, suffixes in SUFFIXES_SEARCHED.items() if name not in known}
    found = kinds_held(workspace, wanted, max_entries=MAX_SEARCHED) if wanted else frozenset()
    repl = repl_of_project(workspace)
    return LanguagesSeen(known | found, repl, needs_trust=_needs_trust(repl, workspace))


def _needs_trust(repl: str, workspace: Path) -> bool:
    """True where a server may refuse to start that REPL until the user has accepted the workspace."""
    kind = kind_of(repl) if repl else None
    return bool(repl) and (kind is None or kind.launcher != "worker") and not trust.is_accepted(workspace)
