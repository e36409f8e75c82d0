"""Hot reloading of saved source files into a REPL, and of settings into the running server.

Files are only loaded if the setting `watch` is on. When the settings files change, tools, skills and REPLs are updated.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

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
from codriver.core.values import UNFINISHED_STATUSES
from codriver.files import stamp_of
from codriver.files.polling import PORT_FILE_CHECK_INTERVAL_S, Poller
from codriver.files.working_trees import walk
from codriver.repls.kinds import dialects_by_suffix
from codriver.settings.layers import withheld_message
from codriver.skills import Selection, switched_off
from codriver.tools.calls.call import Call
from codriver.tools.calls.gate import answer
from codriver.tools.calls.session_choice import server_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.actions import Action
    from codriver.core.dispatch import Core
    from codriver.files import Stamp
    from codriver.repls.launch.discovery import Discovery
    from codriver.settings.layers import Reloader
    from codriver.settings.model import Settings
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Tool


SCAN_INTERVAL_S = 0.25
"""Minimum interval between two scans for saved files."""
PAUSE_FACTOR = 10
"""The pause after a scan, as a multiple of its duration, so that scanning takes at most a tenth of a core."""
MAX_AT_ONCE = 50
"""Maximum number of files loaded at once.

A larger number of changes comes from a checkout or a generator, and loading them would redefine everything.
"""
MAX_FILES: Final = 20_000
"""Maximum number of directory entries in a scan. Larger directories are not projects, and would take seconds."""
WHO = "codriver-watch"


class Watcher:
    """Loads saved files one after the other, for the lifetime of a server. Idle while the setting is off."""

    def __init__(self, services: Services, load_file: Tool) -> None:
        self._services = services
        self._load_file = load_file
        self._loaded: Mapping[Path, Stamp] | None = None
        """The stamps of files that need not be loaded, or None while the setting is off."""
        self._last: Mapping[Path, Stamp] = {}
        self._unserved: set[str] = set()

    async def run(self) -> None:
        """Scan for saved files and load them, until cancelled."""
        poller = Poller(partial(stamps, self._services.workspace), interval_s=SCAN_INTERVAL_S, rest_times=PAUSE_FACTOR)
        while True:
            if self._services.live.settings.watch:
                now = await poller.next()
                if not self._services.ledger.saves.is_writing:
                    await self._load_all(self._saved(now))
            else:
                self._loaded = None
                await self._services.live.changed.wait()

    async def _load_all(self, saved: Sequence[Path]) -> None:
        if len(saved) > MAX_AT_ONCE:
            self._log(f"{len(saved)} files changed together and were not loaded; load those that you need", error=False)
            return
        for file in saved:
            await self._load(file)

    def _saved(self, now: Mapping[Path, Stamp]) -> tuple[Path, ...]:
        """Return the files that were saved since they were last loaded, oldest first.

        Files that may still be incomplete are left out.
        """
        if self._loaded is None:
            # Existing files do not count as saved.
            self._loaded, self._last = now, now
            return ()
        saved = [file for file, stamp in now.items() if self._loaded.get(file) != stamp]
        # A file that has changed since the last scan may still be incomplete.
        written = (file for file in saved if self._last.get(file) == now[file])
        whole = tuple(sorted(written, key=lambda file: (now[file], file)))
        known = {file: stamp for file, stamp in self._loaded.items() if file in now}
        self._loaded, self._last = known | {file: now[file] for file in whole}, now
        edited = self._services.ledger.saves.stamps
        return tuple(file for file in whole if edited.pop(file, None) != now[file])

    async def _load(self, file: Path) -> None:
        services = self._services
        relative_path = file.relative_to(services.workspace)
        repl = server_of(file, services.core.state.repls.values(), services.workspace)
        if repl is None or isinstance(repl, str):
            self._log_unserved(
                file.suffix,
                f"{relative_path} was saved but not loaded: {repl or 'no connected REPL supports its language'}",
            )
            return
        self._unserved.discard(file.suffix)
        call = Call(services, client="", client_name=WHO, progress=_ignore)
        given = await answer(self._load_file, call, {"filePath": str(file), "replSessionKey": repl.key, "who": WHO})
        failure = _failure_text(given)
        if failure:
            self._log(f"{relative_path} was saved, and loading it into {repl.key} failed: {failure}", error=True)

    def _log_unserved(self, suffix: str, text: str) -> None:
        """Log once per file suffix that files are not loaded, until one is, because editors save often."""
        if suffix not in self._unserved:
            self._unserved.add(suffix)
            self._log(text, error=False)

    def _log(self, text: str, *, error: bool) -> None:
        self._services.core.report(AddServerLine(text, error=error))


def _failure_text(given: Answer) -> str | None:
    """Return a line that explains why a file was not loaded, or None if it was."""
    fields = given.fields
    if fields.get("status") in UNFINISHED_STATUSES:
        return f"its evaluation {fields.get('evaluationId')} is still {fields['status']}"
    if given.ok:
        return None
    error = fields.get("error") or {}
    words = str(error.get("message") or fields.get("message") or fields.get("hint") or fields.get("reason"))
    # The message about unbalanced brackets includes the line.
    location = f", line {error['line']}" if error.get("line") and fields.get("reason") != "unbalanced" else ""
    return f"{words.strip()}{location}"


async def _ignore(_elapsed_s: float, _words: str) -> None:
    """Ignore progress."""


def stamps(workspace: Path) -> dict[Path, Stamp]:
    """Return the stamp of every source file in the workspace, skipping hidden directories and dependencies."""
    found: dict[Path, Stamp] = {}
    suffixes = frozenset(dialects_by_suffix())
    for _directory, _depth, files in walk(workspace, max_entries=MAX_FILES):
        for file in files:
            if os.path.splitext(file.name)[1] in suffixes:  # noqa: PTH122  # faster for thousands of names
                with contextlib.suppress(OSError):  # it has just been removed
                    if file.is_file():
                        found[Path(file.path)] = stamp_of(file.stat())
    return found


T = TypeVar("T")
SETTINGS_INTERVAL_S = 2 * PORT_FILE_CHECK_INTERVAL_S
"""Interval between two checks of the settings files."""


def gating_settings() -> frozenset[str]:
    """Return the names of the settings that determine which tools are available."""
    return frozenset({tool.setting for tool in manifest().tools if tool.setting is not None}) | {"toolset"}


class LiveSettings:
    """The current settings for the lifetime of a server, which are reloaded when their files change."""

    def __init__(self, reloader: Reloader) -> None:
        self._reloader = reloader
        self.settings = reloader.settings
        """The current settings."""
        self.changed = anyio.Event()
        """Set at the next change of the settings, and then replaced by a new event."""
        self.withheld = tuple(map(withheld_message, reloader.withheld))
        """A sentence for each setting in the workspace's files that is ignored until accepted."""
        self.discovery: Discovery | None = None
        """The discovery, which is informed of added REPLs. None before the search for REPLs starts."""

    async def run(self, core: Core, skills: SkillLibrary) -> None:
        """Check the files until cancelled, apply changes and log them."""
        poller = Poller(self._reloader.check, interval_s=SETTINGS_INTERVAL_S, rests_first=True)
        while True:
            change = await poller.next(lambda found: found is not None)
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
            if await anyio.to_thread.run_sync(skills.select, selection(change.settings)):
                actions.append(ResourcesChanged())
            if any(getattr(before, name) != getattr(change.settings, name) for name in gating_settings()):
                actions.append(ToolsChanged())
            if change.accepted:
                actions.append(WorkspaceAccepted())
                actions += [
                    RestartRepl(repl.id, "the workspace was accepted") for repl in core.state.waiting_for_trust()
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


def selection(settings: Settings) -> Selection:
    """Return the skills that the settings enable."""
    disabled = switched_off(
        live_repl=settings.provide_bd_skill, editing=settings.provide_edit_skill, names=settings.disabled_skills
    )
    return Selection(frozenset(settings.skill_sources), disabled)
