"""The settings of a running server, reloaded as their files change; tools, skills and REPLs follow."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import anyio

from codriver.core.actions import LatchError, ResourcesChanged, RestartRepl, Say, ToolsChanged
from codriver.files.polling import Poller
from codriver.settings.kernels import named_kernels
from codriver.skills import Selection, switched_off
from codriver.tools.manifest import MANIFEST

if TYPE_CHECKING:
    from codriver.core.actions import Action
    from codriver.core.dispatch import Core
    from codriver.repls.jupyter.server_kernels import ServerKernels
    from codriver.repls.launch.discovery import Discovery
    from codriver.settings.model import Settings
    from codriver.settings.reload import Reloader
    from codriver.skills import SkillLibrary

T = TypeVar("T")
LOOK_S = 1.0
GATES = frozenset({tool.setting for tool in MANIFEST if tool.setting is not None}) | {"toolset", "lean_clients"}
"""The settings that tools are on offer by."""


class LiveSettings:
    """Holds the settings for the life of a server, and applies them as their files change."""

    def __init__(self, reloader: Reloader) -> None:
        self._reloader = reloader
        self.settings = reloader.settings
        """The settings now."""
        self.changed = anyio.Event()
        """Set at their next change; then another stands here, for the one after that."""
        self.withheld = reloader.withheld
        """What the workspace's files say and what does not count, a line each."""
        self.discovery: Discovery | None = None
        """Whom to ask for REPLs that are added; None until the server looks for the first."""
        self.server_kernels: ServerKernels | None = None
        """Whom to tell of kernels that are added; None as long."""

    async def run(self, core: Core, skills: SkillLibrary) -> None:
        """Look at the files until cancelled; tell in the log what became of each change."""
        poller = Poller(self._reloader.look, interval_s=LOOK_S, rests_first=True)
        while True:
            news = await poller.next(lambda found: found is not None)
            if news is None:
                continue
            before, self.settings, core.settings = self.settings, news.settings, news.settings
            self.withheld = self._reloader.withheld
            changed, self.changed = self.changed, anyio.Event()
            changed.set()
            actions: list[Action] = [Say(line) for line in news.said]
            actions += [Say(line, error=True) for line in news.wrong]
            if news.refused:
                actions += [LatchError("settings-refused", line) for line in news.wrong]
            if await anyio.to_thread.run_sync(skills.select, selection(news.settings)):
                actions.append(ResourcesChanged())
            if any(getattr(before, name) != getattr(news.settings, name) for name in GATES):
                actions.append(ToolsChanged())
            if news.accepted:
                actions += [
                    RestartRepl(repl.id, "the workspace was accepted") for repl in core.state.waiting_for_trust()
                ]
            core.report(*actions)
            if self.discovery is not None and self.server_kernels is not None:
                kernels = named_kernels(news.settings.kernels, os.environ)
                self.server_kernels.name(kernels)
                added = _added(named_kernels(before.kernels, os.environ), kernels)
                nrepl, repl = _added(before.nrepl, news.settings.nrepl), _added(before.repl, news.settings.repl)
                self.discovery.ask(nrepl, repl, added)
                if news.accepted:
                    await self.discovery.choose_again()


def _added(before: tuple[T, ...], after: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(item for item in after if item not in before)


def selection(settings: Settings) -> Selection:
    """The skills that the settings allow."""
    disabled = switched_off(
        live_repl=settings.provide_bd_skill, editing=settings.provide_edit_skill, names=settings.disabled_skills
    )
    return Selection(frozenset(settings.skill_sources), disabled)
