"""Edits to modules as test cases, and how a load of each is judged: right, reported or silent."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

PROGRAM = Path(__file__).parent / "edit_runs.py"
REPORTING = frozenset({
    "stays", "detached", "edited", "missing", "gone", "order", "redefined", "old", "instances", "closures", "unbound",
    "unknown",
})  # fmt: skip
"""Kinds of rows that report a difference from a fresh import."""


@dataclass(frozen=True)
class Edit:
    """An edit of the module `m` or, with `others`, of a module next to it, and the expressions to compare.

    `more` are further edits in the same load, as tuples of a module, its old and its new text. Old text that is empty
    creates a module, and new text that is None deletes it. `then` are such edits for each of the loads that follow.
    `hold` runs after the import in both processes, `use` only before the edit. `expects` is `right`, `reported`,
    `false` (reported although it is right), or `invisible` if no import can show the difference.
    """

    name: str
    text: str
    old: str
    new: str
    probe: str | tuple[str, ...]
    others: dict[str, str] = field(default_factory=dict)
    more: tuple[tuple[str, str, str | None], ...] = ()
    hold: str = ""
    use: str = ""
    setup: str = ""
    needs: tuple[str, ...] = ()
    expects: str = "right"
    edited: str = "m"
    then: tuple[tuple[tuple[str, str, str | None], ...], ...] = ()

    def as_case(self):
        texts = {"m": self.text, **self.others}
        return {
            "name": self.name,
            "texts": texts,
            "rounds": [[(self.edited, self.old, self.new), *self.more], *self.then],
            "probes": [self.probe] if isinstance(self.probe, str) else list(self.probe),
            **{name: value for name, value in asdict(self).items() if name in ("hold", "use", "setup", "needs")},
        }


def run(edits, python=sys.executable):
    """Return the outcome of each edit."""
    given = json.dumps([edit.as_case() for edit in edits])
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSTARTUP"}
    done = subprocess.run(
        [str(python), str(PROGRAM)], input=given, capture_output=True, text=True, check=False, timeout=1800, env=environ
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


VERDICTS = ("right", "false", "reported", "silent", "broken")
"""What a load may be, from the best to the worst."""


def judge(outcome):
    """Judge the loads of a case, and return the worst verdict with the differences.

    A load is `right`, `reported`, `silent`, `false` or `broken`. An earlier load may have reported a difference.
    """
    if "failed" in outcome["live"]:
        return "broken", outcome["live"]["failed"]
    judged, is_reported = [], False
    for live, fresh in zip(outcome["live"]["rounds"], outcome["fresh"], strict=True):
        judged.append(_judge_load(live, fresh, is_reported=is_reported))
        is_reported = judged[-1][0] == "reported"
    return max(judged, key=lambda found: VERDICTS.index(found[0]))


def _judge_load(live, fresh, *, is_reported):
    if "failed" in fresh:
        return "broken", fresh["failed"]
    frames = [line for line in live["error"].splitlines() if line.startswith("  File ")]
    if frames and f"{os.sep}codriver{os.sep}" in frames[-1]:
        return "broken", live["error"]
    rows = [row for row in live["rows"] if row["kind"] in REPORTING]
    if live["probed"] == fresh["probed"]:
        return ("false" if rows or live["error"] else "right"), (rows, live["error"])
    verdict = "reported" if rows or live["error"] or is_reported else "silent"
    pairs = zip(live["probed"], fresh["probed"], strict=True)
    return verdict, ([pair for pair in pairs if pair[0] != pair[1]], rows, live["error"])


def with_expected(edits, **names):
    """Return the edits with their expected verdicts, given as lists of names for each verdict."""
    expected = {name: verdict for verdict, listed in names.items() for name in listed}
    assert expected.keys() <= {edit.name for edit in edits}
    return [replace(edit, expects=expected.get(edit.name, edit.expects)) for edit in edits]


def edits_of(prefix, text, rows, *, others=None, needs=(), edited="m", setup="", hold="", use=""):
    """Return the edits of a program: rows of a name, the old and new text, expressions, and optional arguments."""
    found = []
    for name, old, new, probe, *more in rows:
        words = {"others": others or {}, "needs": needs, "edited": edited, "setup": setup, "hold": hold, "use": use}
        words.update(more[0] if more else {})
        words["more"] = tuple(words.get("more", ()))
        words["then"] = tuple(map(tuple, words.get("then", ())))
        found.append(Edit(f"{prefix}: {name}", text, old, new, tuple(probe), **words))
    return found
