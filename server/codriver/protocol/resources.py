"""Resources for clients to read: skills, the output log, and the complete text of evaluations.

* `skill://NAME/SKILL.md` and the other files of the skill
* `codriver://log`, and `codriver://log?since=LINE` for the entries after a line; a client can subscribe to the log
* `codriver://evaluation/ID/PART` where PART is `result`, `stdout`, `stderr` or `stacks`; `offset` and `limit` count
  characters of the complete text. Notes on dropped text, and on text beyond the default limit, are in `_meta` and in a
  second content `…#note`, because models rarely see `_meta`.
* `codriver://symbol/SESSION/NAMESPACE/SYMBOL`: the answer of `symbol_info`. Each part is percent-encoded separately,
  including slashes, because names may contain any character.
* resources of features
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

import anyio

from codriver.errors import RefusedError, ReplDisconnectedError, refused
from codriver.log.evaluation_transcripts import read_transcripts as read_texts
from codriver.protocol.error_messages import INVALID_PARAMS, METHOD_NOT_FOUND, RequestRefusedError
from codriver.protocol.skill_resources import GET, LIST, READ_DIRECTORY, SkillResources
from codriver.skills import LIVE_APP_SKILL, URI_PREFIX
from codriver.tools.manifest import translate_uri
from codriver.tools.symbol_info import describe_symbol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from codriver.core.state import State
    from codriver.log.evaluation_transcripts import Part
    from codriver.log.redaction import Redactor
    from codriver.net.client_sessions import ClientSession
    from codriver.server_hooks import ResourceFamily, ResourceRow
    from codriver.skills import SkillLibrary
    from codriver.tools.calls.call import Services
    from codriver.tools.calls.tool import Manifest


LOG_URI = "codriver://log"
LOG_URI_TEMPLATE = "codriver://log{?since}"
EVALUATION_URI_TEMPLATE = "codriver://evaluation/{evaluationId}/{part}{?offset,limit}"
SYMBOL_URI_TEMPLATE = "codriver://symbol/{replSessionKey}/{namespace}/{symbol}"
SKILL_URI_TEMPLATE = "skill://{skill}/SKILL.md"
EVALUATION_PARTS: tuple[Part, ...] = ("result", "stdout", "stderr", "stacks")
"""The parts of an evaluation that can be read as resources."""
MAX_LOG_ENTITIES = 500
"""Maximum number of log entries in one answer."""
DEFAULT_TEXT_CHARACTERS = 100_000
"""Number of characters of a string that are returned if `limit` is not given."""
MAX_TEXT_CHARACTERS = 16 * 2**20
"""Maximum number of characters of a string that are returned at once, because they are loaded into memory."""

NOT_FOUND_CODE = -32002
STATELESS_VERSION_PREFIX = "2026"
"""The prefix of protocol versions without a handshake."""
UNKNOWN_RESOURCE_MESSAGE = "there is no such resource. See resources/list and resources/templates/list"


RESOURCE_FIELDS = ("name", "description", "mimeType")
"""The fields of a listed resource besides its URI."""
BASE_RESOURCES = (
    (
        LOG_URI,
        "REPL output log",
        "Everything sent to or printed by the REPLs, newest last. Add ?since=LINE for later entries only.",
        "application/json",
    ),
)
"""Resources that always exist, each with its URI, name, description and media type."""
BASE_RESOURCE_TEMPLATES = (
    (
        LOG_URI_TEMPLATE,
        "REPL output log after a line",
        "Entries after the line `since`; `gap` is true if some of them have already been evicted.",
        "application/json",
    ),
    (
        EVALUATION_URI_TEMPLATE,
        "Text of an evaluation",
        "The whole result, stdout, stderr or stacks of an evaluation, or a range of its characters.",
        "text/plain",
    ),
    (
        SYMBOL_URI_TEMPLATE,
        "Symbol info",
        "What a REPL knows about a symbol in a namespace. Percent-encode each part, including slashes.",
        "application/json",
    ),
    (SKILL_URI_TEMPLATE, "Skill", "A guide for agents. resources/list lists the available guides.", "text/markdown"),
)
"""Templates of resources that always exist, in the same form as `BASE_RESOURCES`."""

META_KEY_PREFIX = "codriver/"
"""Prefix of Codriver's names in the `_meta` of content. Source: MCP, general fields, `_meta`."""


@dataclass(frozen=True, slots=True)
class ResourceContent:
    """The content of a resource, as a string, or as bytes if it is not text.

    `note` describes for the model what was left out of the text, and `about` describes it for programs.
    """

    mime_type: str
    text: str | bytes
    note: str = ""
    about: dict[str, object] = field(default_factory=dict)


class Resources:
    """The resources that a server lists, reads and completes for its clients."""

    def __init__(
        self,
        services: Services,
        manifest: Manifest,
        skills: SkillLibrary,
        redactor: Redactor,
        added: Sequence[ResourceFamily] = (),
    ) -> None:
        """Create the resources of a server. `added` are the resources that features provide."""
        self._manifest = manifest
        self._added = {(family.kind, family.parts): family for family in added}
        self._plain = frozenset(family.kind for family in added if family.has_plain_path)
        self._rows = [(*_row(row), listing.mime_type) for listing in added for row in listing.listed]
        self._template_rows = [(*_row(row), listing.mime_type) for listing in added for row in listing.templates]
        self._services = services
        self._library = skills
        self._skills = SkillResources(skills, redactor)

    async def list_resources(self, client: ClientSession) -> list[dict[str, str]]:
        """Return the resources that can be listed: the log, and the skills that this client accepts."""
        always = [
            dict(zip(("uri", *RESOURCE_FIELDS), resource, strict=True)) for resource in (*BASE_RESOURCES, *self._rows)
        ]
        if not client.accepts_skills:
            return always
        return always + await anyio.to_thread.run_sync(self._skills.list_guides, self._hidden())

    def list_templates(self, client: ClientSession) -> list[dict[str, str]]:
        """Return the templates of resources that are too numerous to list."""
        every = (*BASE_RESOURCE_TEMPLATES, *self._template_rows)
        families = every if client.accepts_skills else [item for item in every if item[0] != SKILL_URI_TEMPLATE]
        return [dict(zip(("uriTemplate", *RESOURCE_FIELDS), family, strict=True)) for family in families]

    async def list_skills(self, client: ClientSession, cursor: str | None) -> dict[str, Any]:
        """Return a page of the skills for a client.

        Raises:
            RequestRefusedError: the client does not get skills from this server, or the cursor is unknown.
        """
        self._check_accepts_skills(client, LIST)
        return await anyio.to_thread.run_sync(self._skills.list_skills, cursor, self._hidden())

    async def get_skill(self, client: ClientSession, uri: str) -> dict[str, Any]:
        """Return a skill by the URI of its guide.

        Raises:
            RequestRefusedError: the client does not get skills from this server, or there is no such skill.
        """
        self._check_accepts_skills(client, GET)
        return await anyio.to_thread.run_sync(self._skills.get_skill, uri)

    async def read_directory(self, client: ClientSession, uri: str, cursor: str | None) -> dict[str, Any]:
        """Return a page of the entries of a directory.

        Raises:
            RequestRefusedError: the client does not get skills, there is no such directory, or the cursor is unknown.
        """
        self._check_accepts_skills(client, READ_DIRECTORY)
        return await anyio.to_thread.run_sync(self._skills.read_directory, uri, cursor)

    def _check_accepts_skills(self, client: ClientSession, method: str) -> None:
        if not client.accepts_skills:
            raise RequestRefusedError(METHOD_NOT_FOUND, f"there is no method {method!r}", method)

    def _hidden(self) -> tuple[str, ...]:
        return hidden_skills(self._services.core.state, self._manifest)

    async def read(self, uri: str, protocol: str, client: ClientSession) -> ResourceContent:
        """Return the content of a resource.

        Raises:
            RequestRefusedError: there is no such resource. The error code depends on the protocol version.
        """
        uri = self._translate_uri(uri)
        try:
            if is_skill(uri) and client.accepts_skills:
                return ResourceContent(*await anyio.to_thread.run_sync(self._skills.read, uri))
            split = urlsplit(uri)
            query = {key: values[0] for key, values in parse_qs(split.query).items()}
            parts = [unquote(part, errors="strict") for part in split.path.split("/")[1:]]
            match (split.scheme, split.netloc, *parts):
                case ("codriver", "log") | ("codriver", "log", ""):
                    return ResourceContent("application/json", self._log(query))
                case ("codriver", "evaluation", identity, part):
                    return await self._text(identity, part, query)
                case ("codriver", "symbol", key, namespace, symbol):
                    return _json(await describe_symbol(self._services, key, namespace, symbol))
                case ("codriver", kind, *given) if family := self._find_family(kind, given):
                    text = await family.read(self._services, client, [item for item in given if item], query)
                    return ResourceContent(family.mime_type, text)
        except RefusedError as error:
            raise _not_found_error(f"{error.message}: {error.hint}", uri, protocol) from error
        except ReplDisconnectedError as error:
            raise _not_found_error(str(error), uri, protocol) from error
        except UnicodeDecodeError as error:
            raise RequestRefusedError(INVALID_PARAMS, "a part of the URI is not percent-encoded UTF-8") from error
        except ValueError as error:
            raise RequestRefusedError(
                INVALID_PARAMS, f"since, offset and limit must be whole numbers: {error}"
            ) from error
        raise _not_found_error(UNKNOWN_RESOURCE_MESSAGE, uri, protocol)

    def _translate_uri(self, uri: str) -> str:
        """Translate a Backseat Driver URI to a Codriver URI. Other URIs are returned unchanged."""
        name = uri.removeprefix(URI_PREFIX).partition("/")[0] if is_skill(uri) else ""
        return uri if any(skill.id == name for skill in self._library.skills()) else translate_uri(uri, self._plain)

    def _find_family(self, kind: str, parts: Sequence[str]) -> ResourceFamily | None:
        """Return the resource family of a feature that a URI belongs to, or None.

        The last part of the URI may be empty.
        """
        return self._added.get((kind, len(parts) - 1 if parts and not parts[-1] else len(parts)))

    async def check_exists(self, uri: str, protocol: str, client: ClientSession) -> None:
        """Check that a resource exists, without using a REPL or the network. Skills are read from disk.

        Raises:
            RequestRefusedError: there is no such resource. The error code depends on the protocol version.
        """
        uri = self._translate_uri(uri)
        split = urlsplit(uri)
        try:
            if is_skill(uri) and client.accepts_skills:
                await anyio.to_thread.run_sync(self._skills.read, uri)
                return
            match (split.scheme, split.netloc, *split.path.split("/")[1:]):
                case ("codriver", "log") | ("codriver", "log", ""):
                    return
                case ("codriver", "symbol", _, _, _):
                    return
                case ("codriver", kind, *given) if self._find_family(kind, given):
                    return
                case ("codriver", "evaluation", identity, part):
                    if part in EVALUATION_PARTS and self._services.transcripts.get(unquote(identity)) is not None:
                        return
        except RefusedError as error:
            raise _not_found_error(f"{error.message}: {error.hint}", uri, protocol) from error
        raise _not_found_error(UNKNOWN_RESOURCE_MESSAGE, uri, protocol)

    def _log(self, query: dict[str, str]) -> str:
        log = self._services.log
        since = int(query["since"]) if "since" in query else None
        entries = log.entries(since=since, limit=MAX_LOG_ENTITIES)
        is_cut = len(entries) == MAX_LOG_ENTITIES and entries[0].line > (log.first_line or 0)
        last_missing_line = entries[0].line - 1 if is_cut else log.last_evicted_line
        gap = since is not None and last_missing_line > since
        window = {
            "entities": [entry.to_json() for entry in entries],
            "count": len(entries),
            "firstLine": log.first_line,
            "lastLine": log.last_line,
            "gap": gap,
        }
        return json.dumps(window, ensure_ascii=False)

    async def _text(self, identity: str, part: str, query: dict[str, str]) -> ResourceContent:
        """Return a part of an evaluation's text, such as `stdout`. The query may have an `offset` and a `limit`."""
        transcript = self._services.transcripts.get(identity)
        chosen = next((name for name in EVALUATION_PARTS if name == part), None)
        if transcript is None or chosen is None:
            raise refused(
                "forgotten",
                f"there is no evaluation {identity!r} with the text {part!r}",
                hint="The parts are result, stdout, stderr and stacks. The text of old evaluations is discarded.",
            )
        offset, limit = max(0, int(query.get("offset", 0))), max(0, int(query.get("limit", DEFAULT_TEXT_CHARACTERS)))
        given = min(limit, MAX_TEXT_CHARACTERS)
        part_read = await read_texts(partial(transcript.chunk, chosen, offset, given), transcript)
        about: dict[str, object] = {}
        notes: list[str] = []
        if offset < part_read.dropped:
            about[f"{META_KEY_PREFIX}dropped"] = {"from": offset, "to": part_read.dropped}
            notes.append(f"characters {offset} to {part_read.dropped} were dropped {transcript.loss_reason}")
        end = part_read.start + len(part_read.text)
        if ("limit" not in query or given < limit) and end < part_read.total:
            about |= {f"{META_KEY_PREFIX}totalCharacters": part_read.total, f"{META_KEY_PREFIX}nextOffset": end}
            notes.append(f"the text has {part_read.total} characters: continue with ?offset={end}")
        return ResourceContent("text/plain", part_read.text, "; ".join(notes), about)


def hidden_skills(state: State, manifest: Manifest) -> tuple[str, ...]:
    """Return the skills that should not be listed now: the one about applications, if there is no application."""
    tool = manifest.by_name.get(manifest.guides.get(LIVE_APP_SKILL, ""))
    return () if tool is not None and state.expected_capabilities().intersection(tool.needs) else (LIVE_APP_SKILL,)


def is_skill(uri: str) -> bool:
    """Return whether a URI identifies a file of a skill."""
    return uri.startswith(URI_PREFIX)


def _row(row: ResourceRow) -> tuple[str, str, str]:
    return row.uri, row.title, row.description


def _json(fields: Mapping[str, object]) -> ResourceContent:
    return ResourceContent("application/json", json.dumps(fields, ensure_ascii=False))


def _not_found_error(text: str, uri: str, protocol: str) -> RequestRefusedError:
    # The code for a resource that does not exist changed in the 2026 version.
    return RequestRefusedError(
        INVALID_PARAMS if protocol.startswith(STATELESS_VERSION_PREFIX) else NOT_FOUND_CODE, text, {"uri": uri}
    )
