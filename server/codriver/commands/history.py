"""`codriver history`: search the code evaluated in this workspace, including earlier runs."""

from __future__ import annotations

import ast
import time
from typing import TYPE_CHECKING

import click

from codriver.app.features import repl_kinds
from codriver.commands.log_follower import MAX_TEXT_BYTES, FollowError
from codriver.commands.options import WholeNumberRange, workspace_option
from codriver.commands.terminal import Styled, convert_field_errors, echo
from codriver.files.codriver_paths import history_file
from codriver.log.control_characters import escape_to_one_line
from codriver.net import client
from codriver.repls.kinds import PYTHON_KIND, dialect_for_session_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


HISTORY_KIND = "history"
"""The argument of `codriver forget` that selects the history."""

MAX_PARSED_EVALUATIONS = 20
"""Maximum number of a session's evaluations that are parsed to determine its language."""


@click.command("history", short_help="Search the code that was evaluated in this workspace.")
@click.argument("text", default="")
@click.option(
    "--limit",
    type=WholeNumberRange(1, 10_000),
    default=20,
    help="Maximum number of entries (default: 20). The newest ones are printed.",
)
@workspace_option
def history_command(*, text: str, limit: int, workspace: Path) -> None:
    """Search the code evaluated in this workspace, including earlier runs, and print it ready to paste."""
    found = history_rows(workspace.resolve(), text)[-limit:]
    if not found:
        message = (
            f"nothing in the history contains {text!r}"
            if text
            else ("nothing has been evaluated in this workspace yet")
        )
        echo(message, err=True)
    signs = comment_markers([(key, code) for _, _, _, key, code, _ in found])
    for line, when, who, key, code, file in found:
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when / 1000))
        echo(Styled(escape_to_one_line(f"{signs[key]} {line} {stamp} {who} {key}".rstrip()), dim=True))
        echo(f"{signs[key]} load {escape_to_one_line(file.removeprefix(f'{workspace.resolve()}/'))}" if file else code)


def comment_markers(rows: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the comment marker of each session's language, by session key.

    A key that is named after a kind of REPL determines the language. For other keys, the language is Python if at least
    half of the newest code parses as Python.
    """
    codes: dict[str, list[str]] = {}
    for key, code in reversed(rows):
        codes.setdefault(key, []).append(code)
    return {key: "#" if _is_python(key, some[:MAX_PARSED_EVALUATIONS]) else ";;" for key, some in codes.items()}


def _is_python(key: str, codes: Sequence[str]) -> bool:
    dialect = dialect_for_session_key(key, repl_kinds())
    return sum(map(_parses_as_python, codes)) * 2 > len(codes) if dialect is None else dialect == PYTHON_KIND.dialect


def _parses_as_python(code: str) -> bool:
    try:
        ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


EVALUATED_CODE_QUERY = """[:find ?line ?when ?who ?key ?code ?file :in $ $history
  :where [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] [$history ?e :output/text ?code]
         [(get-else $history ?e :output/who "") ?who] [(get-else $history ?e :output/repl-session-key "") ?key]
         [(get-else $history ?e :output/file "") ?file]]"""
"""The query for the evaluated code in a history."""


def history_rows(workspace: Path, text: str) -> list[tuple[int, int, str, str, str, str]]:
    """Return the history from the running server, or from its file if no server is running.

    Each row consists of the line, time, caller, session key and code, and the file if it was loaded. Only rows whose
    code or file contains `text` are returned.
    """
    try:
        with client.connect(workspace, name="codriver-history") as connection:
            answer = connection.call(
                "repl_output_log", {"query": EVALUATED_CODE_QUERY, "limit": 10_000, "maxTextBytes": MAX_TEXT_BYTES}
            )
        if not answer.get("ok"):
            raise FollowError(answer)
        with convert_field_errors("repl_output_log"):
            rows = [_history_row(*row) for row in answer["result"]]
    except client.NoServerError:
        from codriver.log.history import NewerFormatError, UnreadableError, read_history  # noqa: PLC0415  # only here

        file = history_file(workspace)
        try:
            entries = read_history(file)
        except (NewerFormatError, UnreadableError, OSError) as error:
            raise click.ClickException(f"the history file {file} cannot be read: {error}") from error
        rows = [(e.line, e.timestamp, e.who or "", e.session_key or "", e.text, e.file or "") for e in entries]
    return [row for row in rows if text in row[4] or text in row[5]]


def _history_row(line: int, when: int, who: str, key: str, code: str, file: str) -> tuple[int, int, str, str, str, str]:
    return int(line), int(when), str(who), str(key), str(code), str(file)
