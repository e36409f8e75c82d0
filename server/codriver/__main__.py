"""The command `codriver`, also `python -m codriver`. An evaluation for a program takes a short way.

Scripts evaluate a thousand times, and reading a command line with `click` costs more than the evaluation. A command
line of one plain shape is therefore begun here, and an answer of mere values is printed here. All else goes the whole
way, and takes along the begun evaluation: code is never sent twice.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.net.client import Connection

FIRST_MS = 300
"""The wait for the first answer, as on the whole way without options."""


def main() -> None:
    """Run the command line; exit with its status."""
    begun = _begin(sys.argv[1:]) if _is_for_a_program() else None
    if begun is None or not _is_said(begun[1]):
        from codriver.commands import cli  # noqa: PLC0415  # the short way is short without it

        cli.main(begun)


def _is_for_a_program() -> bool:
    """Whether the caller is a program, and the shell neither completes words nor leaves patterns in them."""
    streams = (sys.stdout, sys.stderr)
    is_read = all(stream is not None and not stream.isatty() for stream in streams)
    return is_read and sys.platform != "win32" and "_CODRIVER_COMPLETE" not in os.environ


def _begin(words: list[str]) -> tuple[Connection | None, dict[str, Any] | BaseException] | None:
    """The answer to `eval CODE` or `eval --workspace DIR CODE`, or the error that came; None for other commands."""
    match words:
        case ["eval", code]:
            given = None
        case ["eval", "-w" | "--workspace", given, code]:
            pass
        case _:
            return None
    if not code or code.startswith("-"):
        return None
    from codriver.errors import CodriverError  # noqa: PLC0415  # other commands import it as they need it
    from codriver.net import client  # noqa: PLC0415  # as above

    connection = None
    try:
        workspace = _workspace(given)
        if workspace is None:
            return None
        connection = client.connect(workspace)
        asked = {"code": code, "timeoutMs": FIRST_MS, "who": "codriver-cli", "maxImages": 0}
        return connection, connection.call("evaluate_code", asked)
    except (CodriverError, OSError, RuntimeError, ValueError) as error:
        return None if connection is None else (connection, error)
    except KeyboardInterrupt as error:
        return connection, error


def _workspace(given: str | None) -> Path | None:
    """The given folder, else the current one if a server is or was there; None for any other."""
    from pathlib import Path  # noqa: PLC0415  # as above

    from codriver.files.own_folders import server_directory  # noqa: PLC0415  # as above
    from codriver.net import server_record  # noqa: PLC0415  # as above

    if given is not None:
        is_folder = not given.startswith("-") and stat.S_ISDIR(os.stat(given).st_mode) and os.access(given, os.R_OK)  # noqa: PTH116  # as `click` looks
        return Path(given).resolve() if is_folder else None
    here = Path.cwd()
    return here.resolve() if server_record.lock_status(server_directory(here)) is not None else None


def _is_said(answer: dict[str, Any] | BaseException) -> bool:
    """Whether the answer holds only output, values and plain notes, and these were printed."""
    if isinstance(answer, BaseException) or answer.get("ok") is not True or answer.get("status") != "done":
        return False
    values = answer.get("values") or ([answer["result"]] if "result" in answer else [])
    notes, out, err = answer.get("notes") or [], answer.get("stdout", ""), answer.get("stderr", "")
    is_plain = all(
        isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in (values, notes)
    )
    is_plain = is_plain and isinstance(out, str) and isinstance(err, str) and not answer.get("reason")
    if not is_plain or any("<<image/" in value for value in values) or any(note.startswith("cut") for note in notes):
        return False
    said = [(sys.stdout, out), (sys.stderr, err)]
    said += [(sys.stdout, f"{value}\n") for value in values if value != "None"]
    said += [(sys.stderr, f"{note}\n") for note in notes]
    for stream, text in said:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    return True


if __name__ == "__main__":
    main()
