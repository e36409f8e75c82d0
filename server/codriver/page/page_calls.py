"""The calls that the page makes: a few tools, and what they do not give, each with its answer as JSON.

Whatever it asks is asked as `human`, by the tools and through the same doors as an agent's calls, and what it does
stands in the log. It evaluates nothing.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import anyio

from codriver.core.recent import Recent
from codriver.page import page_questions
from codriver.page.markdown_blocks import blocks
from codriver.page.page_admission import FRAMES
from codriver.systems.programs import typed
from codriver.tools.truth.live_handoff import handoff

if TYPE_CHECKING:
    from collections.abc import Mapping

    from codriver.net.client_sessions import ClientSession
    from codriver.protocol.calls import Caller
    from codriver.tools.calls.base import Services

LOOKS: Final = frozenset(
    {
        "get_evaluation",
        "inspect_app",
        "repl_output_log",
        "what_changed",
    }
)
ACTS: Final = frozenset({"interrupt_evaluation", "send_input"})
"""The two buttons."""
HANDOFF_S: Final = 10.0
HANDOFF_BYTES: Final = 16_000
TITLE: Final = re.compile(r"([A-Z][^:]{1,60}): (.*)")
MOST_FRAMES: Final = 64
FRAME_S: Final = 60.0
"""How long the address of a table holds, until it is used."""
MOST_SHOWN_CHARACTERS: Final = 2**18
SHOWN_S: Final = 20.0
"""How long a REPL that is busy is waited for."""
HTML: Final = "text/html"
MARKDOWN: Final = "text/markdown"
SHOWN: Final = MappingProxyType({HTML: "address", MARKDOWN: "markdown", "text/latex": "latex"})
"""The kinds of values that the page shows as more than text, and the field of each."""
FRAME_HEAD: Final = (
    '<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><style>'
    "body{font:13px system-ui,sans-serif;margin:8px}table{border-collapse:collapse;border:0}"
    "th,td{padding:4px 10px;border:0;border-bottom:1px solid #8884;text-align:right}"
    "th{font-weight:600}tbody tr:hover{background:#8881}</style>\n"
)
"""In front of a table, whose own styles come after: without any of its own it looks like the page."""


class UnknownCallError(Exception):
    """The page asked for what there is not."""


class PageCalls:
    """The calls of all pages of one server, for the life of its listener."""

    def __init__(self, services: Services, caller: Caller) -> None:
        self._services = services
        self._caller = caller
        self._frames: Recent[str, tuple[float, str]] = Recent(MOST_FRAMES)
        """By address: when it was given out, and what is to be shown there, once."""

    async def answer(self, name: str, arguments: dict[str, Any], client: ClientSession) -> str:
        """The answer to a call, as JSON.

        Raises:
            UnknownCallError: there is no such call.
        """
        if name in LOOKS or name in ACTS:
            return await self._tool(name, arguments, client)
        fields = await self._asked(name, arguments, client)
        if fields is None:
            raise UnknownCallError(name)
        return self._caller.text_of(fields)

    async def _asked(self, name: str, given: dict[str, Any], client: ClientSession) -> Mapping[str, object] | None:
        """The fields of an answer to what no tool answers; None where there is no such call."""
        services, evaluation = self._services, str(given.get("evaluation"))
        match name:
            case "code":
                return self._code(evaluation)
            case "diffs":
                found = services.ledger.diffs.of_line(int(given.get("line", 0)))
                return {"files": [{"file": file, "diff": diff} for file, diff in found]}
            case "shown":
                return await self._shown(evaluation, client)
            case "handoff":
                return await self._handoff(client)
            case "examples":
                return {"examples": page_questions.EXAMPLES}
            case "lead":
                return {"evaluation": page_questions.evaluation_of(services, list(given.get("row", ())))}
            case "history":
                here = typed(["--workspace", str(services.workspace)])
                found_code = await page_questions.history(services, client, str(given.get("part", "")))
                return {**found_code, "forget": f"codriver stop {here} && codriver forget history {here}"}
            case "runs":
                return await page_questions.runs(services, client)
            case "run":
                return await page_questions.run(services, client, str(given.get("run")))
        return None

    def frame(self, path: str) -> bytes | None:
        """The document at the address of a table, which holds no longer; None where there is none."""
        given_at, text = self._frames.pop(path, (0.0, ""))
        return text.encode("utf-8", "replace") if text and time.monotonic() - given_at < FRAME_S else None

    async def _tool(self, name: str, arguments: dict[str, Any], client: ClientSession) -> str:
        found = self._caller.find(client, name, arguments)
        if found is None:
            raise UnknownCallError(name)
        tool, given = found
        if name in ACTS:
            given = {**given, "who": HUMAN}
        answered = await self._caller.run(client, tool, given, _ignore)
        if answered.handed_out is not None:
            answered.handed_out()
        images = [{"mimeType": one.mime_type, "data": one.data} for one in answered.images]
        return f'{{"answer":{answered.text},"images":{json.dumps(images)}}}'

    def _code(self, evaluation: str) -> dict[str, object]:
        """The code of an evaluation, whole, and what the log says of it besides."""
        entries = self._services.log.entries(evaluation=evaluation)
        code = [entry.text for entry in entries if entry.category == "evaluatedCode"]
        said = [entry.text for entry in entries if entry.category.startswith("other")]
        return {"code": code[0] if code else None, "said": said[:20], "lines": [entry.line for entry in entries[:1]]}

    async def _shown(self, evaluation: str, client: ClientSession) -> dict[str, object]:
        """The value of an evaluation in what can be shown of it but text and pictures.

        A table as the address at which it can be seen once, and how many rows it has; Markdown and LaTeX as texts.
        """
        found: dict[str, object] = {}
        with anyio.move_on_after(SHOWN_S):
            await self._add_shown(found, evaluation, client)
        return found

    async def _add_shown(self, found: dict[str, object], evaluation: str, client: ClientSession) -> None:
        for kind, name in SHOWN.items():
            asked = {"evaluationId": evaluation, "path": [kind], "length": MOST_SHOWN_CHARACTERS}
            answer = json.loads(await self._tool("get_evaluation", asked, client))["answer"]
            text = answer.get("result") if answer.get("ok") else None
            if not isinstance(text, str) or not text.strip():
                continue
            if kind == HTML:
                found["lines"] = text.count("<tr")
                found["address"] = self._framed(text)
            else:
                found[name] = blocks(text) if kind == MARKDOWN else text

    def _framed(self, html: str) -> str:
        """The address at which this can be seen, once."""
        address = f"{FRAMES}{secrets.token_urlsafe(24)}"
        self._frames[address] = time.monotonic(), FRAME_HEAD + html
        return address

    async def _handoff(self, client: ClientSession) -> dict[str, object]:
        """The handoff: its text, its first line, and of each line behind it the title, if it has one, and the parts."""
        text = await handoff(
            self._services, HUMAN, client=client.id, is_for_another=False, wait_s=HANDOFF_S, most_bytes=HANDOFF_BYTES
        )
        first, *lines = text.splitlines() or [""]
        titled = [TITLE.fullmatch(line) or ("", "", line) for line in lines]
        return {"text": text, "first": first, "sections": [(one[1], one[2].split("; ")) for one in titled]}


HUMAN: Final = "human"
"""The `who` of whoever looks at the page."""


async def _ignore(_elapsed_s: float, _words: str) -> None:
    """The page asks for no progress."""
