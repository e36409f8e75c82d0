"""The calls that the page makes: a few tools, and requests for data that no tool returns. Answers are JSON.

The page calls tools as `human`, through the same checks as an agent, and its actions are recorded in the log. It cannot
evaluate code. Its Datalog queries are the examples it offers, the history, and earlier runs.

Markdown is converted to blocks of plain text, for the features that notebooks use. Links are not clickable, because a
program wrote them. A block is `{"tag", "spans"}`; a list is `{"tag": "ul", "items"}`, a table `{"tag": "table", "head",
"rows"}`, and code `{"tag": "pre", "text"}`. A span is a tag, which may be empty, and a text.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.log_facts import decode_facts
from codriver.core.records import Recent
from codriver.errors import cut
from codriver.features.handoff.live_handoff import handoff
from codriver.features.page.page_admission import FRAMES
from codriver.features.page.table_markup import remove_external_references
from codriver.log.output_log import LogQuery
from codriver.systems.programs import typed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from codriver.features.page.request_body import RequestBody
    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.calls import ToolRunner
    from codriver.tools.calls.call import Services


READING_TOOLS: Final = frozenset(
    {
        "get_evaluation",
        "inspect_app",
        "repl_output_log",
        "what_changed",
    }
)
"""The tools that the page may call to read the state of the server."""
ACTS: Final = frozenset({"interrupt_evaluation", "send_input"})
"""The tools behind the two buttons of the page."""
HANDOFF_TIMEOUT_S: Final = 10.0
"""Time limit for creating the handoff."""
MAX_HANDOFF_BYTES: Final = 16_000
"""Maximum size of the handoff on the page."""
TITLE: Final = re.compile(r"([A-Z][^:]{1,60}): (.*)")
"""Matches a line of the handoff, with its title and its parts."""
MAX_FRAMES: Final = 64
"""Maximum number of tables with a valid address."""
FRAME_LIFETIME_S: Final = 60.0
"""How long the address of a table is valid if it is not used."""
MAX_DISPLAY_CHARACTERS: Final = 2**18
"""Maximum length of a table, Markdown or LaTeX text that the page displays."""
DISPLAY_TIMEOUT_S: Final = 20.0
"""How long to wait for a busy REPL to return a value in other formats."""
HTML: Final = "text/html"
MARKDOWN: Final = "text/markdown"
DISPLAY_FIELDS: Final = MappingProxyType({HTML: "address", MARKDOWN: "markdown", "text/latex": "latex"})
"""The media types that the page displays in addition to text and images, and the field for each."""
FRAME_HEAD: Final = (
    '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><style>'
    "body{font:13px system-ui,sans-serif;margin:8px}table{border-collapse:collapse;border:0}"
    "th,td{padding:4px 10px;border:0;border-bottom:1px solid #8884;text-align:right}"
    "th{font-weight:600}tbody tr:hover{background:#8881}</style>\n"
)
"""The start of a table's document. The table's own styles follow, and a table without styles looks like the page."""


class UnknownCallError(Exception):
    """The page made a call that does not exist."""


class PageCalls:
    """The calls of all pages of one server, for as long as the page is served."""

    def __init__(self, services: Services, caller: ToolRunner) -> None:
        self._services = services
        self._caller = caller
        self._frames: Recent[str, tuple[float, str]] = Recent(MAX_FRAMES)
        """Tables by address, with the time at which the address was created. Each can be displayed once."""

    async def answer(self, name: str, given: RequestBody, client: ClientSession) -> str:
        """Answer a call with JSON.

        Raises:
            UnknownCallError: there is no such call.
            BadBodyError: an argument has the wrong type.
        """
        if name in READING_TOOLS or name in ACTS:
            return await self._tool(name, dict(given.members), client)
        fields = await self._data(name, given, client)
        if fields is None:
            raise UnknownCallError(name)
        return self._caller.text_of(fields)

    async def _data(self, name: str, given: RequestBody, client: ClientSession) -> Mapping[str, object] | None:
        """Return the fields of an answer that no tool provides, or None for an unknown call."""
        services = self._services
        match name:
            case "code":
                return self._code(given.text("evaluation"))
            case "diffs":
                line = given.number("line")
                entries = services.log.entries(since=line - 1, until=line)
                return {"files": [file for entry in entries for file in decode_facts(entry).get("files", ())]}
            case "shown":
                return await self._rich_formats(given.text("evaluation"), client)
            case "handoff":
                return await self._handoff(client)
            case "examples":
                return {"examples": EXAMPLE_QUERIES}
            case "lead":
                return {"evaluation": evaluation_of(services, given.items("row"))}
            case "found":
                return {"ids": await matching_row_ids(services, client, given.text("part"))}
            case "history":
                workspace_option = typed(["--workspace", str(services.workspace)])
                found_code = await history(services, client, given.text("part"))
                return {
                    **found_code,
                    "forget": f"codriver stop {workspace_option} && codriver forget history {workspace_option}",
                }
            case "runs":
                return await runs(services, client)
            case "run":
                return await run(services, client, given.text("run"))
        return None

    def frame(self, path: str) -> bytes | None:
        """Return the document at the address of a table and invalidate the address; None if the address is unknown."""
        given_at, text = self._frames.pop(path, (0.0, ""))
        return text.encode("utf-8", "replace") if text and time.monotonic() - given_at < FRAME_LIFETIME_S else None

    async def _tool(self, name: str, arguments: dict[str, Any], client: ClientSession) -> str:
        """Call a tool for the page, and return its answer as JSON with the images.

        Raises:
            UnknownCallError: the page may not call this tool.
        """
        found = self._caller.find(name, arguments)
        if found is None:
            raise UnknownCallError(name)
        tool, given = found
        if name in ACTS:
            given = {**given, "who": HUMAN}
        answered = await self._caller.run(client, tool, given, _ignore)
        if answered.handed_out is not None:
            answered.handed_out()
        images = [{"mimeType": image.mime_type, "data": image.data} for image in answered.images]
        return f'{{"answer":{answered.text},"images":{json.dumps(images)}}}'

    def _code(self, evaluation: str) -> dict[str, object]:
        """Return the complete code of an evaluation and the other log entries about it."""
        entries = self._services.log.entries(evaluation=evaluation)
        code = [entry.text for entry in entries if entry.category == "evaluatedCode"]
        other_output = [entry.text for entry in entries if entry.category.startswith("other")]
        return {
            "code": code[0] if code else None,
            "said": other_output[:20],
            "lines": [entry.line for entry in entries[:1]],
        }

    async def _rich_formats(self, evaluation: str, client: ClientSession) -> dict[str, object]:
        """Return the value of an evaluation in its formats other than text and images.

        A table is returned as an address that works once, with its number of rows. Markdown and LaTeX are returned as
        text.
        """
        found: dict[str, object] = {}
        with anyio.move_on_after(DISPLAY_TIMEOUT_S):
            await self._add_rich_formats(found, evaluation, client)
        return found

    async def _add_rich_formats(self, found: dict[str, object], evaluation: str, client: ClientSession) -> None:
        for kind, name in DISPLAY_FIELDS.items():
            arguments = {"evaluationId": evaluation, "path": [kind], "length": MAX_DISPLAY_CHARACTERS}
            answer = json.loads(await self._tool("get_evaluation", arguments, client))["answer"]
            text = answer.get("result") if answer.get("ok") else None
            if not isinstance(text, str) or not text.strip():
                continue
            if kind == HTML:
                found["lines"] = text.count("<tr")
                found["address"] = self._framed(text)
            else:
                found[name] = blocks(text) if kind == MARKDOWN else text

    def _framed(self, html: str) -> str:
        """Return an address at which this document can be displayed once."""
        address = f"{FRAMES}{secrets.token_urlsafe(24)}"
        self._frames[address] = time.monotonic(), FRAME_HEAD + remove_external_references(html)
        return address

    async def _handoff(self, client: ClientSession) -> dict[str, object]:
        """Return the handoff: its text, its first line, and the title and parts of each further line."""
        text = await handoff(
            self._services,
            HUMAN,
            client=client.id,
            is_for_another=False,
            wait_s=HANDOFF_TIMEOUT_S,
            most_bytes=MAX_HANDOFF_BYTES,
        )
        first, *lines = text.splitlines() or [""]
        titled = [TITLE.fullmatch(line) or ("", "", line) for line in lines]
        return {"text": text, "first": first, "sections": [(section[1], section[2].split("; ")) for section in titled]}


HUMAN: Final = "human"
"""The value of `who` for the person at the page."""


async def _ignore(_elapsed_s: float, _words: str) -> None:
    """Ignore progress, because the page does not request it."""


Block = dict[str, Any]
Span = tuple[str, str]

MAX_LINES: Final = 5000
"""Maximum number of lines of a Markdown text that are converted to blocks."""
_SPAN_MARKUP: Final = re.compile(r"`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]*)\]\(([^)\s]*)\)")
"""Matches code, strong text, emphasized text, or a link in a line of Markdown."""
_SPAN_TAGS: Final = ("code", "strong", "em")
"""HTML tags of the first three groups of the pattern for spans."""
_HEADING_LINE: Final = re.compile(r"(#{1,6})\s+(.*)")
_LIST_ITEM: Final = re.compile(r"\s*(?:[-*+]|\d+\.)\s+(.*)")
_TABLE_ROW: Final = re.compile(r"\s*\|.*\|\s*")
_TABLE_RULE: Final = re.compile(r"[\s|:-]+")


def blocks(text: str) -> list[Block]:
    """Return the blocks of a Markdown text."""
    lines = text.splitlines()[:MAX_LINES]
    found: list[Block] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith("```"):
            block, end = _fenced_block(lines, at)
        else:
            end = next((n for n in range(at + 1, len(lines)) if not _continues_block(lines[at], lines[n])), len(lines))
            block = _block(lines[at:end])
        if block is not None:
            found.append(block)
        at = end
    return found


def spans(text: str) -> list[Span]:
    """Return the spans of a line. A link becomes its text followed by its address in brackets."""
    return list(_spans(text))


def _spans(text: str) -> Iterator[Span]:
    at = 0
    for found in _SPAN_MARKUP.finditer(text):
        if found.start() > at:
            yield "", text[at : found.start()]
        tag = next(
            ((tag, words) for tag, words in zip(_SPAN_TAGS, found.groups(), strict=False) if words is not None), None
        )
        yield tag or ("", f"{found[4]} ({found[5]})")
        at = found.end()
    if at < len(text):
        yield "", text[at:]


def _continues_block(first: str, line: str) -> bool:
    """Return whether a line continues the block that `first` started: rows of a table, or items of a list."""
    return any(kind.fullmatch(first) and kind.fullmatch(line) for kind in (_TABLE_ROW, _LIST_ITEM))


def _fenced_block(lines: list[str], at: int) -> tuple[Block | None, int]:
    """Return the code block whose fence starts at line `at`, and the index of the line after it."""
    end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), len(lines))
    return {"tag": "pre", "text": "\n".join(lines[at + 1 : end])}, end + 1


def _block(lines: list[str]) -> Block | None:
    """Return the block with these lines, or None if there is nothing to display."""
    first = lines[0]
    if _TABLE_ROW.fullmatch(first):
        rows = [
            [cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in lines
            if not _TABLE_RULE.fullmatch(line)
        ]
        return {"tag": "table", "head": rows[0], "rows": rows[1:]} if rows else None
    if _LIST_ITEM.fullmatch(first):
        return {"tag": "ul", "items": [spans(_LIST_ITEM.sub(r"\1", line)) for line in lines]}
    if heading := _HEADING_LINE.fullmatch(first):
        return {"tag": f"h{min(6, len(heading[1]) + 2)}", "spans": spans(heading[2])}
    return {"tag": "p", "spans": spans(first)} if first.strip() else None


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
"""Example queries with a title and their inputs as JSON, as in the documentation of the log."""

HISTORY_CODE_QUERY: Final = (
    "[:find ?line ?when ?who ?key ?code :in $ $history ?part :where [$history ?e :output/text ?code] "
    "[(clojure.string/includes? ?code ?part)] [$history ?e :output/line ?line] [$history ?e :output/timestamp ?when] "
    '[(get-else $history ?e :output/who "") ?who] [(get-else $history ?e :output/repl-session-key "") ?key]]'
)
_PART_CLAUSES: Final = (
    "[{0} ?e :output/text ?text] [(clojure.string/lower-case ?text) ?low] [(clojure.string/includes? ?low ?part)] "
    '[{0} ?e :output/line ?line] [(get-else {0} ?e :output/evaluation "") ?id]]'
)
ENTRIES_WITH_PART: Final = f"[:find ?line ?id :in $ ?part :where {_PART_CLAUSES.format('$')}"
"""Query for the entries whose text contains a part, ignoring case."""
EVENTS_WITH_PART: Final = f"[:find ?line ?id :in $ $app ?part :where {_PART_CLAUSES.format('$app')}"
"""Query for the events of applications whose text contains a part, ignoring case."""
RUNS: Final = (
    "[:find ?run (min ?when) (max ?when) (count ?e) :in $ $memory :where [$memory ?e :output/run ?run] "
    "[$memory ?e :output/timestamp ?when]]"
)
"""Query for the earlier runs: name, start, end, number of entries."""
RUN_ENTRIES_QUERY: Final = (
    "[:find ?line ?when ?category ?who ?text :in $ $memory ?run :where [$memory ?e :output/run ?run] "
    "[$memory ?e :output/line ?line] [$memory ?e :output/timestamp ?when] [$memory ?e :output/category ?category] "
    '[(get-else $memory ?e :output/who "") ?who] [$memory ?e :output/text ?text]]'
)
MAX_MATCHING_ROWS: Final = 5000
"""Maximum number of matching rows to return."""
MAX_ROWS: Final = 300
"""Maximum number of rows that a list displays."""
MAX_CHARACTERS: Final = 4000
"""Maximum number of characters of each text in a list."""
EVALUATION: Final = re.compile(r"[0-9a-f]{4}-\d+")
"""Matches the id of an evaluation."""


async def _query(services: Services, client: ClientSession, text: str, *inputs: str) -> list[Any]:
    """Return the rows of a query with these inputs."""
    query = partial(services.query, LogQuery(text, inputs, MAX_MATCHING_ROWS))
    return (await services.work.queries.run(client.id, query)).rows


async def history(services: Services, client: ClientSession, part: str) -> dict[str, object]:
    """Return the code in this workspace's history that contains a text, newest first: time, who, session, code."""
    rows = sorted(await _query(services, client, HISTORY_CODE_QUERY, part), reverse=True)
    newest = [(when, who, key, _short(code)) for _, when, who, key, code in rows[:MAX_ROWS]]
    return {"rows": newest, "count": len(rows)}


async def matching_row_ids(services: Services, client: ClientSession, part: str) -> list[str]:
    """Return the ids of the rows whose text contains this part, ignoring case."""
    entries = await _query(services, client, ENTRIES_WITH_PART, part.lower())
    events = await _query(services, client, EVENTS_WITH_PART, part.lower())
    return sorted({evaluation or f"s{line}" for line, evaluation in entries} | {f"a{line}" for line, _ in events})


async def runs(services: Services, client: ClientSession) -> dict[str, object]:
    """Return the earlier runs, newest first: name, start, end, number of entries."""
    return {"rows": sorted(await _query(services, client, RUNS), key=lambda row: row[1], reverse=True)}


async def run(services: Services, client: ClientSession, name: str) -> dict[str, object]:
    """Return the entries of an earlier run in order: time, category, who, text."""
    rows = sorted(await _query(services, client, RUN_ENTRIES_QUERY, name))
    return {"rows": [(when, category, who, _short(text)) for _, when, category, who, text in rows]}


def evaluation_of(services: Services, row: Sequence[Any]) -> str | None:
    """Return the evaluation that a row of a query's answer refers to by an id, a line or a text, or None."""
    values = [candidate for value in row for candidate in (value.values() if isinstance(value, dict) else [value])]
    entries = services.log.entries()
    for candidate in values:
        if isinstance(candidate, str) and EVALUATION.fullmatch(candidate):
            return candidate
    lines = {value for value in values if type(value) is int}
    strings = {value for value in values if isinstance(value, str) and value}
    by_line = [entry.evaluation for entry in entries if entry.evaluation and entry.line in lines]
    by_text = [entry.evaluation for entry in reversed(entries) if entry.evaluation and entry.text in strings]
    return next(iter([*by_line, *by_text]), None)


def _short(text: str) -> str:
    return cut(text, MAX_CHARACTERS)
