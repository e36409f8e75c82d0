"""The record of the page in the workspace's state folder: its port and its token, for the command and the next server.

Only this user can read it. A server that ends leaves it behind, so that the next one goes on with the page.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from codriver import files
from codriver.net.server_record import LARGEST_PORT, TOKEN

if TYPE_CHECKING:
    from pathlib import Path

RULES: Final = files.Rules(files.Links.OWN, files.KIBIBYTE, is_granting=True, is_secret=True)


@dataclass(frozen=True, slots=True)
class PageRecord:
    """The port at which the page is, and the token that opens it."""

    port: int
    token: str


def record_file(state_folder: Path) -> Path:
    """The file of the record, in a workspace's state folder."""
    return state_folder / "page.json"


def read_record(file: Path) -> PageRecord | None:
    """The record; None where there is none, or none that counts."""
    found = files.read_json(file, RULES)
    if not isinstance(found, dict):
        return None
    port, token = found.get("port"), found.get("token")
    if type(port) is not int or not 0 < port <= LARGEST_PORT or not isinstance(token, str):
        return None
    return PageRecord(port, token) if TOKEN.fullmatch(token) else None


def write_record(file: Path, record: PageRecord) -> None:
    """Write the record. Raises OSError when that fails."""
    text = json.dumps({"port": record.port, "token": record.token}) + "\n"
    files.replace(file, text.encode(), links=files.Links.OWN, make_mode=files.PRIVATE_FOLDER, is_durable=False)


def remove_record(file: Path) -> None:
    """Remove the record, where there is one."""
    with suppress(OSError), files.locate(file, files.Links.OWN, is_last_followed=False) as place:
        place.remove()
