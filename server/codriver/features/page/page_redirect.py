"""Open the page through a file that redirects to it, so that its address does not appear in the browser's command line.

All users of a machine can read the command lines of all programs. This file has mode 0600.
"""

from __future__ import annotations

import html
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.files.codriver_paths import workspace_state_directory

if TYPE_CHECKING:
    from pathlib import Path

REDIRECT_TEMPLATE: Final = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>codriver</title>
<script>location.replace({script})</script>
<noscript><a href="{link}">Open the page</a></noscript>
"""
"""The template of the redirect file."""


def redirect_file(workspace: Path) -> Path:
    """Return the path of the file that redirects a browser to the page of a workspace."""
    return workspace_state_directory(workspace) / "page.html"


def write_redirect(file: Path, address: str) -> None:
    """Write a file that redirects a browser to an address. Only this user can read it.

    Raises:
        OSError: the file cannot be written.
    """
    script = json.dumps(address).replace("<", "\\u003c")
    text = REDIRECT_TEMPLATE.format(script=script, link=html.escape(address))
    files.replace(
        file, text.encode(), links=files.Links.OF_USER, make_mode=files.PRIVATE_DIRECTORY_MODE, is_durable=False
    )


def remove_redirect(file: Path) -> None:
    """Remove the redirect file, if it exists."""
    with suppress(OSError), files.locate(file, files.Links.OF_USER, is_last_followed=False) as entry:
        entry.remove()
