"""Datalog queries of the page: examples for the user, and queries for the history, earlier runs and matching rows."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from codriver.errors import truncate
from codriver.log.output_log import LogQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.call import Services
EXAMPLE_QUERIES: Final = (
    (
        "What went wrong?",
        (
            '[:find ?line ?text :where [?e :output/category "evaluationErrorOutput"] [?e :output/line ?line] '
            "[?e :output/text ?text]]"
        ),
        "",
    ),
    (
        "Who evaluated how much?",
        '[:find ?who (count ?e) :where [?e :output/category "evaluatedCode"] [?e :output/who ?who]]',
        "",
    ),
    (
        "What did others do since line 3?",
        (
            "[:find (pull ?e [*]) :in $ ?since ?me :where [?e :output/line ?line] [(> ?line ?since)] "
            "[?e :output/who ?who] [(not= ?who ?me)]]"
        ),
        '[3, "me"]',
    ),
    (
        "Which result belongs to which code?",
        (
            '[:find ?code ?result :where [?a :output/category "evaluatedCode"] [?a :output/evaluation ?id] '
            '[?a :output/text ?code] [?b :output/evaluation ?id] [?b :output/category "evaluationResults"] '
            "[?b :output/text ?result]]"
        ),
        "",
    ),
    (
        "Where was a time-out mentioned?",
        '[:find ?line ?text :where [?e :output/text ?text] [(re-find #"(?i)time-?out" ?text)] [?e :output/line ?line]]',
        "",
    ),
    (
        "How was it done last week?",
        (
            "[:find [?code ...] :in $ $history ?part :where [$history ?e :output/text ?code] "
            "[(clojure.string/includes? ?code ?part)]]"
        ),
        '["price"]',
    ),
    (
        "Which code in the kernel uses a value from Clojure?",
        (
            "[:find ?value ?code :in $ ?clj ?py :where [?a :output/repl-session-key ?clj] "
            '[?a :output/category "evaluationResults"] [?a :output/text ?value] [?b :output/repl-session-key ?py] '
            '[?b :output/category "evaluatedCode"] [?b :output/text ?code] [(clojure.string/includes? ?code ?value)]]'
        ),
        '["clj", "sales-ipynb"]',
    ),
    (
        "What did my changes do in the application?",
        (
            "[:find ?line ?text :in $ $app ?me :where [?e :output/who ?me] [?e :output/evaluation ?id] "
            '[?e :output/category "evaluatedCode"] [$app ?a :output/evaluation ?id] [$app ?a :output/line ?line] '
            "[$app ?a :output/text ?text]]"
        ),
        '["me"]',
    ),
    (
        "What did the human evaluate in each notebook?",
        (
            "[:find ?notebook ?line ?code :where [?e :output/notebook ?notebook] [?e :output/line ?line] "
            "[?e :output/text ?code]]"
        ),
        "",
    ),
)
"""Example queries from the log's documentation, each with a title and its inputs as JSON."""
HISTORY_CODE_QUERY: Final = (
    "[:find ?line ?when ?who ?key ?code :in $ $history ?part :where [$history ?e :output/text ?code] "
    "[(clojure.string/includes? ?code ?part)] [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] "
    '[(get-else $history ?e :output/who "") ?who] [(get-else $history ?e :output/repl-session-key "") ?key]]'
)
_PART_CLAUSES: Final = (
    "[{0} ?e :output/text ?text] [(clojure.string/lower-case ?text) ?low] [(clojure.string/includes? ?low ?part)] "
    '[{0} ?e :output/line ?line] [(get-else {0} ?e :output/evaluation "") ?id]]'
)
ENTRIES_WITH_PART_QUERY: Final = f"[:find ?line ?id :in $ ?part :where {_PART_CLAUSES.format('$')}"
"""Query for entries that contain a given text, ignoring case."""
EVENTS_WITH_PART_QUERY: Final = f"[:find ?line ?id :in $ $app ?part :where {_PART_CLAUSES.format('$app')}"
"""Query for application events that contain a given text, ignoring case."""
RUNS_QUERY: Final = (
    "[:find ?run (min ?when) (max ?when) (count ?e) :in $ $memory :where [$memory ?e :output/run ?run] "
    "[$memory ?e :output/timestamp ?when]]"
)
"""Query for earlier runs: name, start, end and number of entries."""
RUN_ENTRIES_QUERY: Final = (
    "[:find ?line ?when ?category ?who ?text :in $ $memory ?run :where [$memory ?e :output/run ?run] "
    "[$memory ?e :output/line ?line] [$memory ?e :output/timestamp ?when] [$memory ?e :output/category ?category] "
    '[(get-else $memory ?e :output/who "") ?who] [$memory ?e :output/text ?text]]'
)
MAX_MATCHING_ROWS: Final = 5000
"""Maximum number of matching rows to return."""
MAX_LIST_ROWS: Final = 300
"""Maximum number of rows that a list displays."""
MAX_TEXT_CHARACTERS: Final = 4000
"""Maximum number of characters of each text in a list."""
EVALUATION_ID: Final = re.compile(r"[0-9a-f]{4}-\d+")
"""Matches the id of an evaluation."""


async def _query(services: Services, client: ClientSession, text: str, *inputs: str) -> list[Any]:
    """Run a Datalog query with these inputs and return its rows."""
    query = partial(services.query, LogQuery(text, inputs, MAX_MATCHING_ROWS))
    return (await services.work.queries.run(client.id, query)).rows


async def search_history(services: Services, client: ClientSession, part: str) -> dict[str, object]:
    """Return the code in the workspace's history that contains a string, starting with the newest.

    Each row contains the time, the caller, the session and the code.
    """
    rows = sorted(await _query(services, client, HISTORY_CODE_QUERY, part), reverse=True)
    newest = [(when, who, key, _short(code)) for _, when, who, key, code in rows[:MAX_LIST_ROWS]]
    return {"rows": newest, "count": len(rows)}


async def matching_row_ids(services: Services, client: ClientSession, part: str) -> list[str]:
    """Return the ids of the rows whose text contains `part`, ignoring case."""
    entries = await _query(services, client, ENTRIES_WITH_PART_QUERY, part.lower())
    events = await _query(services, client, EVENTS_WITH_PART_QUERY, part.lower())
    return sorted({evaluation or f"s{line}" for line, evaluation in entries} | {f"a{line}" for line, _ in events})


async def list_runs(services: Services, client: ClientSession) -> dict[str, object]:
    """Return the earlier runs of the server, newest first, with their name, start, end and number of entries."""
    return {"rows": sorted(await _query(services, client, RUNS_QUERY), key=lambda row: row[1], reverse=True)}


async def read_run_entries(services: Services, client: ClientSession, name: str) -> dict[str, object]:
    """Return the entries of an earlier run in order, with their time, category, caller and text."""
    rows = sorted(await _query(services, client, RUN_ENTRIES_QUERY, name))
    return {"rows": [(when, category, who, _short(text)) for _, when, category, who, text in rows]}


def evaluation_of_row(services: Services, row: Sequence[Any]) -> str | None:
    """Return the id of the evaluation that a row of a query's result refers to, or None.

    The row may contain the id, a line number in the log, or a string from the log.
    """
    values = [candidate for value in row for candidate in (value.values() if isinstance(value, dict) else [value])]
    entries = services.log.entries()
    for candidate in values:
        if isinstance(candidate, str) and EVALUATION_ID.fullmatch(candidate):
            return candidate
    lines = {value for value in values if type(value) is int}
    strings = {value for value in values if isinstance(value, str) and value}
    by_line = [entry.evaluation for entry in entries if entry.evaluation and entry.line in lines]
    by_text = [entry.evaluation for entry in reversed(entries) if entry.evaluation and entry.text in strings]
    return next(iter([*by_line, *by_text]), None)


def _short(text: str) -> str:
    return truncate(text, MAX_TEXT_CHARACTERS)
