"""The kept greeting and list of tools of a workspace, for a client whose server is being started.

Imported when a server is being started.
"""

from __future__ import annotations

import os
import sys

from codriver_relay.messages import META
from codriver_relay.own_files import FOLDER, OTHERS, read_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KEPT_BYTES = 1 << 20
"""What a server keeps of a workspace is a tenth of this."""
NOT_COMPARED = "_TOKEN"
"""The end of the names of variables of ours by which no list differs: they are secrets, and are written nowhere."""


def read_kept(workspace: str, line: bytes, *, is_handshake: bool = True) -> dict[str, dict[str, object]] | None:
    """The kept greeting and list of tools of a workspace, for the client that says `line`: its `initialize`, or any.

    `greeting` and `tools` are the answers to `initialize`, or `server/discover`, and to `tools/list`. None where there
    is nothing, or anything has changed since: the Python, a file that settings or the version come from, a variable of
    ours. Source: `codriver.app.kept_lists`, which writes it.
    """
    import json

    try:
        about = json.loads(line)["params"] if is_handshake else envelope_of(line)
        prefix, shape = ("", "protocolVersion") if is_handshake else (META, "supportedVersions")
        name, version = about[prefix + "clientInfo"]["name"], about[prefix + "protocolVersion"]
        status = os.stat(workspace)
        folder = os.open(kept_folder(), FOLDER)
        try:
            if os.fstat(folder).st_uid != os.geteuid() or os.fstat(folder).st_mode & OTHERS:
                return None
            kept = json.loads(read_file(folder, f"{status.st_dev}-{status.st_ino}.json", KEPT_BYTES))
        finally:
            os.close(folder)
        named = {name: value for name, value in os.environ.items() if name.startswith("CODRIVER_")}
        ours = {name: value for name, value in named.items() if not name.endswith(NOT_COMPARED)}
        has_own_command = bool(ours.get("CODRIVER_SERVER_COMMAND"))
        is_same = kept["workspace"] == os.path.realpath(workspace) and kept["environment"] == ours
        if not is_same or not (has_own_command or kept["python"] == sys.executable):
            return None
        if any(stamp_of(path) != stamp for path, stamp in kept["files"].items()):
            return None
        for client in kept["clients"]:
            if (client["name"], client["protocol"]) == (name, version):
                found = {part: client[part] for part in ("greeting", "tools")}
                is_sound = all(isinstance(part, dict) for part in found.values()) and shape in found["greeting"]
                return found if is_sound else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    return None


def envelope_of(line: bytes) -> dict[str, Any]:
    """The envelope of a request: all that each one has to say of a client without a handshake.

    Raises:
        LookupError, ValueError, TypeError: it does not say all of it, as in a handshake era.
    """
    import json

    meta = json.loads(line)["params"]["_meta"]
    return {META + name: meta[META + name] for name in ("protocolVersion", "clientInfo", "clientCapabilities")}


def kept_folder() -> str:
    """Where servers keep lists, in the user's state folder. Source: `codriver.files.paths`, platformdirs."""
    mac = "~/Library/Application Support"
    given = os.environ.get("XDG_STATE_HOME", "")
    base = given if given.startswith("/") else mac if sys.platform == "darwin" else "~/.local/state"
    return os.path.join(os.path.expanduser(base), "codriver", "lists")


def stamp_of(path: str) -> list[int] | None:
    """When a file was written, how long it is and which one it is; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_mtime_ns, status.st_size, status.st_ino]
