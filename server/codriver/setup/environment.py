"""Describe the machine and the user, which determine where clients are configured."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


Platform = Literal["linux", "macos", "windows"]


_PACKAGE_PLACEHOLDER: Final = "{claude-package}"


@dataclass(frozen=True, slots=True)
class Environment:
    """Facts about the machine and the user that determine where clients are configured."""

    home: Path
    platform: Platform
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def current(cls) -> Environment:
        """Return the environment of this process."""
        platform: Platform = "linux"
        if sys.platform == "darwin":
            platform = "macos"
        elif sys.platform == "win32":
            platform = "windows"
        return cls(Path.home(), platform, MappingProxyType(dict(os.environ)))

    def expand_paths(self, patterns: Iterable[str]) -> list[Path]:
        """Expand the path patterns of `clients.toml`. Patterns for packages that are not installed are left out."""
        directories: dict[str, Path] = {
            "home": self.home,
            "config": self._get_directory("XDG_CONFIG_HOME") or self.home / ".config",
            "appdata": self._get_directory("APPDATA") or self.home / "AppData" / "Roaming",
            "codex": self._get_directory("CODEX_HOME") or self.home / ".codex",
            "copilot": self._get_directory("COPILOT_HOME") or self.home / ".copilot",
        }
        if (package := self._claude_package()) is not None:
            directories["claude-package"] = package
        return [
            Path(pattern.format_map(directories))
            for pattern in patterns
            if package or _PACKAGE_PLACEHOLDER not in pattern
        ]

    def has_command(self, name: str) -> bool:
        """Return whether a program is on the PATH."""
        return self.which(name) is not None

    def which(self, name: str) -> str | None:
        """Return the path of a program on the PATH, or None."""
        return shutil.which(name, path=self.variables.get("PATH", ""))

    def _claude_package(self) -> Path | None:
        """Return the directory of Claude Desktop's files if it is installed as a Windows package, or None.

        Such a package uses this directory instead of `AppData/Roaming`. The directory's name ends with the publisher's
        key.
        """
        local = self._get_directory("LOCALAPPDATA") or self.home / "AppData" / "Local"
        return next(iter(sorted(local.glob("Packages/Claude_*/LocalCache/Roaming/Claude"))), None)

    def _get_directory(self, variable: str) -> Path | None:
        """Return the directory in an environment variable, or None unless it is an absolute path."""
        given = self.variables.get(variable, "")
        return Path(given) if given and Path(given).is_absolute() else None


def path_exists(path: Path) -> bool:
    """Return whether a file or directory exists. If its directory cannot be read, it counts as missing."""
    return os.path.exists(path)  # noqa: PTH110  # `Path.exists` raises if permission is denied
