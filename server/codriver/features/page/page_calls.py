"""Handle calls from the page's scripts. The answers are JSON.

The page calls tools as `human`, through the same checks as an agent, and its actions are recorded in the log. It cannot
evaluate code.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.log_facts import decode_facts
from codriver.core.records import Recent
from codriver.features.handoff.live_handoff import write_handoff
from codriver.features.page.markdown_blocks import parse_markdown_blocks
from codriver.features.page.page_admission import FRAME_PATH_PREFIX
from codriver.features.page.page_queries import (
    EXAMPLE_QUERIES,
    evaluation_of_row,
    list_runs,
    matching_row_ids,
    read_run_entries,
    search_history,
)
from codriver.features.page.table_markup import remove_external_references
from codriver.systems.programs import quote_command_line

if TYPE_CHECKING:
    from collections.abc import Mapping

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
"""The tools that the page may call to read the server's state."""
ACTING_TOOLS: Final = frozenset({"interrupt_evaluation", "send_input"})
"""The tools behind the page's two buttons."""
HANDOFF_TIMEOUT_S: Final = 10.0
"""Time limit for creating the handoff."""
MAX_HANDOFF_BYTES: Final = 16_000
"""Maximum size of the handoff on the page."""
TITLED_LINE: Final = re.compile(r"([A-Z][^:]{1,60}): (.*)")
"""Matches a line of the handoff. The groups are its title and its parts."""
MAX_VALID_FRAMES: Final = 64
"""Maximum number of tables, each in a frame of its own, whose addresses are valid at the same time."""
FRAME_LIFETIME_S: Final = 60.0
"""How long an unused table address remains valid."""
MAX_DISPLAY_CHARACTERS: Final = 2**18
"""Maximum length of a table or a Markdown or LaTeX text that the page displays."""
DISPLAY_TIMEOUT_S: Final = 20.0
"""How long to wait for a busy REPL to return a value in other formats."""
HTML_TYPE: Final = "text/html"
MARKDOWN_TYPE: Final = "text/markdown"
DISPLAY_FIELDS: Final = MappingProxyType({HTML_TYPE: "address", MARKDOWN_TYPE: "markdown", "text/latex": "latex"})
"""Maps media types that the page displays, in addition to text and images, to the fields of the answer for them."""
FRAME_HEAD: Final = (
    '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><style>'
    "body{font:13px system-ui,sans-serif;margin:8px}table{border-collapse:collapse;border:0}"
    "th,td{padding:4px 10px;border:0;border-bottom:1px solid #8884;text-align:right}"
    "th{font-weight:600}tbody tr:hover{background:#8881}</style>\n"
)
"""The start of a table's document, which makes it look like the page. The table's own styles follow."""


class UnknownCallError(Exception):
    """Raised when the page makes a call that does not exist."""


class PageCalls:
    """Answers the calls that the page's scripts make to the server."""

    def __init__(self, services: Services, caller: ToolRunner) -> None:
        self._services = services
        self._caller = caller
        self._frames: Recent[str, tuple[float, str]] = Recent(MAX_VALID_FRAMES)
        """Tables by address, with the time when the address was created. Each can be displayed once."""

    async def answer(self, name: str, body: RequestBody, client: ClientSession) -> str:
        """Return the answer to a call as JSON.

        Raises:
            UnknownCallError: no call has this name.
            BadBodyError: an argument has the wrong type.
        """
        if name in READING_TOOLS or name in ACTING_TOOLS:
            return await self._call_tool(name, dict(body.members), client)
        fields = await self._answer_data(name, body, client)
        if fields is None:
            raise UnknownCallError(name)
        return self._caller.encode_redacted(fields)

    async def _answer_data(self, name: str, body: RequestBody, client: ClientSession) -> Mapping[str, object] | None:
        """Return data for the page that no tool provides, or None if there is no such call."""
        services = self._services
        match name:
            case "code":
                return self._code(body.text("evaluation"))
            case "diffs":
                line = body.number("line")
                entries = services.log.entries(since=line - 1, until=line)
                return {"files": [file for entry in entries for file in decode_facts(entry).get("files", ())]}
            case "rich-formats":
                return await self._rich_formats(body.text("evaluation"), client)
            case "handoff":
                return await self._handoff(client)
            case "examples":
                return {"examples": EXAMPLE_QUERIES}
            case "lead":
                return {"evaluation": evaluation_of_row(services, body.items("row"))}
            case "search":
                return {"ids": await matching_row_ids(services, client, body.text("part"))}
            case "history":
                workspace_option = quote_command_line(["--workspace", str(services.workspace)])
                found_code = await search_history(services, client, body.text("part"))
                return {
                    **found_code,
                    "forget": f"codriver stop {workspace_option} && codriver forget history {workspace_option}",
                }
            case "runs":
                return await list_runs(services, client)
            case "run":
                return await read_run_entries(services, client, body.text("run"))
        return None

    def pop_frame(self, path: str) -> bytes | None:
        """Return the document at an address, and invalidate the address. Return None for an unknown address."""
        given_at, text = self._frames.pop(path, (0.0, ""))
        return text.encode("utf-8", "replace") if text and time.monotonic() - given_at < FRAME_LIFETIME_S else None

    async def _call_tool(self, name: str, arguments: dict[str, Any], client: ClientSession) -> str:
        """Call a tool for the page, and return its answer with the images as JSON.

        Raises:
            UnknownCallError: the page may not call this tool.
        """
        found = self._caller.find(name, arguments)
        if found is None:
            raise UnknownCallError(name)
        tool, given = found
        if name in ACTING_TOOLS:
            given = {**given, "who": HUMAN_CALLER}
        answered = await self._caller.run(client, tool, given, _ignore)
        if answered.handed_out is not None:
            answered.handed_out()
        images = [{"mimeType": image.mime_type, "data": image.data} for image in answered.images]
        return f'{{"answer":{answered.text},"images":{json.dumps(images)}}}'

    def _code(self, evaluation: str) -> dict[str, object]:
        """Return the complete code of an evaluation, and the other log entries about it."""
        entries = self._services.log.entries(evaluation=evaluation)
        code = [entry.text for entry in entries if entry.category == "evaluatedCode"]
        other_output = [entry.text for entry in entries if entry.category.startswith("other")]
        return {
            "code": code[0] if code else None,
            "otherOutput": other_output[:20],
            "lines": [entry.line for entry in entries[:1]],
        }

    async def _rich_formats(self, evaluation: str, client: ClientSession) -> dict[str, object]:
        """Return the value of an evaluation in formats other than text and images.

        A table is represented by a one-time address and its number of rows. Markdown and LaTeX are returned as text.
        """
        found: dict[str, object] = {}
        with anyio.move_on_after(DISPLAY_TIMEOUT_S):
            await self._add_rich_formats(found, evaluation, client)
        return found

    async def _add_rich_formats(self, found: dict[str, object], evaluation: str, client: ClientSession) -> None:
        for kind, name in DISPLAY_FIELDS.items():
            arguments = {"evaluationId": evaluation, "path": [kind], "length": MAX_DISPLAY_CHARACTERS}
            answer = json.loads(await self._call_tool("get_evaluation", arguments, client))["answer"]
            text = answer.get("result") if answer.get("ok") else None
            if not isinstance(text, str) or not text.strip():
                continue
            if kind == HTML_TYPE:
                found["lines"] = text.count("<tr")
                found["address"] = self._store_frame(text)
            else:
                found[name] = parse_markdown_blocks(text) if kind == MARKDOWN_TYPE else text

    def _store_frame(self, html: str) -> str:
        """Store a document, and return an address where it can be displayed once."""
        address = f"{FRAME_PATH_PREFIX}{secrets.token_urlsafe(24)}"
        self._frames[address] = time.monotonic(), FRAME_HEAD + remove_external_references(html)
        return address

    async def _handoff(self, client: ClientSession) -> dict[str, object]:
        """Return the text of the handoff, its first line, and the title and parts of each other line."""
        text = await write_handoff(
            self._services,
            HUMAN_CALLER,
            client=client.id,
            is_for_another=False,
            wait_s=HANDOFF_TIMEOUT_S,
            most_bytes=MAX_HANDOFF_BYTES,
        )
        first, *lines = text.splitlines() or [""]
        titled = [TITLED_LINE.fullmatch(line) or ("", "", line) for line in lines]
        return {"text": text, "first": first, "sections": [(section[1], section[2].split("; ")) for section in titled]}


HUMAN_CALLER: Final = "human"
"""The value of `who` for the person at the page."""


async def _ignore(_elapsed_s: float, _words: str) -> None:
    """Ignore progress, which the page does not display."""
