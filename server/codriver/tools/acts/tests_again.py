"""Second runs of what is red in a Python REPL, in a new process, which knows nothing of what the REPL holds.

Runs of the REPL are compared where they ran the same code: what was loaded was as the files said, and no file of the
workspace was edited since.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from codriver.core import evaluation_queue
from codriver.core.values import Request, TestSelection
from codriver.files.workspace_walk import walk
from codriver.tools.acts.submission import begin
from codriver.tools.acts.test_reports import report_of, runs_before
from codriver.tools.calls.evaluation_waits import stop, wait
from codriver.tools.calls.session_choice import target_of
from codriver.tools.truth.drift_notes import PASSES, outcomes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from codriver.core.values import Evaluation
    from codriver.tools.calls.base import Call, Json

    Run = tuple[Evaluation, Json]

MOST_AGAIN: Final = 50
"""Tests that run again: of very many that are red the first few tell as much."""
MOST_S: Final = 20.0
LATE_S: Final = 10.0
"""Beyond the time of the call that asks for a run which outlasted its own."""
LEAST_S: Final = 0.5
MAX_ENTRIES: Final = 20_000
PYTHON: Final = ".py"
COLLECTION: Final = "(collection)"


async def look_again(call: Call, evaluation: Evaluation, who: str, wait_s: float, *, is_all: bool = False) -> None:
    """Run what is red of a run, and was not before or with nothing edited, in a new process, within `wait_s`.

    `is_all`: whatever is red. The ledger has what passes there. A run that is known, or was stopped, is left alone.
    """
    repl, known = call.state.repls.get(evaluation.repl), call.services.ledger.tests
    is_meant = repl is not None and repl.dialect == "python" and evaluation.status == "failed"
    if not is_meant or evaluation.id in known.only_live or wait_s < LEAST_S:
        return
    report = await report_of(call, evaluation)
    if report is None or report.get("fresh") or report.get("stopped"):
        return
    rows = await _in_question(call, evaluation, report, is_all=is_all)
    if not rows:
        return
    tests = TestSelection(only=tuple((row["ns"], row["test"]) for row in rows), fresh=True, again=True)
    begun = await _run(call, evaluation, who, tests, min(wait_s, MOST_S))
    if begun.over and (fresh := await report_of(call, begun)) is not None:
        ended = outcomes(fresh)
        files = {file for file, _ in ended}
        known.only_live[evaluation.id] = tuple(row["test"] for row in rows if _passes(row, ended, files))


def _passes(row: Json, ended: Mapping[tuple[str, str], str], files: set[str]) -> bool:
    """Whether a red test passed in a new process; a file that was not collected, whether it was there."""
    place = row.get("file") or row["ns"]
    if row["test"] == COLLECTION:
        return place in files and (place, COLLECTION) not in ended
    return ended.get((place, row["test"])) == PASSES


async def look_again_late(call: Call, evaluation: Evaluation) -> None:
    """Do so for a run that outlasted its call, once it is over and where no file was edited since it began."""
    known = call.services.ledger.tests
    who = known.put_off.get(evaluation.id)
    if who is None or not evaluation.over:
        return
    edited = await call.services.work.files.run(call.client, partial(newest_edit, call.services.workspace))
    if edited < (evaluation.started_at or 0):
        await look_again(call, evaluation, who, LATE_S)
    known.put_off.pop(evaluation.id, None)


async def _run(call: Call, evaluation: Evaluation, who: str, tests: TestSelection, wait_s: float) -> Evaluation:
    """The run in a new process as it is after `wait_s`, when it is ended."""
    identity = evaluation_queue.next_id(call.state)
    request = Request(identity, str(tests), session=evaluation.session, kind="run-tests", tests=tests)
    begin(call, target_of(call.state, evaluation), who, request)
    current = await wait(call, identity, wait_s)
    if not current.over:
        with anyio.CancelScope(shield=True):
            await stop(call, identity, f"the red tests ran longer than {wait_s:g} s in a new process")
    return current


async def _in_question(call: Call, evaluation: Evaluation, report: Json, *, is_all: bool) -> list[Json]:
    """The red tests that may be red in this REPL alone: as before, or as they were not red, or nothing was edited."""
    red = {known for known, outcome in outcomes(report).items() if outcome != PASSES}
    runs = [one for one in await runs_before(call, evaluation.repl, evaluation.session) if one[0].id != evaluation.id]
    same = await of_same_code(call, runs)
    again = [outcomes(told) for _, told in same if told.get("again")]
    known_alone = call.services.ledger.tests.only_live
    rows: dict[tuple[str, str], Json] = {}
    for row in report["results"]:
        known = (row.get("file") or row["ns"], row["test"])
        if known not in red or known in rows or not row.get("file"):
            continue
        last = next((run for run in runs if not run[1].get("fresh") and known in outcomes(run[1])), None)
        was_red = (
            last is not None
            and outcomes(last[1])[known] != PASSES
            and row["test"] not in known_alone.get(last[0].id, ())
        )
        if is_all or not was_red or (last in same and not any(one.get(known, PASSES) != PASSES for one in again)):
            rows[known] = row
    return list(rows.values())[:MOST_AGAIN]


async def of_same_code(call: Call, runs: Sequence[Run]) -> list[Run]:
    """The runs, of those given, of the code that the files have now, whether in the REPL or in a new process."""
    current = call.services.ledger.tests.current
    known = [run for run in runs if run[1].get("fresh") or current.get(run[0].id)]
    if not known:
        return []
    edited = await call.services.work.files.run(call.client, partial(newest_edit, call.services.workspace))
    return [run for run in known if (run[0].started_at or 0) >= edited]


def newest_edit(workspace: Path) -> int:
    """The moment of the newest edit of a file of Python, in epoch milliseconds. Blocks."""
    newest = 0
    for _, _, entries in walk(workspace, max_entries=MAX_ENTRIES):
        for entry in entries:
            if entry.name.endswith(PYTHON):
                try:
                    status = entry.stat()
                except OSError:
                    continue
                newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
    return newest // 10**6


def told_only_live(call: Call, evaluation: Evaluation) -> dict[str, object]:
    """The field that names the tests of a run that are red in this REPL alone; nothing where none is known to be."""
    names = call.services.ledger.tests.only_live.get(evaluation.id)
    return {"onlyInThisRepl": list(names)} if names else {}
