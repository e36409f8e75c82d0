"""Apply changed settings files to the running server: update its tools, skills and REPLs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

import anyio

from codriver.app.features import manifest, named_repls
from codriver.core.actions import (
    AddServerLine,
    LatchError,
    ResourcesChanged,
    RestartRepl,
    ToolsChanged,
    WorkspaceAccepted,
)
from codriver.files.polling import PORT_FILE_CHECK_INTERVAL_S, Poller
from codriver.settings.layers import withheld_message
from codriver.skills import SkillSelection, disabled_skills

if TYPE_CHECKING:
    from codriver.core.actions import Action
    from codriver.core.dispatch import Core
    from codriver.repls.launch.repl_discovery import Discovery
    from codriver.settings.layers import SettingsReloader
    from codriver.settings.model import Settings
    from codriver.skills import SkillLibrary


T = TypeVar("T")


SETTINGS_CHECK_INTERVAL_S = 2 * PORT_FILE_CHECK_INTERVAL_S
"""Interval between checks for changed settings files."""


def gating_settings() -> frozenset[str]:
    """Return the names of the settings that determine which tools are available."""
    return frozenset({tool.setting for tool in manifest().tools if tool.setting is not None}) | {"toolset"}


class LiveSettings:
    """The settings of a running server. They are reloaded when their files change."""

    def __init__(self, reloader: SettingsReloader) -> None:
        self._reloader = reloader
        self.settings = reloader.settings
        """The current settings."""
        self.changed = anyio.Event()
        """Set on the next change of the settings, and then replaced by a new event."""
        self.withheld = tuple(map(withheld_message, reloader.withheld))
        """A sentence for each setting in the workspace's files that is ignored until accepted."""
        self.discovery: Discovery | None = None
        """The search for running REPLs, which is informed of added ones. None before it starts."""

    async def run(self, core: Core, skills: SkillLibrary) -> None:
        """Check the settings files until cancelled, and apply and log changes."""
        poller = Poller(self._reloader.check, interval_s=SETTINGS_CHECK_INTERVAL_S, rests_first=True)
        while True:
            change = await poller.next_result(lambda found: found is not None)
            if change is None:
                continue
            before, self.settings, core.settings = self.settings, change.settings, change.settings
            self.withheld = tuple(map(withheld_message, self._reloader.withheld))
            changed, self.changed = self.changed, anyio.Event()
            changed.set()
            actions: list[Action] = [AddServerLine(line) for line in change.changes]
            actions += [AddServerLine(line, error=True) for line in change.warnings]
            if change.refused:
                actions += [LatchError("settings-refused", line) for line in change.warnings]
            if await anyio.to_thread.run_sync(skills.select, enabled_skills(change.settings)):
                actions.append(ResourcesChanged())
            if any(getattr(before, name) != getattr(change.settings, name) for name in gating_settings()):
                actions.append(ToolsChanged())
            if change.accepted:
                actions.append(WorkspaceAccepted())
                actions += [
                    RestartRepl(repl.id, "the user accepted the workspace")
                    for repl in core.state.repls_awaiting_acceptance()
                ]
            core.report(*actions)
            if self.discovery is not None:
                added = _added(named_repls(before, os.environ), named_repls(change.settings, os.environ))
                nrepl, repl = _added(before.nrepl, change.settings.nrepl), _added(before.repl, change.settings.repl)
                self.discovery.configure(nrepl, repl, added)
                if change.accepted:
                    await self.discovery.choose_again()


def _added(before: tuple[T, ...], after: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(item for item in after if item not in before)


def enabled_skills(settings: Settings) -> SkillSelection:
    """Return the skills that the settings enable."""
    disabled = disabled_skills(
        live_repl=settings.provide_bd_skill, editing=settings.provide_edit_skill, names=settings.disabled_skills
    )
    return SkillSelection(frozenset(settings.skill_sources), disabled)
