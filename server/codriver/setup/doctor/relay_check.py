"""Whether a client really gets through: the relay is started as a client starts it, and asked one question."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.setup.clients import Launch

PASSAGE_S: Final = 10.0
NAME: Final = "codriver-doctor"
"""The client that the doctor itself is."""

QUESTION: Final = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": NAME, "version": "0"},
    },
}


def obstacle(launch: Launch, port_file: Path) -> str | None:
    """What keeps a client from the running server, in words; None when the relay brings the server's answer."""
    command = [str(launch.python), str(launch.relay), str(port_file)]
    try:
        done = subprocess.run(  # noqa: S603  # what the clients' entries start
            command,
            input=json.dumps(QUESTION) + "\n",
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=PASSAGE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no answer came through it within {PASSAGE_S:g} s"
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror or error}"
    try:
        answer = json.loads(done.stdout.splitlines()[0])
        name = answer["result"]["serverInfo"]["name"]
    except (IndexError, ValueError, KeyError, TypeError):
        said = done.stderr.strip().splitlines() or done.stdout.strip().splitlines() or ["it said nothing"]
        return f"it ended with status {done.returncode}: {said[-1][:300]}"
    return None if name == "codriver" else f"what answers through it calls itself {name}"
