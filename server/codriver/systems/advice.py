"""Commands that messages advise, as they are typed in each system."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

if sys.platform == "win32":

    def to_end(process: int | str) -> str:
        """The command that ends a process at once."""
        return f"taskkill /F /PID {process}"

    def to_name_holder(file: Path) -> str:
        """The command that names who holds a file."""
        return f"handle {file}"

    def to_open(path: Path) -> str:
        """The command that lets this user read, write and enter."""
        return f'icacls "{path}" /grant "%USERNAME%:(OI)(CI)F"'

else:

    def to_end(process: int | str) -> str:
        """The command that ends a process at once."""
        return f"kill -9 {process}"

    def to_name_holder(file: Path) -> str:
        """The command that names who holds a file."""
        return f"fuser {file}"

    def to_open(path: Path) -> str:
        """The command that lets this user read, write and enter."""
        return f"chmod u+rwx {shlex.quote(str(path))}"
