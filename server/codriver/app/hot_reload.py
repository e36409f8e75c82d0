"""Reload saved source files into a REPL, if the setting `watch` is on."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.core.actions import AddServerLine
from codriver.core.evaluations import UNFINISHED_STATUSES
from codriver.files import stamp_from_status
from codriver.files.polling import Poller
from codriver.files.tree_walk import walk
from codriver.repls.kinds import dialects_by_suffix
from codriver.tools.calls.call import Call
from codriver.tools.calls.gate import answer_call
from codriver.tools.calls.session_choice import find_serving_repl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.files import Stamp
    from codriver.tools.calls.answer import Answer
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Tool


SCAN_INTERVAL_S = 0.25
"""Minimum interval between scans for saved files."""
PAUSE_FACTOR = 10
"""The pause after a scan, as a multiple of its duration, so that scanning takes at most a tenth of a core."""
MAX_LOADED_FILES = 50
"""Maximum number of files loaded at once.

A larger change usually comes from a checkout or a generator, and loading it would redefine everything.
"""
MAX_SCANNED_ENTRIES: Final = 20_000
"""Maximum number of directory entries in a scan. Scanning a larger directory would take seconds."""
WHO = "codriver-watch"
"""The caller name under which loads of saved files are logged."""


class SavedFileLoader:
    """Loads saved files one after the other, for the lifetime of a server.

    It does nothing while the setting `watch` is off.
    """

    def __init__(self, services: Services, load_file: Tool) -> None:
        self._services = services
        self._load_file = load_file
        self._loaded: Mapping[Path, Stamp] | None = None
        """The stamps of files that need not be loaded, or None while the setting is off."""
        self._last: Mapping[Path, Stamp] = {}
        self._unserved: set[str] = set()

    async def run(self) -> None:
        """Scan for saved files and load them, until cancelled."""
        poller = Poller(
            partial(source_file_stamps, self._services.workspace), interval_s=SCAN_INTERVAL_S, rest_times=PAUSE_FACTOR
        )
        while True:
            if self._services.live.settings.watch:
                now = await poller.next_result()
                if not self._services.ledger.saves.is_writing:
                    await self._load_all(self._find_saved(now))
            else:
                self._loaded = None
                await self._services.live.changed.wait()

    async def _load_all(self, saved: Sequence[Path]) -> None:
        if len(saved) > MAX_LOADED_FILES:
            self._log(
                f"{len(saved)} files changed at once, so none of them was loaded. Load the ones that you need",
                error=False,
            )
            return
        for file in saved:
            await self._load(file)

    def _find_saved(self, now: Mapping[Path, Stamp]) -> tuple[Path, ...]:
        """Return the files that were saved since they were last loaded, oldest first.

        Files that changed since the last scan are left out, because they may still be incomplete.
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
        repl = find_serving_repl(file, services.core.state.repls.values(), services.workspace)
        if repl is None or isinstance(repl, str):
            self._log_unserved(
                file.suffix,
                f"{relative_path} was saved but not loaded: {repl or 'no connected REPL supports its language'}",
            )
            return
        self._unserved.discard(file.suffix)
        call = Call(services, client="", client_name=WHO, progress=_ignore_progress)
        given = await answer_call(
            self._load_file, call, {"filePath": str(file), "replSessionKey": repl.key, "who": WHO}
        )
        failure = _failure_text(given)
        if failure:
            self._log(f"{relative_path} was saved, and loading it into {repl.key} failed: {failure}", error=True)

    def _log_unserved(self, suffix: str, text: str) -> None:
        """Log that files with a suffix are not loaded.

        This is logged only once until such a file is loaded, because editors save often.
        """
        if suffix not in self._unserved:
            self._unserved.add(suffix)
            self._log(text, error=False)

    def _log(self, text: str, *, error: bool) -> None:
        self._services.core.report(AddServerLine(text, error=error))


def _failure_text(given: Answer) -> str | None:
    """Explain why a file was not loaded, or return None if it was."""
    fields = given.fields
    if fields.get("status") in UNFINISHED_STATUSES:
        return f"evaluation {fields.get('evaluationId')} is still {fields['status']}"
    if given.ok:
        return None
    error = fields.get("error") or {}
    words = str(error.get("message") or fields.get("message") or fields.get("hint") or fields.get("reason"))
    # The message about unbalanced brackets includes the line.
    location = f", line {error['line']}" if error.get("line") and fields.get("reason") != "unbalanced" else ""
    return f"{words.strip()}{location}"


async def _ignore_progress(_elapsed_s: float, _words: str) -> None:
    """Discard a progress report, because nobody is waiting for the load."""


def source_file_stamps(workspace: Path) -> dict[Path, Stamp]:
    """Return the stamps of all source files in the workspace.

    Hidden directories and dependencies are skipped.
    """
    found: dict[Path, Stamp] = {}
    suffixes = frozenset(dialects_by_suffix())
    for _directory, _depth, files in walk(workspace, max_entries=MAX_SCANNED_ENTRIES):
        for file in files:
            if os.path.splitext(file.name)[1] in suffixes:  # noqa: PTH122  # faster for thousands of names
                with contextlib.suppress(OSError):  # it has just been removed
                    if file.is_file():
                        found[Path(file.path)] = stamp_from_status(file.stat())
    return found
