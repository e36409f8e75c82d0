"""The facts that a log entry reports, for entries of the server's own: a `kind`, and `data` as a JSON object.

Readers of the log use these and never parse the entry's text, which is for people.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codriver.log.output_log import Entry


EDIT: Final = "edit"
"""Files were changed: `files` has an object for each, with its `file`, and its `diff` where that is known."""
UNDO: Final = "undo"
"""An edit was taken back: `files` as for `EDIT`, and `job`, the id of the test run that is the reason, if any."""
TESTS: Final = "run-tests"
"""A test run ended: see `TestFacts`."""
MOST_FAILURES: Final = 50

FILE_DIFF_CHARACTERS: Final = 20_000
"""Maximum length of the diff of one file."""
DIFF_CHARACTERS: Final = 32_000
"""Maximum length of all diffs of one entry, so that a large edit does not push other entries out of the log."""


def edit_facts(diffs: Iterable[tuple[str, str]], without_secrets: Callable[[str], str], job: str = "") -> str:
    """Return the data of an edit from the changed files, as people name them, each with its unified diff.

    `job`: the id of the test run for which it was taken back.

    Secrets are removed before the text is encoded: in JSON they may be spelt otherwise.
    """
    rows: list[dict[str, str]] = []
    left = DIFF_CHARACTERS
    for file, diff in diffs:
        stored = cut(without_secrets(diff), min(FILE_DIFF_CHARACTERS, left)) if left > 0 else ""
        left -= len(stored)
        rows.append({"file": file, "diff": stored} if stored else {"file": file})
    return json.dumps({"files": rows, "job": job} if job else {"files": rows}, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFacts:
    """The facts of a test run that has ended."""

    __test__ = False

    job: str
    tests: str
    """The command, or the selection in words."""
    counts: Mapping[str, int]
    failures: Sequence[str] = ()
    """The names of the failed tests."""
    passed_again: Sequence[str] = ()
    """The names of tests that failed in an earlier run and passed in this one, as far as known."""
    paths: Sequence[str] = ()
    """The files, namespaces or tests that were selected; all if empty."""
    is_partial: bool = False
    """Whether only some tests of `paths` ran to their end."""
    stopped: str | None = None
    """The test during which the run was stopped, empty if unknown; None for a run that was not."""
    purpose: str = ""
    """Why it ran, if it says nothing about the files as they are."""

    def to_data(self) -> str:
        """Return the data of the log entry. Counts of zero are left out, and so are names beyond `MOST_FAILURES`."""
        known = {name: count for name, count in self.counts.items() if count or name in ("passed", "failed")}
        facts: dict[str, object] = {"job": self.job, "tests": self.tests, **known}
        lists = {"failures": self.failures, "passedAgain": self.passed_again, "paths": self.paths}
        facts |= {name: list(names[:MOST_FAILURES]) for name, names in lists.items() if names}
        if self.is_partial or len(self.failures) > MOST_FAILURES or len(self.paths) > MOST_FAILURES:
            facts["isPartial"] = True
        if self.stopped is not None:
            facts["stopped"] = self.stopped
        if self.purpose:
            facts["purpose"] = self.purpose
        return json.dumps(facts, ensure_ascii=False)


def facts_of(entry: Entry) -> Mapping[str, Any]:
    """Return the facts of an entry; empty for an entry without any."""
    if entry.data is None:
        return {}
    try:
        facts = json.loads(entry.data)
    except ValueError:  # redaction can cut into the JSON
        return {}
    return facts if isinstance(facts, dict) else {}
