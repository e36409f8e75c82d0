"""Reload of settings while a server runs: some take effect at once, others wait for a restart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from codriver.files import toml_file
from codriver.files.read_cache import ReadCache
from codriver.files.working_trees import main_checkout
from codriver.settings import trust
from codriver.settings.layers import SettingsError, as_rows, files, held_back, load
from codriver.settings.model import GROWING, NEED_RESTART, spelled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from codriver.settings.layers import Loaded
    from codriver.settings.model import Settings

RESTART = "codriver stop && codriver serve"


@dataclass(frozen=True, slots=True)
class News:
    """The news from a look at the settings files. `settings`: those in effect from now on.

    `said` and `wrong`: lines for the log. `refused`: a file is so wrong that nothing of it holds.
    """

    settings: Settings
    said: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    refused: bool = False
    accepted: bool = False
    """The user has accepted the workspace, or the main checkout of one that is a linked working tree, since then."""


class Reloader:
    """Looks at the settings files of one workspace, for the life of a server. Not for several threads at once."""

    def __init__(
        self, workspace: Path, *, environ: Mapping[str, str], overrides: Mapping[str, object], loaded: Loaded
    ) -> None:
        self._workspace = workspace
        self._environ = environ
        self._overrides = overrides
        self._loaded = loaded
        self.settings = loaded.settings
        """The settings in effect."""
        # The environment of a linked working tree may be that of its main checkout.
        self._accepting = tuple(filter(None, (workspace, main_checkout(workspace))))
        self._read: ReadCache[bytes | str | None] = ReadCache()
        self._seen = self._read_files()

    @property
    def withheld(self) -> tuple[str, ...]:
        """The settings of the workspace's files that do not count, a line each."""
        return self._loaded.withheld

    def look(self) -> News | None:
        """The changes since the last look; None when the files are as they were.

        A file that is wrong changes nothing: the settings stay as they are until it is mended.
        """
        seen = self._read_files()
        if seen == self._seen:
            return None
        is_trust_news, self._seen = seen[-1] != self._seen[-1], seen
        try:
            loaded = load(self._workspace, environ=self._environ, overrides=self._overrides)
        except SettingsError as error:
            return News(
                self.settings, wrong=(f"the settings stay as they are: {'; '.join(error.problems)}",), refused=True
            )
        before, self._loaded = self._loaded, loaded
        warnings = [warning for warning in loaded.warnings if warning not in before.warnings]
        warnings += [held_back(line) for line in loaded.withheld if line not in before.withheld]
        rows = {name: (value, whence) for name, value, whence in as_rows(loaded)}
        said: list[str] = []
        kept: dict[str, object] = {}
        for name in type(loaded.settings).model_fields:
            value, current = getattr(loaded.settings, name), getattr(self.settings, name)
            is_new = value != getattr(before.settings, name)
            words = " = ".join((spelled(name), rows[spelled(name)][0])) + f" from {rows[spelled(name)][1]}"
            if name in GROWING:
                kept[name] = (*current, *(item for item in value if item not in current))
                if is_new:
                    said.append(f"setting {words}: {_grown(value, current)}")
            elif name in NEED_RESTART:
                kept[name] = current
                if is_new and value != current:
                    said.append(f"setting {words} waits for a restart: {RESTART}")
            elif is_new:
                said.append(f"setting {words} holds from now on")
        self.settings = loaded.settings.model_copy(update=kept)
        accepted = is_trust_news and any(trust.is_accepted(folder) for folder in self._accepting)
        return News(self.settings, tuple(said), tuple(warnings), accepted=accepted)

    def _read_files(self) -> tuple[bytes | str | None, ...]:
        user, *own = files(self._workspace)
        contents = [self._content(user, None), *(self._content(file, self._workspace) for file in own)]
        records = [self._kept(trust.record_path(one), partial(trust.kept_digest, one)) for one in self._accepting]
        return (*contents, "\n".join(str(record or "") for record in records))

    def _content(self, file: Path, root: Path | None) -> bytes | str | None:
        return self._kept(file, partial(_content, file, root))

    def _kept(self, file: Path, read: Callable[[], bytes | str | None]) -> bytes | str | None:
        try:
            return self._read.get(file, read)
        except (FileNotFoundError, NotADirectoryError):
            return None


def _grown(value: tuple[object, ...], current: tuple[object, ...]) -> str:
    """The fate of a changed list that only grows while the server runs, in words."""
    added = [str(item) for item in value if item not in current]
    left = [str(item) for item in current if item not in value]
    parts = [f"{', '.join(added)} comes now"] if added else []
    parts += [f"{', '.join(left)} stays until a restart: {RESTART}"] if left else []
    return "; ".join(parts) or "no entry came or went"


def _content(file: Path, root: Path | None) -> bytes | str | None:
    """The content of a file; None where there is none, a text that says why it is not read."""
    try:
        return toml_file.content(file, root=root)
    except FileNotFoundError:
        return None
    except OSError as error:
        return str(error)
