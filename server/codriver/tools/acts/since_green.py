"""Tests that an act turned red: run again in forks, in the present and in the former state, and compared.

The former definitions are files as edits found them, the texts that loads of other edits replaced, which the REPL
remembers, and those of modules in which evaluated code bound names anew.

Nobody waits for the comparison: it begins when the answer about the red run is on its way, and the next evaluation ends
it. The caller's next answer tells the first difference, and so does an answer about the run.
"""

from __future__ import annotations

import json
import logging
from functools import partial
from typing import TYPE_CHECKING, Final

from codriver.editing.file_changes import NotEditableError, UnreadableError
from codriver.errors import CodriverError
from codriver.log.recorded_runs import UnreadableRunError
from codriver.repls.contract.questions import Rerun
from codriver.repls.dialects.server_dialect import program_of_tests
from codriver.repls.shared import COLLECTION
from codriver.tools.answers.drift_notes import PASSES, outcomes
from codriver.tools.answers.trace_answers import difference_line, differences

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from pathlib import Path

    from codriver.core.values import Evaluation
    from codriver.log.recorded_runs import RecordedRuns
    from codriver.tools.calls.base import Call, Json

    TestRun = tuple[Evaluation, Json]
    RunsOf = Callable[[Call, str], Awaitable[Sequence[TestRun]]]
    Former = Mapping[Path, bytes | None]
    """By file its former bytes, None for a missing one."""

logger = logging.getLogger(__name__)

MOST_TEST_S: Final = 1.0
"""The longest test that runs again unasked."""
WALL_MS: Final = 2000
TIMES: Final = 4
MOST_WALL_MS: Final = 8000
"""The time of a rerun: 2 s, and so many times the red run's, as a busy machine is as slow for both."""
MOST_FILES: Final = 20
MOST_CODE: Final = 100_000
"""The characters of evaluated code in which names are looked for."""
MOST_BYTES: Final = 200
WORDS: Final = "since it was green: "
SIDES: Final = ("now", "before")


def after(
    call: Call, evaluation: str, runs_of: RunsOf, handed_out: Callable[[], None] | None = None
) -> Callable[[], None] | None:
    """The function to call when an answer about a run of tests is handed out, like `handed_out`: it compares the tests.

    `runs_of` gives a REPL's finished runs with their reports, the newest first. The result is `handed_out` itself if
    there is nothing to compare: the run is known, or its REPL does not fork.
    """
    current = call.state.evaluations.get(evaluation)
    repl = None if current is None else call.state.repls.get(current.repl)
    has_forks = repl is not None and repl.profile is not None and "try" in repl.profile.capabilities
    ledger = call.services.ledger
    if current is None or current.status != "failed" or not has_forks or evaluation in ledger.tests.compared:
        return handed_out

    def begin() -> None:
        if handed_out is not None:
            handed_out()
        if evaluation not in ledger.tests.compared:
            ledger.tests.compared[evaluation] = ""
            ledger.start_soon(_compare, call, current, runs_of)

    return begin


async def _compare(call: Call, evaluation: Evaluation, runs_of: RunsOf) -> None:
    try:
        words = await _difference(call, evaluation, await runs_of(call, evaluation.repl))
    except (CodriverError, UnreadableRunError) as error:
        logger.debug("no comparison of %s: %s", evaluation.id, error)
        return
    except Exception:  # nobody waits for the comparison, and the server goes on
        logger.exception("the comparison of %s failed", evaluation.id)
        return
    if words:
        tests = call.services.ledger.tests
        tests.compared[evaluation.id] = tests.untold[evaluation.who] = words


async def _difference(call: Call, evaluation: Evaluation, runs: Sequence[TestRun]) -> str:
    """The first difference of the red test's calls from those of before, in words; empty for none."""
    report = next((told for one, told in runs if one.id == evaluation.id), None)
    if report is None or report.get("again") or report.get("stopped"):
        return ""
    row, green = _turned_red(evaluation, report, [one for one in runs if one[0].number < evaluation.number])
    if row is None or green is None:
        return ""
    since_ms = green.started_at or 0
    former = await _former(call, since_ms)
    repl = call.state.repls[evaluation.repl]
    root = (repl.profile.project_root if repl.profile is not None else None) or ""
    took_ms = (evaluation.ended_at or 0) - (evaluation.started_at or 0)
    evaluated = _evaluated(call, green, evaluation)
    known = {"sinceMs": since_ms, "evaluated": evaluated}
    asked = {**_trial(call, row, former, root), **known, "wallMs": min(WALL_MS + TIMES * took_ms, MOST_WALL_MS)}
    told = await call.services.repls.adapter(repl.id).ask(Rerun(json.dumps(asked)))
    if len(told) != len(SIDES) or not _is_same_end(row, told[0]) or set(told[1].get("ended", {}).values()) != {PASSES}:
        return ""
    compare = partial(_first, call.services.runs, evaluation.id, row["test"], told)
    return await call.services.work.texts.run(call.client, compare)


def _turned_red(evaluation: Evaluation, report: Json, runs: Sequence[TestRun]) -> tuple[Json | None, Evaluation | None]:
    """The first red test that was green in its last run, and that run; no slow one."""
    slow = {(ns, test) for ns, test, seconds in report.get("times", ()) if seconds > MOST_TEST_S}
    for row in report["results"]:
        if row["outcome"] == PASSES or row["test"] == COLLECTION or (row["ns"], row["test"]) in slow:
            continue
        known = row.get("file") or row["ns"], row["test"]
        last = next((run for run in runs if known in outcomes(run[1])), None)
        if last is not None and outcomes(last[1])[known] == PASSES and last[0].generation == evaluation.generation:
            return row, last[0]
    return None, None


def _evaluated(call: Call, green: Evaluation, red: Evaluation) -> str:
    """The code evaluated between two runs, with the names of its namespaces; only the end of very much code."""
    between = [
        one
        for one in call.state.evaluations.values()
        if one.kind == "evaluate" and one.repl == red.repl and green.number < one.number < red.number
    ]
    codes = [
        f"{one.namespace}\n{entry.text}"
        for one in between
        for entry in call.services.log.entries(evaluation=one.id, category=("evaluatedCode",))
    ]
    return "\n".join(codes)[-MOST_CODE:]


async def _former(call: Call, since_ms: int) -> Former:
    """The former texts of files that acts changed since; none if others changed a file afterwards."""
    changed = call.services.ledger.acts.since(since_ms)
    if len(changed) > MOST_FILES:
        return {}
    for path, (_, after_all) in changed.items():
        try:
            _, now = await call.services.editor.read(str(path), allow_outside=False)
        except (NotEditableError, UnreadableError):
            return {}
        if now.data != after_all:
            return {}
    return {path: before for path, (before, after_all) in changed.items() if before != after_all}


def _trial(call: Call, row: Json, former: Former, root: str) -> dict[str, object]:
    """The rerun in the form of `try_code`'s request to the REPL, with its calls recorded."""
    files = [_file(path, data) for path, data in former.items()]
    return {
        "candidates": [{"label": label, "code": "", "files": files if label == SIDES[1] else []} for label in SIDES],
        "check": "",
        "program": program_of_tests(),
        "tests": [["", "", "", [], [[row["ns"], row["test"]]], "", root]],
        "folders": [str(call.services.workspace), *([root] if root else [])],
        "isRecorded": True,
    }


def _file(path: Path, data: bytes | None) -> dict[str, object]:
    text = data.decode("utf-8-sig", "replace") if data is not None and path.suffix == ".py" else None
    return {"path": str(path), "data": None if data is None else data.decode("latin-1"), "text": text, "lines": None}


def _is_same_end(row: Json, told: Json) -> bool:
    """True for a rerun that ended like the test before: with the same outcome, and an error of the same class."""
    ended, failure = told.get("ended", {}).values(), told.get("firstFailure", {})
    before = str(row.get("actual") or row.get("message") or "").strip()
    return set(ended) == {row["outcome"]} and before.partition(":")[0] == failure.get("message", "").partition(":")[0]


def _first(runs: RecordedRuns, evaluation: str, test: str, told: Sequence[Json]) -> str:
    """The first difference of two recorded runs that is not the test's own."""
    now, before = (runs.read(evaluation, json.dumps(one.get("run", {}))) for one in told)
    if now.refused or before.refused:
        return ""
    name = test.partition("[")[0]
    found = [one for one in differences(before, now) if not f".{one.name}".endswith(f".{name}")]
    if not found:
        return ""
    line = difference_line(found[0])
    words = WORDS + (line.partition(" ")[2] if line.startswith("#") else line)
    return words.encode()[:MOST_BYTES].decode("utf-8", "ignore")
