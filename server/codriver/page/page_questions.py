"""The questions that the page asks of the log in Datalog: the examples that it offers, history, and runs of before."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from codriver.log.output_log import Question

if TYPE_CHECKING:
    from collections.abc import Sequence

    from codriver.datalog.solve import QueryAnswer
    from codriver.net.client_sessions import ClientSession
    from codriver.tools.calls.base import Services

EXAMPLES: Final = (
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
        "What came of which code?",
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
        "Which code of the kernel uses a value that Clojure gave?",
        (
            "[:find ?value ?code :in $ ?clj ?py :where [?a :output/repl-session-key ?clj] "
            '[?a :output/category "evaluationResults"] [?a :output/text ?value] [?b :output/repl-session-key ?py] '
            '[?b :output/category "evaluatedCode"] [?b :output/text ?code] [(clojure.string/includes? ?code ?value)]]'
        ),
        '["clj", "sales-ipynb"]',
    ),
    (
        "What came of my changes, in the application?",
        (
            "[:find ?line ?text :in $ $app ?me :where [?e :output/who ?me] [?e :output/evaluation ?id] "
            '[?e :output/category "evaluatedCode"] [$app ?a :output/evaluation ?id] [$app ?a :output/line ?line] '
            "[$app ?a :output/text ?text]]"
        ),
        '["me"]',
    ),
    (
        "What did the human evaluate in which notebook?",
        (
            "[:find ?notebook ?line ?code :where [?e :output/notebook ?notebook] [?e :output/line ?line] "
            "[?e :output/text ?code]]"
        ),
        "",
    ),
)
"""Words, query and inputs as JSON, as LOG.md has them."""

CODE_OF_HISTORY: Final = (
    "[:find ?line ?when ?who ?key ?code :in $ $history ?part :where [$history ?e :output/text ?code] "
    "[(clojure.string/includes? ?code ?part)] [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] "
    '[(get-else $history ?e :output/who "") ?who] [(get-else $history ?e :output/repl-session-key "") ?key]]'
)
RUNS: Final = (
    "[:find ?run (min ?when) (max ?when) (count ?e) :in $ $memory :where [$memory ?e :output/run ?run] "
    "[$memory ?e :output/timestamp ?when]]"
)
ENTRIES_OF_RUN: Final = (
    "[:find ?line ?when ?category ?who ?text :in $ $memory ?run :where [$memory ?e :output/run ?run] "
    "[$memory ?e :output/line ?line] [$memory ?e :output/timestamp ?when] [$memory ?e :output/category ?category] "
    '[(get-else $memory ?e :output/who "") ?who] [$memory ?e :output/text ?text]]'
)
MOST_FOUND: Final = 5000
MOST_SHOWN: Final = 300
MOST_CHARACTERS: Final = 4000
"""Of one text in a list of them."""
EVALUATION: Final = re.compile(r"[0-9a-f]{4}-\d+")


async def _ask(services: Services, client: ClientSession, text: str, inputs: Sequence[object]) -> QueryAnswer:
    return await services.work.queries.run(client.id, partial(services.query, Question(text, inputs, MOST_FOUND)))


async def history(services: Services, client: ClientSession, part: str) -> dict[str, object]:
    """The code of this workspace that contains a text, the newest first: time, who, session, code."""
    answer = await _ask(services, client, CODE_OF_HISTORY, [part])
    rows = sorted(_rows(answer), reverse=True)
    shown = [(when, who, key, _short(code)) for _, when, who, key, code in rows[:MOST_SHOWN]]
    return {"rows": shown, "count": len(rows)}


async def runs(services: Services, client: ClientSession) -> dict[str, object]:
    """The runs of before, the newest first: name, begin, end, number of entries."""
    return {"rows": sorted(_rows(await _ask(services, client, RUNS, [])), key=lambda row: row[1], reverse=True)}


async def run(services: Services, client: ClientSession, name: str) -> dict[str, object]:
    """The entries of a run of before, in their order: time, category, who, text."""
    rows = sorted(_rows(await _ask(services, client, ENTRIES_OF_RUN, [name])))
    return {"rows": [(when, category, who, _short(text)) for _, when, category, who, text in rows]}


def evaluation_of(services: Services, row: Sequence[Any]) -> str | None:
    """The evaluation that a row of an answer is about: that of an id, a line or a text in it; None of no other row."""
    values = [one for value in row for one in (value.values() if isinstance(value, dict) else [value])]
    entries = services.log.entries()
    for one in values:
        if isinstance(one, str) and EVALUATION.fullmatch(one):
            return one
    lines = {one for one in values if type(one) is int}
    texts = {one for one in values if isinstance(one, str) and one}
    by_line = [entry.evaluation for entry in entries if entry.evaluation and entry.line in lines]
    by_text = [entry.evaluation for entry in reversed(entries) if entry.evaluation and entry.text in texts]
    return next(iter([*by_line, *by_text]), None)


def _rows(answer: QueryAnswer) -> list[Any]:
    return list(answer.result) if isinstance(answer.result, list | tuple) else []


def _short(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}…"
