"""The policy of a machine: a file by which its administrator turns off the page, evaluation or edits for every user.

The file lies where users cannot write, and no user's setting, variable or option overrides it. It can only turn off. A
file that cannot be understood turns off everything, so that a typing error allows nothing.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from codriver.files import toml_file
from codriver.files.toml_file import TomlFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "policy.toml"
EVALUATION: Final = "evaluation"
SWITCHES: Final[Mapping[str, str]] = MappingProxyType(
    {EVALUATION: "enable_mcp_repl_evaluation", "edits": "enable_edits"}
)
"""For each key of the file, the setting of the base that it turns off."""
KEYS: Final = ("page", *SWITCHES)
"""All keys of the file. The setting of a feature names its key, which is understood without that feature too."""


@dataclass(frozen=True, slots=True)
class MachinePolicy:
    """What a machine's policy turns off, by its keys. `problem`: why the file cannot be understood."""

    path: Path
    off: tuple[str, ...] = ()
    problem: str | None = None


def policy_file() -> Path:
    """Return the path of the machine's policy."""
    system: str = sys.platform
    if system == "win32":
        return Path(os.environ.get("PROGRAMDATA") or "C:/ProgramData") / "codriver" / NAME
    if system == "darwin":
        return Path("/Library/Application Support/codriver") / NAME
    return Path("/etc/codriver") / NAME


def read(path: Path) -> MachinePolicy:
    """Read a policy; a missing file turns off nothing. Blocks."""
    try:
        found = toml_file.read(path, root=None)
    except TomlFileError as error:
        return MachinePolicy(path, KEYS, error.why)
    wrong = [key for key, value in found.items() if key not in KEYS or not isinstance(value, bool)]
    if wrong:
        known = ", ".join(f"{key} = false" for key in KEYS)
        return MachinePolicy(path, KEYS, f"it can have {known}, and has {', '.join(wrong)}")
    return MachinePolicy(path, tuple(key for key in KEYS if found.get(key) is False))
