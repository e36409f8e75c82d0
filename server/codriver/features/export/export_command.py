"""`codriver export`: turn evaluations into documents or recordings.

A document is a test file or a notebook. The exit status is 0 if the file was written, 1 if it was not, 2 for wrong
usage, and 3 if there is no server.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from codriver.commands.call import session_option
from codriver.commands.log import replace_images_with_marks
from codriver.commands.log_follower import MAX_TEXT_BYTES, FollowError
from codriver.commands.options import (
    STRICT_CHOICE,
    Number,
    WholeNumberRange,
    images_option,
    python_option,
    workspace_option,
)
from codriver.commands.runs import run_entries
from codriver.commands.terminal import convert_field_errors, echo, waiting_line
from codriver.errors import CodriverError, format_count
from codriver.features.export.documents.layout import Format, Origin, describe_reproduction
from codriver.features.export.documents.recordings import (
    EvaluationsNotFoundError,
    Recording,
    count_with_definitions,
    encode_recording,
    evaluations_since_checkpoint,
    evaluations_with_ids,
    read_recorded_evaluations,
    unknown_names,
)
from codriver.features.jupyter.kernel_kind import JUPYTER_PROTOCOL, KERNEL_KIND
from codriver.files import Links, whole_files
from codriver.files.codriver_paths import workspace_state_directory
from codriver.net import client
from codriver.repls.kinds import PYTHON_KIND, dialect_for_session_key, find_kind, split_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver.features.export.documents.recordings import RecordedEvaluation
    from codriver.features.export.documents.step_verification import CheckedStep
    from codriver.features.export.fresh_runs import FreshRuns
    from codriver.net.client import Connection

FORMAT_NAMES = (*get_args(Format), "recording")
"""Valid values of the option `--format`."""
FORMATS_BY_SUFFIX = {".ipynb": "notebook", ".jsonl": "recording"}
"""Formats to use if none is given, by the suffix of the output file."""
MAX_SEARCHED_ENTRIES = 10_000
"""Maximum number of log entries to search for evaluations."""
STDOUT_NAME = "-"
"""The output name for standard output."""
_KERNEL_KEY = re.compile(r"jup(-\d+)?|.+-ipynb(-\d+)?")
"""Matches the session keys of Python kernels and of notebooks."""


class OutputExistsError(CodriverError):
    """Raised when the output file already exists and `--force` was not given."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} already exists. Name another file, or add --force to replace it")


class SeveralSessionsError(CodriverError):
    """Raised when the selected evaluations belong to more than one session."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(f"these evaluations belong to several sessions ({', '.join(keys)}). Choose one with --session")


@dataclass(frozen=True, slots=True)
class ExportedEvaluations:
    """The evaluations selected for export. All belong to the session `key`."""

    key: str
    recording: Recording
    known: Sequence[RecordedEvaluation] = ()
    """All evaluations of the session, if `--last` chose the evaluations."""


@click.command(
    "export",
    short_help="Make a test or notebook from a session.",
    epilog="Exit status: 0 written, 1 not written, 2 wrong usage, 3 no server.",
)
@click.argument("ids", nargs=-1, metavar="[EVALUATION]...")
@click.option("--last", type=WholeNumberRange(1, MAX_SEARCHED_ENTRIES), metavar="N", help="The last N evaluations.")
@click.option(
    "--since", metavar="NAME", help="Start at the checkpoint NAME, an evaluation described as `checkpoint: NAME`."
)
@click.option("--query", metavar="EDN", help="The evaluations whose ids (:output/evaluation) a Datalog query finds.")
@click.option("--run", metavar="RUN", help="From an earlier run: -1 for the last one, or an id from `codriver runs`.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMAT_NAMES),
    help="The format of the document. Default: as the name of FILE suggests, otherwise test.",
)
@click.option(
    "--output",
    "-o",
    metavar="FILE",
    default=STDOUT_NAME,
    help="The file to write, in the workspace. Default: -, which is standard output.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--repl", metavar="WORDS", help="Command or kind of the fresh REPL, as for `serve --repl`.")
@python_option
@click.option(
    "--timeout",
    type=Number(1, 600),
    default=60.0,
    metavar="SECONDS",
    help="Time limit for each step, from 1 to 600 (default: 60).",
)
@images_option
@session_option
@workspace_option
def export_command(  # noqa: PLR0913  # each option is an argument
    *,
    ids: tuple[str, ...],
    last: int | None,
    since: str | None,
    query: str | None,
    run: str | None,
    form: str | None,
    output: str,
    force: bool,
    repl: str | None,
    python: str,
    timeout: float,
    pictures: str,
    session: str | None,
    workspace: Path,
) -> None:
    """Export evaluations as a test file, notebook or recording. EVALUATION is an id.

    Before a test or notebook is written, the code RUNS AGAIN, including its side effects, in fresh REPLs of the same
    kind, and its output is printed to standard error. Steps that do not reproduce are marked or omitted. A recording is
    only copied. A notebook contains images, and a test only mentions them in a comment.
    """
    workspace = workspace.resolve()
    file = _output_file(output, workspace, force=force)
    chosen = _select_evaluations(workspace, ids, last, since, query, run, session, repl)
    form = form or FORMATS_BY_SUFFIX.get(Path(output).suffix, "test")
    if form == "recording":
        text = encode_recording(chosen.recording)
        summary = format_count(len(chosen.recording.evaluations), "evaluation")
    else:
        from codriver.features.export.fresh_runs import FreshRuns  # noqa: PLC0415  # not needed to copy a recording

        runs = FreshRuns(
            workspace,
            chosen.recording.repl,
            timeout,
            is_strict=pictures == STRICT_CHOICE,
            is_chosen=repl is not None,
            python=python,
            file=file,
        )
        text, summary = _create_document(chosen, form, _lisp_namespace(output), runs)  # type: ignore[arg-type]
    if file is None:
        echo(text, end="")
    else:
        _write(file, text, workspace, force=force)
        if form == "recording":
            _record_in_memory(file, chosen, workspace)
    echo(f"{file or 'exported'}: {summary}", err=True, hang=2)


def _output_file(output: str, workspace: Path, *, force: bool) -> Path | None:
    if output == STDOUT_NAME:
        return None
    file = Path(os.path.normpath(Path.cwd() / output))
    if not file.is_relative_to(workspace):
        raise CodriverError(
            f"{file} is not in the workspace {workspace}. Name a file in the workspace, or - for standard output"
        )
    if os.path.lexists(file) and not force:
        raise OutputExistsError(file)
    return file


def _write(file: Path, text: str, workspace: Path, *, force: bool) -> None:
    """Write a document to a file. An existing file is replaced only if `force` is true.

    Raises:
        OutputExistsError: the file already exists.
    """
    if os.path.lexists(file) and not force:
        raise OutputExistsError(file)
    whole_files.replace(file, text.encode(), links=Links.WITHIN, root=workspace, mode=None, make_mode=0o777)


def _record_in_memory(file: Path, chosen: ExportedEvaluations, workspace: Path) -> None:
    """Record in the workspace's memory that a recording was written, so that later servers know about it."""
    from codriver.log.memory import Document, Memory  # noqa: PLC0415  # only this function needs TinyDB

    memory = Memory(
        workspace_state_directory(workspace), is_repairing=False, report=lambda error: echo(error, err=True)
    )
    about = f"{format_count(len(chosen.recording.evaluations), 'evaluation')} of {chosen.key}"
    memory.remember(Document("recording", file.relative_to(workspace).as_posix(), time.time_ns() // 1_000_000, about))


def _lisp_namespace(output: str) -> str:
    """Return the namespace of a Lisp file, derived from its path below the source directory."""
    if output == STDOUT_NAME:
        return "exported-test"
    parts = list(Path(output).with_suffix("").parts)
    while len(parts) > 1 and (parts[0] in {"src", "test", "tests", "dev", ".", ".."} or Path(parts[0]).is_absolute()):
        parts.pop(0)
    name = ".".join(parts[-1:] if Path(output).is_absolute() else parts).replace("_", "-")
    return re.sub(r"[^\w.*+!?<>=-]", "-", name)


def _create_document(chosen: ExportedEvaluations, form: Format, name: str, runs: FreshRuns) -> tuple[str, str]:
    """Run the evaluations again. Return the verified document, and a summary of what was reproduced."""
    import anyio  # noqa: PLC0415  # not needed to copy a recording

    from codriver.features.export.documents.document_weakening import check_format  # noqa: PLC0415  # as above
    from codriver.features.export.fresh_runs import report_differences  # noqa: PLC0415  # as above

    recording = chosen.recording
    check_format(recording.dialect, form)
    origin = Origin(chosen.key, recording.repl, datetime.now(UTC).strftime("%Y-%m-%d"), name)
    with waiting_line(lambda: runs.progress.describe(recording.repl)):
        checked = anyio.run(runs.verify, recording)
        document = anyio.run(runs.write_document, checked, recording.dialect, form, origin)
    report_differences(document.checked)
    return document.text, describe_reproduction(document.checked) + _missing_definitions_hint(chosen, document.checked)


def _missing_definitions_hint(chosen: ExportedEvaluations, checked: Sequence[CheckedStep]) -> str:
    """Return a hint about earlier evaluations that define names unknown in the fresh REPL, or an empty string."""
    last = len(chosen.recording.evaluations)
    names = unknown_names(check.note for check in checked)
    most = count_with_definitions(chosen.known, last, names)
    if most == last:
        return ""
    return f"; --last {most} includes the earlier evaluations that define {', '.join(sorted(names))}"


def _select_evaluations(
    workspace: Path,
    ids: tuple[str, ...],
    last: int | None,
    since: str | None,
    query: str | None,
    run: str | None,
    session: str | None,
    repl: str | None,
) -> ExportedEvaluations:
    """Return the evaluations that the options select.

    Raises:
        CodriverError: no evaluations are selected, or they belong to several sessions.
        UsageError: the options cannot be combined.
    """
    if sum(map(bool, (ids, last, since, query))) > 1:
        raise click.UsageError("choose the evaluations with only one of: ids, --last, --since, --query")
    if run and query:
        raise click.UsageError(
            "--query searches only the log of the running server, so it cannot be used with --run. Omit --run, or "
            "choose evaluations by id"
        )
    rows: Sequence[Mapping[str, Any]]
    if run:
        rows, known = [replace_images_with_marks(entry).to_json() for entry in run_entries(workspace, run)], {}
    else:
        with client.connect(workspace, name="codriver-export") as connection:
            rows, known = _log_entries(connection), _sessions_by_key(connection)
            ids = ids or tuple(_query_ids(connection, query) if query else ())
    if query and not ids:
        raise EvaluationsNotFoundError("the query finds no evaluation in the log")
    with convert_field_errors("repl_output_log"):
        keys = {str(row["evaluation"]): str(row.get("repl-session-key", "")) for row in rows if "evaluation" in row}
        homes = {name: _definitions_key(key, known) for name, key in keys.items()}
        evaluations = [
            check for check in read_recorded_evaluations(rows) if session in (None, keys[check.id], homes[check.id])
        ]
    picked = (
        evaluations_since_checkpoint(evaluations, since)
        if since
        else evaluations_with_ids(evaluations, ids)
        if ids
        else tuple(evaluations)
    )
    picked = picked[-last:] if last else picked
    sessions = sorted({homes[check.id] for check in picked})
    if len(sessions) != 1:
        raise (
            SeveralSessionsError(sessions)
            if sessions
            else EvaluationsNotFoundError("no evaluation in the log belongs to this session")
        )
    of_session = [evaluation for evaluation in evaluations if homes[evaluation.id] == sessions[0]] if last else ()
    return ExportedEvaluations(sessions[0], _create_recording(picked, sessions[0], known, repl), of_session)


def _definitions_key(key: str, known: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the key of the session whose definitions an evaluation uses.

    The sessions of a Lisp REPL share all definitions, so the key of the REPL is returned for them.
    """
    repl = key.partition("/")[0]
    dialect = known.get(repl, {}).get("dialect") or dialect_for_session_key(repl, [KERNEL_KIND])
    return key if dialect == PYTHON_KIND.dialect else repl


def _create_recording(
    picked: tuple[RecordedEvaluation, ...], key: str, known: Mapping[str, Mapping[str, Any]], repl: str | None
) -> Recording:
    """Create a recording of the selected evaluations, with the dialect and REPL of their session."""
    from codriver.features.export.fresh_runs import repl_option  # noqa: PLC0415  # it imports everything that starts REPLs

    row = known.get(key.partition("/")[0], {})
    kind = find_kind(repl or "", [KERNEL_KIND])
    dialect = str(row.get("dialect") or dialect_for_session_key(key, [KERNEL_KIND]) or (kind.dialect if kind else ""))
    process_origin = str(row.get("origin", "")) if row.get("kind") == "process" else ""
    is_of_kernel = _is_kernel_session(row, key)
    kernel = JUPYTER_PROTOCOL if is_of_kernel and dialect == PYTHON_KIND.dialect else ""
    words = repl or process_origin or kernel or repl_option(dialect)
    if not words or not dialect:
        raise CodriverError(f"the kind of REPL used by session {key} is unknown. Pass --repl, as for `codriver serve`")
    return Recording(dialect, words, picked, is_of_kernel)


def _is_kernel_session(row: Mapping[str, Any], key: str) -> bool:
    """Return whether a session belongs to a kernel, according to its address or, without a server, its key."""
    if address := str(row.get("address", "")):
        return split_address(address)[0] == JUPYTER_PROTOCOL
    return _KERNEL_KEY.fullmatch(key) is not None


def _log_entries(connection: Connection) -> list[dict[str, Any]]:
    """Return the latest entries in a running server's log."""
    answer = connection.call("repl_output_log", {"limit": MAX_SEARCHED_ENTRIES, "maxTextBytes": MAX_TEXT_BYTES})
    if not answer.get("ok"):
        raise FollowError(answer)
    with convert_field_errors("repl_output_log"):
        rows: list[dict[str, Any]] = answer["result"]
    return rows


def _sessions_by_key(connection: Connection) -> dict[str, Mapping[str, Any]]:
    """Return a running server's sessions by key."""
    with convert_field_errors("server_health"):
        return {str(row["key"]): row for row in connection.call("server_health", {})["repls"]}


def _query_ids(connection: Connection, query: str) -> Iterator[str]:
    """Yield the ids of the evaluations that a Datalog query finds."""
    answer = connection.call(
        "repl_output_log", {"query": query, "limit": MAX_SEARCHED_ENTRIES, "maxTextBytes": MAX_TEXT_BYTES}
    )
    if not answer.get("ok"):
        raise FollowError(answer)
    with convert_field_errors("repl_output_log"):
        waiting: list[object] = [answer["result"]]
    while waiting:
        check = waiting.pop()
        if isinstance(check, str):
            yield check
        elif isinstance(check, list):
            waiting += check
        elif isinstance(check, dict):
            waiting += check.values()
