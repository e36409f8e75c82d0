"""The policy of a machine, with which its administrator can turn off features for every user.

The file is in a location where users cannot write, and no setting, variable or option overrides it. It can only turn
things off. An invalid file turns off everything, so that a typo never allows anything.
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

POLICY_FILE: Final = "policy.toml"
EVALUATION_KEY: Final = "evaluation"
SETTINGS_BY_KEY: Final[Mapping[str, str]] = MappingProxyType(
    {EVALUATION_KEY: "enable_mcp_repl_evaluation", "edits": "enable_edits"}
)
"""For each key in the file, the base setting that it turns off."""
POLICY_KEYS: Final = ("page", *SETTINGS_BY_KEY)
"""All keys in the file. The key for a feature's setting is valid even without that feature."""


@dataclass(frozen=True, slots=True)
class MachinePolicy:
    """The features that the machine's policy turns off, by their keys in the file.

    If the file is invalid, `error` is the reason.
    """

    path: Path
    off: tuple[str, ...] = ()
    error: str | None = None


def policy_file() -> Path:
    """Return the path of the machine's policy file."""
    system: str = sys.platform
    if system == "win32":
        return Path(os.environ.get("PROGRAMDATA") or "C:/ProgramData") / "codriver" / POLICY_FILE
    if system == "darwin":
        return Path("/Library/Application Support/codriver") / POLICY_FILE
    return Path("/etc/codriver") / POLICY_FILE


def read_policy(path: Path) -> MachinePolicy:
    """Read a policy file. If it does not exist, nothing is turned off. Blocks on disk I/O."""
    try:
        found = toml_file.read_toml(path, root=None)
    except TomlFileError as error:
        return MachinePolicy(path, POLICY_KEYS, error.why)
    wrong = [key for key, value in found.items() if key not in POLICY_KEYS or not isinstance(value, bool)]
    if wrong:
        known = ", ".join(f"{key} = false" for key in POLICY_KEYS)
        return MachinePolicy(path, POLICY_KEYS, f"the file may only contain {known}, but contains {', '.join(wrong)}")
    return MachinePolicy(path, tuple(key for key in POLICY_KEYS if found.get(key) is False))
