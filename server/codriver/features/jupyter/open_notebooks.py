"""Find out whether a notebook is open in another program, which would not notice changes to the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from codriver.features.jupyter.kernels.connection_files import RuntimeDirectory
from codriver.features.jupyter.kernels.jupyter_paths import runtime_directory
from codriver.features.jupyter.kernels.server_sessions import describe_server_with_notebook

if TYPE_CHECKING:
    from pathlib import Path


def find_open_notebook(path: Path) -> str | None:
    """Describe the Jupyter Server on which a notebook is open. Return None if there is none.

    Blocks until the servers have answered.
    """
    return describe_server_with_notebook(path, RuntimeDirectory(runtime_directory(os.environ)).contents().servers)
