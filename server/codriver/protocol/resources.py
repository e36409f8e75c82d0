"""What clients can read: the skills, the output log, and the whole text of an evaluation, in parts.

* `skill://NAME/SKILL.md` and its siblings, `skill://index.json`
* `codriver://log`, and `codriver://log?since=LINE` for what came after a line; a client can subscribe to it
* `codriver://evaluation/ID/PART` where PART is `result`, `stdout` or `stderr`; `?offset=` and `limit=` count characters
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import mcp_types as types
from mcp.shared.exceptions import MCPError

from codriver.errors import RefusedError

if TYPE_CHECKING:
    from codriver.skills import SkillLibrary
    from codriver.tools.base import Services
    from codriver.transcripts import Part

LOG_URI = "codriver://log"
PARTS: tuple[Part, ...] = ("result", "stdout", "stderr")
LOG_ENTITIES = 500
TEXT_CHARACTERS = 100_000

NOT_FOUND = -32002
INVALID_PARAMS = -32602
NEWER = "2026"


class Resources:
    """The resources of one server."""

    def __init__(self, services: Services, skills: SkillLibrary) -> None:
        self._services = services
        self._skills = skills

    def listed(self) -> list[types.Resource]:
        """The resources there are now: the log, and the skills on offer."""
        log = types.Resource(
            uri=LOG_URI,
            name="REPL output log",
            description="What passed through the REPLs, newest last. Add ?since=LINE for what came after a line.",
            mime_type="application/json",
        )
        skills = [
            types.Resource(uri=entry.uri, name=entry.name, description=entry.description, mime_type=entry.mime_type)
            for entry in self._skills.list()
        ]
        return [log, *skills]

    def templates(self) -> list[types.ResourceTemplate]:
        """The families of resources that are too many to list."""
        return [
            types.ResourceTemplate(
                uri_template="codriver://log{?since}",
                name="REPL output log from a line on",
                description="Entities with a line above `since`; `gap` is true when some of them are evicted already.",
                mime_type="application/json",
            ),
            types.ResourceTemplate(
                uri_template="codriver://evaluation/{evaluationId}/{part}{?offset,limit}",
                name="Text of an evaluation",
                description="The whole result, stdout or stderr of an evaluation, or a part of it in characters.",
                mime_type="text/plain",
            ),
        ]

    def read(self, uri: str, protocol: str) -> tuple[str, str]:
        """The MIME type and the text of a resource.

        Raises:
            MCPError: there is none, said with the code of the client's protocol version.
        """
        try:
            if uri.startswith("skill://"):
                return self._skills.read(uri)
            split = urlsplit(uri)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            if split.scheme == "codriver" and split.netloc == "log" and split.path in ("", "/"):
                return "application/json", self._log(query)
            if split.scheme == "codriver" and split.netloc == "evaluation":
                return "text/plain", self._text(split.path, query)
        except RefusedError as error:
            raise _missing(f"{error.message}: {error.hint}", uri, protocol) from error
        except ValueError as error:
            raise MCPError(INVALID_PARAMS, f"since, offset and limit are whole numbers: {error}") from error
        raise _missing("there is no such resource: resources/list and resources/templates/list tell", uri, protocol)

    def _log(self, query: dict[str, str]) -> str:
        log = self._services.log
        since = int(query["since"]) if "since" in query else None
        entries = log.entries(since=since, limit=LOG_ENTITIES)
        held = entries[0].line if entries else log.next_line
        gap = since is not None and held > since + 1
        shown = {
            "entities": [entry.to_json() for entry in entries],
            "count": len(entries),
            "firstLine": log.first_line,
            "lastLine": log.last_line,
            "gap": gap,
        }
        return json.dumps(shown, ensure_ascii=False)

    def _text(self, path: str, query: dict[str, str]) -> str:
        identity, _, part = path.strip("/").partition("/")
        transcript = self._services.transcripts.get(identity)
        chosen = next((name for name in PARTS if name == part), None)
        if transcript is None or chosen is None:
            raise RefusedError(
                f"no text {part!r} of an evaluation {identity!r} is held",
                hint="parts are result, stdout and stderr; texts of old evaluations are forgotten",
            )
        offset, limit = int(query.get("offset", 0)), int(query.get("limit", TEXT_CHARACTERS))
        return transcript.part(chosen)[max(0, offset) : max(0, offset) + max(0, limit)]


def _missing(text: str, uri: str, protocol: str) -> MCPError:
    # The code for a resource that is not there moved in the version of 2026.
    return MCPError(INVALID_PARAMS if protocol.startswith(NEWER) else NOT_FOUND, text, {"uri": uri})
