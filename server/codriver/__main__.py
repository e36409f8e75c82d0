"""Entry point of the command `codriver` and of `python -m codriver`.

A script may evaluate code thousands of times, and parsing a command line with click takes longer than the evaluation.
So a plain `codriver eval` is sent from here, and an answer with only output and values is printed here. Everything else
is handled by `codriver.commands.cli`, which continues with the call that was already made, so that code is never sent
twice.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from codriver.net.client import Connection

FIRST_CALL_TIMEOUT_MS = 300
"""Timeout of the first call, in milliseconds. `codriver eval` uses the same one without this fast path."""


def main() -> None:
    """Run the command line, and exit with its status."""
    started = _start_plain_eval(sys.argv[1:]) if _is_output_read_by_program() else None
    if started is None or not _print_plain_answer(started[1]):
        from codriver.commands import cli  # noqa: PLC0415  # slow to import

        cli.main(started)


def _is_output_read_by_program() -> bool:
    """Return whether another program reads the output, and not a terminal or a shell that completes a command."""
    streams = (sys.stdout, sys.stderr)
    is_read = all(stream is not None and not stream.isatty() for stream in streams)
    return is_read and sys.platform != "win32" and "_CODRIVER_COMPLETE" not in os.environ


def _start_plain_eval(words: list[str]) -> tuple[Connection | None, dict[str, Any] | BaseException] | None:
    """Start a plain `eval` without the full command line.

    Returns the connection, and the answer or the error. Returns None for any other command line.
    """
    match words:
        case ["eval", code]:
            given = None
        case ["eval", "-w" | "--workspace", given, code]:
            pass
        case _:
            return None
    if not code or code.startswith("-"):
        return None
    from codriver.errors import CodriverError  # noqa: PLC0415  # not needed by other commands
    from codriver.net import client  # noqa: PLC0415  # as above

    connection = None
    try:
        workspace = _find_workspace(given)
        if workspace is None:
            return None
        connection = client.connect(workspace)
        arguments = {"code": code, "timeoutMs": FIRST_CALL_TIMEOUT_MS, "who": "codriver-cli", "maxImages": 0}
        return connection, connection.call("evaluate_code", arguments)
    except (CodriverError, OSError, RuntimeError, ValueError) as error:
        return None if connection is None else (connection, error)
    except KeyboardInterrupt as error:
        return connection, error


def _find_workspace(given: str | None) -> Path | None:
    """Return the workspace of a plain `eval`, or None if the full command line has to determine it.

    This is the given directory, or else the current directory if a server has been started in it.
    """
    from pathlib import Path  # noqa: PLC0415  # as above

    from codriver.files.codriver_paths import server_directory  # noqa: PLC0415  # as above
    from codriver.net import server_record  # noqa: PLC0415  # as above

    if given is not None:
        is_folder = not given.startswith("-") and stat.S_ISDIR(os.stat(given).st_mode) and os.access(given, os.R_OK)  # noqa: PTH116  # as click does
        return Path(given).resolve() if is_folder else None
    directory = Path.cwd()
    return directory.resolve() if server_record.lock_status(server_directory(directory)) is not None else None


def _print_plain_answer(answer: dict[str, Any] | BaseException) -> bool:
    """Print an answer that contains only output, values and plain notes.

    Returns False for any other answer, which is not printed.
    """
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
    printed = [(sys.stdout, out), (sys.stderr, err)]
    printed += [(sys.stdout, f"{value}\n") for value in values if value != "None"]
    printed += [(sys.stderr, f"{note}\n") for note in notes]
    for stream, text in printed:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    return True


if __name__ == "__main__":
    main()
