"""Reports of runs of tests: each is the value of its evaluation, and becomes the fields of an answer."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from codriver.log.transcripts import read
from codriver.repls.contract.adapter_values import UNKNOWN_TEST
from codriver.tools.answers.answer_budget import fit, json_bytes, tail

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Call, Json

MAX_RESULTS: Final = 100
"""Results of one answer: who fails more than this reads the first ones first."""
MAX_FRAMES: Final = 5
MOST_WHOLE: Final = 3
"""Results with all that is known: of more, which mostly fail for the same reason, the place and the first words."""
FIRST_CHARACTERS: Final = 100
MAX_READ_CHARACTERS: Final = 32 * 2**20


async def runs_before(call: Call, repl: str, session: str) -> list[tuple[Evaluation, Json]]:
    """A session's runs that are over and not forgotten with their reports, the newest first."""
    runs = [
        one
        for one in call.state.evaluations.values()
        if one.kind == "run-tests" and one.over and (one.repl, one.session) == (repl, session)
    ]
    reports = [(one, await report_of(call, one)) for one in reversed(runs)]
    return [(one, report) for one, report in reports if report is not None]


async def runs_of_repl(call: Call, repl: str) -> list[tuple[Evaluation, Json]]:
    """The runs of a REPL's sessions that are over and not forgotten with their reports, the newest first."""
    runs = [one for one in call.state.evaluations.values() if one.kind == "run-tests" and one.over and one.repl == repl]
    reports = [(one, await report_of(call, one)) for one in reversed(runs)]
    return [(one, report) for one, report in reports if report is not None and not report.get("fresh")]


async def report_of(call: Call, evaluation: Evaluation) -> Json | None:
    """The report of a run that is over; None if the run gave none, or is forgotten."""
    transcript = call.services.transcripts.get(evaluation.id)
    if transcript is None or not transcript.values():
        return None
    piece = await read(partial(transcript.result.read, 0, MAX_READ_CHARACTERS), transcript)
    report: Json = json.loads(piece.text)
    return report


def run_json(
    report: Json, said: str, workspace: Path, *, passed: bool, max_bytes: int, whole: bool = False
) -> dict[str, object]:
    """A test run under the keys of an answer; the output from its end. `whole`: every result, and the tests' times."""
    listed = [row for row in report["results"] if whole or passed or row["outcome"] != "pass"]
    output = tail(said, max_bytes // 4).text
    max_bytes -= json_bytes(output)
    shown = [
        row_json(row, workspace) | ({"skipped": True} if whole and row.get("skipped") else {})
        for row in listed[: None if whole else MAX_RESULTS]
    ]
    if not (whole or passed):
        shown = [*shown[:MOST_WHOLE], *map(_in_short, shown[MOST_WHOLE:])]
    rows, note, _ = fit(shown, max_bytes)
    counts = {key: report[key] for key in ("tests", "passed", "failed", "errors")}
    if "of" in report:
        counts["of"] = report["of"]
    fields: dict[str, object] = {**counts, "results": rows, "count": len(rows)}
    if len(listed) > len(rows):
        fields["omitted"] = len(listed) - len(rows)
    if whole:
        fields["times"] = fit(report.get("times", []), max_bytes // 4)[0]
    if note:
        fields["notes"] = [note.partition(":")[0]]
    if said:
        fields["stdout"] = output
    return fields


def row_json(row: Json, workspace: Path) -> dict[str, object]:
    """A result, with the project's frames alone, innermost first."""
    frames = [_words(frame, workspace) for frame in row.get("frames", ()) if not frame.get("tooling")]
    kept = {key: value for key, value in row.items() if key not in ("frames", "skipped")}
    return {**kept, "frames": frames[:MAX_FRAMES]} if frames else kept


def _in_short(row: dict[str, object]) -> dict[str, object]:
    """A result by its name, its line and the first words of what it was."""
    actual = str(row.get("actual", "")).partition("\n")[0]
    actual = actual if len(actual) <= FIRST_CHARACTERS else f"{actual[:FIRST_CHARACTERS]}…"
    kept: dict[str, object] = {name: row[name] for name in ("test", "ns", "outcome", "line") if name in row}
    return {**kept, "actual": actual} if actual else kept


def lean_run(fields: Mapping[str, object], workspace: Path, named: str = "") -> dict[str, object]:
    """The fields of a run without those that others of them say, counts of nothing, and the namespace that was named.

    The rows of a run that tells its passes, too, are for readers that take each by itself: they keep their namespace.
    """
    rows = fields.get("results")
    rows = [_lean_row(row, workspace, named) for row in rows] if isinstance(rows, list) else []
    known = {
        "failed": not fields.get("failed"),
        "errors": not fields.get("errors"),
        "results": not rows,
        "count": "omitted" not in fields,
    }
    kept = {name: value for name, value in fields.items() if not known.get(name)}
    return {name: rows if name == "results" else value for name, value in kept.items()}


def _lean_row(row: Json, workspace: Path, named: str) -> dict[str, object]:
    """A result without the file that its namespace names, and without the frame of the line that it names itself."""
    kept = dict(row)
    if "file" in row:
        kept["file"] = file = str(row["file"]).removeprefix(f"{workspace}/")
        if file == row.get("ns"):
            del kept["file"]
        own = f"{file}:{row.get('line')} in "
        kept["frames"] = [frame for frame in row.get("frames", ()) if not frame.startswith(own)]
    known = {"frames": not kept.get("frames"), "ns": named == row.get("ns")}
    return {name: value for name, value in kept.items() if not known.get(name)}


def is_named(stopped: Json) -> bool:
    """Whether the REPL knows the test that it was stopped in; it was in none while it looked for them."""
    return bool(stopped["test"] != UNKNOWN_TEST)


def _words(frame: Mapping[str, object], workspace: Path) -> str:
    file = Path(str(frame.get("file")))
    shown = file.relative_to(workspace) if file.is_relative_to(workspace) else file
    return f"{shown}:{frame.get('line')} in {frame.get('function')}"
