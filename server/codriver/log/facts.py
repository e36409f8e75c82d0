"""The facts behind a log entry of the server's own: a `kind`, and `data` as a JSON object.

Readers of the log use these and never parse the entry's text, which is for people.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from codriver.log.output_log import Entry


EDIT: Final = "edit"
"""Files were changed: `files` has an object for each, with its `file`, and its `diff` where that is known."""
UNDO: Final = "undo"
"""An edit was taken back: `files` as for `EDIT`."""
TESTS: Final = "run-tests"
"""A test run ended: `job`, its id, `tests`, the command, the counts, and `failures`, the names of failed tests."""
MOST_FAILURES: Final = 50

FILE_DIFF_CHARACTERS: Final = 20_000
"""Maximum length of the diff of one file."""
DIFF_CHARACTERS: Final = 32_000
"""Maximum length of all diffs of one entry, so that a large edit does not push other entries out of the log."""


def edit_facts(diffs: Iterable[tuple[str, str]], without_secrets: Callable[[str], str]) -> str:
    """Return the data of an edit from the changed files, as people name them, each with its unified diff.

    Secrets are removed before the text is encoded: in JSON they may be spelt otherwise.
    """
    rows: list[dict[str, str]] = []
    left = DIFF_CHARACTERS
    for file, diff in diffs:
        kept = cut(without_secrets(diff), min(FILE_DIFF_CHARACTERS, left)) if left > 0 else ""
        left -= len(kept)
        rows.append({"file": file, "diff": kept} if kept else {"file": file})
    return json.dumps({"files": rows}, ensure_ascii=False)


def test_facts(job: str, command: str, counts: Mapping[str, int], failures: Sequence[str]) -> str:
    """Return the data of a test run; counts of zero are left out, and so are names beyond `MOST_FAILURES`."""
    known = {name: count for name, count in counts.items() if count or name in ("passed", "failed")}
    facts: dict[str, object] = {"job": job, "tests": command, **known}
    if failures:
        facts["failures"] = list(failures[:MOST_FAILURES])
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
