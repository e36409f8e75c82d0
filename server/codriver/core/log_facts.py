"""Structured data in the log entries that describe the server's own actions.

Code that reads the log uses this data and never parses the text, which is for people.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from codriver.errors import truncate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

PURPOSE_KIND: Final = "purpose"
"""The kind of an entry whose text is the caller's description of an evaluation."""
LOAD_KIND: Final = "load"
"""The kind of an entry about loading a file or some of its forms. Its data contains `file`."""
CONNECTED_KIND: Final = "repl-connected"
"""The kind of an entry for a new REPL connection. Its data contains `repl`, `dialect` and `generation`."""
FINISHED_KIND: Final = "ended"
"""The kind of an entry for an evaluation that was interrupted or lost. Its data contains `status` and `cause`."""
EDIT_KIND: Final = "edit"
"""The kind of an entry for changed files. `files` contains an object for each, with `file` and, if known, `diff`."""
UNDO_KIND: Final = "undo"
"""The kind of an entry for an edit that was undone, with `files` as for `EDIT_KIND`.

If a test run is the reason, `job` is its id.
"""
TESTS_KIND: Final = "run-tests"
"""The kind of an entry for a finished test run: see `TestFacts`."""
MAX_LISTED_TESTS: Final = 50
"""Maximum number of names in each list of a test run's entry."""

MAX_FILE_DIFF_CHARACTERS: Final = 20_000
"""Maximum length of the diff of one file."""
MAX_TOTAL_DIFF_CHARACTERS: Final = 32_000
"""Maximum total length of the diffs in one entry, so that a large edit does not evict other entries."""


class DescribedEntry(Protocol):
    """A log entry that may have JSON data."""

    @property
    def data(self) -> str | None:
        """Return the JSON data of the entry, or None."""


def encode_facts(**facts: object) -> str:
    """Encode keyword arguments as the JSON data of a log entry."""
    return json.dumps(facts, ensure_ascii=False)


def edit_facts(diffs: Iterable[tuple[str, str]], without_secrets: Callable[[str], str], job: str = "") -> str:
    """Return the JSON data of a log entry about edits, from pairs of a file's displayed path and its diff.

    `job` is the id of the test run that caused the edit to be undone. Secrets are removed before the data is encoded,
    because escape sequences in JSON could hide them.
    """
    rows: list[dict[str, str]] = []
    left = MAX_TOTAL_DIFF_CHARACTERS
    for file, diff in diffs:
        stored = truncate(without_secrets(diff), min(MAX_FILE_DIFF_CHARACTERS, left)) if left > 0 else ""
        left -= len(stored)
        rows.append({"file": file, "diff": stored} if stored else {"file": file})
    return json.dumps({"files": rows, "job": job} if job else {"files": rows}, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestFacts:
    """The data of a log entry about a finished test run."""

    __test__ = False

    job: str
    tests: str
    """The command line, or a description of the selection."""
    counts: Mapping[str, int]
    failures: Sequence[str] = ()
    """The names of the failed tests."""
    passed_again: Sequence[str] = ()
    """The names of tests that passed in this run but failed in an earlier one, if known."""
    paths: Sequence[str] = ()
    """The files, namespaces or tests that were selected. Empty if all were."""
    is_partial: bool = False
    """Whether only some of the tests in `paths` were run to completion."""
    stopped: str | None = None
    """The test during which the run was stopped, or empty if unknown. None if it was not stopped."""
    purpose: str = ""
    """The reason why the tests were run, if the result says nothing about the current files."""

    def to_data(self) -> str:
        """Encode the data as JSON, without zero counts and without names beyond `MAX_LISTED_TESTS`."""
        known = {name: count for name, count in self.counts.items() if count or name in ("passed", "failed")}
        facts: dict[str, object] = {"job": self.job, "tests": self.tests, **known}
        lists = {"failures": self.failures, "passedAgain": self.passed_again, "paths": self.paths}
        facts |= {name: list(names[:MAX_LISTED_TESTS]) for name, names in lists.items() if names}
        if self.is_partial or len(self.failures) > MAX_LISTED_TESTS or len(self.paths) > MAX_LISTED_TESTS:
            facts["isPartial"] = True
        if self.stopped is not None:
            facts["stopped"] = self.stopped
        if self.purpose:
            facts["purpose"] = self.purpose
        return json.dumps(facts, ensure_ascii=False)


def decode_facts(entry: DescribedEntry) -> Mapping[str, Any]:
    """Decode the JSON data of a log entry. Return an empty mapping if it has none or it is invalid."""
    if entry.data is None:
        return {}
    try:
        facts = json.loads(entry.data)
    except ValueError:  # redaction may have damaged the JSON
        return {}
    return facts if isinstance(facts, dict) else {}
