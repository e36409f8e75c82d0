"""The languages that a workspace's files are written in, and the REPL they call for, looked for while it is served."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core.actions import LanguagesSeen
from codriver.core.values import LISP, NOTEBOOK
from codriver.editing.file_changes import SUFFIXES as LISP_SUFFIXES
from codriver.files.polling import Poller
from codriver.files.workspace_walk import kinds_held
from codriver.repls.launch.projects import repl_of_project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from codriver.core.dispatch import Core

LOOK_S: Final = 5.0
"""How often a workspace without Lisp, or notebooks, is searched for the first one, at most."""
REST_TIMES: Final = 100
"""Searches take no more than this part of the time."""
MAX_SEARCHED: Final = 50_000
SUFFIXES_SEARCHED: Mapping[str, tuple[str, ...]] = MappingProxyType({LISP: LISP_SUFFIXES, NOTEBOOK: (".ipynb",)})
"""How the files end whose first one brings tools with it."""


async def watch_languages(core: Core, workspace: Path) -> None:
    """Report the languages when they are known and when one comes, until all that matter are there."""
    look = partial(kinds_held, workspace, SUFFIXES_SEARCHED, max_entries=MAX_SEARCHED)
    poller = Poller(look, interval_s=LOOK_S, rest_times=REST_TIMES)
    seen: frozenset[str] | None = None
    while seen is None or len(seen) < len(SUFFIXES_SEARCHED):
        before, seen = seen, (seen or frozenset()) | await poller.next()
        if seen != before:
            repl = await anyio.to_thread.run_sync(repl_of_project, workspace)
            core.report(LanguagesSeen(seen, repl))
